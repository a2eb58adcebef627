"""Requests to a search, the hypotheses it returns, and the `Engine` protocol that every engine follows."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import Any, Literal, Protocol, runtime_checkable

from pellucid.data.tokenizer import BOS, PAD, UNK
from pellucid.decode.config import SearchConfig

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


CLOSE_CALL = 1e-4
"""Difference in log-probability below which float32 rounding may decide: several times the largest that was seen."""


def continue_always() -> None:
    """Let a search go on; who wants to stop one gives its request a function that raises an exception instead."""


@dataclass(frozen=True)
class SearchRequest:
    """One sentence to translate, as token ids.

    `source` ends with EOS. `number` is that of its line, counted from 1, and `segment` that of the sentence in a line
    that was split, counted from 0: the draws of sampling depend on them. The translation begins with `prefix`, has one
    spelling of each of `terms`, and no `no_repeat` tokens in a row twice.
    """

    source: list[int]
    number: int
    prefix: tuple[int, ...] = ()
    terms: tuple[tuple[tuple[int, ...], ...], ...] = ()
    no_repeat: int = 0
    segment: int = 0
    check_wanted: Callable[[], None] = field(default=continue_always, compare=False, repr=False)
    """Called before each batch and between the steps of a search; what it raises ends the whole translation."""

    @property
    def search_key(self) -> Hashable:
        """Everything that the result of a beam or greedy search depends on."""
        # `number` and `segment` only seed sampling, so equal sentences of other lines share one search.
        return tuple(self.source), self.prefix, self.terms, self.no_repeat


@dataclass(frozen=True)
class SearchBounds:
    """Limits that every engine keeps: tokens of the longest text the model takes, and ids that are never written."""

    longest: int
    forbidden: tuple[int, ...]

    def max_pieces(self, request: SearchRequest, config: SearchConfig) -> int:
        """Return how many tokens the translation of a request may have at most, EOS included."""
        return min(len(request.source) - 1 + config.max_extra, self.longest)  # - 1: the EOS of the source


@runtime_checkable
class Engine(Protocol):
    """Searches for translations; `batch_size` is the number of sentences in a batch at which it is fastest."""

    batch_size: int

    def search(self, requests: Sequence[SearchRequest], config: SearchConfig) -> list[list[Hypothesis]]:
        """Return the hypotheses of each request, best first: at least one, at most `config.n_best`."""
        ...

    def search_all(
        self, batches: Sequence[Sequence[SearchRequest]], config: SearchConfig
    ) -> Iterator[list[list[Hypothesis]]]:
        """Search batch by batch, in order; several run at the same time where that is faster."""
        ...
