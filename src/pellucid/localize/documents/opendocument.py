"""Takes OpenDocument apart: texts, slides and sheets, with the formatting of their paragraphs as inline tags."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from html import unescape

from pellucid.localize.documents.archive import Split, read_archive, read_members
from pellucid.localize.documents.document import Document
from pellucid.localize.documents.formulas import list_compared_texts, normalize_compared
from pellucid.localize.documents.packages import split_properties
from pellucid.localize.documents.paragraphs import (
    SPACES,
    TAG,
    Item,
    Run,
    classify_script,
    count_kept,
    cut_opening,
    is_sign,
    make_content_slot,
    make_paragraph,
    read_number,
    split_at_breaks,
)
from pellucid.localize.documents.reading import DocumentReading
from pellucid.localize.documents.slots import (
    LETTER,
    Inline,
    LanguagePlace,
    Part,
    Parts,
    join_markup,
)
from pellucid.localize.documents.xml_tree import (
    XmlElement,
    XmlText,
    escape_xml_text,
    find_attributes,
    parse_xml,
    read_xml_text,
    with_attribute,
)

_PARAGRAPHS = ("p", "h")
# Elements that surround text; elements for references hold the words that they refer to.
_AROUND_TEXT = (
    "span",
    "a",
    "meta",
    "meta-field",
    "ruby-base",
    "placeholder",
    "bookmark-ref",
    "reference-ref",
)
# What is computed when the document is opened.
_FIELDS = """
date time page-number page-count title subject description keywords author-name author-initials creator initial-creator
editing-cycles editing-duration file-name sheet-name chapter template-name variable-set variable-get variable-input
user-field-get user-field-input sequence sequence-ref note-ref expression text-input hidden-text conditional-text
hidden-paragraph database-display user-defined sender-firstname sender-lastname sender-company creation-date
modification-date print-date measure table-formula page-variable-get
"""
_KEPT = {
    "tracked-changes": "deleted",
    "annotation": "comments",
    "ruby-text": "other",
    "math": "code",
    "script": "code",
    **dict.fromkeys((f"text:{name}" for name in _FIELDS.split()), "code"),
    "text:drop-down": "code",
    **dict.fromkeys(("header-decl", "footer-decl", "date-time-decl"), "other"),
    **dict.fromkeys(
        ("presentation:header", "presentation:footer", "presentation:date-time"), "code"
    ),
}
_SKIPPED = ("tracked-changes", "scripts", "font-face-decls", "ruby-text", "math", "annotation")
# Attributes with texts for people, by the names of their elements.
_INDEX_MARK = ("string-value", "key1", "key2")
_TEXT_ATTRIBUTES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("text:a", "draw:a"), ("title",)),
    "text:placeholder": ("description",),
    **dict.fromkeys(("table:help-message", "table:error-message"), ("title",)),
    "text:alphabetical-index-mark": _INDEX_MARK,
    "text:alphabetical-index-mark-start": _INDEX_MARK,
    "text:toc-mark": _INDEX_MARK,
    "text:toc-mark-start": _INDEX_MARK,
    "text:user-index-mark": _INDEX_MARK,
    "text:user-index-mark-start": _INDEX_MARK,
}
# Labels and tips of what stands in a form, and what else of it is a text: what is typed or chosen
# there.
_FORM_TEXTS = ("label", "title")
_FORM_VALUES = ("current-value", "value")
_FIELDS_OF_FORMS = ("text", "textarea", "combobox", "formatted-text", "option", "item")
_BREAKS = {"tab": "\t", "line-break": "\n"}
# Elements with nothing but a text, by their names: descriptions of pictures and tables, and what
# stands in an index.
_PLAIN_TEXTS = {
    "title": ("svg:title", "table:title"),
    "desc": ("svg:desc", "table:desc"),
    "index-title-template": ("text:index-title-template",),
    "index-entry-span": ("text:index-entry-span",),
}
_LANGUAGES = (
    ("fo:language", "fo:country"),
    ("style:language-asian", "style:country-asian"),
    ("style:language-complex", "style:country-complex"),
)
_MORE_SPACES = re.compile(r"(?<= ) +|\A {2,}")
# Spaces of one element that are text; more stay an element, so that a small file stays small.
_MOST_SPACES = 100
# The kinds of values of cells that are shown as their own text.
_TEXT_VALUES = (None, "string", "void")
_FORMULA = re.compile(
    r"""\s(?:table:formula|table:condition|style:condition)\s*=\s*("[^"]*"|'[^']*')"""
)
# What stands before and behind numbers of paragraphs, notes and chapters.
_NUMBER_AFFIXES = re.compile(r"""\sstyle:num-(?:prefix|suffix)\s*=\s*("[^"]*"|'[^']*')""")
_EMBEDDED = re.compile(r"(?:.*/)?(?:content|styles)\.xml")


