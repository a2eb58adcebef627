"""What a search looked at in one step, told to whoever observes it; a search that nobody observes does nothing more."""

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True)
class SearchStep:
    """The candidates of one step, best first, and what became of each. B sentences that are not over, N candidates.

    A parent is a place, 0 first, among the hypotheses that lived on from the step before: those `kept`, best first.
    `gains` are the log-probabilities of the pieces, `totals` those of the hypotheses. Impossible candidates, whose
    total is minus infinity, may fill the end. What is neither kept nor finished was dropped; the last candidate was
    looked at only to see how near it came.
    """

    sentences: Int[Tensor, " B"]
    parents: Int[Tensor, "B N"]
    pieces: Int[Tensor, "B N"]
    gains: Float[Tensor, "B N"]
    totals: Float[Tensor, "B N"]
    kept: Bool[Tensor, "B N"]
    finished: Bool[Tensor, "B N"]


StepObserver = Callable[[SearchStep], None]
"""Hears of every step of a search, before anything is thrown away."""
