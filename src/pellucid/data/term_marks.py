"""Marked terms in a source: a term and the translation that is asked for, between pieces that no text becomes.

A source with a term reads `The <term> ball <means> pelota </term> is blue.`, in pieces. A model
that was trained with such sources (`data.terms`) writes the translation in its place, and
inflects it where the sentence asks for that.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pellucid.data.text.word_pieces import spell_letters

Marks = tuple[int, int, int]
"""Ids of the pieces before a term, between it and its translation, and behind both (`Tokenizer.term_marks`)."""


@dataclass(frozen=True)
class MarkedTerm:
    """A term of a source: the range of its tokens, and the tokens of the translation that is asked for."""

    tokens: range
    translation: Sequence[int]


def mark_terms(source: Sequence[int], terms: Sequence[MarkedTerm], marks: Marks) -> list[int]:
    """Return the token ids of a source with marks around its terms, each followed by its translation.

    The terms do not overlap.

    >>> mark_terms([10, 11, 12, 3], [MarkedTerm(range(1, 2), [20, 21])], (5, 6, 7))
    [10, 5, 11, 6, 20, 21, 7, 12, 3]
    """
    before, between, after = marks
    marked: list[int] = []
    copied = 0
    for term in sorted(terms, key=lambda term: term.tokens.start):
        assert copied <= term.tokens.start < term.tokens.stop
        marked += source[copied : term.tokens.start]
        marked += [
            before,
            *source[term.tokens.start : term.tokens.stop],
            between,
            *term.translation,
            after,
        ]
        copied = term.tokens.stop

    return [*marked, *source[copied:]]


def find_own_tokens(source: Sequence[int], marks: Marks | None) -> list[int]:
    """Return the positions of the tokens of a source that it has without its marked terms.

    >>> find_own_tokens([10, 5, 11, 6, 20, 21, 7, 12, 3], (5, 6, 7))
    [0, 2, 7, 8]
    """
    if marks is None or marks[0] not in source:
        return list(range(len(source)))
    own, in_translation = [], False
    for position, token in enumerate(source):
        if token in marks:
            in_translation = token == marks[1]
        elif not in_translation:
            own.append(position)
    return own


def find_told_tokens(source: Sequence[int], marks: Marks | None) -> list[tuple[range, range]]:
    """Return for each marked term the positions of its own tokens, and of its translation.

    >>> find_told_tokens([10, 5, 11, 6, 20, 21, 7, 12, 3], (5, 6, 7))
    [(range(2, 3), range(4, 6))]
    """
    if marks is None:
        return []
    terms: list[tuple[range, range]] = []
    start = between = None
    for position, token in enumerate(source):
        if token == marks[0]:
            start, between = position, None
        elif token == marks[1]:
            between = position
        elif token == marks[2] and start is not None and between is not None:
            terms.append((range(start + 1, between), range(between + 1, position)))
            start = between = None

    return terms


class SpelledSource:
    """The text that source pieces spell, and which of them spell each of its letters."""

    def __init__(self, pieces: Sequence[str]):
        self.letters = list(spell_letters(pieces))
        self.text = "".join(letter for letter, _, _ in self.letters)

    def find_tokens(self, start: int, end: int) -> range:
        """Return the range of the pieces that spell the letters from start to end, whole pieces.

        A piece that is nothing but the space before them is among them.

        >>> SpelledSource(["▁a", "▁", "Z", "o", "."]).find_tokens(3, 5)
        range(1, 4)
        """
        first, last = self.letters[start][1], self.letters[end - 1][2]
        if start and self.letters[start - 1][0] == " " and self.letters[start - 1][1] == first - 1:
            # A piece with a letter before the space is a part of the word before.
            first -= start < 2 or self.letters[start - 2][2] < first - 1
        return range(first, last + 1)
