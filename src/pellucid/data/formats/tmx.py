"""Reads and writes translation memories (TMX 1.1 to 1.4): a unit has variants, one for each of its languages."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pellucid.data.formats.inline_codes import read_inline_text
from pellucid.data.formats.units import Sides, Skip, Unit, choose_sides, find_two_languages
from pellucid.data.formats.xliff_states import TRADOS, SegmentState
from pellucid.data.formats.xml import (
    XML_LANGUAGE,
    escape_xml,
    local_name,
    make_unit,
    parse_units,
    without_unfit_for_xml,
)


def read_tmx(path: str, sides: Sides) -> Iterator[Unit]:
    """Yield the units of a translation memory; without both languages in `sides`, the whole file is searched for them.

    Of several variants in one language the first counts, and
    each further one is a unit with a problem.
    """
    if sides.source is None or sides.target is None:
        languages, source_language = _list_languages(path)
        if not languages:
            return

        said_by = f"srclang in {Path(path).name}"
        choose_sides(sides, languages, path, first=(source_language, said_by))

    assert sides.source is not None
    assert sides.target is not None
    number, kept, all_languages = 0, 0, dict[str, None]()

    for event, element in parse_units(path, "tmx", ("tu",)):
        if event == "start":
            continue
        number, line = number + 1, element.sourceline
        variants = [child for child in element if local_name(child) == "tuv"]
        languages = [_variant_language(variant) for variant in variants]
        all_languages |= dict.fromkeys(languages)
        source, target = find_two_languages(tuple(languages), sides.source, sides.target)

        if source is None or target is None:
            missing = sides.source if source is None else sides.target
            yield Unit(number, line=line, problem=f"no {missing}")
            continue

        kept += 1
        if problem := _explain_unfit_variant(element, variants[target]):
            yield Unit(number, line=line, problem=problem)
        else:
            texts = _variant_text(variants[source]), _variant_text(variants[target])
            yield make_unit(number, *texts, line)

        both = languages[source].lower(), languages[target].lower()
        for i, language in enumerate(languages):
            if i not in (source, target) and language.lower() in both:
                number, line = number + 1, variants[i].sourceline
                yield Unit(number, line=line, problem=f"a further variant in {language}")

    if all_languages and not kept:
        names = ", ".join(all_languages)
        raise ValueError(
            f"{path} has no unit in both {sides.source} and {sides.target}; its languages are "
            f"{names}"
        )


def _list_languages(path: str) -> tuple[list[str], str]:
    """Return the languages of a file, and the language its header or all of its units name for the sources, or ""."""
    languages: dict[str, None] = {}

    header_language, unit_languages = "", set[str]()
    for event, element in parse_units(path, "tmx", ("tu",), ("header",)):
        if event == "end":
            for variant in element:
                if local_name(variant) == "tuv":
                    languages[_variant_language(variant)] = None
            unit_languages.add(element.get("srclang", ""))
        elif local_name(element) == "header":
            header_language = element.get("srclang", "").strip()

    languages.pop("", None)
    if header_language in ("", "*all*") and len(unit_languages) == 1:
        header_language = unit_languages.pop().strip()
    return list(languages), header_language


def _variant_language(variant: Any) -> str:
    return (variant.get(XML_LANGUAGE) or variant.get("lang") or "").strip()  # `lang` before TMX 1.4


def _variant_text(variant: Any) -> str:
    segment = next((child for child in variant if local_name(child) == "seg"), None)
    return "" if segment is None else read_inline_text(segment)


def _explain_unfit_variant(unit: Any, variant: Any) -> str | None:
    """Return why nobody stands by a translation in a memory yet, None for a good one."""
    if variant.get("creationtool") == "pellucid" and not variant.get("changeid"):
        return "a translation by pellucid that nobody has changed"

    for element in (variant, unit):
        for child in element:
            if local_name(child) == "prop" and child.get("type") == "x-ConfirmationLevel":
                state = (child.text or "").strip()
                return SegmentState(tool=TRADOS, tool_state=state).explain_unfit()
    return None


def encode_tmx(units: Iterable[Unit], sides: Sides, skip: Skip) -> Iterator[bytes]:
    """Yield the bytes of a translation memory (TMX 1.4) with these pairs."""
    assert sides.languages is not None
    source, target = map(escape_xml, sides.languages)
    header = 'creationtool="pellucid" creationtoolversion="1" segtype="sentence" o-tmf="text" adminlang="en" '
    yield (
        '<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4">\n'
        f'<header {header}srclang="{source}" datatype="plaintext"/>\n<body>\n'
    ).encode()

    for unit in without_unfit_for_xml(units, skip):
        yield (
            f'<tu><tuv xml:lang="{source}"><seg>{escape_xml(unit.source)}</seg></tuv>'
            f'<tuv xml:lang="{target}"><seg>{escape_xml(unit.target)}</seg></tuv></tu>\n'
        ).encode()
    yield b"</body>\n</tmx>\n"
