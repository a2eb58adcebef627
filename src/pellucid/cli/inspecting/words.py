"""`pellucid inspect similar`, `neighbours`, `analogy` and `project`: words as vectors."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pellucid.cli.files import FIGURES, name_file_in_errors, read_sentences, save_figure, write_lines, write_objects
from pellucid.cli.options import JSON, MODEL, PLOT, argument, file_option, option
from pellucid.cli.terminal import escape_controls, write_table
from pellucid.store.atomic import require_writable, write_text_whole

if TYPE_CHECKING:
    import numpy as np

    from pellucid.inspect.words import Analogy, Embeddings, SignedWord, SpelledWord

SIMILARITY_EXAMPLES = """\
  pellucid inspect similar runs/demo/best red blue cat
  pellucid inspect similar runs/demo/best ▁red ▁blue --json
  pellucid inspect similar runs/demo/best red blue cat dog --plot similar.svg"""

SIDE = option(
    "embedding of the encoder, of the decoder, or the one that makes logits",
    "source|target|output",
)


def show_similarity(
    model: Annotated[str, MODEL],
    words: Annotated[list[str], argument("WORD...", "words, or pieces as the vocabulary writes them (▁red)")],
    side: Annotated[str, SIDE] = "source",
    json: Annotated[bool, JSON] = False,
    plot: Annotated[str | None, PLOT] = None,
) -> None:
    """Measure how similar the vectors of words are.

    Show cosines of embeddings: 1 is the same direction, 0 none in common. A word of several pieces is the mean of their
    vectors. Compare with the last lines: the cosine of two pieces of this vocabulary on average, and how far above or
    below it each pair of up to five words is.
    """
    from pellucid.inspect.words import embedding_table
    from pellucid.store.directory import load_bundle

    require_writable(plot, FIGURES)
    table = embedding_table(load_bundle(model), side)
    spelled_words = table.words(words)
    # `chance` is the cosine of two pieces on average, which the others have to be compared with.
    cosines, chance = table.cosines(spelled_words), table.chance()
    if plot:
        from pellucid.plots.figure import draw_heat_map

        names = [word.text for word in spelled_words]
        numbers = [[f"{cosine:.2f}" for cosine in row] for row in cosines]
        labels = {"title": "Cosines of embeddings", "rows": names, "columns": names, "cells": numbers}
        save_figure(plot, draw_heat_map, cosines, **labels, signed=True, high=1.0)
    if json:
        write_objects([{"side": side, "words": spelled_words, "cosines": cosines, "chance": chance}])
        return
    rows = [
        [word.text, word.spelled, *(f"{cosine:.3f}" for cosine in row)]
        for word, row in zip(spelled_words, cosines, strict=True)
    ]
    write_table([["word", "pieces", *(word.text for word in spelled_words)], *rows], "ll" + "r" * len(spelled_words))
    write_lines(["", f"two pieces of this vocabulary: {chance.mean:.3f} on average, deviation {chance.deviation:.3f}"])
    # Of more words there would be more lines than anybody reads.
    for a, b in combinations(range(len(words)), 2) if len(words) <= 5 else ():
        above = (cosines[a, b] - chance.mean) / max(chance.deviation, 1e-12)
        place = f"{abs(above):.1f} deviations {'above' if above >= 0 else 'below'} the average"
        write_lines([f"{words[a]} and {words[b]}: {cosines[a, b]:.3f}, {place}"])


NEIGHBOURS_EXAMPLES = """\
  pellucid inspect neighbours runs/demo/best blue
  pellucid inspect neighbours runs/demo/best blue ▁cat -k 20 --json"""


def show_neighbours(
    model: Annotated[str, MODEL],
    words: Annotated[list[str], argument("WORD...", "words, or pieces as the vocabulary writes them (▁red)")],
    count: Annotated[int, option("number of pieces to show", None, "--count", "-k")] = 10,
    side: Annotated[str, SIDE] = "source",
    json: Annotated[bool, JSON] = False,
) -> None:
    """Find the pieces whose vectors are most similar to a word's.

    All pieces of the embedding matrix are compared by cosine; the pieces of the word itself are left out.
    """
    from pellucid.inspect.words import embedding_table
    from pellucid.store.directory import load_bundle

    table = embedding_table(load_bundle(model), side)
    results = [(word, table.neighbours(table.vector(word), count, without=word.ids)) for word in table.words(words)]
    if json:
        write_objects({"side": side, "word": word, "neighbours": neighbours} for word, neighbours in results)
        return
    for number, (word, neighbours) in enumerate(results):
        write_lines([*[""] * (number > 0), f"{word.text}: {word.spelled}"])
        rows = [
            [str(rank), neighbour.piece, f"{neighbour.cosine:.3f}"]
            for rank, neighbour in enumerate(neighbours, start=1)
        ]
        write_table([["", "piece", "cosine"], *rows], "rlr", indent="  ")
    chance = table.chance()  # what a cosine has to be compared with
    write_lines(["", f"two pieces of this vocabulary: {chance.mean:.3f} on average, deviation {chance.deviation:.3f}"])


ANALOGY_EXAMPLES = """\
  pellucid inspect analogy runs/demo/best king - man + woman
  pellucid inspect analogy runs/demo/best king man woman --expect queen
  pellucid inspect analogy runs/demo/best --file analogies.txt --json"""


def show_analogy(
    model: Annotated[str, MODEL],
    words: Annotated[
        list[str] | None,
        argument("[WORD...]", "words of the analogy: king - man + woman, or three words a b c for a - b + c"),
    ] = None,
    expect: Annotated[str | None, option("expected answer; shows its rank among all answers", "WORD")] = None,
    file: Annotated[
        str | None,
        file_option(
            "count how many analogies come out; one per line: king - man + woman = queen, or man king woman queen"
        ),
    ] = None,
    count: Annotated[int, option("number of answers to show", None, "--count", "-k")] = 5,
    side: Annotated[str, SIDE] = "source",
    seed: Annotated[int, option("random seed of the tables of random numbers")] = 1,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Add and subtract word vectors: king - man + woman.

    The answers are the nearest pieces, once without the words of the question, as in published analogies, and once
    with them. With --expect or --file, the result is compared with tables of random numbers.
    """
    from pellucid.inspect.words import can_be_asked, embedding_table, measure_accuracy, parse_question, solve_analogy
    from pellucid.store.directory import load_bundle

    if bool(words) == (file is not None):
        raise ValueError("give the words of one analogy, such as king - man + woman, or a file of them with --file")
    if file is not None and expect is not None:
        raise ValueError("each line of a file names its own answer; leave --expect out")
    table = embedding_table(load_bundle(model), side)
    if file is not None:
        with name_file_in_errors(file):
            all_questions = list(_read_questions(file, table))
            questions = [question for question in all_questions if can_be_asked(*question)]
            accuracy = measure_accuracy(table, questions, seed=seed)
        left_out = len(all_questions) - len(questions)
        if json:
            write_objects([{**vars(accuracy), "left_out": left_out, "verdict": accuracy.verdict}])
        else:
            write_lines(
                [
                    f"{accuracy.right:,} of {accuracy.count:,} come out, the words of the question left out",
                    f"{accuracy.right_with_inputs:,} with the words of the question included",
                    *([f"{left_out:,} left out: their answer shares a piece with the question"] if left_out else []),
                    accuracy.verdict,
                ]
            )
        return
    expected = None if expect is None else table.word(expect)
    answer = solve_analogy(table, parse_question(words or [], table), expected, count=count)
    if json:
        write_objects([{"question": answer.question, **vars(answer), "verdict": answer.verdict}])
    else:
        _write_analogy(answer)


