"""One view for the studies of `pellucid inspect`: rows as the lines of a table and as objects of --json."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pellucid.cli.terminal import table_lines

Row = TypeVar("Row")

MISSING = "-"
"""Cell of a value that is None."""


@dataclass(frozen=True)
class Column(Generic[Row]):
    """Column of a table: its head, the value that a row has in it, and the value's format.

    A format is what may stand behind the colon in an f-string. Texts are shown as they are.
    """

    head: str
    value: Callable[[Row], Any]
    format: str = ""
    side: str = "r"  # "l" for a column of texts, which begin below each other

    def format_cell(self, row: Row) -> str:
        """Return the value of a row as text.

        >>> Column("loss", lambda row: row["loss"], ".2f").format_cell({"loss": 1.234})
        '1.23'
        """
        value = self.value(row)
        if value is None:
            return MISSING
        return value if isinstance(value, str) else format(value, self.format)


def column_rows(rows: Iterable[Row], columns: Sequence[Column[Row]]) -> list[list[str]]:
    """Return the heads of the columns, then the cells of each row."""
    cells = [[column.head for column in columns]]
    for row in rows:
        cells.append([column.format_cell(row) for column in columns])
    return cells


def column_lines(
    rows: Iterable[Row],
    columns: Sequence[Column[Row]],
    indent: str = "",
) -> Iterator[str]:
    """Yield a line of heads and a line for each row, in aligned columns."""
    yield from table_lines(column_rows(rows, columns), column_sides(columns), indent)


def column_sides(columns: Sequence[Column[Any]]) -> str:
    """Return the side of each column, as `format_table` takes them."""
    return "".join(column.side for column in columns)


def row_objects(rows: Iterable[Any], *properties: str, **of_study: Any) -> Iterator[dict[str, Any]]:
    """Yield an object for each row: what the whole study says, the row's fields, and properties of it.

    >>> @dataclass
    ... class Sum:
    ...     a: int
    ...     b: int
    ...
    ...     @property
    ...     def total(self) -> int:
    ...         return self.a + self.b
    >>> list(row_objects([Sum(2, 3)], "total", study="sums"))
    [{'study': 'sums', 'a': 2, 'b': 3, 'total': 5}]
    """
    for row in rows:
        yield {**of_study, **vars(row), **{name: getattr(row, name) for name in properties}}
