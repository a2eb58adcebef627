"""Reads and writes term bases (TBX, ISO 30042 of 2008 and of 2019): an entry has terms in each of its languages."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pellucid.data.formats.units import Sides, Skip, Unit, choose_sides, find_two_languages
from pellucid.data.formats.xml import (
    XML_LANGUAGE,
    escape_xml,
    local_name,
    make_unit,
    parse_units,
    without_unfit_for_xml,
)

_ROOTS = ("tbx", "martif")  # of 2019, and of 2008
_ENTRIES = ("conceptEntry", "termEntry")
_LANGUAGE_SECTIONS = ("langSec", "langSet")
_TERM_SECTIONS = ("termSec", "tig", "ntig")
# What is said of terms that nobody should write any more, as values of `administrativeStatus`.
_UNWANTED = ("deprecated", "superseded", "obsolete", "forbidden")


def read_tbx(path: str, sides: Sides) -> Iterator[Unit]:
    """Yield the terms of a term base: each term of an entry's source language with each one of its target language.

    Terms that are marked as deprecated, superseded, obsolete or forbidden are units with a problem.
    """
    if sides.source is None or sides.target is None:
        languages, own_language = _list_languages(path)
        if not languages:
            return
        choose_sides(sides, languages, path, first=(own_language, f"xml:lang in {Path(path).name}"))
    assert sides.source is not None
    assert sides.target is not None

    number = 0
    for event, entry in parse_units(path, _ROOTS, _ENTRIES):
        if event == "start":
            continue

        line = entry.sourceline
        sections = _list_sections(entry)
        languages = tuple(language for language, _ in sections)
        source_index, target_index = find_two_languages(languages, sides.source, sides.target)
        if source_index is None or target_index is None:
            number += 1
            missing = sides.source if source_index is None else sides.target
            yield Unit(number, line=line, problem=f"no {missing}")
            continue

        for source, is_source_unwanted in _list_terms(sections[source_index][1]):
            for target, is_target_unwanted in _list_terms(sections[target_index][1]):
                number += 1
                if is_source_unwanted or is_target_unwanted:
                    yield Unit(number, line=line, problem="a term that is marked as not to be used")
                else:
                    yield make_unit(number, source, target, line)


def _list_languages(path: str) -> tuple[list[str], str]:
    """Return the languages of a term base, and the language that its root names, or ""."""
    languages: dict[str, None] = {}
    own_language = ""

    for event, element in parse_units(path, _ROOTS, _ENTRIES):
        own_language = own_language or element.getroottree().getroot().get(XML_LANGUAGE, "")
        if event == "end":
            for language, _ in _list_sections(element):
                languages[language] = None

    languages.pop("", None)
    return list(languages), own_language.strip()


def _list_sections(entry: Any) -> list[tuple[str, Any]]:
    """Return the sections of an entry, each with its language."""
    sections = []
    for child in entry:
        if local_name(child) in _LANGUAGE_SECTIONS:
            sections.append(((child.get(XML_LANGUAGE) or "").strip(), child))
    return sections


def _list_terms(section: Any) -> Iterator[tuple[str, bool]]:
    """Yield the terms of a language in an entry, and of each whether nobody should write it."""
    for part in section:
        if local_name(part) not in _TERM_SECTIONS:
            continue
        text, is_unwanted = "", False
        for element in part.iter():
            name = local_name(element)
            if name == "term" and not text:
                text = "".join(element.itertext())
            elif element.get("type") == "administrativeStatus" or name == "administrativeStatus":
                # Of 2008 "deprecatedTerm-admn-sts", "supersededTerm-admn-sts"; programs write
                # "forbidden", too.
                status = (element.text or "").strip().lower()
                is_unwanted = status.startswith(_UNWANTED)

        if text:
            yield text, is_unwanted


def encode_tbx(units: Iterable[Unit], sides: Sides, skip: Skip) -> Iterator[bytes]:
    """Yield the bytes of a term base (TBX-Basic of 2019); neighbours with one source term share an entry."""
    assert sides.languages is not None
    source, target = map(escape_xml, sides.languages)
    yield (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<tbx type="TBX-Basic" style="dca" xml:lang="{source}" xmlns="urn:iso:std:iso:30042:ed-2">\n'
        "<tbxHeader><fileDesc><sourceDesc><p>made by pellucid</p></sourceDesc></fileDesc></tbxHeader>\n"
        "<text>\n<body>\n"
    ).encode()

    number, term, targets = 0, None, list[str]()
    for unit in without_unfit_for_xml(units, skip):
        if unit.source != term:
            if term is not None:
                number += 1
                yield _encode_entry(number, source, term, target, targets)
            term, targets = unit.source, []
        targets.append(unit.target)

    if term is not None:
        yield _encode_entry(number + 1, source, term, target, targets)
    yield b"</body>\n</text>\n</tbx>\n"


def _encode_entry(number: int, source: str, term: str, target: str, targets: list[str]) -> bytes:
    sections = "".join(f"<termSec><term>{escape_xml(text)}</term></termSec>" for text in targets)
    return (
        f'<conceptEntry id="c{number}"><langSec xml:lang="{source}"><termSec><term>{escape_xml(term)}</term></termSec>'
        f'</langSec><langSec xml:lang="{target}">{sections}</langSec></conceptEntry>\n'
    ).encode()
