"""Reads and writes message catalogues (PO): a message and its translation, or one for each form of its plural."""

import codecs
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from pellucid.data.encodings import decode_bytes, find_codec
from pellucid.data.formats.units import Sides, Skip, Unit, matches_language
from pellucid.data.lines import DAMAGES, describe_damage, open_decompressed

# The most bytes of a catalogue, which is read as a whole; the largest of well-known programs have a tenth of that.
LARGEST_CATALOGUE = 64 * 2**20

_CHARSET = re.compile(rb'Content-Type:[^"\n]{0,200}?charset\s*=\s*([\w-]+)', re.IGNORECASE)

# A line with text, of which polib would lose a part where its last quote is missing.
_LINE = re.compile(r'(?:#~)?\s*(?:msg\w+(?:\[\d+\])?\s*)?"(?:[^"\\]|\\.)*"\s*')
# What the characters that stand for something else in a string of a catalogue are written as.
PO_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\t": "\\t", "\r": "\\r", "\v": "\\v", "\f": "\\f", "\b": "\\b"})


def read_po(path: str, sides: Sides) -> Iterator[Unit]:
    """Yield the messages of a catalogue, each form of a plural as one, without their contexts.

    The language of the translations is that of its header; `sides` may ask for the other direction. Raises ValueError
    for a catalogue that is not well-formed, not in the encoding that it names, or too large.
    """
    entries, language = _parse_catalogue(path)
    exchanged = False
    if language:
        fits = sides.target is None or matches_language(sides.target, language)
        exchanged = not fits and sides.source is not None and matches_language(sides.source, language)
        if not fits and not exchanged:
            raise ValueError(f"{path} is translated into {language}, as its header says, not {sides.target}")
    if language and sides.source is None and sides.target is None:
        sides.said_by = f"the header of {Path(path).name}"
    if exchanged:
        sides.source = language
    elif language:
        sides.target = language
    number = 0
    for entry in entries:
        # The first form of the translation is the singular; the others translate the plural.
        forms = [(entry.msgid, entry.msgstr)]
        if entry.msgid_plural:
            texts = [entry.msgstr_plural[form] for form in sorted(entry.msgstr_plural)]
            singular = [entry.msgid] if len(texts) > 1 else []
            forms = list(zip([*singular, *[entry.msgid_plural] * (len(texts) - len(singular))], texts, strict=True))
        for message, translation in forms:
            number += 1
            problem = "an obsolete translation" if entry.obsolete else "a fuzzy translation" if entry.fuzzy else None
            if problem is None and not translation:
                problem = "no translation"
            pair = (translation, message) if exchanged else (message, translation)
            yield Unit(number, *pair, entry.linenum or None, problem)


def _parse_catalogue(path: str) -> tuple[list, str]:
    """Return the entries of a catalogue and the language in its header, "" for none."""
    try:
        import polib
    except ModuleNotFoundError:
        raise ValueError(f"{path}: reading PO needs the package polib: pip install 'pellucid[po]'") from None
    try:
        with open_decompressed(path) as stream:
            raw = stream.read(LARGEST_CATALOGUE + 1)
    except DAMAGES as error:
        raise ValueError(f"{path}: {describe_damage(error)}") from None
    if len(raw) > LARGEST_CATALOGUE:
        raise ValueError(f"{path} has more than {LARGEST_CATALOGUE:,} bytes; split it, for example with msggrep")
    text, _ = decode_catalogue(path, raw.removeprefix(codecs.BOM_UTF8))
    if "\0" in text:
        raise ValueError(f"{path}: a NUL byte; a text file has none, so is this UTF-16 or a binary file?")
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.strip()
        if line and (line[0] != "#" or line[:2] == "#~") and '"' in line and not _LINE.fullmatch(line):
            raise ValueError(f"{path}:{number}: not a message catalogue (PO): the quotes of this line do not fit")
    # polib splits a text, but not a file, at characters that are no line ends; so it gets a file.
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "catalogue.po"
        copy.write_text(text, encoding="utf-8")
        try:
            catalogue = polib.pofile(str(copy), encoding="utf-8", wrapwidth=0)
        except (OSError, ValueError, IndexError) as error:
            line = re.search(r"\(line (\d+)\)(?:: (.+))?", str(error))
            where = f"{path}:{line[1]}" if line else path
            reason = (line and line[2]) or "this line fits no entry"
            raise ValueError(f"{where}: not a message catalogue (PO): {reason}") from None
    return list(catalogue), catalogue.metadata.get("Language", "").strip()


def decode_catalogue(path: str, raw: bytes, otherwise: str = "UTF-8") -> tuple[str, str]:
    """Return the text of a catalogue and its encoding: the one that its header names, `otherwise` where it names none.

    Raises ValueError for an encoding that is not known, and, naming the line, for bytes that are not in it.
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
