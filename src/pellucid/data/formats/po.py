"""Reads and writes message catalogues (PO): a message and its translation, or one for each form of its plural."""

import codecs
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from pellucid.data.encodings import decode_bytes, find_codec
from pellucid.data.formats.po_entries import PoEntry, parse_po_entries, read_po_header
from pellucid.data.formats.units import Sides, Skip, Unit, matches_language
from pellucid.data.lines import DAMAGES, describe_damage, open_decompressed
from pellucid.data.text.plural_rules import PluralRule, read_plural_rule

# The most bytes of a catalogue, which is read as a whole; the largest of well-known programs have a
# tenth of that.
LARGEST_CATALOGUE = 64 * 2**20

_CHARSET = re.compile(rb'Content-Type:[^"\n]{0,200}?charset\s*=\s*([\w-]+)', re.IGNORECASE)

# What the characters that stand for something else in a string of a catalogue are written as.
PO_ESCAPES = str.maketrans(
    {
        "\\": "\\\\",
        '"': '\\"',
        "\t": "\\t",
        "\r": "\\r",
        "\v": "\\v",
        "\f": "\\f",
        "\b": "\\b",
        "\a": "\\a",
    }
)


def read_po(path: str, sides: Sides) -> Iterator[Unit]:
    """Yield the messages of a catalogue, each form of a plural as one, without their contexts.

    The header names the language of the translations; `sides` may ask for the
    other direction. Raises ValueError for a catalogue that is not well-formed, not
    in the encoding that it names, or too large.
    """
    entries, header = _parse_catalogue(path)

    language = header.get("Language", "")
    exchanged = False
    if language:
        fits = sides.target is None or matches_language(sides.target, language)
        if not fits and sides.source is not None:
            exchanged = matches_language(sides.source, language)
        if not fits and not exchanged:
            raise ValueError(
                f"{path} is translated into {language}, as its header says, not {sides.target}"
            )

    if language and sides.source is None and sides.target is None:
        sides.said_by = f"the header of {Path(path).name}"
    if exchanged:
        sides.source = language
    elif language:
        sides.target = language

    rule = read_plural_rule(header.get("Plural-Forms", ""))
    number = 0

    for entry in entries:
        if entry.is_header or entry.message is None:
            continue
        for message, translation in _list_forms(entry, rule):
            number += 1
            problem = "an obsolete translation" if entry.is_obsolete else None
            if problem is None and entry.is_fuzzy:
                problem = "a fuzzy translation"
            if problem is None and not translation:
                problem = "no translation"
            pair = (translation, message) if exchanged else (message, translation)
            yield Unit(number, *pair, entry.line, problem)


def _list_forms(entry: PoEntry, rule: PluralRule | None) -> list[tuple[str, str]]:
    """Return the message of an entry with its translation, or one for each form of its plural."""
    assert entry.message is not None
    message = entry.message.text
    if entry.plural is None:
        return [(message, translation.text) for translation in entry.translations]

    singular = rule.singular if rule is not None and rule.forms == len(entry.forms) else 0
    if len(entry.forms) < 2:
        singular = None  # a language without a plural has one form for all numbers
    plural = entry.plural.text
    forms = []
    for form in sorted(entry.forms):
        forms.append((message if form == singular else plural, entry.forms[form].text))
    return forms


def _parse_catalogue(path: str) -> tuple[list[PoEntry], dict[str, str]]:
    """Return the entries of a catalogue and the fields of its header."""
    try:
        with open_decompressed(path) as stream:
            raw = stream.read(LARGEST_CATALOGUE + 1)
    except DAMAGES as error:
        raise ValueError(f"{path}: {describe_damage(error)}") from None

    if len(raw) > LARGEST_CATALOGUE:
        raise ValueError(
            f"{path} has more than {LARGEST_CATALOGUE:,} bytes; split it, for example with msggrep"
        )
    text, _ = decode_catalogue(path, raw.removeprefix(codecs.BOM_UTF8))

    if "\0" in text:
        raise ValueError(
            f"{path}: a NUL byte; a text file has none, so is this UTF-16 or a binary file?"
        )

    entries = list(parse_po_entries(path, text))
    headers = [entry.translations[0].text for entry in entries if entry.is_header]
    return entries, read_po_header(headers[0]) if headers else {}


def decode_catalogue(path: str, raw: bytes, otherwise: str = "UTF-8") -> tuple[str, str]:
    """Return the text of a catalogue and its encoding: the one that its header names, `otherwise` where it names none.

    Raises ValueError for an encoding that is not known, and,
    naming the line, for bytes that are not in it.
    """
    named = _CHARSET.search(raw[:100_000])
    charset = named[1].decode("ascii") if named else otherwise
    if charset == "CHARSET":  # as templates say where nobody has filled it in
        charset = otherwise

    codec = find_codec(charset, exact=True)
    if codec is None:
        raise ValueError(
            f"{path} is in the encoding {charset:.40}, as its header says, which is not known; convert it with "
            "msgconv --to-code=UTF-8"
        )

    try:
        return decode_bytes(raw, codec), codec
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ValueError(
            f"{path}:{line}: byte 0x{raw[error.start]:02X} is not {charset}, the encoding of the file by its header; "
            "correct the header or convert the file with msgconv"
        ) from None


def encode_po(units: Iterable[Unit], sides: Sides, skip: Skip) -> Iterator[bytes]:
    """Yield the bytes of a message catalogue with these pairs, each in a context of its own: its number."""
    languages = sides.languages
    language = f'"Language: {languages[1]}\\n"\n' if languages else ""
    yield (
        'msgid ""\nmsgstr ""\n"MIME-Version: 1.0\\n"\n"Content-Type: text/plain; charset=UTF-8\\n"\n'
        f'"Content-Transfer-Encoding: 8bit\\n"\n{language}'
    ).encode()

    # A catalogue has each message once in a context, a corpus may have a sentence many times.
    for number, unit in enumerate(units, start=1):
        source, target = unit.source.translate(PO_ESCAPES), unit.target.translate(PO_ESCAPES)
        yield f'\nmsgctxt "{number}"\nmsgid "{source}"\nmsgstr "{target}"\n'.encode()
