"""Takes DOCX apart: paragraphs of the main text, headers, footers and notes, with their formatting as inline tags."""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import accumulate

from pellucid.localize.documents.archive import Split, read_members
from pellucid.localize.documents.document import Document
from pellucid.localize.documents.drawing import (
    DRAWING_TEXTS,
    DrawingReader,
    count_unread_drawings,
    list_drawings,
)
from pellucid.localize.documents.packages import (
    count_comments,
    list_members,
    list_properties,
    read_package,
    split_language_places,
    write_language,
)
from pellucid.localize.documents.paragraphs import (
    SPACES,
    Item,
    Run,
    count_kept,
    cut_opening,
    has_words,
    list_parts,
    make_paragraph,
    pair_tags,
    read_number,
    split_at_breaks,
)
from pellucid.localize.documents.reading import DocumentReading
from pellucid.localize.documents.slots import LETTER, Inline, Part, Parts, Review, Wrap, join_markup
from pellucid.localize.documents.xml_tree import (
    XmlElement,
    XmlText,
    decode_xml,
    escape_xml_text,
    parse_xml,
)

# The ends of the types of those parts that hold text; templates and files with macros have types of
# their own.
_MAIN_TYPES = (
    "document.main",
    "document.macroEnabled.main",
    "template.main",
    "template.macroEnabledTemplate.main",
)
_MORE_TYPES = (
    "wordprocessingml.header",
    "wordprocessingml.footer",
    "wordprocessingml.footnotes",
    "wordprocessingml.endnotes",
)
_COMMENTS = "wordprocessingml.comments"
_NUMBERING = "wordprocessingml.numbering"
_LANGUAGE_TYPES = ("wordprocessingml.styles", "wordprocessingml.settings")
_LANGUAGE_ATTRIBUTES = ("val", "eastAsia", "bidi")


def read_docx(name: str, content: bytes, reading: DocumentReading) -> Document:
    """Read a DOCX document: its main text, headers, footers and notes, and the texts of its charts and diagrams."""
    archive, types = read_package(name, content, reading)
    main = list_members(types, *_MAIN_TYPES)
    if not main:
        raise ValueError(f"{name} is not a DOCX document: no file in it is its text")

    styles = list_members(types, "wordprocessingml.styles")
    levels: dict[str, int] = {}
    for member in styles:
        # Headings only divide the text into chapters: a document with damaged styles is translated
        # without them.
        with suppress(ValueError):
            levels |= list_heading_styles(name, decode_xml(name, archive[member])[0], reading)

    texts = [*main]
    for kind in _MORE_TYPES:
        texts += list_members(types, kind)
    comments = list_members(types, _COMMENTS)
    if reading.with_comments:
        texts += comments
    else:
        count_comments(name, archive, comments, reading)

    for member in list_members(types, _NUMBERING):
        # What stands before the numbers of paragraphs need not be sound where nobody translates it.
        with suppress(ValueError):
            text, _ = decode_xml(name, archive[member])
            _count_numbering(parse_xml(name, text, reading), reading)

    members: dict[str, Split] = dict.fromkeys(texts, partial(split_docx, heading_styles=levels))
    members |= list_drawings(types)
    members |= list_properties(types)

    split = partial(
        split_language_places, elements=("lang", "themeFontLang"), attributes=_LANGUAGE_ATTRIBUTES
    )

    members |= dict.fromkeys(list_members(types, *_LANGUAGE_TYPES), split)
    return read_members(name, content, archive, members, reading)


# Elements of a paragraph that surround runs.
_CONTAINERS = (
    "hyperlink",
    "ins",
    "moveTo",
    "smartTag",
    "customXml",
    "bdo",
    "dir",
    "sdt",
    "fldSimple",
)
# What Word or the author noted about the old words: spelling, the end of a page, where to
# hyphenate.
_FORGOTTEN = ("proofErr", "lastRenderedPageBreak", "softHyphen")

