"""`pellucid inspect tokens`, `embedding`, `similar`, `neighbours`, `analogy`, `project`: pieces and their vectors."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pellucid.cli.files import read_sentences, write_lines, write_report
from pellucid.cli.options import JSON, MODEL, argument, file_option, option
from pellucid.cli.terminal import Terminal, escape_controls, format_blocks, format_table, table_lines, wrap_text
from pellucid.store.atomic import require_writable, write_text_whole

if TYPE_CHECKING:
    import numpy as np

    from pellucid.interpret.studies.word_vectors import Analogy, CutText, Embeddings, InputVector

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
        str, option("tokenizer of a model: the one for its source, or for its target", "source|target")
    ] = "source",
    json: Annotated[bool, JSON] = False,
) -> None:
    """Cut a text into pieces and ids, and put it together again.

    Show the normalised text, if it differs; its pieces (▁ is a space), with the id and the word of each; and the text
    that the ids give when they are put together. Words of many pieces and characters that no piece covers are noted.
    """
    from pellucid.interpret.studies.word_vectors import count_words_and_pieces, cut_into_pieces
    from pellucid.store.directory import load_bundle

    tokenizer, cuts = load_bundle(model).tokenizer, []
    for number, line in enumerate(read_sentences("-") if text == "-" else [text]):
        cuts.append(cut := cut_into_pieces(tokenizer, line, side))
        write_report(json, [{**vars(cut), "many": cut.many_piece_words}], [*[""] * (number > 0), *_cut_lines(cut)])
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
  pellucid inspect embedding runs/demo/best blue --at 3
  pellucid inspect embedding runs/demo/best azul --side target --json"""


def show_embedding(
    model: Annotated[str, MODEL],
    word: Annotated[str, argument("WORD", "a word, or a piece as the vocabulary writes it (▁blue)")],
    at: Annotated[
        int | None, option("also show the scaled vector, the vector of position N (from 0), and their sum", "N")
    ] = None,
    side: Annotated[str, option("embedding of the encoder or of the decoder", "source|target")] = "source",
    json: Annotated[bool, JSON] = False,
) -> None:
    """Show all numbers of a word's embedding.

    Show the row of the table, its length, and what becomes of it before the first layer: times sqrt(d_model), plus the
    vector of its position. If a word has several pieces, each piece is shown.
    """
    from pellucid.interpret.studies.word_vectors import input_vectors
    from pellucid.store.directory import load_bundle

    # A position is needed to compute the vectors even if none is shown.
    vectors = input_vectors(load_bundle(model), word, side, at or 0)
    kept = [name for name in vars(vectors[0]) if at is not None or name not in ("at", "position", "input")]
    write_report(
        json,
        ({name: getattr(vector, name) for name in kept} | {"norm": _vector_length(vector.row)} for vector in vectors),
        _embedding_lines(word, vectors, at is not None),
    )


def _vector_length(vector: "np.ndarray") -> float:
    return float((vector @ vector) ** 0.5)


def _embedding_lines(word: str, vectors: "Sequence[InputVector]", with_position: bool) -> Iterator[str]:
    """Yield the numbers of each piece: row, scaled row and, with a position, the input of the first layer."""
    if len(vectors) > 1:
        yield f"{word} is cut into {len(vectors)} pieces: {' '.join(vector.piece for vector in vectors)}"
    for number, vector in enumerate(vectors):
        if number or len(vectors) > 1:
            yield ""
        width = len(vector.row)  # d_model
        length = _vector_length(vector.row)
        yield f"{escape_controls(vector.piece)}, id {vector.id}: {width} numbers, length {length:.4f}"
        yield from _number_grid(vector.row)
        yield ""
        yield f"times sqrt({width}) = {width**0.5:.4f}: length {_vector_length(vector.scaled):.4f}"
        if not with_position:
            continue
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


SIMILARITY_EXAMPLES = """\
  pellucid inspect similar runs/demo/best red blue cat
  pellucid inspect similar runs/demo/best ▁red ▁blue --json"""


def show_similarity(
    model: Annotated[str, MODEL],
    words: Annotated[list[str], WORDS],
    side: Annotated[str, SIDE] = "source",
    json: Annotated[bool, JSON] = False,
) -> None:
    """Measure how similar the vectors of words are.

    Show cosines of embeddings: 1 is the same direction, 0 none in common. A word of several pieces is the mean of their
    vectors. Compare with the last lines: the cosine of two pieces of this vocabulary on average, and how far above or
    below it each pair of up to five words is.
    """
    table = _load_table(model, side)
    spelled_words = table.words(words)
    # `chance` is the cosine of two pieces on average, which the others have to be compared with.
    cosines, chance = table.cosines(spelled_words), table.chance()
    rows = [
        [word.text, word.spelled, *(f"{cosine:.3f}" for cosine in row)]
        for word, row in zip(spelled_words, cosines, strict=True)
    ]
    heads = ["word", "pieces", *(word.text for word in spelled_words)]
    lines = [*table_lines([heads, *rows], "ll" + "r" * len(words)), "", _chance_line(table)]
    # Of more words there would be more lines than anybody reads.
    for a, b in combinations(range(len(words)), 2) if len(words) <= 5 else ():
        above = (cosines[a, b] - chance.mean) / max(chance.deviation, 1e-12)
        place = f"{abs(above):.1f} deviations {'above' if above >= 0 else 'below'} the average"
        lines.append(f"{words[a]} and {words[b]}: {cosines[a, b]:.3f}, {place}")
    write_report(json, [{"side": side, "words": spelled_words, "cosines": cosines, "chance": chance}], lines)


