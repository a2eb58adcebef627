"""Word alignments read from cross-attention in every way: both sides, weights and norms, each layer and head, and sums.

Translations are aligned by one of these readings (`decode/alignment.py`). This module puts all of
them beside each other, with two choices among them that need no gold alignment.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pellucid.data.context import count_context, encode_with_context, split_context
from pellucid.data.text.word_pieces import AlignedWord, words_without_punctuation
from pellucid.data.tokenizer import Tokenizer, strip_eos
from pellucid.decode.alignment import (
    Links,
    contribution_norms,
    cross_norms,
    link_strengths,
    link_words,
    mark_row_and_column_maxima,
    norms_by_word,
    piece_alignments,
    project_values,
)
from pellucid.decode.torch_models import inference_only
from pellucid.interpret.studies.pattern_measures import batch_numbers
from pellucid.interpret.studies.word_axes import SIDES
from pellucid.model import ModelConfig, Transformer

# Measure of a source piece: how far it moves the row
# (Kobayashi et al. 2020), or its share of the attention.
KINDS = ("norms", "weights")
PAIRS_AT_ONCE = 32  # pairs that go through the model in one batch when all pairs are linked


@dataclass(frozen=True)
class Reading:
    """Way to read an alignment: side and kind, and the layer and head.

    None stands for all of them.
    """

    side: str
    kind: str
    layer: int | None = None
    head: int | None = None

    def __str__(self) -> str:
        layers = "all layers" if self.layer is None else f"layer {self.layer}"
        head = "" if self.head is None else f", head {self.head}"
        return f"{self.side} side, {self.kind}, {layers}{head}"


DEFAULT_READING = Reading("output", "norms")  # by which translations are aligned, with the links that are mutually best


@dataclass(frozen=True)
class LinkCounts:
    """Links drawn, the drawn links that gold calls sure and possible, and all links that gold calls sure."""

    drawn: int
    right_sure: int
    right_possible: int
    sure: int


@dataclass(frozen=True)
class ReadingResult:
    """Disagreement, mean norm and links of one reading.

    `disagreement` is between two directions: the best source word of each target word, and the best
    target word of each source word; 1 - 2 |A & B| / (|A| + |B|), over all pairs. `mean_norm`
    belongs to the reading's layer; side and kind do not change it. `best_source_word` links each
    target word with its best source word, as the papers do; `mutually_best` links what is the best
    there is for either by shares of both (`link_words`). Their counts are right only where there is
    gold.
    """

    reading: Reading
    disagreement: float
    mean_norm: float | None
    best_source_word: LinkCounts
    mutually_best: LinkCounts


@dataclass(frozen=True)
class EncodedPair:
    """Sentence and its translation as ids, with the words of both that can be aligned."""

    source: list[int]
    target: list[int]
    source_words: list[AlignedWord]
    target_words: list[AlignedWord]


def encode_alignment_pairs(
    tokenizer: Tokenizer,
    sources: Sequence[str],
    targets: Sequence[str],
    source_words: Sequence[str] | None = None,
    target_words: Sequence[str] | None = None,
) -> list[EncodedPair]:
    """Encode texts as pairs to align.

    A source may have its context (`join_context`), whose words are not aligned. `source_words` and
    `target_words` are the texts with spaces where their words part, if they part elsewhere.
    """
    source_ids = encode_with_context(tokenizer, sources)
    target_ids = tokenizer.encode_target(targets)
    source_words = source_words or [split_context(source)[1] for source in sources]
    target_words = target_words or targets

    pairs = []
    for n, (source, target) in enumerate(zip(source_ids, target_ids, strict=True)):
        # The end token of either side is no part of a word.
        words = _words_after_context(tokenizer, strip_eos(source), source_words[n])
        target_pieces = tokenizer.target_pieces(target[:-1])
        other_words = words_without_punctuation(target_pieces, target_words[n])
        pairs.append(EncodedPair(source, target, words, other_words))
    return pairs


def _words_after_context(tokenizer: Tokenizer, source: list[int], text: str) -> list[AlignedWord]:
    start = count_context(source)
    moved = []
    for word in words_without_punctuation(tokenizer.source_pieces(source[start:]), text):
        pieces = range(word.pieces.start + start, word.pieces.stop + start)
        moved.append(replace(word, pieces=pieces))
    return moved


def measure_readings(
    model: Transformer,
    pairs: Sequence[EncodedPair],
    sure: Sequence[set[tuple[int, int]]] | None = None,
    possible: Sequence[set[tuple[int, int]]] | None = None,
    on_progress: Callable[[int], object] = lambda number: None,
) -> list[ReadingResult]:
    """Measure every reading on all pairs, against gold alignments if there are any.

    `on_progress` is called with the number of pairs of each batch. Raises ValueError, naming its
    line, for a pair that is longer than the model takes.
    """
    limit = model.config.max_positions
    for number, pair in enumerate(pairs, start=1):
        if (length := max(len(pair.source), len(pair.target))) > limit:
            has = f"line {number} has {length} pieces on a side"
            raise ValueError(f"{has}, this model takes {limit}; leave it out")

    layers, heads = model.config.decoder_layers, model.config.heads
    readings = every_reading(model.config)
    one_each, best, agreed = (torch.zeros(len(readings), n, dtype=torch.long) for n in (3, 3, 2))

    norms, entries = torch.zeros(layers, dtype=torch.float64), 0
    for numbers, measured in measure_cross_attention(model, pairs):
        for n, values in zip(numbers, measured, strict=True):
            # channel 0 is the norm of the whole layer; the last row and column are the end tokens
            norms += values[:, 0, :-1, :-1].double().sum(dim=(1, 2))
            entries += (values.shape[2] - 1) * (values.shape[3] - 1)
            pair = pairs[n]
            if not pair.source_words or not pair.target_words:
                continue
            every_value = reading_values(values, pair)
            forward, backward = _mark_maxima(every_value, 2), _mark_maxima(every_value, 1)
            agreed[:, 0] += (forward & backward).sum(dim=(1, 2))
            agreed[:, 1] += forward.sum(dim=(1, 2)) + backward.sum(dim=(1, 2))
            gold = (
                _link_matrix(sure[n] if sure else (), pair),
                _link_matrix(possible[n] if possible else (), pair),
            )
            one_each += _count_links(forward, *gold)
            strengths = reading_strengths(every_value, layers, heads)
            best += _count_links(mark_row_and_column_maxima(strengths), *gold)
        on_progress(len(numbers))

    sure_links = sum(map(len, sure or ()))
    means = (norms / max(entries, 1)).tolist()
    results = []
    for n, reading in enumerate(readings):
        in_both, in_either = agreed[n].tolist()
        mean_norm = None
        if reading.layer is not None and reading.head is None:
            mean_norm = means[reading.layer]
        result = ReadingResult(
            reading,
            disagreement=1 - 2 * in_both / max(in_either, 1),
            mean_norm=mean_norm,
            best_source_word=LinkCounts(*[*one_each[n].tolist(), sure_links]),
            mutually_best=LinkCounts(*[*best[n].tolist(), sure_links]),
        )
        results.append(result)

    return results


def every_reading(config: ModelConfig) -> list[Reading]:
    """Return all readings of a model in the order of `reading_values`: of each side the layers, then sums of layers."""
    readings = []
    for side in SIDES:
        for layer in range(config.decoder_layers):
            # `_measure_every_kind` puts its channels in this order
            readings += [Reading(side, kind, layer) for kind in KINDS]
            for kind in KINDS:
                readings += [Reading(side, kind, layer, head) for head in range(config.heads)]
        readings += [Reading(side, kind) for kind in KINDS]
    return readings


def measure_cross_attention(
    model: Transformer, pairs: Sequence[EncodedPair]
) -> Iterator[tuple[list[int], list[Float[Tensor, "L C T S"]]]]:
    """Yield the numbers of pairs of like length, and what `_measure_every_kind` says of each, end tokens included."""
    lengths = {n: max(len(pair.source), len(pair.target)) for n, pair in enumerate(pairs)}
    with inference_only(model):
        for numbers in batch_numbers(lengths, model.config):
            batch = [pairs[n] for n in numbers]
            sources, targets = [pair.source for pair in batch], [pair.target for pair in batch]
            measured = cross_norms(model, sources, targets, _measure_every_kind).cpu()
            by_pair = []
            for i, pair in enumerate(batch):
                # Without the padding that the batch gave the pair.
                by_pair.append(measured[:, i, :, : len(pair.target), : len(pair.source)])
            yield numbers, by_pair


def _measure_every_kind(
    pattern: Float[Tensor, "B H T S"], v: Float[Tensor, "B H S E"], output: Float[Tensor, "D HE"]
) -> Float[Tensor, "B C T S"]:
    """Stack the norm of the layer, the mean weight of its heads, ||alpha v W_O|| of each head and its weights."""
    value_norms = project_values(v.to(pattern.dtype), output.to(pattern.dtype)).norm(dim=-1)
    by_head, mean = pattern * value_norms.mT.unsqueeze(2), pattern.mean(dim=1, keepdim=True)
    return torch.cat([contribution_norms(pattern, v, output)[:, None], mean, by_head, pattern], dim=1)


def reading_values(measured: Float[Tensor, "L C T S"], pair: EncodedPair) -> Float[Tensor, "R N M"]:
    """Return how much each target word took from each source word, in each reading."""
    values = []
    # the row before a target piece writes it, the row
    # after reads it; the last column is the end token
    for rows in (slice(None, -1), slice(1, None)):
        side_values = measured[:, :, rows, :-1]
        by_word = norms_by_word(side_values.flatten(0, 1), pair.source_words, pair.target_words)
        values += [by_word, by_word.unflatten(0, measured.shape[:2])[:, : len(KINDS)].sum(dim=0)]
    return torch.cat(values)


def reading_strengths(
    values: Float[Tensor, "R N M"],
    layers: int,
    heads: int,
) -> Float[Tensor, "R N M"]:
    """Return the shares of each reading.

    A reading of all layers sums the layers' shares, as in `link_words`.
    """
    kinds = len(KINDS)
    strengths = []
    for side in values.chunk(len(SIDES)):
        # the last rows are sums of norms or weights: their
        # strengths are summed from the layers' instead
        by_layer = link_strengths(side[:-kinds])
        strengths += [
            by_layer,
            by_layer.unflatten(0, (layers, kinds + kinds * heads))[:, :kinds].sum(dim=0),
        ]
    return torch.cat(strengths)


def _mark_maxima(values: Float[Tensor, "R N M"], dim: int) -> Bool[Tensor, "R N M"]:
    """Mark each value that is the largest along an axis and greater than zero."""
    largest = torch.zeros_like(values, dtype=torch.bool)
    return largest.scatter_(dim, values.argmax(dim=dim, keepdim=True), True) & (values > 0.0)


def _count_links(
    drawn: Bool[Tensor, "R N M"], sure: Bool[Tensor, "N M"], possible: Bool[Tensor, "N M"]
) -> Int[Tensor, "R 3"]:
    """Count the links that each reading drew, and how many of these are in gold."""
    drawn_sure, drawn_possible = drawn & sure, drawn & possible
    counts = [links.sum(dim=(1, 2)) for links in (drawn, drawn_sure, drawn_possible)]
    return torch.stack(counts, dim=1)


def _link_matrix(links: Iterable[tuple[int, int]], pair: EncodedPair) -> Bool[Tensor, "N M"]:
    """Return a matrix that is True where a pair of words is linked."""
    linked = torch.zeros(len(pair.target_words), len(pair.source_words), dtype=torch.bool)
    for i, j in links:
        # links name the source word first; the matrix has a row for each target word
        linked[j, i] = True
    return linked


def choose_readings(results: Sequence[ReadingResult]) -> tuple[ReadingResult, ReadingResult]:
    """Choose two readings without any gold, among whole layers by norms.

    The first is the side and layer whose two directions disagree least; the second, of the same
    side, the layer of the largest mean norm (Kobayashi et al. 2020, 5.2).
    """
    # only whole layers have a mean norm
    layers = []
    for result in results:
        if result.mean_norm is not None and result.reading.kind == "norms":
            layers.append(result)
    least = min(layers, key=lambda result: result.disagreement)
    same_side = [result for result in layers if result.reading.side == least.reading.side]
    return least, max(same_side, key=lambda result: result.mean_norm or 0.0)


def alignment_table(model: Transformer, pair: EncodedPair) -> tuple[Float[Tensor, "N M"], Links]:
    """Return the value of each pair of words, larger is better, and the links by which translations are aligned."""
    if not pair.source_words or not pair.target_words:
        return torch.zeros(len(pair.target_words), len(pair.source_words)), []
    [(_, [measured])] = measure_cross_attention(model, [pair])
    norms = measured[:, 0, :-1, :-1]  # of whole layers, without the end tokens
    values = link_strengths(norms_by_word(norms, pair.source_words, pair.target_words)).sum(dim=0)
    return values, link_words(norms, pair.source_words, pair.target_words)


def default_links(model: Transformer, pairs: Sequence[EncodedPair]) -> Iterator[Links]:
    """Yield the links of each pair by which translations are aligned.

    The model must be in evaluation mode.
    """
    for start in range(0, len(pairs), PAIRS_AT_ONCE):
        batch = pairs[start : start + PAIRS_AT_ONCE]
        sources, targets = [pair.source for pair in batch], [pair.target for pair in batch]
        norms_of_pairs = piece_alignments(model, sources, targets)
        for norms, pair in zip(norms_of_pairs, batch, strict=True):
            yield link_words(norms, pair.source_words, pair.target_words)
