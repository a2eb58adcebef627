"""What each head of a model does and how much it matters, measured on sentence pairs.

Roles are those of Voita et al. 2019, importance is that of Michel et al. 2019; what counts as what stands in
`pattern_measures.py`, `relations.py`, `importance.py` and `roles.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from pellucid.data.tokenizer import Tokenizer
from pellucid.decode.alignment import Links, align
from pellucid.decode.translate import reading
from pellucid.inspect import importance, pattern_measures, roles
from pellucid.inspect.importance import Change, Curve, Head
from pellucid.inspect.pattern_measures import OFFSETS, Sums
from pellucid.inspect.relations import Count, Followed
from pellucid.inspect.roles import Badge, Share
from pellucid.inspect.study_pairs import Batch, Pairs, Side, batches
from pellucid.model import ModelConfig, Transformer
from pellucid.trace.edits import attention_names
from pellucid.trace.record import Record

Done = Callable[[], object]
"""Called whenever a part of the work is done."""

SIMILARITY = "mean over queries of sum_k sqrt(p_k q_k), Bhattacharyya's coefficient: 1 read alike, 0 nothing in common"


@dataclass(frozen=True)
class Seen:
    """What the patterns of a head look like; shares are None where no query counted."""

    head: Head
    confidence: float | None
    entropy: float | None
    sink: float | None
    pieces: dict[int, Share]
    words: dict[int, Share]
    rarest: Share
    two_rarest: Share
    rarest_chance: float | None
    two_rarest_chance: float | None
    rarest_error: float | None
    two_rarest_error: float | None


@dataclass(frozen=True)
class Looked:
    """One pass over all pairs: every head, how alike heads are that read the same, and how well cross-heads align.

    `similarity` has a row and a column for each head, in the order of `seen`; None between heads of different kinds.
    """

    seen: list[Seen]
    similarity: list[list[float | None]]
    aligned: list[Followed]


@dataclass(frozen=True)
class Weighed:
    """How much each head matters, in the order of `heads_of`.

    `gradient` is E |dL/dxi|, `normalised` the same with length 1 in each attention; `correlation` are Spearman's rank
    correlations of both with the ablation.
    """

    loss: float
    ablation: list[Change]
    gradient: list[float]
    normalised: list[float]
    correlation: dict[str, float]

    def orders(self, config: ModelConfig, among: str, random: int, seed: int) -> dict[str, list[Head]]:
        """The heads of one kind, those that matter most first, by each importance; and in random orders."""
        places = {head: n for n, head in enumerate(importance.heads_of(config))}
        heads = importance.heads_of(config, among)
        by = {"ablation": [each.value for each in self.ablation], "gradient": self.gradient}
        of_heads = {name: [values[places[head]] for head in heads] for name, values in by.items()}
        return importance.orders(heads, of_heads, random, seed)


def look(
    model: Transformer, tokenizer: Tokenizer, pairs: Pairs, links: Sequence[Links] | None, done: Done = lambda: None
) -> Looked:
    """The patterns of every head on these pairs, captured batch by batch and kept no longer.

    `links` are gold alignments of the pairs, word by word; without them the model's own are taken.
    """
    names, heads = attention_names(model.config), model.config.heads_in
    sums = {name: Sums() for name in names}
    counts = {name: Count() for name in names if name.endswith(".cross")}
    of_kinds = importance.kinds(model.config)
    alike = {kind: (np.zeros((sum(map(heads, some)),) * 2), 0.0) for kind, some in of_kinds.items()}
    record = Record("*.pattern")
    with reading(model):
        for batch in batches(pairs, model.config, model.output_embedding.weight.device):
            memory = model.encode(batch.read.ids, record)
            model.decode(batch.begun.ids, memory, watch=record)
            for name in names:
                summed(sums[name], record[f"{name}.pattern"], *sides(batch, name), causal=is_causal(name))
            for kind, some in of_kinds.items():
                queries = sides(batch, some[0])[0].real
                found = pattern_measures.affinities([record[f"{name}.pattern"] for name in some], queries).numpy()
                alike[kind] = alike[kind][0] + found, alike[kind][1] + float(queries.sum())
            right = links_of(model, tokenizer, pairs, batch, links)
            for name, count in counts.items():
                count_alignment(count, batch, record[f"{name}.pattern"], right)
            done()
    seen = [each for name in names for each in seen_in(name, sums[name], heads(name))]
    found = [
        each
        for relation in ("word it reads", "word it writes")
        for name, count in counts.items()
        if (each := count.followed(relation, name)) is not None
    ]
    means = {kind: rows / count for kind, (rows, count) in alike.items()}
    return Looked(seen, one_matrix(model.config, means), found)


def is_causal(name: str) -> bool:
    """Whether queries may read nothing after them."""
    return name.startswith("decoder.") and name.endswith(".self")


def sides(batch: Batch, name: str) -> tuple[Side, Side]:
    """What reads in an attention, and what is read."""
    if name.startswith("encoder."):
        return batch.read, batch.read
    return batch.begun, batch.read if name.endswith(".cross") else batch.begun


def summed(sums: Sums, pattern, queries: Side, keys: Side, causal: bool) -> None:
    """Add everything measured in one attention of one batch."""
    v = pattern_measures.view(queries, keys, causal)
    pattern_measures.strength(sums, pattern, v, keys.there & ~keys.real)
    pattern_measures.offsets(sums, pattern, v, "pieces")
    pattern_measures.rarity(sums, pattern, v, keys)
    by_words = pattern_measures.by_words(pattern, queries.words, keys.words)
    pattern_measures.offsets(sums, by_words, pattern_measures.view_of_words(queries, keys, causal), "words")


def seen_in(name: str, sums: Sums, heads: int) -> list[Seen]:
    """Each head of an attention, its sums divided."""

    def share(measure: str) -> list[Share]:
        return [Share(value, int(sums.counts.get(measure, 0))) for value in sums.means(measure, heads)]

    by = {unit: {d: share(f"{unit}{d:+d}") for d in OFFSETS} for unit in ("pieces", "words")}
    means = {measure: sums.means(measure, heads) for measure in ("confidence", "entropy", "sink")}
    chances = [sums.means(f"{measure}_chance", 1)[0] for measure in ("rarest", "two_rarest")]
    errors = [pattern_measures.standard_error(sums, measure) for measure in ("rarest", "two_rarest")]
    rarest, two_rarest = share("rarest"), share("two_rarest")
    return [
        Seen(
            Head(name, h),
            confidence=means["confidence"][h],
            entropy=means["entropy"][h],
            sink=means["sink"][h],
            pieces={d: shares[h] for d, shares in by["pieces"].items()},
            words={d: shares[h] for d, shares in by["words"].items()},
            rarest=rarest[h],
            two_rarest=two_rarest[h],
            rarest_chance=chances[0],
            two_rarest_chance=chances[1],
            rarest_error=errors[0],
            two_rarest_error=errors[1],
        )
        for h in range(heads)
    ]


def one_matrix(config: ModelConfig, of_kinds: Mapping[str, Float[ndarray, "N N"]]) -> list[list[float | None]]:
    """The similarities of each kind in one matrix, in the order of `heads_of`."""
    place = {head: n for n, head in enumerate(importance.heads_of(config))}
    matrix: list[list[float | None]] = [[None] * len(place) for _ in place]
    for kind, found in of_kinds.items():
        members = [place[head] for head in importance.heads_of(config, kind)]
        for row, values in zip(members, found.tolist(), strict=True):
            for column, value in zip(members, values, strict=True):
                matrix[row][column] = value
    return matrix


def links_of(
    model: Transformer, tokenizer: Tokenizer, pairs: Pairs, batch: Batch, gold: Sequence[Links] | None
) -> list[Links]:
    """The gold alignments of the pairs of a batch, or those that the whole model makes of them."""
    if gold is not None:
        return [gold[pairs.lines[n]] for n in batch.numbers]
    rows = [(pairs.sources[n], pairs.targets[n]) for n in batch.numbers]
    return align(
        model,
        tokenizer,
        [source for (source, _), _ in rows],
        [target for _, (target, _) in rows],
        [pairs.texts[n][0] for n in batch.numbers],
        [pairs.texts[n][1] for n in batch.numbers],
    )


def count_alignment(count: Count, batch: Batch, pattern, links: Sequence[Links]) -> None:
    """How often a word's largest weight is on a word it is aligned with, from the rows that read it and that write it.

    A row reads one piece and writes the next (Chen et al. 2020 call these the input side and the output side).
    """
    for relation, side in (("word it reads", batch.begun), ("word it writes", batch.asked)):
        found = pattern_measures.by_words(pattern, side.words, batch.read.words)
        v = pattern_measures.view_of_words(side, batch.read, causal=False)
        for best, right, there in zip(pattern_measures.chosen(found, v).cpu(), links, v.queries.tolist(), strict=True):
            wanted: dict[int, list[int]] = {}
            for source, target in right:
                if target < len(there) and there[target]:
                    wanted.setdefault(target, []).append(source)
            count.add(relation, best, wanted)


def weigh(model: Transformer, pairs: Pairs, done: Done = lambda: None) -> Weighed:
    """The change of the loss with each head silent, and the expected gradient of each."""
    heads = importance.heads_of(model.config)
    of_pairs = importance.losses(model, pairs, [(), *((head,) for head in heads)], done)
    ablation = [importance.ablation(of_pairs[0], silent, pairs.pieces) for silent in of_pairs[1:]]
    gradient = importance.expected(importance.gradients(model, pairs, done))
    normalised = importance.normalised(gradient, list(map(model.config.heads_in, attention_names(model.config))))
    by = [each.value for each in ablation]
    return Weighed(
        float(of_pairs[0].sum()) / pairs.pieces,
        ablation,
        gradient.tolist(),
        normalised.tolist(),
        {"gradient": importance.spearman(by, gradient), "normalised": importance.spearman(by, normalised)},
    )


def loss_curves(
    model: Transformer, pairs: Pairs, orders: Mapping[str, Sequence[Head]], counts: Sequence[int], done: Done
) -> list[Curve]:
    """The loss a piece with only the first heads of each order kept; heads that are in none of them stay."""
    variants = [frozenset(order[count:]) for order in orders.values() for count in counts]
    of_variants = dict.fromkeys(variants)
    of_pairs = importance.losses(model, pairs, list(of_variants), done)
    value = {heads: float(row.sum()) / pairs.pieces for heads, row in zip(of_variants, of_pairs, strict=True)}
    return [
        Curve(name, list(counts), [value[frozenset(order[count:])] for count in counts])
        for name, order in orders.items()
    ]


def badges(looked: Looked, followed: Sequence[Followed]) -> dict[Head, list[Badge]]:
    """What each head can be called; of several relations the one that stands out most."""
    found: dict[Head, list[Badge]] = {}
    for each in looked.seen:
        by = {"piece": each.pieces, "word": each.words}
        rare = roles.rare(each.rarest, each.two_rarest, each.two_rarest_chance, each.two_rarest_error)
        found[each.head] = roles.positional(by) + rare
    for mark, some in (("S", followed), ("A", looked.aligned)):
        for head, own in found.items():
            of_head = [
                badge
                for each in some
                if each.attention == head.attention
                for badge in roles.follows(
                    mark, each.relation, each.shares[head.number], each.baseline, each.offset, each.instances
                )
            ]
            own += sorted(of_head, key=lambda badge: badge.beside - badge.share)[:1]
    return found
