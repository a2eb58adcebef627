"""Takes message catalogues (PO) apart, in which a translation stands below its message."""

import re
from collections.abc import Sequence
from functools import partial

from pellucid.data.formats.po import PO_ESCAPES, decode_catalogue
from pellucid.documents.document import Document
from pellucid.documents.reading import DocumentReading
from pellucid.documents.slots import Part, Parts, TextSlot, join_markup


def read_catalogue(name: str, content: bytes, reading: DocumentReading) -> Document:
    """Read a message catalogue."""
    text, encoding = decode_catalogue(name, content, "utf-8")

    def write(bodies: list[str]) -> bytes:
        try:
            return bodies[0].encode(encoding)
        except UnicodeEncodeError as error:
            raise ValueError(
                f"{name} is in {encoding}, which has no {error.object[error.start]!r}; convert it with "
                "msgconv --to-code=UTF-8"
            ) from None

    return Document([split_po(name, text, reading)], write, reading)


_PO_STRING = re.compile(
    r'[ \t]*(?:(msgctxt|msgid_plural|msgid|msgstr)(?:\[(\d+)\])?[ \t]+)?"((?:[^"\\]|\\.)*+)"[ \t]*\r?\n?'
)
_PO_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_PO_CHARACTERS = {"n": "\n", "t": "\t", "r": "\r", "v": "\v", "f": "\f", "b": "\b", "a": "\a"}


def split_po(name: str, text: str, reading: DocumentReading) -> Parts:
    """Take a message catalogue apart, with a slot for each message without a translation, which is marked as fuzzy.

    Raises ValueError for a line that fits no entry.
    """
    parts: list[Part] = []
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
    out: list[Part] = []
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
