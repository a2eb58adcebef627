"""The words of a model as a page shows them: a map of each table, nearest pieces, cosines and analogies, as JSON."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from jaxtyping import Float

from pellucid.bundle import Bundle
from pellucid.inspect.analogies import can_be_asked, parse_question, solve_analogy
from pellucid.inspect.embeddings import Embeddings, Neighbour, SpelledWord, embedding_table
from pellucid.inspect.projection import project_pca

MOST_PIECES_IN_FILE = 6000
"""Pieces of a map that a file holds at most, those of the sentence counted: the first of a vocabulary are its commonest
in most kinds of tokenizers, and 6,000 take some 100 kB."""

NEIGHBOURS_SHOWN = 8
"""Nearest pieces that a page lists."""

MOST_WORDS = 16
"""Words whose cosines are laid beside each other."""

DIGITS = 5
"""Of places and cosines: more than a map or a column shows."""


def distinct_tables(bundle: Bundle) -> dict[str, str]:
    """The tables that are different ones, and what each does, in words."""
    tie = bundle.model.config.tie
    if tie == "all":
        return {"source": "read by the encoder, read by the decoder, and written: one table for all three"}
    if tie == "decoder":
        return {"source": "read by the encoder", "target": "read by the decoder, and written: one table for both"}
    return {"source": "read by the encoder", "target": "read by the decoder", "output": "what makes the logits"}


def distinct_table(bundle: Bundle, side: str) -> Embeddings:
    """The table of a side. ValueError for a side that is no table of its own."""
    known = distinct_tables(bundle)
    if side not in known:
        raise ValueError(f"side is {side!r:.40}; this model has tables for {', '.join(known)}")
    return embedding_table(bundle, side)


def word_map(bundle: Bundle, side: str, most: int | None = None, with_ids: Iterable[int] = ()) -> dict[str, Any]:
    """The places of the pieces along the two directions in which the table varies most, all of them taken into account.

    With `most`, only the first so many are listed, and those of `with_ids`. A table of fewer than two rows or columns
    is no map: ValueError.
    """
    table = distinct_table(bundle, side)
    count, width = table.vectors.shape
    if count < 3 or width < 2:
        raise ValueError(f"{count} vectors of {width} numbers make no map of two dimensions")
    made = project_pca(table.vectors, 2)
    ids = np.arange(count) if most is None or count <= most else choose_ids(count, most, with_ids)
    chance = table.chance()
    return {
        "side": side,
        "sides": distinct_tables(bundle),
        "ids": None if len(ids) == count else ids.tolist(),
        "pieces": [table.pieces[i] for i in ids],
        "places": round_numbers(made.places[ids].ravel()),
        "shares": list(made.shares),
        "chance": asdict(chance),
        "count": count,
        "width": width,
    }


def choose_ids(count: int, most: int, with_ids: Iterable[int]) -> np.ndarray:
    """The first ids, and these; `most` in all, in their order."""
    wanted = sorted({i for i in with_ids if 0 <= i < count})[:most]
    others = [i for i in range(min(count, most)) if i not in set(wanted)][: most - len(wanted)]
    return np.array(sorted([*wanted, *others]), dtype=np.int64)


def neighbours_by_id(
    table: Embeddings, ids: Sequence[int], count: int = NEIGHBOURS_SHOWN
) -> dict[str, list[dict[str, Any]]]:
    """The nearest pieces to each of these, itself left out, by its id."""
    return {
        str(i): neighbours_as_json(table.neighbours(table.vectors[i], count, without=[i])) for i in dict.fromkeys(ids)
    }


def cosine_table(table: Embeddings, texts: Sequence[str]) -> dict[str, Any]:
    """The cosine of each word with each, how it is spelled, and what two pieces of this table have by chance.

    A word that has no piece is left out, and named in "unknown". ValueError for none.
    """
    words, unknown = [], []
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
    """What the sums and differences of vectors are nearest to, words of the question left out and let in.

    An expected word that has a piece of the question is not looked for, as its pieces are left out: "verdict" says so.
    """
    terms = parse_question(question.split(), table)
    wanted = table.word(expected) if expected else None
    shared = wanted is not None and not can_be_asked(terms, wanted)
    found = solve_analogy(table, terms, None if shared else wanted, count=NEIGHBOURS_SHOWN)
    says = (
        f"{expected} has a piece of the question, so it is not looked for; {found.verdict}" if shared else found.verdict
    )
    return {
        "question": found.question,
        "spelled": [word_with_pieces(term.word) for term in found.terms],
        "answers": neighbours_as_json(found.answers),
        "with_inputs": neighbours_as_json(found.answers_with_inputs),
        "expected": None if found.expected is None else word_with_pieces(found.expected),
        "rank": found.rank,
        "rank_with_inputs": found.rank_with_inputs,
        "candidates": found.candidates or len(table.pieces) - len({i for term in terms for i in term.word.ids}),
        "by_chance": found.by_chance,
        "verdict": says,
    }


def word_with_pieces(word: SpelledWord) -> str:
    """A word and the pieces it is made of, where those are others."""
    return word.text if word.pieces == (f"▁{word.text}",) else f"{word.text} ({word.spelled})"


def neighbours_as_json(some: Sequence[Neighbour]) -> list[dict[str, Any]]:
    """Pieces with their ids and cosines."""
    return [{"piece": each.piece, "id": each.id, "cosine": round_significant(each.cosine)} for each in some]


def round_numbers(values: Float[np.ndarray, " N"]) -> list[float]:
    """Numbers with as many digits as are shown."""
    return [round_significant(each) for each in values.tolist()]


def round_significant(value: float) -> float:
    """To `DIGITS` significant digits."""
    return float(f"{value:.{DIGITS}g}")
