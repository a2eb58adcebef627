"""`pellucid inspect tokens`, `embedding`, `similar`, `neighbours`, `analogy`, `project`: pieces, vectors."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pellucid.cli.files import read_sentences, write_lines, write_report
from pellucid.cli.inspecting.study_views import Column, column_lines
from pellucid.cli.options import JSON, MODEL, argument, file_option, option
from pellucid.cli.terminal import (
    Terminal,
    escape_controls,
    format_blocks,
    format_table,
    wrap_text,
)
from pellucid.store.atomic import require_writable, write_text_whole

if TYPE_CHECKING:
    import numpy as np

    from pellucid.interpret.studies.word_vectors import (
        Analogy,
        CutText,
        Embeddings,
        InputVector,
        Neighbour,
        SpelledWord,
    )

SIDE = option("embedding of the encoder, of the decoder, or the one that makes logits", "source|target|output")
WORDS = argument("WORD...", "words, or pieces as the vocabulary writes them (▁red)")

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
        str,
        option("tokenizer of a model: the one for its source, or for its target", "source|target"),
    ] = "source",
    json: Annotated[bool, JSON] = False,
) -> None:
    """Cut a text into pieces and ids, and put it together again.

    Show the normalised text, if it differs; its pieces (▁ is a space), with the id and the word of
    each; and the text that the ids give when they are put together. Words of many pieces and
    characters that no piece covers are noted.
    """
    from pellucid.interpret.studies.word_vectors import count_words_and_pieces, cut_into_pieces
    from pellucid.store.directory import load_bundle

    tokenizer, cuts = load_bundle(model).tokenizer, []
    texts = read_sentences("-") if text == "-" else [text]
    for number, line in enumerate(texts):
        cut = cut_into_pieces(tokenizer, line, side)
        cuts.append(cut)
        lines = [*_cut_lines(cut)]
        if number > 0:  # a blank line between two texts
            lines.insert(0, "")
        write_report(json, [{**vars(cut), "many": cut.many_piece_words}], lines)

    if len(cuts) > 1 and not json:
        words, pieces, unknown = count_words_and_pieces(cuts)
        mean = f", {pieces / words:.2f} a word" if words else ""
        counts = f"{len(cuts):,} lines, {words:,} words, {pieces:,} pieces{mean}"
        write_lines(["", f"{counts}, {unknown:,} unknown"])


def _cut_lines(cut: "CutText") -> Iterator[str]:
    """Yield the lines on one text: pieces, ids, words, and the text put together again."""
    width = Terminal.of_stdout().width
    if cut.normalised != cut.text:
        yield f"normalised: {escape_controls(cut.normalised)}"
    yield from piece_lines(vars(cut), "piece", width)

    difference = "" if cut.back == cut.text else "   (not what was given)"
    yield f"back: {escape_controls(cut.back)}{difference}"
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
    columns = []
    rows = zip(side["pieces"], side["ids"], side["unknown"], side["words"], strict=True)
    for piece, token, unknown, word in rows:
        number = "-" if word is None else str(word + 1)
        columns.append((piece, f"{token}{UNKNOWN * unknown}", number))
    return format_blocks(columns, [name, "id", "word"], width)


EMBEDDING_EXAMPLES = """\
  pellucid inspect embedding runs/demo/best blue
  pellucid inspect embedding runs/demo/best blue --at 3
  pellucid inspect embedding runs/demo/best azul --side target --json"""


def show_embedding(
    model: Annotated[str, MODEL],
    word: Annotated[
        str,
        argument("WORD", "a word, or a piece as the vocabulary writes it (▁blue)"),
    ],
    at: Annotated[
        int | None,
        option(
            "also show the scaled vector, the vector of position N (from 0), and their sum",
            "N",
        ),
    ] = None,
    side: Annotated[
        str,
        option("embedding of the encoder or of the decoder", "source|target"),
    ] = "source",
    json: Annotated[bool, JSON] = False,
) -> None:
    """Show all numbers of a word's embedding.

    Show the row of the table, its length, and what becomes of it before the first layer: times
    sqrt(d_model), plus the vector of its position. If a word has several pieces, each piece is
    shown.
    """
    from pellucid.interpret.studies.word_vectors import input_vectors
    from pellucid.store.directory import load_bundle

    # A position is needed to compute the vectors even if none is shown.
    vectors = input_vectors(load_bundle(model), word, side, at or 0)
    objects = []
    for vector in vectors:
        numbers = {**vars(vector), "norm": _vector_length(vector.row)}
        if at is None:
            for name in ("at", "position", "input"):
                del numbers[name]
        objects.append(numbers)

    write_report(json, objects, _embedding_lines(word, vectors, at is not None))


def _vector_length(vector: "np.ndarray") -> float:
    return float((vector @ vector) ** 0.5)


def _embedding_lines(
    word: str,
    vectors: "Sequence[InputVector]",
    with_position: bool,
) -> Iterator[str]:
    """Yield the numbers of each piece: row, scaled row and, with a position, the first layer's input."""
    if len(vectors) > 1:
        pieces = " ".join(vector.piece for vector in vectors)
        yield f"{word} is cut into {len(vectors)} pieces: {pieces}"

    for number, vector in enumerate(vectors):
        if number or len(vectors) > 1:
            yield ""
        width = len(vector.row)  # d_model
        length = f"length {_vector_length(vector.row):.4f}"
        yield f"{escape_controls(vector.piece)}, id {vector.id}: {width} numbers, {length}"
        yield from _number_grid(vector.row)
        yield ""
        yield f"times sqrt({width}) = {width**0.5:.4f}: length {_vector_length(vector.scaled):.4f}"
        if with_position:
            yield from _position_grids(vector)


