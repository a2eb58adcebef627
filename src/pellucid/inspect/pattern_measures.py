"""Measures of a head's patterns as sums that are divided once: confidence, offsets, and rarity of the pieces read.

Confidence, positional and rare-word heads are those of Voita et al. 2019, section 4. Special tokens (the end mark of
the source, the start mark that the decoder reads) are left out, as queries and as keys that may have the largest
weight; their share is measured separately.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pellucid.inspect.study_pairs import BatchSide

OFFSETS = tuple(range(-3, 4))
"""Distances from the query to the key: -1 is the neighbour on the left, 0 the query itself."""


@dataclass(frozen=True)
class QueryView:
    """Queries of a batch that count, the keys each of them may choose, and the positions of both."""

    queries: Bool[Tensor, "B Q"]
    choices: Bool[Tensor, "B Q K"]
    q_positions: Int[Tensor, " Q"]
    k_positions: Int[Tensor, " K"]


@dataclass
class MeasureSums:
    """For each measure a sum for each head, and the number of queries it is the sum of."""

    totals: dict[str, Float[Tensor, " H"]] = field(default_factory=dict)
    counts: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, values: Float[Tensor, "B H Q"], queries: Bool[Tensor, "B Q"]) -> None:
        """Add the values of a measure at these queries."""
        total = values.double().masked_fill(~queries[:, None, :], 0.0).sum(dim=(0, 2))
        self.totals[name] = self.totals.get(name, 0.0) + total.cpu()
        self.counts[name] = self.counts.get(name, 0.0) + float(queries.sum())

    def means(self, name: str, heads: int) -> list[float | None]:
        """Return the mean of each head; None where there was no query."""
        count = self.counts.get(name, 0.0)
        return [None] * heads if not count else [float(total) / count for total in self.totals[name]]


def view_of_pieces(queries: BatchSide, keys: BatchSide, causal: bool) -> QueryView:
    """Return the view piece by piece: a query may choose every piece it may read, without special tokens."""
    return view_of_keys(queries.not_special, keys.not_special, queries.positions, keys.positions, causal)


def view_of_keys(
    queries: Bool[Tensor, "B Q"],
    keys: Bool[Tensor, "B K"],
    q_positions: Int[Tensor, " Q"],
    k_positions: Int[Tensor, " K"],
    causal: bool,
) -> QueryView:
    """Return the view of these queries and keys; if `causal`, of keys that do not come after the query."""
    choices = queries[:, :, None] & keys[:, None, :]
    if causal:
        choices = choices & (k_positions[None, None, :] <= q_positions[None, :, None])
    return QueryView(queries, choices, q_positions, k_positions)


def view_of_words(queries: BatchSide, keys: BatchSide, causal: bool) -> QueryView:
    """Return the view word by word, for a pattern that `merge_to_words` made."""
    # a word whose pieces all begin in another word has no column of its own and does not count
    q, k = (piece_word_matrix(side.words).any(dim=1) for side in (queries, keys))
    q_positions, k_positions = (torch.arange(words.shape[1], device=words.device) for words in (q, k))
    return view_of_keys(q, k, q_positions, k_positions, causal)


def piece_word_matrix(words: Int[Tensor, "B Q"]) -> Bool[Tensor, "B Q W"]:
    """Return a matrix that is true where a piece belongs to a word."""
    # at least one column, for a batch of special tokens only
    numbers = torch.arange(max(1, int(words.max()) + 1), device=words.device)
    return words[:, :, None] == numbers


def merge_to_words(
    pattern: Float[Tensor, "B H Q K"], q_words: Int[Tensor, "B Q"], k_words: Int[Tensor, "B K"]
) -> Float[Tensor, "B H U W"]:
    """Return the weight of each word for each word: summed over the pieces read, averaged over the pieces that read."""
    of_q, of_k = (piece_word_matrix(words).to(pattern.dtype) for words in (q_words, k_words))
    weights_of_words = torch.einsum("bhqk,bkw->bhqw", pattern, of_k)
    return torch.einsum("bhqw,bqu->bhuw", weights_of_words, of_q / of_q.sum(dim=1, keepdim=True).clamp(min=1.0))


def most_read_keys(pattern: Float[Tensor, "B H Q K"], view: QueryView) -> Int[Tensor, "B H Q"]:
    """Return the key that each query reads most, of those it may choose."""
    # -1 is below every weight, so that a choice of weight 0 still wins
    return pattern.masked_fill(~view.choices[:, None], -1.0).argmax(dim=-1)


def add_strength(
    sums: MeasureSums, pattern: Float[Tensor, "B H Q K"], view: QueryView, marks: Bool[Tensor, "B K"]
) -> None:
    """Add confidence (the largest weight), entropy over all keys in nats, and sink (the share of special tokens)."""
    sums.add("confidence", pattern.masked_fill(~view.choices[:, None], 0.0).amax(dim=-1), view.queries)
    sums.add("entropy", -torch.special.xlogy(pattern, pattern).sum(dim=-1), view.queries)
    sums.add("sink", (pattern * marks[:, None, None, :]).sum(dim=-1), view.queries)


def add_offsets(sums: MeasureSums, pattern: Float[Tensor, "B H Q K"], view: QueryView, name: str) -> None:
    """Add, for each offset d, the share of queries whose largest weight is d positions on.

    Only queries that have a key there and another key to choose are counted.
    """
    offsets = view.k_positions[None, :] - view.q_positions[:, None]
    most_read = most_read_keys(pattern, view)
    has_choice = view.queries & (view.choices.sum(dim=-1) > 1)
    for d in OFFSETS:
        at_d = view.choices & (offsets == d)
        hit = at_d[:, None].expand(-1, pattern.shape[1], -1, -1).gather(3, most_read[..., None])[..., 0]
        sums.add(f"{name}{d:+d}", hit, has_choice & at_d.any(dim=-1))


def add_rarity(sums: MeasureSums, pattern: Float[Tensor, "B H Q K"], view: QueryView, keys: BatchSide) -> None:
    """Add the share of queries whose largest weight is on the rarest piece, and on one of the two rarest.

    Counted are queries that may choose among several pieces, the rarest of which is outside the commonest. Pieces that
    are equally rare are all of them the rarest. `chance` is what a head would reach that chose at random.
    """
    counts = keys.commonness.counts.to(pattern.device)[keys.ids]
    common = keys.commonness.common.to(pattern.device)[keys.ids]
    choice_counts = counts[:, None, :].masked_fill(~view.choices, torch.inf)
    lowest = choice_counts.amin(dim=-1, keepdim=True)
    rarest = view.choices & (choice_counts == lowest)
    second_lowest = choice_counts.masked_fill(rarest, torch.inf).amin(dim=-1, keepdim=True)
    one_rarest = rarest.sum(dim=-1, keepdim=True) == 1
    # several pieces that tie for the rarest already are two or more
    two_rarest = rarest | (view.choices & one_rarest & (choice_counts == second_lowest))
    queries = view.queries & (view.choices.sum(dim=-1) > 1) & (rarest & ~common[:, None, :]).any(dim=-1)
    most_read = most_read_keys(pattern, view)
    choices = view.choices.sum(dim=-1).clamp(min=1)
    for name, targets in (("rarest", rarest), ("two_rarest", two_rarest)):
        hit = targets[:, None].expand(-1, pattern.shape[1], -1, -1).gather(3, most_read[..., None])[..., 0]
        sums.add(name, hit, queries)
        p = targets.sum(dim=-1) / choices
        sums.add(f"{name}_chance", p[:, None], queries)
        # The queries of a sentence tend to choose alike, so a sentence counts as one draw.
        variance = (p * (1 - p)).masked_fill(~queries, 0.0).sum(dim=1) / queries.sum(dim=1).clamp(min=1)
        sums.add(f"{name}_variance", variance[:, None, None], queries.any(dim=1, keepdim=True))


def standard_error(sums: MeasureSums, name: str) -> float | None:
    """Return the standard error of a share that is reached by chance; None where nothing was counted."""
    count = sums.counts.get(f"{name}_variance", 0.0)
    return (float(sums.totals[f"{name}_variance"][0]) / count / count) ** 0.5 if count else None


def pattern_similarities(
    patterns: Sequence[Float[Tensor, "B H Q K"]], queries: Bool[Tensor, "B Q"]
) -> Float[Tensor, "N N"]:
    """Return, for all heads of attentions that read the same, the sum over queries of sum_k sqrt(p_k q_k).

    Divided by the queries this is the mean Bhattacharyya coefficient (1943): 1 for heads that read alike, 0 for heads
    that never read the same piece.
    """
    by_head = torch.cat([pattern.transpose(0, 1) for pattern in patterns])
    roots = by_head.clamp(min=0.0).sqrt().masked_fill(~queries[None, :, :, None], 0.0).flatten(1)
    # one product of matrices gives the sum for all pairs of heads
    return (roots @ roots.T).double().cpu()
