"""Joins the texts and tags of HTML between two blocks to one text, in which each kept stretch is one tag."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from pellucid.localize.documents.html_templates import escape_page_text
from pellucid.localize.documents.html_tree import VOID_ELEMENTS, HtmlElement
from pellucid.localize.documents.slots import (
    LETTER,
    NUMBERED_TAG,
    Inline,
    Part,
    Parts,
    Review,
    TextSlot,
    make_slot,
)

_SPACE = " \t\r\n\f"
_TAG_WITH_SPACE = re.compile(rf"( ?)({NUMBERED_TAG.pattern.replace('(', '(?:')})( ?)")
_TAG_OR_SPACE = re.compile(rf"{NUMBERED_TAG.pattern}| ")
_LINE_END = re.compile(r"(?<=[^ \t\r\n\f])[ \t]*+[\r\n\f][ \t\r\n\f]*+(?=.)", re.DOTALL)
_escape_text = partial(escape_page_text, quote=False)
RUBY_READINGS = ("rt", "rp", "rtc")
"""Elements that say how the characters beside them are read, which says nothing about a translation."""


@dataclass(slots=True)
class Piece:
    """A text or a piece of markup in a page."""

    kind: Literal["text", "opening", "closing", "single"]
    parts: Parts
    kept: str = ""  # why it is kept; "" where it is translated
    element: HtmlElement | None = None  # the element that a tag opens or closes
    name: str = ""


@dataclass(frozen=True)
class _HtmlText(TextSlot):
    """A text of a page with the line ends beside its tags, which are written again where spaces stand there."""

    line_ends: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # before and after a tag
    # Line ends between words, each with the share of the text before it.
    breaks: Sequence[tuple[float, str]] = ()

    def write(
        self,
        translation: str,
        tags: Mapping[str, str],
        review: Review | None = None,
        language: str | None = None,
    ) -> str:
        """Write a translation with its markup, and each tag with the line ends that stood beside it."""
        with_line_ends = dict(tags)

        def take_spaces(match: re.Match[str]) -> str:
            before, tag, after = match[1], match[2], match[3]
            if tag in self.line_ends:
                line_before, line_after = self.line_ends[tag]
                if before and line_before:
                    before, with_line_ends[tag] = "", line_before + with_line_ends[tag]
                if after and line_after:
                    after, with_line_ends[tag] = "", with_line_ends[tag] + line_after
            return f"{before}{tag}{after}"

        if self.breaks:
            translation = self._break_lines(translation)
        if self.line_ends and len(NUMBERED_TAG.findall(translation)) == len(tags):
            translation = _TAG_WITH_SPACE.sub(take_spaces, translation)
        return super().write(translation, with_line_ends, review, language)

    def _break_lines(self, translation: str) -> str:
        """Write line ends for spaces, about where they stood among the words."""
        tags = sum(len(match[0]) for match in NUMBERED_TAG.finditer(translation))
        total = max(1, len(translation) - tags)
        remaining = iter(self.breaks)
        share, line_end = next(remaining)

        out: list[str] = []
        position = before = 0
        for match in _TAG_OR_SPACE.finditer(translation):
            if match[0] != " ":
                before += len(match[0])
            elif (match.start() - before) / total >= share:
                out += [translation[position : match.start()], line_end]
                position = match.end()
                share, line_end = next(remaining, (2.0, ""))
        return "".join([*out, translation[position:]])


def join_run(pieces: Sequence[Piece], heading: int) -> tuple[Parts, list[str]]:
    """Return the parts of a run of pieces, with at most one text of its own, and the kind of each kept text in it."""
    if not pieces:
        return [], []

    items: list[str | Inline] = []
    without_ruby: list[str | Inline] = []
    kept: list[str] = []
    is_text_itself = False  # whether the run is a kept text, and not only has kept elements in it

    for unit in _join_kept(pieces):
        first = unit[0]
        texts = [str(piece.parts[0]) for piece in unit if piece.kind == "text"]
        if first.kept and any(map(LETTER.search, texts)):
            kept.append(first.kept)
            is_text_itself = is_text_itself or first.kind == "text"
        items.append(_describe_unit(unit))
        if not _is_ruby(first):
            without_ruby.append(items[-1])

    if is_text_itself and all(piece.kept for piece in pieces):
        kept = kept[:1]

    if any(isinstance(item, str) and LETTER.search(item) for item in without_ruby):
        items = without_ruby  # a text without words stays as it is

    parts: list[Part] = []
    for part in make_slot(items, _escape_text):
        if isinstance(part, TextSlot) and part.escape is _escape_text:
            line_ends = _find_line_ends(items, list(part.tags))
            part = _HtmlText(
                part.text,
                part.tags,
                part.original,
                part.escape,
                heading=heading,
                line_ends=line_ends,
                breaks=_find_breaks(items),
            )
        parts.append(part)
    return parts, kept


def _join_kept(pieces: Sequence[Piece]) -> list[Sequence[Piece]]:
    """Cut pieces into units: a kept element with all that is in it is one, every other piece is one by itself."""
    count = len(pieces)
    stretch_ends = [0] * count  # for each kept piece, where the kept pieces around it end
    for number in range(count - 1, -1, -1):
        goes_on = number + 1 < count and pieces[number + 1].kept
        stretch_ends[number] = stretch_ends[number + 1] if goes_on else number + 1
    closings = {}
    for number, piece in enumerate(pieces):
        if piece.kind == "closing":
            closings[id(piece.element)] = number

    units: list[Sequence[Piece]] = []
    number = 0
    while number < count:
        piece, end = pieces[number], number + 1
        if piece.kept and piece.kind == "opening":
            closing = closings.get(id(piece.element))
            if closing is None and stretch_ends[number] == count:
                end = count  # an element that is never closed ends with the block it is in
            elif closing is not None and closing < stretch_ends[number]:
                end = closing + 1
        units.append(pieces[number:end])
        number = end
    return units


def _is_ruby(piece: Piece) -> bool:
    """Whether a piece is a tag of a ruby, or a reading in it, where the text around it is translated."""
    if piece.name in RUBY_READINGS:
        return piece.kept in ("other", "")  # a closing tag without its opening one is not kept
    return piece.name in ("ruby", "rb") and not piece.kept


def _describe_unit(unit: Sequence[Piece]) -> str | Inline:
    """Return a text as it stands, and anything else as inline markup."""
    first = unit[0]
    if len(unit) > 1 or (first.kept and first.kind == "text"):
        parts: list[Part] = []
        for piece in unit:
            parts += piece.parts
        return Inline("single", None, parts)

    if first.kind == "text":
        return str(first.parts[0])

    stands_alone = first.kind == "single" or first.name in VOID_ELEMENTS
    # Tags that cross one another belong together by their names, as people mean them.
    return Inline("single" if stands_alone else first.kind, first.name, first.parts)


def _find_line_ends(
    items: Sequence[str | Inline], tags: Sequence[str]
) -> dict[str, tuple[str, str]]:
    """Return the white space with line ends before and after each tag; space between two tags belongs to the first."""
    line_ends: dict[str, tuple[str, str]] = {}
    remaining = iter(tags)
    for number, item in enumerate(items):
        if isinstance(item, str):
            continue
        tag = next(remaining)
        before = after = ""

        text = items[number - 1] if number > 0 else None
        if isinstance(text, str) and (number == 1 or text.strip(_SPACE)):
            before = text[len(text.rstrip(_SPACE)) :]
        if number + 1 < len(items) and isinstance(text := items[number + 1], str):
            after = text[: len(text) - len(text.lstrip(_SPACE))]

        before = before if "\n" in before or "\r" in before else ""
        after = after if "\n" in after or "\r" in after else ""
        if before or after:
            line_ends[tag] = (before, after)
    return line_ends


def _find_breaks(items: Sequence[str | Inline]) -> list[tuple[float, str]]:
    """Return the white space with line ends between words, each with the share of the text that stands before it."""
    texts = [item for item in items if isinstance(item, str)]
    total = max(1, sum(map(len, texts)))
    breaks: list[tuple[float, str]] = []
    before = 0
    for text in texts:
        for match in _LINE_END.finditer(text):
            breaks.append(((before + match.start()) / total, match[0]))
        before += len(text)
    return breaks
