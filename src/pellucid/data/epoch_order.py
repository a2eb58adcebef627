"""The order of an epoch: which pairs it shows, as blocks of neighbours, and in which windows they are shuffled.

Few pairs are one window, which is shuffled as a whole. Of many pairs, the order of blocks alone is kept in memory: some
hundreds of pairs that follow one another. Blocks are shuffled, a number of them make a window, and the pairs of a
window are shuffled when their turn comes. So the order of 500 million pairs takes tens of megabytes, and its files are
read in pieces.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pellucid.data.batching import CorpusShare, PairLengths, index_type, shuffle_into_batches

# The most pairs that are one window; older versions ordered more of them as one, too.
PAIRS_AS_A_WHOLE = 2**22
# 8,192 blocks of 256 pairs make a window of two million: pairs of as many places of the text.
PAIRS_PER_BLOCK, BLOCKS_PER_WINDOW = 256, 8192


@dataclass(frozen=True)
class PairBlocks:
    """Runs of neighbouring pairs: block i is `pairs[i]` pairs from number `firsts[i]` on."""

    firsts: NDArray[np.integer]
    pairs: NDArray[np.integer]

    def __len__(self) -> int:
        return len(self.firsts)

    def __getitem__(self, blocks: slice | NDArray[np.integer]) -> "PairBlocks":
        return PairBlocks(self.firsts[blocks], self.pairs[blocks])

    def list_pairs(self) -> NDArray[np.integer]:
        """Return the numbers of all pairs, block by block."""
        # Counted on from the first pair of each block.
        shifts = self.firsts - (np.cumsum(self.pairs) - self.pairs)
        numbers = np.repeat(shifts, self.pairs) + np.arange(self.pairs.sum())
        return numbers.astype(self.firsts.dtype)

    def count_by_corpus(self, shares: Sequence[CorpusShare]) -> NDArray[np.int64]:
        """Count the pairs of each corpus."""
        corpora = find_corpora(shares, self.firsts)
        return np.bincount(corpora, weights=self.pairs, minlength=len(shares)).astype(np.int64)


@dataclass(frozen=True)
class EpochOrder:
    """The windows of one epoch, a function of the corpora, the seed and the epoch."""

    shares: tuple[CorpusShare, ...]
    seed: int
    epoch: int
    shown: tuple[bool, ...]  # whether each corpus is shown
    whole: bool  # whether all pairs are one window, however many they are

    @cached_property
    def _blocks(self) -> PairBlocks:
        """The blocks of several windows, in their order."""
        blocks = epoch_blocks(self.shares, self.seed, self.epoch, self.shown, PAIRS_PER_BLOCK)
        return blocks[self._generator(2).permutation(len(blocks))]

    @property
    def windows(self) -> int:
        """The number of windows."""
        return 1 if self.whole else -(-len(self._blocks) // BLOCKS_PER_WINDOW)

    def count_before(self, window: int) -> NDArray[np.int64]:
        """Count the pairs of each corpus in the windows before this one."""
        if not window:
            return np.zeros(len(self.shares), np.int64)
        return self._blocks[: self._begin_of(window)].count_by_corpus(self.shares)

    def make_batches(
        self, window: int, lengths_of: PairLengths, batch_tokens: int
    ) -> list[NDArray[np.integer]]:
        """Return the batches of a window, in their order."""
        if self.whole:
            pairs = epoch_blocks(self.shares, self.seed, self.epoch, self.shown, size=1).firsts
            return shuffle_into_batches(pairs, lengths_of, batch_tokens, self._generator())

        blocks = self._blocks[self._begin_of(window) : self._begin_of(window + 1)]
        random = self._generator(3, window)
        return shuffle_into_batches(blocks.list_pairs(), lengths_of, batch_tokens, random)

    def _begin_of(self, window: int) -> int:
        """Return the number of the first block of a window; all windows have about as many blocks."""
        return len(self._blocks) * window // self.windows

    def _generator(self, *numbers: int) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64([self.seed, self.epoch, *numbers]))


def epoch_blocks(
    shares: Sequence[CorpusShare], seed: int, epoch: int, shown: Sequence[bool] | None, size: int
) -> PairBlocks:
    """Return the blocks of at most `size` pairs that an epoch shows, corpus by corpus.

    Pairs are numbered across all corpora. Corpora that are not `shown` are left out.
    """
    dtype, end_of_corpus, arcs = (
        index_type(sum(share.pairs for share in shares)),
        0,
        list[PairBlocks](),
    )
    for number, share in enumerate(shares):
        begin, end = share.pairs_seen(epoch), share.pairs_seen(epoch + 1)
        first, end_of_corpus = end_of_corpus, end_of_corpus + share.pairs
        if shown is not None and not shown[number]:
            continue

        ring = np.arange(first, end_of_corpus, size, dtype=dtype)
        if begin % share.pairs or end % share.pairs:  # whole rounds are the same in any order
            # Seeded without the epoch: the ring keeps its order, so that an epoch can begin where the last stopped.
            np.random.Generator(np.random.PCG64([seed, number, 1])).shuffle(ring)

        blocks = PairBlocks(ring, np.minimum(end_of_corpus - ring, size, dtype=dtype))
        while begin < end:
            offset = begin % share.pairs
            stop = min(share.pairs, offset + end - begin)
            arcs.append(_cut_arc(blocks, offset, stop, share.pairs))
            begin += stop - offset

    # One arc is a whole ring, most often, and needs no second copy.
    if len(arcs) == 1:
        return arcs[0]
    return PairBlocks(
        np.concatenate([arc.firsts for arc in arcs]), np.concatenate([arc.pairs for arc in arcs])
    )


def _cut_arc(ring: PairBlocks, offset: int, stop: int, total: int) -> PairBlocks:
    """Return the blocks that hold the pairs from `offset` to `stop` of a ring of so many; the outer two are cut."""
    if stop - offset == total:
        return ring
    ends = np.cumsum(ring.pairs, dtype=np.int64)
    front, back = (
        np.searchsorted(ends, offset, side="right"),
        np.searchsorted(ends, stop, side="left"),
    )
    firsts, pairs = ring.firsts[front : back + 1].copy(), ring.pairs[front : back + 1].copy()
    pairs[-1] -= ends[back] - stop
    # The front last: both may be cut from one block.
    skipped = offset - (ends[front] - ring.pairs[front])
    firsts[0] += skipped
    pairs[0] -= skipped
    return PairBlocks(firsts, pairs)


def find_corpora(shares: Sequence[CorpusShare], pairs: NDArray[np.integer]) -> NDArray[np.intp]:
    """Return the number of the corpus of each of these pairs."""
    ends = np.cumsum([share.pairs for share in shares])
    return np.searchsorted(ends, pairs, side="right")


def count_by_corpus(shares: Sequence[CorpusShare], pairs: NDArray[np.integer]) -> NDArray[np.int64]:
    """Count how many of these pairs belong to each corpus."""
    return np.bincount(find_corpora(shares, pairs), minlength=len(shares))
