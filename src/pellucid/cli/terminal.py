"""Text for a terminal: its width, colours, escapes, and tables that fit."""

import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Terminal:
    """Width and colours of the place that text is written to."""

    width: int
    colour: bool

    @classmethod
    def of_stdout(cls) -> "Terminal":
        """Return standard output: without colours where it is no terminal or NO_COLOR is set."""
        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        # 100 columns where no terminal tells its size.
        return cls(max(60, shutil.get_terminal_size((100, 24)).columns), colour)

    def bold(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self.colour else text

    def dim(self, text: str) -> str:
        return f"\x1b[2m{text}\x1b[0m" if self.colour else text


def escape_controls(text: str) -> str:
    r"""Return the text with characters that could control the terminal written as escapes.

    >>> escape_controls("a\x1b[2J\tb")
    'a\\x1b[2J\\tb'
    """
    # Controls, format characters (which may turn the direction of text), surrogates, line and
    # paragraph separators.
    shown = []
    for character in text:
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
            character = character.encode("unicode_escape").decode("ascii")
        shown.append(character)
    return "".join(shown)


def text_width(text: str) -> int:
    """Return how many columns a text takes: none for colours and accents, two for wide characters.

    >>> text_width("año 犬"), text_width("\\x1b[1mbold\\x1b[0m")
    (6, 4)
    """
    from rich.cells import cell_len

    return cell_len(re.sub(r"\x1b\[[0-9;]*m", "", text))


def pad_right(text: str, width: int) -> str:
    """Return the text with blanks behind it, up to a width in columns."""
    return text + " " * max(0, width - text_width(text))


def shorten_text(text: str, width: int) -> str:
    """Return as much of a text without colours as fits, with an ellipsis if something is missing.

    >>> shorten_text("a long word", 7)
    'a long…'
    """
    if text_width(text) <= width:
        return text
    while text and text_width(text) > width - 1:
        text = text[:-1]  # one character at a time, for some take two columns and some none
    return f"{text}…"


def wrap_items(
    items: Iterable[str],
    width: int,
    indent: str = "",
    gap: str = "  ",
) -> Iterator[str]:
    """Yield items one after another on as many lines as they need.

    >>> list(wrap_items(["one", "two", "three"], width=10))
    ['one  two', 'three']
    """
    line = ""
    for item in items:
        longer = f"{line}{gap}{item}" if line else f"{indent}{item}"
        if line and text_width(longer) > width:
            yield line
            longer = f"{indent}{item}"
        line = longer

    if line:
        yield line


def wrap_text(text: str, width: int, indent: str = "") -> Iterator[str]:
    """Yield a text in lines of at most this width, control characters escaped."""
    return wrap_items(escape_controls(text).split(), width, indent, gap=" ")


def format_table(rows: Sequence[Sequence[str]], sides: str) -> list[str]:
    """Return rows as lines with aligned columns, control characters escaped; `sides` has "l" or "r" for each column.

    >>> format_table([["a", "10"], ["bcd", "7"]], "lr")
    ['a    10', 'bcd   7']
    """
    rows = [list(map(escape_controls, row)) for row in rows]
    widths = [max(map(text_width, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = []
        for cell, width, side in zip(row, widths, sides, strict=True):
            blanks = " " * (width - text_width(cell))
            cells.append(cell + blanks if side == "l" else blanks + cell)
        lines.append("  ".join(cells).rstrip())
    return lines


def table_lines(rows: Sequence[Sequence[str]], sides: str, indent: str = "") -> Iterator[str]:
    """Yield rows with aligned columns below their heads, which are dim on a terminal.

    `sides` as in `format_table`.
    """
    head, *lines = format_table(rows, sides)
    yield Terminal.of_stdout().dim(f"{indent}{head}")
    yield from (f"{indent}{line}" for line in lines)


def format_blocks(
    columns: Sequence[Sequence[str]],
    heads: Sequence[str],
    width: int,
) -> Iterator[str]:
    """Yield short columns side by side, a head before each row, continued below where the width ends.

    >>> list(format_blocks([["The", "7"], ["dog", "15"]], ["piece", "id"], width=40))
    ['piece  The  dog', 'id     7    15']
    """
    columns = [list(map(escape_controls, column)) for column in columns]
    head = max(map(text_width, heads))
    start = 0
    while start < len(columns):
        end, used = start, head
        while end < len(columns):
            used += 2 + max(map(text_width, columns[end]))
            if used > width and end > start:  # a column too wide for the terminal still gets a block of its own
                break
            end += 1
        rows = list(zip(heads, *columns[start:end], strict=True))
        yield from format_table(rows, "l" * len(rows[0]))
        start = end
