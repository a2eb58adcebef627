"""The Transformer model: token ids in, logits out, every tensor on the way visible."""

from pellucid.model.transformer import Memory, Transformer
from pellucid.sizes import PRESETS, ModelConfig

__all__ = ["PRESETS", "Memory", "ModelConfig", "Transformer"]
