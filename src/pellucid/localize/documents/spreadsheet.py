"""Takes XLSX apart: the texts of cells, with the formatting inside them as inline tags; values and formulas stay."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from html import unescape

from pellucid.data.formats.xlsx import ESCAPE, decode_escapes
from pellucid.localize.documents.archive import Split, read_members
from pellucid.localize.documents.document import Document
from pellucid.localize.documents.drawing import list_drawings
from pellucid.localize.documents.formulas import list_compared_texts, normalize_compared
from pellucid.localize.documents.packages import (
    count_comments,
    list_members,
    list_properties,
    read_package,
)
from pellucid.localize.documents.paragraphs import (
    TAG,
    Item,
    Run,
    cut_opening,
    make_content_slot,
    make_paragraph,
)
from pellucid.localize.documents.reading import DocumentReading
from pellucid.localize.documents.slots import (
    LETTER,
    Inline,
    Part,
    Parts,
    TextSlot,
    join_markup,
    make_slot,
)
from pellucid.localize.documents.xml_tree import (
    XmlElement,
    XmlText,
    check_xml,
    decode_xml,
    escape_xml_text,
    find_attributes,
    parse_xml,
    read_xml_text,
)

_MAIN_TYPES = ("spreadsheetml.sheet.main", "spreadsheetml.template.main", "macroEnabled.main")
_SHEET_TYPES = ("spreadsheetml.worksheet", "spreadsheetml.chartsheet", "spreadsheetml.dialogsheet")
_COMMENT_TYPES = ("spreadsheetml.comments", "ms-excel.threadedcomments")
_RAISED = re.compile(r"""<(?:\w+:)?vertAlign\b[^>]*=["'](?:superscript|subscript)["']""")

# What is read of a sheet, which may have a million cells, so that no tree is made of it: texts that
# stand in cells, formulas, headers and footers, and what is shown beside a cell.
_FORMULA = r"<((?:\w+:)?(?:f|formula|formula1|formula2))(?:\s[^<>]*)?(?<!/)>([^<]*)</\1\s*>"
_IN_SHEETS = re.compile(
    r"<!--.*?-->|<!\[CDATA\[.*?\]\]>"
    rf"|{_FORMULA}"
    r"|<((?:\w+:)?is)(?:\s[^<>]*)?(?<!/)>.*?</\3\s*>"
    r"|<((?:\w+:)?(?:odd|even|first)(?:Header|Footer))(?:\s[^<>]*)?(?<!/)>([^<]*)</\4\s*>"
    r"""|<(?:\w+:)?(?:dataValidation|hyperlink)\s(?:[^"'<>]|"[^"<]*"|'[^'<]*')*>"""
    r"""|(<(?:\w+:)?c\s(?:[^<>]*\s)?t=["']str["'][^<>]*>\s*<(?:\w+:)?v(?:\s[^<>]*)?>)([^<]*)(?=</)""",
    re.DOTALL,
)
_TOGETHER = 1000  # of these, between which anybody is asked whether to go on
_FORMULAS = re.compile(_FORMULA)
_TEXT_ATTRIBUTES = ("prompt", "promptTitle", "error", "errorTitle", "tooltip")
# Columns of tables and what filters ask for, each with the text of a cell.
_NAMING = re.compile(r"<(?:\w+:)?(?:tableColumn|cacheField|filter|customFilter)\s[^<>]*>")
_NAMING_ATTRIBUTES = ("name", "totalsRowLabel", "val")
# Pivot tables and the lists to filter them by, which have labels of their own.
_CAPTION_TYPES = ("spreadsheetml.pivotTable", "ms-excel.slicer", "ms-excel.timeline")
_CAPTIONS = (
    "caption",
    "rowHeaderCaption",
    "colHeaderCaption",
    "grandTotalCaption",
    "errorCaption",
    "missingCaption",
)
# The label of a button or a box in a sheet, in a file that is often no sound XML.
_CONTROL_LABEL = re.compile(
    r"<(?:\w+:)?textbox\b(?:(?!</?(?:\w+:)?textbox\b).)*+</(?:\w+:)?textbox\s*>",
    re.DOTALL | re.IGNORECASE,
)
_SHEET = re.compile(r"<(?:\w+:)?sheet\s[^<>]*>")
# The codes in headers and footers: places, fonts, sizes, and what is computed.
_CODE_OF_HEADER = re.compile(r'&(?:"[^"]*"|K(?:[0-9A-Fa-f]{6}|\d\d[+-]\d{3})|\d{1,3}|.)', re.DOTALL)
_PLACE_OF_HEADER = re.compile(r"(&[LCR])")


def read_xlsx_document(name: str, content: bytes, reading: DocumentReading) -> Document:
    """Read an XLSX workbook: the texts of its cells, its headers, its charts and its shapes.

    A text that a formula compares with, or by which a table knows its column, stays as it is.
    """
    archive, types = read_package(name, content, reading)
    main = list_members(types, *_MAIN_TYPES)
    if not main:
        raise ValueError(f"{name} is not an XLSX workbook: no file in it lists its sheets")

    def read_text(member: str) -> str:
        return decode_xml(f"{name}/{member}", archive[member])[0]

    sheets = list_members(types, *_SHEET_TYPES)
    tables = list_members(types, "spreadsheetml.table", "spreadsheetml.pivotCacheDefinition")
    named: set[str] = set()
    for member in [*main, *sheets, *tables]:
        named.update(_list_named_texts(read_text(member)))

    for tag in _SHEET.findall(read_text(main[0])):
        for value, _, _ in find_attributes(tag, ("name",)):
            reading.count_text("other", value)

    strings = list_members(types, "spreadsheetml.sharedStrings")
    members: dict[str, Split] = dict.fromkeys(strings, partial(split_strings, named=named))
    members |= dict.fromkeys(sheets, partial(split_sheet, named=named))
    members |= dict.fromkeys(list_members(types, *_CAPTION_TYPES), split_captions)
    members |= list_drawings(types)

    for member in archive:
        if member.lower().endswith(".vml"):
            for label in _CONTROL_LABEL.findall(archive[member].decode(errors="replace")):
                reading.count_text("other", TAG.sub(" ", label))

    comments = list_members(types, *_COMMENT_TYPES)
    if reading.with_comments:
        members |= dict.fromkeys(comments, partial(split_strings, named=()))
    else:
        count_comments(name, archive, comments, reading)

    members |= list_properties(types)
    return read_members(name, content, archive, members, reading)


def _list_named_texts(text: str) -> Iterator[str]:
    """Yield the texts of cells by which a formula, a list to choose from, a filter or a table finds something."""
    for match in _FORMULAS.finditer(text):
        yield from list_compared_texts(unescape(match[2]))

    for tag in _NAMING.findall(text):
        for value, _, _ in find_attributes(tag, _NAMING_ATTRIBUTES):
            yield normalize_compared(decode_escapes(value))


def split_strings(
    name: str, text: str, reading: DocumentReading, named: "set[str] | tuple[()]"
) -> Parts:
    """Take the shared strings of a workbook or its comments apart: each is a slot, except the named ones."""
    xml = parse_xml(name, text, reading)

    def cut(element: XmlElement, out: list[Part]) -> None:
        if element.name == "text" and not element.children:
            out += make_content_slot(xml, element)
        elif element.name in ("si", "text"):
            out += _describe_string(xml, element, reading, named)
        else:
            xml.cut_children(element, cut, out)

    return join_markup(xml.cut_root(cut))


def split_captions(name: str, text: str, reading: DocumentReading) -> Parts:
    """Take a pivot table or a list to filter one apart: labels are slots, and names of its values are counted."""
    xml = parse_xml(name, text, reading)

    def cut(element: XmlElement, out: list[Part]) -> None:
        if element.name == "dataField":
            reading.count_text("named", xml.attribute(element, "name") or "")
        xml.cut_children(element, cut, out, cut_opening(xml, element, _CAPTIONS))

    return join_markup(xml.cut_root(cut))


def split_sheet(name: str, text: str, reading: DocumentReading, named: set[str]) -> Parts:
    """Take a sheet apart: texts that stand in its cells, headers and footers, and what is shown beside cells."""
    text = check_xml(name, text, reading)
    out: list[Part] = []
    position = 0
    for number, match in enumerate(_IN_SHEETS.finditer(text)):
        if number % _TOGETHER == 0:
            reading.go_on()

        parts: Parts | None = None
        if match[1]:
            reading.kept["code"] += 1
        elif match[3]:
            inline = parse_xml(name, match[0], reading)
            parts = _describe_string(inline, inline.root, reading, named)
        elif match[4]:
            parts = _describe_header(match[0], match.start(5) - match.start(), match[5])
        elif match[6]:
            parts = [match[6], *_describe_text(match[7], reading, named)]
        elif match[0][1] != "!":
            element = XmlElement("", 0, len(match[0]), len(match[0]), len(match[0]))
            parts = cut_opening(XmlText(match[0], element), element, _TEXT_ATTRIBUTES)

        if parts is not None:
            out += [text[position : match.start()], *parts]
            position = match.end()
    return join_markup([*out, text[position:]])


def _describe_text(raw: str, reading: DocumentReading, named: "set[str] | tuple[()]") -> Parts:
    """Return the text of a cell without a formula that some programs write as if a formula had given it."""
    if _is_named(_read_text(raw), named):
        reading.kept["named"] += 1
        return [raw]
    return make_slot([raw], _escape_text, read=_read_text, keep_lines=True)


def _is_named(text: str, named: "set[str] | tuple[()]") -> bool:
    """Whether something is found by a text, which stays as it is then."""
    return normalize_compared(text) in named and LETTER.search(text) is not None


def _describe_string(
    xml: XmlText, element: XmlElement, reading: DocumentReading, named: "set[str] | tuple[()]"
) -> Parts:
    """Return a string as a slot with its formatting, without how it is pronounced, which its translation is not."""
    items = [*_list_items(xml, element)]
    text = "".join(item.text for item in items if isinstance(item, Run))

    if _is_named(text, named):
        reading.kept["named"] += 1
        return [xml.raw(element)]

    reading.kept["other"] += any(child.name == "rPh" for child in element.children)
    return make_paragraph(items, [xml.opening(element)], [xml.closing(element)], [xml.raw(element)])


def _list_items(xml: XmlText, element: XmlElement) -> Iterator[Item]:
    """Yield the texts of a string, each with its formatting."""
    prefix = xml.prefix(element)
    for child in element.children:
        text = xml.child(child, "t") if child.name == "r" else child
        if child.name in ("rPh", "phoneticPr") or text is None:
            continue
        if text.name != "t":
            yield Inline("single", None, [xml.raw(child)])
            continue

        wrap, key = ("", ""), ""
        if child.name == "r":
            properties = xml.child(child, "rPr")
            formatting = xml.raw(properties) if properties else ""
            key = xml.text[properties.inner : properties.inner_end] if properties else ""
            wrap = (xml.opening(child) + formatting, xml.closing(child))

        shown, write = decode_escapes(xml.content(text)), partial(_write_text, prefix)
        yield Run(shown, key, wrap, write, is_raised=_RAISED.search(key) is not None)


def _read_text(raw: str) -> str:
    return decode_escapes(read_xml_text(raw))


def _escape_text(text: str) -> str:
    # What looks like a spelled character is one only if its own first character is spelled.
    return ESCAPE.sub(lambda match: f"_x005F{match[0]}", escape_xml_text(text))


def _write_text(prefix: str, text: str) -> str:
    return f'<{prefix}t xml:space="preserve">{_escape_text(text)}</{prefix}t>' if text else ""


def _describe_header(element: str, start: int, raw: str) -> Parts:
    """Return a header or a footer with a slot for each of its places, in which codes are tags."""
    end = start + len(raw)
    # Names of fonts stand in quotation marks, which are written as the file does.
    escape = _escape_with_quotes if "&quot;" in raw else escape_xml_text

    out: list[Part] = [element[:start]]
    for piece in _PLACE_OF_HEADER.split(read_xml_text(raw)):
        if _PLACE_OF_HEADER.fullmatch(piece):
            out.append(escape(piece))
        else:
            out += make_paragraph(_list_header_items(piece, escape), [], [], [escape(piece)])

    # As it was, where nothing is translated: an ampersand may be written in more than one way.
    return [*out, element[end:]] if any(isinstance(part, TextSlot) for part in out) else [element]


def _escape_with_quotes(text: str) -> str:
    return escape_xml_text(text).replace('"', "&quot;")


def _list_header_items(text: str, escape: Callable[[str], str]) -> Iterator[Item]:
    def make_run(text: str) -> Run:
        return Run(text, "", ("", ""), lambda text: escape(text.replace("&", "&&")))

    position = 0
    for match in _CODE_OF_HEADER.finditer(text):
        if match.start() > position:
            yield make_run(text[position : match.start()])
        position = match.end()
        yield Inline("single", None, [escape(match[0])]) if match[0] != "&&" else make_run("&")
    if position < len(text):
        yield make_run(text[position:])
