"""What every search finds, whichever engine made it: a text with its numbers, and the score it is ranked by."""

from dataclasses import dataclass, field
from math import inf, isfinite
from typing import Any, Literal

from pellucid.data.tokenizer import BOS, PAD, UNK

FORBIDDEN = (PAD, UNK, BOS)
"""Ids no search may write. The unknown piece is among them because bytes can spell what has no piece."""


@dataclass(frozen=True)
class Hypothesis:
    """One output of a search: `log_probs` has a number for each of `tokens` and, if it stopped at "eos", one for that.

    An engine that knows no more than their sum leaves them out. `log_prob` is the sum (natural logarithm), `score` is
    it divided by the length penalty. `margin` is how near, in log-probability or score, the search for its sentence
    came to another outcome.
    """

    tokens: list[int]
    score: float
    log_prob: float
    stop: Literal["eos", "length"]
    log_probs: list[float]
    margin: float = field(default=inf, compare=False)


def length_divisor(length: Any, alpha: float) -> Any:
    """((5 + n) / 6) ^ alpha, which a log-probability is divided by (Wu et al. 2016, equation 14; paper, 6.1).

    n counts the pieces written, the end mark among them; a number or a tensor of them.

    >>> length_divisor(1, 0.6), length_divisor(7, 1.0)
    (1.0, 2.0)
    """
    return ((5 + length) / 6) ** alpha


def require_finite(log_prob: float, text: str) -> float:
    """The same number, or ValueError, naming the text, if it is none that a sound model could give."""
    if not isfinite(log_prob):
        raise ValueError(f"the model gives {text} the log-probability {log_prob}, where a finite number is expected")
    return log_prob
