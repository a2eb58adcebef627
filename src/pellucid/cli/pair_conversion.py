"""Converts one file of pairs, or two files of sentences, into another format, and counts every pair."""

import sys
from contextlib import ExitStack
from itertools import chain
from typing import TYPE_CHECKING

from pellucid.cli.files import open_output
from pellucid.cli.pair_output import (
    KeptUnits,
    find_output_format,
    must_exchange_files,
    open_compressed,
    write_lines_of_both,
)

if TYPE_CHECKING:
    from pellucid.data.formats.units import Sides


def convert_files(
    inputs: list[str],
    outputs: list[str],
    languages: tuple[str | None, str | None],
    places: str | None = None,
) -> tuple[int, list[str]]:
    """Convert one file or two; return how many pairs were kept, and what is said of it, behind the names of the files.

    Raises ValueError for what cannot be read, and where the output can hold none of the pairs.
    """
    from pellucid.data.corpus import SkippedPairs, read_valid_units

    sides = _choose_input_sides(inputs, outputs, *languages)
    with ExitStack() as opened:
        account = opened.enter_context(open_output(places))
        skipped = SkippedPairs(tell=(lambda reason, place: account(f"{reason}\t{place}\n")) if account else None)
        source, target = inputs[0], inputs[1] if len(inputs) == 2 else None
        units = KeptUnits(read_valid_units(source, target, sys.maxsize, skipped, sides), source, skipped, account)
        # The languages are known, and most faults of a file, once the first pair was read: before a file is opened.
        rows = iter(units)
        rows = chain([next(rows)], rows)
        formats = [find_output_format(name, sides, source) for name in outputs]
        exchanged = len(outputs) == 2 and must_exchange_files(inputs, outputs, sides)
        writes = [opened.enter_context(open_compressed(name)) for name in outputs]
        if formats[0] is None or formats[0].encode is None:
            write_lines_of_both(rows, writes[::-1] if exchanged else writes)
        else:
            for content in formats[0].encode(rows, sides, units.skip):
                writes[0](content)
        if not units.kept:
            raise ValueError(f"{outputs[0]} can hold none of the pairs: {skipped}")

    direction = f" ({sides.source} to {sides.target})" if sides.source and sides.target else ""
    lines = [f"{direction}: {units.kept:,} pairs kept, {skipped}"]
    if skipped.joined:
        lines.append(skipped.describe_joined())
    return units.kept, lines


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