def _read_questions(file: str, table: "Embeddings") -> "Iterator[tuple[tuple[SignedWord, ...], SpelledWord]]":
    """Yield the analogies of a file; blank lines and titles, which begin with : or #, are skipped."""
    from pellucid.inspect.words import parse_question

    for number, line in enumerate(read_sentences(file), start=1):
        if not line.strip() or line.startswith((":", "#")):
            continue
        question, equals, answer = line.partition("=")
        # Two forms: with = and signs, or the four bare words of published lists.
        words = question.split() if equals else line.split()[:3]
        answer_words = answer.split() if equals else line.split()[3:]
        if len(answer_words) != 1:
            raise ValueError(f"line {number} is {line[:60]!r}; write the analogy as: king - man + woman = queen")
        try:
            # Without signs a line has the order of the published lists: man king woman queen.
            signed = words if equals else [words[1], "-", words[0], "+", words[2]]
            yield parse_question(signed, table), table.word(answer_words[0])
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None


def _write_analogy(answer: "Analogy") -> None:
    """Write the answers with and without the words of the question side by side, and the verdict."""
    write_lines([answer.question, *(f"  {term.word.text}: {term.word.spelled}" for term in answer.terms), ""])
    rows = [["", "without its words", "cosine", "with them", "cosine"]]
    # A small vocabulary may have fewer answers without the words of the question than with them.
    pairs = zip(answer.answers, answer.answers_with_inputs, strict=False)
    for rank, (excluding, including) in enumerate(pairs, start=1):
        rows.append([str(rank), excluding.piece, f"{excluding.cosine:.3f}", including.piece, f"{including.cosine:.3f}"])
    write_table(rows, "rlrlr", indent="  ")
    write_lines(["", answer.verdict])


