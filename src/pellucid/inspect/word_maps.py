"""Words of a model for a page, as JSON: a map of each table, nearest pieces, cosines and analogies."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from jaxtyping import Float

from pellucid.inspect.analogies import can_be_asked, parse_question, solve_analogy
from pellucid.inspect.embeddings import Embeddings, Neighbour, SpelledWord, embedding_table
from pellucid.inspect.projection import project_pca
from pellucid.store.directory import Bundle

MOST_PIECES_IN_FILE = 6000
"""Most pieces that the map of a file holds, those of the sentence counted: the first of a vocabulary are its commonest
in most kinds of tokenizers, and 6,000 take some 100 kB."""

NEIGHBOURS_SHOWN = 8
"""Nearest pieces that a page lists."""

MOST_WORDS = 16
"""Most words whose cosines are shown beside each other."""

DIGITS = 5
"""Significant digits of coordinates and cosines: more than a map or a column shows."""


def distinct_tables(bundle: Bundle) -> dict[str, str]:
    """Return the tables of a model that are not shared with another, and what each does, in words."""
    tie = bundle.model.config.tie
    if tie == "all":
        return {"source": "read by the encoder, read by the decoder, and written: one table for all three"}
    if tie == "decoder":
        return {"source": "read by the encoder", "target": "read by the decoder, and written: one table for both"}
    return {"source": "read by the encoder", "target": "read by the decoder", "output": "what makes the logits"}


def distinct_table(bundle: Bundle, side: str) -> Embeddings:
    """Return the table of a side; ValueError for a side that has no table of its own."""
    tables = distinct_tables(bundle)
    if side not in tables:
        raise ValueError(f"side is {side!r:.40}; this model has tables for {', '.join(tables)}")
    return embedding_table(bundle, side)


def word_map(bundle: Bundle, side: str, most: int | None = None, with_ids: Iterable[int] = ()) -> dict[str, Any]:
    """Return the coordinates of the pieces along the two directions in which the table varies most.

    All pieces are taken into account for these directions. With `most`, only the first so many are listed, and those of
    `with_ids`. Raises ValueError for a table of fewer than three rows or two columns.
    """
    table = distinct_table(bundle, side)
    count, width = table.vectors.shape
    # two points lie on a line
    if count < 3 or width < 2:
        raise ValueError(f"{count} vectors of {width} numbers make no map of two dimensions")
    projection = project_pca(table.vectors, 2)
    # after the projection: the map is that of the whole table
    ids = np.arange(count) if most is None or count <= most else choose_ids(count, most, with_ids)
    chance = table.chance()
    return {
        "side": side,
        "sides": distinct_tables(bundle),
        # None stands for all ids, which a page can count by itself
        "ids": None if len(ids) == count else ids.tolist(),
        "pieces": [table.pieces[i] for i in ids],
        "places": round_numbers(projection.places[ids].ravel()),
        "shares": list(projection.shares),
        "chance": asdict(chance),
        "count": count,
        "width": width,
    }


def choose_ids(count: int, most: int, with_ids: Iterable[int]) -> np.ndarray:
    """Return the first ids and `with_ids`, `most` in all, in their order."""
    # the pieces of the sentence come first: if there is room for nothing else, they are shown
    required = sorted({i for i in with_ids if 0 <= i < count})[:most]
    first_ids = [i for i in range(min(count, most)) if i not in set(required)][: most - len(required)]
    return np.array(sorted([*required, *first_ids]), dtype=np.int64)


def neighbours_by_id(
    table: Embeddings, ids: Sequence[int], count: int = NEIGHBOURS_SHOWN
) -> dict[str, list[dict[str, Any]]]:
    """Return the nearest pieces to each of these, itself left out, by its id."""
    return {
        str(i): neighbours_as_json(table.neighbours(table.vectors[i], count, without=[i])) for i in dict.fromkeys(ids)
    }


def cosine_table(table: Embeddings, texts: Sequence[str]) -> dict[str, Any]:
    """Return the cosine of each word with each, the spelling of each, and the cosine of two pieces by chance.

    A word that has no piece is left out, and named in "unknown". Raises ValueError if no word is left.
    """
    words, unknown = [], []
    # a word that is named twice gets one column
    for text in list(dict.fromkeys(texts))[:MOST_WORDS]:
        try:
            words.append(table.word(text))
        except ValueError:
            unknown.append(text)
    if not words:
        raise ValueError("none of these words has a piece in this vocabulary")
    return {
        "side": table.side,
        "words": [word.text for word in words],
        "spelled": [word.spelled for word in words],
        "cosines": [round_numbers(row) for row in table.cosines(words)],
        "chance": asdict(table.chance()),
        "unknown": unknown,
    }


def analogy_answer(table: Embeddings, question: str, expected: str | None) -> dict[str, Any]:
    """Return the pieces nearest to the sums and differences of vectors, words of the question left out and let in.

    An expected word that has a piece of the question is not looked for, as its pieces are left out: "verdict" says so.
    """
    terms = parse_question(question.split(), table)
    expected_word = table.word(expected) if expected else None
    shared = expected_word is not None and not can_be_asked(terms, expected_word)
    analogy = solve_analogy(table, terms, None if shared else expected_word, count=NEIGHBOURS_SHOWN)
    verdict = (
        f"{expected} has a piece of the question, so it is not looked for; {analogy.verdict}"
        if shared
        else analogy.verdict
    )
    return {
        "question": analogy.question,
        "spelled": [word_with_pieces(term.word) for term in analogy.terms],
        "answers": neighbours_as_json(analogy.answers),
        "with_inputs": neighbours_as_json(analogy.answers_with_inputs),
        "expected": None if analogy.expected is None else word_with_pieces(analogy.expected),
        "rank": analogy.rank,
        "rank_with_inputs": analogy.rank_with_inputs,
        # without an expected word nothing was ranked, so the candidates are counted here
        "candidates": analogy.candidates or len(table.pieces) - len({i for term in terms for i in term.word.ids}),
        "by_chance": analogy.by_chance,
        "verdict": verdict,
    }


def word_with_pieces(word: SpelledWord) -> str:
    """Return a word, with the pieces it is made of where those are others."""
    return word.text if word.pieces == (f"▁{word.text}",) else f"{word.text} ({word.spelled})"


def neighbours_as_json(neighbours: Sequence[Neighbour]) -> list[dict[str, Any]]:
    """Return pieces with their ids and cosines."""
    return [
        {"piece": neighbour.piece, "id": neighbour.id, "cosine": round_significant(neighbour.cosine)}
        for neighbour in neighbours
    ]


def round_numbers(values: Float[np.ndarray, " N"]) -> list[float]:
    """Return numbers with as many digits as are shown."""
    return [round_significant(value) for value in values.tolist()]


def round_significant(value: float) -> float:
    """Round to `DIGITS` significant digits."""
    return float(f"{value:.{DIGITS}g}")
