"""A check and what it looks at: the captured numbers of one sentence, the model they came from, the search."""

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
    """One thing that was checked: what was measured, what it may be, what that means in a sentence.

    One that could not be made has neither `value` nor `limit`, counts as passed, and says why.
    """

    name: str
    passed: bool
    value: float | None
    limit: float | None
    means: str

    def as_json(self) -> dict[str, Any]:
        """As `Check` of web/src/types.ts; JSON has no word for numbers that are none."""
        numbers = {"value": self.value, "limit": self.limit}
        return {**asdict(self), **{k: x if x is not None and isfinite(x) else None for k, x in numbers.items()}}


def check_at_most(limit: float, name: str, value: float, means: str) -> Check:
    """A check that is passed when a number is no larger than its limit; one that is infinite or none never is."""
    return Check(name, bool(value <= limit and isfinite(value)), float(value), float(limit), means)


def check_not_made(name: str, why: str) -> Check:
    """A check that could not be made here."""
    return Check(name, True, None, None, f"Not checked: {why}.")


@dataclass(frozen=True)
class CapturedRun:
    """What the checks look at. Arrays have no axis for the sentence; what was not captured is not in `tensors`.

    `source`, `inputs` and `target` are ids: what the encoder read, what the decoder read, what it wrote. `replaced` are
    the tensors that an edit put something else in the place of. Without a `model`, nothing can be run again.
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
    pieces: Callable[[Sequence[int]], list[str]] = lambda ids: [str(number) for number in ids]

    @property
    def rounding(self) -> float:
        """How far apart two ways of computing the same number may be, relative to the largest of its kind."""
        return 1e-10 if all(x.dtype in (np.float64, np.bool_) for x in self.tensors.values()) else 1e-5

    def why_not_checked(
        self, *names: str, edits: bool = False, model: bool = False, formulas: bool = False
    ) -> str | None:
        """Why a check that needs these tensors cannot be made: the first thing missing, if there is one.

        With `edits`, edited tensors are in its way; with `model`, it needs the model; with `formulas`, one of which
        every part is known, for they are computed again.
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
        """A weight by its name."""
        assert self.model is not None
        return self.model.get_parameter(name).detach().cpu().numpy()

    def as_batch(self, ids: Iterable[int]) -> torch.Tensor:
        """Ids as a batch of one sentence, where the model is."""
        assert self.model is not None
        return torch.tensor([list(ids)], device=self.model.output_embedding.weight.device)


def list_first_names(names: Collection[str]) -> str:
    """Two names, and how many more there are.

    >>> list_first_names(["a", "b", "c", "d"])
    'a, b and 2 more'
    """
    first, rest = sorted(names)[:2], len(names) - 2
    return ", ".join(first) + (f" and {rest} more" if rest > 0 else "")
