"""One attention of one sentence: its table at each stage, a row as a sum of terms, rollout, and reading distances."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float

from pellucid.config import suggest_nearest
from pellucid.decode.alignment import project_values
from pellucid.interpret.studies.word_axes import (
    WordAxis,
    attention_axes,
    find_label,
    label_and_occurrence,
    merge_words,
    readable_words,
)
from pellucid.interpret.trace.edits import attention_names
from pellucid.interpret.trace.session import Trace
from pellucid.model import ModelConfig

STAGES = {  # matrices of an attention, in the order of computation, by the names they have in a trace
    "products": "q k^T, as they come",
    "scores": "the products divided by sqrt(d_k)",
    "pattern": "softmax of the scores, the weights",
}


@dataclass(frozen=True)
class AttentionTable:
    """Weights or scores by row and column, NaN where a row may not read.

    `head` is None for the mean of all heads.
    """

    attention: str
    stage: str
    head: int | None
    rows: list[str]
    columns: list[str]
    values: Float[np.ndarray, "Q K"]

    @property
    def sums(self) -> Float[np.ndarray, " Q"]:
        return np.nansum(self.values, axis=1)


@dataclass(frozen=True)
class SumTerm:
    """Vector that one column adds to a row: its weight times its value.

    `value` is the length of that value (of a word of several pieces, of their weighted mean),
    `norm` the length of the product. `share` is how much of the sum lies along it: term . sum /
    |sum|^2; the shares of a row add up to 1.
    """

    label: str
    weight: float
    value: float | None  # None for the sum of all terms, in a table
    norm: float
    share: float


@dataclass(frozen=True)
class AttentionSum:
    """Row of an attention as the sum of its terms.

    `error` is the distance from what the model computed. Of one head the sum is what the head has
    read (d_k numbers); of all heads it is what the attention adds to the row except for its bias
    (d_model numbers).
    """

    row: str
    terms: list[SumTerm]
    norm: float
    error: float


@dataclass(frozen=True)
class ReadingDistances:
    """Distances that the heads of an attention read over: means in pieces, weighted by attention.

    `even` is the distance with even weights. Special tokens are left out on both sides; None stands
    for a head that reads nothing else.
    """

    attention: str
    heads: list[float | None]
    mean: float | None
    even: float


def require_head(config: ModelConfig, attention: str, head: int | None) -> None:
    """Raise ValueError for an attention that a model does not have, and for a head that it does not have."""
    names = attention_names(config)
    if attention not in names:
        suggestion = suggest_nearest(attention, names)
        raise ValueError(
            f"{attention!r} is no attention of this model{suggestion} (they are {names[0]} to {names[-1]})"
        )
    if head is not None and not 0 <= head < config.heads:
        raise ValueError(f"{attention} has heads 0 to {config.heads - 1}; head {head} is none")


def attention_mask(trace: Trace, attention: str) -> Bool[np.ndarray, "Q K"]:
    """Return which position may read which."""
    _, *shape = trace.values_of(f"{attention}.pattern").shape
    # the mask has one row for all queries where it hides padding only
    return np.broadcast_to(trace.values_of(f"{attention}.allowed")[0], shape)


def attention_table(
    trace: Trace,
    attention: str,
    head: int | None = None,
    *,
    stage: str = "pattern",
    side: str = "output",
    pieces: bool = False,
) -> AttentionTable:
    """Return the table of an attention, words by words or pieces by pieces.

    Only weights are merged to words, and only weights have a mean: scores of pieces do not add up
    to the score of their word. Raises ValueError for an unknown stage, attention or head, and for
    the mean of a stage that has none.
    """
    if stage not in STAGES:
        raise ValueError(f"the stage is {stage!r}, it must be {', '.join(STAGES)}")
    require_head(trace.config, attention, head)
    if stage != "pattern" and head is None:
        raise ValueError(f"{stage} are looked at head by head: their mean is nothing the model computes; give a head")

    queries, keys = attention_axes(trace, attention, side)
    by_head = trace.values_of(f"{attention}.{stage}").astype(np.float64)
    values = by_head.mean(axis=0) if head is None else by_head[head]
    allowed = attention_mask(trace, attention)
    return AttentionTable(
        attention,
        stage,
        head,
        *_label_and_merge(values, allowed, queries, keys, pieces or stage != "pattern"),
    )


def _label_and_merge(
    values: Float[np.ndarray, "Q K"],
    allowed: Bool[np.ndarray, "Q K"],
    queries: WordAxis,
    keys: WordAxis,
    pieces: bool,
) -> tuple[list[str], list[str], Float[np.ndarray, "_ _"]]:
    """Return rows, columns and values, piece by piece or merged to words, with NaN where a row may not read."""
    if pieces:
        return queries.pieces, keys.pieces, np.where(allowed, values, np.nan)
    rows = [group.label for group in queries.groups]
    columns = [group.label for group in keys.groups]
    words = merge_words(values[None], queries, keys)[0]
    return rows, columns, np.where(readable_words(allowed, queries, keys), words, np.nan)


def attention_row_as_sum(
    trace: Trace,
    attention: str,
    word: str,
    head: int | None = None,
    *,
    side: str = "output",
    pieces: bool = False,
) -> AttentionSum:
    """Write a row as the sum it is: weight times value of each word (or piece), of one head or, through W_O, of all.

    A word of several pieces is the mean of their rows. Raises ValueError for a word or a head that
    does not exist.
    """
    require_head(trace.config, attention, head)
    queries, keys = attention_axes(trace, attention, side)
    reader = queries.groups[queries.find(word)]
    rows = list(reader.positions)
    weights = trace.values_of(f"{attention}.pattern")[:, rows].astype(np.float64).mean(axis=1)  # (H K)
    values = trace.values_of(f"{attention}.v").astype(np.float64)  # (H K E)
    if head is None:
        projected = values_through_output(trace, attention)
        vectors = np.einsum("hk,hkd->kd", weights, projected)
        bias = trace.parameter(f"{attention}.output.bias")
        # the bias belongs to no column, so it is taken out of what the terms are compared with
        computed = trace.values_of(f"{attention}.output")[rows].astype(np.float64).mean(axis=0) - bias
        # each head weighs for itself in `vectors`; for the table one weight is shown, the mean
        shares = weights.mean(axis=0)
    else:
        vectors = weights[head][:, None] * values[head]
        computed = trace.values_of(f"{attention}.head_output")[head, rows].astype(np.float64).mean(axis=0)
        shares = weights[head]

    columns = [(group.label, list(group.positions)) for group in keys.groups]
    if pieces:
        columns = [(piece, [position]) for position, piece in enumerate(keys.pieces)]
    allowed = attention_mask(trace, attention)[rows]

    labels, column_weights, column_vectors = [], [], []
    for label, positions in columns:
        if allowed[:, positions].any():
            labels.append(label)
            column_weights.append(shares[positions].sum())
            column_vectors.append(vectors[positions].sum(axis=0))

    return _sum_terms(
        reader.label,
        labels,
        np.array(column_weights),
        np.stack(column_vectors),
        computed,
    )


def _sum_terms(
    row: str,
    labels: Sequence[str],
    weights: Float[np.ndarray, " K"],
    vectors: Float[np.ndarray, "K D"],
    computed: Float[np.ndarray, " D"],
) -> AttentionSum:
    """Return these terms as a sum, beside what the model computed."""
    total = vectors.sum(axis=0)
    length = float(total @ total)
    norms = np.linalg.norm(vectors, axis=1)

    # a weight of 0 tells nothing about the length of its value
    values = np.divide(norms, weights, out=np.zeros_like(norms), where=weights > 0.0)
    # terms that cancel out have no direction to lie along
    along = vectors @ total / length if length else np.zeros(len(vectors))
    terms = []
    for n, label in enumerate(labels):
        numbers = float(weights[n]), float(values[n]), float(norms[n]), float(along[n])
        terms.append(SumTerm(label, *numbers))
    return AttentionSum(row, terms, float(np.sqrt(length)), float(np.abs(total - computed).max()))


def values_through_output(trace: Trace, attention: str) -> Float[np.ndarray, "H K D"]:
    """Return v W_O of each head: what it would add for a position that has all of its weight."""
    v = trace.values_of(f"{attention}.v").astype(np.float64)
    weight = trace.parameter(f"{attention}.output.weight").astype(np.float64)
    return project_values(torch.from_numpy(v)[None], torch.from_numpy(weight))[0].transpose(0, 1).numpy()


def attention_rollout(trace: Trace, attention: str) -> Float[np.ndarray, "Q K"]:
    """Return the share of each input position in a position of a self-attention's layer, by attention rollout.

    Attention rollout (Abnar and Zuidema 2020) is a rule of thumb: heads averaged, A' = A / 2 + I /
    2 for the residual, multiplied from layer 0 up. Rows sum to 1. Raises ValueError for
    cross-attention.
    """
    require_head(trace.config, attention, None)
    stack, layer, kind = attention.split(".")
    if kind != "self":
        raise ValueError(
            f"rollout goes through the self-attention of one stack, and {attention} joins two; name a self"
        )

    length = trace.values_of(f"{attention}.pattern").shape[-1]
    rollout = np.eye(length)
    for number in range(int(layer) + 1):
        pattern = trace.values_of(f"{stack}.{number}.self.pattern").astype(np.float64)
        # The half is a convention: how much a layer really
        # mixes is not measured, nor what the values hold.
        rollout = (pattern.mean(axis=0) / 2 + np.eye(length) / 2) @ rollout
    return rollout


def rollout_table(trace: Trace, attention: str, *, pieces: bool = False) -> AttentionTable:
    """Return the rollout word by word, or piece by piece."""
    values, allowed = attention_rollout(trace, attention), attention_mask(trace, attention)
    queries, keys = attention_axes(trace, attention)
    return AttentionTable(
        attention,
        "rollout",
        None,
        *_label_and_merge(values, allowed, queries, keys, pieces),
    )


def reading_distances(trace: Trace, stack: str) -> list[ReadingDistances]:
    """Measure how far each self-attention of a stack ("encoder" or "decoder") reads, layer by layer."""
    distances = []
    for name in attention_names(trace.config):
        if not name.startswith(stack) or not name.endswith(".self"):
            continue
        queries, keys = attention_axes(trace, name)
        positions = _positions_of_words(queries), _positions_of_words(keys)
        without_specials = np.ix_(*positions)
        allowed = attention_mask(trace, name)[without_specials]
        steps = np.abs(np.subtract.outer(*positions)).astype(np.float64)
        pattern = trace.values_of(f"{name}.pattern").astype(np.float64)
        heads = [mean_distance(weights[without_specials] * allowed, steps) for weights in pattern]
        measured = [distance for distance in heads if distance is not None]
        # causal queries have few keys near the start, so
        # even weights are the yardstick and not a constant
        even = mean_distance(allowed.astype(np.float64), steps)
        mean = sum(measured) / len(measured) if measured else None
        distances.append(ReadingDistances(name, heads, mean, even or 0.0))

    return distances


def _positions_of_words(axis: WordAxis) -> list[int]:
    """Return the positions of all pieces but special tokens."""
    positions: list[int] = []
    for group in axis.groups:
        if group.kind != "mark":
            positions += group.positions
    return positions


def mean_distance(
    weights: Float[np.ndarray, "Q K"],
    distances: Float[np.ndarray, "Q K"],
) -> float | None:
    """Return the mean over rows of the distance weighted by attention.

    None where no row reads anything.
    """
    mass = weights.sum(axis=1)
    # a row that gives all its weight to special tokens has no distance
    rows = mass > 1e-9
    return float(((weights * distances).sum(axis=1)[rows] / mass[rows]).mean()) if rows.any() else None


@dataclass(frozen=True)
class QueryKeyPair:
    """Query and key of one head, and their product.

    `product` is q . k = cosine * query_norm * key_norm = the sum of `by_dimension`; `score` is it
    divided by sqrt(width); `weight` is the share of the query's attention that this key gets,
    `rank` its rank among the keys that may be read, 1 first.
    """

    attention: str
    head: int
    query: str
    key: str
    query_place: int
    key_place: int
    query_piece: str
    key_piece: str
    product: float
    cosine: float
    query_norm: float
    key_norm: float
    width: int
    score: float
    weight: float
    rank: int
    keys: int
    by_dimension: list[float]
    notes: list[str]

    def largest(self, count: int, sign: int) -> list[tuple[int, float]]:
        """Return the dimensions that add most (sign 1) or take most away (sign -1), with what they add."""
        order = sorted(enumerate(self.by_dimension), key=lambda row: -sign * row[1])
        return [(d, value) for d, value in order[:count] if sign * value > 0.0]


def take_product_apart(
    trace: Trace,
    attention: str,
    head: int,
    query: str,
    key: str,
) -> QueryKeyPair:
    """Take apart the product of one word's query and another's key.

    Of a word of several pieces the first is taken. A note says so. A word is also found by one of
    its pieces as it stands in the vocabulary. Raises ValueError for an unknown word, head or
    attention, and for a key that the query may not read.
    """
    require_head(trace.config, attention, head)
    queries, keys = attention_axes(trace, attention)
    row, row_note = _position_of_word(queries, query)
    column, column_note = _position_of_word(keys, key)
    readable = attention_mask(trace, attention)[row]
    if not readable[column]:
        raise ValueError(f"{query!r} may not read {key!r}: it stands later, and the decoder reads no future")

    q, k = (trace.values_of(f"{attention}.{name}")[head].astype(np.float64) for name in ("q", "k"))
    by_dimension = q[row] * k[column]
    product = float(q[row] @ k[column])
    lengths = float(np.linalg.norm(q[row])), float(np.linalg.norm(k[column]))
    pattern = trace.values_of(f"{attention}.pattern")[head, row].astype(np.float64)
    return QueryKeyPair(
        attention=attention,
        head=head,
        query=query,
        key=key,
        query_place=row,
        key_place=column,
        query_piece=queries.pieces[row],
        key_piece=keys.pieces[column],
        product=product,
        cosine=product / (lengths[0] * lengths[1]) if all(lengths) else 0.0,
        query_norm=lengths[0],
        key_norm=lengths[1],
        width=q.shape[1],
        score=float(trace.values_of(f"{attention}.scores")[head, row, column]),
        weight=float(pattern[column]),
        # equal weights share the better rank
        rank=int((pattern[readable] > pattern[column]).sum()) + 1,
        keys=int(readable.sum()),
        by_dimension=by_dimension.tolist(),
        notes=[note for note in dict.fromkeys((row_note, column_note)) if note],
    )


def _position_of_word(axis: WordAxis, name: str) -> tuple[int, str]:
    """Return the position of a piece, or of the first piece of a word, and a note where there are several."""
    labels = [group.label for group in axis.groups]
    # a word that is spelled like a piece is taken as the word
    if any(word in axis.pieces and word not in labels for word, _ in label_and_occurrence(name)):
        return find_label(axis.pieces, name), ""

    group = axis.groups[axis.find(name)]
    if len(group.positions) == 1:
        return group.positions[0], ""
    pieces = f"{len(group.positions)} pieces, {' '.join(group.pieces)}"
    return group.positions[0], f"{group.label} has {pieces}: its first is taken, name another"
