"""Takes XLIFF (1.2 and 2, and what Trados, memoQ and Phrase make of it) apart: files of sources and targets."""

from dataclasses import replace
from functools import partial

from pellucid.data.encodings import encode_text
from pellucid.data.formats.units import may_match
from pellucid.data.formats.xliff_states import inherit_translate
from pellucid.localize.documents.document import Document
from pellucid.localize.documents.reading import DocumentReading, LanguagePair
from pellucid.localize.documents.slots import Part, Parts, TextSlot, join_markup
from pellucid.localize.documents.xliff_marks import mark_xliff
from pellucid.localize.documents.xliff_units import UNITS, UnitFiller
from pellucid.localize.documents.xml_tree import (
    XmlElement,
    XmlText,
    decode_xml,
    parse_xml,
    with_attribute,
)


def read_xliff_document(name: str, content: bytes, reading: DocumentReading) -> Document:
    """Read an XLIFF file."""
    text, encoding = decode_xml(name, content)
    return Document(
        [split_xliff(name, text, reading)],
        lambda bodies: encode_text(bodies[0], encoding),
        reading,
        mark_units=partial(mark_xliff, name, DocumentReading(limits=reading.limits)),
    )


def split_xliff(name: str, text: str, reading: DocumentReading) -> Parts:
    """Take an XLIFF file (1.2 or 2) apart, with a slot in the target of each segment that nobody has translated yet.

    A new target says that it needs a review, in the way of the program that wrote the file. Raises
    ValueError for a file between other languages, and for one that does not name its target
    language where that is not known.
    """
    languages = reading.languages
    xml = parse_xml(name, text, reading)
    if xml.root.name != "xliff":
        raise ValueError(f"{name} begins with <{xml.root.name}>, expected <xliff>")

    units = (element for element in xml.walk(xml.root) if element.name in UNITS)
    numbers = {unit.start: number for number, unit in enumerate(units)}
    filler = UnitFiller(xml, reading)

    def cut(element: XmlElement, out: list[Part], translate: bool = True) -> None:
        # What is said further inside counts: a unit may be translated in a group that is not.
        around = None if translate else "no"
        translate = inherit_translate([xml.attribute(element, "translate"), around])

        if element.name in UNITS:
            number = numbers[element.start]
            parts = filler.fill(element) if translate else filler.keep(element)
            for part in parts:
                out.append(replace(part, unit=number) if isinstance(part, TextSlot) else part)
            return

        opening = None
        if element.name in ("file", "xliff"):
            _refuse_other_languages(name, xml, element, languages)
            opening = [_name_target_language(name, xml, element, languages)]
        xml.cut_children(element, partial(cut, translate=translate), out, opening)

    return join_markup(xml.cut_root(cut))


def _refuse_other_languages(
    name: str, xml: XmlText, element: XmlElement, languages: LanguagePair | None
) -> None:
    """Raise ValueError if a file of XLIFF translates between other languages than the model does."""
    found = [
        xml.attribute(element, old) or xml.attribute(element, new)
        for old, new in (("source-language", "srcLang"), ("target-language", "trgLang"))
    ]

    if languages and any(
        tag and not may_match(wish, tag) for wish, tag in zip(languages, found, strict=True)
    ):
        known = " to ".join(tag or "a language it does not name" for tag in found)
        raise ValueError(f"{name} translates {known}, not {' to '.join(languages)}")


def _name_target_language(
    name: str, xml: XmlText, element: XmlElement, languages: LanguagePair | None
) -> str:
    """Return the opening tag of an element, with the target language if it is the one that should name it."""
    opening = xml.opening(element)
    is_second = element.name == "xliff" and xml.attribute(element, "srcLang") is not None
    is_first = element.name == "file" and xml.attribute(element, "source-language") is not None
    attribute = "trgLang" if is_second else "target-language"
    if not (is_first or is_second) or xml.attribute(element, attribute):
        return opening
    if languages is not None:
        return with_attribute(opening, attribute, languages[1])
    if is_first:  # XLIFF 1.2 may leave it out
        return opening
    raise ValueError(
        f"{name} does not name the language of its translations; name both, such as en and es"
    )