def _load_table(model: str, side: str) -> "Embeddings":
    from pellucid.interpret.studies.word_vectors import embedding_table
    from pellucid.store.directory import load_bundle

    return embedding_table(load_bundle(model), side)


def _chance_line(table: "Embeddings") -> str:
    chance = table.chance()
    return f"two pieces of this vocabulary: {chance.mean:.3f} on average, deviation {chance.deviation:.3f}"


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

    All pieces of the embedding matrix are compared by cosine; the pieces of the word itself are left out.
    """
    table = _load_table(model, side)
    results = [(word, table.neighbours(table.vector(word), count, without=word.ids)) for word in table.words(words)]
    lines: list[str] = []
    for word, neighbours in results:
        rows = [
            [str(rank), neighbour.piece, f"{neighbour.cosine:.3f}"]
            for rank, neighbour in enumerate(neighbours, start=1)
        ]
        lines += [f"{word.text}: {word.spelled}", *table_lines([["", "piece", "cosine"], *rows], "rlr", "  "), ""]
    objects = ({"side": side, "word": word, "neighbours": neighbours} for word, neighbours in results)
    write_report(json, objects, [*lines, _chance_line(table)])


ANALOGY_EXAMPLES = """\
  pellucid inspect analogy runs/demo/best king - man + woman
  pellucid inspect analogy runs/demo/best king man woman --expect queen"""


def show_analogy(
    model: Annotated[str, MODEL],
    words: Annotated[
        list[str],
        argument("WORD...", "words of the analogy: king - man + woman, or three words a b c for a - b + c"),
    ],
    expect: Annotated[str | None, option("expected answer; shows its rank among all answers", "WORD")] = None,
    side: Annotated[str, SIDE] = "source",
    json: Annotated[bool, JSON] = False,
) -> None:
    """Add and subtract word vectors: king - man + woman.

    The answers are the nearest pieces, once without the words of the question, as in published analogies, and once with
    them. With --expect, the rank of the answer is compared with that in tables of random numbers.
    """
    from pellucid.interpret.studies.word_vectors import parse_question, solve_analogy

    table = _load_table(model, side)
    expected = None if expect is None else table.word(expect)
    answer = solve_analogy(table, parse_question(words, table), expected, count=5)
    objects = [{"question": answer.question, **vars(answer), "verdict": answer.verdict}]
    write_report(json, objects, _analogy_lines(answer))


def _analogy_lines(answer: "Analogy") -> Iterator[str]:
    """Yield the answers with and without the words of the question side by side, and the verdict."""
    yield from (answer.question, *(f"  {term.word.text}: {term.word.spelled}" for term in answer.terms), "")
    rows = [["", "without its words", "cosine", "with them", "cosine"]]
    # A small vocabulary may have fewer answers without the words of the question than with them.
    pairs = zip(answer.answers, answer.answers_with_inputs, strict=False)
    for rank, (excluding, including) in enumerate(pairs, start=1):
        rows.append([str(rank), excluding.piece, f"{excluding.cosine:.3f}", including.piece, f"{including.cosine:.3f}"])
    yield from table_lines(rows, "rlrlr", "  ")
    yield from ("", answer.verdict)


PROJECTION_EXAMPLES = """\
  pellucid inspect project runs/demo/best --html words.html
  pellucid inspect project runs/demo/best red blue green cat dog horse
  pellucid inspect project runs/demo/best --dims 3 --html words.html
  pellucid inspect project runs/demo/best --json > vectors.jsonl"""


def show_projection(
    model: Annotated[str, MODEL],
    words: Annotated[
        list[str] | None, argument("[WORD...]", "words to show; default: the first 500 whole words of the vocabulary")
    ] = None,
    dims: Annotated[int, option("dimensions of the map", "2|3")] = 2,
    side: Annotated[str, SIDE] = "source",
    html: Annotated[str | None, file_option("write the map as an HTML page in one file, with search")] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Draw embeddings on a map of two or three dimensions.

    The axes are the directions along which the vectors vary most (principal components); --json has the vectors
    themselves, too, for other projections. A map leaves out most of what they hold: words near each other on the map
    are only a hint; `pellucid inspect neighbours` measures how similar they are.
    """
    from pellucid.interpret.studies.word_vectors import project_vectors, require_dimensions

    require_dimensions(dims)
    require_writable(html, [".html"])
    table = _load_table(model, side)
    if words:
        spelled_words = table.words(dict.fromkeys(words))  # a word that is given twice is one point
        names, spelled = [word.text for word in spelled_words], [word.spelled for word in spelled_words]
        rows = table.matrix(spelled_words)
    else:
        ids = [i for i, piece in enumerate(table.pieces) if len(piece) > 2 and piece.startswith("▁")][:500]
        names = spelled = [table.pieces[i] for i in ids]
        rows = table.vectors[ids]
    projection = project_vectors(rows, dims)
    caption = f"{len(names):,} of {len(table.pieces):,} {side} pieces by pca"
    caption += f", which keeps {sum(projection.shares):.1%} of their variance"
    if html:
        from pellucid.interpret.page.html_file import scatter_html

        page = scatter_html(projection.places, names, title=f"Words of {model}", says=caption)
        write_text_whole(html, page)
        typer.echo(f"{html}: {len(page.encode()):,} bytes", err=True)
    objects = (
        {"word": name, "pieces": pieces, **dict(zip("xyz", point, strict=False)), "vector": vector}
        for name, pieces, point, vector in zip(names, spelled, projection.places.tolist(), rows, strict=True)
    )
    points = (
        "\t".join([escape_controls(name), *(f"{number:.4f}" for number in point)])
        for name, point in zip(names, projection.places, strict=True)
    )
    write_report(json, objects, [caption, *(() if html else points)])