_RANGES = {
    "bookmarkStart": "bookmarkEnd",
    "commentRangeStart": "commentRangeEnd",
    "permStart": "permEnd",
}
_RANGE_ENDS = {end: start for start, end in _RANGES.items()}
_KEPT = {
    "del": "deleted",
    "moveFrom": "deleted",
    "oMath": "code",
    "oMathPara": "code",
    "rt": "other",
}
# Two branches, and a reader sees one of them: content that not every program can show, and what the
# others show.
_BRANCHES = ("Choice", "Fallback")
_UNTOUCHED = (*_KEPT, "sectPr", "rPr")
# What has no other text in it than its own.
_PLAIN = ("t", "rPr", "pPr", "tab", "br", *_FORGOTTEN)
_HEADING_STYLE = re.compile(r"heading ([1-9])", re.IGNORECASE)
_BODY_TEXT = 9  # value of an outline level that stands for body text
_NO_FORMATTING = re.compile(r"<\w+:(?:lang|noProof)\b[^>]*?/>")
_LANGUAGE = re.compile(r"<(\w+:)lang\b[^>]*>")
_RAISED = re.compile(r"""<\w+:vertAlign\b[^>]*=["'](?:superscript|subscript)["']""")
# Fonts whose letters are signs.
_SIGN_FONT = re.compile(r"""<\w+:rFonts\b[^>]*=["'](?:Wingdings|Webdings|Symbol|Marlett)\b""")

# Attributes with texts for people, by the names of their elements.
_TEXT_ATTRIBUTES = {
    **DRAWING_TEXTS,
    **dict.fromkeys(("shape", "rect", "roundrect", "oval", "line", "polyline", "group"), ("alt",)),
    "textpath": ("string",),
    "hyperlink": ("tooltip",),
    **dict.fromkeys(("tblCaption", "tblDescription", "helpText", "statusText"), ("val",)),
    "listItem": ("displayText",),
}
# Attributes with texts of forms that stay, as what is chosen in a form is known by them.
_KEPT_ATTRIBUTES = {"alias": "val", "listEntry": "val", "default": "val", "listItem": "value"}