def _position_grids(vector: "InputVector") -> Iterator[str]:
    """Yield the numbers of a scaled row, of its position, and of their sum."""
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
    """Yield all numbers, 4, 8 or 16 per line as fit, each line with its first number's dimension."""
    # A number takes 9 columns with its gap (+0.0000 and two blanks), the dimension before them 6.
    room = (min(Terminal.of_stdout().width, 160) - 6) // 9
    columns = max(n for n in (4, 8, 16) if n <= max(room, 4))
    rows = []
    for first in range(0, len(vector), columns):
        numbers = [f"{value:+.4f}" for value in vector[first : first + columns]]
        # The last line is filled up with empty cells, for a table needs equal rows.
        missing = [""] * (columns - len(numbers))
        rows.append([str(first), *numbers, *missing])

    yield from (f"  {line}" for line in format_table(rows, "r" * (columns + 1)))


SIMILARITY_EXAMPLES = """\
  pellucid inspect similar runs/demo/best red blue cat"""


def show_similarity(
    model: Annotated[str, MODEL],
    words: Annotated[list[str], WORDS],
    side: Annotated[str, SIDE] = "source",
    json: Annotated[bool, JSON] = False,
) -> None:
    """Measure how similar the vectors of words are.

    Show cosines of embeddings: 1 is the same direction, 0 none in common. A word of several pieces
    is the mean of their vectors. Compare with the last lines: the cosine of two pieces of this
    vocabulary on average, and how far above or below it each pair of up to five words is.
    """
    table = _load_table(model, side)
    spelled_words = table.words(words)
    # `chance` is the cosine of two pieces on average, which the others have to be compared with.
    cosines, chance = table.cosines(spelled_words), table.chance()
    columns = [
        Column[int]("word", lambda row: spelled_words[row].text, side="l"),
        Column[int]("pieces", lambda row: spelled_words[row].spelled, side="l"),
    ]
    for other, word in enumerate(spelled_words):
        columns.append(Column(word.text, lambda row, other=other: cosines[row, other], ".3f"))

    lines = [*column_lines(range(len(words)), columns), "", _chance_line(table)]
    # Of more words there would be more lines than anybody reads.
    for a, b in combinations(range(len(words)), 2) if len(words) <= 5 else ():
        above = (cosines[a, b] - chance.mean) / max(chance.deviation, 1e-12)
        place = f"{abs(above):.1f} deviations {'above' if above >= 0 else 'below'} the average"
        lines.append(f"{words[a]} and {words[b]}: {cosines[a, b]:.3f}, {place}")

    study = {"side": side, "words": spelled_words, "cosines": cosines, "chance": chance}
    write_report(json, [study], lines)


