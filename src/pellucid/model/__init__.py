"""The Transformer, and nothing else: integers in, logits out, every tensor on the way visible."""

from pellucid.model.config import PRESETS, ModelConfig
from pellucid.model.transformer import Memory, Transformer

__all__ = ["PRESETS", "Memory", "ModelConfig", "Transformer"]
