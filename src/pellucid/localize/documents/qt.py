"""Takes the messages of Qt programs apart (.ts), in which a translation stands beside its source."""

import re

from pellucid.data.encodings import encode_text
from pellucid.data.formats.units import may_match
from pellucid.data.languages import spell_code
from pellucid.data.text.plural_rules import find_plural_rule
from pellucid.localize.documents.document import Document
from pellucid.localize.documents.reading import DocumentReading
from pellucid.localize.documents.segments import open_element, place_target, replace_stretches
from pellucid.localize.documents.slots import Part, Parts, TextSlot, join_markup
from pellucid.localize.documents.xml_tree import (
    XmlElement,
    XmlText,
    decode_xml,
    escape_xml_text,
    parse_xml,
    with_attribute,
)

_GONE = ("vanished", "obsolete")
_ROOT = re.compile(r"<TS[\s>/]")


def read_qt_messages(name: str, content: bytes, reading: DocumentReading) -> Document:
    """Read the messages of a Qt program."""
    text, encoding = decode_xml(name, content)
    if not _ROOT.search(text):
        raise ValueError(
            f"{name} holds no messages of Qt: of files that end in .ts, only those with <TS> are taken"
        )

    parts = split_qt(name, text, reading)
    return Document([parts], lambda bodies: encode_text(bodies[0], encoding), reading)


def split_qt(name: str, text: str, reading: DocumentReading) -> Parts:
    """Take the messages of a Qt program apart, with a slot for each translation that is missing.

    New translations stay unfinished, which asks for a review. Raises
    ValueError for translations into another language.
    """
    xml = parse_xml(name, text, reading)

    if xml.root.name != "TS":
        raise ValueError(f"{name} begins with <{xml.root.name:.50}>, expected <TS>")

    language = xml.attribute(xml.root, "language")
    opening, is_new = _name_language(name, xml, language, reading)
    named = reading.languages[1] if reading.languages else language
    forms = find_plural_rule(spell_code(named, "_")).forms if named else 1

    def cut(element: XmlElement, out: list[Part]) -> None:
        if element.name == "message":
            out += _fill_message(xml, element, forms if is_new else 0, reading)
        elif element.name in ("TS", "context"):
            xml.cut_children(element, cut, out, [opening] if element is xml.root else None)
        else:
            out.append(xml.raw(element))

    return join_markup(xml.cut_root(cut))


def _name_language(
    name: str, xml: XmlText, language: str | None, reading: DocumentReading
) -> tuple[str, bool]:
    """Return the opening tag with the language of the translations, and whether it did not name this language."""

    opening = xml.opening(xml.root)
    if reading.languages is None:
        return opening, False
    source, target = reading.languages

    from_language = xml.attribute(xml.root, "sourcelanguage")
    if from_language and not may_match(source, from_language):
        raise ValueError(f"{name} translates {from_language}, as it says, not {source}")
    if language and may_match(target, language):
        return opening, False

    messages = [element for element in xml.walk(xml.root) if element.name == "message"]
    if language and any(_has_translation(xml, message) for message in messages):
        raise ValueError(f"{name} is translated into {language}, as it says, not {target}")
    return with_attribute(opening, "language", spell_code(target, "_")), True


def _has_translation(xml: XmlText, message: XmlElement) -> bool:
    """Whether a message has a translation, finished or not."""
    translation = xml.child(message, "translation")
    if translation is None:
        return False
    texts = translation.children or [translation]
    return any(xml.text[text.inner : text.inner_end].strip() for text in texts)


def _fill_message(xml: XmlText, message: XmlElement, forms: int, reading: DocumentReading) -> Parts:
    """Return a message with a slot in its translation, if it has none; `forms` of a plural where they are not there."""
    source, translation = xml.child(message, "source"), xml.child(message, "translation")
    kind = xml.attribute(translation, "type") if translation is not None else None

    if kind in _GONE or source is None or source.children:
        reading.kept["other"] += 1
        return [xml.raw(message)]
    if _has_translation(xml, message):
        reading.kept["translated"] += 1
        return [xml.raw(message)]

    text = xml.content(source)
    if not text.strip():
        return [xml.raw(message)]

    opening = xml.opening(translation) if translation is not None else "<translation>"
    opening = with_attribute(open_element(opening), "type", "unfinished")
    inside: Parts = [_make_slot(text)]
    if xml.attribute(message, "numerus") == "yes":
        children = translation.children if translation else ()
        there = [child for child in children if child.name == "numerusform"]
        inside = _list_forms(xml, text, translation, forms or len(there) or 1)
    edit = place_target(xml, message, source, translation, [opening, *inside, "</translation>"])
    return replace_stretches(xml, message, [edit])


def _list_forms(xml: XmlText, text: str, translation: XmlElement | None, number: int) -> Parts:
    """Return the forms of a plural, each on a line where they are so now."""
    before = after = ""
    if translation is not None and translation.children:
        before = xml.text[translation.inner : translation.children[0].start]
        after = xml.text[translation.children[-1].end : translation.inner_end]

    parts: list[Part] = []
    for _ in range(number):
        parts += [before, "<numerusform>", _make_slot(text), "</numerusform>"]
    return [*parts, after]


def _make_slot(text: str) -> TextSlot:
    return TextSlot(text, escape=escape_xml_text)
