"""Takes plain text apart into its lines, and knows the encodings of text without markup."""

import codecs
import re

from pellucid.localize.documents.document import Document
from pellucid.localize.documents.reading import DocumentReading
from pellucid.localize.documents.slots import Part, Parts, TextSlot, join_markup

LINE = re.compile(r"[^\n]*\n|[^\n]+")


def read_plain_text(name: str, content: bytes, reading: DocumentReading) -> Document:
    """Read plain text, line by line."""
    text, encoding = decode_text(name, content)
    return Document([split_text(text)], lambda bodies: bodies[0].encode(encoding), reading)


def decode_text(name: str, content: bytes) -> tuple[str, str]:
    """Return a text in UTF-8, or in UTF-16 with a byte order mark, and its encoding; ValueError for any other."""
    encoding = "utf-8"
    if content.startswith(codecs.BOM_UTF16_LE):
        encoding = "utf-16-le"
    elif content.startswith(codecs.BOM_UTF16_BE):
        encoding = "utf-16-be"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ValueError(
            f"{name}:{line}: byte 0x{content[error.start]:02X} is not {encoding.upper()}; convert the file, such "
            "as with iconv -f WINDOWS-1252 -t UTF-8"
        ) from None
    if "\0" in text:
        raise ValueError(f"{name} has a NUL, which no text has; is it a binary file?")
    return text, encoding


def split_text(text: str) -> Parts:
    """Take a text apart into its lines, each a slot, and the white space around them."""
    parts: list[Part] = []
    for line in LINE.findall(text):
        if content := line.strip("\ufeff \t\r\n"):
            before, _, after = line.partition(content)
            parts += [before, TextSlot(content), after]
        else:
            parts.append(line)
    return join_markup(parts)
