"""What a head's patterns look like: how sure, how far away, how rare what it reads; sums that are divided once.

Confidence, positional and rare-word heads are those of Voita et al. 2019, section 4. Marks (the end mark of the source,
the start mark that the decoder reads) are left out, as queries and as what may be largest; their share is told apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pellucid.inspect.study_pairs import BatchSide

OFFSETS = tuple(range(-3, 4))
"""Places from the query to the key: -1 is the neighbour on the left, 0 itself."""


@dataclass(frozen=True)
class QueryView:
    """Which queries of a batch count, what each of them may choose, and where everything stands."""

    queries: Bool[Tensor, "B Q"]
    choices: Bool[Tensor, "B Q K"]
    q_places: Int[Tensor, " Q"]
    k_places: Int[Tensor, " K"]


@dataclass
class MeasureSums:
    """For each measure a sum for each head, and how many queries it is the sum of."""

    totals: dict[str, Float[Tensor, " H"]] = field(default_factory=dict)
    counts: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, of_queries: Float[Tensor, "B H Q"], queries: Bool[Tensor, "B Q"]) -> None:
        """Add what is found at these queries."""
        total = of_queries.double().masked_fill(~queries[:, None, :], 0.0).sum(dim=(0, 2))
        self.totals[name] = self.totals.get(name, 0.0) + total.cpu()
        self.counts[name] = self.counts.get(name, 0.0) + float(queries.sum())

    def means(self, name: str, heads: int) -> list[float | None]:
        """The mean of each head; None where there was no query."""
        count = self.counts.get(name, 0.0)
        return [None] * heads if not count else [float(each) / count for each in self.totals[name]]


def view_of_pieces(queries: BatchSide, keys: BatchSide, causal: bool) -> QueryView:
    """Piece by piece: a query may choose every piece it may read, marks left out."""
    return view_of_keys(queries.not_special, keys.not_special, queries.places, keys.places, causal)


def view_of_keys(
    queries: Bool[Tensor, "B Q"],
    keys: Bool[Tensor, "B K"],
    q_places: Int[Tensor, " Q"],
    k_places: Int[Tensor, " K"],
    causal: bool,
) -> QueryView:
    """Those keys, and if `causal` only those not after the query."""
    choices = queries[:, :, None] & keys[:, None, :]
    if causal:
        choices = choices & (k_places[None, None, :] <= q_places[None, :, None])
    return QueryView(queries, choices, q_places, k_places)


def view_of_words(queries: BatchSide, keys: BatchSide, causal: bool) -> QueryView:
    """Word by word: `merge_to_words` of a pattern belongs to it. A word whose pieces are all another's does not
    count."""
    q, k = (piece_word_matrix(each.words).any(dim=1) for each in (queries, keys))
    q_places, k_places = (torch.arange(each.shape[1], device=each.device) for each in (q, k))
    return view_of_keys(q, k, q_places, k_places, causal)


def piece_word_matrix(words: Int[Tensor, "B Q"]) -> Bool[Tensor, "B Q W"]:
    """Which piece belongs to which word."""
    numbers = torch.arange(max(1, int(words.max()) + 1), device=words.device)
    return words[:, :, None] == numbers


def merge_to_words(
    pattern: Float[Tensor, "B H Q K"], q_words: Int[Tensor, "B Q"], k_words: Int[Tensor, "B K"]
) -> Float[Tensor, "B H U W"]:
    """What each word reads of each word: summed over the pieces read, averaged over the pieces that read."""
    of_q, of_k = (piece_word_matrix(words).to(pattern.dtype) for words in (q_words, k_words))
    read = torch.einsum("bhqk,bkw->bhqw", pattern, of_k)
    return torch.einsum("bhqw,bqu->bhuw", read, of_q / of_q.sum(dim=1, keepdim=True).clamp(min=1.0))


def most_read_keys(pattern: Float[Tensor, "B H Q K"], v: QueryView) -> Int[Tensor, "B H Q"]:
    """The key that each query reads most, of those it may choose."""
    return pattern.masked_fill(~v.choices[:, None], -1.0).argmax(dim=-1)


def add_strength(
    sums: MeasureSums, pattern: Float[Tensor, "B H Q K"], v: QueryView, marks: Bool[Tensor, "B K"]
) -> None:
    """Confidence, the mean largest weight; entropy over all keys, in nats; and the share that goes to marks."""
    sums.add("confidence", pattern.masked_fill(~v.choices[:, None], 0.0).amax(dim=-1), v.queries)
    sums.add("entropy", -torch.special.xlogy(pattern, pattern).sum(dim=-1), v.queries)
    sums.add("sink", (pattern * marks[:, None, None, :]).sum(dim=-1), v.queries)


def add_offsets(sums: MeasureSums, pattern: Float[Tensor, "B H Q K"], v: QueryView, name: str) -> None:
    """For each offset d the share of queries whose largest weight is d places on.

    Counted are queries that have a key there and another to choose.
    """
    apart = v.k_places[None, :] - v.q_places[:, None]
    best = most_read_keys(pattern, v)
    several = v.queries & (v.choices.sum(dim=-1) > 1)
    for d in OFFSETS:
        at_d = v.choices & (apart == d)
        hit = at_d[:, None].expand(-1, pattern.shape[1], -1, -1).gather(3, best[..., None])[..., 0]
        sums.add(f"{name}{d:+d}", hit, several & at_d.any(dim=-1))


def add_rarity(sums: MeasureSums, pattern: Float[Tensor, "B H Q K"], v: QueryView, keys: BatchSide) -> None:
    """The share of queries whose largest weight is on the rarest piece, and on one of the two rarest.

    Counted are queries that may choose among several pieces, the rarest of which is outside the commonest. Pieces that
    are equally rare are all of them the rarest. `chance` is what a head would reach that chose at random.
    """
    counts = keys.commonness.counts.to(pattern.device)[keys.ids]
    common = keys.commonness.common.to(pattern.device)[keys.ids]
    of_choices = counts[:, None, :].masked_fill(~v.choices, torch.inf)
    least = of_choices.amin(dim=-1, keepdim=True)
    rarest = v.choices & (of_choices == least)
    second = of_choices.masked_fill(rarest, torch.inf).amin(dim=-1, keepdim=True)
    alone = rarest.sum(dim=-1, keepdim=True) == 1
    two = rarest | (v.choices & alone & (of_choices == second))
    queries = v.queries & (v.choices.sum(dim=-1) > 1) & (rarest & ~common[:, None, :]).any(dim=-1)
    best = most_read_keys(pattern, v)
    among = v.choices.sum(dim=-1).clamp(min=1)
    for name, those in (("rarest", rarest), ("two_rarest", two)):
        hit = those[:, None].expand(-1, pattern.shape[1], -1, -1).gather(3, best[..., None])[..., 0]
        sums.add(name, hit, queries)
        p = those.sum(dim=-1) / among
        sums.add(f"{name}_chance", p[:, None], queries)
        # The queries of a sentence tend to choose alike, so a sentence counts as one draw.
        of_sentence = (p * (1 - p)).masked_fill(~queries, 0.0).sum(dim=1) / queries.sum(dim=1).clamp(min=1)
        sums.add(f"{name}_variance", of_sentence[:, None, None], queries.any(dim=1, keepdim=True))


def standard_error(sums: MeasureSums, name: str) -> float | None:
    """Of a share that is reached by chance; None where nothing was counted."""
    count = sums.counts.get(f"{name}_variance", 0.0)
    return (float(sums.totals[f"{name}_variance"][0]) / count / count) ** 0.5 if count else None


def pattern_similarities(
    patterns: Sequence[Float[Tensor, "B H Q K"]], queries: Bool[Tensor, "B Q"]
) -> Float[Tensor, "N N"]:
    """For all heads of these attentions, which read the same, sum over queries of sum_k sqrt(p_k q_k).

    Divided by the queries this is the mean Bhattacharyya coefficient (1943): 1 for heads that read alike, 0 for heads
    that never read the same piece.
    """
    every = torch.cat([each.transpose(0, 1) for each in patterns])
    roots = every.clamp(min=0.0).sqrt().masked_fill(~queries[None, :, :, None], 0.0).flatten(1)
    return (roots @ roots.T).double().cpu()
