"""What the commands that look into one attention share: their options, a trace of what they need, tables that fit."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import typer

from pellucid.cli.inspecting.output import align_columns
from pellucid.cli.terminal import Terminal, escape_controls, flow_parts, text_width

if TYPE_CHECKING:
    import numpy as np

    from pellucid.api import Model
    from pellucid.trace.trace import Trace

WHERE = typer.Option(
    metavar="NAME", help="which attention, as a trace names it: encoder.0.self, decoder.3.self, decoder.1.cross"
)
TARGET = typer.Option(metavar="TEXT", help="a translation to look at, instead of one that is searched for")
SIDE = typer.Option(
    metavar="output|input", help="of cross-attention: the row that writes a word, or the row that reads it, one further"
)

MOST_SHOWN = 6
"""What a row shows where the table does not fit."""


def trace_tensors(loaded: "Model", sentence: str, target: str | None, where: str, names: Sequence[str]) -> "Trace":
    """A trace of these tensors; what only concerns the encoder needs no translation."""
    given = "" if target is None and where.startswith("encoder") else target
    return loaded.trace(sentence, target=given, keep=names)


def sentence_lines_of(trace: "Trace", where: str) -> list[str]:
    """What is looked at."""
    return [trace.source.text, *([] if where.startswith("encoder") else [f"→ {trace.target.text}"]), ""]


def format_matrix(
    rows: Sequence[str], heads: Sequence[str], values: "np.ndarray", digits: int, *, sums: bool
) -> Iterator[str]:
    """A table with empty cells for what is NaN; where it is too wide, each row as a line of its largest numbers."""
    import numpy as np

    at = Terminal.of_stdout()
    cells = [[f"{value:.{digits}f}" if np.isfinite(value) else "" for value in row] for row in values]
    totals = [[f"{np.nansum(row):.{digits}f}"] if sums else [] for row in values]
    head = ["", *heads, *(["sum"] if sums else [])]
    lines = align_columns(
        [head, *([name, *row, *total] for name, row, total in zip(rows, cells, totals, strict=True))],
        "l" + "r" * (len(head) - 1),
    )
    if not at.colour or max(map(text_width, lines)) <= at.width:
        yield at.dim(lines[0])
        yield from lines[1:]
        return
    for name, row in zip(rows, values, strict=True):
        order = sorted((n for n in range(len(row)) if np.isfinite(row[n])), key=lambda n: -row[n])[:MOST_SHOWN]
        yield from flow_parts(
            [f"{escape_controls(name)}:", *(f"{escape_controls(heads[n])} {row[n]:.{digits}f}" for n in order)],
            at.width,
        )


def rows_as_json(values: "np.ndarray") -> list[list[Any]]:
    """For JSON: None for what is NaN."""
    import numpy as np

    return [[float(value) if np.isfinite(value) else None for value in row] for row in values]
