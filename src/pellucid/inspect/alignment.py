"""Word alignment read from cross-attention in every way: both sides, weights and norms, each layer, head and their sum.

What `decode/alignment.py` does is one of these readings; here they stand beside each other, with what says without any
gold which of them to trust.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pellucid.data.tokenizer import Tokenizer
from pellucid.decode.alignment import (
    AlignedWord,
    Links,
    contribution_norms,
    cross_norms,
    link_strengths,
    link_words,
    mark_row_and_column_maxima,
    norms_by_word,
    piece_alignments,
    project_values,
    words_without_punctuation,
)
from pellucid.decode.translate import inference_only as at_rest
from pellucid.inspect.study_pairs import batch_numbers
from pellucid.model import ModelConfig, Transformer

SIDES = ("output", "input")
"""The row that writes a target piece, and the row that reads it, one further (Chen et al. 2020)."""

KINDS = ("norms", "weights")
"""How far a source piece moves the row (Kobayashi et al. 2020), and its share of the attention."""


PAIRS_AT_ONCE = 32
"""Pairs that are linked together."""


@dataclass(frozen=True)
class Reading:
    """A way to read: the side, the kind, and of which layer and head; None is all of them."""

    side: str
    kind: str
    layer: int | None = None
    head: int | None = None

    def __str__(self) -> str:
        place = "all layers" if self.layer is None else f"layer {self.layer}"
        return f"{self.side} side, {self.kind}, {place}" + (f", head {self.head}" if self.head is not None else "")


DEFAULT_READING = Reading("output", "norms")
"""What translations are aligned by, with the pairs that are mutually best."""


@dataclass(frozen=True)
class LinkCounts:
    """Links drawn; those of them that gold calls sure, and possible; and all that it calls sure."""

    drawn: int
    right_sure: int
    right_possible: int
    sure: int


@dataclass(frozen=True)
class ReadingResult:
    """What came of one reading.

    `disagreement` is between two directions: the best source word of each target word, and the best target word of each
    source word; 1 - 2 |A & B| / (|A| + |B|), over all pairs. `mean_norm` is that of a layer, whatever side and kind.
    `one_each` links each target word with its best source word, as the papers do; `best` links what is the best there
    is for either by shares of both (`link_words`). Their counts are right only where there is gold.
    """

    reading: Reading
    disagreement: float
    mean_norm: float | None
    best_source_word: LinkCounts
    mutually_best: LinkCounts


@dataclass(frozen=True)
class EncodedPair:
    """A sentence and its translation as ids, with what is aligned of them."""

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
    """Texts as pairs. The last two are the same texts with spaces where their words part, if they part elsewhere."""
    read, written = tokenizer.encode_source(sources), tokenizer.encode_target(targets)
    return [
        EncodedPair(
            source,
            target,
            words_without_punctuation(tokenizer.source_pieces(source[:-1]), of_source),
            words_without_punctuation(tokenizer.target_pieces(target[:-1]), of_target),
        )
        for source, target, of_source, of_target in zip(
            read, written, source_words or sources, target_words or targets, strict=True
        )
    ]


def measure_readings(
    model: Transformer,
    pairs: Sequence[EncodedPair],
    sure: Sequence[set[tuple[int, int]]] | None = None,
    possible: Sequence[set[tuple[int, int]]] | None = None,
    done: Callable[[int], object] = lambda number: None,
) -> list[ReadingResult]:
    """Every reading of all pairs, with gold if there is any; `done` hears how many pairs were read at a time.

    Raises ValueError, naming its line, for a pair that is longer than the model takes.
    """
    require_room(model, pairs)
    layers, heads = model.config.decoder_layers, model.config.heads
    names = existing_readings(model)
    there = [n for n, each in enumerate(every_reading(model.config)) if reading_exists(each, model.config)]
    one_each, best, agreed = (torch.zeros(len(names), n, dtype=torch.long) for n in (3, 3, 2))
    norms, entries = torch.zeros(layers, dtype=torch.float64), 0
    for numbers, taken in measure_cross_attention(model, pairs):
        for n, each in zip(numbers, taken, strict=True):
            norms += each[:, 0, :-1, :-1].double().sum(dim=(1, 2))
            entries += (each.shape[2] - 1) * (each.shape[3] - 1)
            pair = pairs[n]
            if not pair.source_words or not pair.target_words:
                continue
            every_value = reading_values(each, pair)
            found = every_value[there]
            assert len(found) == len(names)
            forward, backward = mark_maxima(found, 2), mark_maxima(found, 1)
            agreed[:, 0] += (forward & backward).sum(dim=(1, 2))
            agreed[:, 1] += forward.sum(dim=(1, 2)) + backward.sum(dim=(1, 2))
            gold = [link_matrix(some[n] if some else (), pair) for some in (sure, possible)]
            one_each += count_links(forward, *gold)
            best += count_links(mark_row_and_column_maxima(reading_strengths(every_value, layers, heads)[there]), *gold)
        done(len(numbers))
    every = sum(map(len, sure or ()))
    means = (norms / max(entries, 1)).tolist()
    return [
        ReadingResult(
            name,
            1 - 2 * both / max(either, 1),
            None if name.layer is None or name.head is not None else means[name.layer],
            as_link_counts(a, every),
            as_link_counts(b, every),
        )
        for name, (both, either), a, b in zip(names, agreed.tolist(), one_each.tolist(), best.tolist(), strict=True)
    ]


def as_link_counts(found: Sequence[int], sure: int) -> LinkCounts:
    """Of the numbers of `count_links`."""
    drawn, right_sure, right_possible = found
    return LinkCounts(drawn, right_sure, right_possible, sure)


def existing_readings(model: Transformer) -> list[Reading]:
    """Those there are, in the order of `values`: of each side the layers, then the sums of all layers."""
    return [each for each in every_reading(model.config) if reading_exists(each, model.config)]


def every_reading(config: ModelConfig) -> list[Reading]:
    """The same as if no layer lacked a head."""
    found = []
    for side in SIDES:
        for layer in range(config.decoder_layers):
            found += [Reading(side, kind, layer) for kind in KINDS]
            found += [Reading(side, kind, layer, head) for kind in KINDS for head in range(config.heads)]
        found += [Reading(side, kind) for kind in KINDS]
    return found


def reading_exists(reading: Reading, config: ModelConfig) -> bool:
    """Whether its head, if it has one, is one of the model's."""
    return reading.head is None or reading.head < config.heads_in(f"decoder.{reading.layer}.cross")


