"""Sentences in, results out: the files a command reads, and standard output as UTF-8 lines."""

import json
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from pellucid.atomic import atomic_file

LINE_SEPARATORS = str.maketrans({code: f"\\u{code:04x}" for code in (0x85, 0x2028, 0x2029)})
"""Characters that some readers take for the end of a line; JSON may write them as escapes."""

LINE_BREAKERS = str.maketrans("\n\r\0", "   ")
"""Characters that no line of text holds."""


def lines_of(path: str) -> Iterator[str]:
    """The sentences of a file or, for "-", of standard input; a person at a keyboard is told so."""
    from pellucid.data.corpus import sentence_lines

    if path == "-" and sys.stdin.isatty():
        typer.echo("pellucid: reading sentences from the keyboard, one a line; Ctrl-D ends", err=True)
    return sentence_lines(path)


def equal_lines(first: str, second: str) -> tuple[list[str], list[str]]:
    """All lines of two files that belong together; ValueError if one has more than the other, or both have none."""
    left, [right] = lines_and_others(first, [second])
    return left, right


def lines_and_others(first: str, others: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """All lines of a file and of one or more that belong to it; ValueError as `equal_lines` has it."""
    if [first, *others].count("-") > 1:
        raise ValueError("both files are standard input; name one of them")
    left, rights = list(lines_of(first)), [list(lines_of(other)) for other in others]
    for other, right in zip(others, rights, strict=True):
        if len(left) != len(right):
            raise ValueError(
                f"{first} has {len(left):,} lines and {other} has {len(right):,}: line n of one must belong to line n "
                "of the other; `pellucid` ends lines at line feeds only, as `wc -l` counts them"
            )
    if not left:
        raise ValueError(f"{first} and {' and '.join(others)} are empty")
    return left, rights


def lines_beside(path: str, other: str) -> list[str]:
    """All lines of a file that has one for each line of another, which may be standard input."""
    if path == other == "-":
        raise ValueError("both files are standard input; name one of them")
    if other == "-":
        return list(lines_of(path))
    return equal_lines(path, other)[0]


@contextmanager
def open_output(path: str | None) -> Iterator[Callable[[str], Any] | None]:
    """Writes text to a file, which stands there when all is written and not before; None for no file."""
    if path is None:
        yield None
        return
    with atomic_file(path) as write:
        yield lambda text: write(text.encode())


@contextmanager
def name_file_in_errors(path: str) -> Iterator[None]:
    """Errors about a line, and warnings that one was not translated, are told with its file."""
    from pellucid.decode.assemble import NotTranslated

    name = "standard input" if path == "-" else path
    show = warnings.showwarning

    def with_name(message: Warning | str, category: type[Warning], *place: Any) -> None:
        if issubclass(category, NotTranslated):
            typer.echo(f"pellucid: {name}: {message}", err=True)
        else:
            show(message, category, *place)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", NotTranslated)
            warnings.showwarning = with_name
            yield
    except ValueError as error:
        if str(error).startswith(f"{path}:"):
            raise
        raise ValueError(f"{name}: {error}") from None


def write_lines(lines: Iterable[str]) -> None:
    """Lines to standard output, in UTF-8 whatever the machine's default, each at once and whole.

    So whoever reads them sees each as soon as it is there, and complete lines only when the command is interrupted.
    """
    for line in lines:
        sys.stdout.buffer.write(line.translate(LINE_BREAKERS).encode() + b"\n")
        sys.stdout.buffer.flush()


def json_line(value: Any) -> str:
    r"""An object as one line of JSON, for whatever reads lines.

    >>> json_line({"text": "año\u2028\n"})
    '{"text": "año\\u2028\\n"}'
    """
    return json.dumps(value, ensure_ascii=False).translate(LINE_SEPARATORS)


def require_file(path: str) -> str:
    """The path; OSError now, and not after minutes of work, if there is no such file to read."""
    if path != "-":
        Path(path).open("rb").close()
    return path
