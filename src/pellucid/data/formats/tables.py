"""Reads and writes tables of pairs: TSV and CSV, with columns that are chosen or found by their names."""

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from itertools import chain, islice
from pathlib import Path
from typing import Any

from pellucid.data.formats.units import (
    LANGUAGES_BY_NAME,
    SOURCE_NAMES,
    TARGET_NAMES,
    Sides,
    Skip,
    Unit,
    choose_sides,
    find_column,
    is_header,
    languages_in_name,
    names_side,
    require_fitting_rows,
)
from pellucid.data.languages import split_code
from pellucid.data.lines import LONGEST_LINE, read_lines

_DELIMITERS = ",;\t|"

# Lines by which the delimiter of a CSV file is found, and rows by which the columns of a table are.
_LINES_SEEN = 50

Row = tuple[int, list[str]]  # the line where a row of a table begins, and its cells


def read_tsv(path: str, sides: Sides) -> Iterator[Unit]:
    """Yield the pairs of a file with one tab between the columns, in which quotes are text.

    The columns are named by a header or chosen by their numbers; without either there are two.
    Sentence pairs exported by Tatoeba (number, sentence, number, sentence) and by manythings.org (a
    third column with the source) are recognised by their first line.
    """
    # Quotes are text, so not the csv module: a sentence may begin or end inside a quotation.
    rows = enumerate((line.split("\t") for line in read_lines(path)), start=1)
    yield from read_table_rows(path, rows, sides)


def read_csv(path: str, sides: Sides) -> Iterator[Unit]:
    """Yield the pairs of a table with a comma, semicolon, tab or bar between its columns, and with quotes around text.

    The columns are named by a header or chosen by their numbers; without either there are two.
    Raises ValueError for quotes that do not fit: where a row with them ends is not known.
    """
    # The limit of the csv module, 131,072 characters, holds for the whole process, and is only ever
    # raised.
    csv.field_size_limit(max(LONGEST_LINE, csv.field_size_limit()))

    lines = read_lines(path)
    first = list(islice(lines, _LINES_SEEN))
    delimiter = _find_delimiter(first)

    # Excel's own mark, which is no row.
    marked = bool(first) and re.fullmatch("sep=.", first[0]) is not None
    rows = (f"{line}\n" for line in chain(first[marked:], lines))
    reader = csv.reader(rows, delimiter=delimiter, strict=True)
    yield from read_table_rows(path, _number_rows(path, reader, marked), sides)


def _number_rows(path: str, reader: Any, before: int) -> Iterator[Row]:
    """Yield the rows of a CSV file with the numbers of their first lines."""
    while True:
        line = reader.line_num + 1 + before
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "field limit" in str(error):
                raise ValueError(
                    f"{path}:{line}: a cell of this row has more than {LONGEST_LINE:,} characters; is there a quote "
                    "that nothing closes?"
                ) from None
            raise ValueError(
                f"{path}:{line}: the quotes of this row do not fit ({error}); a quote inside of quotes "
                "is doubled"
            ) from None
        yield line, row


def _find_delimiter(lines: Sequence[str]) -> str:
    """Return the character that most likely separates the columns, by the first lines of a file."""
    if lines and (mark := re.fullmatch("sep=(.)", lines[0])):
        return mark[1]

    def judge(delimiter: str) -> tuple[bool, bool, int]:
        # The last line may be in the middle of a row; without `strict` that is no error.
        reader = csv.reader([f"{line}\n" for line in lines], delimiter=delimiter)
        try:
            rows = [row for row in reader if row]
        except csv.Error:
            return False, False, 0

        header = bool(rows) and sum(map(is_header, rows[0])) > 1
        widths = {len(row) for row in rows}
        fewest = min(widths, default=1)
        return header, len(widths) == 1 and fewest > 1, -fewest if fewest > 1 else -99

    return max(_DELIMITERS, key=judge)  # of equals the first: a comma


