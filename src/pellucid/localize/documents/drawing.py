"""Takes DrawingML apart: texts of shapes, tables, charts and diagrams, which slides, sheets and DOCX have."""

import re
from collections.abc import Iterator, Mapping
from functools import partial

from pellucid.localize.documents.archive import Split
from pellucid.localize.documents.packages import list_members
from pellucid.localize.documents.paragraphs import (
    TAG,
    Item,
    Run,
    count_kept,
    cut_opening,
    make_content_slot,
    make_paragraph,
)
from pellucid.localize.documents.reading import DocumentReading
from pellucid.localize.documents.slots import (
    Inline,
    LanguagePlace,
    Part,
    Parts,
    Wrap,
    join_markup,
)
from pellucid.localize.documents.xml_tree import (
    XmlElement,
    XmlText,
    escape_xml_text,
    parse_xml,
    with_attribute,
)

# Attributes that describe a picture to those who do not see it, and tips of links, by the names of
# their elements.
DRAWING_TEXTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("docPr", "cNvPr"), ("descr", "title")),
    **dict.fromkeys(("hlinkClick", "hlinkHover"), ("tooltip",)),
}

_DRAWING_TYPES = (
    "drawingml.chart",
    "chartex",
    "diagramData",
    "diagramDrawing",
    "chartshapes",
    "officedocument.drawing",
)
# Elements in which each text with one of these names is what a chart shows of its table.
_SHOWN_VALUES = {
    "strCache": "v",
    "strLit": "v",
    "multiLvlStrCache": "v",
    "strDim": "pt",
    "txData": "v",
}
_KEPT = {"oMath": "code", "oMathPara": "code", "fld": "code"}
_NO_FORMATTING = re.compile(
    r"""\s(?:\w+:)?(?:lang|altLang|dirty|err|smtClean|noProof|bmk|kumimoji)\s*=\s*(?:"[^"]*"|'[^']*')"""
)
_RAISED = re.compile(r"""\sbaseline\s*=\s*["']-?[1-9]""")
_PROPERTIES = re.compile(r"<(?:\w+:)?rPr\b[^>]*>")
_LANGUAGE = re.compile(r"\slang\s*=")


def list_drawings(types: Mapping[str, str]) -> dict[str, Split]:
    """Return how the charts, the diagrams and the drawings of a package are read."""
    return dict.fromkeys(list_members(types, *_DRAWING_TYPES), split_drawing)


def split_drawing(name: str, text: str, reading: DocumentReading) -> Parts:
    """Take a slide, a chart, a diagram or the drawings of a sheet apart: each paragraph is a slot."""
    xml = parse_xml(name, text, reading)
    count_drawing_kept(xml, reading)
    return join_markup(xml.cut_root(DrawingReader(xml).cut))


def count_drawing_kept(xml: XmlText, reading: DocumentReading) -> None:
    """Count the formulas and the fields in shapes, which are not translated."""
    count_kept(xml, _KEPT, reading)
    count_unread_drawings(xml, reading)


def count_unread_drawings(xml: XmlText, reading: DocumentReading) -> None:
    """Count what is in the paragraphs of shapes in a place that is not read: tips of words, and what is there twice."""
    for element in xml.walk(xml.root):
        is_shape = element.name in ("p", "rPr") and xml.prefix(element) == "a:"
        for child in element.children if is_shape else ():
            text = ""
            if child.name == "AlternateContent":
                text = TAG.sub(" ", xml.raw(child))
            elif child.name.startswith("hlink"):
                text = xml.attribute(child, "tooltip") or ""
            reading.count_text("other", text)


class DrawingReader:
    """Reads the paragraphs of shapes in an XML text."""

    def __init__(self, xml: XmlText):
        self.xml = xml

    def cut(self, element: XmlElement, out: list[Part]) -> None:
        """Append the parts of an element to `out`, with slots in place of the texts in it."""
        if element.name == "p" and element.children:
            out += self.describe_paragraph(element)
        elif shown := _SHOWN_VALUES.get(element.name):
            self.cut_values(element, shown, out)
        elif names := DRAWING_TEXTS.get(element.name):
            self.xml.cut_children(element, self.cut, out, cut_opening(self.xml, element, names))
        else:
            self.xml.cut_children(element, self.cut, out)

    def cut_values(self, element: XmlElement, shown: str, out: list[Part]) -> None:
        """Append the parts of values that a chart shows."""
        if element.name == shown:
            out += make_content_slot(self.xml, element)
        else:
            self.xml.cut_children(element, partial(self._cut_value, shown), out)

    def _cut_value(self, shown: str, element: XmlElement, out: list[Part]) -> None:
        self.cut_values(element, shown, out)

    def describe_paragraph(self, paragraph: XmlElement) -> Parts:
        """Return a paragraph as a slot with its formatting; one without words as it is."""
        line_break = f"<{self.xml.prefix(paragraph)}br/>"
        if own_break := self.xml.child(paragraph, "br"):
            line_break = self.xml.raw(own_break)
        return make_paragraph(
            self.list_items(paragraph),
            [self.xml.opening(paragraph)],
            [self.xml.closing(paragraph)],
            [self.xml.raw(paragraph)],
            name_language=_name_language,
            line_break=line_break,
        )

    def list_items(self, paragraph: XmlElement) -> Iterator[Item]:
        """Yield the texts of a paragraph with everything between them."""
        xml = self.xml
        for child in paragraph.children:
            raw = xml.raw(child)
            text = xml.child(child, "t") if child.name == "r" else None
            if child.name == "br":
                # No other text has its key, so that it stands beside runs and not in one.
                yield Run("\n", "br", ("", ""), lambda text, raw=raw: raw)
            elif text is not None:
                formatting = key = ""
                if properties := xml.child(child, "rPr"):
                    formatting = xml.raw(properties)
                    key = _NO_FORMATTING.sub("", xml.opening(properties))
                    key = re.sub(r"\s+|/?>$", " ", key).strip().partition(":")[2]
                    key = key.removeprefix("rPr").strip()
                    key += xml.text[properties.inner : properties.inner_end]
                wrap = (xml.opening(child) + formatting, xml.closing(child))
                escape = partial(_write_text, xml.opening(text), f"</{xml.prefix(text)}t>")
                is_raised = _RAISED.search(formatting) is not None
                yield Run(xml.content(text), key, wrap, escape, is_raised)
            elif child.name == "endParaRPr" and _LANGUAGE.search(xml.opening(child)):
                opening = xml.opening(child)
                place = LanguagePlace(opening, partial(with_attribute, opening, "lang"))
                yield Inline("single", None, [place, xml.text[child.inner : child.end]])
            else:
                yield Inline("single", None, [raw])


def _write_text(opening: str, closing: str, text: str) -> str:
    if opening.endswith("/>"):
        opening = opening[:-2] + ">"
    return f"{opening}{escape_xml_text(text)}{closing}"


def _name_language(wrap: Wrap, language: str) -> Wrap:
    """Return what stands before and after a text with another language in its formatting, if it names one."""
    before, after = wrap

    found = _PROPERTIES.search(before)
    if found is None or not _LANGUAGE.search(found[0]):
        return wrap
    named = with_attribute(found[0], "lang", language)
    return before[: found.start()] + named + before[found.end() :], after
