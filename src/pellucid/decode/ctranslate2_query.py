"""Queries to CTranslate2, and which hypotheses of its answer are sure to be those that `beam_search` returns."""

from dataclasses import dataclass
from itertools import pairwise
from math import inf, log10
from typing import Any

from pellucid.decode.config import SearchConfig
from pellucid.decode.hypothesis import length_divisor
from pellucid.decode.request import CLOSE_CALL

_NO_SCORE = -1e9
"""Bound of a log-probability: CTranslate2 gives a hypothesis that is none about the least number there is."""


@dataclass(frozen=True)
class CTranslate2Query:
    """Options of a CTranslate2 search whose answer contains all that is needed to rank as `beam_search` does.

    CTranslate2 stops when `ended` hypotheses have ended, and returns that many: if more ended in the last step, it
    drops the ones with the least log_prob / length^`exponent`. Without `scores` a greedy search computes no softmax.
    """

    width: int
    limit: int
    ended: int
    exponent: float
    scores: bool = True

    @classmethod
    def for_config(cls, config: SearchConfig, limit: int) -> "CTranslate2Query":
        """Make the query for a search config and a length limit."""
        width = config.beam if config.method == "beam" else 1
        if config.n_best == 1:
            # For the best alone, `beam` hypotheses are enough: all that was dropped is less likely than all of them.
            # The exponent divides by exactly 1; 0 would stop at the first end.
            return cls(width, limit, ended=width, exponent=1e-30, scores=config.scores or width > 1)
        # For more, search on until 2 beam - 1 have ended, as many as can have when `beam_search` stops. The exponent
        # drops the longest, which are those of later steps; it is as large as float32 allows, and whole, to be exact.
        return cls(width, limit, ended=2 * width - 1, exponent=-(35 // log10(limit + 1)))

    def as_options(self) -> dict[str, Any]:
        """Return the query as keyword arguments of CTranslate2."""
        return {
            "beam_size": self.width,
            "num_hypotheses": self.ended,
            "patience": self.ended / self.width,
            "length_penalty": self.exponent,
            "max_decoding_length": self.limit,
            "return_scores": self.scores,
        }


def rank_like_beam_search(
    lengths: list[int],
    log_probs: list[float],
    ended: list[bool],
    query: CTranslate2Query,
    limit: int,
    config: SearchConfig,
    close_call: float = CLOSE_CALL,
) -> list[int] | None:
    """Return the indices of CTranslate2's hypotheses that `beam_search` returns, best first; None if that is not sure.

    It is not sure where scores differ by less than `close_call`.

    >>> config = SearchConfig(beam=2, length_penalty=1.0)
    >>> rank_like_beam_search([7, 1], [-3.0, -3.5], [True, True], CTranslate2Query.for_config(config, limit=9), 9,
    ...     config)  # -3 / 2 beats -3.5 / 1
    [0]
    """
    if query.scores and not all(_NO_SCORE < log_prob <= 0 for log_prob in log_probs):
        return None
    if query.width == 1:  # there is one, and no other outcome that it could be near to
        return [0] if ended[0] and lengths[0] <= limit else None
    ends = sorted(n for n, at_end in zip(lengths, ended, strict=True) if at_end)
    # `beam_search` stops at the step in which the W-th hypothesis ends: what ends later it never sees.
    last = min(limit, ends[query.width - 1]) if len(ends) >= query.width else limit
    scores = {
        i: log_probs[i] / length_divisor(lengths[i], config.length_penalty)
        for i in range(len(lengths))
        if ended[i] and lengths[i] <= last
    }
    order = sorted(scores, key=lambda i: -scores[i])
    if len(order) < config.n_best:
        return None
    first, remaining = order[: config.n_best], order[config.n_best :]
    best_dropped = -inf
    if len(lengths) == query.ended:
        # What was dropped is ranked below all of these, and a longer text makes the most of that.
        least = min(log_prob / n**query.exponent for log_prob, n in zip(log_probs, lengths, strict=True))
        best_dropped = least * last**query.exponent / length_divisor(last, config.length_penalty)
    deciding = [*(scores[i] for i in first), max(best_dropped, *(scores[i] for i in remaining), -inf)]
    # A score has the rounding of its log-probability divided by the same number, which is the least for the shortest.
    close = close_call / length_divisor(min(lengths), config.length_penalty)
    return first if all(a - b >= close for a, b in pairwise(deciding)) else None
