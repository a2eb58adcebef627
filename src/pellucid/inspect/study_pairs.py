"""Sentence pairs as a study of heads reads them: ids, the word of each piece, how common it is, and batches."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pellucid.data.tokenizer import BOS, EOS, PAD, Tokenizer
from pellucid.model import ModelConfig
from pellucid.trace.edits import attention_names
from pellucid.trace.provenance import make_side

NUMBERS_PER_BATCH = 2**25
"""Numbers in all the patterns of a batch, or in its logits: 128 MB of either."""

COMMONEST = 500
"""A sentence has a rare piece when one of its pieces is not among so many (Voita et al. 2019, 4.3)."""

IdsAndWords = tuple[list[int], list[int]]
"""The ids of one side of a pair, and for each the number of its word, -1 for marks."""


@dataclass(frozen=True)
class PieceFrequencies:
    """How often each piece of a vocabulary stands in a text, and which are the commonest."""

    counts: Float[Tensor, " V"]
    common: Bool[Tensor, " V"]

    @classmethod
    def of(cls, sentences: Iterable[Sequence[int]], vocabulary: int) -> "PieceFrequencies":
        """Counted in these sentences, marks left out."""
        found = Counter(i for ids in sentences for i in ids if i not in (PAD, BOS, EOS))
        counts, common = torch.zeros(vocabulary), torch.zeros(vocabulary, dtype=torch.bool)
        for rank, (i, count) in enumerate(sorted(found.items(), key=lambda row: (-row[1], row[0]))):
            counts[i] = count
            common[i] = rank < COMMONEST
        return cls(counts, common)


@dataclass(frozen=True)
class StudyPairs:
    """Sentence pairs as ids, the end mark last; pair i stood in line `lines[i]` of what was given, 0 first."""

    sources: list[IdsAndWords]
    targets: list[IdsAndWords]
    lines: list[int]
    texts: list[tuple[str, str]]
    of_sources: PieceFrequencies
    of_targets: PieceFrequencies
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def pieces(self) -> int:
        """Target pieces, end marks counted: what a sum of losses is divided by."""
        return sum(len(ids) for ids, _ in self.targets)


@dataclass(frozen=True)
class BatchSide:
    """What stands at the positions of one side of a batch: ids, words (-1 for none) and places (0 for the first piece).

    The decoder reads the start mark first, at place -1.
    """

    ids: Int[Tensor, "B Q"]
    words: Int[Tensor, "B Q"]
    places: Int[Tensor, " Q"]
    commonness: PieceFrequencies

    @property
    def not_padding(self) -> Bool[Tensor, "B Q"]:
        """Everything but padding."""
        return self.ids != PAD

    @property
    def not_special(self) -> Bool[Tensor, "B Q"]:
        """Everything but padding and marks."""
        return self.not_padding & (self.ids != BOS) & (self.ids != EOS)


@dataclass(frozen=True)
class StudyBatch:
    """Some of the pairs: what the encoder reads, what the decoder reads, and what it is asked for there."""

    numbers: list[int]
    source: BatchSide
    target_in: BatchSide
    target_out: BatchSide


def encode_study_pairs(
    tokenizer: Tokenizer,
    config: ModelConfig,
    sources: Sequence[str],
    targets: Sequence[str],
    counted: Iterable[str] | None = None,
    numbers: Sequence[int] | None = None,
) -> StudyPairs:
    """The pairs as ids. Left out, and told, are pairs with a blank side and those the model is too short for.

    Source pieces are counted in the text `counted`, or else, as the target pieces are, in these pairs. `numbers` are
    the lines that the pairs stood in, 0 first, if those are others. Raises ValueError for unequal numbers of sides and
    for no pair left.
    """
    if len(sources) != len(targets):
        raise ValueError(f"{len(sources):,} sources and {len(targets):,} targets: each source needs its target")
    read, written = tokenizer.encode_source(sources), tokenizer.encode_target(targets)
    lengths = [(len(a), len(b)) for a, b in zip(read, written, strict=True)]
    blank = [n for n, each in enumerate(lengths) if min(each) < 2]
    long = [n for n, each in enumerate(lengths) if min(each) > 1 and max(each) > config.max_positions]
    lines = sorted({*range(len(lengths))} - {*blank, *long})
    notes = [
        f"{len(some):,} pairs left out: {why}, the first in line {(numbers or range(len(sources)))[some[0]] + 1}"
        for some, why in ((blank, "a side is blank"), (long, f"more than {config.max_positions} pieces"))
        if some
    ]
    if not lines:
        raise ValueError(f"no pair to look at: {'; '.join(notes) or 'there is none'}")
    text = [read[n] for n in lines] if counted is None else encode_stream(tokenizer, counted)
    return StudyPairs(
        [with_word_numbers(tokenizer.source_pieces(read[n]), read[n], sources[n]) for n in lines],
        [with_word_numbers(tokenizer.target_pieces(written[n]), written[n], targets[n]) for n in lines],
        lines,
        [(sources[n], targets[n]) for n in lines],
        PieceFrequencies.of(text, config.source_vocabulary),
        PieceFrequencies.of([written[n] for n in lines], config.target_vocabulary),
        tuple(notes),
    )


def encode_stream(tokenizer: Tokenizer, lines: Iterable[str], block: int = 10_000) -> Iterator[list[int]]:
    """The ids of any number of lines, some of them in memory at a time."""
    rest = iter(lines)
    while some := list(islice(rest, block)):
        yield from tokenizer.encode_source(some)


def with_word_numbers(pieces: list[str], ids: list[int], text: str) -> IdsAndWords:
    """The ids with the number of each one's word."""
    return ids, [-1 if word is None else word for word in make_side(pieces, ids, text, text).words]


