"""Docstrings for the page of the Python interface: written as Markdown, handed to Sphinx as reStructuredText."""

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

CODE = re.compile(r"(`+)(.+?)\1")


def rewritten(app: "Sphinx", what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Marks code as code and text as text: single backticks become double; asterisks and bars outside stay signs.

    An indented block after an empty line is code, and stays as it is written.
    """
    text = "\n".join(lines)
    lines[:] = "\n\n".join(block if indented(block) else prose(block) for block in text.split("\n\n")).split("\n")
    for number in reversed([n for n, line in enumerate(lines) if starts_code(lines, n)]):
        lines[number:number] = ["::", ""]


def indented(block: str) -> bool:
    """Whether every line of a paragraph stands to the right."""
    return all(line.startswith("    ") for line in block.splitlines() if line)


def starts_code(lines: list[str], number: int) -> bool:
    """Whether an indented block begins here; an example with >>> is known to Sphinx."""
    before = lines[number - 1] if number else ""
    return lines[number].startswith("    ") and not before and not lines[number].lstrip().startswith(">>>")


def prose(block: str) -> str:
    """A paragraph with its code between double backticks.

    >>> print(prose("`a*b` times *c"))
    ``a*b`` times \\*c
    """
    parts, end = [], 0
    for match in CODE.finditer(block):
        parts += [escaped(block[end : match.start()]), f"``{match[2]}``"]
        end = match.end()
    return "".join([*parts, escaped(block[end:])])


def escaped(text: str) -> str:
    """Signs that reStructuredText would take for markup."""
    return re.sub(r"([*|])", r"\\\1", text)


def setup(app: "Sphinx") -> dict[str, Any]:
    """Looks at each docstring before Sphinx reads it."""
    app.connect("autodoc-process-docstring", rewritten)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
