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
from pellucid.decode.alignment import Links, align_sentences
from pellucid.decode.translate import inference_only
from pellucid.inspect import importance, pattern_measures, roles
from pellucid.inspect.importance import Head, LossChange, ScoreCurve
from pellucid.inspect.pattern_measures import OFFSETS, MeasureSums
from pellucid.inspect.relations import FollowedRelation, RelationCounts
from pellucid.inspect.roles import Badge, QueryShare
from pellucid.inspect.study_pairs import BatchSide, StudyBatch, StudyPairs, study_batches
from pellucid.model import ModelConfig, Transformer
from pellucid.trace.edits import attention_names
from pellucid.trace.record import Record

OnProgress = Callable[[], object]
"""Called whenever a part of the work is done."""

SIMILARITY = "mean over queries of sum_k sqrt(p_k q_k), Bhattacharyya's coefficient: 1 read alike, 0 nothing in common"


@dataclass(frozen=True)
class HeadPatterns:
    """What the patterns of a head look like; shares are None where no query counted."""

    head: Head
    confidence: float | None
    entropy: float | None
    sink: float | None
    pieces: dict[int, QueryShare]
    words: dict[int, QueryShare]
    rarest: QueryShare
    two_rarest: QueryShare
    rarest_chance: float | None
    two_rarest_chance: float | None
    rarest_error: float | None
    two_rarest_error: float | None


@dataclass(frozen=True)
class HeadStudy:
    """One pass over all pairs: every head, how alike heads are that read the same, and how well cross-heads align.

    `similarity` has a row and a column for each head, in the order of `seen`; None between heads of different kinds.
    """

    seen: list[HeadPatterns]
    similarity: list[list[float | None]]
    aligned: list[FollowedRelation]


@dataclass(frozen=True)
class HeadImportance:
    """How much each head matters, in the order of `list_heads`.

    `gradient` is E |dL/dxi|, `normalised` the same with length 1 in each attention; `correlation` are Spearman's rank
    correlations of both with the ablation.
    """

    loss: float
    ablation: list[LossChange]
    gradient: list[float]
    normalised: list[float]
    correlation: dict[str, float]

    def orders(self, config: ModelConfig, among: str, random: int, seed: int) -> dict[str, list[Head]]:
        """The heads of one kind, those that matter most first, by each importance; and in random orders."""
        places = {head: n for n, head in enumerate(importance.list_heads(config))}
        heads = importance.list_heads(config, among)
        by = {"ablation": [each.value for each in self.ablation], "gradient": self.gradient}
        of_heads = {name: [values[places[head]] for head in heads] for name, values in by.items()}
        return importance.head_orders(heads, of_heads, random, seed)


def study_patterns(
    model: Transformer,
    tokenizer: Tokenizer,
    pairs: StudyPairs,
    links: Sequence[Links] | None,
    done: OnProgress = lambda: None,
) -> HeadStudy:
    """The patterns of every head on these pairs, captured batch by batch and kept no longer.

    `links` are gold alignments of the pairs, word by word; without them the model's own are taken.
    """
    names, heads = attention_names(model.config), model.config.heads_in
    sums = {name: MeasureSums() for name in names}
    counts = {name: RelationCounts() for name in names if name.endswith(".cross")}
    of_kinds = importance.attention_kinds(model.config)
    alike = {kind: (np.zeros((sum(map(heads, some)),) * 2), 0.0) for kind, some in of_kinds.items()}
    record = Record("*.pattern")
    with inference_only(model):
        for batch in study_batches(pairs, model.config, model.output_embedding.weight.device):
            memory = model.encode(batch.source.ids, record)
            model.decode(batch.target_in.ids, memory, watch=record)
            for name in names:
                add_measures(
                    sums[name], record[f"{name}.pattern"], *attention_sides(batch, name), causal=is_causal(name)
                )
            for kind, some in of_kinds.items():
                queries = attention_sides(batch, some[0])[0].not_special
                found = pattern_measures.pattern_similarities(
                    [record[f"{name}.pattern"] for name in some], queries
                ).numpy()
                alike[kind] = alike[kind][0] + found, alike[kind][1] + float(queries.sum())
            right = links_of_batch(model, tokenizer, pairs, batch, links)
            for name, count in counts.items():
                count_alignment(count, batch, record[f"{name}.pattern"], right)
            done()
    seen = [each for name in names for each in patterns_of_attention(name, sums[name], heads(name))]
    found = [
        each
        for relation in ("word it reads", "word it writes")
        for name, count in counts.items()
        if (each := count.as_followed(relation, name)) is not None
    ]
    means = {kind: rows / count for kind, (rows, count) in alike.items()}
    return HeadStudy(seen, join_similarities(model.config, means), found)


