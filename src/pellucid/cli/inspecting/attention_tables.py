"""Options, traces and tables that the commands looking into one attention share."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import typer

from pellucid.cli.inspecting.output import align_columns
from pellucid.cli.terminal import Terminal, escape_controls, text_width, wrap_items

if TYPE_CHECKING:
    import numpy as np

    from pellucid.api import Model
    from pellucid.trace.session import Trace

WHERE = typer.Option(
    metavar="NAME",
    help="attention to look into, by its name in a trace: encoder.0.self, decoder.3.self, decoder.1.cross",
)
TARGET = typer.Option(metavar="TEXT", help="look into this translation instead of searching for one")
SIDE = typer.Option(
    metavar="output|input",
    help="row of a target word in cross-attention: the one that writes it, or the one that reads it, one further",
)

CELLS_SHOWN = 6
"""Largest numbers of a row that are shown where the table does not fit."""


def trace_tensors(loaded: "Model", sentence: str, target: str | None, where: str, names: Sequence[str]) -> "Trace":
    """Return a trace that keeps these tensors."""
    # The encoder does not depend on the translation: an empty one saves the search.
    forced_target = "" if target is None and where.startswith("encoder") else target
    return loaded.trace(sentence, target=forced_target, keep=names)


def trace_heading_lines(trace: "Trace", where: str) -> list[str]:
    """Return the lines above a table: the sentence and, for the decoder, its translation."""
    return [trace.source.text, *([] if where.startswith("encoder") else [f"→ {trace.target.text}"]), ""]


def format_matrix(
    rows: Sequence[str], heads: Sequence[str], values: "np.ndarray", digits: int, *, sums: bool
) -> Iterator[str]:
    """Yield a table with empty cells for NaN; where it is too wide, each row as a line of its largest numbers."""
    import numpy as np

    terminal = Terminal.of_stdout()
    cells = [[f"{value:.{digits}f}" if np.isfinite(value) else "" for value in row] for row in values]
    totals = [[f"{np.nansum(row):.{digits}f}"] if sums else [] for row in values]
    head = ["", *heads, *(["sum"] if sums else [])]
    lines = align_columns(
        [head, *([name, *row, *total] for name, row, total in zip(rows, cells, totals, strict=True))],
        "l" + "r" * (len(head) - 1),
    )
    # A file or a pipe gets the whole table, however wide it is.
    if not terminal.colour or max(map(text_width, lines)) <= terminal.width:
        yield terminal.dim(lines[0])
        yield from lines[1:]
        return
    for name, row in zip(rows, values, strict=True):
        largest = sorted((n for n in range(len(row)) if np.isfinite(row[n])), key=lambda n: -row[n])[:CELLS_SHOWN]
        yield from wrap_items(
            [f"{escape_controls(name)}:", *(f"{escape_controls(heads[n])} {row[n]:.{digits}f}" for n in largest)],
            terminal.width,
        )


def rows_as_json(values: "np.ndarray") -> list[list[Any]]:
    """Return rows of numbers for JSON, with None for NaN."""
    import numpy as np

    return [[float(value) if np.isfinite(value) else None for value in row] for row in values]
