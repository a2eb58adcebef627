"""Options, tables, JSON objects and figures that the commands of `pellucid inspect` share."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, is_dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import typer

from pellucid.cli.files import json_line, write_lines
from pellucid.cli.terminal import Terminal, format_table, shorten_text

JSON = typer.Option("--json", help="write one JSON object per line instead of a table")
PLOT = typer.Option("--plot", metavar="FILE", help="also draw a figure into this file, .png or .svg")

SENTENCE = typer.Argument(metavar="SENTENCE", help="sentence to translate")
TARGET = typer.Option(metavar="TEXT", help="look into this translation instead of searching for one")

FIGURES = (".png", ".svg")


def require_figure(path: str | None, *, endings: Sequence[str] = FIGURES) -> None:
    """Raise ValueError, before anything is computed, for a path that no figure can be written to."""
    if path is None:
        return
    if Path(path).suffix not in endings:
        raise ValueError(f"{path}: a figure is written to a file that ends in {' or '.join(endings)}")
    if not Path(path).resolve().parent.is_dir():
        raise ValueError(f"{path}: {Path(path).parent} is not a folder")
    if Path(path).is_dir():
        raise ValueError(f"{path} is a folder, not a file")


def save_figure(path: str | None, draw: Callable[..., Any], *data: Any, **options: Any) -> None:
    """Call `draw(*data, path, **options)` and say where the figure is; do nothing without a path."""
    if path is None:
        return
    try:
        draw(*data, Path(path), **options)
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise  # not a missing extra, but a fault of ours
        raise ValueError(f"{path} is not drawn, for lack of matplotlib: pip install 'pellucid[plots]'") from None
    typer.echo(f"drawn: {path}", err=True)


def write_table(rows: Sequence[Sequence[str]], sides: str, indent: str = "") -> None:
    """Write rows under their heads with aligned columns; `sides` says for each column "l" or "r"."""
    terminal = Terminal.of_stdout()
    head, *lines = (
        # Only a terminal cuts long lines; a file or a pipe gets them whole.
        shorten_text(f"{indent}{line}", terminal.width) if terminal.colour else f"{indent}{line}"
        for line in format_table(rows, sides)
    )
    write_lines([terminal.dim(head), *lines])


def write_objects(objects: Iterable[Any]) -> None:
    """Write dataclasses or mappings as JSON, one per line; infinities and NaN become null."""
    write_lines(json_line(as_plain_json(item)) for item in objects)


def as_plain_json(value: Any) -> Any:
    """Return a value made of lists, mappings and finite numbers only, with None for infinities and NaN.

    >>> as_plain_json({"a": (1, float("nan"))})
    {'a': [1, None]}
    """
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, dict):
        return {key: as_plain_json(item) for key, item in value.items()}
    # Arrays of NumPy and torch, without importing either.
    if tolist := getattr(value, "tolist", None):
        value = tolist()
    if isinstance(value, list | tuple):
        return [as_plain_json(item) for item in value]
    return None if isinstance(value, float) and not isfinite(value) else value