def is_causal(name: str) -> bool:
    """Whether queries may read nothing after them."""
    return name.startswith("decoder.") and name.endswith(".self")


def attention_sides(batch: StudyBatch, name: str) -> tuple[BatchSide, BatchSide]:
    """What reads in an attention, and what is read."""
    if name.startswith("encoder."):
        return batch.source, batch.source
    return batch.target_in, batch.source if name.endswith(".cross") else batch.target_in


def add_measures(sums: MeasureSums, pattern, queries: BatchSide, keys: BatchSide, causal: bool) -> None:
    """Add everything measured in one attention of one batch."""
    v = pattern_measures.view_of_pieces(queries, keys, causal)
    pattern_measures.add_strength(sums, pattern, v, keys.not_padding & ~keys.not_special)
    pattern_measures.add_offsets(sums, pattern, v, "pieces")
    pattern_measures.add_rarity(sums, pattern, v, keys)
    by_words = pattern_measures.merge_to_words(pattern, queries.words, keys.words)
    pattern_measures.add_offsets(sums, by_words, pattern_measures.view_of_words(queries, keys, causal), "words")


def patterns_of_attention(name: str, sums: MeasureSums, heads: int) -> list[HeadPatterns]:
    """Each head of an attention, its sums divided."""

    def share(measure: str) -> list[QueryShare]:
        return [QueryShare(value, int(sums.counts.get(measure, 0))) for value in sums.means(measure, heads)]

    by = {unit: {d: share(f"{unit}{d:+d}") for d in OFFSETS} for unit in ("pieces", "words")}
    means = {measure: sums.means(measure, heads) for measure in ("confidence", "entropy", "sink")}
    chances = [sums.means(f"{measure}_chance", 1)[0] for measure in ("rarest", "two_rarest")]
    errors = [pattern_measures.standard_error(sums, measure) for measure in ("rarest", "two_rarest")]
    rarest, two_rarest = share("rarest"), share("two_rarest")
    return [
        HeadPatterns(
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


def join_similarities(config: ModelConfig, of_kinds: Mapping[str, Float[ndarray, "N N"]]) -> list[list[float | None]]:
    """The similarities of each kind in one matrix, in the order of `list_heads`."""
    place = {head: n for n, head in enumerate(importance.list_heads(config))}
    matrix: list[list[float | None]] = [[None] * len(place) for _ in place]
    for kind, found in of_kinds.items():
        members = [place[head] for head in importance.list_heads(config, kind)]
        for row, values in zip(members, found.tolist(), strict=True):
            for column, value in zip(members, values, strict=True):
                matrix[row][column] = value
    return matrix


def links_of_batch(
    model: Transformer, tokenizer: Tokenizer, pairs: StudyPairs, batch: StudyBatch, gold: Sequence[Links] | None
) -> list[Links]:
    """The gold alignments of the pairs of a batch, or those that the whole model makes of them."""
    if gold is not None:
        return [gold[pairs.lines[n]] for n in batch.numbers]
    rows = [(pairs.sources[n], pairs.targets[n]) for n in batch.numbers]
    return align_sentences(
        model,
        tokenizer,
        [source for (source, _), _ in rows],
        [target for _, (target, _) in rows],
        [pairs.texts[n][0] for n in batch.numbers],
        [pairs.texts[n][1] for n in batch.numbers],
    )


def count_alignment(count: RelationCounts, batch: StudyBatch, pattern, links: Sequence[Links]) -> None:
    """How often a word's largest weight is on a word it is aligned with, from the rows that read it and that write it.

    A row reads one piece and writes the next (Chen et al. 2020 call these the input side and the output side).
    """
    for relation, side in (("word it reads", batch.target_in), ("word it writes", batch.target_out)):
        found = pattern_measures.merge_to_words(pattern, side.words, batch.source.words)
        v = pattern_measures.view_of_words(side, batch.source, causal=False)
        for best, right, there in zip(
            pattern_measures.most_read_keys(found, v).cpu(), links, v.queries.tolist(), strict=True
        ):
            wanted: dict[int, list[int]] = {}
            for source, target in right:
                if target < len(there) and there[target]:
                    wanted.setdefault(target, []).append(source)
            count.add(relation, best, wanted)


def measure_importance(model: Transformer, pairs: StudyPairs, done: OnProgress = lambda: None) -> HeadImportance:
    """The change of the loss with each head silent, and the expected gradient of each."""
    heads = importance.list_heads(model.config)
    of_pairs = importance.pair_losses(model, pairs, [(), *((head,) for head in heads)], done)
    ablation = [importance.loss_change(of_pairs[0], silent, pairs.pieces) for silent in of_pairs[1:]]
    gradient = importance.expected_gradient(importance.head_gradients(model, pairs, done))
    normalised = importance.normalise_by_attention(
        gradient, list(map(model.config.heads_in, attention_names(model.config)))
    )
    by = [each.value for each in ablation]
    return HeadImportance(
        float(of_pairs[0].sum()) / pairs.pieces,
        ablation,
        gradient.tolist(),
        normalised.tolist(),
        {
            "gradient": importance.spearman_correlation(by, gradient),
            "normalised": importance.spearman_correlation(by, normalised),
        },
    )


def loss_curves(
    model: Transformer, pairs: StudyPairs, orders: Mapping[str, Sequence[Head]], counts: Sequence[int], done: OnProgress
) -> list[ScoreCurve]:
    """The loss a piece with only the first heads of each order kept; heads that are in none of them stay."""
    variants = [frozenset(order[count:]) for order in orders.values() for count in counts]
    of_variants = dict.fromkeys(variants)
    of_pairs = importance.pair_losses(model, pairs, list(of_variants), done)
    value = {heads: float(row.sum()) / pairs.pieces for heads, row in zip(of_variants, of_pairs, strict=True)}
    return [
        ScoreCurve(name, list(counts), [value[frozenset(order[count:])] for count in counts])
        for name, order in orders.items()
    ]


def award_badges(looked: HeadStudy, followed: Sequence[FollowedRelation]) -> dict[Head, list[Badge]]:
    """What each head can be called; of several relations the one that stands out most."""
    found: dict[Head, list[Badge]] = {}
    for each in looked.seen:
        by = {"piece": each.pieces, "word": each.words}
        rare = roles.rare_word_badges(each.rarest, each.two_rarest, each.two_rarest_chance, each.two_rarest_error)
        found[each.head] = roles.positional_badges(by) + rare
    for mark, some in (("S", followed), ("A", looked.aligned)):
        for head, own in found.items():
            of_head = [
                badge
                for each in some
                if each.attention == head.attention
                for badge in roles.relation_badges(
                    mark, each.relation, each.shares[head.number], each.baseline, each.offset, each.instances
                )
            ]
            own += sorted(of_head, key=lambda badge: badge.beside - badge.share)[:1]
    return found
