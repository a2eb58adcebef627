"""What CTranslate2 is asked, and which hypotheses of its answer are sure to be those that `beam_search` returns."""

from dataclasses import dataclass
from itertools import pairwise
from math import inf, log10
from typing import Any

from pellucid.decode.config import SearchConfig
from pellucid.decode.hypothesis import length_divisor
from pellucid.decode.request import CLOSE_CALL

_NO_SCORE = -1e9
"""CTranslate2 gives a hypothesis that is none about the least number there is, where others get a log-probability."""


@dataclass(frozen=True)
class CTranslate2Query:
    """What CTranslate2 is asked, so that the answer holds all that is needed to rank as `beam_search` does.

    It stops when `ended` hypotheses have ended, and returns that many: of those beyond, which ended in the last step
    too, it drops the ones with the least log_prob / length^`exponent`. A greedy search compares no hypotheses, and has
    no softmax to compute where nobody wants `scores`.
    """

    width: int
    limit: int
    ended: int
    exponent: float
    scores: bool = True

    @classmethod
    def for_config(cls, config: SearchConfig, limit: int) -> "CTranslate2Query":
        """For the best alone, `beam` hypotheses say enough: all that was dropped is less likely than all of them.

        For more, it searches on until 2 beam - 1 have ended, as many as can have when `beam_search` stops, and drops
        the longest: those of later steps. The exponent is as large as float32 allows, and whole, so that it is exact.
        """
        width = config.beam if config.method == "beam" else 1
        if config.n_best == 1:
            # divides by exactly 1; 0 would stop at the first end
            return cls(width, limit, ended=width, exponent=1e-30, scores=config.scores or width > 1)
        return cls(width, limit, ended=2 * width - 1, exponent=-(35 // log10(limit + 1)))

    def as_options(self) -> dict[str, Any]:
        """The same, as CTranslate2 wants to hear it."""
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
    question: CTranslate2Query,
    limit: int,
    config: SearchConfig,
    close_call: float = CLOSE_CALL,
) -> list[int] | None:
    """Which of CTranslate2's hypotheses `beam_search` returns, best first; None where that is not sure.

    What is as near as `close_call` is not.

    >>> config = SearchConfig(beam=2, length_penalty=1.0)
    >>> rank_like_beam_search([7, 1], [-3.0, -3.5], [True, True], CTranslate2Query.for_config(config, limit=9), 9,
    ...     config)  # -3 / 2 beats -3.5 / 1
    [0]
    """
    if question.scores and not all(_NO_SCORE < each <= 0 for each in log_probs):
        return None
    if question.width == 1:  # there is one, and no other outcome that it could be near to
        return [0] if ended[0] and lengths[0] <= limit else None
    ends = sorted(n for n, at_end in zip(lengths, ended, strict=True) if at_end)
    last = min(limit, ends[question.width - 1]) if len(ends) >= question.width else limit
    scores = {
        i: log_probs[i] / length_divisor(lengths[i], config.length_penalty)
        for i in range(len(lengths))
        if ended[i] and lengths[i] <= last
    }
    order = sorted(scores, key=lambda i: -scores[i])
    if len(order) < config.n_best:
        return None
    first, rest = order[: config.n_best], order[config.n_best :]
    unseen = -inf
    if len(lengths) == question.ended:
        # What was dropped is ranked below all of these, and a longer text makes the most of that.
        least = min(each / n**question.exponent for each, n in zip(log_probs, lengths, strict=True))
        unseen = least * last**question.exponent / length_divisor(last, config.length_penalty)
    deciding = [*(scores[i] for i in first), max(unseen, *(scores[i] for i in rest), -inf)]
    # A score has the rounding of its log-probability divided by the same number, which is the least for the shortest.
    close = close_call / length_divisor(min(lengths), config.length_penalty)
    return first if all(a - b >= close for a, b in pairwise(deciding)) else None
