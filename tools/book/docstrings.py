"""Converts docstrings from Markdown to the reStructuredText that Sphinx reads, for the page of the Python interface."""

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

CODE = re.compile(r"(`+)(.+?)\1")


def convert_docstring(app: "Sphinx", kind: str, name: str, subject: Any, options: Any, lines: list[str]) -> None:
    """Convert single backticks to double ones, and escape asterisks and bars outside code.

    An indented block after an empty line is code, and stays as it is written.
    """
    text = "\n".join(lines)
    # Sphinx reads what is left in this list, so it is changed in place.
    lines[:] = "\n\n".join(block if is_indented(block) else convert_prose(block) for block in text.split("\n\n")).split(
        "\n"
    )
    # From the end, since each insertion moves the lines after it.
    for number in reversed([n for n, line in enumerate(lines) if starts_code(lines, n)]):
        lines[number:number] = ["::", ""]


def is_indented(block: str) -> bool:
    """Whether every line of a paragraph is indented."""
    return all(line.startswith("    ") for line in block.splitlines() if line)


def starts_code(lines: list[str], number: int) -> bool:
    """Whether an indented block begins here; an example with >>> is known to Sphinx."""
    before = lines[number - 1] if number else ""
    return lines[number].startswith("    ") and not before and not lines[number].lstrip().startswith(">>>")


def convert_prose(block: str) -> str:
    """Convert a paragraph, with its code between double backticks.

    >>> print(convert_prose("`a*b` times *c"))
    ``a*b`` times \\*c
    """
    parts, end = [], 0
    for match in CODE.finditer(block):
        parts += [escape_markup(block[end : match.start()]), f"``{match[2]}``"]
        end = match.end()
    return "".join([*parts, escape_markup(block[end:])])


def escape_markup(text: str) -> str:
    """Escape signs that reStructuredText would take for markup."""
    return re.sub(r"([*|])", r"\\\1", text)


def setup(app: "Sphinx") -> dict[str, Any]:
    """Convert each docstring before Sphinx reads it."""
    app.connect("autodoc-process-docstring", convert_docstring)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
