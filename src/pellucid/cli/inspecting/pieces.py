"""`pellucid inspect tokens` and `embedding`: a text in pieces, and all numbers of a piece's vector."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pellucid.cli.files import FIGURES, read_sentences, save_figure, write_lines, write_objects
from pellucid.cli.options import JSON, MODEL, PLOT, argument, option
from pellucid.cli.terminal import Terminal, escape_controls, format_blocks, format_table, wrap_text
from pellucid.store.atomic import require_writable

if TYPE_CHECKING:
    import numpy as np

    from pellucid.inspect.pieces import CutText, InputVector

TOKENS_EXAMPLES = """\
  pellucid inspect tokens runs/demo/best "Roses are red and violets are blue"
  pellucid inspect tokens runs/demo/best "Las rosas son rojas" --side target --json
  pellucid inspect tokens runs/demo/best - < dev.en"""

UNKNOWN = "?"
"""Mark behind the id of a piece that is UNK, or a byte of a character that no piece covers."""

UNKNOWN_LEGEND = f"{UNKNOWN}: a byte of a character that no piece covers, or the mark for what is unknown"


def show_tokens(
    model: Annotated[str, MODEL],
    text: Annotated[str, argument("TEXT", "text to cut; - is standard input, line by line")],
    side: Annotated[
        str, option("tokenizer of a model: the one for its source, or for its target", "source|target")
    ] = "source",
    json: Annotated[bool, JSON] = False,
) -> None:
    """Cut a text into pieces and ids, and put it together again.

    Show the normalised text, if it differs; its pieces (▁ is a space), with the id and the word of each; and the text
    that the ids give when they are put together. Words of many pieces and characters that no piece covers are noted.
    """
    from pellucid.inspect.pieces import count_words_and_pieces, cut_into_pieces
    from pellucid.store.directory import load_bundle

    tokenizer, cuts = load_bundle(model).tokenizer, []
    for number, line in enumerate(read_sentences("-") if text == "-" else [text]):
        cuts.append(cut := cut_into_pieces(tokenizer, line, side))
        if json:
            write_objects([{**vars(cut), "many": cut.many_piece_words}])
        else:
            write_lines([*[""] * (number > 0), *_cut_lines(cut)])
    if len(cuts) > 1 and not json:
        words, pieces, unknown = count_words_and_pieces(cuts)
        mean = f", {pieces / words:.2f} a word" if words else ""
        write_lines(["", f"{len(cuts):,} lines, {words:,} words, {pieces:,} pieces{mean}, {unknown:,} unknown"])


def _cut_lines(cut: "CutText") -> Iterator[str]:
    """Yield the lines on one text: pieces, ids, words, and the text put together again."""
    width = Terminal.of_stdout().width
    if cut.normalised != cut.text:
        yield f"normalised: {escape_controls(cut.normalised)}"
    yield from piece_lines(vars(cut), "piece", width)
    yield f"back: {escape_controls(cut.back)}" + ("" if cut.back == cut.text else "   (not what was given)")
    count = len(cut.text.split())
    # Special tokens belong to no word and are not counted.
    pieces = sum(word is not None for word in cut.words)
    yield f"{count} word{'s' * (count != 1)}, {pieces} piece{'s' * (pieces != 1)}"
    for word, number in cut.many_piece_words:
        yield from wrap_text(f"{word!r} became {number} pieces, as rare words do", width)
    if any(cut.unknown):
        yield UNKNOWN_LEGEND


def piece_lines(side: Mapping[str, Any], name: str, width: int) -> Iterator[str]:
    """Yield the pieces of a text, headed by a name, each above its id and the number of its word."""
    ids = [f"{token}{UNKNOWN * unknown}" for token, unknown in zip(side["ids"], side["unknown"], strict=True)]
    words = ["-" if word is None else str(word + 1) for word in side["words"]]
    return format_blocks(list(zip(side["pieces"], ids, words, strict=True)), [name, "id", "word"], width)


EMBEDDING_EXAMPLES = """\
  pellucid inspect embedding runs/demo/best blue
  pellucid inspect embedding runs/demo/best blue --at 3 --plot blue.png
  pellucid inspect embedding runs/demo/best azul --side target --json"""


def show_embedding(
    model: Annotated[str, MODEL],
    word: Annotated[str, argument("WORD", "a word, or a piece as the vocabulary writes it (▁blue)")],
    at: Annotated[
        int | None, option("also show the scaled vector, the vector of position N (from 0), and their sum", "N")
    ] = None,
    side: Annotated[str, option("embedding of the encoder or of the decoder", "source|target")] = "source",
    json: Annotated[bool, JSON] = False,
    plot: Annotated[str | None, PLOT] = None,
) -> None:
    """Show all numbers of a word's embedding.

    Show the row of the table, its length, and what becomes of it before the first layer: times sqrt(d_model), plus the
    vector of its position. If a word has several pieces, each piece is shown.
    """
    from pellucid.inspect.pieces import input_vectors
    from pellucid.store.directory import load_bundle

    require_writable(plot, FIGURES)
    # A position is needed to compute the vectors even if none is shown.
    vectors = input_vectors(load_bundle(model), word, side, at or 0)
    if plot:
        _draw_vectors(vectors, at is not None, plot, f"{side} embedding of {word}")
    if json:
        kept = [name for name in vars(vectors[0]) if at is not None or name not in ("at", "position", "input")]
        write_objects(
            {name: getattr(vector, name) for name in kept} | {"norm": _vector_length(vector.row)} for vector in vectors
        )
        return
    if len(vectors) > 1:
        write_lines([f"{word} is cut into {len(vectors)} pieces: {' '.join(vector.piece for vector in vectors)}", ""])
    for number, vector in enumerate(vectors):
        write_lines([*[""] * (number > 0), *_vector_lines(vector, at is not None)])


def _vector_length(vector: "np.ndarray") -> float:
    return float((vector @ vector) ** 0.5)


def _vector_lines(vector: "InputVector", with_position: bool) -> Iterator[str]:
    """Yield the numbers of one piece: row, scaled row and, with a position, the input of the first layer."""
    width = len(vector.row)  # d_model
    yield f"{escape_controls(vector.piece)}, id {vector.id}: {width} numbers, length {_vector_length(vector.row):.4f}"
    yield from _number_grid(vector.row)
    yield ""
    yield f"times sqrt({width}) = {width**0.5:.4f}: length {_vector_length(vector.scaled):.4f}"
    if not with_position:
        return
    yield from _number_grid(vector.scaled)
    yield ""
    if vector.position is None:
        yield f"position {vector.at}: this model adds no vector for it"
    else:
        yield f"position {vector.at}: length {_vector_length(vector.position):.4f}"
        yield from _number_grid(vector.position)
    yield ""
    yield f"what the first layer reads: length {_vector_length(vector.input):.4f}"
    yield from _number_grid(vector.input)


def _number_grid(vector: "np.ndarray") -> Iterator[str]:
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
    yield from (f"  {line}" for line in format_table(rows, "r" * (columns + 1)))


def _draw_vectors(vectors: "list[InputVector]", with_position: bool, plot: str, title: str) -> None:
    """Draw bars, a panel for each stage of each piece."""
    from pellucid.plots.charts import draw_spectrum

    panels: dict[str, np.ndarray] = {}
    for vector in vectors:
        panels[f"{vector.piece}: row of the table"] = vector.row
        if with_position:
            panels[f"{vector.piece}: times sqrt(d_model)"] = vector.scaled
            if vector.position is not None:  # not every kind of position adds a vector
                panels[f"position {vector.at}"] = vector.position
            panels[f"{vector.piece} at {vector.at}: what the first layer reads"] = vector.input
    save_figure(plot, draw_spectrum, panels, title=title)