PROJECTION_EXAMPLES = """\
  pellucid inspect project runs/demo/best --html words.html
  pellucid inspect project runs/demo/best red blue green cat dog horse
  pellucid inspect project runs/demo/best --dims 3 --html words.html
  pellucid inspect project runs/demo/best --tsv words.tsv --vectors vectors.tsv"""


def show_projection(
    model: Annotated[str, MODEL],
    words: Annotated[
        list[str] | None, argument("[WORD...]", "words to show; default: pieces of the vocabulary")
    ] = None,
    file: Annotated[str | None, file_option("file of words to show, one per line", "--words")] = None,
    count: Annotated[
        int, option("without words: show the first N whole words of the vocabulary; 0: all pieces", "N")
    ] = 500,
    dims: Annotated[int, option("dimensions of the map", "2|3")] = 2,
    side: Annotated[str, SIDE] = "source",
    html: Annotated[str | None, file_option("write the map as an HTML page in one file, with search")] = None,
    tsv: Annotated[str | None, file_option("write names, pieces and coordinates, with a header line")] = None,
    vectors: Annotated[str | None, file_option("write the vectors, as external projectors read them")] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Draw embeddings on a map of two or three dimensions.

    The axes are the directions along which the vectors vary most (principal components); --vectors writes the vectors
    themselves for other projections. A map leaves out most of what they hold: words near each other on the map are only
    a hint; `pellucid inspect neighbours` measures how similar they are.
    """
    from pellucid.inspect.words import embedding_table, project_vectors, require_dimensions
    from pellucid.store.directory import load_bundle

    require_dimensions(dims)
    for path, ending in ((html, ".html"), (tsv, ".tsv"), (vectors, ".tsv")):
        require_writable(path, [ending])
    if words and file:
        raise ValueError("words are given and a file of them too; leave one out")
    table = embedding_table(load_bundle(model), side)
    # A word that is given twice is one point.
    chosen_words = [line.strip() for line in read_sentences(file) if line.strip()] if file else words or []
    if file and not chosen_words:
        raise ValueError(f"{file} has no word")
    if chosen_words:
        spelled_words = table.words(dict.fromkeys(chosen_words))
        names, spelled = [word.text for word in spelled_words], [word.spelled for word in spelled_words]
        rows = table.matrix(spelled_words)
    else:
        names, rows = _vectors_of_first_pieces(table, count)
        spelled = names
    projection = project_vectors(rows, dims)
    caption = f"{len(names):,} of {len(table.pieces):,} {side} pieces by pca"
    caption += f", which keeps {sum(projection.shares):.1%} of their variance"
    if html:
        from pellucid.page.html import scatter_html

        _write_file(html, scatter_html(projection.places, names, title=f"Words of {model}", says=caption))
    letters = "xyz"[:dims]
    if tsv:
        cells = [
            [*words, *_format_digits(point)] for *words, point in zip(names, spelled, projection.places, strict=True)
        ]
        _write_file(tsv, _tab_separated([["word", "pieces", *letters], *cells]))
    if vectors:
        _write_file(vectors, _tab_separated(map(_format_digits, rows)))
    if json:
        write_objects(
            {"word": name, "pieces": pieces, **dict(zip(letters, point, strict=True))}
            for name, pieces, point in zip(names, spelled, projection.places.tolist(), strict=True)
        )
        return
    write_lines([caption])
    if not (html or tsv or vectors):
        write_lines(
            "\t".join([escape_controls(name), *(f"{number:.4f}" for number in point)])
            for name, point in zip(names, projection.places, strict=True)
        )


def _vectors_of_first_pieces(table: "Embeddings", count: int) -> "tuple[list[str], np.ndarray]":
    """Return the first pieces that begin a word of two letters or more, or with count 0 all, with their vectors."""
    if count < 0:
        raise ValueError(f"--count is {count}, it must be 0 or more")
    whole = [i for i, piece in enumerate(table.pieces) if len(piece) > 2 and piece.startswith("▁")]
    ids = whole[:count] if count else list(range(len(table.pieces)))
    return [table.pieces[i] for i in ids], table.vectors[ids]


def _format_digits(numbers: "np.ndarray") -> list[str]:
    """Return numbers with seven significant digits, about as many as a float32 has."""
    return [f"{number:.7g}" for number in numbers]


def _tab_separated(rows: Iterable[Sequence[str]]) -> str:
    """Return rows as tab-separated lines."""
    # Escapes keep tabs and line ends inside a word from splitting its cell.
    return "".join("\t".join(escape_controls(cell) for cell in row) + "\n" for row in rows)


def _write_file(path: str, text: str) -> None:
    """Write a text file, whole or not at all, and report its size."""
    write_text_whole(path, text)
    typer.echo(f"{path}: {Path(path).stat().st_size:,} bytes", err=True)
