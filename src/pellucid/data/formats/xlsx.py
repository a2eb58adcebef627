"""Reads pairs from the first sheet of an Excel workbook (XLSX), row by row, and fetches or expands nothing."""

import re
import zipfile
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from pellucid.data.encodings import join_surrogates
from pellucid.data.formats.moses import refuse_bomb
from pellucid.data.formats.tables import Row, read_table_rows
from pellucid.data.formats.units import Sides, Unit
from pellucid.data.formats.xml import local_name

ADVICE = "save the table as CSV (UTF-8) instead"

LARGEST_ROW = 16 * 2**20  # the most bytes of XML up to the end of the next row or text
# The most bytes of the texts of a workbook, which are in memory while its rows are read.
LARGEST_TEXTS = 512 * 2**20
MOST_COLUMNS = 16_384  # as many as Excel has

# A character that XML cannot hold, as Excel writes it: _x000D_ is a carriage return.
ESCAPE = re.compile("_x([0-9A-Fa-f]{4})_")


def read_xlsx(path: str, sides: Sides) -> Iterator[Unit]:
    """Yield the pairs of the first sheet of a workbook; its columns are chosen as in a CSV file.

    Other sheets with rows have one unit each, with a problem. Raises ValueError for a workbook that
    is damaged, encrypted or expands too far.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names, others = _list_sheets(path, archive)

            texts = _read_shared_texts(path, archive)
            number = 0
            rows = _read_rows(path, archive, names[0], texts)
            for unit in read_table_rows(path, rows, sides, may_pad=True):
                number = unit.number
                yield unit

            for sheet, name in zip(others, names[1:], strict=True):
                number += 1
                if any(True for _ in _read_rows(path, archive, name, texts)):
                    problem = f"rows on the sheet {sheet!r}, of which only the first sheet is read"
                    yield Unit(number, problem=problem)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, KeyError) as error:
        raise ValueError(
            f"{path} is no Excel workbook (.xlsx), or it is damaged or has a password ({error}); "
            f"{ADVICE}"
        ) from None


def _list_sheets(path: str, archive: zipfile.ZipFile) -> tuple[list[str], list[str]]:
    """Return the names of the files of all sheets of a workbook, and what the sheets but the first are called."""

    folder = PurePosixPath("xl")
    files = {}
    related = str(folder / "_rels/workbook.xml.rels")
    for relation in _parse_elements(path, archive, related, "Relationship"):
        files[relation.get("Id", "")] = relation.get("Target", "")

    sheets, titles = [], []
    for sheet in _parse_elements(path, archive, str(folder / "workbook.xml"), "sheet"):
        key = next((value for name, value in sheet.items() if name.endswith("}id")), "")
        target = files.get(key, "")
        # Other kinds of sheets, such as sheets of charts, have no rows.
        if "worksheets/" in target:
            is_absolute = target.startswith("/")
            sheets.append(target.lstrip("/") if is_absolute else str(folder / target))
            titles.append(str(sheet.get("name")))

    if not sheets:
        raise ValueError(f"{path} has no sheet with rows; {ADVICE}")
    return sheets, titles[1:]


def _read_shared_texts(path: str, archive: zipfile.ZipFile) -> list[str]:
    """Return the texts to which the cells of a workbook refer by their numbers."""
    name = "xl/sharedStrings.xml"
    if name not in archive.namelist():
        return []
    if archive.getinfo(name).file_size > LARGEST_TEXTS:
        raise ValueError(f"{path}: its texts have more than {LARGEST_TEXTS:,} bytes; {ADVICE}")
    return [_read_text(element) for element in _parse_elements(path, archive, name, "si")]


def _read_rows(path: str, archive: zipfile.ZipFile, name: str, texts: list[str]) -> Iterator[Row]:
    """Yield the number and the cells of each row of a sheet, up to the last one with a text."""
    number, empty = 0, list[int]()

    for row in _parse_elements(path, archive, name, "row"):
        number = int(written) if (written := row.get("r", "")).isdecimal() else number + 1
        cells = dict[int, str]()
        column = -1
        for cell in row:
            column = _column_of(cell.get("r", ""), column + 1)
            if column >= MOST_COLUMNS:
                problem = "a cell beyond the last column of Excel"
                raise ValueError(f"{path}:{number}: {problem}; {ADVICE}")
            cells[column] = _read_cell(path, number, cell, texts)

        if any(map(str.strip, cells.values())):
            # Rows that are coloured and nothing else may go on to the end of the sheet, and are no
            # rows there.
            yield from ((line, []) for line in empty)
            empty.clear()
            yield number, [cells.get(column, "") for column in range(max(cells) + 1)]
        else:
            empty.append(number)


def _column_of(reference: str, otherwise: int) -> int:
    """Return the number of the column that the name of a cell begins with.

    >>> _column_of("A1", 7), _column_of("AB12", 7), _column_of("", 7)
    (0, 27, 7)
    """
    letters = re.match("[A-Z]{1,4}", reference)
    if letters is None:
        return otherwise
    column = 0
    for letter in letters[0]:
        column = 26 * column + ord(letter) - ord("A") + 1
    return column - 1


def _read_cell(path: str, row: int, cell: Any, texts: list[str]) -> str:
    """Return what a cell shows: its own text, a shared one, or a number as it is written; "" for an error."""
    kind = cell.get("t")
    if kind == "inlineStr":
        return "".join(_read_text(child) for child in cell if local_name(child) == "is")

    value = next((child.text or "" for child in cell if local_name(child) == "v"), "")

    if kind == "s":
        if not value.isdecimal() or int(value) >= len(texts):
            raise ValueError(
                f"{path}:{row}: a cell refers to a text that is not there; the workbook is damaged"
            )
        return texts[int(value)]
    return "" if kind == "e" else decode_escapes(value).replace("\r\n", "\n")


def _read_text(element: Any) -> str:
    """Return a text without its formatting and without the readings above it (furigana)."""
    parts = []
    for child in element:
        runs = child if local_name(child) == "r" else [child]
        parts += [run.text or "" for run in runs if local_name(run) == "t"]
    return decode_escapes("".join(parts)).replace("\r\n", "\n")


def decode_escapes(text: str) -> str:
    """Return a text of a workbook with the characters that Excel spells in its own way, such as `_x000D_`.

    A character of two halves, as an emoji is, is spelled as both of them.
    """
    if "_x" not in text:
        return text
    return join_surrogates(ESCAPE.sub(lambda match: chr(int(match[1], 16)), text))


def _parse_elements(path: str, archive: zipfile.ZipFile, member: str, name: str) -> Iterator[Any]:
    """Yield the elements of a name in a file of a workbook, and remove each from memory afterwards."""
    from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]

    refuse_bomb(path, archive.getinfo(member))
    # Nothing of the file is expanded or fetched; the limits of
    # libxml2 on depth and on expansion stay on.
    parser = etree.XMLPullParser(
        events=("end",),
        tag=f"{{*}}{name}",
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
    )
    since_element = 0
    try:
        with archive.open(member) as stream:
            while content := stream.read(2**16):
                since_element += len(content)
                parser.feed(content)
                for _, element in parser.read_events():
                    if element.getroottree().docinfo.internalDTD is not None:
                        raise ValueError(
                            f"{path}: {member!r} declares a type of document, as no workbook does"
                        )
                    yield element
                    since_element = 0
                    element.clear()
                    while element.getprevious() is not None:
                        del element.getparent()[0]
                if since_element > LARGEST_ROW:
                    raise ValueError(
                        f"{path}: {member!r} has no <{name}> within {LARGEST_ROW:,} bytes; {ADVICE}"
                    )
            parser.close()
    except etree.XMLSyntaxError as error:
        reason = " ".join(str(error.msg).split())
        raise ValueError(f"{path}: {member!r} is not well-formed XML: {reason}") from None