def list_heading_styles(name: str, styles: str, reading: DocumentReading) -> dict[str, int]:
    """Return the level of each style of headings, 1 for the largest, by the name that paragraphs use.

    A style tells its level itself, or has the level of the style that it is based on.
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

        # Word writes the names of its own styles in English, in all languages of its menus.
        named = _HEADING_STYLE.fullmatch(_read_value(xml, xml.child(style, "name")) or "")
        level = _read_outline_level(xml, xml.child(style, "pPr"))

        if level is not None:
            levels[key] = level
        elif named:
            levels[key] = int(named[1])

    for key in based_on:
        # Each style is looked at once, and all those that lead to one have its level; some lead in a
        # circle.
        chain: dict[str, None] = {}
        while key not in levels and key in based_on and key not in chain:
            chain[key] = None
            key = based_on[key]
        levels.update(dict.fromkeys(chain, levels.get(key, 0)))
    return {key: level for key, level in levels.items() if level}


def _read_value(xml: XmlText, element: XmlElement | None) -> str | None:
    """Return the value of a property of DOCX, as <w:name w:val="heading 1"/> has one."""
    return None if element is None else xml.attribute(element, f"{xml.prefix(element)}val")


def _read_outline_level(xml: XmlText, properties: XmlElement | None) -> int | None:
    """Return the level of a heading as the properties of a paragraph or a style tell it; 0 for other text."""
    value = _read_value(xml, None if properties is None else xml.child(properties, "outlineLvl"))
    level = None if value is None else read_number(value)
    if level is None:
        return None
    return level + 1 if level < _BODY_TEXT else 0


def split_docx(
    name: str, text: str, reading: DocumentReading, heading_styles: Mapping[str, int] | None = None
) -> Parts:
    """Take the main text, a header, a footer or the notes of a DOCX document apart: each paragraph is a slot.

    Formatting that most of its text does not have is an inline tag; so are links,
    bookmarks, fields and pictures, whose descriptions are slots of their own. Texts that
    were deleted with their change recorded, and formulas, stay as they are.
    `heading_styles` come from `list_heading_styles`.
    """
    xml = parse_xml(name, text, reading)
    count_kept(xml, _KEPT, reading)
    count_unread_drawings(xml, reading)

    for element in xml.walk(xml.root):
        reading.kept["code"] += _is_field_begin(xml, element)
        if element.name in _KEPT_ATTRIBUTES:
            reading.kept["other"] += _has_kept_attribute(xml, element)

    reader = _DocxReader(xml, heading_styles or {})
    parts = reader.describe_all(xml.root)
    reading.kept["other"] += reader.count_unread()
    return join_markup([xml.text[: xml.root.start], *parts, xml.text[xml.root.end :]])


def _has_kept_attribute(xml: XmlText, element: XmlElement) -> bool:
    """Return whether an element of a form has a text that is not translated, as an item without a text to show has."""
    prefix = xml.prefix(element)
    value = xml.attribute(element, prefix + _KEPT_ATTRIBUTES[element.name]) or ""
    if xml.attribute(element, f"{prefix}displayText") is not None:
        return False
    return value not in ("true", "false", "on", "off") and LETTER.search(value) is not None


def _count_numbering(xml: XmlText, reading: DocumentReading) -> None:
    """Count the words that stand before the numbers of paragraphs, such as "Chapter" before a number."""
    for level in xml.walk(xml.root):
        if level.name == "lvl" and _read_value(xml, xml.child(level, "numFmt")) != "bullet":
            text = _read_value(xml, xml.child(level, "lvlText")) or ""
            reading.count_text("other", text)


def _is_field_begin(xml: XmlText, element: XmlElement) -> bool:
    is_complex = element.name == "fldChar" and "begin" in xml.opening(element)
    return is_complex or element.name == "fldSimple"


class _DocxReader:
    """Reads the paragraphs of one XML file of a DOCX document."""

    def __init__(self, xml: XmlText, heading_styles: Mapping[str, int]):
        self.xml = xml
        self.heading_styles = heading_styles
        self.drawings = DrawingReader(xml)
        # Each paragraph and field once: a text box in a text box in a text box would otherwise take
        # twice the time with each.
        self.described: dict[int, Parts] = {}
        # Where those texts of runs begin that a paragraph has as its own.
        self.read_texts: set[int] = set()

    def count_unread(self) -> int:
        """Return in how many paragraphs words stand in a place that is not read."""
        xml = self.xml
        paragraphs: set[int] = set()
        waiting = [(xml.root, 0)]
        while waiting:
            element, paragraph = waiting.pop()
            if element.name == "t" and element.start not in self.read_texts:
                if LETTER.search(xml.content(element)):
                    paragraphs.add(paragraph)
            elif element.name == "p":
                paragraph = element.start

            # Shapes have texts of another kind, which are not read as runs.
            is_in_shape = element.name == "p" and xml.prefix(element) == "a:"
            if element.name not in _KEPT and not is_in_shape:
                waiting += [(child, paragraph) for child in element.children]
        return len(paragraphs)

    def cut(self, element: XmlElement, out: list[Part]) -> None:
        """Append the parts of an element to `out`, with slots in place of the paragraphs in it."""
        if (known := self.described.get(element.start)) is not None:
            out += known
        elif element.name == "p" and element.end > element.inner:
            # Shapes have paragraphs of another kind, whose prefix is always this one.
            if self.xml.prefix(element) == "a:":
                self.drawings.cut(element, out)
                return
            parts = self.described[element.start] = self.describe_paragraph(element)
            out += parts
        elif element.name in _UNTOUCHED:
            out.append(self.xml.raw(element))
        elif element.name in _BRANCHES and any(map(_is_run_or_text, element.children)):
            parts = self.described[element.start] = self.describe_branch(element)
            out += parts
        else:
            self.xml.cut_children(element, self.cut, out, self.describe_opening(element))

    def describe_branch(self, branch: XmlElement) -> Parts:
        """Return one of two ways in which a part of a paragraph, or of a run in it, may be shown: each is a slot.

        Where both say the same, they are the same text, and so are their translations.
        """

        xml = self.xml
        prefix = xml.prefix(branch.children[0])
        if any(child.name == "t" for child in branch.children):
            items = self.list_text_items(branch, "", ("", ""), prefix)
            mark = name_language = None
        else:
            items = _join_fields([*self.list_items(branch)])
            mark, name_language = _highlight if prefix else None, _name_language

        return make_paragraph(
            items,
            [xml.opening(branch)],
            [xml.closing(branch)],
            self.describe_all(branch),
            mark=mark,
            name_language=name_language,
        )

    def describe_opening(self, element: XmlElement) -> Parts:
        """Return the parts of an opening tag: what it says to people is a slot."""
        names = _TEXT_ATTRIBUTES.get(element.name)
        if names is None:
            return [self.xml.opening(element)]
        return cut_opening(self.xml, element, names)

    def describe(self, element: XmlElement) -> Parts:
        """Return the parts of an element."""
        out: list[Part] = []
        self.cut(element, out)
        return join_markup(out)

    def describe_all(self, element: XmlElement) -> Parts:
        """Return the parts of an element whose children are cut; the element itself may be of any kind."""
        out: list[Part] = []
        self.xml.cut_children(element, self.cut, out)
        return join_markup(out)

    def describe_paragraph(self, paragraph: XmlElement) -> Parts:
        """Return a paragraph as a slot with its formatting; one without words as it is."""
        return make_paragraph(
            _join_fields([*self.list_items(paragraph)]),
            [self.xml.opening(paragraph)],
            [self.xml.closing(paragraph)],
            [self.xml.raw(paragraph)] if self.is_plain(paragraph) else self.describe_all(paragraph),
            # A value needs the prefix, too.
            mark=_highlight if self.xml.prefix(paragraph) else None,
            name_language=_name_language,
            heading=self.find_heading_level(paragraph),
        )

    def is_plain(self, paragraph: XmlElement) -> bool:
        """Return whether a paragraph has nothing but texts in it, and so no texts inside other things."""
        for child in paragraph.children:
            if child.name == "r":
                if any(inner.name not in _PLAIN for inner in child.children):
                    return False
            elif child.name not in _PLAIN:
                return False
        return True

    def find_heading_level(self, paragraph: XmlElement) -> int:
        """Return the level of a heading, which its style tells, or the paragraph itself; 0 for any other."""
        properties = self.xml.child(paragraph, "pPr")
        level = _read_outline_level(self.xml, properties)

        if level is not None or properties is None:
            return level or 0
        style = _read_value(self.xml, self.xml.child(properties, "pStyle"))
        return self.heading_styles.get(style or "", 0)

    def list_items(self, element: XmlElement) -> Iterator[Item]:
        """Yield the texts of a paragraph, or of a container in it, with everything between them."""
        xml = self.xml
        ends = {_range_key(xml, child) for child in element.children if child.name in _RANGE_ENDS}
        starts = {_range_key(xml, child) for child in element.children if child.name in _RANGES}
        for child in element.children:
            if child.name == "r":
                yield from self.list_run_items(child)
            elif child.name in _CONTAINERS and child.end > child.inner:
                yield from self.list_container_items(child)
            elif child.name in _RANGES and _range_key(xml, child) in ends:
                yield Inline("opening", _range_key(xml, child), [xml.raw(child)])
            elif child.name in _RANGE_ENDS and _range_key(xml, child) in starts:
                yield Inline("closing", _range_key(xml, child), [xml.raw(child)])
            elif child.name not in _FORGOTTEN and not _is_properties(child):
                yield Inline("single", None, self.describe(child))

    def list_container_items(self, container: XmlElement) -> Iterator[Item]:
        """Yield what is in a container, between tags that stand for its beginning and its end."""
        content = self.xml.child(container, "sdtContent") if container.name == "sdt" else container
        items = [] if content is None else [*self.list_items(content)]
        # The result of a field that has no words is a number or a date.
        if content is None or (container.name == "fldSimple" and not has_words(items)):
            parts = self.described[container.start] = self.describe(container)
            yield Inline("single", None, parts)
            return

        ahead = [child for child in container.children if child.end <= content.start]
        ahead += [child for child in content.children if _is_properties(child)]
        opening: list[Part] = [*self.describe_opening(container)]
        position = container.inner
        for child in ahead:
            opening.append(self.xml.text[position : child.start])
            self.cut(child, opening)
            position = child.end
        opening.append(self.xml.text[position : max(position, content.inner)])
        yield Inline("opening", container.start, join_markup(opening))
        yield from items
        yield Inline("closing", container.start, [self.xml.text[content.inner_end : container.end]])

    def list_run_items(self, run: XmlElement) -> Iterator[Item]:
        """Yield the texts of a run and the other things in it."""
        xml = self.xml
        formatting = key = ""
        if properties := xml.child(run, "rPr"):
            formatting = xml.raw(properties)
            key = _NO_FORMATTING.sub("", xml.text[properties.inner : properties.inner_end])

        prefix = xml.prefix(run)
        wrap = xml.opening(run) + formatting, f"</{prefix}r>"
        return self.list_text_items(run, key, wrap, prefix)

    def list_text_items(self, run: XmlElement, key: str, wrap: Wrap, prefix: str) -> Iterator[Item]:
        """Yield the texts in a run, or in a part of one, with its formatting and what stands around each."""
        xml, escape = self.xml, _escape_in_runs(prefix)

        is_raised = _RAISED.search(wrap[0]) is not None
        is_sign = _SIGN_FONT.search(wrap[0]) is not None

        for child in run.children:
            if child.name == "t":
                self.read_texts.add(child.start)
            if child.name == "t" and is_sign:
                yield Inline("single", None, [wrap[0], xml.raw(child), wrap[1]])
                continue
            if child.name == "t":
                raw = xml.content(child)
                is_kept = xml.attribute(child, "xml:space") == "preserve"
                text = SPACES.sub(_keep_spaces, raw) if is_kept else SPACES.sub(" ", raw.strip())
            elif child.name == "tab":
                text = "\t"
            elif child.name in ("br", "cr") and "=" not in xml.opening(child):
                text = "\n"
            elif child.name == "noBreakHyphen":
                text = "\u2011"
            elif child.name == "ruby":
                # How its characters are read says nothing about a translation.
                base = xml.child(child, "rubyBase")
                yield from self.list_items(base) if base else ()
                continue
            elif child.name == "rPr" or child.name in _FORGOTTEN:
                continue
            else:
                mark = None
                if child.name in ("fldChar", "instrText"):
                    mark = _FieldMark(xml.attribute(child, f"{xml.prefix(child)}fldCharType"))
                yield Inline("single", mark, [wrap[0], *self.describe(child), wrap[1]])
                continue
            yield Run(text, key, wrap, escape, is_raised)


def _keep_spaces(match: re.Match[str]) -> str:
    """Return white space as Word shows it: as many spaces as there are, a line end in the file among them."""
    return " " * len(match[0])


def _is_run_or_text(element: XmlElement) -> bool:
    return element.name in ("r", "t", *_CONTAINERS)


def _is_properties(element: XmlElement) -> bool:
    return element.name == "fldData" or (element.name.endswith("Pr") and element.name != "pPr")


@lru_cache(8)  # few, as a document may have as many prefixes as it likes
def _escape_in_runs(prefix: str) -> Callable[[str], str]:
    """Return a function that writes a text in a run: tabs and line ends are elements beside the text."""
    name = f"{prefix}t"
    breaks = {"\t": f"<{prefix}tab/>", "\n": f"<{prefix}br/>"}

    def escape(text: str) -> str:
        out = []
        for stretch, markup in split_at_breaks(text, breaks):
            if stretch:
                content = escape_xml_text(stretch)
                out.append(f'<{name} xml:space="preserve">{content}</{name}>')
            out.append(markup)
        return "".join(out)

    return escape


def _name_language(wrap: Wrap, language: str) -> Wrap:
    """Return what stands before and after a text of a run with another language in its formatting, if it names one."""
    before, after = wrap

    def write(match: re.Match[str]) -> str:
        names = [match[1] + name for name in _LANGUAGE_ATTRIBUTES]
        return write_language(match[0], names, language)

    return _LANGUAGE.sub(write, before), after


_HIGHLIGHTS = {"look": "yellow", "redo": "red"}
# What may stand behind a highlight in the formatting of a run, whose order is fixed.
_BEHIND_HIGHLIGHT = (
    "u|effect|bdr|shd|fitText|vertAlign|rtl|cs|em|lang|eastAsianLayout|specVanish|oMath|rPrChange"
)


def _highlight(wrap: Wrap, review: Review) -> Wrap:
    """Return what stands before and after a text of a run with a highlight in its formatting: yellow, or red.

    A highlight that the document had there gives way to it.
    """
    before, after = wrap
    prefix = after.removeprefix("</").rpartition(":")[0] + ":"
    mark = f'<{prefix}highlight {prefix}val="{_HIGHLIGHTS[review.grade]}"/>'

    start = before.find(f"<{prefix}rPr")
    behind = None
    if start >= 0:
        pattern = rf"<{prefix}(?:{_BEHIND_HIGHLIGHT})\b|</{prefix}rPr>"
        behind = re.search(pattern, before[start:])

    if behind is None:  # no formatting, or an empty element
        opening = before[:start] if start >= 0 else before
        return f"{opening}<{prefix}rPr>{mark}</{prefix}rPr>", after

    place = start + behind.start()
    formatting = re.sub(rf"<{prefix}highlight\b[^>]*>", "", before[start:place])
    return f"{before[:start]}{formatting}{mark}{before[place:]}", after


def _range_key(xml: XmlText, mark: XmlElement) -> tuple[str, str | None]:
    """Return what the start and the end of a bookmark or a comment have in common."""
    return _RANGE_ENDS.get(mark.name, mark.name), xml.attribute(mark, f"{xml.prefix(mark)}id")


@dataclass(frozen=True)
class _FieldMark:
    """The key of a tag that begins or ends a field or its result."""

    kind: str | None


def _find_fields(items: list[Item]) -> dict[int, tuple[int, int]]:
    """Return where the result of each whole field begins and where it ends, by the place where the field begins.

    A field is whole if it ends in the paragraph and has both halves of each pair of tags in it.
    """
    fields: dict[int, tuple[int, int]] = {}
    if not any(map(_read_field_mark, items)):
        return fields

    partners = pair_tags(items)
    begun: list[_OpenField] = []
    for i, item in enumerate(items):
        kind = _read_field_mark(item)
        if kind == "begin":
            begun.append(_OpenField(i))
        elif not begun:
            continue
        elif kind == "separate" and begun[-1].middle is None:
            begun[-1].middle = i
        elif kind == "end":
            field = begun.pop()
            if field.first >= field.start and field.last <= i:
                fields[field.start] = (i if field.middle is None else field.middle + 1, i)
            if begun:
                begun[-1].add(field.first, field.last)
        else:
            partner = partners.get(i, i)
            begun[-1].add(partner, partner)
    return fields


@dataclass
class _OpenField:
    """A field whose end is not found yet, with the places of the first and the last tag that belong to tags in it."""

    start: int
    middle: int | None = None
    first: int = sys.maxsize
    last: int = -1

    def add(self, first: int, last: int) -> None:
        self.first, self.last = min(self.first, first), max(self.last, last)


def _read_field_mark(item: Item) -> str | None:
    """Return which part of a field begins or ends here: its result, or all of it."""
    return item.key.kind if isinstance(item, Inline) and isinstance(item.key, _FieldMark) else None


def _join_fields(items: list[Item]) -> Iterator[Item]:
    """Yield items in which each whole field is a pair of tags around its result, or a single tag if that has no words.

    Fields that span several paragraphs, or half a link, stay in their parts.
    """
    fields = _find_fields(items)
    if not fields:
        yield from items
        return

    # How many of the items before each place have words.
    words = [0, *accumulate(has_words([item]) for item in items)]
    ends: set[int] = set()
    place = 0
    while place < len(items):
        if place in ends:
            yield Inline("closing", ("result", place), list_parts(items[place : place + 1]))
        elif place not in fields:
            yield items[place]
        else:
            start, end = fields[place]
            if words[start] == words[end]:
                yield Inline("single", None, list_parts(items[place : end + 1]))
                place = end
            else:
                yield Inline("opening", ("result", end), list_parts(items[place:start]))
                ends.add(end)
                place = start - 1
        place += 1