def _load_table(model: str, side: str) -> "Embeddings":
    from pellucid.interpret.studies.word_vectors import embedding_table
    from pellucid.store.directory import load_bundle

    return embedding_table(load_bundle(model), side)


def _chance_line(table: "Embeddings") -> str:
    chance = table.chance()
    average = f"{chance.mean:.3f} on average, deviation {chance.deviation:.3f}"
    return f"two pieces of this vocabulary: {average}"


NEIGHBOURS_EXAMPLES = """\
  pellucid inspect neighbours runs/demo/best blue
  pellucid inspect neighbours runs/demo/best blue ▁cat -k 20 --json"""


def show_neighbours(
    model: Annotated[str, MODEL],
    words: Annotated[list[str], WORDS],
    count: Annotated[int, option("number of pieces to show", None, "--count", "-k")] = 10,
    side: Annotated[str, SIDE] = "source",
    json: Annotated[bool, JSON] = False,
) -> None:
    """Find the pieces whose vectors are most similar to a word's.

    All pieces of the embedding matrix are compared by cosine; the pieces of the word itself are
    left out.
    """
    table = _load_table(model, side)
    lines: list[str] = []
    objects: list[dict[str, Any]] = []
    for word in table.words(words):
        neighbours = table.neighbours(table.vector(word), count, without=word.ids)
        ranked = enumerate(neighbours, start=1)
        lines += [
            f"{word.text}: {word.spelled}",
            *column_lines(ranked, NEIGHBOUR_COLUMNS, "  "),
            "",
        ]
        objects.append({"side": side, "word": word, "neighbours": neighbours})

    write_report(json, objects, [*lines, _chance_line(table)])


NEIGHBOUR_COLUMNS: "Sequence[Column[tuple[int, Neighbour]]]" = (
    Column("", lambda row: row[0]),
    Column("piece", lambda row: row[1].piece, side="l"),
    Column("cosine", lambda row: row[1].cosine, ".3f"),
)

ANALOGY_EXAMPLES = """\
  pellucid inspect analogy runs/demo/best king - man + woman
  pellucid inspect analogy runs/demo/best king man woman --expect queen"""


def show_analogy(
    model: Annotated[str, MODEL],
    words: Annotated[
        list[str],
        argument(
            "WORD...",
            "words of the analogy: king - man + woman, or three words a b c for a - b + c",
        ),
    ],
    expect: Annotated[
        str | None,
        option("expected answer; shows its rank among all answers", "WORD"),
    ] = None,
    side: Annotated[str, SIDE] = "source",
    json: Annotated[bool, JSON] = False,
) -> None:
    """Add and subtract word vectors: king - man + woman.

    The answers are the nearest pieces, once without the words of the question, as in published
    analogies, and once with them. With --expect, the rank of the answer is compared with that in
    tables of random numbers.
    """
    from pellucid.interpret.studies.word_vectors import parse_question, solve_analogy

    table = _load_table(model, side)
    expected = None if expect is None else table.word(expect)
    answer = solve_analogy(table, parse_question(words, table), expected, count=5)
    objects = [{"question": answer.question, **vars(answer), "verdict": answer.verdict}]
    write_report(json, objects, _analogy_lines(answer))


