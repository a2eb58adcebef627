"""Takes message catalogues (PO) apart, in which a translation stands below its message."""

import re
from collections.abc import Sequence
from functools import partial

from pellucid.data.formats.po import PO_ESCAPES, decode_catalogue
from pellucid.data.formats.po_entries import PoEntry, parse_po_entries, read_po_header
from pellucid.data.formats.units import matches_language, may_match
from pellucid.data.languages import spell_code
from pellucid.data.text.plural_rules import PluralRule, find_plural_rule, read_plural_rule
from pellucid.data.text.protected import has_same_protected
from pellucid.localize.documents.document import Document
from pellucid.localize.documents.reading import DocumentReading
from pellucid.localize.documents.slots import Part, Parts, TextSlot, join_markup

_ASCII = re.compile(r'Content-Type:[^"\n]*charset\s*=\s*(?:US-)?ASCII\b', re.IGNORECASE)
_ENTRIES_TOGETHER = 1000  # entries after which `go_on` is asked


def read_catalogue(name: str, content: bytes, reading: DocumentReading) -> Document:
    """Read a message catalogue."""
    text, encoding = decode_catalogue(name, content, "utf-8")
    if _ASCII.search(text[:100_000]):
        encoding = "utf-8"  # the header says so, too: `_complete_header`

    def write(bodies: list[str]) -> bytes:
        try:
            return bodies[0].encode(encoding)
        except UnicodeEncodeError as error:
            raise ValueError(
                f"{name} is in {encoding}, which has no {error.object[error.start]!r}; convert it with "
                "msgconv --to-code=UTF-8"
            ) from None

    return Document([split_po(name, text, reading)], write, reading)


def split_po(name: str, text: str, reading: DocumentReading) -> Parts:
    """Take a message catalogue apart, with a slot for each translation that is missing; its entry is marked as fuzzy.

    The header gets the language, the encoding and the rule of plurals, where it has none. Raises
    ValueError for a line that fits no entry, and for a catalogue in another language.
    """
    entries = []
    for number, entry in enumerate(parse_po_entries(name, text)):
        if number % _ENTRIES_TOGETHER == 0:
            reading.go_on()
        entries.append(entry)

    end = "\r\n" if "\r\n" in text[: text.find("\n") + 1] else "\n"
    header = next((entry for entry in entries if entry.is_header), None)
    fields = read_po_header(header.translations[0].text) if header else {}
    target = _choose_target(name, entries, fields.get("Language", ""), reading)
    rule = _choose_rule(fields, target, reading)

    has_forms = any(entry.forms for entry in entries)
    if target is None and "Plural-Forms" not in fields and not has_forms:
        rule = None  # nothing asks for it

    parts: list[Part] = []
    position = 0
    if header is None and target is not None and entries:
        position = entries[0].comments[0][0] if entries[0].comments else entries[0].start
        parts += [text[:position], _make_header(target, end)]

    for entry in entries:
        if entry is header:
            position = _complete_header(text, position, entry, fields, target, rule, parts, end)
        elif entry.is_obsolete:
            reading.kept["other"] += 1
        elif all(translation.text for translation in entry.translations):
            reading.kept["translated"] += 1
        elif entry.message is not None and not entry.is_header:
            position = _fill_entry(text, position, entry, rule, parts, end)
    return join_markup([*parts, text[position:]])


# The header


def _choose_target(
    name: str, entries: Sequence[PoEntry], language: str, reading: DocumentReading
) -> str | None:
    """Return the language that the header has to name; None where it names it, and where it is not known.

    Raises ValueError for a catalogue with translations into another language.
    """
    if reading.languages is None:
        return None
    source, target = reading.languages
    if may_match(target, language):
        return None

    is_begun = False
    for entry in entries:
        if not entry.is_header and not entry.is_obsolete:
            is_begun = is_begun or any(text.text for text in entry.translations)

    if language and is_begun and not matches_language(source, language):
        raise ValueError(f"{name} is translated into {language}, as its header says, not {target}")
    return target


def _choose_rule(
    fields: dict[str, str], target: str | None, reading: DocumentReading
) -> PluralRule | None:
    """Return the rule of plurals: the header's rule, unless it belongs to a template or to another language."""
    rule = read_plural_rule(fields.get("Plural-Forms", ""))
    if reading.languages is None or (rule is not None and target is None):
        return rule
    return find_plural_rule(spell_code(reading.languages[1]))


def _make_header(target: str, end: str) -> str:
    """Return the header for a catalogue that has none."""
    rule = find_plural_rule(spell_code(target))
    lines = [
        'msgid ""',
        'msgstr ""',
        f'"Language: {spell_code(target, "_")}\\n"',
        '"MIME-Version: 1.0\\n"',
        '"Content-Type: text/plain; charset=UTF-8\\n"',
        '"Content-Transfer-Encoding: 8bit\\n"',
        f'"Plural-Forms: {rule.header}\\n"',
    ]
    return end.join([*lines, "", ""])


