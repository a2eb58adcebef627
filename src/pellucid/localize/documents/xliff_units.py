"""Fills the units of XLIFF: each segment that has no translation yet gets a slot, and says where its text is from."""

import re
from collections.abc import Mapping

from pellucid.data.formats.xliff_states import MEMOQ, PHRASE, PO_HEADER, UNTRANSLATED, name_tool
from pellucid.localize.documents.reading import DocumentReading
from pellucid.localize.documents.segments import (
    Edit,
    SegmentMark,
    SegmentReader,
    list_segment_marks,
    open_element,
    place_target,
    replace_stretches,
)
from pellucid.localize.documents.slots import Parts
from pellucid.localize.documents.xml_tree import XmlElement, XmlText, with_attribute

UNITS = ("trans-unit", "segment")
"""The elements that hold a source and its target, in XLIFF 1.2 and in XLIFF 2."""

_NAMESPACE = re.compile(r"""\sxmlns:([^\s=]+)\s*=\s*["']([^"']*)["']""")
# What is written on a unit whose translation is a machine's, in the words of the program whose file
# it is.
_TOOL_STATES = {
    MEMOQ: (("status", "MachineTranslated"),),
    PHRASE: (("confirmed", "0"), ("trans-origin", "mt")),
}
_TRADOS_STATE = (("conf", "Draft"), ("origin", "mt"), ("origin-system", "pellucid"))


