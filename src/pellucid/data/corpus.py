"""Sentence pairs from plain, TSV, JSONL and gzip-compressed files, with every line accounted for.

A line ends at "\\n" or "\\r\\n" and nowhere else. Whatever breaks that contract raises ValueError with file and line;
a pair with an empty or an over-long side is skipped, counted and named. No line ever moves to another's place.
"""

import codecs
import gzip
import hashlib
import json
import re
import sys
import zlib
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from io import BufferedReader
from itertools import chain, zip_longest
from pathlib import Path
from typing import cast

LONGEST_LINE = 64 * 2**20
"""Bytes after which a line is refused, so that a file without line ends cannot fill the memory."""

_BLOCK = 2**16
"""Bytes read at a time, and then the rest of the line they end in: as many lines at once are checked fastest."""

_EXAMPLES = 5
"""Skipped pairs that are named one by one."""

_FALSE_LINE_ENDS = re.compile("[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
"""What Python's `splitlines` and some editors take for line ends; here it is text like any other."""


@dataclass
class Skipped:
    """How many pairs were left out for which reason, and where the first of them stand."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def add(self, reason: str, where: str) -> None:
        self.counts[reason] += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append(f"{where} {reason}")

    def merge(self, later: "Skipped") -> None:
        """Count what was left out after this, too."""
        self.counts.update(later.counts)
        self.examples.extend(later.examples[: _EXAMPLES - len(self.examples)])

    def __bool__(self) -> bool:
        return bool(self.counts)

    def __str__(self) -> str:
        """For example: 2 pairs skipped: 2 with empty source (train.en:7 empty source, train.en:31 empty source)."""
        reasons = ", ".join(f"{count:,} with {reason}" for reason, count in self.counts.most_common())
        first = ", ".join(self.examples) + (", ..." if self.counts.total() > len(self.examples) else "")
        return f"{self.counts.total():,} pairs skipped: {reasons} ({first})" if self else "no pairs skipped"


@dataclass(frozen=True)
class Pairs:
    """Sentence i of `sources` is translated by sentence i of `targets`; it stood in line `lines[i]` of its file."""

    sources: list[str]
    targets: list[str]
    lines: Sequence[int]
    files: tuple[str, str]
    skipped: Skipped

    @classmethod
    def of(cls, sources: list[str], targets: list[str], name: str = "pair") -> "Pairs":
        """Pairs that come from no file."""
        if len(sources) != len(targets):
            raise ValueError(f"{len(sources):,} source and {len(targets):,} target sentences do not make pairs")
        return cls(sources, targets, range(1, len(sources) + 1), (name, name), Skipped())

    def __len__(self) -> int:
        return len(self.sources)

    def where(self, i: int, side: str) -> str:
        """The place of pair i, as FILE:LINE; `side` is "source" or "target"."""
        return f"{self.files[side == 'target']}:{self.lines[i]}"


def read_pairs(source: str | Path, target: str | Path | None = None, *, max_characters: int) -> Pairs:
    """Pairs from two plain files, or from one file: TSV with two columns, or JSONL with "source" and "target".

    One file is JSONL if its name says so (.jsonl, .jsonl.gz) and TSV if it says .tsv or is "-", standard input. A pair
    is skipped when a side is empty (white space only) or has more than `max_characters`. Raises ValueError for
    unequal line counts, for whatever `read_lines` refuses, for rows of another form, and when no pair is left.
    """
    sources, targets, lines, skipped = [], [], array("q"), Skipped()
    for line, left, right in sound_pairs(source, target, max_characters, skipped):
        sources.append(left)
        targets.append(right)
        lines.append(line)
    return Pairs(sources, targets, lines, files_of(source, target), skipped)


def sound_pairs(
    source: str | Path, target: str | Path | None, max_characters: int, skipped: Skipped
) -> Iterator[tuple[int, str, str]]:
    """What `read_pairs` keeps, one at a time: line number, source, target; what it leaves out is added to `skipped`."""
    files, kept = files_of(source, target), 0
    rows = _one_file(source) if target is None else _two_files(source, target)
    for line, (left, right) in enumerate(rows, start=1):
        for file, side, text in ((files[0], "source", left), (files[1], "target", right)):
            if not text or text.isspace():
                skipped.add(f"empty {side}", f"{file}:{line}")
                break
            if len(text) > max_characters:
                skipped.add(f"{side} of more than {max_characters:,} characters", f"{file}:{line}")
                break
        else:
            kept += 1
            yield line, left, right
    if not kept:
        names = " and ".join(dict.fromkeys(files))
        raise ValueError(f"no sentence pair in {names}: {skipped if skipped else 'there is no line in it'}")


def files_of(source: str | Path, target: str | Path | None) -> tuple[str, str]:
    """The file of each side, which may be the same."""
    return str(source), str(source if target is None else target)


def read_lines(path: str | Path) -> Iterator[str]:
    """The lines of one UTF-8 file, plain or gzip (told by its first bytes), one at a time; "-" is standard input.

    A byte order mark at the start is dropped. Raises ValueError naming file and line for bytes that are not UTF-8,
    for NUL, for a line of more than 64 MiB and for a damaged gzip file; OSError for a file that cannot be opened.
    """
    number = 1
    with nullcontext(sys.stdin.buffer) if str(path) == "-" else Path(path).open("rb") as stream:
        start = cast(BufferedReader, stream).peek(2)
        text = gzip.GzipFile(fileobj=stream) if start.startswith(b"\x1f\x8b") else cast(BufferedReader, stream)
        while True:
            try:
                raw = text.read1(_BLOCK)
                if raw and not raw.endswith(b"\n"):
                    raw += text.readline(LONGEST_LINE + 1)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise ValueError(
                    f"{path}:{number}: the gzip file is damaged or cut short ({error}); fetch it again"
                ) from None
            if number == 1:
                raw = raw.removeprefix(codecs.BOM_UTF8)
            if not raw:
                return
            for line in _lines_in(raw, str(path), number):
                yield line
                number += 1


def fingerprint(pairs: Pairs) -> str:
    """SHA-256 of the sentences in their order: the same text gives the same number, whatever file it came from."""
    digest = hashlib.sha256()
    for source, target in zip(pairs.sources, pairs.targets, strict=True):
        digest.update(f"{source}\n{target}\n".encode())
    return digest.hexdigest()


def _lines_in(raw: bytes, file: str, first: int) -> Iterable[str]:
    """The lines of a block of whole lines: at once where nothing is odd, else one by one, to name the first that is."""
    if len(raw) <= LONGEST_LINE and b"\0" not in raw and b"\r" not in raw:
        with suppress(UnicodeDecodeError):
            return raw.decode().removesuffix("\n").split("\n")
    *lines, last = raw.split(b"\n")
    ended = [line + b"\n" for line in lines] + ([last] if last else [])
    return (_decoded(line, file, number) for number, line in enumerate(ended, start=first))


def _decoded(raw: bytes, file: str, line: int) -> str:
    if len(raw) > LONGEST_LINE:
        raise ValueError(f"{file}:{line}: a line of more than {LONGEST_LINE:,} bytes; is this one sentence per line?")
    if line == 1 and raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        kind = "UTF-32" if raw.startswith(codecs.BOM_UTF32_LE) else "UTF-16"
        raise ValueError(f"{file}:{line}: the file is {kind}, not UTF-8; convert it: iconv -f {kind} -t UTF-8")
    if b"\0" in raw:
        raise ValueError(f"{file}:{line}: a NUL byte; a text file has none, so is this UTF-16 or a binary file?")
    if raw.endswith(b"\n"):
        raw = raw[:-1].removesuffix(b"\r")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        column = len(raw[: error.start].decode()) + 1
        byte = raw[error.start : error.start + 1]
        guess = byte.decode("cp1252", "replace")
        raise ValueError(
            f"{file}:{line}:{column}: byte 0x{byte.hex().upper()} is not UTF-8 (Windows-1252 would read {guess!r}); "
            "if that is what it is, convert the file: iconv -f WINDOWS-1252 -t UTF-8"
        ) from None


def _one_file(path: str | Path) -> Iterator[tuple[str, str]]:
    kind = str(path).lower().removesuffix(".gz")
    if kind.endswith(".jsonl"):
        return _jsonl(path)
    if kind.endswith(".tsv") or kind == "-":
        return _tsv(path)
    raise ValueError(
        f"{path} is one file, so it must be .tsv or .jsonl (or .gz of these); give two files for plain text"
    )


def _tsv(path: str | Path) -> Iterator[tuple[str, str]]:
    """Two columns with one tab between them. Quotes are text: sentences may begin or end inside a quotation."""
    for line, row in enumerate(read_lines(path), start=1):
        columns = row.split("\t")
        if len(columns) != 2:
            raise ValueError(f"{path}:{line}: {len(columns)} columns, expected 2: source, one tab, target")
        yield columns[0], columns[1]


def _jsonl(path: str | Path) -> Iterator[tuple[str, str]]:
    for line, row in enumerate(read_lines(path), start=1):
        try:
            pair = json.loads(row)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}:{line}: not JSON: {error}") from None
        left, right = (pair.get("source"), pair.get("target")) if isinstance(pair, dict) else (None, None)
        if not isinstance(left, str) or not isinstance(right, str):
            raise ValueError(f'{path}:{line}: expected an object with texts, {{"source": "...", "target": "..."}}')
        if bad := re.search("[\n\0\ud800-\udfff]", left + right):
            raise ValueError(f"{path}:{line}: U+{ord(bad[0]):04X} inside a sentence; a sentence is one line of text")
        yield left, right


def _two_files(source: str | Path, target: str | Path) -> Iterator[tuple[str, str]]:
    if str(source) == str(target) == "-":
        raise ValueError("source and target cannot both be standard input; give two files, or '-' alone for TSV")
    sides = read_lines(source), read_lines(target)
    for line, (left, right) in enumerate(zip_longest(*sides), start=1):
        if left is None or right is None:
            longer = line + sum(1 for _ in chain(*sides))
            counts = (line - 1, longer) if left is None else (longer, line - 1)
            raise ValueError(
                f"{source} has {counts[0]:,} lines and {target} has {counts[1]:,}: line n of one must translate line n "
                f"of the other, so nothing was read. {_where_to_look(source, target)}"
            )
        yield left, right


def _where_to_look(source: str | Path, target: str | Path) -> str:
    """The first line that another program may have split or joined."""
    for path in (Path(source), Path(target)):
        for line, text in enumerate(read_lines(path) if path.is_file() else (), start=1):
            if found := _FALSE_LINE_ENDS.search(text):
                return f"Look at {path}:{line}: it has U+{ord(found[0]):04X}, which some programs take for a line end."
            if not text.strip():
                return f"Look at {path}:{line}: it is empty, and some programs drop empty lines."
    return "Compare the last pairs of both files, then halve your way to the first that does not match."
