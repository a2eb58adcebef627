"""`pellucid convert`: converts pairs from one format into another, with an account of every pair."""

import bz2
import lzma
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pellucid.cli.files import open_output
from pellucid.cli.options import SOURCE_LANGUAGE, TARGET_LANGUAGE, argument, file_option
from pellucid.store.atomic import atomic_file

if TYPE_CHECKING:
    from pellucid.data.corpus import SkippedPairs
    from pellucid.data.formats import PairFormat
    from pellucid.data.formats.units import Sides, Unit

CONVERT_EXAMPLES = """\
  pellucid convert memory.tmx train.en train.de
  pellucid convert memory.tmx pairs.jsonl --from en --to de --places account.tsv
  pellucid convert train.en.gz train.de.gz memory.tmx
  pellucid convert table.csv pairs.tsv --from "Source text" --to "Translation (de)"
  pellucid convert Books.de-en.zip - --from en --to de | shuf > shuffled.tsv"""

Write = Callable[[bytes], object]

_COMPRESSORS = {
    ".gz": lambda: zlib.compressobj(wbits=31),  # with the header and the checksum of gzip
    ".xz": lzma.LZMACompressor,
    ".bz2": bz2.BZ2Compressor,
}


def run_convert(
    files: Annotated[
        list[str],
        argument(
            "IN OUT",
            "a file of pairs, or a source and a target, a sentence a line; then the same again, to write",
        ),
    ],
    source_language: Annotated[str | None, SOURCE_LANGUAGE] = None,
    target_language: Annotated[str | None, TARGET_LANGUAGE] = None,
    places: Annotated[
        str | None,
        file_option("also write a line for each pair: kept, or why not, a tab, and its place in IN"),
    ] = None,
) -> None:
    """Convert pairs from one format into another.

    The ending of a name tells the format: .tmx (translation memory), .xlf and .xliff (XLIFF 1.2 or
    2; 1.2 is written), .po, .csv, .tsv, .jsonl (with "source" and "target", or "translation" as
    Hugging Face has it), .json (an array of such objects), .parquet, and, to read only, .xlsx (the
    first sheet), .zip (two files NAME.en and NAME.de, as OPUS packs them) and Tatoeba's exports
    (.tsv). Any other ending is plain text, and each language goes into the file that bears its
    name: train.es, train.es.txt. All but .xlsx, .zip and .parquet may be compressed: .gz, .xz or
    .bz2 behind the ending. - is TSV on standard input or output.

    What holds no translation is left out and counted, with the first places; inline codes of other
    programs (tags) are removed from the text, and line feeds inside a sentence become spaces. Files
    appear when they are complete.
    """
    from pellucid.data.corpus import SkippedPairs, read_valid_units

    inputs, outputs = _split_names(files)
    sides = _choose_input_sides(inputs, outputs, source_language, target_language)
    with ExitStack() as opened:
        account = opened.enter_context(open_output(places))
        skipped = SkippedPairs(tell=(lambda reason, place: account(f"{reason}\t{place}\n")) if account else None)
        source, target = inputs[0], inputs[1] if len(inputs) == 2 else None
        units = _KeptUnits(
            read_valid_units(source, target, sys.maxsize, skipped, sides),
            source,
            skipped,
            account,
        )
        # The languages are known, and most faults of a file,
        # once the first pair was read: before a file is opened.
        rows = iter(units)
        rows = chain([next(rows)], rows)
        formats = [_find_output_format(name, sides, source) for name in outputs]
        exchanged = len(outputs) == 2 and _must_exchange_files(inputs, outputs, sides)
        writes = [opened.enter_context(_open_compressed(name)) for name in outputs]
        if formats[0] is None or formats[0].encode is None:
            _write_lines_of_both(rows, writes[::-1] if exchanged else writes)
        else:
            for content in formats[0].encode(rows, sides, units.skip):
                writes[0](content)
        if not units.kept:
            raise ValueError(f"{outputs[0]} can hold none of the pairs: {skipped}")

    names = " and ".join("standard input" if name == "-" else name for name in inputs)
    direction = f" ({sides.source} to {sides.target})" if sides.source and sides.target else ""
    typer.echo(f"{names}{direction}: {units.kept:,} pairs kept, {skipped}", err=True)
    if skipped.joined:
        typer.echo(skipped.describe_joined(), err=True)


class _KeptUnits:
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


def _split_names(files: list[str]) -> tuple[list[str], list[str]]:
    """Return the names of one or two files to read, and of one or two files to write."""
    from pellucid.data.corpus import holds_pairs, refuse_foreign_table

    for name in files:
        refuse_foreign_table(name)

    def is_whole(name: str) -> bool:
        return name == "-" or holds_pairs(name)

    inputs = files[:1] if files and is_whole(files[0]) else files[:2]
    outputs = files[len(inputs) :]
    if len(outputs) != (1 if outputs and is_whole(outputs[0]) else 2) or (len(outputs) == 2 and is_whole(outputs[1])):
        raise ValueError(
            f"{' '.join(files)}: expected what to read and then what to write, each a file of pairs (.tmx, .xliff, "
            ".po, .csv, .tsv, .jsonl, .json, .parquet; to read also .xlsx and .zip), or two files of sentences"
        )
    if len(set(files)) < len(files) and files != ["-", "-"]:
        raise ValueError(f"{' '.join(files)}: one file is named twice")
    return inputs, outputs


def _choose_input_sides(
    inputs: list[str],
    outputs: list[str],
    source: str | None,
    target: str | None,
) -> "Sides":
    """Return the languages to read: those asked for, or those that the names of the files bear.

    Raises ValueError for two files to read whose names bear the languages asked for the other way
    round.
    """
    from pellucid.data.formats.units import Sides, languages_of_files, refuse_exchanged_files

    if len(inputs) == 2:
        first, second = inputs
        refuse_exchanged_files(first, second, (source, target))
        asked, named = Sides(source, target), languages_of_files(first, second) or (None, None)
        return asked if asked.languages else Sides(named[0], named[1])
    return Sides(source, target, strict=True, named_after=tuple(outputs))


def _must_exchange_files(inputs: list[str], outputs: list[str], sides: "Sides") -> bool:
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


def _find_output_format(name: str, sides: "Sides", source: str) -> "PairFormat | None":
    """Return the format to write, None for plain text.

    Raises ValueError for one that cannot be written.
    """
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


def _write_lines_of_both(units: Iterable["Unit"], writes: list[Write]) -> None:
    for number, unit in enumerate(units):
        for write, text in zip(writes, (unit.source, unit.target), strict=True):
            # A byte order mark would be dropped from the
            # beginning of a file; of two, the text's own stays.
            mark = "\ufeff" if number == 0 and text.startswith("\ufeff") else ""
            write(f"{mark}{text}\n".encode())


@contextmanager
def _open_compressed(name: str) -> Iterator[Write]:
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
