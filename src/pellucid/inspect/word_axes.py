"""The words along the two axes of an attention: which pieces spell each, and what words read of words."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float

from pellucid.decode.alignment import is_punctuation, piece_bytes, strip_eos, words_without_punctuation
from pellucid.inspect.pattern_measures import merge_to_words
from pellucid.trace.facts import TraceSide
from pellucid.trace.trace import Trace

SIDES = ("output", "input")
"""Of cross-attention: the row that writes a target piece, or the row that reads it, one further."""


@dataclass(frozen=True)
class PieceGroup:
    """Pieces that stand together: those of a word, of punctuation beside one, or a mark such as </s>."""

    label: str
    places: tuple[int, ...]
    pieces: tuple[str, ...]
    kind: Literal["word", "punctuation", "mark"]
    unknown: bool
    """Whether a piece is the unknown mark, or a byte of a character that no piece covers."""


@dataclass(frozen=True)
class WordAxis:
    """What stands along one axis of an attention: pieces, and the groups they fall into, each piece in one."""

    pieces: list[str]
    groups: list[PieceGroup]

    @property
    def owners(self) -> list[int]:
        """The number of the group of each piece."""
        of = {place: number for number, group in enumerate(self.groups) for place in group.places}
        return [of[place] for place in range(len(self.pieces))]

    def find(self, name: str) -> int:
        """The number of the group with this word, "was:2" being the second "was"; ValueError for none or several."""
        return find_label([group.label for group in self.groups], name)


def find_label(labels: Sequence[str], name: str) -> int:
    """The number of a label, whatever its case if none has the same; ValueError for none or several.

    >>> find_label(["The", "cat", "the", "cat"], "the"), find_label(["The", "cat", "the", "cat"], "Cat:2")
    (2, 3)
    """
    for same in (str, str.casefold):
        for word, wanted in label_and_occurrence(name):
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


def label_and_occurrence(name: str) -> list[tuple[str, int | None]]:
    """A word as it may be meant: itself, or the n-th of several.

    >>> label_and_occurrence("was:2"), label_and_occurrence("was")
    ([('was:2', None), ('was', 2)], [('was', None)])
    """
    several = re.fullmatch(r"(.+):(\d{1,4})", name)
    return [(name, None), *([(several[1], int(several[2]))] if several else [])]


def strip_word(word: str) -> str:
    """A word without the punctuation around it; punctuation alone stays.

    >>> strip_word("blue."), strip_word("t'aime"), strip_word("...")
    ('blue', "t'aime", '...')
    """
    letters = [n for n, letter in enumerate(word) if not is_punctuation(letter)]
    return word[letters[0] : letters[-1] + 1] if letters else word


def axis_of_side(side: TraceSide) -> WordAxis:
    """The pieces of a text with its words; a piece that has parts of two words belongs to the first."""
    texts, last = side.text.split(), len(strip_eos(side.ids))
    owner: list[int | None] = [None] * len(side.ids)
    words = words_without_punctuation(side.pieces[:last], side.text)
    for number, word in reversed(list(enumerate(words))):
        for place in word.pieces:
            owner[place] = number
    groups: list[PieceGroup] = []
    start = 0
    for end in range(1, len(owner) + 1):
        if end < len(owner) and continues_group(owner, side.pieces, end, last):
            continue
        number, pieces = owner[start], tuple(side.pieces[start:end])
        if number is not None:
            label, kind = strip_word(texts[number]), "punctuation" if words[number].punctuation else "word"
        else:
            label, kind = (spell_pieces(pieces), "punctuation") if start < last else (pieces[0], "mark")
        groups.append(PieceGroup(label, tuple(range(start, end)), pieces, kind, any(side.unknown[start:end])))
        start = end
    return WordAxis(list(side.pieces), groups)


def continues_group(owner: Sequence[int | None], pieces: Sequence[str], place: int, last: int) -> bool:
    """Whether a piece goes on with what the piece before it is part of."""
    if place >= last or owner[place] != owner[place - 1]:
        return False
    return owner[place] is not None or not pieces[place].startswith("▁")


def spell_pieces(pieces: Sequence[str]) -> str:
    """What pieces spell, without the white space around it.

    >>> spell_pieces(["▁", "<0xC2>", "<0xBF>"])
    '¿'
    """
    return b"".join(map(piece_bytes, pieces)).decode("utf-8", "replace").strip() or "".join(pieces)


def decoder_input_axis(trace: Trace) -> WordAxis:
    """What the decoder read: the start mark and the translation without its last piece."""
    start = PieceGroup(trace.inputs.pieces[0], (0,), (trace.inputs.pieces[0],), "mark", unknown=False)
    length = len(trace.inputs.pieces)
    groups = [start]
    for group in axis_of_side(trace.target).groups:
        kept = tuple(place + 1 for place in group.places if place + 1 < length)
        if kept:
            groups.append(replace(group, places=kept, pieces=group.pieces[: len(kept)]))
    return WordAxis(list(trace.inputs.pieces), groups)


def attention_axes(trace: Trace, attention: str, side: str = "output") -> tuple[WordAxis, WordAxis]:
    """What reads in an attention ("decoder.1.cross"), and what is read; ValueError for another side than `SIDES`."""
    if side not in SIDES:
        raise ValueError(
            f"the side is {side!r}, it must be output (the row that writes a word) or input (that reads it)"
        )
    if attention.startswith("encoder"):
        source = axis_of_side(trace.source)
        return source, source
    if not attention.endswith("cross"):
        read = decoder_input_axis(trace)
        return read, read
    return axis_of_side(trace.target) if side == "output" else decoder_input_axis(trace), axis_of_side(trace.source)


def merge_words(values: Float[np.ndarray, "H Q K"], queries: WordAxis, keys: WordAxis) -> Float[np.ndarray, "H U W"]:
    """Words by words: a word is read with all its pieces (their sum), and reads on average over its own (their mean).

    The mass of a row stays what it is, so rows that sum to 1 still do.
    """
    q, k = (torch.tensor([axis.owners]) for axis in (queries, keys))
    return merge_to_words(torch.from_numpy(np.asarray(values, dtype=np.float64))[None], q, k)[0].numpy()


def readable_words(allowed: Bool[np.ndarray, "Q K"], queries: WordAxis, keys: WordAxis) -> Bool[np.ndarray, "U W"]:
    """Whether a word may read any piece of a word with any piece of its own."""
    return merge_words(allowed[None].astype(np.float64), queries, keys)[0] > 0.0
