"""Products of a query and a key: q . k as cosine and lengths, the share of each dimension, and a plane to draw them."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from pellucid.inspect.attention import attention_mask, require_head
from pellucid.inspect.word_axes import WordAxis, attention_axes, find_label, label_and_occurrence
from pellucid.trace.session import Trace


@dataclass(frozen=True)
class QueryKeyPair:
    """Query and key of one head, and their product.

    `product` is q . k = cosine * query_norm * key_norm = the sum of `by_dimension`; `score` is it divided by
    sqrt(width); `weight` is the share of the query's attention that this key gets, `rank` its rank among the keys
    that may be read, 1 first.
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


@dataclass(frozen=True)
class QueryKeyPlane:
    """Queries and keys of a head as arrows from one origin, in the plane that keeps most of their squared lengths.

    `kept` is the share of all squared lengths that the plane holds; products on it are as far from the true ones.
    """

    queries: Float[np.ndarray, "Q 2"]
    keys: Float[np.ndarray, "K 2"]
    query_labels: list[str]
    key_labels: list[str]
    kept: float


def take_product_apart(
    trace: Trace, attention: str, head: int, query: str, key: str, *, side: str = "output"
) -> QueryKeyPair:
    """Take apart the product of one word's query and another's key; of a word of several pieces the first is taken.

    A note says so. A word is also found by one of its pieces as it stands in the vocabulary. Raises ValueError for an
    unknown word, head or attention, and for a key that the query may not read.
    """
    require_head(trace.config, attention, head)
    queries, keys = attention_axes(trace, attention, side)
    row, row_note = position_of_word(queries, query)
    column, column_note = position_of_word(keys, key)
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


def position_of_word(axis: WordAxis, name: str) -> tuple[int, str]:
    """Return the position of a piece, or of the first piece of a word, and a note where there are several."""
    labels = [group.label for group in axis.groups]
    # a word that is spelled like a piece is taken as the word
    if any(word in axis.pieces and word not in labels for word, _ in label_and_occurrence(name)):
        return find_label(axis.pieces, name), ""
    group = axis.groups[axis.find(name)]
    if len(group.positions) == 1:
        return group.positions[0], ""
    spelled = " ".join(group.pieces)
    return group.positions[
        0
    ], f"{group.label} has {len(group.positions)} pieces, {spelled}: its first is taken, name another"


def query_key_plane(trace: Trace, attention: str, head: int, *, side: str = "output") -> QueryKeyPlane:
    """Project all queries and keys of a head to the plane of their two largest singular vectors.

    A position's query and key are in one space, for products are taken between them.
    """
    require_head(trace.config, attention, head)
    queries, keys = attention_axes(trace, attention, side)
    q, k = (trace.values_of(f"{attention}.{name}")[head].astype(np.float64) for name in ("q", "k"))
    # not moved to their mean: angles and lengths must stand for products
    _, strengths, directions = np.linalg.svd(np.concatenate([q, k]), full_matrices=False)
    plane = np.zeros((2, q.shape[1]))
    # a head of width 1 has one direction; the second stays zero
    plane[: min(2, len(directions))] = directions[:2]
    # the sign of a direction is free; its largest number is made positive
    largest = plane[range(2), np.abs(plane).argmax(axis=1)]
    plane *= np.where(largest < 0.0, -1.0, 1.0)[:, None]
    total = float((strengths**2).sum())
    kept = float((strengths[:2] ** 2).sum()) / total if total else 1.0
    return QueryKeyPlane(q @ plane.T, k @ plane.T, list(queries.pieces), list(keys.pieces), kept)
