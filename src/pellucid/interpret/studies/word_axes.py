"""Words along the two axes of an attention: the pieces that spell each word, and the weights of words for words."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float

from pellucid.config import suggest_nearest
from pellucid.data.text.word_pieces import piece_bytes, strip_word, words_without_punctuation
from pellucid.data.tokenizer import strip_eos
from pellucid.interpret.studies.pattern_measures import merge_to_words
from pellucid.interpret.trace.facts import TraceSide
from pellucid.interpret.trace.session import Trace

# Row of cross-attention that stands for a target piece: the one that writes it, or the next one,
# which reads it (Chen et al. 2020).
SIDES = ("output", "input")


@dataclass(frozen=True)
class PieceGroup:
    """Pieces that belong together: pieces of a word, punctuation beside a word, or a special token such as </s>."""

    label: str
    positions: tuple[int, ...]
    pieces: tuple[str, ...]
    kind: Literal["word", "punctuation", "mark"]
    unknown: bool  # whether a piece is the unknown token, or a byte of a character that no piece covers


@dataclass(frozen=True)
class WordAxis:
    """One axis of an attention: its pieces, and the groups they fall into, each piece in one."""

    pieces: list[str]
    groups: list[PieceGroup]

    @property
    def owners(self) -> list[int]:
        """The number of the group of each piece."""
        group_of: dict[int, int] = {}
        for number, group in enumerate(self.groups):
            for position in group.positions:
                group_of[position] = number
        return [group_of[position] for position in range(len(self.pieces))]

    def find(self, name: str) -> int:
        """Return the number of the group with this word ("was:2" is the second one); ValueError for none or several."""
        return find_label([group.label for group in self.groups], name)


def find_label(labels: Sequence[str], name: str) -> int:
    """Return the number of a label, ignoring case if none has the same case.

    Raises ValueError for none or several.

    >>> find_label(["The", "cat", "the", "cat"], "the"), find_label(["The", "cat", "the", "cat"], "Cat:2")
    (2, 3)
    """
    # exact spelling first, so that "The" and "the" can both be named
    for normalise in (str, str.casefold):
        for word, occurrence in label_and_occurrence(name):
            numbers = [number for number, label in enumerate(labels) if normalise(label) == normalise(word)]
            if len(numbers) == 1 and occurrence is None:
                return numbers[0]
            if occurrence is not None and 1 <= occurrence <= len(numbers):
                return numbers[occurrence - 1]
            if len(numbers) > 1:
                raise ValueError(
                    f"{word!r} stands here {len(numbers)} times: say which one, {word}:1 to {word}:{len(numbers)}"
                )

    raise ValueError(f"{name!r} is not here{suggest_nearest(name, labels)} (here are {', '.join(labels)})")


def label_and_occurrence(name: str) -> list[tuple[str, int | None]]:
    """Return the readings of a name: the word itself, or the n-th of several.

    >>> label_and_occurrence("was:2"), label_and_occurrence("was")
    ([('was:2', None), ('was', 2)], [('was', None)])
    """
    match = re.fullmatch(r"(.+):(\d{1,4})", name)
    return [(name, None), *([(match[1], int(match[2]))] if match else [])]


def axis_of_side(side: TraceSide) -> WordAxis:
    """Return the pieces of a text with its words.

    A piece that has parts of two words belongs to the first.
    """
    texts, text_end = side.text.split(), len(strip_eos(side.ids))
    owner: list[int | None] = [None] * len(side.ids)
    words = words_without_punctuation(side.pieces[:text_end], side.text)

    # backwards, so that the first of two words that share a piece has it
    for number, word in reversed(list(enumerate(words))):
        for position in word.pieces:
            owner[position] = number

    groups: list[PieceGroup] = []
    start = 0
    for end in range(1, len(owner) + 1):
        if end < len(owner) and _continues_group(owner, side.pieces, end, text_end):
            continue
        number, pieces = owner[start], tuple(side.pieces[start:end])
        if number is not None:
            label = strip_word(texts[number])
            kind = "punctuation" if words[number].punctuation else "word"
        else:
            # no word, but before the end token: punctuation beside a word
            label, kind = (_spell_pieces(pieces), "punctuation") if start < text_end else (pieces[0], "mark")
        groups.append(PieceGroup(label, tuple(range(start, end)), pieces, kind, any(side.unknown[start:end])))
        start = end

    return WordAxis(list(side.pieces), groups)


def _continues_group(
    owner: Sequence[int | None],
    pieces: Sequence[str],
    position: int,
    text_end: int,
) -> bool:
    """Whether a piece belongs to the group of the piece before it."""
    if position >= text_end or owner[position] != owner[position - 1]:
        return False
    # punctuation after a space is a group of its own, not part of the one before
    return owner[position] is not None or not pieces[position].startswith("▁")


def _spell_pieces(pieces: Sequence[str]) -> str:
    """Return the text that pieces spell, without the white space around it.

    >>> _spell_pieces(["▁", "<0xC2>", "<0xBF>"])
    '¿'
    """
    # byte pieces of half a character, or white space alone, spell nothing that could be shown
    return b"".join(map(piece_bytes, pieces)).decode("utf-8", "replace").strip() or "".join(pieces)


def _decoder_input_axis(trace: Trace) -> WordAxis:
    """Return the axis of the decoder's input: the start token and the translation without its last piece."""
    start = PieceGroup(
        trace.inputs.pieces[0],
        (0,),
        (trace.inputs.pieces[0],),
        "mark",
        unknown=False,
    )
    length = len(trace.inputs.pieces)
    groups = [start]

    for group in axis_of_side(trace.target).groups:
        # the decoder reads the translation one position late, and never its last piece
        positions = tuple(position + 1 for position in group.positions if position + 1 < length)
        if positions:
            groups.append(replace(group, positions=positions, pieces=group.pieces[: len(positions)]))

    return WordAxis(list(trace.inputs.pieces), groups)


def attention_axes(trace: Trace, attention: str, side: str = "output") -> tuple[WordAxis, WordAxis]:
    """Return the axis that reads in an attention ("decoder.1.cross"), and the axis that is read.

    `side` is for cross-attention alone, whose rows may be named by the word they write or by the
    word they read; rows of self-attention have the words they read. Raises ValueError for another
    side than `SIDES`.
    """
    if side not in SIDES:
        raise ValueError(
            f"the side is {side!r}, it must be output (the row that writes a word) or input (that reads it)"
        )
    if attention.startswith("encoder"):
        source = axis_of_side(trace.source)
        return source, source
    if not attention.endswith("cross"):
        decoder_input = _decoder_input_axis(trace)
        return decoder_input, decoder_input
    return axis_of_side(trace.target) if side == "output" else _decoder_input_axis(trace), axis_of_side(trace.source)


def merge_words(
    values: Float[np.ndarray, "H Q K"],
    queries: WordAxis,
    keys: WordAxis,
) -> Float[np.ndarray, "H U W"]:
    """Merge to words: a word is read with all its pieces (their sum), and reads on average over its own (their mean).

    The mass of a row stays what it is, so rows that sum to 1 still do.
    """
    q, k = (torch.tensor([axis.owners]) for axis in (queries, keys))
    return merge_to_words(torch.from_numpy(np.asarray(values, dtype=np.float64))[None], q, k)[0].numpy()


def readable_words(
    allowed: Bool[np.ndarray, "Q K"],
    queries: WordAxis,
    keys: WordAxis,
) -> Bool[np.ndarray, "U W"]:
    """Whether a word may read any piece of a word with any piece of its own."""
    return merge_words(allowed[None].astype(np.float64), queries, keys)[0] > 0.0
