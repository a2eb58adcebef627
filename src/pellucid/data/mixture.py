"""Mixes corpora by weight: which pairs an epoch shows is exact, and a function of the epoch alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class CorpusShare:
    """One corpus of several, with its weight: 2 shows each pair twice in an epoch, 0.5 shows half of the pairs.

    Think of the pairs as a ring that is read round and round: an epoch reads `pairs * weight` further, and the next
    epoch begins where it stopped. So after any number of epochs, no pair has been seen more than once more often than
    another.
    """

    name: str
    pairs: int
    weight: float = 1.0

    def __post_init__(self) -> None:
        # A fraction from the decimal text: 0.1 is exactly a tenth, so that any number of epochs adds up exactly.
        if self.pairs * Fraction(str(self.weight)) < 1:
            raise ValueError(
                f"of {self.name}, {self.pairs:,} pairs, a weight of {self.weight:g} shows less than one an epoch; "
                "give it more weight or leave it out"
            )

    def pairs_seen(self, epochs: int) -> int:
        """Return how many pairs the first `epochs` epochs show.

        >>> [CorpusShare("news", pairs=5, weight=0.5).pairs_seen(epochs) for epochs in range(5)]
        [0, 2, 5, 7, 10]
        """
        return int(epochs * self.pairs * Fraction(str(self.weight)))


def index_type(pairs: int) -> type[np.integer]:
    """Return the smallest integer type that can index this many pairs, 32 or 64 bits."""
    return np.int32 if pairs <= 2**31 else np.int64


def epoch_pairs(shares: Sequence[CorpusShare], seed: int, epoch: int) -> NDArray[np.integer]:
    """Return the indices of the pairs that an epoch shows, corpus by corpus; pairs are numbered across all corpora."""
    dtype, first, arcs = index_type(sum(share.pairs for share in shares)), 0, []
    for number, share in enumerate(shares):
        begin, end = share.pairs_seen(epoch), share.pairs_seen(epoch + 1)
        ring = np.arange(first, first + share.pairs, dtype=dtype)
        if begin % share.pairs or end % share.pairs:  # whole rounds are the same in any order
            # Seeded without the epoch: the ring keeps its order, so that an epoch can begin where the last stopped.
            np.random.Generator(np.random.PCG64([seed, number, 1])).shuffle(ring)
        while begin < end:
            offset = begin % share.pairs
            arc = ring[offset : offset + end - begin]
            arcs.append(arc)
            begin += len(arc)
        first += share.pairs
    return np.concatenate(arcs)


def count_by_corpus(shares: Sequence[CorpusShare], pairs: NDArray[np.integer]) -> NDArray[np.int64]:
    """Count how many of these pairs belong to each corpus."""
    ends = np.cumsum([share.pairs for share in shares])
    return np.bincount(np.searchsorted(ends, pairs, side="right"), minlength=len(shares))
