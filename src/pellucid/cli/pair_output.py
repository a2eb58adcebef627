"""Output of pairs: one file in a format of pairs or two files of sentences, compressed by their endings."""

import bz2
import lzma
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pellucid.store.atomic import atomic_file

if TYPE_CHECKING:
    from pellucid.data.corpus import SkippedPairs
    from pellucid.data.formats import PairFormat
    from pellucid.data.formats.units import Sides, Unit

Write = Callable[[bytes], object]

_COMPRESSORS = {
    ".gz": lambda: zlib.compressobj(wbits=31),  # with the header and the checksum of gzip
    ".xz": lzma.LZMACompressor,
    ".bz2": bz2.BZ2Compressor,
}


class KeptUnits:
    """Units that are written, counted after their format had its turn and did not skip them."""

    def __init__(
        self,
        units: Iterable["Unit"],
        file: str,
        skipped: "SkippedPairs",
        account: Callable[[str], object] | None,
    ) -> None:
        self.units, self.file, self.skipped, self.account = units, file, skipped, account
        self.kept = 0
        self.unfit: int | None = None

    def __iter__(self) -> Iterator["Unit"]:
        for unit in self.units:
            yield unit
            if unit.number != self.unfit:
                self.kept += 1
                if self.account:
                    self.account(f"kept\t{self._describe_place(unit)}\n")

    def skip(self, unit: "Unit", reason: str) -> None:
        """Count a unit whose text the format cannot hold."""
        self.unfit = unit.number
        self.skipped.add(reason, self._describe_place(unit))

    def _describe_place(self, unit: "Unit") -> str:
        from pellucid.data.corpus import describe_place

        return describe_place(self.file, unit.number, unit.line)


def must_exchange_files(inputs: list[str], outputs: list[str], sides: "Sides") -> bool:
    """Whether the targets go into the first of two files, whose names bear languages, and the sources into the second.

    Raises ValueError for a file whose name bears another language than these two.
    """
    from pellucid.data.formats.units import is_code, language_of_file, may_match
    from pellucid.data.languages import describe_language

    held = [side if side and is_code(side) else None for side in (sides.source, sides.target)]
    borne = [language_of_file(name) for name in outputs]

    def fits(languages: list[str | None]) -> bool:
        for language, name in zip(languages, borne, strict=True):
            if language is not None and name is not None and not may_match(language, name):
                return False
        return True

    if fits(held) or fits(held[::-1]):
        return not fits(held)

    texts = [describe_language(language) if language else "a language without a name" for language in held]
    names = []
    for name, language in zip(outputs, borne, strict=True):
        if language:
            names.append(f"{name} is {describe_language(language)} by its name")
        else:
            names.append(f"{name} names no language")

    gives = "gives" if len(inputs) == 1 else "give"
    raise ValueError(
        f"{' and '.join(names)}, but {' and '.join(inputs)} {gives} {' and '.join(texts)}; name the files after the "
        "languages that go into them"
    )


def find_output_format(name: str, sides: "Sides", source: str) -> "PairFormat | None":
    """Return the format to write, None for plain text; ValueError for one that cannot be written."""
    from pellucid.data.formats import find_pair_format

    output_format = find_pair_format("-.tsv" if name == "-" else name)
    if output_format is None:
        return None
    if output_format.encode is None:
        raise ValueError(f"{name} is {output_format.name}, which is only read; choose .tmx, .csv, .tsv or .jsonl")
    if output_format.needs_languages and sides.languages is None:
        raise ValueError(
            f"{name} must name its languages, and {source} does not tell them: add --from and --to with their codes, "
            "or write two files first whose names end in the codes, such as train.en and train.de"
        )
    return output_format


def write_lines_of_both(units: Iterable["Unit"], writes: list[Write]) -> None:
    """Write the sources of pairs by one function and the targets by another, a line each."""
    for number, unit in enumerate(units):
        for write, text in zip(writes, (unit.source, unit.target), strict=True):
            # A byte order mark would be dropped from the beginning of a file; of two, the text's own stays.
            mark = "\ufeff" if number == 0 and text.startswith("\ufeff") else ""
            write(f"{mark}{text}\n".encode())


@contextmanager
def open_compressed(name: str) -> Iterator[Write]:
    """Yield a function that writes bytes to a file, which appears once all is written, compressed by its ending."""
    if name == "-":
        yield sys.stdout.buffer.write
        sys.stdout.buffer.flush()  # what could not be written is told before the pairs are called kept
        return

    with atomic_file(name) as write:
        begin = _COMPRESSORS.get(Path(name).suffix.lower())
        if begin is None:
            yield write
            return
        compressor = begin()
        yield lambda content: write(compressor.compress(content))
        write(compressor.flush())
