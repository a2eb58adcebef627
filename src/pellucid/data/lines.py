"""Reads lines of UTF-8 text from plain and compressed files; a line ends at "\\n" or "\\r\\n" and nowhere else."""

import bz2
import codecs
import gzip
import lzma
import os
import re
import stat
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Any, cast

# The most bytes of a line, so that a file without line ends cannot fill the memory.
LONGEST_LINE = 64 * 2**20
# The number of bytes read at a time, followed by the rest of the line
# that they end in, which is the fastest size.
_BLOCK = 2**16


# Endings of names of compressed files, behind the ending of the format.
COMPRESSED = (".gz", ".xz", ".bz2")
# Bytes that unpacking xz may take; its strongest setting takes 65 MB, and a file may ask for 4 GB.
_MOST_DICTIONARY = 256 * 2**20


def strip_compression(path: str | Path) -> str:
    """Return a path without the ending of a compressed file.

    >>> strip_compression("mine.TSV.gz"), strip_compression("mine.en")
    ('mine.TSV', 'mine.en')
    """
    return re.sub(f"({'|'.join(map(re.escape, COMPRESSED))})$", "", str(path), flags=re.IGNORECASE)


def is_read_once(path: str | Path) -> bool:
    """Whether what a path names can be read only once: standard input ("-"), a pipe, a socket or a device."""
    if str(path) == "-":
        return True
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISCHR(mode)


def refuse_read_once(path: str | Path | None, reason: str) -> None:
    """Raise ValueError, with the reason and what to do, for a path whose text can be read only once."""
    if path is not None and is_read_once(path):
        name = "standard input" if str(path) == "-" else f"{path} is a pipe or a device, which"
        raise ValueError(
            f"{name} can be read only once, and {reason}; write the text into a file and name that (a .gz file is "
            "read as it is)"
        )


@contextmanager
def open_decompressed(path: str | Path) -> Iterator[BufferedReader | gzip.GzipFile]:
    """Open a file for reading its bytes, decompressed (`decompress`); "-" is standard input."""
    with nullcontext(sys.stdin.buffer) if str(path) == "-" else Path(path).open("rb") as opened:
        yield decompress(cast(BufferedReader, opened))


def decompress(stream: BufferedReader) -> BufferedReader | gzip.GzipFile:
    """Return a stream of the bytes inside a stream that begins as gzip, xz or bzip2 does, or the stream itself."""
    # peek and not read: standard input cannot be rewound.
    start = stream.peek(10)
    if start.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=stream)
    if start.startswith(b"\xfd7zXZ\0"):
        make_decompressor = partial(lzma.LZMADecompressor, memlimit=_MOST_DICTIONARY)
        return BufferedReader(_Unpacked(stream, make_decompressor))
    if re.match(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)", start):
        return BufferedReader(_Unpacked(stream, bz2.BZ2Decompressor))
    return stream


class _Unpacked(RawIOBase):
    """Bytes of one or more xz or bzip2 streams, unpacked as they are read; `lzma.LZMAFile` has no bound of memory."""

    def __init__(self, packed: BufferedReader, begin: Callable[[], Any]) -> None:
        self.packed, self.begin, self.unpacker = packed, begin, begin()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = b""
        while not content:
            rest = b""
            if self.unpacker.eof:
                # Zeros may fill up the end of an xz stream.
                rest = (self.unpacker.unused_data or self.packed.read(_BLOCK)).lstrip(b"\0")
                if not rest:
                    return 0
                self.unpacker = self.begin()
            elif self.unpacker.needs_input and not (rest := self.packed.read(_BLOCK)):
                raise EOFError("it ends too early")

            try:
                content = self.unpacker.decompress(rest, len(buffer))
            except OSError as error:  # raised by bzip2 for damaged data, and no error of the disk
                raise lzma.LZMAError(str(error)) from None

        buffer[: len(content)] = content
        return len(content)


