"""Queries of a page about the whole model, by verb: words, analogies, claims that need another run, badges of heads."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import numpy as np
import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from pellucid.decode.torch_engine import ModelState, pad_sentences
from pellucid.decode.torch_models import inference_only
from pellucid.interpret.studies.roles import read_badges
from pellucid.interpret.studies.training_steps import study_training
from pellucid.interpret.studies.word_vectors import (
    Embeddings,
    Neighbour,
    SpelledWord,
    can_be_asked,
    embedding_table,
    parse_question,
    project_pca,
    solve_analogy,
)
from pellucid.interpret.trace.edits import Edit, Record, attention_names
from pellucid.interpret.trace.session import Trace
from pellucid.interpret.trace.untrusted import NoArguments
from pellucid.store.directory import Bundle

# Most pieces that the map of a file holds, with the sentence's pieces: the first of a vocabulary
# are its commonest in most kinds of tokenizers, and 6,000 take some 100 kB.
MOST_PIECES_IN_FILE = 6000
NEIGHBOURS_SHOWN = 8  # nearest pieces that a page lists
MOST_WORDS = 16  # most words whose cosines are shown beside each other
DIGITS = 5  # significant digits of coordinates and cosines: more than a map or a column shows
UNMASKED = "decoder.*.self.allowed"  # an edit makes this true everywhere, so that each position reads later ones too


@dataclass(frozen=True)
class _TableArguments:
    side: str


@dataclass(frozen=True)
class _NeighboursArguments(_TableArguments):
    piece: int


@dataclass(frozen=True)
class _SimilarArguments(_TableArguments):
    words: Annotated[list[str], Field(max_length=MOST_WORDS)]


@dataclass(frozen=True)
class _AnalogyArguments(_TableArguments):
    question: str
    expected: str | None = None


@dataclass(frozen=True)
class _TrainingArguments:
    target: str | None = None
    beside: str | None = None


@dataclass(frozen=True)
class _SentenceArguments:
    sentence: str
    target: str | None = None


def _answer_neighbours(trace: Trace, arguments: _NeighboursArguments) -> dict[str, Any]:
    table, piece = _table_of(trace, arguments), arguments.piece
    if not 0 <= piece < len(table.pieces):
        raise ValueError(f"piece is {piece}, expected a whole number from 0 to {len(table.pieces) - 1:,}")
    return {"near": neighbours_by_id(table, [piece])[str(piece)]}


def _table_of(trace: Trace, arguments: _TableArguments) -> Embeddings:
    return distinct_table(trace.origin.bundle, arguments.side)


def _answer_badges(trace: Trace) -> dict[str, Any]:
    """Return the roles and the importance of the heads, or say why there are none."""
    try:
        return {"study": read_badges(trace.origin.bundle), "says": None}
    # not an error of the request: the heads of this model were simply never studied
    except ValueError as error:
        return {"study": None, "says": str(error)}


VERBS: dict[str, tuple[type, Callable[[Trace, Any], dict[str, Any]]]] = {
    "words": (_TableArguments, lambda trace, a: word_map(trace.origin.bundle, a.side)),
    "neighbours": (_NeighboursArguments, _answer_neighbours),
    "similar": (_SimilarArguments, lambda trace, a: cosine_table(_table_of(trace, a), a.words)),
    "analogy": (
        _AnalogyArguments,
        lambda trace, a: _analogy_answer(_table_of(trace, a), a.question, a.expected),
    ),
    "masking": (NoArguments, lambda trace, a: compare_masking(trace)),
    "identity": (
        _SentenceArguments,
        lambda trace, a: cross_attention_diagonals(trace.again(a.sentence, target=a.target)),
    ),
    "heads": (NoArguments, lambda trace, a: _answer_badges(trace)),
    "training": (_TrainingArguments, lambda trace, a: study_training(trace, a.target, a.beside)),
}


def answers_for_file(trace: Trace) -> dict[str, Any]:
    """Return the answers that are stored with a page in a file, which has no server to ask.

    There is no map of words where the table is too small for one, or where no word of the sentence
    has a piece.
    """
    answers: dict[str, Any] = {"masking": compare_masking(trace), "heads": _answer_badges(trace)}
    with suppress(ValueError):
        answers["words"] = _words_in_file(trace)
    return answers


def _words_in_file(trace: Trace) -> list[dict[str, Any]]:
    """Return the maps of what is read, with the neighbours and cosines of the sentence's own pieces."""
    bundle = trace.origin.bundle
    maps = []
    for side in distinct_tables(bundle):
        if side == "output":
            continue  # left to a server: a third map would make the file larger by as much again
        sentence = getattr(trace, side).ids
        if len(distinct_tables(bundle)) == 1:  # one shared table serves both sides
            sentence = [*trace.source.ids, *trace.target.ids]
        table = distinct_table(bundle, side)
        near = neighbours_by_id(table, sentence)
        shown = list(sentence)
        for neighbours in near.values():
            shown += [neighbour["id"] for neighbour in neighbours]
        table_map = word_map(bundle, side, MOST_PIECES_IN_FILE, shown)
        words = _bare_words(getattr(trace, side).text)
        similar = cosine_table(table, words) if words else None
        maps.append({**table_map, "near": near, "similar": similar})

    return maps


