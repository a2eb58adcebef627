"""Search requests, the bounds of a search, and the `Engine` protocol that every translation engine follows."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from pellucid.decode.config import SearchConfig
from pellucid.decode.hypothesis import Hypothesis

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
