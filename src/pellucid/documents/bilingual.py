"""Documents in which a translation stands beside its source: XLIFF, TMX and PO."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from html import escape

from pellucid.data.formats.po import PO_ESCAPES
from pellucid.data.formats.units import find_language, matches_language
from pellucid.documents.slots import Inline, Parts, Review, TextSlot, join_markup, make_slot
from pellucid.documents.xml_tree import (
    XmlElement,
    XmlText,
    escape_xml_text,
    parse_xml,
    read_xml_text,
    with_attribute,
)

LanguagePair = tuple[str, str]

_AROUND_TEXT = ("g", "pc", "mrk", "hi")  # inline elements that surround text; every other is code, which stays as it is

_OPENING_CODES, _CLOSING_CODES = ("bpt", "bx", "sc"), ("ept", "ex", "ec")
_UNITS = ("trans-unit", "segment")  # of XLIFF 1.2 and of XLIFF 2
_UNTRANSLATED = ("new", "needs-translation", "initial")


def split_xliff(name: str, text: str, languages: LanguagePair | None) -> Parts:
    """Take an XLIFF file (1.2 or 2) apart, with a slot in the target of each unit that nobody has translated yet.

    A new target says that it needs a review. Raises ValueError for a file between other languages, and for one that
    does not name its target language where that is not known.
    """
    xml = parse_xml(name, text)
    if xml.root.name != "xliff":
        raise ValueError(f"{name} begins with <{xml.root.name}>, expected <xliff>")

    numbers = {unit.start: number for number, unit in enumerate(_list_units(xml))}

    def cut(element: XmlElement, out: list[str | TextSlot]) -> None:
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


def mark_xliff(name: str, text: str, reviews: Mapping[int, Sequence[Review]]) -> str:
    """Return an XLIFF file with marks on the units that a person should see, by their number among all.

    XLIFF 1.2 has the grade as the state qualifier of the target, XLIFF 2 as the substate of the segment; the reason is
    a note. Redo has the highest priority, 1, and look has 2.
    """
    xml = parse_xml(name, text)
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
    return _put_target(xml, unit, segmented or source, target, new)


def _fill_segment(xml: XmlText, segment: XmlElement) -> Parts:
    """Return a segment of XLIFF 2, with a slot in its target if it has no translation yet."""
    source, target = xml.child(segment, "source"), xml.child(segment, "target")
    if source is None or _has_text(xml, target, xml.attribute(segment, "state")):
        return [xml.raw(segment)]
    parts = _put_target(xml, segment, source, target, _write_target(xml, segment, source, target, None))
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
    return [opening, *_describe_text(xml, source, keep_lines), f"</{name}>"]


def _put_target(xml: XmlText, unit: XmlElement, source: XmlElement, target: XmlElement | None, new: Parts) -> Parts:
    """Return a unit with a new target: in place of the old one, or behind the source, on a line of its own."""
    space = ""
    if target is None:
        start = max((child.end for child in unit.children if child.end <= source.start), default=unit.inner)
        space = xml.text[start : source.start]

    def cut(child: XmlElement, out: list[str | TextSlot]) -> None:
        if child is target:
            out += new
            return
        out.append(xml.raw(child))
        if child is source and target is None:
            out += [space if not space.strip() else "", *new]

    parts: list[str | TextSlot] = []
    xml.cut_children(unit, cut, parts)
    return join_markup(parts)


def _describe_text(xml: XmlText, element: XmlElement, keep_lines: bool) -> Parts:
    """Return the content of an element as a slot, or as one for each segment that is marked in it."""
    inside = [inner for inner in xml.walk(element) if inner is not element and inner.name == "mrk"]
    if any(xml.attribute(mark, "mtype") == "seg" for mark in inside):
        out: list[str | TextSlot] = []
        position = element.inner
        for child in element.children:
            out += [xml.text[position : child.start], xml.opening(child)]
            out += [*_describe_text(xml, child, keep_lines), xml.closing(child)]
            position = child.end
        return join_markup([*out, xml.text[position : element.inner_end]])
    items = _list_inline(xml, element)
    return make_slot(items, escape_xml_text, read=read_xml_text, keep_lines=keep_lines)


def _list_inline(xml: XmlText, element: XmlElement) -> list[str | Inline]:
    """Return the texts and the inline markup in an element, in their order."""
    items: list[str | Inline] = []
    position = element.inner
    for child in element.children:
        items.append(xml.text[position : child.start])
        position = child.end
        if child.name in _AROUND_TEXT and child.end > child.inner:
            items.append(Inline("opening", child.start, [xml.opening(child)]))
            items += _list_inline(xml, child)
            items.append(Inline("closing", child.start, [xml.closing(child)]))
        else:
            items.append(_describe_code(xml, child))
    return [item for item in [*items, xml.text[position : element.inner_end]] if item]


def _describe_code(xml: XmlText, element: XmlElement) -> Inline:
    """Describe an inline element that is code: the beginning and the end of one thing belong together."""
    names = ("startRef",) if element.name == "ec" else ("i", "rid", "id")
    key = next(filter(None, (xml.attribute(element, name) for name in names)), None)
    opens, closes = element.name in _OPENING_CODES, element.name in _CLOSING_CODES
    if key is None or not (opens or closes):
        return Inline("single", None, [xml.raw(element)])
    return Inline("opening" if opens else "closing", ("code", key), [xml.raw(element)])


def split_tmx(name: str, text: str, languages: LanguagePair | None) -> Parts:
    """Take a translation memory apart, with a new variant in each unit that has the source language and not the target.

    Raises ValueError where the languages are not known.
    """
    if languages is None:
        raise ValueError(f"{name}: a translation memory has several languages; name two of them, such as en and es")
    xml = parse_xml(name, text)
    if xml.root.name != "tmx":
        raise ValueError(f"{name} begins with <{xml.root.name}>, expected <tmx>")

    def cut(element: XmlElement, out: list[str | TextSlot]) -> None:
        if element.name == "tu":
            out += _fill_tmx_unit(xml, element, languages)
        elif element.name in ("tmx", "body"):
            xml.cut_children(element, cut, out)
        else:
            out.append(xml.raw(element))

    return join_markup(xml.cut_root(cut))


def _fill_tmx_unit(xml: XmlText, unit: XmlElement, languages: LanguagePair) -> Parts:
    """Return a unit of a translation memory, with a variant in the target language."""
    variants = [child for child in unit.children if child.name == "tuv"]
    tags = [xml.attribute(variant, "xml:lang") or xml.attribute(variant, "lang") or "" for variant in variants]
    source, target = find_language(languages[0], tags), find_language(languages[1], tags)
    segment = None if source is None else xml.child(variants[source], "seg")
    if source is None or segment is None or target is not None:
        return [xml.raw(unit)]
    text = _describe_text(xml, segment, xml.attribute(segment, "xml:space") == "preserve")
    language = escape(languages[1])
    new = [f'<tuv xml:lang="{language}" creationtool="pellucid"><seg>', *text, "</seg></tuv>"]
    return _put_target(xml, unit, variants[source], None, new)


_PO_STRING = re.compile(
    r'[ \t]*(?:(msgctxt|msgid_plural|msgid|msgstr)(?:\[(\d+)\])?[ \t]+)?"((?:[^"\\]|\\.)*+)"[ \t]*\r?\n?'
)
_PO_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_PO_CHARACTERS = {"n": "\n", "t": "\t", "r": "\r", "v": "\v", "f": "\f", "b": "\b", "a": "\a"}


def split_po(name: str, text: str) -> Parts:
    """Take a message catalogue apart, with a slot for each message without a translation, which is marked as fuzzy.

    Raises ValueError for a line that fits no entry.
    """
    parts: list[str | TextSlot] = []
    entry: list[str] = []
    is_complete = False
    for number, line in enumerate(re.findall(r"[^\n]*\n|[^\n]+", text), start=1):
        stripped = line.strip().removeprefix("\ufeff")
        if stripped and not stripped.startswith("#") and not _PO_STRING.fullmatch(line.removeprefix("\ufeff")):
            raise ValueError(f"{name}:{number}: this line fits no entry of a message catalogue (PO)")
        begins = is_complete and re.match(r"msgctxt\b|msgid\s|#", stripped) is not None
        if not stripped or begins:
            parts += _fill_entry(entry)
            entry, is_complete = [], False
        is_complete = is_complete or stripped.startswith("msgstr")
        if stripped:
            entry.append(line)
        else:
            parts.append(line)
    return join_markup([*parts, *_fill_entry(entry)])


def _fill_entry(lines: Sequence[str]) -> Parts:
    """Return an entry of a catalogue, with slots if it has a message and no translation."""
    texts: dict[tuple[str, str], str] = {}
    key = ("", "")
    for line in lines:
        match = _PO_STRING.fullmatch(line)
        if match:
            key = (match[1], match[2] or "") if match[1] else key
            texts[key] = texts.get(key, "") + _read_po(match[3])
    message = texts.get(("msgid", ""), "")
    translations = [text for (word, _), text in texts.items() if word == "msgstr"]
    if not message or not translations or any(translations):
        return list(lines)
    end = "\r\n" if lines[0].endswith("\r\n") else "\n"
    out: list[str | TextSlot] = []
    is_fuzzy = in_translation = False
    for line in lines:
        match = _PO_STRING.fullmatch(line)
        if line.startswith("#,") and not is_fuzzy:
            line, is_fuzzy = line if "fuzzy" in line else f"#, fuzzy,{line[2:]}", True
        elif not is_fuzzy and (match or line.startswith("#|")):
            out.append(f"#, fuzzy{end}")
            is_fuzzy = True
        in_translation = match is not None and (match[1] or "msgstr" * in_translation) == "msgstr"
        if match is None or not in_translation:
            out.append(line)
        elif match[1]:  # the lines below an empty msgstr are empty strings, too
            is_plural = match[2] is not None and (len(translations) == 1 or int(match[2]) > 0)
            source = texts.get(("msgid_plural", ""), message) if is_plural else message
            head = f"msgstr[{match[2]}]" if match[2] is not None else "msgstr"
            slot = TextSlot(source, finish=partial(_write_po, end=end))
            out += [f"{head} ", slot, line[len(line.rstrip("\r\n")) :]]
    return out


def _read_po(escaped: str) -> str:
    """Return the characters of a string in a catalogue."""

    def character(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] == "x" and len(code) > 1:
            return chr(int(code[1:], 16))
        return chr(int(code, 8)) if code[0] in "01234567" else _PO_CHARACTERS.get(code, code)

    return _PO_ESCAPE.sub(character, escaped)


def _write_po(text: str, end: str) -> str:
    r"""Return a string of a catalogue, with a line for each of its lines.

    >>> print(_write_po('One "line".', "\n"), _write_po("Two\nlines.", "\n"))
    "One \"line\"." ""
    "Two\n"
    "lines."
    """
    lines = [f'"{line.translate(PO_ESCAPES)}"'.replace("\n", "\\n") for line in re.findall(r"[^\n]*\n|[^\n]+", text)]
    return "".join(lines or ['""']) if len(lines) < 2 else end.join(['""', *lines])