ANSWER_COLUMNS: "Sequence[Column[tuple[int, Neighbour, Neighbour]]]" = (
    Column("", lambda row: row[0]),
    Column("without its words", lambda row: row[1].piece, side="l"),
    Column("cosine", lambda row: row[1].cosine, ".3f"),
    Column("with them", lambda row: row[2].piece, side="l"),
    Column("cosine", lambda row: row[2].cosine, ".3f"),
)


def _analogy_lines(answer: "Analogy") -> Iterator[str]:
    """Yield the answers with and without the words of the question side by side, and the verdict."""
    yield answer.question
    yield from (f"  {term.word.text}: {term.word.spelled}" for term in answer.terms)
    yield ""

    # A small vocabulary may have fewer answers without the words of the question than with them.
    ranks = range(1, len(answer.answers) + 1)
    rows = zip(ranks, answer.answers, answer.answers_with_inputs, strict=False)
    yield from column_lines(rows, ANSWER_COLUMNS, "  ")
    yield from ("", answer.verdict)


WORDS_OF_MAP = 500
"""Whole words that a map shows if none are named."""

PROJECTION_EXAMPLES = """\
  pellucid inspect project runs/demo/best --html words.html
  pellucid inspect project runs/demo/best red blue green cat dog horse
  pellucid inspect project runs/demo/best --dims 3 --html words.html
  pellucid inspect project runs/demo/best --json > vectors.jsonl"""


def show_projection(
    model: Annotated[str, MODEL],
    words: Annotated[
        list[str] | None,
        argument(
            "[WORD...]",
            "words to show; default: the first 500 whole words of the vocabulary",
        ),
    ] = None,
    dims: Annotated[int, option("dimensions of the map", "2|3")] = 2,
    side: Annotated[str, SIDE] = "source",
    html: Annotated[
        str | None,
        file_option("write the map as an HTML page in one file, with search"),
    ] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Draw embeddings on a map of two or three dimensions.

    The axes are the directions along which the vectors vary most (principal components); --json has
    the vectors themselves, too, for other projections. A map leaves out most of what they hold:
    words near each other on the map are only a hint; `pellucid inspect neighbours` measures how
    similar they are.
    """
    from pellucid.interpret.studies.word_vectors import project_vectors, require_dimensions

    require_dimensions(dims)
    require_writable(html, [".html"])
    table = _load_table(model, side)
    names, spelled, rows = _points_of_map(table, words)
    projection = project_vectors(rows, dims)
    kept = f"which keeps {sum(projection.shares):.1%} of their variance"
    caption = f"{len(names):,} of {len(table.pieces):,} {side} pieces by pca, {kept}"

    if html:
        from pellucid.interpret.page.html_file import scatter_html

        page = scatter_html(projection.places, names, title=f"Words of {model}", says=caption)
        write_text_whole(html, page)
        typer.echo(f"{html}: {len(page.encode()):,} bytes", err=True)

    objects, lines = [], [caption]
    for number, name in enumerate(names):
        point = projection.places[number]
        coordinates = dict(zip("xyz", point.tolist(), strict=False))
        objects.append({"word": name, "pieces": spelled[number], **coordinates, "vector": rows[number]})
        if not html:
            cells = [escape_controls(name), *(f"{coordinate:.4f}" for coordinate in point)]
            lines.append("\t".join(cells))

    write_report(json, objects, lines)


def _points_of_map(
    table: "Embeddings",
    words: "Sequence[str] | None",
) -> "tuple[list[str], list[str], np.ndarray]":
    """Return the name, the pieces and the vector of each word of a map, or of the first whole words."""
    if words:
        spelled_words: list[SpelledWord] = table.words(dict.fromkeys(words))  # each word is one point
        names = [word.text for word in spelled_words]
        return names, [word.spelled for word in spelled_words], table.matrix(spelled_words)

    ids = []
    for i, piece in enumerate(table.pieces):
        if len(piece) > 2 and piece.startswith("▁"):
            ids.append(i)

    ids = ids[:WORDS_OF_MAP]
    names = [table.pieces[i] for i in ids]
    return names, names, table.vectors[ids]
