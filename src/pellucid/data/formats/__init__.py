"""Formats of files that hold pairs, found by the ending of the name; each has a reader, and most a writer."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pellucid.data.formats.moses import read_moses_zip
from pellucid.data.formats.objects import encode_json, encode_jsonl, read_json_array, read_jsonl
from pellucid.data.formats.parquet import encode_parquet, read_parquet
from pellucid.data.formats.po import encode_po, read_po
from pellucid.data.formats.tables import encode_csv, encode_tsv, read_csv, read_tsv
from pellucid.data.formats.tbx import encode_tbx, read_tbx
from pellucid.data.formats.tmx import encode_tmx, read_tmx
from pellucid.data.formats.units import Sides, Skip, Unit
from pellucid.data.formats.xliff import encode_xliff, read_xliff
from pellucid.data.formats.xlsx import read_xlsx
from pellucid.data.lines import strip_compression

Read = Callable[[str, Sides], Iterator[Unit]]
Encode = Callable[[Iterable[Unit], Sides, Skip], Iterator[bytes]]


@dataclass(frozen=True)
class PairFormat:
    """A format of files that hold pairs."""

    name: str
    endings: tuple[str, ...]
    read: Read
    encode: Encode | None = None
    by_line: bool = True
    """Whether the number of a unit is its line's number; otherwise units are counted, or rows."""
    needs_languages: bool = False
    """Whether a file of this format must name its languages."""
    is_archive: bool = False
    """Whether reading begins at the end of the file, so that it cannot come through a pipe."""


PAIR_FORMATS = (
    PairFormat("tab-separated pairs (TSV)", ("tsv",), read_tsv, encode_tsv),
    PairFormat("objects with pairs (JSONL)", ("jsonl",), read_jsonl, encode_jsonl),
    PairFormat(
        "a translation memory (TMX)",
        ("tmx",),
        read_tmx,
        encode_tmx,
        by_line=False,
        needs_languages=True,
    ),
    PairFormat(
        "a file of segments (XLIFF)",
        ("xliff", "xlf", "sdlxliff", "mxliff", "mqxliff"),
        read_xliff,
        encode_xliff,
        by_line=False,
        needs_languages=True,
    ),
    PairFormat(
        "a term base (TBX)", ("tbx",), read_tbx, encode_tbx, by_line=False, needs_languages=True
    ),
    PairFormat("a message catalogue (PO)", ("po",), read_po, encode_po, by_line=False),
    PairFormat("a table (CSV)", ("csv",), read_csv, encode_csv),
    PairFormat(
        "an array of objects (JSON)", ("json",), read_json_array, encode_json, by_line=False
    ),
    PairFormat("a workbook of Excel (XLSX)", ("xlsx", "xlsm"), read_xlsx, is_archive=True),
    PairFormat("an archive of two files (ZIP)", ("zip",), read_moses_zip, is_archive=True),
    PairFormat(
        "a data set (Parquet)",
        ("parquet",),
        read_parquet,
        encode_parquet,
        by_line=False,
        is_archive=True,
    ),
)
"""Every format of pairs, by the endings of its files; all but XLSX, ZIP and Parquet may be compressed."""

_FIRST_ENDINGS = [f".{pair_format.endings[0]}" for pair_format in PAIR_FORMATS]
PAIR_ENDINGS = f"{', '.join(_FIRST_ENDINGS[:-1])} or {_FIRST_ENDINGS[-1]}"
"""The endings of files of pairs, one of each format, as a message lists them."""


def find_pair_format(path: str | Path) -> PairFormat | None:
    """Return the format of pairs that a file has by the ending of its name, or None; for "-" there is none.

    >>> find_pair_format("memory.TMX.gz").name, find_pair_format("mine.en")
    ('a translation memory (TMX)', None)
    """
    name = str(path).lower()
    ending = Path(strip_compression(name)).suffix.removeprefix(".")
    for pair_format in PAIR_FORMATS:
        if ending in pair_format.endings:
            return pair_format
    return None
