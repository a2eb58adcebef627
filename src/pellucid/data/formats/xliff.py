"""Reads and writes files of segments: XLIFF 1.2 with its dialects, and XLIFF 2."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pellucid.data.formats.units import Sides, Skip, Unit, matches_language
from pellucid.data.formats.xml import escape_xml, inline_text, local_name, parse_units, without_unfit_for_xml

# Inline elements of XLIFF 1.2 and 2 whose content, if any, is code; `g`, `pc` and `mrk` surround text.
_NATIVE_CODE = frozenset({"bpt", "ept", "ph", "it", "x", "bx", "ex", "sub"})
# States of a target that nobody has translated yet; "initial" is that of XLIFF 2.
_UNTRANSLATED = ("new", "needs-translation", "initial")


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
        for segment in _list_segments(element):
            number += 1
            children = {local_name(child): child for child in reversed(segment)}
            source, target = (children.get(name) for name in ("source", "target"))
            state = segment.get("state") or (target.get("state") if target is not None else None)
            line = segment.sourceline
            if target is None:
                yield Unit(number, line=line, problem="no target")
            elif state in _UNTRANSLATED:
                yield Unit(number, line=line, problem=f"the state {state}")
            else:
                texts = ["" if side is None else inline_text(side, _NATIVE_CODE) for side in (source, target)]
                yield Unit(number, texts[exchanged], texts[not exchanged], line)


def _list_segments(unit: Any) -> list[Any]:
    """Return what holds a source and a target: a unit of XLIFF 1.2 itself, the segments of a unit of XLIFF 2."""
    return [child for child in unit if local_name(child) == "segment"] if local_name(unit) == "unit" else [unit]


def _must_exchange(path: str, wish: Sides, source: str, target: str) -> bool:
    """Whether the sides of a file must be exchanged to fit a wish; ValueError if it fits neither way."""
    wished = (wish.source, wish.target)
    for exchanged, pair in ((False, (source, target)), (True, (target, source))):
        # A file without a target language fits any.
        if all(w is None or not tag or matches_language(w, tag) for w, tag in zip(wished, pair, strict=True)):
            return exchanged
    asked = " to ".join(side or "any language" for side in wished)
    raise ValueError(f"{path} translates {source} to {target or 'a language it does not name'}, not {asked}")


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
            f'<trans-unit id="{number}" xml:space="preserve"><source>{escape_xml(unit.source)}</source>'
            f'<target state="final">{escape_xml(unit.target)}</target></trans-unit>\n'
        ).encode()
    yield b"</body>\n</file>\n</xliff>\n"
