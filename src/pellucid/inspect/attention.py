"""One attention of one sentence: its table at each stage, a row of it as the sum it is, rollout, and distances."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np
import torch
from jaxtyping import Bool, Float

from pellucid.decode.alignment import project_values
from pellucid.inspect.word_axes import WordAxis, attention_axes, merge_words, readable_words
from pellucid.model import ModelConfig
from pellucid.trace.edits import attention_names
from pellucid.trace.trace import Trace

STAGES = {
    "products": "q k^T, as they come",
    "scores": "the products divided by sqrt(d_k)",
    "pattern": "softmax of the scores, the weights",
}
"""The three matrices of an attention, in the order of computation, by the names they have in a trace."""


@dataclass(frozen=True)
class AttentionTable:
    """What each row reads of each column; NaN where it may not read. `head` is None for the mean of all heads."""

    attention: str
    stage: str
    head: int | None
    rows: list[str]
    columns: list[str]
    values: Float[np.ndarray, "Q K"]

    @property
    def sums(self) -> Float[np.ndarray, " Q"]:
        """Of each row; 1 for weights."""
        return np.nansum(self.values, axis=1)


@dataclass(frozen=True)
class SumTerm:
    """What one column adds to a row: its weight times its value, as a vector.

    `value` is the length of that value (of a word of several pieces, of their weighted mean), `norm` that of the
    product. `share` is how much of the sum lies along it: term . sum / |sum|^2; the shares of a row add up to 1.
    """

    label: str
    weight: float
    value: float
    norm: float
    share: float


@dataclass(frozen=True)
class AttentionSum:
    """A row of an attention as the sum of its terms; `error` is how far that is from what the model computed.

    Of one head it is what the head has read (d_k numbers); of all heads what the attention adds to the row but for its
    bias (d_model numbers).
    """

    row: str
    terms: list[SumTerm]
    norm: float
    error: float


@dataclass(frozen=True)
class ReadingDistances:
    """How far the heads of an attention read: the mean distance in pieces, weighted by attention.

    `even` is what even weights would give. Marks are left out on both sides; None of a head that reads nothing else.
    """

    attention: str
    heads: list[float | None]
    mean: float | None
    even: float


def require_attention(config: ModelConfig, attention: str) -> int:
    """How many heads it has; ValueError for an attention that the model has not, or that lost all its heads."""
    names = attention_names(config)
    if attention not in names:
        near = get_close_matches(attention, names, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"{attention!r} is no attention of this model{meant} (they are {names[0]} to {names[-1]})")
    count = config.heads_in(attention)
    if not count:
        raise ValueError(f"{attention} has no head left to look at")
    return count


def require_head(config: ModelConfig, attention: str, head: int) -> None:
    """ValueError for a head that an attention has not."""
    count = require_attention(config, attention)
    if not 0 <= head < count:
        raise ValueError(f"{attention} has heads 0 to {count - 1}; head {head} is none")


def attention_mask(trace: Trace, attention: str) -> Bool[np.ndarray, "Q K"]:
    """Which position may read which."""
    _, *shape = trace.values_of(f"{attention}.pattern").shape
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
    """Words by words, or pieces by pieces; ValueError for what there is not.

    Only weights are merged to words, and only of weights there is a mean: scores of pieces do not add up to the score
    of their word.
    """
    if stage not in STAGES:
        raise ValueError(f"the stage is {stage!r}, it must be {', '.join(STAGES)}")
    if head is None:
        require_attention(trace.config, attention)
    else:
        require_head(trace.config, attention, head)
    if stage != "pattern" and head is None:
        raise ValueError(f"{stage} are looked at head by head: their mean is nothing the model computes; give a head")
    queries, keys = attention_axes(trace, attention, side)
    every = trace.values_of(f"{attention}.{stage}").astype(np.float64)
    values = every.mean(axis=0) if head is None else every[head]
    may = attention_mask(trace, attention)
    return AttentionTable(
        attention, stage, head, *label_and_merge(values, may, queries, keys, pieces or stage != "pattern")
    )


def label_and_merge(
    values: Float[np.ndarray, "Q K"], may: Bool[np.ndarray, "Q K"], queries: WordAxis, keys: WordAxis, pieces: bool
) -> tuple[list[str], list[str], Float[np.ndarray, "_ _"]]:
    """Rows, columns and what they hold, piece by piece or merged to words; NaN where a row may not read."""
    if pieces:
        return queries.pieces, keys.pieces, np.where(may, values, np.nan)
    rows, columns = ([group.label for group in axis.groups] for axis in (queries, keys))
    words = merge_words(values[None], queries, keys)[0]
    return rows, columns, np.where(readable_words(may, queries, keys), words, np.nan)


def attention_row_as_sum(
    trace: Trace, attention: str, word: str, head: int | None = None, *, side: str = "output", pieces: bool = False
) -> AttentionSum:
    """What a word gets from each word (or piece): weight times value, of one head or, through W_O, of all.

    A word of several pieces is the mean of their rows. ValueError for a word or a head that is not there.
    """
    if head is None:
        require_attention(trace.config, attention)
    else:
        require_head(trace.config, attention, head)
    queries, keys = attention_axes(trace, attention, side)
    reader = queries.groups[queries.find(word)]
    rows = list(reader.places)
    weights = trace.values_of(f"{attention}.pattern")[:, rows].astype(np.float64).mean(axis=1)  # (H K)
    values = trace.values_of(f"{attention}.v").astype(np.float64)  # (H K E)
    if head is None:
        sent = values_through_output(trace, attention)
        vectors = np.einsum("hk,hkd->kd", weights, sent)
        bias = trace.parameter(f"{attention}.output.bias")
        computed = trace.values_of(f"{attention}.output")[rows].astype(np.float64).mean(axis=0) - bias
        shares = weights.mean(axis=0)
    else:
        vectors = weights[head][:, None] * values[head]
        computed = trace.values_of(f"{attention}.head_output")[head, rows].astype(np.float64).mean(axis=0)
        shares = weights[head]
    parts = [[place] for place in range(len(shares))] if pieces else [list(group.places) for group in keys.groups]
    labels = keys.pieces if pieces else [group.label for group in keys.groups]
    may = attention_mask(trace, attention)[rows]
    seen = [n for n, places in enumerate(parts) if may[:, places].any()]
    return sum_terms(
        reader.label,
        [labels[n] for n in seen],
        np.array([shares[parts[n]].sum() for n in seen]),
        np.stack([vectors[parts[n]].sum(axis=0) for n in seen]),
        computed,
    )


def sum_terms(
    row: str,
    labels: Sequence[str],
    weights: Float[np.ndarray, " K"],
    vectors: Float[np.ndarray, "K D"],
    computed: Float[np.ndarray, " D"],
) -> AttentionSum:
    """These terms as a sum, beside what the model computed."""
    total = vectors.sum(axis=0)
    length = float(total @ total)
    norms = np.linalg.norm(vectors, axis=1)
    values = np.divide(norms, weights, out=np.zeros_like(norms), where=weights > 0.0)
    along = vectors @ total / length if length else np.zeros(len(vectors))
    terms = [
        SumTerm(*each)
        for each in zip(labels, *(some.tolist() for some in (weights, values, norms, along)), strict=True)
    ]
    return AttentionSum(row, terms, float(np.sqrt(length)), float(np.abs(total - computed).max()))


def values_through_output(trace: Trace, attention: str) -> Float[np.ndarray, "H K D"]:
    """v W_O of each head: what it would add for a position that has all of its weight."""
    v = trace.values_of(f"{attention}.v").astype(np.float64)
    weight = trace.parameter(f"{attention}.output.weight").astype(np.float64)
    return project_values(torch.from_numpy(v)[None], torch.from_numpy(weight))[0].transpose(0, 1).numpy()


def attention_rollout(trace: Trace, attention: str) -> Float[np.ndarray, "Q K"]:
    """What a position of a self-attention's layer has of each input position, by rule of thumb.

    Attention rollout (Abnar and Zuidema 2020): heads averaged, A' = A / 2 + I / 2 for the residual, multiplied from
    layer 0 up. The half is a convention: how much a layer really mixes is not asked, nor what the values hold, nor
    cross-attention. Rows sum to 1. ValueError for cross-attention.
    """
    require_attention(trace.config, attention)
    stack, layer, part = attention.split(".")
    if part != "self":
        raise ValueError(
            f"rollout goes through the self-attention of one stack, and {attention} joins two; name a self"
        )
    length = trace.values_of(f"{attention}.pattern").shape[-1]
    found = np.eye(length)
    for number in range(int(layer) + 1):
        pattern = trace.values_of(f"{stack}.{number}.self.pattern").astype(np.float64)
        if len(pattern):  # a layer without heads reads nothing and leaves all as it is
            found = (pattern.mean(axis=0) / 2 + np.eye(length) / 2) @ found
    return found


def rollout_table(trace: Trace, attention: str, *, pieces: bool = False) -> AttentionTable:
    """Rollout word by word, or piece by piece."""
    values, may = attention_rollout(trace, attention), attention_mask(trace, attention)
    queries, keys = attention_axes(trace, attention)
    return AttentionTable(attention, "rollout", None, *label_and_merge(values, may, queries, keys, pieces))


def reading_distances(trace: Trace, stack: str) -> list[ReadingDistances]:
    """How far each self-attention of a stack ("encoder" or "decoder") reads, layer by layer."""
    names = [name for name in attention_names(trace.config) if name.startswith(stack) and name.endswith(".self")]
    found = []
    for name in names:
        queries, keys = attention_axes(trace, name)
        counts = np.ix_(positions_without_specials(queries), positions_without_specials(keys))
        may = attention_mask(trace, name)[counts]
        apart = np.abs(np.subtract.outer(positions_without_specials(queries), positions_without_specials(keys))).astype(
            np.float64
        )
        pattern = trace.values_of(f"{name}.pattern").astype(np.float64)
        heads = [mean_distance(each[counts] * may, apart) for each in pattern]
        known = [each for each in heads if each is not None]
        even = mean_distance(may.astype(np.float64), apart)
        found.append(ReadingDistances(name, heads, sum(known) / len(known) if known else None, even or 0.0))
    return found


def positions_without_specials(axis: WordAxis) -> list[int]:
    """The places of everything but marks."""
    return [place for group in axis.groups if group.kind != "mark" for place in group.places]


def mean_distance(weights: Float[np.ndarray, "Q K"], apart: Float[np.ndarray, "Q K"]) -> float | None:
    """Weighted by attention, the mean over rows; None where no row reads anything."""
    mass = weights.sum(axis=1)
    rows = mass > 1e-9
    return float(((weights * apart).sum(axis=1)[rows] / mass[rows]).mean()) if rows.any() else None
