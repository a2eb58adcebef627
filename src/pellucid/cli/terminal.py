"""Text for a terminal: how wide it is, what it may be coloured with, and tables that fit."""

import os
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Terminal:
    """Where text goes."""

    width: int
    colour: bool

    @classmethod
    def of_stdout(cls) -> "Terminal":
        """Standard output: without colours where it is no terminal or NO_COLOR is set."""
        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return cls(max(60, shutil.get_terminal_size((100, 24)).columns), colour)

    def bold(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self.colour else text

    def dim(self, text: str) -> str:
        return f"\x1b[2m{text}\x1b[0m" if self.colour else text

    def green(self, text: str) -> str:
        return f"\x1b[32m{text}\x1b[0m" if self.colour else text

    def red(self, text: str) -> str:
        return f"\x1b[31;1m{text}\x1b[0m" if self.colour else text


def escape_controls(text: str) -> str:
    r"""The text with what would steer a terminal written out.

    >>> escape_controls("a\x1b[2J\tb")
    'a\\x1b[2J\\tb'
    """
    return "".join(
        character
        if unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp")
        else escape_character(character)
        for character in text
    )


def escape_character(character: str) -> str:
    """One character as Python writes it."""
    return character.encode("unicode_escape").decode("ascii")


def text_width(text: str) -> int:
    """How many columns a text takes: none for colours and accents, two for wide characters.

    >>> text_width("año 犬"), text_width("\\x1b[1mbold\\x1b[0m")
    (6, 4)
    """
    count, inside = 0, False
    for character in text:
        if character == "\x1b":
            inside = True
        if not inside and not unicodedata.combining(character):
            count += 2 if unicodedata.east_asian_width(character) in "WF" else 1
        inside = inside and character != "m"
    return count


def pad_right(text: str, width: int) -> str:
    """The text with blanks behind it."""
    return text + " " * max(0, width - text_width(text))


def pad_left(text: str, width: int) -> str:
    """The text with blanks before it."""
    return " " * max(0, width - text_width(text)) + text


def shorten_text(text: str, width: int) -> str:
    """As much of a text without colours as fits; three dots say that something is missing.

    >>> shorten_text("a long word", 7)
    'a long…'
    """
    if text_width(text) <= width:
        return text
    while text and text_width(text) > width - 1:
        text = text[:-1]
    return f"{text}…"


def flow_parts(
    parts: Iterable[str], width: int, indent: str = "", gap: str = "  ", hanging: str | None = None
) -> Iterator[str]:
    """Parts one behind the other, on as many lines as they need; those after the first begin with `hanging`.

    >>> list(flow_parts(["one", "two", "three"], width=10))
    ['one  two', 'three']
    """
    line = ""
    for part in parts:
        longer = f"{line}{gap}{part}" if line else f"{indent}{part}"
        if line and text_width(longer) > width:
            yield line
            longer = f"{indent if hanging is None else hanging}{part}"
        line = longer
    if line:
        yield line


def format_table(rows: Sequence[Sequence[str]], sides: str, gap: str = "  ") -> list[str]:
    """Rows as lines of equal columns; `sides` says for each column "l" or "r".

    >>> format_table([["a", "10"], ["bcd", "7"]], "lr")
    ['a    10', 'bcd   7']
    """
    widths = [max(text_width(cell) for cell in column) for column in zip(*rows, strict=True)]
    put = {"l": pad_right, "r": pad_left}
    return [
        gap.join(put[side](cell, width) for cell, width, side in zip(row, widths, sides, strict=True)).rstrip()
        for row in rows
    ]


def format_blocks(
    columns_of: Sequence[Sequence[str]], heads: Sequence[str], width: int, indent: str = ""
) -> Iterator[str]:
    """Short columns side by side, row by row with a head before each, continued below where the width ends.

    >>> list(format_blocks([["The", "7"], ["dog", "15"]], ["piece", "id"], width=40))
    ['piece  The  dog', 'id     7    15']
    """
    head = max(text_width(each) for each in heads)
    start = 0
    while start < len(columns_of):
        end, used = start, text_width(indent) + head
        while end < len(columns_of):
            used += 2 + max(text_width(cell) for cell in columns_of[end])
            if used > width and end > start:
                break
            end += 1
        rows = [[name, *(column[n] for column in columns_of[start:end])] for n, name in enumerate(heads)]
        yield from (indent + line for line in format_table(rows, "l" * len(rows[0])))
        start = end