# Errors of reading compressed bytes that are damaged or cut short.
DAMAGES = (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile, lzma.LZMAError)


def describe_damage(error: Exception, archive: str = "compressed file") -> str:
    """Return what to say of compressed bytes that are damaged or cut short."""
    return f"the {archive} is damaged or cut short ({error}); fetch it again"


def read_lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of one UTF-8 file, plain or compressed (`open_decompressed`); "-" is standard input.

    A byte order mark at the start is dropped. Raises ValueError naming file and line for bytes
    that are not UTF-8, for NUL, for a line of more than 64 MiB and for a damaged compressed
    file; OSError for a file that cannot be opened.
    """
    with open_decompressed(path) as stream:
        yield from split_stream(stream, str(path))


def split_stream(stream: Any, name: str, archive: str = "compressed file") -> Iterator[str]:
    """Yield the lines of a stream of bytes, which messages call `name`; it refuses what `read_lines` refuses."""
    number = 1
    while True:
        try:
            raw = stream.read1(_BLOCK)
            # A block of whole lines; one byte more than allowed is
            # enough to see that a line is too long.
            if raw and not raw.endswith(b"\n"):
                raw += stream.readline(LONGEST_LINE + 1)
        except DAMAGES as error:
            raise ValueError(f"{name}:{number}: {describe_damage(error, archive)}") from None

        if number == 1:
            raw = raw.removeprefix(codecs.BOM_UTF8)
        if not raw:
            return
        for line in _split_block(raw, name, number):
            yield line
            number += 1


def _split_block(raw: bytes, file: str, first: int) -> Iterable[str]:
    """Return the lines of a block that ends where a line ends."""
    # Nothing odd in the whole block: decode it at once, which is fastest.
    if len(raw) <= LONGEST_LINE and b"\0" not in raw and b"\r" not in raw:
        with suppress(UnicodeDecodeError):
            return raw.decode().removesuffix("\n").split("\n")
    # Otherwise line by line, so that an error names the line.
    *lines, last = raw.split(b"\n")
    ended = [line + b"\n" for line in lines] + ([last] if last else [])
    return (_decode_line(line, file, number) for number, line in enumerate(ended, start=first))


def _decode_line(raw: bytes, file: str, line: int) -> str:
    if len(raw) > LONGEST_LINE:
        raise ValueError(
            f"{file}:{line}: a line of more than {LONGEST_LINE:,} bytes; is this one sentence per line?"
        )

    # UTF-16 and archives have NUL bytes, too, but there is better advice for them.
    if line == 1 and raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        # The mark of UTF-32 begins with the mark of UTF-16.
        kind = "UTF-32" if raw.startswith(codecs.BOM_UTF32_LE) else "UTF-16"
        raise ValueError(
            f"{file}:{line}: the file is {kind}, not UTF-8; convert it: iconv -f {kind} -t UTF-8"
        )

    if line == 1 and raw.startswith(b"PK\x03\x04"):
        raise ValueError(
            f"{file} is an archive or an office document (ZIP); unpack it, or save it as plain text"
        )

    if line == 1 and raw[257:262] == b"ustar":
        raise ValueError(f"{file} is an archive (TAR); unpack it: tar xf {file}")
    if b"\0" in raw:
        raise ValueError(
            f"{file}:{line}: a NUL byte; a text file has none, so is this UTF-16 or a binary file?"
        )

    if raw.endswith(b"\n"):
        raw = raw[:-1].removesuffix(b"\r")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        # Up to the bad byte the line is valid, so the column can be counted in characters.
        column = len(raw[: error.start].decode()) + 1
        byte = raw[error.start : error.start + 1]
        guess = byte.decode("cp1252", "replace")
        raise ValueError(
            f"{file}:{line}:{column}: byte 0x{byte.hex().upper()} is not UTF-8 (Windows-1252 would read {guess!r}); "
            "if that is what it is, convert the file: iconv -f WINDOWS-1252 -t UTF-8"
        ) from None
