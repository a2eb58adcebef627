"""Takes Markdown apart into its paragraphs, headings, items and cells, and everything else, which stays as it is."""

import re
from bisect import bisect_right
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from pellucid.localize.documents.document import Document
from pellucid.localize.documents.html import BLOCK_ELEMENTS, split_html
from pellucid.localize.documents.html_attributes import find_kept, split_tag
from pellucid.localize.documents.html_frames import keep_frame
from pellucid.localize.documents.html_tokens import find_markup, read_attributes
from pellucid.localize.documents.markdown_blocks import find_front_matter_end, make_parser
from pellucid.localize.documents.markdown_finder import (
    BlockFinder,
    BlockKind,
    Stretch,
    WritingChecker,
    hide_bars,
    strip_span,
)
from pellucid.localize.documents.markdown_items import MarkdownText, split_values
from pellucid.localize.documents.markdown_marks import MarkdownMark, MarkdownScanner
from pellucid.localize.documents.markdown_programs import count_other_texts
from pellucid.localize.documents.markdown_writing import MarkdownWriter
from pellucid.localize.documents.plain import decode_text
from pellucid.localize.documents.reading import DocumentReading
from pellucid.localize.documents.slots import Part, Parts, TextSlot, join_markup, number_tags

if TYPE_CHECKING:
    from markdown_it.token import Token

_FORMULA = re.compile(r"\\begin\{")
# A tag alone on the first line of a block of HTML, which is a block because of it.
_LONE_TAG = re.compile(r"[ \t]*+<[^<>\n]*+>[ \t]*+(?:\r\n?|\n)")
_NARROWEST = 60  # characters of a line in a translation that is written on several


def read_markdown(name: str, content: bytes, reading: DocumentReading) -> Document:
    """Read a document of Markdown: CommonMark with the tables, tasks, footnotes and crossed-out text of GitHub."""
    text, encoding = decode_text(name, content)
    parts = split_markdown(text, reading, is_mdx=name.lower().endswith(".mdx"))
    return Document([parts], lambda bodies: bodies[0].encode(encoding), reading)


def split_markdown(text: str, reading: DocumentReading, *, is_mdx: bool = False) -> Parts:
    """Take Markdown apart, with a slot for each paragraph, heading, item of a list and cell of a table."""
    return join_markup(_MarkdownReader(text, reading, is_mdx).read())


