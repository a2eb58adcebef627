"""Finds the texts in blocks of Markdown with their places, in a document and in what is written for it."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pellucid.localize.documents.markdown_blocks import make_parser
from pellucid.localize.documents.markdown_marks import MarkdownMark
from pellucid.localize.documents.markdown_programs import is_program_line
from pellucid.localize.documents.reading import never_stop

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_LINE_END = re.compile(r"\r\n?|\n")
_DEFINITION = re.compile(r":[ \t]+")  # the definition of a term, on a line of its own
_TASK = re.compile(r"\[[ xX]\][ \t]+")
_HEADING_ATTRIBUTES = re.compile(r"(?<![ \t])[ \t]*+\{[#.:-][^{}\n]*+\}[ \t]*+\Z")
_CLOSING_SIGNS = re.compile(r"(?<![ \t])[ \t]++#++\Z")
# A line that cannot begin a block of another kind.
_PLAIN_LINE = re.compile(r"(?!import|export)[^\W\d_]")
# What every line break has that separates texts.
_BREAK = re.compile(r"  \n|\\\n|<br", re.IGNORECASE)


def hide_bars(raw: str) -> str:
    """Return the text of a cell in which bars are no escapes, as long as before.

    >>> hide_bars("`a \\\\| b`")
    '`a \\ufdd0| b`'
    """
    return raw.replace("\\|", "\ufdd0|")


@dataclass(frozen=True)
class Stretch:
    """The text of a block as it stands behind the signs of quotations and lists, and where each line of it begins."""

    text: str
    starts: Sequence[int]  # of the lines in `text`
    places: Sequence[int]  # of the lines in the document

    def place(self, position: int) -> int:
        """Return where a position in the text stands in the document."""
        line = bisect_right(self.starts, position) - 1
        return self.places[line] + position - self.starts[line]


@dataclass(frozen=True)
class BlockKind:
    """The kind of block that a text is part of."""

    heading: int = 0  # level of a heading, 0 for any other block
    opening_marks: str = ""  # the signs before a heading
    underline: str = ""  # the sign that makes up the line below a heading
    is_cell: bool = False
    is_header: bool = False  # whether it is a cell of the first row
    frame: tuple[str, str] | None = None  # what stands before and after a title in its line


class BlockFinder:
    """The blocks of a text of Markdown, and where the texts in them stand."""

    def __init__(
        self,
        text: str,
        begin: int,
        parser: "MarkdownIt",
        scan: Callable[[str], Sequence[MarkdownMark]],
    ):
        self.text = text
        self.begin = begin
        self.parser = parser
        self.scan = scan

        self.line_starts = [begin]
        self.line_ends: list[int] = []
        for end in _LINE_END.finditer(text, begin):
            self.line_ends.append(end.start())
            self.line_starts.append(end.end())
        self.line_ends.append(len(text))
        self.line_starts.append(len(text))
        self.column = (-1, 0)  # the line of the last cell of a table, and where that cell ends

    def parse(self, environment: dict) -> "list[Token]":
        """Return the tokens of the blocks, and put the names of links into the environment."""
        return self.parser.parse(self.text[self.begin :], environment)

    def find_block(self, token: "Token", opening: "Token") -> tuple[Stretch, BlockKind] | None:
        """Return the text of a block, with its places and its kind."""
        is_cell = opening.type in ("td_open", "th_open")
        if is_cell:
            stretch = self.find_cell(token)
        elif "tail" in token.meta:
            stretch = self.find_line_part(token)
        else:
            stretch = self.find_stretch(token)

        if stretch is None:
            return None

        if opening.type == "heading_open":
            is_underlined = not opening.markup.startswith("#")
            signs = ("", opening.markup[:1]) if is_underlined else (opening.markup, "")
            return stretch, BlockKind(int(opening.tag[1]), *signs)

        frame = token.meta.get("frame")
        return stretch, BlockKind(is_cell=is_cell, is_header=opening.type == "th_open", frame=frame)

    def find_line_part(self, token: "Token") -> Stretch | None:
        """Return a text that is a part of a line of markup."""
        assert token.map is not None
        place = self.line_ends[token.map[0]] - token.meta["tail"] - len(token.content)
        return Stretch(token.content, [0], [place])

    def find_stretch(self, token: "Token") -> Stretch | None:
        """Return the text of a paragraph or a heading with its places."""
        assert token.map is not None
        lines = [line.lstrip(" \t") for line in token.content.split("\n")]
        starts, places, length = [], [], 0
        for number, line in enumerate(lines, start=token.map[0]):
            if number >= len(self.line_ends):
                return None
            end = self.line_ends[number]
            # A heading may end with signs that are not its text, a paragraph with spaces.
            place = self.text.rfind(line, self.line_starts[number], end)
            if place < 0:
                return None
            starts.append(length)
            places.append(place)
            length += len(line) + 1

        return Stretch("\n".join(lines), starts, places)

    def find_cell(self, token: "Token") -> Stretch | None:
        """Return the text of a cell with its place; in it, a bar has a backslash before it."""
        assert token.map is not None
        line = token.map[0]
        if line >= len(self.line_ends):
            return None
        start = self.column[1] if self.column[0] == line else self.line_starts[line]
        raw = token.content.replace("|", "\\|")
        place = self.text.find(raw, start, self.line_ends[line]) if raw else -1

        if place < 0:
            return None
        self.column = (line, place + len(raw))
        return Stretch(raw, [0], [place])

    def find_spans(self, stretch: Stretch, kind: BlockKind) -> list[tuple[int, int]]:
        """Return where the texts of a block begin and end: most blocks are one text."""
        spans: list[tuple[int, int]] = []
        for start, end in self.find_texts(stretch, kind):
            pieces = self.split_at_breaks(stretch.text[start:end], kind.is_cell)
            spans += [(start + first, start + last) for first, last in pieces]
        return spans

    def find_texts(self, stretch: Stretch, kind: BlockKind) -> Iterator[tuple[int, int]]:
        """Yield the parts of a block between lines that are markup."""
        text = stretch.text
        if kind.is_cell or kind.frame:
            yield 0, len(text)
            return

        start: int | None = None
        for number, begin in enumerate(stretch.starts):
            end = stretch.starts[number + 1] - 1 if number + 1 < len(stretch.starts) else len(text)
            line = text[begin:end]
            is_markup = is_program_line(line.rstrip()) and not kind.heading
            definition = _DEFINITION.match(line) if not is_markup else None
            if (is_markup or definition) and start is not None:
                yield start, begin - 1
                start = None
            if is_markup:
                continue
            if definition:
                start = begin + definition.end()
            elif start is None:
                task = _TASK.match(line) if number == 0 else None
                start = begin + (task.end() if task else 0)

        if start is None:
            return

        attributes = _HEADING_ATTRIBUTES.search(text, start) if kind.heading else None
        end = attributes.start() if attributes else len(text)
        if attributes and kind.opening_marks and (signs := _CLOSING_SIGNS.search(text, start, end)):
            end = signs.start()
        yield start, end

    def split_at_breaks(self, raw: str, is_cell: bool) -> Iterator[tuple[int, int]]:
        """Yield where the texts between line breaks begin and end; a break inside emphasis or a link is none."""
        begin = depth = 0
        marks: Sequence[MarkdownMark] = ()
        if _BREAK.search(raw):
            marks = self.scan(hide_bars(raw) if is_cell else raw)

        for mark in marks:
            if mark.name in ("em", "strong", "del", "link"):
                depth += 1 if mark.kind == "opening" else -1
                continue
            is_hard_break = mark.name == "break" and mark.kind == "single"
            if depth == 0 and (is_hard_break or mark.name == "html br"):
                yield begin, mark.start
                begin = mark.end
        yield begin, len(raw)


class WritingChecker:
    """Reads what was written, to see whether a translation is the text that stands in its place."""

    def __init__(self, is_mdx: bool, scan: Callable[[str], Sequence[MarkdownMark]]):
        # Translations are written after the reading has ended.
        self.parser = make_parser(never_stop, is_mdx=is_mdx)
        self.scan = scan
        self.shapes: dict[tuple[str, str], list[tuple[str, int, int]]] = {}

    def is_alone(self, before: str, content: str, after: str) -> bool:
        """Return whether a translation is one text between these, as one word would be."""
        if not before and not after and all(map(_PLAIN_LINE.match, content.split("\n"))):
            return True

        key = before, after
        if key not in self.shapes:
            self.shapes[key] = self.list_texts(f"{before}a{after}")
        shift = len(content) - 1

        expected: list[tuple[str, int, int]] = []
        for name, start, end in self.shapes[key]:
            start += shift * (start > len(before))
            end += shift * (end > len(before))
            expected.append((name, start, end))
        return self.list_texts(f"{before}{content}{after}") == expected

    def list_texts(self, text: str) -> list[tuple[str, int, int]]:
        """Return the blocks of a text and the places of its texts."""
        finder = BlockFinder(text, 0, self.parser, self.scan)
        found: list[tuple[str, int, int]] = []
        tokens = finder.parse({})
        for number, token in enumerate(tokens):
            block = finder.find_block(token, tokens[number - 1]) if token.type == "inline" else None
            if block is None:
                found.append((f"{token.type} {token.tag}", 0, 0))
                continue
            stretch = block[0]
            for start, end in finder.find_spans(*block):
                start, end = strip_span(stretch.text, start, end)
                if start < end:
                    found.append(("text", stretch.place(start), stretch.place(end - 1) + 1))
        return found


def strip_span(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a span without the white space at its ends."""
    start += len(text[start:end]) - len(text[start:end].lstrip())
    return start, start + len(text[start:end].rstrip())
