"""Studies each head of a model on sentence pairs: its function and its importance.

Roles follow Voita et al. 2019, importance follows Michel et al. 2019; `pattern_measures.py`,
`importance.py` and `roles.py` define the measures.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from pellucid.data.context import split_context
from pellucid.data.tokenizer import Tokenizer
from pellucid.decode.alignment import Links, align_sentences
from pellucid.decode.torch_models import inference_only
from pellucid.interpret.studies import importance, roles
from pellucid.interpret.studies.importance import Head, LossChange, ScoreCurve
from pellucid.interpret.studies.pattern_measures import (
    OFFSETS,
    BatchSide,
    MeasureSums,
    QueryView,
    StudyBatch,
    StudyPairs,
    encode_study_pairs,
    merge_to_words,
    pattern_similarities,
    study_batches,
)
from pellucid.interpret.studies.roles import Badge, FollowedRelation, QueryShare, RelationCounts
from pellucid.interpret.trace.edits import Record, attention_names
from pellucid.interpret.trace.facts import model_facts
from pellucid.model import ModelConfig, Transformer
from pellucid.store.directory import Bundle

OnProgress = Callable[[], object]  # function that is called after each step of the work

SIMILARITY = "mean over queries of sum_k sqrt(p_k q_k), Bhattacharyya's coefficient: 1 read alike, 0 nothing in common"


@dataclass(frozen=True)
class HeadPatterns:
    """Measures of the patterns of one head; shares are None where no query counted."""

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
    """Results of one pass over all pairs: every head, the similarity of heads, and how well cross-heads align.

    `similarity` has a row and a column for each head, in the order of `heads`; None between heads
    of different kinds.
    """

    heads: list[HeadPatterns]
    similarity: list[list[float | None]]
    aligned: list[FollowedRelation]


@dataclass(frozen=True)
class HeadImportance:
    """Importance of each head, in the order of `list_heads`.

    `gradient` is E |dL/dxi|, `normalised` the gradient with length 1 in each attention;
    `correlation` are Spearman's rank correlations of both with the ablation.
    """

    loss: float
    ablation: list[LossChange]
    gradient: list[float]
    normalised: list[float]
    correlation: dict[str, float]

    def orders(self, config: ModelConfig, among: str) -> dict[str, list[Head]]:
        """Order the heads of one kind by each importance, those that matter most first, and in a random order."""
        index_of = {head: n for n, head in enumerate(importance.list_heads(config))}
        heads = importance.list_heads(config, among)
        numbers = [index_of[head] for head in heads]
        by = {
            "ablation": [self.ablation[n].value for n in numbers],
            "gradient": [self.gradient[n] for n in numbers],
        }
        return importance.head_orders(heads, by)


def study_patterns(
    model: Transformer,
    tokenizer: Tokenizer,
    pairs: StudyPairs,
    links: Sequence[Links] | None,
    on_progress: OnProgress = lambda: None,
) -> HeadStudy:
    """Study the patterns of every head on these pairs, captured batch by batch and kept no longer.

    `links` are gold alignments of the pairs, word by word; without them the model's own are taken.
    """
    names, heads = attention_names(model.config), model.config.heads
    sums = {name: MeasureSums() for name in names}
    # Only cross-attention reads words of the other language.
    counts = {name: RelationCounts() for name in names if name.endswith(".cross")}
    attentions_by_kind = importance.attention_kinds(model.config)
    similarity_sums: dict[str, Any] = dict.fromkeys(attentions_by_kind, 0.0)
    queries_of_kind = dict.fromkeys(attentions_by_kind, 0.0)

    # Each batch overwrites the patterns of the last: all of them would not fit into memory.
    record = Record("*.pattern")
    with inference_only(model):
        for batch in study_batches(pairs, model.config, model.output_embedding.weight.device):
            memory = model.encode(batch.source.ids, record)
            model.decode(batch.target_in.ids, memory, watch=record)
            for name in names:
                causal = name.startswith("decoder.") and name.endswith(".self")
                sides = _attention_sides(batch, name)
                sums[name].add_attention(record[f"{name}.pattern"], *sides, causal)

            for kind, attentions in attentions_by_kind.items():
                # Heads are comparable where they read alike: all attentions of a kind share the
                # queries of the first.
                queries = _attention_sides(batch, attentions[0])[0].not_special
                patterns_of_kind = [record[f"{name}.pattern"] for name in attentions]
                similarity = pattern_similarities(patterns_of_kind, queries)
                similarity_sums[kind] = similarity_sums[kind] + similarity.numpy()
                queries_of_kind[kind] += float(queries.sum())

            batch_links = _links_of_batch(model, tokenizer, pairs, batch, links)
            for name, count in counts.items():
                count_alignment(count, batch, record[f"{name}.pattern"], batch_links)
            on_progress()

    patterns: list[HeadPatterns] = []
    for name in names:
        patterns += _patterns_of_attention(name, sums[name], heads)

    aligned = []
    for relation in ("word it reads", "word it writes"):
        for name, count in counts.items():
            followed = count.as_followed(relation, name)
            if followed is not None:
                aligned.append(followed)

    similarities = {}
    for kind, rows in similarity_sums.items():
        similarities[kind] = rows / queries_of_kind[kind]
    return HeadStudy(patterns, _join_similarities(model.config, similarities), aligned)


def _attention_sides(batch: StudyBatch, name: str) -> tuple[BatchSide, BatchSide]:
    if name.startswith("encoder."):
        return batch.source, batch.source
    return batch.target_in, batch.source if name.endswith(".cross") else batch.target_in


def _patterns_of_attention(name: str, sums: MeasureSums, heads: int) -> list[HeadPatterns]:
    """Return the measures of each head of an attention: its sums divided by its queries."""

    def share(measure: str) -> list[QueryShare]:
        queries = int(sums.counts.get(measure, 0))
        return [QueryShare(value, queries) for value in sums.means(measure, heads)]

    pieces = {d: share(f"pieces{d:+d}") for d in OFFSETS}
    words = {d: share(f"words{d:+d}") for d in OFFSETS}
    confidence, entropy, sink = (sums.means(measure, heads) for measure in ("confidence", "entropy", "sink"))
    rarest, two_rarest = share("rarest"), share("two_rarest")

    patterns = []
    for h in range(heads):
        patterns.append(
            HeadPatterns(
                Head(name, h),
                confidence[h],
                entropy[h],
                sink[h],
                pieces={d: shares[h] for d, shares in pieces.items()},
                words={d: shares[h] for d, shares in words.items()},
                rarest=rarest[h],
                two_rarest=two_rarest[h],
                # Chance depends on the sentences alone, so one number serves all heads.
                rarest_chance=sums.means("rarest_chance", 1)[0],
                two_rarest_chance=sums.means("two_rarest_chance", 1)[0],
                rarest_error=sums.standard_error("rarest"),
                two_rarest_error=sums.standard_error("two_rarest"),
            )
        )

    return patterns


def _join_similarities(
    config: ModelConfig,
    by_kind: Mapping[str, Float[ndarray, "N N"]],
) -> list[list[float | None]]:
    """Join the similarities of each kind in one matrix, in the order of `list_heads`."""
    index_of = {head: n for n, head in enumerate(importance.list_heads(config))}
    # None stays between heads of different kinds, which do not read the same
    matrix: list[list[float | None]] = [[None] * len(index_of) for _ in index_of]
    for kind, similarities in by_kind.items():
        members = [index_of[head] for head in importance.list_heads(config, kind)]
        for row, values in zip(members, similarities.tolist(), strict=True):
            for column, value in zip(members, values, strict=True):
                matrix[row][column] = value
    return matrix


def _links_of_batch(
    model: Transformer,
    tokenizer: Tokenizer,
    pairs: StudyPairs,
    batch: StudyBatch,
    gold: Sequence[Links] | None,
) -> list[Links]:
    """Return the gold alignments of the pairs of a batch, or those that the whole model makes of them."""
    if gold is not None:
        # gold has an alignment for every line given, also for the lines that were left out
        return [gold[pairs.lines[n]] for n in batch.numbers]

    sources, targets, source_texts, target_texts = [], [], [], []
    for n in batch.numbers:
        sources.append(pairs.sources[n][0])
        targets.append(pairs.targets[n][0])
        source, target = pairs.texts[n]
        source_texts.append(split_context(source)[1])
        target_texts.append(target)
    return align_sentences(model, tokenizer, sources, targets, source_texts, target_texts)


def count_alignment(
    count: RelationCounts,
    batch: StudyBatch,
    pattern,
    links: Sequence[Links],
) -> None:
    """Count how often a word's largest weight is on an aligned word.

    It is counted for the row that reads the word, and for the row before, which writes it.
    Chen et al. 2020 call these rows the input side and the output side.
    """
    # a row reads one piece and writes the next
    for relation, side in (
        ("word it reads", batch.target_in),
        ("word it writes", batch.target_out),
    ):
        word_pattern = merge_to_words(pattern, side.words, batch.source.words)
        view = QueryView.of_words(side, batch.source, causal=False)
        most_read_of = view.most_read(word_pattern).cpu()
        sentences = zip(most_read_of, links, view.queries.tolist(), strict=True)
        for most_read, sentence_links, is_word in sentences:
            source_words_of: dict[int, list[int]] = {}
            for source, target in sentence_links:
                # a link may name a word with no piece of its own
                if target < len(is_word) and is_word[target]:
                    source_words_of.setdefault(target, []).append(source)
            count.add(relation, most_read, source_words_of)


def measure_importance(
    model: Transformer,
    pairs: StudyPairs,
    on_progress: OnProgress = lambda: None,
) -> HeadImportance:
    """Measure the change of the loss with each head silent, and the expected gradient of each head."""
    heads = importance.list_heads(model.config)
    # the first variant silences nothing: the loss that the others are compared with
    variants = [(), *((head,) for head in heads)]
    losses = importance.pair_losses(model, pairs, variants, on_progress)
    ablation = [importance.loss_change(losses[0], silent, pairs.pieces) for silent in losses[1:]]
    gradient = np.abs(importance.head_gradients(model, pairs, on_progress)).mean(axis=0)  # E |dL/dxi|
    normalised = importance.normalise_by_attention(gradient, model.config.heads)
    ablation_values = [change.value for change in ablation]
    correlation = {
        "gradient": importance.spearman_correlation(ablation_values, gradient),
        "normalised": importance.spearman_correlation(ablation_values, normalised),
    }
    loss = float(losses[0].sum()) / pairs.pieces
    return HeadImportance(loss, ablation, gradient.tolist(), normalised.tolist(), correlation)


def study_heads_of(
    bundle: Bundle,
    sources: Sequence[str],
    targets: Sequence[str],
    on_progress: OnProgress = lambda: None,
) -> dict[str, Any]:
    """Return roles and importance of every head of a model, measured on these pairs, as the page reads them."""
    pairs = encode_study_pairs(bundle.tokenizer, bundle.model.config, sources, targets)
    patterns = study_patterns(bundle.model, bundle.tokenizer, pairs, None, on_progress)
    measured = measure_importance(bundle.model, pairs, on_progress)
    return badges_object(bundle, measured, award_badges(patterns), len(pairs))


def badges_object(
    bundle: Bundle, measured: HeadImportance, badges: Mapping[Head, Sequence[Badge]], pairs: int
) -> dict[str, Any]:
    """Return roles and importance of every head as the page reads them, with the hash of the weights that were used."""
    facts = model_facts(bundle)
    rows = zip(
        importance.list_heads(bundle.model.config),
        measured.ablation,
        measured.gradient,
        strict=True,
    )
    heads = []
    for head, change, gradient in rows:
        error = change.error if isfinite(change.error) else None
        heads.append(roles.BadgedHead(*head, [*badges[head]], change.value, error, gradient))

    made = roles.HeadBadges(
        roles.FORMAT,
        facts.sha256,
        pairs,
        measured.loss,
        dict(roles.RULES),
        heads,
        facts.name,
    )
    return asdict(made)


def loss_curves(
    model: Transformer,
    pairs: StudyPairs,
    orders: Mapping[str, Sequence[Head]],
    counts: Sequence[int],
    on_progress: OnProgress,
) -> list[ScoreCurve]:
    """Return the loss a piece with only the first heads of each order kept.

    Heads that are in no order stay.
    """
    # All orders begin with no head silent and end with all: such variants are measured once.
    variants: dict[frozenset[Head], None] = {}
    for order in orders.values():
        for count in counts:
            variants[frozenset(order[count:])] = None

    losses = importance.pair_losses(model, pairs, list(variants), on_progress)
    loss_without: dict[frozenset[Head], float] = {}
    for heads, row in zip(variants, losses, strict=True):
        loss_without[heads] = float(row.sum()) / pairs.pieces

    curves = []
    for name, order in orders.items():
        values = [loss_without[frozenset(order[count:])] for count in counts]
        curves.append(ScoreCurve(name, list(counts), values))
    return curves


def award_badges(study: HeadStudy) -> dict[Head, list[Badge]]:
    """Return the badges of each head, at most one for alignment: the one whose row stands out most."""
    badges: dict[Head, list[Badge]] = {}
    for patterns in study.heads:
        head = patterns.head
        aligning: list[Badge] = []
        for relation in study.aligned:
            if relation.attention == head.attention:
                aligning += roles.relation_badges(relation, head.number)
        # Sorted by the lead over the baseline, largest first.
        aligning.sort(key=lambda badge: badge.beside - badge.share)
        rare = roles.rare_word_badges(
            patterns.rarest,
            patterns.two_rarest,
            patterns.two_rarest_chance,
            patterns.two_rarest_error,
        )
        by_unit = {"piece": patterns.pieces, "word": patterns.words}
        badges[head] = [*roles.positional_badges(by_unit), *rare, *aligning[:1]]

    return badges
