"""A Transformer you can see through: train, translate, serve and inspect one on your own sentence pairs."""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from pellucid.api import Model as Model
    from pellucid.api import load as load
    from pellucid.api import train as train  # pyright: ignore[reportAssignmentType]
    from pellucid.translation_pipeline import pipeline as pipeline

__all__ = ["Model", "load", "pipeline", "train"]


class _Package(ModuleType):
    # The function `train` and the package train/ share a name, and importing a package sets it as an attribute of its
    # parent. A property with a setter that does nothing keeps the function.

    @property
    def train(self) -> Any:
        from pellucid import api

        return api.train

    @train.setter
    def train(self, folder: ModuleType) -> None:
        pass


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    # importlib.metadata and torch are loaded when these names are used, not by `import pellucid`.
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("pellucid")
        except PackageNotFoundError:
            return "0+source"  # run from its source and not installed; PEP 440 reads this, too
    if name == "pipeline":
        from pellucid.translation_pipeline import pipeline

        return pipeline
    if name in __all__:
        from pellucid import api

        return getattr(api, name)
    raise AttributeError(f"module 'pellucid' has no attribute {name!r}; it has {', '.join(__all__)}")
