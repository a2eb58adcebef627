"""Marks the units of an XLIFF file that a person should see."""

from collections.abc import Mapping, Sequence

from pellucid.localize.documents.reading import DocumentReading
from pellucid.localize.documents.slots import Review
from pellucid.localize.documents.xliff_units import UNITS
from pellucid.localize.documents.xml_tree import (
    XmlElement,
    XmlText,
    escape_xml_text,
    parse_xml,
    with_attribute,
)


def mark_xliff(
    name: str, reading: DocumentReading, text: str, reviews: Mapping[int, Sequence[Review]]
) -> str:
    """Return an XLIFF file with marks on the units that a person should see, by their number among all.

    XLIFF 1.2 has the grade as the state qualifier of the target, XLIFF 2 as the substate of the
    segment; the reason is a note. Redo has the highest priority, 1, and look has 2.
    """
    xml = parse_xml(name, text, reading)
    text = xml.text
    edits: list[tuple[int, int, str]] = []  # start and end of what is replaced, and by what
    enclosing: XmlElement | None = None
    notes: dict[int, list[str]] = {}
    enclosing_units: dict[int, XmlElement] = {}
    number = -1

    for element in xml.walk(xml.root):
        if element.name == "unit":
            enclosing = element
        number += element.name in UNITS
        if element.name not in UNITS or number not in reviews:
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
            written = f"<{prefix}note {attributes}>{note}</{prefix}note>"
            edits.append((target.end, target.end, written))
        elif element.name == "segment" and enclosing is not None:
            marked = with_attribute(xml.opening(element), "subState", f"pellucid:{grade}")
            edits.append((element.start, element.inner, marked))
            attributes = f'category="pellucid" appliesTo="target" priority="{priority}"'
            written = f"<{prefix}note {attributes}>{note}</{prefix}note>"
            notes.setdefault(enclosing.start, []).append(written)
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

    behind_notes = ("originalData", "segment", "ignorable")
    first = next(child for child in unit.children if child.name in behind_notes)
    return first.start, first.start, written
