"""Hypotheses, the result of every search whichever engine ran it, and the length penalty that ranks them."""

from dataclasses import dataclass, field
from math import inf, isfinite
from typing import Any, Literal

from pellucid.data.tokenizer import BOS, PAD, UNK

# UNK is forbidden too: the byte pieces can spell any character that has no piece of its own.
FORBIDDEN = (PAD, UNK, BOS)
"""Token ids that no search may write."""


@dataclass(frozen=True)
class Hypothesis:
    """One output of a search: `log_probs` has a number for each of `tokens`, and one for EOS if it stopped at "eos".

    An engine that knows only their sum leaves `log_probs` empty. `log_prob` is the sum (natural logarithm), `score` is
    the sum divided by the length penalty. `margin` says how near, in log-probability or score, the search for this
    sentence came to another outcome.
    """

    tokens: list[int]
    score: float
    log_prob: float
    stop: Literal["eos", "length"]
    log_probs: list[float]
    # A margin says something about the search, not about the text: it takes no part in equality.
    margin: float = field(default=inf, compare=False)


def length_divisor(length: Any, alpha: float) -> Any:
    """Return ((5 + n) / 6) ^ alpha, which divides a log-probability (Wu et al. 2016, equation 14; paper, 6.1).

    n counts the tokens written, EOS included; it may be a number or a tensor.

    >>> length_divisor(1, 0.6), length_divisor(7, 1.0)
    (1.0, 2.0)
    """
    return ((5 + length) / 6) ** alpha


def require_finite(log_prob: float, text: str) -> float:
    """Return a log-probability, or raise ValueError, naming the text it belongs to, if it is infinite or NaN."""
    if not isfinite(log_prob):
        raise ValueError(f"the model gives {text} the log-probability {log_prob}, where a finite number is expected")
    return log_prob