class _MarkdownReader(BlockFinder):
    """One reading of a document."""

    def __init__(self, text: str, reading: DocumentReading, is_mdx: bool):
        begin = find_front_matter_end(text)
        super().__init__(text, begin, make_parser(reading.go_on, is_mdx=is_mdx), self.scan_marks)
        self.reading = reading
        self.is_mdx = is_mdx
        self.checker = WritingChecker(is_mdx, self.scan_marks)
        reading.kept["other"] += begin > 0
        self.parts: list[Part] = []
        self.position = 0  # where what is not yet in `parts` begins
        self.is_label: Callable[[str], bool] = lambda _: False

    def scan_marks(self, text: str) -> list[MarkdownMark]:
        """Return the marks in a text, among them links by the names that the document defines."""
        return MarkdownScanner(text, self.is_label, is_mdx=self.is_mdx).scan()

    def read(self) -> list[Part]:
        """Return the parts of the document."""
        from markdown_it.common.utils import normalizeReference

        environment: dict = {}
        tokens = self.parse(environment)
        references = environment.get("references", {})
        # Titles of links that are defined apart from their text.
        titles = [reference["title"] for reference in references.values()]
        self.reading.kept["other"] += sum(map(bool, titles))
        self.is_label = lambda label: normalizeReference(label) in references

        quotations = 0
        for number, token in enumerate(tokens):
            if number % 1000 == 0:
                self.reading.go_on()
            if token.type.startswith("blockquote"):
                quotations += token.nesting
            elif token.type in ("fence", "code_block", "kept_code", "module_code"):
                self.reading.kept["code"] += 1
            elif token.type in ("program", "component"):
                self.read_program(token)
            elif token.type == "deep":
                assert token.map is not None
                for line in range(token.map[0], token.map[1]):
                    text = self.text[self.line_starts[line] : self.line_ends[line]]
                    self.reading.kept["other"] += any(map(str.isalpha, text))
            elif token.type == "html_block":
                self.read_html(token, quotations)
            elif token.type == "inline":
                self.read_block(token, tokens[number - 1])

        self.parts.append(self.text[self.position :])
        return self.parts

    def read_program(self, token: "Token") -> None:
        """Read lines that speak to a program, and the values of attributes in them that people read."""
        assert token.map is not None
        for number in range(*token.map):
            start, end = self.line_starts[number], self.line_ends[number]
            line = self.text[start:end]
            if token.type == "program":
                self.reading.kept["other"] += count_other_texts(line.lstrip(" \t>"))
            parts = split_values(line)
            if any(not isinstance(part, str) for part in parts):
                self.parts += [self.text[self.position : start], *parts]
                self.position = end

    def read_html(self, token: "Token", quotations: int) -> None:
        """Read a block of HTML; inside a quotation its lines begin with signs of Markdown, so there it stays."""
        assert token.map is not None
        start, end = self.line_starts[token.map[0]], self.line_starts[token.map[1]]
        if quotations:
            self.reading.kept["other"] += 1
            return

        html = self.text[start:end]
        parts = self.read_lone_tag(html) or split_html(html, self.reading)
        self.parts += [self.text[self.position : start], *parts]
        self.position = end

    def read_lone_tag(self, html: str) -> list[Part]:
        """Read a block of HTML that is one because a tag stands alone in its first line, where that tag has to stay.

        The tags of other blocks separate texts, so that they stay in
        their lines; for these nothing is returned.
        """
        line = _LONE_TAG.match(html)
        markup = find_markup(html, 0) if line else None
        if line is None or markup is None or markup.kind == "other":
            return []
        if markup.name in BLOCK_ELEMENTS:
            return []

        tag = html[markup.start : markup.end]
        attributes = read_attributes(tag, markup.name) if markup.kind == "opening" else {}
        if find_kept(attributes) == "protected":
            self.reading.kept["protected"] += 1
            return [html]

        source = self.reading.languages[0] if self.reading.languages else None
        keep = partial(keep_frame, kept=self.reading.kept)
        parts = split_tag(tag, markup.name, attributes, source, keep) if attributes else [tag]
        rest = split_html(html[line.end() :], self.reading)
        return [html[: markup.start], *parts, html[markup.end : line.end()], *rest]

    # A paragraph, a heading, a title, or a cell of a table

    def read_block(self, token: "Token", opening: "Token") -> None:
        block = self.find_block(token, opening)
        if block is None:
            self.reading.kept["other"] += bool(token.content.strip())
            return
        stretch, kind = block

        if opening.type == "abbreviation_open":
            self.read_plain(stretch)
            return

        if _FORMULA.match(stretch.text):
            self.reading.kept["code"] += 1
            return

        spans = self.find_spans(stretch, kind)
        for number, (start, end) in enumerate(spans):
            begin = spans[number - 1][1] if number else 0
            following = spans[number + 1][0] if number + 1 < len(spans) else len(stretch.text)
            # What stands between this text and its neighbours, for which letters stand.
            start, end = strip_span(stretch.text, start, end)
            if start >= end:
                continue

            before = stretch.text[begin:start] if number == 0 else f"a{stretch.text[begin:start]}"
            after = stretch.text[end:following] + ("b" if number + 1 < len(spans) else "")
            self.read_text(stretch, start, end, kind, (before, after), len(spans) > 1)

    def read_plain(self, stretch: Stretch) -> None:
        """Append a slot for a text without marks."""
        start = stretch.places[0]
        self.parts += [
            self.text[self.position : start],
            TextSlot(stretch.text, original=[stretch.text], escape=_join_words),
        ]
        self.position = start + len(stretch.text)

    def read_text(
        self,
        stretch: Stretch,
        start: int,
        end: int,
        kind: BlockKind,
        around: tuple[str, str],
        is_part: bool,
    ) -> None:
        """Append a slot for a text of a block; `around` is what stands beside it there."""
        raw = stretch.text[start:end]
        scanned = hide_bars(raw) if kind.is_cell else raw
        marks = self.scan_marks(scanned)

        def cut(first: int, last: int) -> str:
            if first == last:
                return ""
            # A line end goes with what stands before the text of the next line.
            ends_line = raw[last - 1] == "\n"
            end = stretch.place(start + last) if ends_line else stretch.place(start + last - 1) + 1
            return self.text[stretch.place(start + first) : end]

        source = self.reading.languages[0] if self.reading.languages else None
        texts = MarkdownText(scanned, raw, marks, cut, self.scan_marks, source, kind.is_cell)
        items, original = texts.list_items()

        self.reading.kept.update(texts.kept)
        first, last = stretch.place(start), stretch.place(end - 1) + 1

        if not any(isinstance(item, str) and item.strip() for item in items):
            # Code, an image or an address alone, perhaps with texts inside.
            if any(mark.name in ("code", "math", "expression") for mark in marks):
                self.reading.kept["code"] += 1
            elif any(mark.name in ("image", "address") for mark in marks) and not texts.has_inner:
                self.reading.kept["other"] += 1
            self.parts += [self.text[self.position : first], *original]
            self.position = last
            return

        text, tags, _ = number_tags(items)
        lines = raw.count("\n") + 1
        prefix, line_end = self.find_prefix(stretch, start, lines, first)
        begins_line = self.begins_line(kind, around[0], first)
        before, after = self.find_frame(kind, around, last, begins_line)

        width = 0
        if lines > 1 and not kind.heading:
            width = max(_NARROWEST, *map(len, raw.split("\n")))
        writer = MarkdownWriter(
            prefix,
            line_end,
            width=width,
            escaped=frozenset(mark.character for mark in marks if mark.name == "escape"),
            is_cell=kind.is_cell,
            begins_line=begins_line,
            is_part=is_part,
            scan=self.scan_marks,
            is_alone=lambda content: self.checker.is_alone(before, content, after),
        )

        slot = TextSlot(text, tags, original, writer.escape, writer.finish, heading=kind.heading)
        self.parts += [self.text[self.position : first], slot]
        self.position = last

    def find_frame(
        self, kind: BlockKind, around: tuple[str, str], last: int, begins_line: bool
    ) -> tuple[str, str]:
        """Return what a text stands between in its block, as short as it can be."""
        before, after = around
        if kind.frame:
            return f"{kind.frame[0]}{before}", f"{after}{kind.frame[1]}"
        if kind.is_cell:
            above, below = ("", "-|-\n") if kind.is_header else ("a|b\n-|-\n", "")
            return f"{above}{'' if begins_line else '|'}{before}", f"{after}|b\n{below}"
        if kind.opening_marks:
            line = bisect_right(self.line_starts, last - 1, hi=len(self.line_ends)) - 1
            rest = self.text[last : self.line_ends[line]]
            return f"{kind.opening_marks} {before}", after if after.endswith("b") else rest
        if kind.heading:
            return before, f"{after}\n{kind.underline * 3}\n"
        return before, after

    def begins_line(self, kind: BlockKind, before: str, first: int) -> bool:
        """Return whether a text that begins here could begin a block of another kind if it had its signs."""
        if not kind.is_cell:
            is_plain = not kind.opening_marks and not kind.frame
            return is_plain and (not before or before.endswith("\n"))

        line = bisect_right(self.line_starts, first, hi=len(self.line_ends)) - 1
        return not self.text[self.line_starts[line] : first].strip(" \t>")

    def find_prefix(self, stretch: Stretch, start: int, lines: int, first: int) -> tuple[str, str]:
        """Return what stands before the second line of a text, and the line end before it."""
        line = bisect_right(self.line_starts, first, hi=len(self.line_ends)) - 1
        if lines < 2:
            # A hard break of the translation cannot be new, so this prefix is never needed.
            return "", "\n"

        number = bisect_right(stretch.starts, start)
        begin = self.line_starts[line + 1]
        return self.text[begin : stretch.places[number]], self.text[self.line_ends[line] : begin]


def _join_words(text: str) -> str:
    """Return a text on one line."""
    return " ".join(text.split())