def read_table_rows(
    path: str, rows: Iterator[Row], sides: Sides, may_pad: bool = False
) -> Iterator[Unit]:
    """Yield the pairs of rows, from the columns that the header or `sides` names.

    An empty row has empty sides. A row with another number of columns than the others has a
    problem, for which of its cells are the pair is not known; with `may_pad` it is known, and
    missing cells are empty. Raises ValueError if hardly any row fits.
    """

    first = list(islice(rows, _LINES_SEEN))
    decisive = _find_decisive_row(first, sides)
    if decisive is None:
        yield from (Unit(line) for line, _ in chain(first, rows))
        return

    line, row = decisive
    columns, has_header = _choose_columns(path, line, row, sides)

    def read_rows() -> Iterator[Unit]:
        for number, cells in chain(first, rows):
            if has_header and number == line:
                continue
            if not any(map(str.strip, cells)):
                yield Unit(number)
            elif has_header and cells == row:
                yield Unit(number, problem="the header once more")
            elif len(cells) != len(row) and not may_pad:
                comparison = "fewer" if len(cells) < len(row) else "more"
                yield Unit(number, problem=f"{comparison} columns than {len(row)}")
            else:
                source, target = (cells[i] if i < len(cells) else "" for i in columns)
                yield Unit(number, source, target)

    def expect() -> str:
        return f"{len(row)} columns, as many as line {line:,} has"

    yield from require_fitting_rows(path, read_rows(), expect)


def _find_decisive_row(rows: Sequence[Row], sides: Sides) -> Row | None:
    """Return the row that says which columns a table has: its header, or the first row that is as wide as most.

    Titles above a table, which fill one cell, say nothing. None if all rows are empty.
    """
    filled = []
    for _, cells in rows:
        filled.append(sum(bool(cell.strip()) for cell in cells))
    if not any(filled):
        return None

    enough = min(2, max(filled))
    candidates = [row for row, count in zip(rows, filled, strict=True) if count >= enough]

    if len(set(list_side_names(candidates[0][1], sides))) > 1:
        return candidates[0]

    # Columns that are chosen by their numbers must be there.
    last_column = 0
    for wish in (sides.source, sides.target):
        if wish is not None and wish.isdecimal():
            last_column = max(last_column, int(wish))
    candidates = [row for row in candidates if len(row[1]) >= last_column] or candidates

    widths = Counter(len(cells) for _, cells in candidates)
    # Of equals two columns, for these are pairs, and then the first.
    width = max(widths, key=lambda width: (widths[width], width == 2))
    return next(row for row in candidates if len(row[1]) == width)


def _choose_columns(
    path: str, line: int, row: list[str], sides: Sides
) -> tuple[tuple[int, int], bool]:
    """Return the indices of the two columns, and whether the first row is a header."""
    wishes = [wish for wish in (sides.source, sides.target) if wish is not None]
    if len(wishes) == 2 and all(wish.isdecimal() for wish in wishes):
        columns = int(wishes[0]) - 1, int(wishes[1]) - 1
        if not all(0 <= column < len(row) for column in columns):
            column = max(wishes, key=int)
            raise ValueError(f"{path}:{line}: {len(row)} columns, so there is no column {column}")
        return columns, all(is_header(row[column]) for column in columns)

    names = list_side_names(row, sides)
    # Two equal cells are a name that is its own translation.
    if len(set(names)) < 2 or _is_from_tatoeba(row):
        first, second = _guess_columns(path, line, row)
        return (second, first) if _are_exchanged(path, sides) else (first, second), False

    source, target = choose_names(path, names, sides)
    return (row.index(source), row.index(target)), True


def _are_exchanged(path: str, sides: Sides) -> bool:
    """Whether the second of two columns without names has the sources, by the languages in the name of the file.

    `sides` gets the languages that it lacks. Languages that fit the name neither way belong to the
    columns in their order; the file's name then does not matter.
    """
    named = languages_in_name(path)
    if named is None:
        return False

    if not (sides.source or sides.target):
        choose_sides(sides, named, path)
        return sides.source == named[1]

    wishes = [split_code(wish)[0] if wish else None for wish in (sides.source, sides.target)]
    first, second = (split_code(code)[0] for code in named)
    if wishes[0] in (None, first) and wishes[1] in (None, second):
        sides.source, sides.target = sides.source or named[0], sides.target or named[1]
        return False
    if wishes[0] not in (None, second) or wishes[1] not in (None, first):
        return False
    sides.source, sides.target = sides.source or named[1], sides.target or named[0]
    sides.said_by = f"the settings and the name of {Path(path).name}"
    return True


