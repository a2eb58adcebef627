"""Reads and writes files of segments: XLIFF 1.2 with its dialects, and XLIFF 2."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pellucid.data.formats.inline_codes import join_pieces, read_inline_text, split_phrase_tags
from pellucid.data.formats.units import Sides, Skip, Unit, matches_language
from pellucid.data.formats.xliff_states import (
    PHRASE,
    PO_HEADER,
    TRADOS,
    SegmentState,
    inherit_translate,
    name_tool,
)
from pellucid.data.formats.xml import (
    escape_xml,
    local_name,
    make_unit,
    parse_units,
    without_unfit_for_xml,
)


def read_xliff(path: str, sides: Sides) -> Iterator[Unit]:
    """Yield the segments of an XLIFF file; they are exchanged if `sides` asks for the other direction."""
    number, exchanged, wish = 0, False, Sides(sides.source, sides.target)
    for event, element in parse_units(path, "xliff", ("trans-unit", "unit"), ("file",)):
        if event == "start":
            names = element.get("source-language") or element.get("srcLang")
            if names is not None:
                target = element.get("target-language") or element.get("trgLang") or ""
                exchanged = _must_exchange(path, wish, names, target)
                found = (target, names) if exchanged else (names, target)
                sides.source, sides.target = found[0] or wish.source, found[1] or wish.target
                sides.said_by = "" if wish.source or wish.target else Path(path).name
            continue
        read_segments = _read_second if local_name(element) == "unit" else _read_first
        for source, target, line, problem in read_segments(element):
            number += 1
            if problem:
                yield Unit(number, line=line, problem=problem)
            elif exchanged:
                yield make_unit(number, target, source, line)
            else:
                yield make_unit(number, source, target, line)


_Segment = tuple[str, str, int | None, str | None]  # source, target, line, and why they are no pair


def _read_first(unit: Any) -> Iterator[_Segment]:
    """Yield the segments of a unit of XLIFF 1.2: those that a tool has marked in it, or the unit as one."""
    children = {local_name(child): child for child in reversed(unit)}
    source, target, line = children.get("source"), children.get("target"), unit.sourceline
    segmented = children.get("seg-source")
    if problem := _explain_no_text(unit):
        yield "", "", line, problem
        return

    definitions = {}
    for segment in _list_grandchildren(unit, "seg-defs"):
        if segment.get("id"):
            definitions[segment.get("id")] = segment

    from_marks = {} if segmented is None else _list_marks(segmented)
    to_marks = {} if target is None else _list_marks(target)
    read = _choose_reader(unit)
    if from_marks and (to_marks or target is None or not read(target).strip()):
        # By position where a tool gave the marks of both sides other numbers.
        if len(from_marks) == len(to_marks) and not set(from_marks) & set(to_marks):
            to_marks = dict(zip(from_marks, to_marks.values(), strict=True))
        for key, mark in from_marks.items():
            translation = to_marks.get(key)
            if translation is None:
                yield "", "", mark.sourceline, "no target"
                continue
            text = read(translation)
            problem = _read_state(unit, target, definitions.get(key[0])).explain_unfit()
            yield read(mark), text, mark.sourceline, problem if text.strip() else None
        return

    if target is None:
        yield "", "", line, "no target"
        return
    translation = read(target)

    if translation.strip() and not all(read(mark).strip() for mark in to_marks.values()):
        # Which sentences of the source these are, nobody can tell.
        yield "", "", line, "a target of which some segments are empty"
        return

    definition = next(iter(definitions.values())) if len(definitions) == 1 else None
    problem = None
    if translation.strip() or target.get("state"):
        problem = _read_state(unit, target, definition).explain_unfit()
    yield "" if source is None else read(source), translation, line, problem


def _read_second(unit: Any) -> Iterator[_Segment]:
    """Yield the segments of a unit of XLIFF 2."""
    problem = _explain_no_text(unit)

    data = {}
    for entry in _list_grandchildren(unit, "originalData"):
        if entry.get("id"):
            data[entry.get("id")] = "".join(entry.itertext())

    for segment in unit:
        if local_name(segment) != "segment":
            continue
        children = {local_name(child): child for child in reversed(segment)}
        source, target, line = children.get("source"), children.get("target"), segment.sourceline
        if problem:
            yield "", "", line, problem
        elif target is None:
            yield "", "", line, "no target"
        else:
            text = "" if source is None else read_inline_text(source, data)
            translation = read_inline_text(target, data)
            yield text, translation, line, _read_state(segment, target, None).explain_unfit()


def _list_grandchildren(unit: Any, name: str) -> Iterator[Any]:
    """Yield the children of each child of a unit that has this name."""
    for child in unit:
        if local_name(child) == name:
            yield from child


def _explain_no_text(unit: Any) -> str | None:
    """Return why nothing in a unit is a pair, None if something may be."""
    if unit.get("restype") == PO_HEADER:
        return "the header of a message catalogue"

    own = (element.get("translate") for element in (unit, *unit.iterancestors()))
    return None if inherit_translate(own) else "marked as not to be translated"


def _list_marks(element: Any) -> dict[tuple[str, int], Any]:
    """Return the segments that are marked in an element, each with its name and how often that came before."""
    marks: dict[tuple[str, int], Any] = {}
    seen = Counter[str]()
    for mark in element.iter("{*}mrk"):
        if mark.get("mtype") != "seg":
            continue
        name, around = mark.get("mid", ""), mark.iterancestors("{*}mrk")
        if not any(outer.get("mtype") == "seg" for outer in around):
            marks[name, seen[name]] = mark
            seen[name] += 1
    return marks


def _choose_reader(unit: Any) -> Any:
    """Return the function that reads the texts of a unit; Phrase writes the tags in them as text."""
    if not any(name_tool(namespace) == PHRASE for namespace in unit.nsmap.values()):
        return read_inline_text

    marks = {}
    for mark in _list_grandchildren(unit, "tunit-metadata"):
        contents = ["".join(part.itertext()) for part in mark if local_name(part) == "content"]
        marks[mark.get("id", "")] = contents[0] if contents else ""
    return lambda element: join_pieces(split_phrase_tags(read_inline_text(element), marks))


def _read_state(unit: Any, target: Any, definition: Any | None) -> SegmentState:
    """Return what a file says about the state of a translation; `definition` is the one by Trados, if there is one."""
    tool, tool_state, origin = "", None, ""

    if definition is not None:
        tool, tool_state, origin = TRADOS, definition.get("conf", ""), definition.get("origin", "")
    for key, value in unit.attrib.items() if definition is None else ():
        namespace, _, name = key[1:].rpartition("}")
        found = name_tool(namespace) if namespace else ""
        if found and name in ("status", "confirmed"):
            tool, tool_state = found, value
        elif found and name == "trans-origin":
            tool, origin = found, value

    return SegmentState(
        state=(unit.get("state") or target.get("state") or "").strip(),
        qualifier=(target.get("state-qualifier") or "").strip(),
        sub_state=(unit.get("subState") or "").strip(),
        approved=(unit.get("approved") or "").strip().lower(),
        tool=tool,
        tool_state=tool_state,
        origin=origin,
    )


def _must_exchange(path: str, wish: Sides, source: str, target: str) -> bool:
    """Whether the sides of a file must be exchanged to fit a wish; ValueError if it fits neither way."""
    wished = (wish.source, wish.target)
    for exchanged, pair in ((False, (source, target)), (True, (target, source))):
        # A file without a target language fits any.
        fits = True
        for side, tag in zip(wished, pair, strict=True):
            fits = fits and (side is None or not tag or matches_language(side, tag))
        if fits:
            return exchanged

    asked = " to ".join(side or "any language" for side in wished)
    to = target or "a language it does not name"
    raise ValueError(f"{path} translates {source} to {to}, not {asked}")


def encode_xliff(units: Iterable[Unit], sides: Sides, skip: Skip) -> Iterator[bytes]:
    """Yield the bytes of a file of segments (XLIFF 1.2) with these pairs."""
    assert sides.languages is not None
    source, target = map(escape_xml, sides.languages)
    yield (
        '<?xml version="1.0" encoding="UTF-8"?>\n<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">\n'
        f'<file original="pairs" datatype="plaintext" source-language="{source}" target-language="{target}">\n<body>\n'
    ).encode()
    for number, unit in enumerate(without_unfit_for_xml(units, skip), start=1):
        yield (
            f'<trans-unit id="{number}" xml:space="preserve" approved="yes"><source>{escape_xml(unit.source)}</source>'
            f'<target state="final">{escape_xml(unit.target)}</target></trans-unit>\n'
        ).encode()
    yield b"</body>\n</file>\n</xliff>\n"