def measure_cross_attention(
    model: Transformer, pairs: Sequence[EncodedPair]
) -> Iterator[tuple[list[int], list[Float[Tensor, "L C T S"]]]]:
    """The numbers of pairs of like length, and what `measure_every_kind` says of each, end marks included."""
    lengths = {n: max(len(pair.source), len(pair.target)) for n, pair in enumerate(pairs)}
    with at_rest(model):
        for numbers in batch_numbers(lengths, model.config):
            some = [pairs[n] for n in numbers]
            ids = [each.source for each in some], [each.target for each in some]
            every = cross_norms(model, *ids, partial(measure_every_kind, heads=model.config.heads)).cpu()
            yield (
                numbers,
                [every[:, i, :, : len(each.target), : len(each.source)] for i, each in enumerate(some)],
            )


def measure_every_kind(
    pattern: Float[Tensor, "B H T S"], v: Float[Tensor, "B H S E"], output: Float[Tensor, "D HE"], heads: int
) -> Float[Tensor, "B C T S"]:
    """The norm of the layer, the mean weight of its heads, ||alpha v W_O|| of each head, and the weights of each.

    Where a layer has fewer than `heads`, the others' numbers are zeros, so that all layers have as many.
    """
    alone = project_values(v.to(pattern.dtype), output.to(pattern.dtype)).norm(dim=-1)
    mean = pattern.sum(dim=1, keepdim=True) / max(pattern.shape[1], 1)
    of_heads = [
        F.pad(each, (0, 0, 0, 0, 0, heads - pattern.shape[1])) for each in (pattern * alone.mT.unsqueeze(2), pattern)
    ]
    return torch.cat([contribution_norms(pattern, v, output)[:, None], mean, *of_heads], dim=1)


