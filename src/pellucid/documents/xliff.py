"""Takes XLIFF (1.2 and 2) apart, in which a translation stands beside its source."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from pellucid.data.formats.units import matches_language
from pellucid.documents.document import Document
from pellucid.documents.reading import DocumentReading, LanguagePair
from pellucid.documents.segments import describe_text, put_target
from pellucid.documents.slots import Part, Parts, Review, TextSlot, join_markup
from pellucid.documents.xml_tree import (
    XmlElement,
    XmlText,
    decode_xml,
    encode_xml,
    escape_xml_text,
    parse_xml,
    with_attribute,
)

_UNITS = ("trans-unit", "segment")  # of XLIFF 1.2 and of XLIFF 2
_UNTRANSLATED = ("new", "needs-translation", "initial")


def read_xliff_document(name: str, content: bytes, reading: DocumentReading) -> Document:
    """Read an XLIFF file."""
    text, encoding = decode_xml(name, content)
    return Document(
        [split_xliff(name, text, reading)],
        lambda bodies: encode_xml(bodies[0], encoding),
        reading,
        mark_units=partial(mark_xliff, name, DocumentReading(limits=reading.limits)),
    )


def split_xliff(name: str, text: str, reading: DocumentReading) -> Parts:
    """Take an XLIFF file (1.2 or 2) apart, with a slot in the target of each unit that nobody has translated yet.

    A new target says that it needs a review. Raises ValueError for a file between other languages, and for one that
    does not name its target language where that is not known.
    """
    languages = reading.languages
    xml = parse_xml(name, text, reading)
    if xml.root.name != "xliff":
        raise ValueError(f"{name} begins with <{xml.root.name}>, expected <xliff>")

    numbers = {unit.start: number for number, unit in enumerate(_list_units(xml))}

    def cut(element: XmlElement, out: list[Part]) -> None:
        if element.name in _UNITS:
            parts = _fill_unit(xml, element) if element.name == "trans-unit" else _fill_segment(xml, element)
            number = numbers[element.start]
            out += [replace(part, unit=number) if isinstance(part, TextSlot) else part for part in parts]
        elif xml.attribute(element, "translate") == "no" and element.name in ("unit", "group", "file"):
            out.append(xml.raw(element))
        else:
            first = len(out)
            xml.cut_children(element, cut, out)
            if element.name in ("file", "xliff"):
                _refuse_other_languages(name, xml, element, languages)
                opening = xml.opening(element)
                named = _name_target_language(name, xml, element, languages)
                out[first] = named + f"{out[first]}"[len(opening) :]

    return join_markup(xml.cut_root(cut))


def _list_units(xml: XmlText) -> list[XmlElement]:
    """Return the elements that hold a source and its target, in their order."""
    return [element for element in xml.walk(xml.root) if element.name in _UNITS]


def mark_xliff(name: str, reading: DocumentReading, text: str, reviews: Mapping[int, Sequence[Review]]) -> str:
    """Return an XLIFF file with marks on the units that a person should see, by their number among all.

    XLIFF 1.2 has the grade as the state qualifier of the target, XLIFF 2 as the substate of the segment; the reason is
    a note. Redo has the highest priority, 1, and look has 2.
    """
    xml = parse_xml(name, text, reading)
    edits: list[tuple[int, int, str]] = []  # start and end of what is replaced, and by what
    enclosing: XmlElement | None = None
    notes: dict[int, list[str]] = {}
    enclosing_units: dict[int, XmlElement] = {}
    number = -1
    for element in xml.walk(xml.root):
        if element.name == "unit":
            enclosing = element
        number += element.name in _UNITS
        if element.name not in _UNITS or number not in reviews:
            continue
        grade = "redo" if any(review.grade == "redo" for review in reviews[number]) else "look"
        reason = "; ".join(dict.fromkeys(review.reason for review in reviews[number]))
        note = escape_xml_text(f"{grade}: {reason}")
        priority = 1 if grade == "redo" else 2
        prefix = xml.prefix(element)
        target = xml.child(element, "target")
        if element.name == "trans-unit" and target is not None:
            qualified = with_attribute(xml.opening(target), "state-qualifier", f"x-{grade}")
            edits.append((target.start, target.inner, qualified))
            attributes = f'from="pellucid" annotates="target" priority="{priority}"'
            edits.append((target.end, target.end, f"<{prefix}note {attributes}>{note}</{prefix}note>"))
        elif element.name == "segment" and enclosing is not None:
            edits.append(
                (element.start, element.inner, with_attribute(xml.opening(element), "subState", f"pellucid:{grade}"))
            )
            attributes = f'category="pellucid" appliesTo="target" priority="{priority}"'
            notes.setdefault(enclosing.start, []).append(f"<{prefix}note {attributes}>{note}</{prefix}note>")
            enclosing_units[enclosing.start] = enclosing

    for start, unit in enclosing_units.items():
        edits.append(_add_notes(xml, unit, "".join(notes[start])))
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _add_notes(xml: XmlText, unit: XmlElement, notes: str) -> tuple[int, int, str]:
    """Return where notes are written in a unit of XLIFF 2, and how: into its own, or into new ones before its data."""
    own = xml.child(unit, "notes")
    if own is not None and own.end > own.inner:
        return own.inner_end, own.inner_end, notes
    prefix = xml.prefix(unit)
    written = f"<{prefix}notes>{notes}</{prefix}notes>"
    if own is not None:
        return own.start, own.end, written
    first = next(child for child in unit.children if child.name in ("originalData", "segment", "ignorable"))
    return first.start, first.start, written


def _refuse_other_languages(name: str, xml: XmlText, element: XmlElement, languages: LanguagePair | None) -> None:
    """Raise ValueError where a file of XLIFF is between other languages than those of the model."""
    found = [
        xml.attribute(element, old) or xml.attribute(element, new)
        for old, new in (("source-language", "srcLang"), ("target-language", "trgLang"))
    ]
    # One of two codes may leave out the region.
    if languages and any(
        tag and not (matches_language(wish, tag) or matches_language(tag, wish))
        for wish, tag in zip(languages, found, strict=True)
    ):
        known = " to ".join(tag or "a language it does not name" for tag in found)
        raise ValueError(f"{name} translates {known}, not {' to '.join(languages)}")


def _name_target_language(name: str, xml: XmlText, element: XmlElement, languages: LanguagePair | None) -> str:
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
    raise ValueError(f"{name} does not name the language of its translations; name both, such as en and es")


def _fill_unit(xml: XmlText, unit: XmlElement) -> Parts:
    """Return a unit of XLIFF 1.2, with a slot in its target if it has no translation yet."""
    source, target = xml.child(unit, "source"), xml.child(unit, "target")
    state = xml.attribute(target, "state") if target else None
    if source is None or xml.attribute(unit, "translate") == "no" or _has_text(xml, target, state):
        return [xml.raw(unit)]
    # Segments that a tool has marked keep their marks in the target.
    segmented = xml.child(unit, "seg-source")
    new = _write_target(xml, unit, segmented or source, target, "needs-review-translation")
    return put_target(xml, unit, segmented or source, target, new)


def _fill_segment(xml: XmlText, segment: XmlElement) -> Parts:
    """Return a segment of XLIFF 2, with a slot in its target if it has no translation yet."""
    source, target = xml.child(segment, "source"), xml.child(segment, "target")
    if source is None or _has_text(xml, target, xml.attribute(segment, "state")):
        return [xml.raw(segment)]
    parts = put_target(xml, segment, source, target, _write_target(xml, segment, source, target, None))
    opening = xml.opening(segment)
    assert isinstance(parts[0], str)
    return [with_attribute(opening, "state", "translated") + parts[0][len(opening) :], *parts[1:]]


def _has_text(xml: XmlText, target: XmlElement | None, state: str | None) -> bool:
    """Whether a target is a translation already."""
    if target is None or state in _UNTRANSLATED:
        return False
    return bool(xml.text[target.inner : target.inner_end].strip())


def _write_target(
    xml: XmlText, unit: XmlElement, source: XmlElement, target: XmlElement | None, state: str | None
) -> Parts:
    name = f"{xml.prefix(source)}target"
    opening = xml.opening(target) if target else f"<{name}>"
    opening = re.sub(r"\s*/>$", ">", opening)
    if state is not None:
        opening = with_attribute(opening, "state", state)
    keep_lines = "preserve" in (xml.attribute(source, "xml:space"), xml.attribute(unit, "xml:space"))
    return [opening, *describe_text(xml, source, keep_lines), f"</{name}>"]
