"""Queries of a page about the whole model, by verb: words, analogies, claims that need another run, badges of heads."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from pellucid.inspect.badges import read_badges
from pellucid.inspect.claims import compare_masking, cross_attention_diagonals
from pellucid.inspect.word_maps import (
    MOST_PIECES_IN_FILE,
    MOST_WORDS,
    analogy_answer,
    cosine_table,
    distinct_table,
    distinct_tables,
    neighbours_by_id,
    word_map,
)
from pellucid.trace.session import Trace


@dataclass(frozen=True)
class TableArguments:
    """A table of embeddings, by its side."""

    side: str


@dataclass(frozen=True)
class NeighboursArguments(TableArguments):
    """A piece of a table, whose neighbours are asked for."""

    piece: int


@dataclass(frozen=True)
class SimilarArguments(TableArguments):
    """Words to be compared in a table."""

    words: Annotated[list[str], Field(max_length=MOST_WORDS)]


@dataclass(frozen=True)
class AnalogyArguments(TableArguments):
    """A sum of words in a table, and the word that should answer it."""

    question: str
    expected: str | None = None


@dataclass(frozen=True)
class SentenceArguments:
    """A sentence, and its translation if that is not to be searched for."""

    sentence: str
    target: str | None = None


@dataclass(frozen=True)
class NoArguments:
    """Nothing beside the trace."""


def answer_word_map(trace: Trace, arguments: TableArguments) -> dict[str, Any]:
    """Return the map of one table."""
    return word_map(trace.require_origin().bundle, arguments.side)


def answer_neighbours(trace: Trace, arguments: NeighboursArguments) -> dict[str, Any]:
    """Return the nearest pieces to one piece."""
    table, piece = distinct_table(trace.require_origin().bundle, arguments.side), arguments.piece
    if not 0 <= piece < len(table.pieces):
        raise ValueError(f"piece is {piece}, expected a whole number from 0 to {len(table.pieces) - 1:,}")
    return {"near": neighbours_by_id(table, [piece])[str(piece)]}


def answer_similar(trace: Trace, arguments: SimilarArguments) -> dict[str, Any]:
    """Return the cosines of some words."""
    return cosine_table(distinct_table(trace.require_origin().bundle, arguments.side), arguments.words)


def answer_analogy(trace: Trace, arguments: AnalogyArguments) -> dict[str, Any]:
    """Return the answers to an analogy."""
    table = distinct_table(trace.require_origin().bundle, arguments.side)
    return analogy_answer(table, arguments.question, arguments.expected)


def answer_masking(trace: Trace, arguments: NoArguments) -> dict[str, Any]:
    """Return the comparison of a cached, a masked and an unmasked run."""
    return compare_masking(trace)


def answer_identity(trace: Trace, arguments: SentenceArguments) -> dict[str, Any]:
    """Return the diagonals of the cross-attention on another sentence."""
    return cross_attention_diagonals(trace.again(arguments.sentence, target=arguments.target))


def answer_badges(trace: Trace, arguments: NoArguments) -> dict[str, Any]:
    """Return the roles and the importance of the heads, or say why there are none."""
    try:
        return {"study": read_badges(trace.require_origin().bundle), "says": None}
    # not an error of the request: the heads of this model were simply never studied
    except ValueError as error:
        return {"study": None, "says": str(error)}


VERBS: dict[str, tuple[type, Callable[[Trace, Any], dict[str, Any]]]] = {
    "words": (TableArguments, answer_word_map),
    "neighbours": (NeighboursArguments, answer_neighbours),
    "similar": (SimilarArguments, answer_similar),
    "analogy": (AnalogyArguments, answer_analogy),
    "masking": (NoArguments, answer_masking),
    "identity": (SentenceArguments, answer_identity),
    "heads": (NoArguments, answer_badges),
}


def answers_for_file(trace: Trace) -> dict[str, Any]:
    """Return the answers that are stored with a page in a file, which has no server to ask.

    Answers that this model or trace cannot give are left out.
    """
    queries: dict[str, Callable[[], Any]] = {
        "words": lambda: words_in_file(trace),
        "masking": lambda: compare_masking(trace),
        "heads": lambda: answer_badges(trace, NoArguments()),
    }
    answers = {}
    for name, query in queries.items():
        try:
            answers[name] = query()
        except ValueError:  # a trace without its model, or heads that were never studied
            continue
    return answers


def words_in_file(trace: Trace) -> list[dict[str, Any]]:
    """Return the maps of what is read, with the neighbours and cosines of the sentence's own pieces."""
    bundle = trace.require_origin().bundle
    maps = []
    for side in distinct_tables(bundle):
        if side == "output":
            continue  # left to a server: a third map would make the file larger by as much again
        sentence = (
            # one shared table serves both sides
            [*trace.source.ids, *trace.target.ids] if len(distinct_tables(bundle)) == 1 else sentence_ids(trace, side)
        )
        table = distinct_table(bundle, side)
        near = neighbours_by_id(table, sentence)
        neighbour_ids = [neighbour["id"] for neighbours in near.values() for neighbour in neighbours]
        table_map = word_map(bundle, side, MOST_PIECES_IN_FILE, [*sentence, *neighbour_ids])
        words = sentence_words(trace, side)
        maps.append({**table_map, "near": near, "similar": cosine_table(table, words) if words else None})
    return maps


def sentence_ids(trace: Trace, side: str) -> list[int]:
    """Return the pieces of the sentence on one side."""
    return trace.source.ids if side == "source" else trace.target.ids


def sentence_words(trace: Trace, side: str) -> list[str]:
    """Return the words of the sentence on one side, without the punctuation around them."""
    text = trace.source.text if side == "source" else trace.target.text
    words = [word.strip(".,;:!?¡¿\"'()[]") for word in text.split()]
    return [word for word in words if word]
