"""Cuts words of a training sentence into other pieces, so that a model learns what a word is from its parts, too.

A word that is misspelled is cut into pieces that its right spelling never has. A model that has
always seen each word in the same pieces does not know what they mean (subword regularisation: Kudo
2018; Provilkov et al. 2020, who leave out merges of BPE). Here a piece is cut where both halves are
pieces, which needs no knowledge of how the vocabulary was learned.
"""

from collections.abc import Collection, Sequence
from functools import cache
from random import Random

from pellucid.data.text.word_pieces import is_byte_piece

_SPLIT_SHARE = 0.25  # share of the pieces that are cut, of those that can be


class PieceSplitter:
    """Cuts pieces of a vocabulary into two that spell the same text."""

    def __init__(self, names: Sequence[str], kept: Collection[int] = ()):
        """Take the names of all pieces by their ids; the `kept` ones stand for no text, and are never cut."""
        self._names = names
        self._ids: dict[str, int] = {}
        for i, name in enumerate(names):
            if i not in kept and not is_byte_piece(name):
                self._ids[name] = i
        self._halves_of = cache(self._find_halves)

    def split(self, ids: Sequence[int], random: Random) -> list[int]:
        """Return the ids with a quarter of the pieces cut in two, where there are such halves, and of the halves again.

        >>> names = ["<unk>", "▁ballad", "▁ball", "ad", "▁", "a", "d"]
        >>> splitter = PieceSplitter(names, kept=[0])
        >>> sorted({"".join(names[i] + " " for i in splitter.split([1], Random(seed))) for seed in range(99)})
        ['▁ball a d ', '▁ball ad ', '▁ballad ']
        """
        written: list[int] = []
        remaining = list(reversed(ids))
        while remaining:
            piece = remaining.pop()
            halves = self._halves_of(piece) if random.random() < _SPLIT_SHARE else ()
            if halves:
                first, second = random.choice(halves)
                remaining += [second, first]
            else:
                written.append(piece)
        return written

    def _find_halves(self, piece: int) -> tuple[tuple[int, int], ...]:
        """Return all pairs of pieces that spell this one together."""
        name = self._names[piece]
        if self._ids.get(name) != piece:
            return ()
        halves = []
        for place in range(1, len(name)):
            first, second = self._ids.get(name[:place]), self._ids.get(name[place:])
            if first is not None and second is not None:
                halves.append((first, second))
        return tuple(halves)
