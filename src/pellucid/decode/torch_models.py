"""The models of a translator: one, or several that translate together, whose weights are read when they are needed."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from functools import cached_property
from typing import TYPE_CHECKING

from pellucid.data.tokenizer import Tokenizer
from pellucid.store.directory import Bundle

if TYPE_CHECKING:
    from pellucid.decode.torch_engine import TorchEngine
    from pellucid.model import Transformer


class TorchModels:
    """One model, or an ensemble of several with the same tokenizer.

    The weights of a `Bundle` are read, and torch is imported, only when something needs them:
    another engine than torch may answer most requests without. On another `device` than the CPU
    copies of the models run. The tokens `forbidden` are never written.
    """

    def __init__(
        self,
        models: "Sequence[Transformer | Bundle]",
        tokenizer: Tokenizer,
        forbidden: tuple[int, ...],
    ):
        self.models_or_bundles = models
        self.tokenizer = tokenizer
        self.forbidden = forbidden
        self.device = "cpu"
        # torch's threads spin while they wait for one another: with more of them it takes four
        # times as long there.
        self.threads: int | None = None
        """Threads for torch beside an engine whose workers keep the processors busy; None leaves torch's own number."""

    @property
    def is_ensemble(self) -> bool:
        """Whether several models translate together."""
        return len(self.models_or_bundles) > 1

    @property
    def max_positions(self) -> int:
        """Tokens of the longest text that all of them take."""
        return min(model.config.max_positions for model in self.models_or_bundles)

    @cached_property
    def loaded(self) -> "list[Transformer]":
        """The models, with the weights of every bundle read."""
        models = []
        for item in self.models_or_bundles:
            model = item.model if isinstance(item, Bundle) else item
            models.append(model if self.device == "cpu" else copy_to_device(model, self.device))
        return models

    @cached_property
    def engine(self) -> "TorchEngine":
        """Engine that runs the models themselves, and can do everything an engine is asked for."""
        import torch

        from pellucid.decode.torch_engine import TorchEngine

        if self.threads is not None:
            torch.set_num_threads(self.threads)
        return TorchEngine(self.loaded, self.forbidden, self.tokenizer)

    def inference(self) -> AbstractContextManager[None]:
        """Return a context for inference: no dropout and no gradients."""
        # `self.loaded` would read the weights; a model whose weights are not read is not in
        # training either.
        unloaded = any(isinstance(item, Bundle) and item.is_unloaded for item in self.models_or_bundles)
        return nullcontext() if unloaded else inference_only(*self.loaded)

    def refuse_damaged(self) -> None:
        """Raise ValueError for weights that are infinite or NaN."""
        from pellucid.store.weights import refuse_non_finite

        for model in self.loaded:
            refuse_non_finite(dict(model.named_parameters()), "the model is damaged: it")


def copy_to_device(model: "Transformer", device: str) -> "Transformer":
    """Return a copy of a model on another device; the model itself stays where it is, for those who look into it."""
    return deepcopy(model).to(device)


@contextmanager
def inference_only(*models: "Transformer") -> Iterator[None]:
    """Run the block without dropout and gradients, then put models that were in training mode back into it."""
    import torch

    training = [model for model in models if model.training]
    for model in training:
        model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for model in training:
            model.train()