class UnitFiller:
    """Fills the units of an XLIFF file."""

    def __init__(self, xml: XmlText, reading: DocumentReading) -> None:
        self.xml, self.reading = xml, reading
        self.prefixes: dict[str, str] = {}
        for prefix, namespace in _NAMESPACE.findall(xml.opening(xml.root)):
            self.prefixes[name_tool(namespace)] = prefix
        self.reader = SegmentReader(xml, reading, has_text_tags=PHRASE in self.prefixes)

    def fill(self, element: XmlElement) -> Parts:
        """Return a unit or a segment, with slots for what nobody has translated yet."""
        source = self.xml.child(element, "source")
        if source is None:
            return [self.xml.raw(element)]

        if self.xml.attribute(element, "restype") == PO_HEADER:
            return self.keep(element, "other")
        if self._is_locked(element):
            return self.keep(element)

        is_first = element.name == "trans-unit"
        return (self._fill_first if is_first else self._fill_second)(element, source)

    def keep(self, element: XmlElement, kind: str = "protected") -> Parts:
        """Return a unit or a segment as it is; it counts as one of this kind."""
        source = self.xml.child(element, "source")
        self.reading.kept[kind] += source is not None and self.reader.has_words(source)
        return [self.xml.raw(element)]

    def _is_locked(self, element: XmlElement) -> bool:
        """Whether a program has locked a unit, so that nobody changes it."""
        for tool, prefix in self.prefixes.items():
            locked = self.xml.attribute(element, f"{prefix}:locked") or "no"
            if tool and locked.lower() not in ("no", "false", "0"):
                return True
        return False

    def _fill_second(self, segment: XmlElement, source: XmlElement) -> Parts:
        """Return a segment of XLIFF 2."""
        xml, reader = self.xml, self.reader
        target = xml.child(segment, "target")

        if not reader.has_words(source):
            return [xml.raw(segment)]

        has_state = xml.attribute(segment, "state") not in UNTRANSLATED
        if has_state and target is not None and reader.has_words(target):
            return self.keep(segment, "translated")

        # A translation that is not reviewed is "translated" here; the substate says that no person
        # made it.
        opening = with_attribute(xml.opening(segment), "state", "translated")
        opening = with_attribute(opening, "subState", "pellucid:machine")
        new = self._write_target(segment, source, target)
        edits: list[Edit] = [
            (segment.start, segment.inner, [opening]),
            place_target(xml, segment, source, target, new),
        ]
        return replace_stretches(xml, segment, edits)

    def _fill_first(self, unit: XmlElement, source: XmlElement) -> Parts:
        """Return a unit of XLIFF 1.2, in which a program may have marked segments."""
        xml, reader = self.xml, self.reader
        target = xml.child(unit, "target")
        behind = xml.child(unit, "seg-source") or source

        marks = list_segment_marks(xml, behind)
        definitions = self._list_definitions(unit)

        is_new = False
        if target is not None and xml.attribute(unit, "approved") != "yes":
            is_new = self._has_new_state(unit, target)

        if not reader.has_words(behind):
            return [xml.raw(unit)]

        old_marks = list_segment_marks(xml, target) if target is not None and marks else []
        if old_marks and target is not None:
            return self._fill_segments(unit, behind, target, marks, old_marks, is_new)

        if target is not None and reader.has_words(target):
            # A program's own state is less sure than XLIFF's: there only a copy of the source is no
            # translation.
            is_untranslated = xml.attribute(target, "state") in UNTRANSLATED
            if not is_new or not (is_untranslated or reader.is_copy(behind, target)):
                return self.keep(unit, "translated")

        names = {*definitions}
        if marks:
            names = {mark.name[0] for mark in marks if reader.has_words(mark.element)}
        locked = []
        for name in names & definitions.keys():
            if xml.attribute(definitions[name], "locked") == "true":
                locked.append(name)
        if locked and len(locked) == len(names):
            return self.keep(unit)

        edits = self._list_state_edits(unit, definitions, names)
        state = () if edits else (("state", "needs-review-translation"),)
        new = self._write_target(unit, behind, target, state)
        return replace_stretches(xml, unit, [*edits, place_target(xml, unit, behind, target, new)])

    def _fill_segments(
        self,
        unit: XmlElement,
        behind: XmlElement,
        target: XmlElement,
        marks: list[SegmentMark],
        old_marks: list[SegmentMark],
        is_new: bool,
    ) -> Parts:
        """Return a unit whose target has marked segments; those without a text are filled, the others stay."""
        xml, reader = self.xml, self.reader
        definitions = self._list_definitions(unit)
        old = {mark.name: mark for mark in old_marks}

        # By position where a tool gave the marks of both sides other numbers.
        if len(marks) == len(old_marks) and not any(mark.name in old for mark in marks):
            old = {mark.name: other for mark, other in zip(marks, old_marks, strict=True)}

        keep_lines = self._keeps_lines(unit, behind)
        edits: list[Edit] = []
        filled: set[str] = set()
        place, end_before = target.inner, None
        for mark in marks:
            there = old.get(mark.name)
            definition = definitions.get(mark.name[0])
            gap = "" if end_before is None else xml.text[end_before : mark.around[0].start]
            end_before = mark.around[0].end
            if there is not None:
                place = there.around[0].end
            if not reader.has_words(mark.element):
                continue

            if definition is not None and xml.attribute(definition, "locked") == "true":
                self.reading.kept["protected"] += 1
                continue

            if there is not None and reader.has_words(there.element):
                has_state = definition is not None and xml.attribute(definition, "conf")
                if not (is_new and not has_state and reader.is_copy(mark.element, there.element)):
                    self.reading.kept["translated"] += 1
                    continue

            new_mark = there.element if there is not None else mark.element
            opening = open_element(xml.opening(new_mark))
            closing = f"</{xml.prefix(new_mark)}mrk>"
            text = [opening, *reader.describe(mark.element, keep_lines), closing]
            if there is not None:
                edits.append((new_mark.start, new_mark.end, text))
            else:
                edits.append((place, place, [gap if not gap.strip() else "", *text]))

            filled.add(mark.name[0])
        if not filled:
            return [xml.raw(unit)]

        states = self._list_state_edits(unit, definitions, filled)
        if not states:
            opening = with_attribute(xml.opening(target), "state", "needs-review-translation")
            states.append((target.start, target.inner, [opening]))
        return replace_stretches(xml, unit, [*states, *edits])

    def _list_definitions(self, unit: XmlElement) -> dict[str, XmlElement]:
        """Return what Trados says about the segments of a unit, by their names."""
        definitions = {}
        for parent in unit.children:
            if parent.name == "seg-defs":
                for segment in parent.children:
                    definitions[self.xml.attribute(segment, "id") or ""] = segment
        return definitions

    def _has_new_state(self, unit: XmlElement, target: XmlElement) -> bool:
        """Whether nobody has translated a unit, as its state says."""

        status = f"{self.prefixes.get(MEMOQ)}:status"
        if MEMOQ in self.prefixes and self.xml.attribute(unit, status) == "NotStarted":
            return True
        if self.xml.attribute(target, "state") in UNTRANSLATED:
            return True

        definitions = self._list_definitions(unit).values()
        return bool(definitions) and not all(self.xml.attribute(seg, "conf") for seg in definitions)

    def _list_state_edits(
        self, unit: XmlElement, definitions: Mapping[str, XmlElement], filled: set[str]
    ) -> list[Edit]:
        """Return the changes that say, in the way of the program that wrote the file, where the new texts are from."""
        edits: list[Edit] = []
        for name in filled & {*definitions}:
            seg = definitions[name]
            opening = self.xml.opening(seg)
            for key, value in _TRADOS_STATE:
                opening = with_attribute(opening, key, value)
            edits.append((seg.start, seg.inner, [opening]))

        for tool, states in _TOOL_STATES.items():
            if tool in self.prefixes:
                opening = self.xml.opening(unit)
                for key, value in states:
                    opening = with_attribute(opening, f"{self.prefixes[tool]}:{key}", value)
                edits.append((unit.start, unit.inner, [opening]))
                break
        return edits

    def _write_target(
        self,
        unit: XmlElement,
        source: XmlElement,
        target: XmlElement | None,
        attributes: tuple[tuple[str, str], ...] = (),
    ) -> Parts:
        """Return a whole new target with the slots of its source."""
        name = f"{self.xml.prefix(source)}target"
        opening = open_element(self.xml.opening(target)) if target else f"<{name}>"
        for key, value in attributes:
            opening = with_attribute(opening, key, value)
        text = self.reader.describe(source, self._keeps_lines(unit, source))
        return [opening, *text, f"</{name}>"]

    def _keeps_lines(self, unit: XmlElement, source: XmlElement) -> bool:
        """Whether line ends in a text are kept."""
        spaces = [self.xml.attribute(element, "xml:space") for element in (source, unit)]
        return "preserve" in spaces