def read_opendocument(name: str, content: bytes, reading: DocumentReading) -> Document:
    """Read an ODT, ODP or ODS document with the charts that are embedded in it."""
    archive = read_archive(name, content, reading)
    if b"encryption-data" in archive.get("META-INF/manifest.xml", b""):
        raise ValueError(f"{name} is encrypted; save it without a password")

    if "content.xml" not in archive:
        raise ValueError(f"{name} is not an OpenDocument file: it has no content.xml")

    own = ["content.xml", *(["styles.xml"] if "styles.xml" in archive else [])]
    embedded = [member for member in archive if _EMBEDDED.fullmatch(member) and member not in own]
    members: dict[str, Split] = dict.fromkeys([*own, *embedded], split_opendocument)

    if "meta.xml" in archive:
        members["meta.xml"] = split_properties
    return read_members(name, content, archive, members, reading)


def split_opendocument(name: str, text: str, reading: DocumentReading) -> Parts:
    """Take the content or the styles of an OpenDocument file apart: each paragraph and heading is a slot."""
    xml = parse_xml(name, text, reading)
    kinds = dict(_KEPT)
    if reading.with_comments:
        del kinds["annotation"]

    count_kept(xml, kinds, reading)
    for affixes in _NUMBER_AFFIXES.findall(text):
        reading.count_text("other", affixes)

    reader = _OpenDocumentReader(xml, reading)
    parts = reader.describe_all(xml.root)
    return join_markup([xml.text[: xml.root.start], *parts, xml.text[xml.root.end :]])


