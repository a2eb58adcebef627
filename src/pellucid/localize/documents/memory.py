"""Takes translation memories (TMX) apart, whose units have a variant for each of their languages."""

from html import escape

from pellucid.data.encodings import encode_text
from pellucid.data.formats.units import find_language, matches_language
from pellucid.localize.documents.document import Document
from pellucid.localize.documents.reading import DocumentReading, LanguagePair
from pellucid.localize.documents.segments import (
    Edit,
    SegmentReader,
    open_element,
    place_target,
    replace_stretches,
)
from pellucid.localize.documents.slots import Part, Parts, join_markup
from pellucid.localize.documents.xml_tree import (
    XmlElement,
    XmlText,
    decode_xml,
    parse_xml,
    with_attribute,
)


def read_memory(name: str, content: bytes, reading: DocumentReading) -> Document:
    """Read a translation memory."""
    text, encoding = decode_xml(name, content)
    parts = split_tmx(name, text, reading)
    return Document([parts], lambda bodies: encode_text(bodies[0], encoding), reading)


def split_tmx(name: str, text: str, reading: DocumentReading) -> Parts:
    """Take a translation memory apart, with a new variant in each unit that has no text in the target language yet.

    Raises ValueError where the languages are not known.
    """
    languages = reading.languages
    if languages is None:
        raise ValueError(
            f"{name}: a translation memory has several languages; name two of them, such as en and "
            "es"
        )

    xml = parse_xml(name, text, reading)
    if xml.root.name != "tmx":
        raise ValueError(f"{name} begins with <{xml.root.name}>, expected <tmx>")

    def cut(element: XmlElement, out: list[Part]) -> None:
        if element.name == "tu":
            out += _fill_tmx_unit(SegmentReader(xml, reading), element, languages)
        elif element.name in ("tmx", "body"):
            xml.cut_children(element, cut, out)
        else:
            out.append(xml.raw(element))

    return join_markup(xml.cut_root(cut))


def _fill_tmx_unit(reader: SegmentReader, unit: XmlElement, languages: LanguagePair) -> Parts:
    """Return a unit of a translation memory, with a text in the target language."""
    xml = reader.xml
    variants = [child for child in unit.children if child.name == "tuv"]
    tags = []
    for variant in variants:
        tags.append(xml.attribute(variant, "xml:lang") or xml.attribute(variant, "lang") or "")
    target = find_language(languages[1], tags)
    # "en" to "en-GB": the variant of the target is not one of the source, too.
    source = find_language(languages[0], [tag if i != target else "" for i, tag in enumerate(tags)])
    segment = None if source is None else xml.child(variants[source], "seg")

    if source is None or segment is None or not reader.has_words(segment):
        return [xml.raw(unit)]

    for i, variant in enumerate(variants):
        is_target = i != source and matches_language(languages[1], tags[i])
        if is_target and _has_text(reader, variant):
            reader.reading.kept["translated"] += 1
            return [xml.raw(unit)]

    text = reader.describe(segment, xml.attribute(segment, "xml:space") == "preserve")
    if target is not None:
        return replace_stretches(xml, unit, _fill_variant(xml, variants[target], text))
    language = escape(languages[1])
    new = [f'<tuv xml:lang="{language}" creationtool="pellucid"><seg>', *text, "</seg></tuv>"]
    return replace_stretches(xml, unit, [place_target(xml, unit, variants[source], None, new)])


def _has_text(reader: SegmentReader, variant: XmlElement) -> bool:
    segment = reader.xml.child(variant, "seg")
    return segment is not None and reader.has_words(segment)


def _fill_variant(xml: XmlText, variant: XmlElement, text: Parts) -> list[Edit]:
    """Return the changes that give a variant a text, and the name of the program that it is from."""
    opening = with_attribute(xml.opening(variant), "creationtool", "pellucid")

    segment = xml.child(variant, "seg")
    if segment is not None:
        new = [open_element(xml.opening(segment)), *text, xml.closing(segment) or "</seg>"]
        return [(variant.start, variant.inner, [opening]), (segment.start, segment.end, new)]
    inner = xml.text[variant.inner : variant.inner_end]
    new = [open_element(opening), inner, "<seg>", *text, "</seg></tuv>"]
    return [(variant.start, variant.end, new)]