def list_side_names(names: Sequence[str], sides: Sides) -> list[str]:
    """Return the names of columns or keys that may be a side: those that look like it, and those that are wished."""
    wished = [find_column(wish, names) for wish in (sides.source, sides.target) if wish is not None]
    return [name for i, name in enumerate(names) if is_header(name) or i in wished]


def choose_names(
    path: str, names: Sequence[str], sides: Sides, what: str = "columns"
) -> tuple[str, str]:
    """Return the names of the two columns or keys that make pairs; `sides` gets their languages.

    Raises ValueError, with all names, if the choice is not clear.
    """
    plain = [name.strip().lower() for name in names]
    wishes = [wish for wish in (sides.source, sides.target) if wish is not None]
    if all(find_column(wish, names) is None for wish in wishes):
        # "source" and "target" fit any languages that were asked for.
        sources = [i for i, name in enumerate(plain) if names_side(name, SOURCE_NAMES)]
        targets = [i for i, name in enumerate(plain) if names_side(name, TARGET_NAMES)]
        if len(sources) == len(targets) == 1:
            sides.said_by = f"the {what} of {Path(path).name}"
            return names[sources[0]], names[targets[0]]

    choose_sides(sides, names, path, what)
    source = names[find_column(sides.source or "", names) or 0]
    target = names[find_column(sides.target or "", names) or 0]
    sides.source = LANGUAGES_BY_NAME.get(source.strip().lower(), source)
    sides.target = LANGUAGES_BY_NAME.get(target.strip().lower(), target)
    return source, target


def _guess_columns(path: str, line: int, row: list[str]) -> tuple[int, int]:
    """Return the indices of the two columns of a table without a header."""
    if len(row) == 2:
        return 0, 1
    if _is_from_tatoeba(row):
        return 1, 3
    if len(row) == 3 and row[2].startswith("CC-BY"):
        return 0, 1
    message = f"{path}:{line}: {len(row)} columns, expected 2: source, target"
    if len(row) > 2:
        # The first two that are not numbers.
        texts = [number for number, cell in enumerate(row, start=1) if not cell.strip().isdigit()]
        first, second, *_ = [*texts, *(number for number in (1, 2, 3) if number not in texts)]
        message += (
            "; choose two by their numbers or by a header, for example columns "
            f"{first} and {second}: --from {first} --to {second}"
        )
    raise ValueError(message)


def _is_from_tatoeba(row: Sequence[str]) -> bool:
    return len(row) == 4 and row[0].isdecimal() and row[2].isdecimal()


def encode_tsv(units: Iterable[Unit], sides: Sides, skip: Skip) -> Iterator[bytes]:
    """Yield the bytes of a file with one tab between source and target; a text with a tab is skipped."""
    first = True
    for unit in units:
        if "\t" in unit.source or "\t" in unit.target:
            skip(unit, "a tab, which separates the columns of .tsv")
            continue
        if first:
            looks_like_header = is_header(unit.source) and is_header(unit.target)
            # Otherwise the pair would be read as a header, or its first character as a byte order
            # mark.
            if looks_like_header or unit.source.startswith("\ufeff"):
                yield b"source\ttarget\n"
        first = False
        yield f"{unit.source}\t{unit.target}\n".encode()


def encode_csv(units: Iterable[Unit], sides: Sides, skip: Skip) -> Iterator[bytes]:
    """Yield the bytes of a table with commas, quotes around every text, and a header."""
    header = sides.languages or ("source", "target")
    for row in chain([header], ((unit.source, unit.target) for unit in units)):
        text = StringIO(newline="")
        csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerow(row)
        yield text.getvalue().encode()
