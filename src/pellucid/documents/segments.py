"""Texts of translators' files with their inline codes: what XLIFF and translation memories have in common."""

from pellucid.documents.slots import Inline, Part, Parts, join_markup, make_slot
from pellucid.documents.xml_tree import XmlElement, XmlText, escape_xml_text, read_xml_text

_AROUND_TEXT = ("g", "pc", "mrk", "hi")  # inline elements that surround text; every other is code, which stays as it is

_OPENING_CODES, _CLOSING_CODES = ("bpt", "bx", "sc"), ("ept", "ex", "ec")


def put_target(xml: XmlText, unit: XmlElement, source: XmlElement, target: XmlElement | None, new: Parts) -> Parts:
    """Return a unit with a new target: in place of the old one, or behind the source, on a line of its own."""
    space = ""
    if target is None:
        start = max((child.end for child in unit.children if child.end <= source.start), default=unit.inner)
        space = xml.text[start : source.start]

    def cut(child: XmlElement, out: list[Part]) -> None:
        if child is target:
            out += new
            return
        out.append(xml.raw(child))
        if child is source and target is None:
            out += [space if not space.strip() else "", *new]

    parts: list[Part] = []
    xml.cut_children(unit, cut, parts)
    return join_markup(parts)


def describe_text(xml: XmlText, element: XmlElement, keep_lines: bool) -> Parts:
    """Return the content of an element as a slot, or as one for each segment that is marked in it."""
    inside = [inner for inner in xml.walk(element) if inner is not element and inner.name == "mrk"]
    if any(xml.attribute(mark, "mtype") == "seg" for mark in inside):
        out: list[Part] = []
        position = element.inner
        for child in element.children:
            out += [xml.text[position : child.start], xml.opening(child)]
            out += [*describe_text(xml, child, keep_lines), xml.closing(child)]
            position = child.end
        return join_markup([*out, xml.text[position : element.inner_end]])
    items = _list_inline(xml, element)
    return make_slot(items, escape_xml_text, read=read_xml_text, keep_lines=keep_lines)


def _list_inline(xml: XmlText, element: XmlElement) -> list[str | Inline]:
    """Return the texts and the inline markup in an element, in their order."""
    items: list[str | Inline] = []
    position = element.inner
    for child in element.children:
        items.append(xml.text[position : child.start])
        position = child.end
        if child.name in _AROUND_TEXT and child.end > child.inner:
            items.append(Inline("opening", child.start, [xml.opening(child)]))
            items += _list_inline(xml, child)
            items.append(Inline("closing", child.start, [xml.closing(child)]))
        else:
            items.append(_describe_code(xml, child))
    return [item for item in [*items, xml.text[position : element.inner_end]] if item]


def _describe_code(xml: XmlText, element: XmlElement) -> Inline:
    """Describe an inline element that is code: the beginning and the end of one thing belong together."""
    names = ("startRef",) if element.name == "ec" else ("i", "rid", "id")
    key = next(filter(None, (xml.attribute(element, name) for name in names)), None)
    opens, closes = element.name in _OPENING_CODES, element.name in _CLOSING_CODES
    if key is None or not (opens or closes):
        return Inline("single", None, [xml.raw(element)])
    return Inline("opening" if opens else "closing", ("code", key), [xml.raw(element)])
