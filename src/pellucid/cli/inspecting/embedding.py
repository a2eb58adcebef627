"""`pellucid inspect embedding`: all numbers of a word's vector, and what the first layer gets of it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from pellucid.cli.files import write_lines
from pellucid.cli.inspecting.output import JSON, PLOT, align_columns, require_figure, save_figure, write_objects
from pellucid.cli.options import MODEL
from pellucid.cli.terminal import Terminal, escape_controls

if TYPE_CHECKING:
    import numpy as np

    from pellucid.inspect.input_vectors import InputVector

EXAMPLES = """\
  pellucid inspect embedding runs/demo/best blue
  pellucid inspect embedding runs/demo/best blue --at 3 --plot blue.png
  pellucid inspect embedding runs/demo/best azul --side target --json"""


def run(
    model: Annotated[str, MODEL],
    word: Annotated[str, typer.Argument(metavar="WORD", help="a word, or a piece as the vocabulary writes it (▁blue)")],
    at: Annotated[
        int | None, typer.Option(metavar="N", help="show it at this position too, 0 the first: scaled, position, sum")
    ] = None,
    side: Annotated[str, typer.Option(metavar="source|target", help="of the encoder, or of the decoder")] = "source",
    json: Annotated[bool, JSON] = False,
    plot: Annotated[str | None, PLOT] = None,
) -> None:
    """All numbers of a word's embedding.

    The row of the table, its length, and what becomes of it before the first layer: times sqrt(d_model), plus the
    vector of its position. Of a word of several pieces each piece has its own.
    """
    from pellucid.bundle import load_bundle
    from pellucid.inspect.input_vectors import input_vectors

    require_figure(plot)
    found = input_vectors(load_bundle(model), word, side, at or 0)
    if plot:
        draw_vectors(found, at is not None, plot, f"{side} embedding of {word}")
    if json:
        write_objects(
            {**vars(each), "norm": vector_length(each.row)} if at is not None else vector_object(each) for each in found
        )
        return
    if len(found) > 1:
        write_lines([f"{word} is cut into {len(found)} pieces: {' '.join(each.piece for each in found)}", ""])
    for number, each in enumerate(found):
        write_lines([*[""] * (number > 0), *vector_lines(each, at is not None)])


def vector_object(each: "InputVector") -> dict[str, object]:
    """The piece, where no position was asked for."""
    return {"piece": each.piece, "id": each.id, "row": each.row, "scaled": each.scaled, "norm": vector_length(each.row)}


def vector_length(vector: "np.ndarray") -> float:
    """Its length."""
    return float((vector @ vector) ** 0.5)


def vector_lines(each: "InputVector", at: bool) -> Iterator[str]:
    """The numbers of one piece, the dimension of the first of each line before it."""
    width = len(each.row)
    yield f"{escape_controls(each.piece)}, id {each.id}: {width} numbers, length {vector_length(each.row):.4f}"
    yield from number_grid(each.row)
    yield ""
    yield f"times sqrt({width}) = {width**0.5:.4f}: length {vector_length(each.scaled):.4f}"
    if not at:
        return
    yield from number_grid(each.scaled)
    yield ""
    if each.position is None:
        yield f"position {each.at}: this model adds no vector for it"
    else:
        yield f"position {each.at}: length {vector_length(each.position):.4f}"
        yield from number_grid(each.position)
    yield ""
    yield f"what the first layer reads: length {vector_length(each.input):.4f}"
    yield from number_grid(each.input)


def number_grid(vector: "np.ndarray") -> Iterator[str]:
    """All numbers, as many a line as fit: 4, 8 or 16."""
    room = (min(Terminal.of_stdout().width, 160) - 6) // 9
    across = max(n for n in (4, 8, 16) if n <= max(room, 4))
    rows = [
        [str(first), *(f"{value:+.4f}" for value in vector[first : first + across])]
        for first in range(0, len(vector), across)
    ]
    rows = [row + [""] * (across + 1 - len(row)) for row in rows]
    yield from (f"  {line}" for line in align_columns(rows, "r" * (across + 1)))


def draw_vectors(found: "list[InputVector]", at: bool, plot: str, title: str) -> None:
    """Bars: a panel for each step of each piece."""
    from pellucid.plots.spectrum import draw_spectrum

    panels: dict[str, np.ndarray] = {}
    for each in found:
        panels[f"{each.piece}: row of the table"] = each.row
        if at:
            panels[f"{each.piece}: times sqrt(d_model)"] = each.scaled
            if each.position is not None:
                panels[f"position {each.at}"] = each.position
            panels[f"{each.piece} at {each.at}: what the first layer reads"] = each.input
    save_figure(plot, lambda path: draw_spectrum(panels, path, title=title))