class _OpenDocumentReader:
    """Reads the paragraphs of one XML file of an OpenDocument file."""

    def __init__(self, xml: XmlText, reading: DocumentReading):
        self.xml = xml
        self.reading = reading
        self.skipped = _SKIPPED[:-1] if reading.with_comments else _SKIPPED

        self.named: set[str] = set()
        for formula in _list_formulas(xml.text):
            self.named.update(list_compared_texts(formula))

        body = xml.child(xml.root, "body")
        self.is_workbook = body is not None and xml.child(body, "spreadsheet") is not None
        self.raised = {style for style in self.list_raised_styles() if style}

        # Each paragraph once: a frame in a frame in a frame would otherwise take twice the time with
        # each.
        self.paragraphs: dict[int, Parts] = {}

    def list_raised_styles(self) -> Iterator[str | None]:
        """Yield the names of the styles whose text stands above or below the line."""
        for parent in self.xml.root.children:
            for style in parent.children if parent.name.endswith("styles") else ():
                properties = self.xml.child(style, "text-properties")
                if style.name != "style" or properties is None:
                    continue
                position = self.xml.attribute(properties, "style:text-position")
                if position is not None and not position.startswith("0"):
                    yield self.xml.attribute(style, "style:name")

    def cut(self, element: XmlElement, out: list[Part]) -> None:
        """Append the parts of an element to `out`, with slots in place of the texts in it."""
        xml = self.xml
        if element.name in _PARAGRAPHS and element.end > element.inner:
            if element.start not in self.paragraphs:
                self.paragraphs[element.start] = self.describe_paragraph(element)
            out += self.paragraphs[element.start]
        elif element.name in self.skipped:
            out.append(xml.raw(element))
        elif element.name == "forms":
            xml.cut_children(element, self.cut_form, out)
        elif xml.prefix(element) + element.name in _PLAIN_TEXTS.get(element.name, ()):
            out += make_content_slot(xml, element)
        elif element.name == "text-properties":
            xml.cut_children(element, self.cut, out, self.describe_languages(element))
        elif element.name == "table-cell":
            self.cut_cell(element, out)
        else:
            xml.cut_children(element, self.cut, out, self.describe_opening(element))

    def describe_opening(self, element: XmlElement) -> Parts:
        """Return the parts of an opening tag: what it says to people is a slot."""
        xml = self.xml
        names = _TEXT_ATTRIBUTES.get(xml.prefix(element) + element.name)
        if element.name == "table" and self.is_workbook:
            self.reading.count_text("other", xml.attribute(element, "table:name") or "")
        return [xml.opening(element)] if names is None else cut_opening(xml, element, names)

    def cut_form(self, element: XmlElement, out: list[Part]) -> None:
        """Append the parts of a form: labels are slots, and what is typed or chosen is counted."""
        xml = self.xml
        if xml.prefix(element) != "form:":
            self.reading.count_text("other", TAG.sub(" ", xml.raw(element)))
            out.append(xml.raw(element))
        elif element.name in _FIELDS_OF_FORMS:
            names = ("label", *_FORM_VALUES) if element.name in ("option", "item") else _FORM_VALUES
            values = " ".join(value for value, _, _ in find_attributes(xml.opening(element), names))
            typed = TAG.sub(" ", xml.text[element.inner : element.inner_end])
            self.reading.count_text("other", values + typed)
            out += [*cut_opening(xml, element, ("title",)), xml.text[element.inner : element.end]]
        else:
            xml.cut_children(element, self.cut_form, out, cut_opening(xml, element, _FORM_TEXTS))

    def cut_cell(self, cell: XmlElement, out: list[Part]) -> None:
        """Append the parts of a cell: what is computed, and a number or a date, is shown as its value says."""
        xml = self.xml
        value = xml.attribute(cell, "office:value-type")
        formula = xml.attribute(cell, "table:formula")

        if formula is not None:
            self.reading.kept["code"] += 1

        is_named = formula is None and value in _TEXT_VALUES and self._is_named(cell)
        if is_named:
            self.reading.kept["named"] += 1

        if formula is not None or value not in _TEXT_VALUES or is_named:
            # Only its comment may be translated.
            xml.cut_children(cell, self.cut_value, out)
        else:
            xml.cut_children(cell, self.cut, out, cut_opening(xml, cell, ("string-value",)))

    def _is_named(self, cell: XmlElement) -> bool:
        """Return whether the text of a cell is one that a formula compares with."""
        if not self.named:
            return False
        lines = []
        for child in cell.children:
            if child.name == "p":
                lines.append(read_xml_text(TAG.sub("", self.xml.raw(child))))
        text = "\n".join(lines)
        return LETTER.search(text) is not None and normalize_compared(text) in self.named

    def cut_value(self, element: XmlElement, out: list[Part]) -> None:
        """Append the parts of an element in a cell whose paragraphs show a value."""
        if element.name in _PARAGRAPHS:
            out.append(self.xml.raw(element))
        else:
            self.cut(element, out)

    def describe_languages(self, properties: XmlElement) -> Parts:
        """Return the opening tag of the properties of text; where it names a language, it will name another one."""
        opening = self.xml.opening(properties)

        named = [self.xml.attribute(properties, attribute) for attribute, _ in _LANGUAGES]
        if all(language in (None, "none", "zxx") for language in named):
            return [opening]
        return [LanguagePlace(opening, partial(_write_language, opening))]

    def describe_all(self, element: XmlElement) -> Parts:
        """Return the parts of an element whose children are cut; the element itself may be of any kind."""
        out: list[Part] = []
        self.xml.cut_children(element, self.cut, out)
        return join_markup(out)

    def describe_paragraph(self, paragraph: XmlElement) -> Parts:
        """Return a paragraph as a slot with its formatting; one without words as it is."""
        xml = self.xml
        level = 0

        if paragraph.name == "h":
            written = xml.attribute(paragraph, f"{xml.prefix(paragraph)}outline-level")
            level = read_number(written or "") or 1

        prefix = xml.prefix(paragraph)
        return make_paragraph(
            _read_spaces(self.list_items(paragraph, partial(_escape_stretch, prefix)), prefix),
            [xml.opening(paragraph)],
            [xml.closing(paragraph)],
            self.describe_all(paragraph),
            escape=partial(_escape_text, prefix),
            heading=level,
        )

    def list_items(self, element: XmlElement, escape: Callable[[str], str]) -> Iterator[Item]:
        """Yield the texts of a paragraph, or of a container in it, with everything between them."""
        xml = self.xml
        position = element.inner
        for child in element.children:
            yield from self.list_texts(position, child.start, escape)
            position = child.end
            if child.name in _BREAKS:
                yield _make_run(_BREAKS[child.name], escape)
            elif child.name == "s":
                written = xml.attribute(child, f"{xml.prefix(child)}c") or "1"
                number = read_number(written) or 1
                if number > _MOST_SPACES:
                    yield Inline("single", None, [xml.raw(child)])
                else:
                    yield replace(_make_run(" " * number, escape), key=_SPACES)
            elif child.name == "ruby":
                # How its characters are read says nothing about a translation.
                base = xml.child(child, "ruby-base")
                yield from self.list_items(base, escape) if base else ()
            elif child.name in _AROUND_TEXT and child.end > child.inner:
                yield from self.list_container_items(child, escape)
            elif child.name != "soft-page-break":
                self.count_unknown(child)
                # A note or a frame stands inside its paragraph and has paragraphs of its own.
                inner: list[Part] = []
                self.cut(child, inner)
                yield Inline("single", None, join_markup(inner))

        yield from self.list_texts(position, element.inner_end, escape)

    def list_container_items(
        self, container: XmlElement, escape: Callable[[str], str]
    ) -> Iterator[Item]:
        """Yield what is in a span or another container, between tags that stand for its beginning and its end."""
        xml = self.xml
        style = xml.attribute(container, f"{xml.prefix(container)}style-name")
        if not container.children and is_sign(xml.content(container), style in self.raised):
            yield Inline("single", None, [xml.raw(container)])
            return

        yield Inline("opening", container.start, self.describe_opening(container))
        yield from self.list_items(container, escape)
        yield Inline("closing", container.start, [xml.closing(container)])

    def count_unknown(self, element: XmlElement) -> None:
        """Count the text of something in a paragraph that is of no known kind."""
        kind = self.xml.prefix(element) + element.name
        is_known = {element.name, kind} & (_KEPT.keys() | _PLAIN_TEXTS.keys()) or element.children
        if not is_known and LETTER.search(self.xml.content(element)):
            self.reading.kept["other"] += 1

    def list_texts(self, start: int, end: int, escape: Callable[[str], str]) -> Iterator[Item]:
        """Yield the text between two places, in which white space is one space."""
        text = SPACES.sub(" ", read_xml_text(self.xml.text[start:end]))
        if text:
            yield _make_run(text, escape)


