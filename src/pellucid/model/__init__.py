"""The Transformer model: token ids in, logits out, every tensor on the way visible."""

from typing import TYPE_CHECKING, Any

from pellucid.model.config import PRESETS as PRESETS
from pellucid.model.config import ModelConfig as ModelConfig

if TYPE_CHECKING:
    from pellucid.model.transformer import Memory as Memory
    from pellucid.model.transformer import Transformer as Transformer


def __getattr__(name: str) -> Any:
    # Only when a class is asked for: `pellucid.model.config` is read where torch is not needed.
    if name not in ("Memory", "Transformer"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pellucid.model import transformer

    return getattr(transformer, name)