def reading_values(every: Float[Tensor, "L C T S"], pair: EncodedPair) -> Float[Tensor, "R N M"]:
    """What each target word took from each source word, in each reading."""
    found = []
    for rows in (slice(None, -1), slice(1, None)):
        of_side = every[:, :, rows, :-1]
        taken = norms_by_word(of_side.flatten(0, 1), pair.source_words, pair.target_words)
        found += [taken, taken.unflatten(0, every.shape[:2])[:, : len(KINDS)].sum(dim=0)]
    return torch.cat(found)


def reading_strengths(taken: Float[Tensor, "R N M"], layers: int, heads: int) -> Float[Tensor, "R N M"]:
    """The shares of each reading; those of all layers are the sum of the layers' shares, as in `link_words`."""
    kinds = len(KINDS)
    found = []
    for side in taken.chunk(len(SIDES)):
        of_layers = link_strengths(side[:-kinds])
        found += [of_layers, of_layers.unflatten(0, (layers, kinds + kinds * heads))[:, :kinds].sum(dim=0)]
    return torch.cat(found)


def mark_maxima(values: Float[Tensor, "R N M"], dim: int) -> Bool[Tensor, "R N M"]:
    """Whether a value is the largest along an axis, and more than nothing."""
    found = torch.zeros_like(values, dtype=torch.bool)
    return found.scatter_(dim, values.argmax(dim=dim, keepdim=True), True) & (values > 0.0)


def count_links(
    drawn: Bool[Tensor, "R N M"], sure: Bool[Tensor, "N M"], possible: Bool[Tensor, "N M"]
) -> Int[Tensor, "R 3"]:
    """How many links each reading drew, and how many of these are in gold."""
    return torch.stack([some.sum(dim=(1, 2)) for some in (drawn, drawn & sure, drawn & possible)], dim=1)


def link_matrix(known: Iterable[tuple[int, int]], pair: EncodedPair) -> Bool[Tensor, "N M"]:
    """True where a pair of words is linked."""
    found = torch.zeros(len(pair.target_words), len(pair.source_words), dtype=torch.bool)
    for i, j in known:
        found[j, i] = True
    return found


def require_room(model: Transformer, pairs: Sequence[EncodedPair]) -> None:
    """ValueError, naming the first, for pairs that are longer than the model takes."""
    most = model.config.max_positions
    for number, pair in enumerate(pairs, start=1):
        if (length := max(len(pair.source), len(pair.target))) > most:
            raise ValueError(f"line {number} has {length} pieces on a side, this model takes {most}; leave it out")


def choose_readings(reads: Sequence[ReadingResult]) -> tuple[ReadingResult, ReadingResult]:
    """Two choices that need no gold, among whole layers by norms: the side and layer whose two directions disagree
    least, and, of the same side, the layer of the largest mean norm (Kobayashi et al. 2020, 5.2).
    """
    layers = [each for each in reads if each.mean_norm is not None and each.reading.kind == "norms"]
    least = min(layers, key=lambda each: each.disagreement)
    same = [each for each in layers if each.reading.side == least.reading.side]
    return least, max(same, key=lambda each: each.mean_norm or 0.0)


def alignment_table(model: Transformer, pair: EncodedPair) -> tuple[Float[Tensor, "N M"], Links]:
    """The value of each pair of words, larger is better, and the links, as translations are aligned."""
    if not pair.source_words or not pair.target_words:
        return torch.zeros(len(pair.target_words), len(pair.source_words)), []
    [(_, [each])] = measure_cross_attention(model, [pair])
    norms = each[:, 0, :-1, :-1]
    value = link_strengths(norms_by_word(norms, pair.source_words, pair.target_words)).sum(dim=0)
    return value, link_words(norms, pair.source_words, pair.target_words)


def default_links(model: Transformer, pairs: Sequence[EncodedPair]) -> Iterator[Links]:
    """The links of each pair, as translations are aligned; the model is in evaluation mode."""
    for at in range(0, len(pairs), PAIRS_AT_ONCE):
        some = pairs[at : at + PAIRS_AT_ONCE]
        every = piece_alignments(model, [each.source for each in some], [each.target for each in some])
        yield from (
            link_words(norms, each.source_words, each.target_words) for norms, each in zip(every, some, strict=True)
        )
