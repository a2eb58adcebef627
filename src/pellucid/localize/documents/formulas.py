"""Finds the texts that the formulas of a sheet compare with texts of its cells."""

import re
from collections.abc import Iterator

_QUOTED = re.compile(r'"((?:[^"]|"")*)"')


def list_compared_texts(formula: str) -> Iterator[str]:
    """Yield the texts in a formula, as `normalize_compared` writes them.

    >>> [*list_compared_texts('IF(A1="Red",B1,"")'), *list_compared_texts('"Dog,Cat"')]
    ['red', '', 'dog,cat', 'dog', 'cat']
    """
    for quoted in _QUOTED.findall(formula):
        yield normalize_compared(quoted.replace('""', '"'))
        # A list to choose from is one text with commas.
        if formula.startswith('"') and formula.endswith('"'):
            yield from (normalize_compared(entry) for entry in quoted.split(","))


def normalize_compared(text: str) -> str:
    """Return a text as programs compare it with others: without white space around it, in small letters."""
    return text.strip().casefold()