def _complete_header(
    text: str,
    position: int,
    entry: PoEntry,
    fields: dict[str, str],
    target: str | None,
    rule: PluralRule | None,
    parts: list[Part],
    end: str,
) -> int:
    """Append the header to the parts, with the fields that it lacks; return the place where it ends."""
    wanted: dict[str, str] = {}
    is_template = target is not None
    charset = re.search(r"charset\s*=\s*([\w-]+)", fields.get("Content-Type", ""))
    transfer = fields.get("Content-Transfer-Encoding", "" if is_template else "8bit")
    if target is not None:
        wanted["Language"] = spell_code(target, "_")

    named = charset[1].upper() if charset else ""
    if named in ("CHARSET", "ASCII", "US-ASCII") or (not named and is_template):
        wanted["Content-Type"] = "text/plain; charset=UTF-8"
    if transfer in ("", "ENCODING"):
        wanted["Content-Transfer-Encoding"] = "8bit"
    if rule is not None and read_plural_rule(fields.get("Plural-Forms", "")) != rule:
        wanted["Plural-Forms"] = rule.header

    translation = entry.translations[0]
    if target is None and not wanted:
        return position

    lines = [line for line in translation.text.split("\n") if line]
    for name, value in wanted.items():
        line = f"{name}: {value}"
        places = [i for i, old in enumerate(lines) if old.partition(":")[0].strip() == name]
        if places:
            lines[places[0]] = line
        else:
            lines.append(line)

    # A template's header is fuzzy, and gettext leaves fuzzy entries out; of one that is filled it
    # says nothing more.
    position = _remove_fuzzy(text, position, entry, parts)
    first = f"{text[translation.start : translation.word_end].rstrip()} {_quote('')}"
    strings = end.join([first, *map(_quote_line, lines)])
    parts += [text[position : translation.start], strings]
    return translation.end


def _remove_fuzzy(text: str, position: int, entry: PoEntry, parts: list[Part]) -> int:
    """Append the comments of an entry without the flag "fuzzy"; return the place where they end."""
    for start, stop in entry.comments:
        comment = text[start:stop]
        if not comment.startswith("#,"):
            continue
        flags = [flag.strip() for flag in comment[2:].split(",")]
        if "fuzzy" not in flags:
            continue

        kept = [flag for flag in flags if flag and flag != "fuzzy"]
        parts.append(text[position:start])
        if kept:
            parts.append(f"#, {', '.join(kept)}{comment[len(comment.rstrip()) :]}")
            position = stop
        else:
            position = stop + text.startswith("\n", stop)
    return position


# The other entries


def _fill_entry(
    text: str, position: int, entry: PoEntry, rule: PluralRule | None, parts: list[Part], end: str
) -> int:
    """Append an entry to the parts, with a slot for each translation that it lacks; return the place where it ends."""
    assert entry.message is not None
    position = _add_fuzzy(text, position, entry, parts, end)

    if entry.translation is not None:
        before = text[position : entry.translation.start]
        parts += [before, "msgstr ", _make_slot(entry.message.text, end)]
        return entry.translation.end

    plural = entry.plural.text if entry.plural is not None else entry.message.text
    number = rule.forms if rule is not None else len(entry.forms)
    singular = _find_singular_form(rule, entry.message.text, plural) if number > 1 else None
    last = max((form for form, translation in entry.forms.items() if translation.text), default=-1)
    written = [form for form in sorted(entry.forms) if form < number or form <= last]
    missing = [form for form in range(number) if form not in entry.forms]

    parts.append(text[position : min(translation.start for translation in entry.translations)])
    is_first = True
    for form in sorted([*written, *missing]):
        parts += ["" if is_first else end, f"msgstr[{form}] "]
        is_first = False
        translation = entry.forms.get(form)
        if translation is not None and translation.text:
            parts.append(text[translation.word_end : translation.end].lstrip(" \t"))
        else:
            parts.append(_make_slot(entry.message.text if form == singular else plural, end))
    return max(translation.end for translation in entry.translations)


def _find_singular_form(rule: PluralRule | None, message: str, plural: str) -> int | None:
    """Return the form that the singular of a message is translated to; None where all forms translate the plural.

    A form that counts 21 things too, as in Russian, needs the number that "one file" does not have.
    """
    if rule is None:
        return 0
    if rule.singular_counts_more and not has_same_protected(message, plural):
        return None
    return rule.singular


def _add_fuzzy(text: str, position: int, entry: PoEntry, parts: list[Part], end: str) -> int:
    """Append what stands before an entry, marked as fuzzy; return the place where it ends."""
    if entry.is_fuzzy:
        return position

    before = [(start, stop) for start, stop in entry.comments if start < entry.start]
    place = entry.start
    for start, _ in before:
        if text.startswith("#,", start):
            parts += [text[position:start], "#, fuzzy,"]
            return start + 2
        if text.startswith("#|", start):
            place = min(place, start)

    # A few characters, so that a catalogue on one line takes no longer than another.
    stands_before = text[max(0, place - 80) : place].rstrip(" \t\ufeff")
    is_first_on_line = not stands_before or stands_before.endswith("\n")
    parts += [text[position:place], "" if is_first_on_line else end, f"#, fuzzy{end}"]
    return place


def _make_slot(source: str, end: str) -> TextSlot:
    return TextSlot(source, finish=partial(_write_po, end=end))


def _quote(text: str) -> str:
    return f'"{text.translate(PO_ESCAPES)}"'.replace("\n", "\\n")


def _quote_line(line: str) -> str:
    return _quote(f"{line}\n")


def _write_po(text: str, end: str) -> str:
    r"""Return a string of a catalogue, with a line for each of its lines.

    >>> print(_write_po('One "line".', "\n"), _write_po("Two\nlines.", "\n"))
    "One \"line\"." ""
    "Two\n"
    "lines."
    """
    lines = [_quote(line) for line in re.findall(r"[^\n]*\n|[^\n]+", text)]
    return "".join(lines or ['""']) if len(lines) < 2 else end.join(['""', *lines])
