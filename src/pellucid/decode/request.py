"""What an engine is asked, what it keeps to, and what every engine is; the engines themselves stand elsewhere."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pellucid.decode.config import SearchConfig
from pellucid.decode.hypothesis import Hypothesis

CLOSE_CALL = 1e-4
"""A difference in log-probability that rounding in float32 does not make: several times what was seen to."""


@dataclass(frozen=True)
class SearchRequest:
    """One sentence to be translated, as pieces.

    `source` ends with the end mark. `number` is that of its line, 1 first, and `segment` that of the sentence in a line
    that was split, 0 first: the draws of sampling depend on them. The translation begins with `prefix`, has one
    spelling of each of `terms`, and no `no_repeat` pieces in a row twice.
    """

    source: list[int]
    number: int
    prefix: tuple[int, ...] = ()
    terms: tuple[tuple[tuple[int, ...], ...], ...] = ()
    no_repeat: int = 0
    segment: int = 0

    @property
    def search_key(self) -> Hashable:
        """All that a search but sampling depends on."""
        return tuple(self.source), self.prefix, self.terms, self.no_repeat


@dataclass(frozen=True)
class SearchBounds:
    """What every engine keeps to: pieces of the longest text the model takes, and ids that are never written."""

    longest: int
    forbidden: tuple[int, ...]

    def max_pieces(self, request: SearchRequest, config: SearchConfig) -> int:
        """The most pieces its translation may have, the end mark counted."""
        return min(len(request.source) - 1 + config.max_extra, self.longest)


@runtime_checkable
class Engine(Protocol):
    """Searches for translations; quickest with `batch_size` of them in a batch."""

    batch_size: int

    def search(self, requests: Sequence[SearchRequest], config: SearchConfig) -> list[list[Hypothesis]]:
        """For each request its hypotheses, best first: at least one, at most `config.n_best`."""
        ...

    def search_all(
        self, batches: Sequence[Sequence[SearchRequest]], config: SearchConfig
    ) -> Iterator[list[list[Hypothesis]]]:
        """As `search`, batch by batch in their order, several at a time where that is faster."""
        ...
