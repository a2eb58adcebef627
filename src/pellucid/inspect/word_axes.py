"""The words along the two axes of an attention: which pieces spell each, and what words read of words."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float

from pellucid.decode.alignment import bare_words, is_mark, spelling, without_end
from pellucid.inspect.pattern_measures import by_words
from pellucid.trace.facts import Side
from pellucid.trace.trace import Trace

SIDES = ("output", "input")
"""Of cross-attention: the row that writes a target piece, or the row that reads it, one further."""


@dataclass(frozen=True)
class Group:
    """Pieces that stand together: those of a word, of punctuation beside one, or a mark such as </s>."""

    label: str
    places: tuple[int, ...]
    pieces: tuple[str, ...]
    kind: Literal["word", "punctuation", "mark"]
    unknown: bool
    """Whether a piece is the unknown mark, or a byte of a character that no piece covers."""


@dataclass(frozen=True)
class Axis:
    """What stands along one axis of an attention: pieces, and the groups they fall into, each piece in one."""

    pieces: list[str]
    groups: list[Group]

    @property
    def owners(self) -> list[int]:
        """The number of the group of each piece."""
        of = {place: number for number, group in enumerate(self.groups) for place in group.places}
        return [of[place] for place in range(len(self.pieces))]

    def find(self, name: str) -> int:
        """The number of the group with this word, "was:2" being the second "was"; ValueError for none or several."""
        return found_in([group.label for group in self.groups], name)


def found_in(labels: Sequence[str], name: str) -> int:
    """The number of a label, whatever its case if none has the same; ValueError for none or several.

    >>> found_in(["The", "cat", "the", "cat"], "the"), found_in(["The", "cat", "the", "cat"], "Cat:2")
    (2, 3)
    """
    for same in (str, str.casefold):
        for word, wanted in asked(name):
            found = [number for number, label in enumerate(labels) if same(label) == same(word)]
            if len(found) == 1 and wanted is None:
                return found[0]
            if wanted is not None and 1 <= wanted <= len(found):
                return found[wanted - 1]
            if len(found) > 1:
                raise ValueError(
                    f"{word!r} stands here {len(found)} times: say which one, {word}:1 to {word}:{len(found)}"
                )
    near = get_close_matches(name, labels, n=1)
    meant = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{name!r} is not here{meant} (here are {', '.join(labels)})")


def asked(name: str) -> list[tuple[str, int | None]]:
    """A word as it may be meant: itself, or the n-th of several.

    >>> asked("was:2"), asked("was")
    ([('was:2', None), ('was', 2)], [('was', None)])
    """
    several = re.fullmatch(r"(.+):(\d{1,4})", name)
    return [(name, None), *([(several[1], int(several[2]))] if several else [])]


def bared(word: str) -> str:
    """A word without the punctuation around it; punctuation alone stays.

    >>> bared("blue."), bared("t'aime"), bared("...")
    ('blue', "t'aime", '...')
    """
    letters = [n for n, letter in enumerate(word) if not is_mark(letter)]
    return word[letters[0] : letters[-1] + 1] if letters else word


def along(side: Side) -> Axis:
    """The pieces of a text with its words; a piece that has parts of two words belongs to the first."""
    texts, last = side.text.split(), len(without_end(side.ids))
    owner: list[int | None] = [None] * len(side.ids)
    words = bare_words(side.pieces[:last], side.text)
    for number, word in reversed(list(enumerate(words))):
        for place in word.pieces:
            owner[place] = number
    groups: list[Group] = []
    start = 0
    for end in range(1, len(owner) + 1):
        if end < len(owner) and together(owner, side.pieces, end, last):
            continue
        number, pieces = owner[start], tuple(side.pieces[start:end])
        if number is not None:
            label, kind = bared(texts[number]), "punctuation" if words[number].mark else "word"
        else:
            label, kind = (spelled(pieces), "punctuation") if start < last else (pieces[0], "mark")
        groups.append(Group(label, tuple(range(start, end)), pieces, kind, any(side.unknown[start:end])))
        start = end
    return Axis(list(side.pieces), groups)


def together(owner: Sequence[int | None], pieces: Sequence[str], place: int, last: int) -> bool:
    """Whether a piece goes on with what the piece before it is part of."""
    if place >= last or owner[place] != owner[place - 1]:
        return False
    return owner[place] is not None or not pieces[place].startswith("▁")


def spelled(pieces: Sequence[str]) -> str:
    """What pieces spell, without the white space around it.

    >>> spelled(["▁", "<0xC2>", "<0xBF>"])
    '¿'
    """
    return b"".join(map(spelling, pieces)).decode("utf-8", "replace").strip() or "".join(pieces)


def read_axis(trace: Trace) -> Axis:
    """What the decoder read: the start mark and the translation without its last piece."""
    start = Group(trace.inputs.pieces[0], (0,), (trace.inputs.pieces[0],), "mark", unknown=False)
    length = len(trace.inputs.pieces)
    groups = [start]
    for group in along(trace.target).groups:
        kept = tuple(place + 1 for place in group.places if place + 1 < length)
        if kept:
            groups.append(replace(group, places=kept, pieces=group.pieces[: len(kept)]))
    return Axis(list(trace.inputs.pieces), groups)


def axes(trace: Trace, attention: str, side: str = "output") -> tuple[Axis, Axis]:
    """What reads in an attention ("decoder.1.cross"), and what is read; ValueError for another side than `SIDES`."""
    if side not in SIDES:
        raise ValueError(
            f"the side is {side!r}, it must be output (the row that writes a word) or input (that reads it)"
        )
    if attention.startswith("encoder"):
        source = along(trace.source)
        return source, source
    if not attention.endswith("cross"):
        read = read_axis(trace)
        return read, read
    return along(trace.target) if side == "output" else read_axis(trace), along(trace.source)


def merged(values: Float[np.ndarray, "H Q K"], queries: Axis, keys: Axis) -> Float[np.ndarray, "H U W"]:
    """Words by words: a word is read with all its pieces (their sum), and reads on average over its own (their mean).

    The mass of a row stays what it is, so rows that sum to 1 still do.
    """
    q, k = (torch.tensor([axis.owners]) for axis in (queries, keys))
    return by_words(torch.from_numpy(np.asarray(values, dtype=np.float64))[None], q, k)[0].numpy()


def readable(allowed: Bool[np.ndarray, "Q K"], queries: Axis, keys: Axis) -> Bool[np.ndarray, "U W"]:
    """Whether a word may read any piece of a word with any piece of its own."""
    return merged(allowed[None].astype(np.float64), queries, keys)[0] > 0.0
