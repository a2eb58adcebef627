"""Takes the XML of word processors apart: paragraphs of DOCX and ODT, with their formatting as inline tags."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby

from pellucid.documents.archive import read_archive, read_members
from pellucid.documents.document import Document
from pellucid.documents.reading import DocumentReading
from pellucid.documents.slots import MOST_TAGS, Inline, Part, Parts, Review, TextSlot, Wrap, join_markup, number_tags
from pellucid.documents.xml_tree import XmlElement, XmlText, decode_xml, escape_xml_text, parse_xml, read_xml_text

_ODT_PARAGRAPHS = ("p", "h")
_ODT_AROUND_TEXT = ("span", "a", "meta", "meta-field")
_ODT_SKIPPED = ("tracked-changes", "annotation", "scripts", "font-face-decls", "automatic-styles", "forms")
_ODT_BREAKS = {"tab": "\t", "line-break": "\n"}
_SPACES = re.compile(r"[ \t\r\n]+")


_OVERRIDE = re.compile(r"<(?:\w+:)?Override\b[^>]*>")
_PART_NAME = re.compile(r"""\bPartName\s*=\s*["']/?([^"']+)["']""")
_TRANSLATED_PART = re.compile(
    r"""\bContentType\s*=\s*["'][^"']*\.(?:document\.main|header|footer|footnotes|endnotes)\+xml["']"""
)


def read_docx(name: str, content: bytes, reading: DocumentReading) -> Document:
    """Read a DOCX document: its main text, headers, footers and notes."""
    archive = read_archive(name, content, reading)
    types, _ = decode_xml(name, archive.get("[Content_Types].xml", b""))
    overrides = [tag for tag in _OVERRIDE.findall(types) if _TRANSLATED_PART.search(tag)]
    members = [match[1] for tag in overrides if (match := _PART_NAME.search(tag)) and match[1] in archive]
    if not members:
        raise ValueError(f"{name} is not a DOCX document: no file in it is its text")
    levels: dict[str, int] = {}
    if styles := archive.get(f"{members[0].rpartition('/')[0]}/styles.xml"):
        # Headings only divide the text into chapters: a document with damaged styles is translated without them.
        with suppress(ValueError):
            levels = list_heading_styles(name, decode_xml(name, styles)[0], reading)
    return read_members(name, content, archive, members, partial(split_docx, heading_styles=levels), reading)


def read_odt(name: str, content: bytes, reading: DocumentReading) -> Document:
    """Read an ODT document."""
    archive = read_archive(name, content, reading)
    if b"encryption-data" in archive.get("META-INF/manifest.xml", b""):
        raise ValueError(f"{name} is encrypted; save it without a password")
    members = [member for member in ("content.xml", "styles.xml") if member in archive]
    if "content.xml" not in members:
        raise ValueError(f"{name} is not an ODT document: it has no content.xml")
    return read_members(name, content, archive, members, split_odt, reading)


def split_odt(name: str, text: str, reading: DocumentReading) -> Parts:
    """Take the content or the styles of an ODT document apart: each paragraph and heading is a slot."""
    xml = parse_xml(name, text, reading)
    text = xml.text
    # Each paragraph once: a frame in a frame in a frame would otherwise take twice the time with each.
    paragraphs: dict[int, Parts] = {}

    def cut(element: XmlElement, out: list[Part]) -> None:
        if element.name in _ODT_PARAGRAPHS and element.end > element.inner:
            if element.start not in paragraphs:
                paragraphs[element.start] = describe_paragraph(element)
            out += paragraphs[element.start]
        elif element.name in _ODT_SKIPPED:
            out.append(xml.raw(element))
        else:
            xml.cut_children(element, cut, out)

    def describe_all(element: XmlElement) -> Parts:
        out: list[Part] = []
        xml.cut_children(element, cut, out)
        return join_markup(out)

    def describe_paragraph(paragraph: XmlElement) -> Parts:
        items = list_items(paragraph)
        prefix = xml.prefix(paragraph)
        escape = partial(_escape_with_breaks, breaks={sign: f"<{prefix}{tag}/>" for tag, sign in _ODT_BREAKS.items()})
        if not any(isinstance(item, str) and item.strip() for item in items):
            return describe_all(paragraph)
        start, end = _find_middle(items)
        written = [[escape(item)] if isinstance(item, str) else item.parts for item in items]
        before = [xml.opening(paragraph), *chain.from_iterable(written[:start])]
        after = [*chain.from_iterable(written[end:]), xml.closing(paragraph)]
        slot_text, tags, _ = number_tags(items[start:end])
        level = read_level(xml.attribute(paragraph, f"{prefix}outline-level")) if paragraph.name == "h" else 0
        original = describe_all(paragraph)
        return [TextSlot(slot_text, tags, original, escape, before=before, after=after, heading=level)]

    def read_level(written: str | None) -> int:
        return int(written) if written is not None and written.isdecimal() else 1

    def list_items(element: XmlElement) -> list[str | Inline]:
        items: list[str | Inline] = []
        position = element.inner
        for child in [*element.children, None]:
            items.append(_SPACES.sub(" ", read_xml_text(text[position : child.start if child else element.inner_end])))
            if child is None:
                break
            position = child.end
            if child.name in _ODT_BREAKS:
                items.append(_ODT_BREAKS[child.name])
            elif child.name in _ODT_AROUND_TEXT and child.end > child.inner:
                items += [Inline("opening", child.start, [xml.opening(child)]), *list_items(child)]
                items.append(Inline("closing", child.start, [xml.closing(child)]))
            elif child.name != "soft-page-break":
                # A note or a frame stands inside its paragraph and has paragraphs of its own.
                inner: list[Part] = []
                cut(child, inner)
                items.append(Inline("single", None, join_markup(inner)))
        return [item for item in items if item != ""]

    return join_markup([text[: xml.root.start], *describe_all(xml.root), text[xml.root.end :]])


# Elements of a paragraph that surround runs.
_CONTAINERS = ("hyperlink", "ins", "moveTo", "smartTag", "customXml", "bdo", "dir", "sdt")
# What Word or the author noted about the old words: spelling, the end of a page, where to hyphenate.
_FORGOTTEN = ("proofErr", "lastRenderedPageBreak", "softHyphen")

_RANGES = {"bookmarkStart": "bookmarkEnd", "commentRangeStart": "commentRangeEnd", "permStart": "permEnd"}
_RANGE_ENDS = {end: start for start, end in _RANGES.items()}
_UNTOUCHED = ("del", "moveFrom", "oMath", "oMathPara", "fldSimple", "pPr", "sectPr")
_HEADING_STYLE = re.compile(r"heading ([1-9])", re.IGNORECASE)
_BODY_TEXT = 9  # value of an outline level that is none
_NO_FORMATTING = re.compile(r"<\w+:(?:lang|noProof)\b[^>]*?/>")


@dataclass(frozen=True)
class _Run:
    """A stretch of text in a run of DOCX, with the opening tag of the run and its formatting."""

    text: str
    opening: str
    formatting: str
    key: str  # the formatting that readers see: the language for the spelling checker is none of it
    prefix: str

    @property
    def wrap(self) -> tuple[str, str]:
        """Everything before and after a text with this formatting."""
        name = f"{self.prefix}t"
        return f'{self.opening}{self.formatting}<{name} xml:space="preserve">', f"</{name}></{self.prefix}r>"

    def escape(self, text: str) -> str:
        """Escape a text for this run: tabs and line ends are elements beside the text."""
        name = f"{self.prefix}t"
        signs = {"\t": "tab", "\n": "br"}
        breaks = {sign: f'</{name}><{self.prefix}{tag}/><{name} xml:space="preserve">' for sign, tag in signs.items()}
        return _escape_with_breaks(text, breaks)


@dataclass(frozen=True)
class _FieldMark:
    """A part of a field that is no text: where it begins, what it computes, where its result begins and ends."""

    kind: str
    parts: Parts


_Item = _Run | Inline | _FieldMark


def list_heading_styles(name: str, styles: str, reading: DocumentReading) -> dict[str, int]:
    """Return the level of each style of headings, 1 for the largest, by the name that paragraphs use.

    A style tells its level itself, or has that of the style that it is based on.
    """
    xml = parse_xml(name, styles, reading)
    levels: dict[str, int] = {}
    based_on: dict[str, str] = {}
    for style in xml.root.children:
        key = xml.attribute(style, f"{xml.prefix(style)}styleId")
        if style.name != "style" or key is None:
            continue
        if parent := _read_value(xml, xml.child(style, "basedOn")):
            based_on[key] = parent
        # Word writes the names of its own styles in English, whatever its language is.
        named = _HEADING_STYLE.fullmatch(_read_value(xml, xml.child(style, "name")) or "")
        level = _read_outline_level(xml, xml.child(style, "pPr"))
        if level is not None:
            levels[key] = level
        elif named:
            levels[key] = int(named[1])

    for key in based_on:
        ancestors = [key]
        while ancestors[-1] not in levels and based_on.get(ancestors[-1], key) not in ancestors:
            ancestors.append(based_on[ancestors[-1]])
        levels[key] = levels.get(ancestors[-1], 0)
    return {key: level for key, level in levels.items() if level}


def _read_value(xml: XmlText, element: XmlElement | None) -> str | None:
    """Return the value of a property of DOCX, as <w:name w:val="heading 1"/> has one."""
    return None if element is None else xml.attribute(element, f"{xml.prefix(element)}val")


def _read_outline_level(xml: XmlText, properties: XmlElement | None) -> int | None:
    """Return the level of a heading as the properties of a paragraph or a style tell it; 0 for other text."""
    value = _read_value(xml, None if properties is None else xml.child(properties, "outlineLvl"))
    if value is None or not value.isdecimal():
        return None
    return int(value) + 1 if int(value) < _BODY_TEXT else 0


def split_docx(
    name: str, text: str, reading: DocumentReading, heading_styles: Mapping[str, int] | None = None
) -> Parts:
    """Take the main text, a header, a footer or the notes of a DOCX document apart: each paragraph is a slot.

    Formatting other than that of most of its text is an inline tag; so are links, bookmarks, fields and pictures. Texts
    that were deleted with their change recorded, and formulas, stay as they are. `heading_styles` are those of
    `list_heading_styles`.
    """
    xml = parse_xml(name, text, reading)
    text = xml.text
    return join_markup(
        [text[: xml.root.start], *_DocxReader(xml, heading_styles or {}).describe_all(xml.root), text[xml.root.end :]]
    )


class _DocxReader:
    """Reads the paragraphs of one XML file of a DOCX document."""

    def __init__(self, xml: XmlText, heading_styles: Mapping[str, int]):
        self.xml = xml
        self.heading_styles = heading_styles
        # Each paragraph once: a text box in a text box in a text box would otherwise take twice the time with each.
        self.paragraphs: dict[int, Parts] = {}

    def cut(self, element: XmlElement, out: list[Part]) -> None:
        """Append the parts of an element to `out`, with slots in place of the paragraphs in it."""
        # Shapes have paragraphs of another kind, whose prefix is always this one.
        if element.name == "p" and self.xml.prefix(element) != "a:" and element.end > element.inner:
            if element.start not in self.paragraphs:
                self.paragraphs[element.start] = self.describe_paragraph(element)
            out += self.paragraphs[element.start]
        elif element.name in _UNTOUCHED:
            out.append(self.xml.raw(element))
        else:
            self.xml.cut_children(element, self.cut, out)

    def describe(self, element: XmlElement) -> Parts:
        out: list[Part] = []
        self.cut(element, out)
        return join_markup(out)

    def describe_all(self, element: XmlElement) -> Parts:
        """Return the parts of an element whose children are cut, whatever it is itself."""
        out: list[Part] = []
        self.xml.cut_children(element, self.cut, out)
        return join_markup(out)

    def describe_paragraph(self, paragraph: XmlElement) -> Parts:
        """Return a paragraph as a slot with its formatting; one without words as it is."""
        items = _join_fields(self.list_items(paragraph))
        sizes = Counter[str]()
        for item in items:
            if isinstance(item, _Run) and item.text.strip():
                sizes[item.key] += len(item.text)
        if not sizes:
            return self.describe_all(paragraph)
        base_key = sizes.most_common(1)[0][0]
        base = next(item for item in items if isinstance(item, _Run) and item.key == base_key)
        start, end = _find_middle(items)
        text, tags, wraps = number_tags(_tag_formatting(items[start:end], base_key))
        return [
            TextSlot(
                text,
                tags,
                self.describe_all(paragraph),
                base.escape,
                wraps=wraps,
                base_wrap=base.wrap,
                before=[self.xml.opening(paragraph), *_list_parts(items[:start])],
                after=[*_list_parts(items[end:]), self.xml.closing(paragraph)],
                mark=_highlight if self.xml.prefix(paragraph) else None,  # a value needs the prefix, too
                heading=self.find_heading_level(paragraph),
            )
        ]

    def find_heading_level(self, paragraph: XmlElement) -> int:
        """Return the level of a heading, which its style tells, or the paragraph itself; 0 for any other."""
        properties = self.xml.child(paragraph, "pPr")
        level = _read_outline_level(self.xml, properties)
        if level is not None or properties is None:
            return level or 0
        return self.heading_styles.get(_read_value(self.xml, self.xml.child(properties, "pStyle")) or "", 0)

    def list_items(self, element: XmlElement) -> Iterator[_Item]:
        """Yield the texts of a paragraph, or of a container in it, with everything between them."""
        xml = self.xml
        ends = {_range_key(xml, child) for child in element.children if child.name in _RANGE_ENDS}
        starts = {_range_key(xml, child) for child in element.children if child.name in _RANGES}
        for child in element.children:
            if child.name == "r":
                yield from self.list_run_items(child)
            elif child.name in _CONTAINERS and child.end > child.inner:
                content = xml.child(child, "sdtContent") if child.name == "sdt" else child
                if content is None:
                    yield Inline("single", None, self.describe(child))
                    continue
                properties = [inner.end for inner in content.children if inner.name.endswith("Pr")]
                inner = max(properties, default=content.inner)
                yield Inline("opening", child.start, [xml.text[child.start : inner]])
                yield from self.list_items(content)
                yield Inline("closing", child.start, [xml.text[content.inner_end : child.end]])
            elif child.name in _RANGES and _range_key(xml, child) in ends:
                yield Inline("opening", _range_key(xml, child), [xml.raw(child)])
            elif child.name in _RANGE_ENDS and _range_key(xml, child) in starts:
                yield Inline("closing", _range_key(xml, child), [xml.raw(child)])
            elif child.name not in _FORGOTTEN and not (child.name.endswith("Pr") and child.name != "pPr"):
                yield Inline("single", None, self.describe(child))

    def list_run_items(self, run: XmlElement) -> Iterator[_Item]:
        """Yield the texts of a run and the other things in it."""
        xml = self.xml
        prefix, properties = xml.prefix(run), xml.child(run, "rPr")
        formatting = xml.raw(properties) if properties else ""
        key = _NO_FORMATTING.sub("", xml.text[properties.inner : properties.inner_end]) if properties else ""
        opening = xml.opening(run)
        for child in run.children:
            if child.name == "t":
                raw = xml.content(child)
                text = _SPACES.sub(" ", raw if xml.attribute(child, "xml:space") == "preserve" else raw.strip())
            elif child.name == "tab" or (child.name in ("br", "cr") and "=" not in xml.opening(child)):
                text = "\t" if child.name == "tab" else "\n"
            elif child.name == "noBreakHyphen":
                text = "\u2011"
            elif child.name == "rPr" or child.name in _FORGOTTEN:
                continue
            else:
                parts = [opening + formatting, *self.describe(child), xml.closing(run)]
                if child.name in ("fldChar", "instrText"):
                    kind = xml.attribute(child, f"{xml.prefix(child)}fldCharType")
                    yield _FieldMark(kind or "instruction", parts)
                else:
                    yield Inline("single", None, parts)
                continue
            yield _Run(text, opening, formatting, key, prefix)


_HIGHLIGHTS = {"look": "yellow", "redo": "red"}
# What may stand behind a highlight in the formatting of a run, whose order is fixed.
_BEHIND_HIGHLIGHT = "u|effect|bdr|shd|fitText|vertAlign|rtl|cs|em|lang|eastAsianLayout|specVanish|oMath|rPrChange"
_TEXT_OF_A_RUN = re.compile(r"<([\w.-]+:)t\b[^<]*$")


def _highlight(wrap: Wrap, review: Review) -> Wrap:
    """Return what stands before and after a text of a run with a highlight in its formatting: yellow, or red.

    A highlight that the document had there gives way to it.
    """
    before, after = wrap
    found = _TEXT_OF_A_RUN.search(before)
    assert found
    text, prefix = found.start(), found[1]
    mark = f'<{prefix}highlight {prefix}val="{_HIGHLIGHTS[review.grade]}"/>'
    start = before.find(f"<{prefix}rPr")
    behind = re.search(rf"<{prefix}(?:{_BEHIND_HIGHLIGHT})\b|</{prefix}rPr>", before[start:]) if start >= 0 else None
    if behind is None:  # no formatting, or an empty element
        opening = before[:start] if start >= 0 else before[:text]
        return f"{opening}<{prefix}rPr>{mark}</{prefix}rPr>{before[text:]}", after
    place = start + behind.start()
    formatting = re.sub(rf"<{prefix}highlight\b[^>]*>", "", before[start:place])
    return f"{before[:start]}{formatting}{mark}{before[place:]}", after


def _range_key(xml: XmlText, mark: XmlElement) -> tuple[str, str | None]:
    """Return what the start and the end of a bookmark or a comment have in common."""
    return _RANGE_ENDS.get(mark.name, mark.name), xml.attribute(mark, f"{xml.prefix(mark)}id")


def _join_fields(items: Iterable[_Item]) -> list[_Item]:
    """Return items in which each whole field is a pair of tags around its result, or a single tag if that has no words.

    Fields that span several paragraphs, or half a link, stay in their parts.
    """
    out: list[_Item] = []
    begun: list[int] = []
    for item in items:
        out.append(item)
        if _is_mark(item, "begin"):
            begun.append(len(out) - 1)
        elif _is_mark(item, "end") and begun:
            start = begun.pop()
            field = out[start:]
            middle = next((i for i, inner in enumerate(field) if _is_mark(inner, "separate")), len(field) - 1)
            result = field[middle + 1 : -1]
            # A pair of tags may have only one of its halves in the field.
            kinds = Counter((inner.key, inner.kind) for inner in field if isinstance(inner, Inline))
            if any(kinds[key, "closing"] != kinds[key, "opening"] for key, kind in kinds if kind != "single"):
                continue
            if any(isinstance(inner, _Run) and re.search(r"[^\W\d_]", inner.text) for inner in result):
                opening = Inline("opening", ("field", id(item)), _list_parts(field[: middle + 1]))
                out[start:] = [opening, *result, Inline("closing", ("field", id(item)), _list_parts([item]))]
            else:
                out[start:] = [Inline("single", None, _list_parts(field))]
    return out


def _is_mark(item: _Item, kind: str) -> bool:
    return isinstance(item, _FieldMark) and item.kind == kind


def _find_middle(items: "Sequence[_Item] | Sequence[str | Inline]") -> tuple[int, int]:
    """Return where the items begin and end that a translation may move: from the first text with words to the last.

    A pair of tags of which one is among them is among them as a whole.
    """
    texts = [
        i for i, item in enumerate(items) if (item if isinstance(item, str) else getattr(item, "text", "")).strip()
    ]
    start, end = texts[0], texts[-1] + 1
    places = {(item.key, item.kind): i for i, item in enumerate(items) if isinstance(item, Inline)}
    ends = {key: i for (key, kind), i in places.items() if kind == "closing"}
    pairs = [(i, ends[key]) for (key, kind), i in places.items() if kind == "opening" and key in ends]
    if len(pairs) > MOST_TAGS:
        raise ValueError(f"a paragraph has more than {MOST_TAGS:,} pairs of inline tags")
    changed = True
    while changed:
        changed = False
        for pair in pairs:
            if any(start <= i < end for i in pair) and not all(start <= i < end for i in pair):
                start, end, changed = min(start, *pair), max(end, pair[1] + 1), True
    return start, end


def _tag_formatting(items: Sequence[_Item], base: str) -> list[str | Inline]:
    """Return texts and tags, with a pair of tags around each stretch of another formatting than `base`."""
    out: list[str | Inline] = []
    for key, group in groupby(items, key=lambda item: item.key if isinstance(item, _Run) else None):
        stretch = [*group]
        first = stretch[0]
        if not isinstance(first, _Run):
            out += [
                item if isinstance(item, Inline) else Inline("single", None, _list_parts([item])) for item in stretch
            ]
            continue
        text = "".join(item.text for item in stretch if isinstance(item, _Run))
        if key == base or not text.strip():
            out.append(text)
        else:
            tag = ("formatting", len(out))
            out += [Inline("opening", tag, [], first.wrap), text, Inline("closing", tag, [])]
    return out


def _list_parts(items: Sequence[_Item]) -> Parts:
    """Return what items stand for, as it is written where they are not translated."""
    out: list[Part] = []
    for item in items:
        out += [item.wrap[0], item.escape(item.text), item.wrap[1]] if isinstance(item, _Run) else item.parts
    return join_markup(out)


def _escape_with_breaks(text: str, breaks: Mapping[str, str]) -> str:
    """Escape a text for XML, with markup in place of tabs and line ends."""
    text = escape_xml_text(text)
    for sign, markup in breaks.items():
        text = text.replace(sign, markup)
    return text
