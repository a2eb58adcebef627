"""What the commands of `pellucid inspect` share: their options, tables, JSON objects and figures."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, is_dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import typer

from pellucid.cli.files import json_line, write_lines
from pellucid.cli.terminal import Terminal, escape_controls, format_table, shorten_text

JSON = typer.Option("--json", help="write one JSON object a line instead of a table")
PLOT = typer.Option("--plot", metavar="FILE", help="draw it into this file too, .png or .svg")

FIGURES = (".png", ".svg")


def require_figure(path: str | None, *, endings: Sequence[str] = FIGURES) -> None:
    """ValueError, before anything is computed, for a file that no figure can be written to."""
    if path is None:
        return
    if Path(path).suffix not in endings:
        raise ValueError(f"{path}: a figure is written to a file that ends in {' or '.join(endings)}")
    if not Path(path).resolve().parent.is_dir():
        raise ValueError(f"{path}: {Path(path).parent} is not a folder")
    if Path(path).is_dir():
        raise ValueError(f"{path} is a folder, not a file")


def save_figure(path: str | None, draw: Callable[[Path], Any]) -> None:
    """What `draw` writes into the file it is given stands at `path` when it is whole; nothing is done without one."""
    if path is None:
        return
    try:
        draw(Path(path))
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        raise ValueError(f"{path} is not drawn, for lack of matplotlib: pip install 'pellucid[plots]'") from None
    typer.echo(f"drawn: {path}", err=True)


def write_table(rows: Sequence[Sequence[str]], sides: str, indent: str = "") -> None:
    """Rows under their heads, as lines of equal columns; `sides` says for each column "l" or "r"."""
    at = Terminal.of_stdout()
    head, *lines = (
        shorten_text(f"{indent}{line}", at.width) if at.colour else f"{indent}{line}"
        for line in align_columns(rows, sides)
    )
    write_lines([at.dim(head), *lines])


def align_columns(rows: Sequence[Sequence[str]], sides: str) -> list[str]:
    """The same as text without colours; what would steer a terminal is written out."""
    return format_table([[escape_controls(cell) for cell in row] for row in rows], sides)


def write_objects(objects: Iterable[Any]) -> None:
    """Dataclasses or mappings as JSON, one a line; numbers that are none become null."""
    write_lines(json_line(as_plain_json(each)) for each in objects)


def as_plain_json(value: Any) -> Any:
    """The same out of lists, mappings and finite numbers.

    >>> as_plain_json({"a": (1, float("nan"))})
    {'a': [1, None]}
    """
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, dict):
        return {key: as_plain_json(each) for key, each in value.items()}
    if tolist := getattr(value, "tolist", None):
        value = tolist()
    if isinstance(value, list | tuple):
        return [as_plain_json(each) for each in value]
    return None if isinstance(value, float) and not isfinite(value) else value
