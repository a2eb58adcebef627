"""Texts of translators' files with their inline codes: what XLIFF and translation memories have in common."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pellucid.data.formats.inline_codes import CODES
from pellucid.data.formats.xliff_states import is_protected_mark
from pellucid.localize.documents.reading import DocumentReading
from pellucid.localize.documents.slots import Inline, Part, Parts, join_markup, make_slot
from pellucid.localize.documents.xml_tree import XmlElement, XmlText, escape_xml_text, read_xml_text

# Inline elements that surround text; every other is code, which stays as it is.
_AROUND_TEXT = ("g", "pc", "mrk", "hi")

_OPENING_CODES, _CLOSING_CODES = ("bpt", "bx", "sc"), ("ept", "ex", "ec")
# Tags of Phrase as they stand in XML.
_PHRASE_TAG = re.compile(
    r"\{(?:(?P<opening>\d{1,3}|[biuBIU_^]+)(?:>|&gt;)|(?:\d{1,3}|j)\})|&lt;(?P<closing>\d{1,3}|[biuBIU_^]+)\}"
)

Edit = tuple[int, int, Parts]
"""Where a stretch of a file that changes begins and ends, and what is written there."""


@dataclass(frozen=True)
class SegmentReader:
    """Makes slots of the texts in a translators' file."""

    xml: XmlText
    reading: DocumentReading
    has_text_tags: bool = False
    """Whether the tags in its texts are written as text, as Phrase does: {1>bold<1}."""

    def describe(self, element: XmlElement, keep_lines: bool) -> Parts:
        """Return the content of an element as a slot, or as one for each segment that is marked in it."""
        with_marks: set[int] = set()
        for mark in list_segment_marks(self.xml, element):
            with_marks.update(outer.start for outer in mark.around)
        if not with_marks:
            return join_markup(self._slot(element, keep_lines))
        return join_markup(self._cut_marks(element, with_marks, keep_lines))

    def has_words(self, element: XmlElement) -> bool:
        """Whether there is a text in an element, and not only codes, comments and marks around nothing."""
        position = element.inner
        for child in element.children:
            if read_xml_text(self.xml.text[position : child.start]).strip():
                return True
            if child.name not in CODES and self.has_words(child):
                return True
            position = child.end
        return bool(read_xml_text(self.xml.text[position : element.inner_end]).strip())

    def is_copy(self, source: XmlElement, target: XmlElement) -> bool:
        """Whether a target is nothing but its source again."""
        text, copy = source.inner, target.inner
        first = self.xml.text[text : source.inner_end].strip()
        return first == self.xml.text[copy : target.inner_end].strip()

    def _slot(self, element: XmlElement, keep_lines: bool) -> Parts:
        items = [item for item in self._list_inline(element, keep_lines) if item]
        return make_slot(items, escape_xml_text, read=read_xml_text, keep_lines=keep_lines)

    def _cut_text(self, element: XmlElement, out: list[Part], keep_lines: bool) -> None:
        """Add an element whose content is a text of its own."""
        inside = self._slot(element, keep_lines)
        out += [self.xml.opening(element), *inside, self.xml.closing(element)]

    def _cut_marks(self, element: XmlElement, with_marks: set[int], keep_lines: bool) -> list[Part]:
        """Return the parts of an element in which segments are marked; what stands between these stays as it is."""
        out: list[Part] = []
        position = element.inner
        for child in element.children:
            out.append(self.xml.text[position : child.start])
            position = child.end
            if is_segment_mark(self.xml, child):
                self._cut_text(child, out, keep_lines)
            elif child.start in with_marks:
                inside = self._cut_marks(child, with_marks, keep_lines)
                out += [self.xml.opening(child), *inside, self.xml.closing(child)]
            else:
                out.append(self.xml.raw(child))
        return [*out, self.xml.text[position : element.inner_end]]

    def _list_inline(self, element: XmlElement, keep_lines: bool) -> Iterator[str | Inline]:
        """Yield the texts and the inline markup in an element, in their order."""
        xml = self.xml
        ends = {}
        for child in element.children:
            if child.name == "em":
                ends[xml.attribute(child, "startRef")] = child.end

        position = element.inner
        for child in element.children:
            if child.start < position:
                continue  # inside a protected stretch

            yield from self._split_text(xml.text[position : child.start])
            position = child.end
            if child.name in _AROUND_TEXT and child.end > child.inner:
                if child.name == "mrk" and _protects(xml, child):
                    yield Inline("single", None, self._protect(child, keep_lines))
                    continue
                yield Inline("opening", child.start, [xml.opening(child)])
                yield from self._list_inline(child, keep_lines)
                yield Inline("closing", child.start, [xml.closing(child)])
            elif child.name == "sm" and _protects(xml, child):
                # From an empty element to another: all between them stays, as in a mark that
                # surrounds it.
                position = max(child.end, ends.get(xml.attribute(child, "id"), element.inner_end))
                self.reading.kept["protected"] += 1
                yield Inline("single", None, [xml.text[child.start : position]])
            else:
                yield self._describe_code(child, keep_lines)
        yield from self._split_text(xml.text[position : element.inner_end])

    def _split_text(self, raw: str) -> Iterator[str | Inline]:
        """Yield a text as it stands in the file, and the tags in it that are written as text."""
        if not self.has_text_tags:
            yield raw
            return

        position = 0
        for tag in _PHRASE_TAG.finditer(raw):
            yield raw[position : tag.start()]
            position = tag.end()
            kind = "opening" if tag["opening"] else "closing" if tag["closing"] else "single"
            yield Inline(kind, ("text", tag["opening"] or tag["closing"]), [tag[0]])
        yield raw[position:]

    def _protect(self, element: XmlElement, keep_lines: bool) -> Parts:
        """Return a protected mark as it is, with slots where a mark inside it is to be translated again."""
        self.reading.kept["protected"] += self.has_words(element)

        def cut(child: XmlElement, out: list[Part]) -> None:
            if child.name == "mrk" and _protects(self.xml, child) is False:
                self._cut_text(child, out, keep_lines)
            else:
                self.xml.cut_children(child, cut, out)

        parts: list[Part] = []
        self.xml.cut_children(element, cut, parts)
        return join_markup(parts)

    def _describe_code(self, element: XmlElement, keep_lines: bool) -> Inline:
        """Describe an inline element that is code: the beginning and the end of one thing belong together."""
        names = ("startRef",) if element.name == "ec" else ("i", "rid", "id")
        key = next(filter(None, (self.xml.attribute(element, name) for name in names)), None)
        opens, closes = element.name in _OPENING_CODES, element.name in _CLOSING_CODES

        parts: list[Part] = []
        self._cut_code(element, parts, keep_lines)
        if key is None or not (opens or closes):
            return Inline("single", None, join_markup(parts))
        return Inline("opening" if opens else "closing", ("code", key), join_markup(parts))

    def _cut_code(self, element: XmlElement, out: list[Part], keep_lines: bool) -> None:
        """Append the parts of a code; a text inside it, such as the title of a link, is a text of its own."""

        def cut(child: XmlElement, out: list[Part]) -> None:
            if child.name == "sub":
                self._cut_text(child, out, keep_lines)
            else:
                self._cut_code(child, out, keep_lines)

        self.xml.cut_children(element, cut, out)


