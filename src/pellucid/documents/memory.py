"""Takes translation memories (TMX) apart, whose units have a variant for each of their languages."""

from html import escape

from pellucid.data.formats.units import find_language
from pellucid.documents.document import Document
from pellucid.documents.reading import DocumentReading, LanguagePair
from pellucid.documents.segments import describe_text, put_target
from pellucid.documents.slots import Part, Parts, join_markup
from pellucid.documents.xml_tree import XmlElement, XmlText, decode_xml, encode_xml, parse_xml


def read_memory(name: str, content: bytes, reading: DocumentReading) -> Document:
    """Read a translation memory."""
    text, encoding = decode_xml(name, content)
    parts = split_tmx(name, text, reading)
    return Document([parts], lambda bodies: encode_xml(bodies[0], encoding), reading)


def split_tmx(name: str, text: str, reading: DocumentReading) -> Parts:
    """Take a translation memory apart, with a new variant in each unit that has the source language and not the target.

    Raises ValueError where the languages are not known.
    """
    languages = reading.languages
    if languages is None:
        raise ValueError(f"{name}: a translation memory has several languages; name two of them, such as en and es")
    xml = parse_xml(name, text, reading)
    if xml.root.name != "tmx":
        raise ValueError(f"{name} begins with <{xml.root.name}>, expected <tmx>")

    def cut(element: XmlElement, out: list[Part]) -> None:
        if element.name == "tu":
            out += _fill_tmx_unit(xml, element, languages)
        elif element.name in ("tmx", "body"):
            xml.cut_children(element, cut, out)
        else:
            out.append(xml.raw(element))

    return join_markup(xml.cut_root(cut))


def _fill_tmx_unit(xml: XmlText, unit: XmlElement, languages: LanguagePair) -> Parts:
    """Return a unit of a translation memory, with a variant in the target language."""
    variants = [child for child in unit.children if child.name == "tuv"]
    tags = [xml.attribute(variant, "xml:lang") or xml.attribute(variant, "lang") or "" for variant in variants]
    source, target = find_language(languages[0], tags), find_language(languages[1], tags)
    segment = None if source is None else xml.child(variants[source], "seg")
    if source is None or segment is None or target is not None:
        return [xml.raw(unit)]
    text = describe_text(xml, segment, xml.attribute(segment, "xml:space") == "preserve")
    language = escape(languages[1])
    new = [f'<tuv xml:lang="{language}" creationtool="pellucid"><seg>', *text, "</seg></tuv>"]
    return put_target(xml, unit, variants[source], None, new)
