"""The result of a check, and the captured run it looks at: numbers of one sentence, their model and the search."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import Any

import numpy as np
import torch

from pellucid.model import ModelConfig, Transformer
from pellucid.model.known_parts import unknown_parts
from pellucid.trace.facts import DecodingStep, SearchTree


@dataclass(frozen=True)
class Check:
    """One thing that was checked: the number measured, its limit, and what it means in a sentence.

    A check that could not be made has neither `value` nor `limit`, counts as passed, and says why.
    """

    name: str
    passed: bool
    value: float | None
    limit: float | None
    means: str

    def as_json(self) -> dict[str, Any]:
        """Return the check as `Check` of web/src/types.ts; infinities and NaN, which JSON lacks, become None."""
        numbers = {"value": self.value, "limit": self.limit}
        return {
            **asdict(self),
            **{k: number if number is not None and isfinite(number) else None for k, number in numbers.items()},
        }


def check_at_most(limit: float, name: str, value: float, means: str) -> Check:
    """Return a check that passes when `value` is finite and at most `limit`."""
    # NaN <= limit is false; infinity is excluded even where the limit itself is infinite.
    return Check(name, bool(value <= limit and isfinite(value)), float(value), float(limit), means)


def check_not_made(name: str, why: str) -> Check:
    """Return a check that could not be made here, with the reason."""
    return Check(name, True, None, None, f"Not checked: {why}.")


@dataclass(frozen=True)
class CapturedRun:
    """A run as the checks see it. Arrays have no batch axis; a tensor that was not captured is not in `tensors`.

    `source`, `inputs` and `target` are ids: what the encoder read, what the decoder read, what it wrote. `replaced`
    names the tensors that an edit replaced. Without a `model`, nothing can be run again.
    """

    config: ModelConfig
    tensors: Mapping[str, np.ndarray]
    source: Sequence[int]
    inputs: Sequence[int]
    target: Sequence[int]
    model: Transformer | None = None
    replaced: frozenset[str] = frozenset()
    steps: Sequence[DecodingStep] = ()
    tree: SearchTree | None = None
    hashes: Mapping[str, str] = field(default_factory=dict)
    pieces: Callable[[Sequence[int]], list[str]] = lambda ids: [str(token) for token in ids]

    @property
    def rounding(self) -> float:
        """Largest difference to expect between two ways of computing a number, relative to the largest of its kind."""
        return 1e-10 if all(x.dtype in (np.float64, np.bool_) for x in self.tensors.values()) else 1e-5

    def why_not_checked(
        self, *names: str, edits: bool = False, model: bool = False, formulas: bool = False
    ) -> str | None:
        """Return the reason why a check that needs these tensors cannot be made; None if it can.

        With `edits`, replaced tensors prevent it; with `model`, it needs the model; with `formulas`, it also needs to
        know every module of the model, because it computes them again.
        """
        if edits and self.replaced:
            return f"an edit stands in {list_first_names(self.replaced)}"
        if (model or formulas) and self.model is None:
            return "the model is not at hand, only what was captured of it"
        if formulas and self.model is not None and (foreign := unknown_parts(self.model)):
            return f"the model has a part of its own, which is not computed again here: {foreign[0]}"
        missing = [name for name in names if name not in self.tensors]
        return f"{list_first_names(missing)} not captured" if missing else None

    def parameter(self, name: str) -> np.ndarray:
        """Return a weight by its name."""
        assert self.model is not None
        return self.model.get_parameter(name).detach().cpu().numpy()

    def as_batch(self, ids: Iterable[int]) -> torch.Tensor:
        """Return ids as a batch of one sentence, on the model's device."""
        assert self.model is not None
        return torch.tensor([list(ids)], device=self.model.output_embedding.weight.device)


def list_first_names(names: Collection[str]) -> str:
    """List the first two names, and how many more there are.

    >>> list_first_names(["a", "b", "c", "d"])
    'a, b and 2 more'
    """
    first, more = sorted(names)[:2], len(names) - 2
    return ", ".join(first) + (f" and {more} more" if more > 0 else "")
