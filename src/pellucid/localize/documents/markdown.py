"""Takes Markdown apart into its paragraphs, headings, items and cells, and everything else, which stays as it is."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pellucid.localize.documents.document import Document
from pellucid.localize.documents.html import split_html
from pellucid.localize.documents.markdown_marks import MarkdownMark, MarkdownScanner
from pellucid.localize.documents.markdown_writing import MarkdownWriter, protect_tag
from pellucid.localize.documents.plain import decode_text
from pellucid.localize.documents.reading import DocumentReading, never_stop
from pellucid.localize.documents.slots import Inline, Part, Parts, TextSlot, join_markup, number_tags

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.token import Token

_LINE_END = re.compile(r"\r\n?|\n")
_FRONT_MATTER = re.compile(r"\A\ufeff?(---|\+\+\+)[ \t]*\r?\n(?:[^\n]*\n)*?\1[ \t]*(?:\r?\n|\Z)")
_FOOTNOTE = re.compile(r"\[\^[^\]\s\[]{1,200}\]:[ \t]*")
# A line in a paragraph that is markup for programs beyond CommonMark: directives, templates, kinds of notes.
_MARKUP_LINE = re.compile(r":{3,}.*|\{%.*%\}\s*|\{\{[<%].*[>%]\}\}\s*|\[![A-Za-z]+\][+-]?\s*|\$\$\s*|\\[\[\]]\s*")
_FORMULA = re.compile(r"\$\$[\s\S]*\$\$\s*\Z|\\begin\{")
_DEFINITION = re.compile(r":[ \t]+")  # the definition of a term, on a line of its own
_TASK = re.compile(r"\[[ xX]\][ \t]+")
_HEADING_ATTRIBUTES = re.compile(r"(?<![ \t])[ \t]*+\{[#.:][^{}\n]*+\}[ \t]*+\Z")
# A tag alone on the first line of a block of HTML, which is a block because of it.
_LONE_TAG = re.compile(r"[ \t]*+<[^<>\n]*+>[ \t]*+(?:\r\n?|\n)")
# What every line break has that separates texts.
_BREAK = re.compile(r"  \n|\\\n|<br", re.IGNORECASE)
_NARROWEST = 60  # characters of a line in a translation that is written on several
_CODE_ELEMENTS = ("code", "kbd", "samp", "var", "pre", "script", "style", "svg", "math", "textarea")


def read_markdown(name: str, content: bytes, reading: DocumentReading) -> Document:
    """Read a document of Markdown: CommonMark with the tables, tasks, footnotes and crossed-out text of GitHub."""
    text, encoding = decode_text(name, content)
    return Document([split_markdown(text, reading)], lambda bodies: bodies[0].encode(encoding), reading)


def split_markdown(text: str, reading: DocumentReading) -> Parts:
    """Take Markdown apart, with a slot for each paragraph, heading, item of a list and cell of a table."""
    return join_markup(_MarkdownReader(text, reading).read())


def _make_parser(go_on: Callable[[], None]) -> "MarkdownIt":
    """Return the parser of blocks; what is inside them is read by `MarkdownScanner`, which knows the places."""
    try:
        from markdown_it import MarkdownIt
    except ImportError:
        raise ValueError("Markdown needs the package markdown-it-py: pip install 'pellucid[documents]'") from None

    parser = MarkdownIt("commonmark").enable("table")
    parser.disable(["inline", "text_join"])
    parser.block.ruler.before(
        "reference", "footnote", partial(_read_footnote, go_on=go_on), {"alt": ["paragraph", "reference"]}
    )
    return parser


def _read_footnote(
    state: "StateBlock", start_line: int, end_line: int, silent: bool, *, go_on: Callable[[], None]
) -> bool:
    """Read the text of a footnote, a block that holds others; a rule of markdown-it."""
    go_on()
    start = state.bMarks[start_line] + state.tShift[start_line]
    if state.is_code_block(start_line):
        return False
    match = _FOOTNOTE.match(state.src, start, state.eMarks[start_line])
    if match is None:
        return False
    if silent:
        return True
    saved = state.bMarks[start_line], state.tShift[start_line], state.sCount[start_line]
    saved_indent, saved_parent = state.blkIndent, state.parentType
    state.push("footnote_open", "", 1).map = [start_line, end_line]
    # The first line begins behind the name of the footnote; the others are indented.
    state.blkIndent += 4
    state.bMarks[start_line], state.tShift[start_line] = match.end(), 0
    state.sCount[start_line] = state.blkIndent
    state.parentType = "footnote"
    state.md.block.tokenize(state, start_line, end_line)
    state.push("footnote_close", "", -1)
    state.bMarks[start_line], state.tShift[start_line], state.sCount[start_line] = saved
    state.blkIndent, state.parentType = saved_indent, saved_parent
    return True


@dataclass(frozen=True)
class _Stretch:
    """The text of a block as it stands behind the signs of quotations and lists, and where each line of it begins."""

    text: str
    starts: Sequence[int]  # of the lines in `text`
    places: Sequence[int]  # of the lines in the document

    def place(self, position: int) -> int:
        """Return where a position in the text stands in the document."""
        line = bisect_right(self.starts, position) - 1
        return self.places[line] + position - self.starts[line]


@dataclass(frozen=True)
class _BlockKind:
    """The kind of block that a text is part of."""

    heading: int  # level of a heading, 0 for any other block
    opening_marks: str  # the signs before a heading
    is_cell: bool
    is_part: bool  # whether the block has other texts, too


class _MarkdownReader:
    """One reading of a document."""

    def __init__(self, text: str, reading: DocumentReading):
        self.text = text
        self.reading = reading
        self.parser = _make_parser(reading.go_on)
        self.writing_parser = _make_parser(never_stop)  # translations are written after the reading has ended
        front = _FRONT_MATTER.match(text)
        self.begin = front.end() if front else 0
        if front:
            reading.kept["other"] += 1
        self.line_starts = [self.begin]
        self.line_ends: list[int] = []
        for end in _LINE_END.finditer(text, self.begin):
            self.line_ends.append(end.start())
            self.line_starts.append(end.end())
        self.line_ends.append(len(text))
        self.line_starts.append(len(text))
        self.parts: list[Part] = []
        self.position = 0  # where what is not yet in `parts` begins
        self.column = (-1, 0)  # the line of the last cell of a table, and where that cell ends

    def read(self) -> list[Part]:
        """Return the parts of the document."""
        from markdown_it.common.utils import normalizeReference

        environment: dict = {}
        tokens = self.parser.parse(self.text[self.begin :], environment)
        references = environment.get("references", {})
        # Titles of links that are defined apart from their text.
        self.reading.kept["other"] += sum(bool(reference["title"]) for reference in references.values())
        self.is_label: Callable[[str], bool] = lambda label: normalizeReference(label) in references
        quotations = 0
        for number, token in enumerate(tokens):
            if number % 1000 == 0:
                self.reading.go_on()
            if token.type.startswith("blockquote"):
                quotations += token.nesting
            elif token.type in ("fence", "code_block"):
                self.reading.kept["code"] += 1
            elif token.type == "html_block":
                self.read_html(token, quotations)
            elif token.type == "inline":
                self.read_block(token, tokens[number - 1])
        self.parts.append(self.text[self.position :])
        return self.parts

    def read_html(self, token: "Token", quotations: int) -> None:
        """Read a block of HTML; inside a quotation its lines begin with signs of Markdown, so there it stays."""
        assert token.map is not None
        start, end = self.line_starts[token.map[0]], self.line_starts[token.map[1]]
        if quotations:
            self.reading.kept["other"] += 1
            return
        if first_line := _LONE_TAG.match(self.text, start, end):
            start = first_line.end()
        self.parts += [self.text[self.position : start], *split_html(self.text[start:end], self.reading)]
        self.position = end

    # A paragraph, a heading, or a cell of a table

    def read_block(self, token: "Token", opening: "Token") -> None:
        is_cell = opening.type in ("td_open", "th_open")
        heading = int(opening.tag[1]) if opening.type == "heading_open" else 0
        stretch = self.find_cell(token) if is_cell else self.find_stretch(token)
        if stretch is None:
            self.reading.kept["other"] += bool(token.content.strip())
            return
        if _FORMULA.match(stretch.text):
            self.reading.kept["code"] += 1
            return
        opening_marks = opening.markup if heading and opening.markup.startswith("#") else ""
        spans: list[tuple[int, int]] = []
        for start, end in self.find_texts(stretch, heading, is_cell):
            pieces = self.split_at_breaks(stretch.text[start:end], is_cell)
            spans += [(start + first, start + last) for first, last in pieces]
        kind = _BlockKind(heading, opening_marks, is_cell, is_part=len(spans) > 1)
        for start, end in spans:
            self.read_text(stretch, start, end, kind)

    def find_stretch(self, token: "Token") -> _Stretch | None:
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
        return _Stretch("\n".join(lines), starts, places)

    def find_cell(self, token: "Token") -> _Stretch | None:
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
        return _Stretch(raw, [0], [place])

    def find_texts(self, stretch: _Stretch, heading: int, is_cell: bool) -> Iterator[tuple[int, int]]:
        """Yield where the texts of a block begin and end: most blocks are one text."""
        text = stretch.text
        if is_cell:
            yield 0, len(text)
            return
        start: int | None = None
        for number, begin in enumerate(stretch.starts):
            end = stretch.starts[number + 1] - 1 if number + 1 < len(stretch.starts) else len(text)
            line = text[begin:end]
            is_markup = _MARKUP_LINE.fullmatch(line) is not None
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
        if start is not None:
            attributes = _HEADING_ATTRIBUTES.search(text, start) if heading else None
            yield start, attributes.start() if attributes else len(text)

    def split_at_breaks(self, raw: str, is_cell: bool) -> Iterator[tuple[int, int]]:
        """Yield where the texts between line breaks begin and end; a break inside emphasis or a link is none."""
        begin = depth = 0
        marks: Sequence[MarkdownMark] = ()
        if _BREAK.search(raw):
            marks = MarkdownScanner(_hide_bars(raw) if is_cell else raw, self.is_label).scan()
        for mark in marks:
            if mark.name in ("em", "strong", "del", "link"):
                depth += 1 if mark.kind == "opening" else -1
            elif depth == 0 and (mark.name == "html br" or (mark.name == "break" and mark.kind == "single")):
                yield begin, mark.start
                begin = mark.end
        yield begin, len(raw)

    def read_text(self, stretch: _Stretch, start: int, end: int, kind: _BlockKind) -> None:
        """Append a slot for a text of a block."""
        whole = stretch.text[start:end]
        start += len(whole) - len(whole.lstrip())
        raw = whole.strip()
        scanned = _hide_bars(raw) if kind.is_cell else raw
        marks = MarkdownScanner(scanned, self.is_label).scan()

        def cut(first: int, last: int) -> str:
            if first == last:
                return ""
            # A line end goes with what stands before the text of the next line.
            ends_line = raw[last - 1] == "\n"
            end = stretch.place(start + last) if ends_line else stretch.place(start + last - 1) + 1
            return self.text[stretch.place(start + first) : end]

        texts = _MarkdownText(scanned, raw, marks, cut)
        items, original = texts.list_items()
        if not any(isinstance(item, str) and item.strip() for item in items) and not texts.has_inner:
            # Code, an image or an address alone.
            is_code = any(mark.name in ("code", "math") for mark in marks)
            self.reading.kept["code" if is_code else "other"] += 1
            return
        text, tags, _ = number_tags(items)
        lines = raw.count("\n") + 1
        first, last = stretch.place(start), stretch.place(start + len(raw) - 1) + 1
        prefix, line_end = self.find_prefix(stretch, start, lines, first)
        width = max(_NARROWEST, *map(len, raw.split("\n"))) if lines > 1 and not kind.heading else 0
        escaped = frozenset(mark.character for mark in marks if mark.name == "escape")
        writer = MarkdownWriter(
            prefix,
            line_end,
            width,
            kind.opening_marks,
            escaped,
            kind.is_cell,
            self.begins_line(kind, first),
            kind.is_part,
            start == 0 or stretch.text[start - 1] == "\n",
            self.is_label,
            self.writing_parser,
        )
        slot = TextSlot(text, tags, original, writer.escape, writer.finish, heading=kind.heading)
        self.parts += [self.text[self.position : first], slot]
        self.position = last

    def begins_line(self, kind: _BlockKind, first: int) -> bool:
        """Return whether a text that begins here could begin a block of another kind if it had its signs."""
        if not kind.is_cell:
            return not kind.heading or not kind.opening_marks
        line = bisect_right(self.line_starts, first, hi=len(self.line_ends)) - 1
        return not self.text[self.line_starts[line] : first].strip(" \t>")

    def find_prefix(self, stretch: _Stretch, start: int, lines: int, first: int) -> tuple[str, str]:
        """Return what stands before the second line of a text, and the line end before it."""
        line = bisect_right(self.line_starts, first, hi=len(self.line_ends)) - 1
        if lines < 2:
            # A hard break of the translation cannot be new, so this prefix is never needed.
            return "", "\n"
        number = bisect_right(stretch.starts, start)
        begin = self.line_starts[line + 1]
        return self.text[begin : stretch.places[number]], self.text[self.line_ends[line] : begin]


def _hide_bars(raw: str) -> str:
    """Return the text of a cell in which bars are no escapes, as long as before.

    >>> _hide_bars("`a \\\\| b`")
    '`a \\ufdd0| b`'
    """
    return raw.replace("\\|", "\ufdd0|")


class _MarkdownText:
    """The text of a block with its marks, as items of a slot and as it stands in the document."""

    def __init__(self, text: str, raw: str, marks: Sequence[MarkdownMark], cut: Callable[[int, int], str]):
        self.text = text
        self.raw = raw
        self.marks = marks
        self.cut = cut
        self.has_inner = False  # whether there are texts inside the marks
        self.references: dict[int, MarkdownMark] = {mark.key: mark for mark in marks if mark.kind == "opening"}

    def list_items(self) -> tuple[list[str | Inline], list[Part]]:
        """Return the items of the slot, and the parts of the document that they stand for."""
        items: list[str | Inline] = []
        original: list[Part] = []
        position = 0
        skipped_until = 0
        for number, mark in enumerate(self.marks):
            if mark.start < skipped_until:
                continue
            items.append(self.text[position : mark.start].replace("\ufdd0", ""))
            original.append(self.cut(position, mark.start))
            position = mark.end
            if mark.kind in ("character", "space"):
                items.append(mark.character)
                original.append(self.cut(mark.start, mark.end))
                continue
            end = self.find_code_end(number)
            if end:
                position = skipped_until = end
                parts: list[Part] = [self.cut(mark.start, end)]
                items.append(Inline("single", mark.name, [protect_tag(self.cut(mark.start, end), "code")]))
            else:
                parts = self.list_parts(mark)
                items.append(self.make_inline(mark, parts))
            original += parts
        items.append(self.text[position:].replace("\ufdd0", ""))
        original.append(self.cut(position, len(self.text)))
        return items, [part for part in original if part != ""]

    def find_code_end(self, number: int) -> int:
        """Return where an element of HTML with code ends that begins with this mark; 0 where none begins."""
        mark = self.marks[number]
        if mark.kind != "opening" or mark.name.removeprefix("html ") not in _CODE_ELEMENTS:
            return 0
        for other in self.marks[number + 1 : number + 50]:
            if other.name == mark.name and other.kind == "closing":
                return other.end
        return 0

    def list_parts(self, mark: MarkdownMark) -> list[Part]:
        """Return a mark as it stands in the document, with slots for the texts in it."""
        parts: list[Part] = []
        position = mark.start
        for span in (mark.label, mark.title):
            if span is None or span[0] == span[1]:
                continue
            inner = self.raw[span[0] : span[1]]
            # Of an image that is defined elsewhere the text may be the name.
            is_name = span == mark.label and self.raw[span[1] + 1 : span[1] + 2] != "("
            if is_name or re.search(r"[\n\\<&*_`\[\]|]", inner):
                continue
            quotes = "" if span == mark.label else self.raw[span[0] - 1] + self.raw[span[1]]
            slot = TextSlot(inner, original=[self.cut(*span)], finish=partial(_write_inner, quotes=quotes))
            parts += [self.cut(position, span[0]), slot]
            position = span[1]
            self.has_inner = self.has_inner or slot.is_translatable
        return [*parts, self.cut(position, mark.end)]

    def make_inline(self, mark: MarkdownMark, parts: list[Part]) -> Inline:
        """Return a mark as an item of a slot."""
        kind, key = mark.kind, (mark.name, mark.key)
        assert kind in ("opening", "closing", "single")
        if mark.name.startswith("html "):
            key = (mark.name, 0)
            if mark.name.removeprefix("html ") in ("br", "hr", "img", "input", "wbr", "source"):
                kind = "single"
        if mark.name == "link" and kind == "closing":
            opening = self.references[mark.key]
            written = self.raw[mark.start : mark.end]
            # The name of a link that is defined elsewhere stays when its text is translated.
            if written in ("]", "][]"):
                parts = [f"][{self.raw[opening.end : mark.start]}]"]
        last = len(parts) - 1
        sign = {"opening": "+", "closing": "-", "single": "="}[kind]
        name = mark.name.partition(" ")[0]
        wrapped: list[Part] = []
        for i, part in enumerate(parts):
            is_markup = isinstance(part, str)
            wrapped.append(protect_tag(part, name, sign, is_first=i == 0, is_last=i == last) if is_markup else part)
        return Inline(kind, key, wrapped)


def _write_inner(text: str, quotes: str) -> str:
    """Return the text or the title of an image or a link without the signs that would end it."""
    text = re.sub(r"[\[\]\\<>`*_|]|&(?=[#\w]+;)", "", " ".join(text.split()))
    return "".join({'"': "”", "'": "’"}.get(sign, "") if sign in quotes else sign for sign in text)