def _bare_words(text: str) -> list[str]:
    """Return the words of a text without the punctuation around them."""
    words = [word.strip(".,;:!?¡¿\"'()[]") for word in text.split()]
    return [word for word in words if word]


def distinct_tables(bundle: Bundle) -> dict[str, str]:
    """Return the tables of a model that are not shared with another, and what each does, in words."""
    tie = bundle.model.config.tie
    if tie == "all":
        return {"source": "encoder, decoder and output, which share one"}
    if tie == "decoder":
        return {"source": "encoder", "target": "decoder and output, which share one"}
    return {"source": "encoder", "target": "decoder", "output": "output"}


def distinct_table(bundle: Bundle, side: str) -> Embeddings:
    """Return the table of a side; ValueError for a side that has no table of its own."""
    tables = distinct_tables(bundle)
    if side not in tables:
        raise ValueError(f"side is {side!r:.40}; this model has tables for {', '.join(tables)}")
    return embedding_table(bundle, side)


def word_map(
    bundle: Bundle,
    side: str,
    most: int | None = None,
    with_ids: Iterable[int] = (),
) -> dict[str, Any]:
    """Return the coordinates of the pieces along the two directions in which the table varies most.

    All pieces are taken into account for these directions. With `most`, only the first so many are
    listed, and the pieces `with_ids`. Raises ValueError for a table of fewer than three rows or two
    columns.
    """
    table = distinct_table(bundle, side)
    count, width = table.vectors.shape
    # two points lie on a line
    if count < 3 or width < 2:
        raise ValueError(f"{count} vectors of {width} numbers make no map of two dimensions")

    projection = project_pca(table.vectors, 2)
    # After the projection, for the map's directions come from the whole table.
    ids = np.arange(count) if most is None or count <= most else choose_ids(count, most, with_ids)
    chance = table.chance()
    return {
        "side": side,
        "sides": distinct_tables(bundle),
        # None stands for all ids, which a page can count by itself
        "ids": None if len(ids) == count else ids.tolist(),
        "pieces": [table.pieces[i] for i in ids],
        "places": _round_numbers(projection.places[ids].ravel()),
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


def neighbours_by_id(table: Embeddings, ids: Sequence[int]) -> dict[str, list[dict[str, Any]]]:
    """Return the nearest pieces to each of these, itself left out, by its id."""
    neighbours_of = {}
    for i in dict.fromkeys(ids):
        neighbours = table.neighbours(table.vectors[i], NEIGHBOURS_SHOWN, without=[i])
        neighbours_of[str(i)] = _neighbours_as_json(neighbours)
    return neighbours_of


def cosine_table(table: Embeddings, texts: Sequence[str]) -> dict[str, Any]:
    """Return the cosine of each word with each, the spelling of each, and the cosine of two pieces by chance.

    A word that has no piece is left out, and named in "unknown". Raises ValueError if no word is
    left.
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
        "cosines": [_round_numbers(row) for row in table.cosines(words)],
        "chance": asdict(table.chance()),
        "unknown": unknown,
    }


def _analogy_answer(table: Embeddings, question: str, expected: str | None) -> dict[str, Any]:
    """Return the pieces nearest to the sums and differences of vectors, words of the question left out and included.

    An expected word that has a piece of the question is not looked for, as its pieces are left out:
    "verdict" says so.
    """
    terms = parse_question(question.split(), table)
    asked = {i for term in terms for i in term.word.ids}
    expected_word = table.word(expected) if expected else None
    shared = expected_word is not None and not can_be_asked(terms, expected_word)
    analogy = solve_analogy(table, terms, None if shared else expected_word, count=NEIGHBOURS_SHOWN)
    not_sought = f"{expected} has a piece of the question, so it is not looked for; " if shared else ""
    return {
        "question": analogy.question,
        "spelled": [_word_with_pieces(term.word) for term in analogy.terms],
        "answers": _neighbours_as_json(analogy.answers),
        "with_inputs": _neighbours_as_json(analogy.answers_with_inputs),
        "expected": None if analogy.expected is None else _word_with_pieces(analogy.expected),
        "rank": analogy.rank,
        "rank_with_inputs": analogy.rank_with_inputs,
        # without an expected word nothing was ranked, so the candidates are counted here
        "candidates": analogy.candidates or len(table.pieces) - len(asked),
        "by_chance": analogy.by_chance,
        "verdict": not_sought + analogy.verdict,
    }


def _word_with_pieces(word: SpelledWord) -> str:
    """Return a word, with the pieces it is made of where those are others."""
    return word.text if word.pieces == (f"▁{word.text}",) else f"{word.text} ({word.spelled})"


def _neighbours_as_json(neighbours: Sequence[Neighbour]) -> list[dict[str, Any]]:
    objects = []
    for neighbour in neighbours:
        cosine = _round_significant(neighbour.cosine)
        objects.append({"piece": neighbour.piece, "id": neighbour.id, "cosine": cosine})
    return objects


def _round_numbers(values: Float[np.ndarray, " N"]) -> list[float]:
    return [_round_significant(value) for value in values.tolist()]


def _round_significant(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def compare_masking(trace: Trace) -> dict[str, Any]:
    """Compare the logits of the pieces that were read: with cached steps, with the mask, and without the mask.

    Step by step with cached keys and values no mask is needed; all at once it is. The cached and
    the unmasked logits are each compared with the masked ones. "kept" and "unmasked" are the
    largest difference of a logit in each row, "size" the largest logit of the masked run, "parted"
    the rows where another piece is likeliest without the mask. "products" are the query-key
    products of the first head of the decoder's self-attention, unscaled and unmasked.
    """
    model = trace.origin.bundle.model
    device = model.output_embedding.weight.device
    record = Record("decoder.0.self.products")
    with inference_only(model):
        decoder_ids = pad_sentences([trace.inputs.ids], device)
        memory = model.encode(pad_sentences([trace.source.ids], device))
        masked = model.logits(model.decode(decoder_ids, memory, watch=record))[0]
        unmasked = model.logits(model.decode(decoder_ids, memory, watch=Edit({UNMASKED: torch.ones_like})))[0]
        state = ModelState(memory)
        # one position a step: the cache knows how many came before
        steps = [model.decode(ids[None], state.memory, cache=state.cache) for ids in decoder_ids.T]
        cached = model.logits(torch.cat(steps, dim=1))[0]

    products = record["decoder.0.self.products"][0, 0]
    rows = []
    for row in products.double().tolist():
        # A float32 holds no more than about seven digits.
        rows.append([float(f"{product:.7g}") for product in row])

    return {
        "size": float(masked.abs().max()),
        "kept": (cached - masked).abs().amax(dim=-1).double().tolist(),
        "unmasked": (unmasked - masked).abs().amax(dim=-1).double().tolist(),
        "parted": int((unmasked.argmax(dim=-1) != masked.argmax(dim=-1)).sum()),
        "products": {
            "section": "decoder.0.self",
            "head": 0,
            "width": model.config.head_width,
            "rows": rows,
        },
    }


def cross_attention_diagonals(trace: Trace) -> dict[str, Any]:
    """Return the diagonal weight of every head of every cross-attention, in the mean over the rows that have one.

    "written" counts the key of the same number as the piece that a row writes, "read" the key of
    the same number as the piece that the row reads; either is 1 for the identity.
    """
    attentions = []
    for name in attention_names(trace.config):
        if not name.endswith(".cross"):
            continue
        pattern = torch.from_numpy(trace.values_of(f"{name}.pattern").copy()).double()
        # Row t of a pattern reads target piece t - 1 and writes piece t.
        written, read = mean_diagonal(pattern, 0).tolist(), mean_diagonal(pattern, -1).tolist()
        attentions.append({"section": name, "written": written, "read": read})

    return {
        "source": trace.source.text,
        "target": trace.target.text,
        "pieces": [len(trace.source.pieces), len(trace.target.pieces)],
        "attentions": attentions,
    }


def mean_diagonal(pattern: Float[Tensor, "H T S"], offset: int) -> Float[Tensor, " H"]:
    """Return the mean weight that row t has on key t + offset, over the rows with such a key.

    It is 0 where there is none.
    """
    diagonal = pattern.diagonal(offset, dim1=-2, dim2=-1)
    return diagonal.mean(dim=-1) if diagonal.shape[-1] else diagonal.sum(dim=-1)
