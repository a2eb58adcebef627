"""A Transformer you can see through: train, translate, serve and inspect one on your own sentence pairs."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pellucid.api import Model as Model
    from pellucid.api import load as load
    from pellucid.api import train as train

__all__ = ["Model", "load", "train"]


def __getattr__(name: str) -> Any:
    # torch is loaded when the first of these names is used, not by `import pellucid`.
    if name in __all__:
        from pellucid import api

        return getattr(api, name)
    raise AttributeError(f"module 'pellucid' has no attribute {name!r}; it has {', '.join(__all__)}")
