"""Optional callback of the searches: all candidates of one step, and which of them were kept."""

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True)
class SearchStep:
    """The N candidates of one step for each of the B sentences still being searched, best first, and their fate.

    A parent is an index, from 0, among the hypotheses that the step before kept, best first. `log_probs` are those of
    `tokens`, `totals` those of the whole hypotheses. Impossible candidates, whose total is minus infinity, may fill the
    end. A candidate that is neither kept nor finished was dropped.
    """

    # There is one candidate more than the search can use: it only shows how near the next one came.
    sentences: Int[Tensor, " B"]
    parents: Int[Tensor, "B N"]
    tokens: Int[Tensor, "B N"]
    log_probs: Float[Tensor, "B N"]
    totals: Float[Tensor, "B N"]
    kept: Bool[Tensor, "B N"]
    finished: Bool[Tensor, "B N"]


StepObserver = Callable[[SearchStep], None]
"""Function that is called with every step of a search, before any candidate is dropped."""
