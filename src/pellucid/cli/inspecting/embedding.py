"""`pellucid inspect embedding`: all numbers of a word's vector, up to the input of the first layer."""

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
        int | None,
        typer.Option(metavar="N", help="also show the scaled vector, the vector of position N (from 0), and their sum"),
    ] = None,
    side: Annotated[
        str, typer.Option(metavar="source|target", help="embedding of the encoder or of the decoder")
    ] = "source",
    json: Annotated[bool, JSON] = False,
    plot: Annotated[str | None, PLOT] = None,
) -> None:
    """Show all numbers of a word's embedding.

    Show the row of the table, its length, and what becomes of it before the first layer: times sqrt(d_model), plus the
    vector of its position. If a word has several pieces, each piece is shown.
    """
    from pellucid.inspect.input_vectors import input_vectors
    from pellucid.store.directory import load_bundle

    require_figure(plot)
    # A position is needed to compute the vectors even if none is shown.
    vectors = input_vectors(load_bundle(model), word, side, at or 0)
    if plot:
        draw_vectors(vectors, at is not None, plot, f"{side} embedding of {word}")
    if json:
        write_objects(
            {**vars(vector), "norm": vector_length(vector.row)} if at is not None else vector_object(vector)
            for vector in vectors
        )
        return
    if len(vectors) > 1:
        write_lines([f"{word} is cut into {len(vectors)} pieces: {' '.join(vector.piece for vector in vectors)}", ""])
    for number, vector in enumerate(vectors):
        write_lines([*[""] * (number > 0), *vector_lines(vector, at is not None)])


def vector_object(vector: "InputVector") -> dict[str, object]:
    """Return a piece as a JSON object without position."""
    return {
        "piece": vector.piece,
        "id": vector.id,
        "row": vector.row,
        "scaled": vector.scaled,
        "norm": vector_length(vector.row),
    }


def vector_length(vector: "np.ndarray") -> float:
    """Return the Euclidean length of a vector."""
    return float((vector @ vector) ** 0.5)


def vector_lines(vector: "InputVector", with_position: bool) -> Iterator[str]:
    """Yield the numbers of one piece: row, scaled row and, with a position, the input of the first layer."""
    width = len(vector.row)  # d_model
    yield f"{escape_controls(vector.piece)}, id {vector.id}: {width} numbers, length {vector_length(vector.row):.4f}"
    yield from number_grid(vector.row)
    yield ""
    yield f"times sqrt({width}) = {width**0.5:.4f}: length {vector_length(vector.scaled):.4f}"
    if not with_position:
        return
    yield from number_grid(vector.scaled)
    yield ""
    if vector.position is None:
        yield f"position {vector.at}: this model adds no vector for it"
    else:
        yield f"position {vector.at}: length {vector_length(vector.position):.4f}"
        yield from number_grid(vector.position)
    yield ""
    yield f"what the first layer reads: length {vector_length(vector.input):.4f}"
    yield from number_grid(vector.input)


def number_grid(vector: "np.ndarray") -> Iterator[str]:
    """Yield all numbers, 4, 8 or 16 per line as fit, each line with the dimension of its first number."""
    # A number takes 9 columns with its gap (+0.0000 and two blanks), the dimension before them 6.
    room = (min(Terminal.of_stdout().width, 160) - 6) // 9
    columns = max(n for n in (4, 8, 16) if n <= max(room, 4))
    rows = [
        [str(first), *(f"{value:+.4f}" for value in vector[first : first + columns])]
        for first in range(0, len(vector), columns)
    ]
    # The last line is filled up with empty cells, for a table needs equal rows.
    rows = [row + [""] * (columns + 1 - len(row)) for row in rows]
    yield from (f"  {line}" for line in align_columns(rows, "r" * (columns + 1)))


def draw_vectors(vectors: "list[InputVector]", with_position: bool, plot: str, title: str) -> None:
    """Draw bars, a panel for each stage of each piece."""
    from pellucid.plots.spectrum import draw_spectrum

    panels: dict[str, np.ndarray] = {}
    for vector in vectors:
        panels[f"{vector.piece}: row of the table"] = vector.row
        if with_position:
            panels[f"{vector.piece}: times sqrt(d_model)"] = vector.scaled
            if vector.position is not None:  # not every kind of position adds a vector
                panels[f"position {vector.at}"] = vector.position
            panels[f"{vector.piece} at {vector.at}: what the first layer reads"] = vector.input
    save_figure(plot, lambda path: draw_spectrum(panels, path, title=title))