def _list_formulas(text: str) -> Iterator[str]:
    """Yield the formulas of cells, and the conditions of styles and of what may be entered."""
    for match in _FORMULA.finditer(text):
        yield unescape(match[1][1:-1])


def _make_run(text: str, escape: Callable[[str], str]) -> Run:
    return Run(text, "", ("", ""), escape)


_SPACES = "spaces"  # the key of spaces that are elements


def _read_spaces(items: Iterable[Item], prefix: str) -> Iterator[Item]:
    """Yield items in which spaces that are elements are text, but for those at the beginning, which stay as they are.

    White space at the beginning of a paragraph is not shown if it is no element.
    """
    is_ahead = True
    for item in items:
        if isinstance(item, Run) and item.text.strip():
            is_ahead = False
        if not isinstance(item, Run):
            yield item
        elif not is_ahead:
            yield replace(item, key="") if item.key else item
        elif item.key == _SPACES:
            yield Inline("single", None, [_write_spaces(prefix, item.text)])
        else:
            yield Inline("single", None, [item.escape(item.text)])


def _write_spaces(prefix: str, spaces: str) -> str:
    return f'<{prefix}s {prefix}c="{len(spaces)}"/>' if len(spaces) > 1 else f"<{prefix}s/>"


def _escape_stretch(prefix: str, text: str) -> str:
    """Write a stretch of a paragraph that may stand behind a space: spaces alone are elements, all of them."""
    if text and not text.strip(" "):
        return _write_spaces(prefix, text)
    return _escape_text(prefix, text)


def _escape_text(prefix: str, text: str) -> str:
    """Write a text in a paragraph: tabs, line ends and all spaces but one are elements."""

    breaks = {sign: f"<{prefix}{tag}/>" for tag, sign in _BREAKS.items()}
    out = []
    for stretch, markup in split_at_breaks(text, breaks):
        escaped = escape_xml_text(stretch)
        out += [_MORE_SPACES.sub(lambda match: _write_spaces(prefix, match[0]), escaped), markup]
    return "".join(out)


def _write_language(opening: str, language: str) -> str:
    """Return an opening tag that names a language, with its country if it has one, in the attributes for its script."""
    code, country = _LANGUAGES[classify_script(language)]

    pieces = re.split("[-_]", language)
    regions = [piece for piece in pieces[1:] if len(piece) == 2 and piece.isalpha()]
    opening = with_attribute(opening, code, pieces[0].lower())
    return with_attribute(opening, country, regions[0].upper() if regions else "none")