@dataclass(frozen=True)
class SegmentMark:
    """A segment that is marked in the text of a unit."""

    name: tuple[str, int]
    """Its `mid`, and how many before it have that too."""
    element: XmlElement
    around: tuple[XmlElement, ...]
    """The elements in the unit's text that it stands in, from the outermost to itself."""


def is_segment_mark(xml: XmlText, element: XmlElement) -> bool:
    """Whether an element marks a segment."""
    return element.name == "mrk" and xml.attribute(element, "mtype") == "seg"


def list_segment_marks(xml: XmlText, element: XmlElement) -> list[SegmentMark]:
    """Return the outermost segments that are marked in a text, in their order."""
    marks: list[SegmentMark] = []
    seen: dict[str, int] = {}

    waiting = [(child, (child,)) for child in reversed(element.children)]
    while waiting:
        child, around = waiting.pop()
        if is_segment_mark(xml, child):
            name = xml.attribute(child, "mid") or ""
            marks.append(SegmentMark((name, seen.get(name, 0)), child, around))
            seen[name] = seen.get(name, 0) + 1
        else:
            waiting += [(inner, (*around, inner)) for inner in reversed(child.children)]
    return marks


def replace_stretches(xml: XmlText, element: XmlElement, edits: Iterable[Edit]) -> Parts:
    """Return an element with other parts in place of some stretches of it, which do not overlap."""
    parts: list[Part] = []
    position = element.start
    for start, end, new in sorted(edits, key=lambda edit: edit[:2]):
        parts += [xml.text[position:start], *new]
        position = end
    return join_markup([*parts, xml.text[position : element.end]])


def place_target(
    xml: XmlText, unit: XmlElement, source: XmlElement, target: XmlElement | None, new: Parts
) -> Edit:
    """Return where a new target is written: in place of the old one, or behind the source, on a line of its own."""
    if target is not None:
        return target.start, target.end, new
    ends = [child.end for child in unit.children if child.end <= source.start]
    start = max(ends, default=unit.inner)

    space = xml.text[start : source.start]
    return source.end, source.end, [space if not space.strip() else "", *new]


def open_element(opening: str) -> str:
    """Return the opening tag of an element that gets a content.

    >>> open_element('<target state="new" />'), open_element("<target>")
    ('<target state="new">', '<target>')
    """
    return re.sub(r"\s*/>$", ">", opening)


def _protects(xml: XmlText, mark: XmlElement) -> bool | None:
    attributes = {}
    for name in ("mtype", "translate"):
        if value := xml.attribute(mark, name):
            attributes[name] = value
    return is_protected_mark(attributes)