def study_batches(pairs: StudyPairs, config: ModelConfig, device: torch.device) -> Iterator[StudyBatch]:
    """All pairs, those of like length together."""
    for numbers in batch_numbers(pair_lengths(pairs), config):
        yield make_study_batch(pairs, numbers, device)


def count_batches(pairs: StudyPairs, config: ModelConfig) -> int:
    """How many they are."""
    return sum(1 for _ in batch_numbers(pair_lengths(pairs), config))


def pair_lengths(pairs: StudyPairs) -> dict[int, int]:
    """The pieces of the longer side of each pair."""
    both = zip(pairs.sources, pairs.targets, strict=True)
    return {n: max(len(source), len(target)) for n, ((source, _), (target, _)) in enumerate(both)}


def batch_numbers(lengths: Mapping[int, int], config: ModelConfig) -> Iterator[list[int]]:
    """The keys of `lengths`, longest first, so many at a time that their patterns and their logits have a bound."""
    heads = max(1, sum(map(config.heads_in, attention_names(config))))
    order = sorted(lengths, key=lambda n: (-lengths[n], n))
    at = 0
    while at < len(order):
        length = lengths[order[at]]
        room = NUMBERS_PER_BATCH // max(heads * length * length, config.target_vocabulary * length)
        yield order[at : at + max(1, min(64, room))]
        at += max(1, min(64, room))


def make_study_batch(pairs: StudyPairs, numbers: list[int], device: torch.device) -> StudyBatch:
    """These pairs as one rectangle each."""
    begun = [([BOS, *ids[:-1]], [-1, *words[:-1]]) for ids, words in (pairs.targets[n] for n in numbers)]
    return StudyBatch(
        numbers,
        make_batch_side([pairs.sources[n] for n in numbers], 0, pairs.of_sources, device),
        make_batch_side(begun, -1, pairs.of_targets, device),
        make_batch_side([pairs.targets[n] for n in numbers], 0, pairs.of_targets, device),
    )


def make_batch_side(
    rows: Sequence[IdsAndWords], first: int, commonness: PieceFrequencies, device: torch.device
) -> BatchSide:
    """One side of a batch, whose first position is at the place `first`."""
    ids = fill_rectangle([ids for ids, _ in rows], PAD, device)
    places = torch.arange(first, first + ids.shape[1], device=device)
    return BatchSide(ids, fill_rectangle([words for _, words in rows], -1, device), places, commonness)


def fill_rectangle(rows: Sequence[Sequence[int]], filling: int, device: torch.device) -> Int[Tensor, "B Q"]:
    """One row each, filled up to the longest."""
    found = np.full((len(rows), max(map(len, rows))), filling, dtype=np.int64)
    for row, values in zip(found, rows, strict=True):
        row[: len(values)] = values
    return torch.from_numpy(found).to(device)


def spread_evenly(lines: Sequence[str], most: int) -> list[int]:
    """The numbers of at most so many lines, spread evenly; 0 is all.

    >>> spread_evenly("abcdefg", 3)
    [0, 3, 6]
    """
    step = -(-len(lines) // most) if most else 1
    return list(range(0, len(lines), max(1, step)))
