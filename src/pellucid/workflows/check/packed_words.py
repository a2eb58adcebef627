"""Word ids of all sentences of a large text, packed block by block, in about a third of their memory."""

import zlib
from array import array
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pellucid.data.links import Ints, WordIds

# Blocks that stay unpacked: neighbouring pairs are asked for one after another.
_UNPACKED_BLOCKS = 4


class PackedWords:
    """Words of sentences that come in blocks.

    All of an id's low bytes of a block stand together, then the next higher ones, and these are
    compressed. Words of Tatoeba's sentences take 1.4 bytes each so, and 4 as they are.
    """

    def __init__(self) -> None:
        """Begin without a sentence."""
        self._blocks: list[bytes] = []
        self._firsts = array("q")  # the place of the first sentence of each block
        self._lengths = array("h")
        self._unpack = lru_cache(_UNPACKED_BLOCKS)(self._unpack_block)

    def append(self, words: WordIds) -> None:
        """Add a block of sentences behind the others."""
        self._firsts.append(len(self._lengths))
        self._lengths.frombytes(words.lengths.astype(np.int16).tobytes())
        planes = words.ids.astype("<i4").view(np.uint8).reshape(-1, 4).T
        self._blocks.append(zlib.compress(planes.tobytes(), 1))

    def _unpack_block(self, number: int) -> WordIds:
        planes = np.frombuffer(zlib.decompress(self._blocks[number]), np.uint8).reshape(4, -1)
        ids = np.ascontiguousarray(planes.T).view("<i4").ravel().astype(np.int32)
        ends = *self._firsts[number + 1 : number + 2], len(self._lengths)
        lengths = self.lengths[self._firsts[number] : ends[0]].astype(np.int64)
        return WordIds.from_lengths(ids, lengths)

    @property
    def lengths(self) -> NDArray[np.int16]:
        """The number of words of each sentence."""
        return np.frombuffer(self._lengths, np.int16)

    def count_words(self) -> Ints:
        """Return how often each id occurs."""
        counts = np.zeros(0, np.int64)
        for number in range(len(self._blocks)):
            found = self._unpack_block(number).count_words()
            longer, shorter = (counts, found) if len(counts) > len(found) else (found, counts)
            longer[: len(shorter)] += shorter
            counts = longer
        return counts

    def select(self, sentences: Ints) -> tuple[NDArray[np.int32], Ints, Ints]:
        """Return the ids of these sentences, one after another, and the lengths and the starts among them."""
        lengths = self.lengths[sentences].astype(np.int64)
        starts = np.cumsum(lengths) - lengths
        ids = np.empty(lengths.sum(), np.int32)

        numbers = np.searchsorted(np.frombuffer(self._firsts, np.int64), sentences, "right") - 1
        for number in np.unique(numbers).tolist():
            chosen = np.flatnonzero(numbers == number)
            here = sentences[chosen] - self._firsts[number]
            words, in_block, _ = self._unpack(number).select(here)
            # Where the words of the chosen sentences belong among all that are asked for.
            begins = np.cumsum(in_block) - in_block
            places = np.repeat(starts[chosen] - begins, in_block) + np.arange(len(words))
            ids[places] = words

        return ids, lengths, starts
