"""Which pairs of several corpora an epoch shows: each corpus by its weight, exactly, as a function of the epoch."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class CorpusShare:
    """One corpus of several. A weight of 2 shows each pair twice an epoch; 0.5 half of them, the next time the others.

    Think of the pairs as a ring that is read round and round: an epoch reads `pairs * weight` further, and the next
    begins where it stopped. So after any number of epochs, no pair has been seen more than once more than another.
    """

    name: str
    pairs: int
    weight: float = 1.0

    def __post_init__(self) -> None:
        if self.pairs * Fraction(str(self.weight)) < 1:
            raise ValueError(
                f"of {self.name}, {self.pairs:,} pairs, a weight of {self.weight:g} shows less than one an epoch; "
                "give it more weight or leave it out"
            )

    def pairs_seen(self, epochs: int) -> int:
        """How many pairs that many epochs show.

        >>> [CorpusShare("news", pairs=5, weight=0.5).pairs_seen(epochs) for epochs in range(5)]
        [0, 2, 5, 7, 10]
        """
        return int(epochs * self.pairs * Fraction(str(self.weight)))


def index_type(pairs: int) -> type[np.integer]:
    """What an index of a pair is stored as."""
    return np.int32 if pairs <= 2**31 else np.int64


def epoch_pairs(shares: Sequence[CorpusShare], seed: int, epoch: int) -> NDArray[np.integer]:
    """The indices of the pairs that an epoch shows, corpus by corpus; corpora are numbered one after the other."""
    kind, first, chosen = index_type(sum(share.pairs for share in shares)), 0, []
    for number, share in enumerate(shares):
        begin, end = share.pairs_seen(epoch), share.pairs_seen(epoch + 1)
        ring = np.arange(first, first + share.pairs, dtype=kind)
        if begin % share.pairs or end % share.pairs:  # whole rounds are the same in any order
            np.random.Generator(np.random.PCG64([seed, number, 1])).shuffle(ring)
        while begin < end:
            place = begin % share.pairs
            piece = ring[place : place + end - begin]
            chosen.append(piece)
            begin += len(piece)
        first += share.pairs
    return np.concatenate(chosen)


def count_by_corpus(shares: Sequence[CorpusShare], pairs: NDArray[np.integer]) -> NDArray[np.int64]:
    """How many of these pairs belong to each corpus."""
    ends = np.cumsum([share.pairs for share in shares])
    return np.bincount(np.searchsorted(ends, pairs, side="right"), minlength=len(shares))
