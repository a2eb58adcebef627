"""Makes the items of a slot from a text of Markdown and its marks, with slots for the texts inside the marks."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from html import escape, unescape

from pellucid.localize.documents.html_attributes import (
    find_kept,
    names_other_language,
    read_language_code,
    split_tag,
)
from pellucid.localize.documents.html_frames import keep_frame
from pellucid.localize.documents.html_tokens import read_attributes
from pellucid.localize.documents.markdown_marks import MarkdownMark
from pellucid.localize.documents.markdown_programs import count_other_texts, find_values, is_jsx_tag
from pellucid.localize.documents.markdown_writing import protect_tag
from pellucid.localize.documents.slots import LETTER, Inline, Part, Parts, TextSlot

_CODE_ELEMENTS = frozenset(
    ["code", "kbd", "samp", "var", "pre", "script", "style", "svg", "math", "textarea"]
)
_VOID_ELEMENTS = frozenset(["br", "hr", "img", "input", "wbr", "source"])
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
# Signs that a backslash does not keep from their meaning everywhere.
_ENDS = {"<": "&lt;", "`": "&#96;", "&": "&amp;"}
_NO_SIGNS = str.maketrans({"{": "(", "}": ")", "\\": "/", "\n": " "})
_OTHER_QUOTES = {'"': "”", "'": "’"}


class MarkdownText:
    """The text of a block with its marks, as items of a slot and as it stands in the document."""

    def __init__(
        self,
        text: str,
        raw: str,
        marks: Sequence[MarkdownMark],
        cut: Callable[[int, int], str],
        scan: Callable[[str], Sequence[MarkdownMark]],
        source: str | None,
        is_cell: bool,
    ):
        self.text = text
        self.raw = raw
        self.marks = marks
        self.cut = cut
        self.scan = scan
        self.source = source
        self.is_cell = is_cell
        self.has_inner = False  # whether there are texts inside the marks
        self.kept: Counter[str] = Counter()
        self.references = {mark.key: mark for mark in marks if mark.kind == "opening"}

    def list_items(self) -> tuple[list[str | Inline], list[Part]]:
        """Return the items of the slot, and the parts of the document that they stand for."""
        items: list[str | Inline] = []
        original: list[Part] = []
        position = 0
        skipped_until = 0

        for number, mark in enumerate(self.marks):
            if mark.start < skipped_until:
                continue
            if mark.start > position:
                items.append(self.text[position : mark.start].replace("\ufdd0", ""))
                original.append(self.cut(position, mark.start))

            position = mark.end
            if mark.kind in ("character", "space"):
                items.append(mark.character)
                original.append(self.cut(mark.start, mark.end))
                continue

            end = self.find_kept_end(number)
            if end:
                position = skipped_until = end
                kept = self.cut(mark.start, end)
                parts: list[Part] = [kept]
                inline = Inline("single", mark.name, [protect_tag(kept, "code")])
            else:
                parts = self.list_parts(mark)
                inline = self.make_inline(mark, parts)

            previous = items[-1] if items else None
            if (
                mark.name == "attributes"
                and isinstance(previous, Inline)
                and previous.kind != "opening"
            ):
                # Attributes belong to what stands before them.
                items[-1] = replace(previous, parts=[*previous.parts, *inline.parts])
            else:
                items.append(inline)
            original += parts

        items.append(self.text[position:].replace("\ufdd0", ""))
        original.append(self.cut(position, len(self.text)))
        return items, [part for part in original if part != ""]

    def find_kept_end(self, number: int) -> int:
        """Return where an element of HTML ends that begins with this mark and stays; 0 where none begins."""
        mark = self.marks[number]
        if mark.kind != "opening" or not mark.name.startswith("html "):
            return 0

        name = mark.name.removeprefix("html ")
        is_protected = False
        tag = self.raw[mark.start : mark.end]
        if name not in _CODE_ELEMENTS:
            if not re.search("translate|class|lang", tag):
                return 0
            attributes = read_attributes(tag, name)
            code = read_language_code(attributes)
            is_protected = find_kept(attributes) == "protected"
            if code is not None and self.source is not None:
                is_protected = is_protected or names_other_language(code, self.source)
            if not is_protected:
                return 0

        depth = 0
        for other in self.marks[number : number + 200]:
            if other.name == mark.name:
                depth += {"opening": 1, "closing": -1}.get(other.kind, 0)
                if depth == 0:
                    if is_protected and LETTER.search(self.raw, mark.end, other.start):
                        self.kept["protected"] += 1
                    return other.end
        return 0

    # Texts inside marks

    def list_parts(self, mark: MarkdownMark) -> list[Part]:
        """Return a mark as it stands in the document, with slots for the texts in it."""
        if mark.name == "template" or mark.name.startswith("html "):
            return self.list_values(mark)
        parts: list[Part] = []
        position = mark.start
        for is_label, span in ((True, mark.label), (False, mark.title)):
            if span is None or span[0] == span[1]:
                continue
            start, end = span
            text = self.read_label(*span) if is_label else self.read_title(*span)
            if text is None:
                self.kept["other"] += LETTER.search(self.raw, start, end) is not None
                continue
            quotes = "" if is_label else self.raw[start - 1] + self.raw[end]
            finish = partial(_write_inner, quotes=quotes, is_cell=self.is_cell)
            original = self.cut(start, end)
            following = self.raw[end + 1 : end + 3]
            is_name = mark.name == "image" and following[:1] not in ("(", "[")
            if is_label and (is_name or following == "[]"):
                # The text of an image that is defined elsewhere is its name, which stays.
                finish = partial(_write_named, name=self.raw[start:end], write=finish)
                original, end = self.cut(start, mark.end), mark.end

            slot = TextSlot(text, original=[original], finish=finish)
            parts += [self.cut(position, start), slot]
            position = end
            self.has_inner = self.has_inner or slot.is_translatable
        return [*parts, self.cut(position, mark.end)]

    def read_label(self, start: int, end: int) -> str | None:
        """Return the text of an image as it is read aloud, without marks; None where it has more than text."""
        text = self.text[start:end]
        out: list[str] = []
        position = 0
        for mark in self.scan(text):
            if mark.start < position:
                return None
            out += [text[position : mark.start], mark.character]
            position = mark.end
            if mark.name == "code":
                out.append(text[mark.start : mark.end].strip("`"))
            elif mark.name not in ("em", "strong", "del", "link", "entity", "escape", "break"):
                return None
        return " ".join("".join([*out, text[position:]]).replace("\ufdd0", "").split())

    def read_title(self, start: int, end: int) -> str:
        """Return the title of a link or an image, in which signs may have a backslash or be entities."""
        text = self.text[start:end].replace("\ufdd0", "")
        return " ".join(unescape(_ESCAPE.sub(r"\1", text)).split())

    def list_values(self, mark: MarkdownMark) -> list[Part]:
        """Return a tag of HTML, of a component or of a template with slots for what people read in it."""
        tag = self.cut(mark.start, mark.end)
        name = mark.name.removeprefix("html ")
        written_name = tag[1 : 1 + len(name)]
        parts: Parts

        if mark.name == "template":
            self.kept["other"] += count_other_texts(tag)
            parts = split_values(tag)
        elif mark.kind == "closing":
            parts = [tag]
        elif is_jsx_tag(tag, written_name):
            parts = split_values(tag)
        else:
            keep = partial(keep_frame, kept=self.kept)
            parts = split_tag(tag, name, read_attributes(tag, name), self.source, keep)

        listed: list[Part] = []
        for part in parts:
            if isinstance(part, TextSlot):
                self.has_inner = self.has_inner or part.is_translatable
                if self.is_cell:
                    part = replace(part, finish=partial(_write_in_cell, finish=part.finish))
            listed.append(part)
        return listed

    def make_inline(self, mark: MarkdownMark, parts: list[Part]) -> Inline:
        """Return a mark as an item of a slot."""
        kind, key = mark.kind, (mark.name, mark.key)
        assert kind in ("opening", "closing", "single")

        if mark.name.startswith("html "):
            key = (mark.name, 0)
            if mark.name.removeprefix("html ") in _VOID_ELEMENTS:
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
            if isinstance(part, str):
                part = protect_tag(part, name, sign, is_first=i == 0, is_last=i == last)
            wrapped.append(part)
        return Inline(kind, key, wrapped)


def split_values(tag: str) -> list[Part]:
    """Return what speaks to a program, with slots for the values of attributes that people read.

    >>> [getattr(part, "text", part) for part in split_values('<Card title="A cat" to="b" />')]
    ['<Card title="', 'A cat', '" to="b" />']
    """
    parts: list[Part] = []
    position = 0
    for start, end, quote in find_values(tag):
        raw = tag[start:end]
        is_html = tag.lstrip(" \t>").startswith("<")
        text = unescape(raw) if is_html else _ESCAPE.sub(r"\1", raw)
        finish = _write_html_value if is_html else partial(_write_value, quote=quote)
        parts += [tag[position:start], TextSlot(text, original=[raw], finish=finish)]
        position = end
    return [*parts, tag[position:]]


def _write_html_value(text: str) -> str:
    """Return the value of an attribute of a component, with signs spelled that could end it or begin an expression."""
    return re.sub(r"[{}\\]", lambda match: f"&#{ord(match[0])};", escape(" ".join(text.split())))


def _write_value(text: str, quote: str) -> str:
    """Return the value of an attribute of a template without signs that could end it, for which others stand."""
    return " ".join(text.translate(_NO_SIGNS).replace(quote, _OTHER_QUOTES[quote]).split())


def _write_in_cell(text: str, finish: Callable[[str], str]) -> str:
    """Return the value of an attribute without a bar that would end the cell."""
    return finish(text).replace("|", "&#124;")


def _write_named(text: str, name: str, write: Callable[[str], str]) -> str:
    """Return the text of an image that is defined elsewhere under a name."""
    return f"{write(text)}][{name}]"


def _write_inner(text: str, quotes: str, is_cell: bool) -> str:
    """Return the text or the title of an image or a link, whose signs have no meaning.

    >>> print(_write_inner('A [b] "c" & <d>', "", False), _write_inner('"A" [b]', '""', False))
    A \\[b\\] "c" & &lt;d> ”A” [b]
    """
    signs = r"[<`]|&(?=[#\w])" if quotes else r"[\[\]<`*_!~${^]|%(?=%)|&(?=[#\w])"
    text = " ".join(text.split())
    for quote in set(quotes) & _OTHER_QUOTES.keys():
        text = text.replace(quote, _OTHER_QUOTES[quote])

    text = text.replace("\\", "\\\\")
    if quotes == "()":
        text = re.sub(r"[()]", r"\\\g<0>", text)
    text = re.sub(signs, lambda match: _ENDS.get(match[0], f"\\{match[0]}"), text)
    return text.replace("|", "\\|") if is_cell else text
