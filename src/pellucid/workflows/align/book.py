"""Books as lists of sentences, each with its place: the line or the text of a document that it begins in."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pellucid.data.text.line_splitting import BREAKS, UNSPACED
from pellucid.data.text.sentences import LETTER_OR_DIGIT, sentence_ends

_BREAKS_WITH_SPACES = re.compile(rf" *[{BREAKS}][ {BREAKS}]*")
# Characters of a line up to which it may be one of a paragraph that was broken into lines.
_WIDEST = 200
_FEWEST_BROKEN = 20  # pairs of lines by which it is told whether lines are broken
# Share of the lines that must be full, so that no further word would have fitted.
_BROKEN_SHARE = 0.8
# Share of the lines that are no longer than the width at which they were broken.
_WIDTH_QUANTILE = 0.98


@dataclass(frozen=True, slots=True)
class BookSentence:
    """A sentence of a book, with the number of the line or text that it begins in."""

    text: str
    place: int


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A text, with the place of each of its lines: where the line begins in the text, and its number."""

    text: str
    lines: Sequence[tuple[int, int]]

    def find_place(self, offset: int) -> int:
        """Return the number of the line that a character is in."""
        return self.lines[bisect_right(self.lines, offset, key=lambda line: line[0]) - 1][1]


@dataclass(frozen=True)
class Book:
    """The sentences of a book in their order."""

    sentences: Sequence[BookSentence]
    without_letters: int
    """Texts between the sentences that have neither a letter nor a digit, and are left out."""
    width: int | None = None
    """The width at which the lines of its paragraphs are broken; None where each line is a paragraph."""

    def list_texts(self) -> list[str]:
        return [sentence.text for sentence in self.sentences]


def read_book(lines: Sequence[str], is_split: bool = False) -> Book:
    """Read plain text: its lines are joined to paragraphs where they are broken, and cut into sentences.

    With `is_split`, each line is one sentence already.

    >>> [sentence.text for sentence in read_book(["It rains. We stay.", "", "He goes."]).sentences]
    ['It rains.', 'We stay.', 'He goes.']
    """
    width = None if is_split else find_width(lines)
    if width is not None:
        return split_paragraphs(join_broken_lines(lines), width=width)
    paragraphs = (Paragraph(line, [(0, number)]) for number, line in enumerate(lines, start=1))
    return split_paragraphs(paragraphs, is_split)


def split_paragraphs(
    paragraphs: Iterable[Paragraph], is_split: bool = False, width: int | None = None
) -> Book:
    """Cut paragraphs into sentences; with `is_split`, each paragraph is one sentence already."""
    sentences: list[BookSentence] = []
    without_letters = 0
    for paragraph in paragraphs:
        text = paragraph.text
        ends = [len(text)] if is_split else sentence_ends(text, 0, len(text))
        start = 0
        for end in ends:
            content = text[start:end]
            begin = start + len(content) - len(content.lstrip())
            start = end
            if LETTER_OR_DIGIT.search(content):
                plain = _BREAKS_WITH_SPACES.sub(" ", content.strip())
                sentences.append(BookSentence(plain, paragraph.find_place(begin)))
            elif content.strip():
                without_letters += 1

    return Book(sentences, without_letters, width)


def find_width(lines: Sequence[str]) -> int | None:
    """Return the width at which the paragraphs of a text are broken into lines, None where they are not.

    A line that is followed by another is full: the first word of the next would not have fitted.

    >>> text = "many words that are broken into lines ".split() * 40
    >>> find_width([" ".join(text[i : i + 7]) for i in range(0, 240, 7)])
    37
    >>> find_width(["A line.", "Another line, which is longer.", "One more."] * 40)
    """
    lengths = sorted(len(line.rstrip()) for line in lines if line.strip())
    if not lengths:
        return None
    width = lengths[int(_WIDTH_QUANTILE * (len(lengths) - 1))]
    pairs: list[tuple[str, str]] = []
    for line, following in pairwise(lines):
        if line.strip() and following.strip():
            pairs.append((line, following))
    if width > _WIDEST or len(pairs) < _FEWEST_BROKEN:
        return None
    full = 0
    for line, following in pairs:
        full += len(line.rstrip()) + 1 + len(following.split(maxsplit=1)[0]) > width
    return width if full >= _BROKEN_SHARE * len(pairs) else None


def join_broken_lines(lines: Sequence[str]) -> Iterator[Paragraph]:
    """Yield the paragraphs of a text whose lines are broken: they end at an empty line, or before an indented one."""
    text = ""
    starts: list[tuple[int, int]] = []
    for number, line in enumerate([*lines, ""], start=1):
        content = line.strip()
        if text and (not content or line[0].isspace()):
            yield Paragraph(text, starts)
            text, starts = "", []
        if content:
            gap = find_gap(text, content)
            starts.append((len(text) + len(gap), number))
            text = f"{text}{gap}{content}"


def join_sentences(sentences: Iterable[BookSentence]) -> str:
    """Join sentences that follow each other to one text.

    >>> join_sentences([BookSentence("It rains.", 1), BookSentence("We stay.", 2)])
    'It rains. We stay.'
    """
    joined = ""
    for sentence in sentences:
        joined = f"{joined}{find_gap(joined, sentence.text)}{sentence.text}"
    return joined


def find_gap(before: str, after: str) -> str:
    """Return the space between two texts, or nothing in scripts without spaces.

    >>> find_gap("It rains.", "We stay."), find_gap("雨です。", "家にいます。")
    (' ', '')
    """
    is_unspaced = not before or UNSPACED.match(before[-1]) or UNSPACED.match(after[:1])
    return "" if is_unspaced else " "
