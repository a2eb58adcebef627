"""Mixes corpora by weight, groups pairs of similar length into batches, and pads each batch to a rectangle."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import chain

import numpy as np
import torch
from jaxtyping import Int
from numpy.random import PCG64, Generator
from numpy.typing import NDArray
from torch import Tensor

from pellucid.data.tokenizer import BOS, EOS, PAD


@dataclass(frozen=True)
class CorpusShare:
    """One corpus of several, with its weight: 2 shows each pair twice in an epoch, 0.5 shows half of the pairs.

    Think of the pairs as a ring that is read round and round: an epoch reads `pairs * weight`
    further, and the next epoch begins where it stopped. So after any number of epochs, no pair has
    been seen more than once more often than another.
    """

    name: str
    pairs: int
    weight: float = 1.0

    def __post_init__(self) -> None:
        # A fraction of the decimal text: 0.1 is exactly a tenth, and many epochs add up exactly.
        if self.pairs * Fraction(str(self.weight)) < 1:
            raise ValueError(
                f"of {self.name}, {self.pairs:,} pairs, a weight of {self.weight:g} shows less than one an epoch; "
                "give it more weight or leave it out"
            )

    def pairs_seen(self, epochs: int) -> int:
        """Return how many pairs the first `epochs` epochs show.

        >>> [CorpusShare("news", pairs=5, weight=0.5).pairs_seen(epochs) for epochs in range(5)]
        [0, 2, 5, 7, 10]
        """
        return int(epochs * self.pairs * Fraction(str(self.weight)))


# Random pairs that are sorted by length at a time: sorting takes several times their memory.
SORTED_AT_ONCE = 2**22

# Numbers of tokens, one for each sentence.
Lengths = NDArray[np.integer]
# Lengths of the sources and of the targets of pairs, by the numbers of these pairs.
PairLengths = Callable[[NDArray[np.integer]], tuple[Lengths, Lengths]]


def index_type(pairs: int) -> type[np.integer]:
    """Return the smallest integer type that can index this many pairs, 32 or 64 bits."""
    return np.int32 if pairs <= 2**31 else np.int64


# Sentences whose lengths are looked at together.
_LENGTHS_AT_ONCE = 2**20


@dataclass(frozen=True)
class PackedSentences:
    """Many sentences as one array of token ids: sentence i is `ids[starts[i]:starts[i + 1]]`, with EOS last."""

    ids: NDArray[np.integer]
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, i: int) -> NDArray[np.integer]:
        return self.ids[self.starts[i] : self.starts[i + 1]]

    @cached_property
    def lengths(self) -> NDArray[np.int32]:
        """The number of tokens of each sentence, kept in memory: only for sentences that are not too many for it."""
        return np.diff(self.starts).astype(np.int32)

    def lengths_of(self, indices: NDArray[np.integer]) -> NDArray[np.int32]:
        """Return the number of tokens of each of these sentences; nothing is kept."""
        return (self.starts[indices + 1] - self.starts[indices]).astype(np.int32)

    @cached_property
    def length_range(self) -> tuple[int, int]:
        """The number of tokens of the shortest and of the longest sentence, found in bounded memory."""
        shortest, longest = 2**63, 0
        for first in range(0, len(self), _LENGTHS_AT_ONCE):
            lengths = np.diff(self.starts[first : first + _LENGTHS_AT_ONCE + 1])
            shortest = min(shortest, int(lengths.min()))
            longest = max(longest, int(lengths.max()))
        return shortest, longest

    def pad_rows(self, indices: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the chosen sentences, one in each row, filled up with padding to the longest."""
        lengths = self.starts[indices + 1] - self.starts[indices]
        columns = np.arange(lengths.max())
        # One indexing operation for all rows, instead of a loop over sentences.
        is_token = columns < lengths[:, None]
        rectangle = np.full(is_token.shape, PAD, dtype=np.int64)
        rectangle[is_token] = self.ids[(self.starts[indices][:, None] + columns)[is_token]]
        return rectangle


def id_type(vocabulary: int) -> type[np.integer]:
    """Return the type in which ids are stored: two bytes for up to 65,536 pieces."""
    return np.uint16 if vocabulary <= 2**16 else np.int32


def pack_sentences(rows: Sequence[Sequence[int]], dtype: type[np.integer]) -> PackedSentences:
    """Pack sentences of token ids into one array."""
    starts = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, rows), dtype=np.int64, count=len(rows)), out=starts[1:])
    ids = np.fromiter(chain.from_iterable(rows), dtype=dtype, count=int(starts[-1]))
    return PackedSentences(ids, starts)


@dataclass(frozen=True)
class EncodedPairs:
    """Sentence pairs as token ids: pair i is `sources[i]` and `targets[i]`; several corpora follow one another."""

    sources: PackedSentences
    targets: PackedSentences
    # Size and weight of each corpus; empty for one corpus, whose pairs are seen once in an epoch.
    corpora: tuple[CorpusShare, ...] = ()

    def __len__(self) -> int:
        return len(self.sources)


@dataclass(frozen=True)
class Batch:
    """The tensors of one forward pass: the decoder reads `target_in` and learns to predict `target_out`.

    `target_out[:, t]` is the token that comes after `target_in[:, t]`.
    """

    source: Int[Tensor, "B S"]
    target_in: Int[Tensor, "B T"]
    target_out: Int[Tensor, "B T"]
    indices: NDArray[np.integer]
    target_tokens: int  # target positions without padding, by which a sum of losses is divided
    seed: int = 0  # the seed of dropout for this batch, a function of its position in the stream

    def to(self, device: torch.device | str) -> "Batch":
        """Return a copy of the batch on another device."""
        # non_blocking only has an effect from pinned memory to a GPU.
        return self._map_tensors(lambda ids: ids.to(device, non_blocking=True))

    def pin_memory(self) -> "Batch":
        """Return a copy of the batch in pinned memory, from which a GPU can copy by itself."""
        return self._map_tensors(Tensor.pin_memory)

    def _map_tensors(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        source, target_in, target_out = map(change, (self.source, self.target_in, self.target_out))
        return replace(self, source=source, target_in=target_in, target_out=target_out)


def collate(encoded: EncodedPairs, indices: NDArray[np.integer], seed: int = 0) -> Batch:
    """Pad the chosen pairs to a batch; `target_in` is BOS followed by `target_out` without its EOS."""
    target_out = torch.from_numpy(encoded.targets.pad_rows(indices))
    return Batch(
        source=torch.from_numpy(encoded.sources.pad_rows(indices)),
        target_in=_shift_right(target_out),
        target_out=target_out,
        indices=indices,
        target_tokens=int((target_out != PAD).sum()),
        seed=seed,
    )


def reverse_batch(batch: Batch) -> Batch:
    """Return a batch of the same pairs in the other direction: their sources are predicted from their targets."""
    if not batch.target_tokens:  # a batch without pairs, whose only target is padding
        return batch
    return replace(
        batch,
        source=batch.target_out,
        target_in=_shift_right(batch.source),
        target_out=batch.source,
        target_tokens=int((batch.source != PAD).sum()),
    )


def _shift_right(target_out: Tensor) -> Tensor:
    """Return what a decoder reads to predict these targets: BOS, and then the targets without EOS."""
    # A row that ends before the last column has its EOS inside, where the input has padding.
    shifted = target_out[:, :-1].masked_fill(target_out[:, :-1] == EOS, PAD)
    return torch.cat([torch.full_like(target_out[:, :1], BOS), shifted], dim=1)


def halve_batch(batch: Batch) -> tuple[Batch, Batch]:
    """Return the first and the second half of a batch, without padding that only the longest pair needed."""
    middle = len(batch.source) // 2
    return slice_batch(batch, slice(0, middle)), slice_batch(batch, slice(middle, None))


def slice_batch(batch: Batch, rows: slice) -> Batch:
    """Return some rows of a batch as a batch, cut to its longest sentences."""
    source, target_out = batch.source[rows], batch.target_out[rows]
    # target_in is as long as target_out: BOS in front, EOS missing at the end.
    longest_source, longest_target = _longest_row(source), _longest_row(target_out)
    return replace(
        batch,
        source=source[:, :longest_source],
        target_in=batch.target_in[rows, :longest_target],
        target_out=target_out[:, :longest_target],
        indices=batch.indices[rows],
        target_tokens=int((target_out != PAD).sum()),
    )


def _longest_row(padded: Tensor) -> int:
    """Return the length of the longest sentence, padding not counted."""
    return int((padded != PAD).sum(dim=1).max())


def epoch_batches(
    source_lengths: Lengths,
    target_lengths: Lengths,
    batch_tokens: int,
    seed: int,
    epoch: int,
) -> list[NDArray[np.integer]]:
    """Return the batches of an epoch as arrays of indices: pairs of similar length, in an order set by (seed, epoch).

    They contain every pair once. A batch has at most `batch_tokens` target positions and twice as
    many source positions, padding included; a longer pair is a batch of its own. Raises ValueError
    for a budget below one token.
    """
    random = Generator(PCG64([seed, epoch]))
    order = np.arange(len(target_lengths), dtype=index_type(len(target_lengths)))

    def lengths_of(part: NDArray[np.integer]):
        return source_lengths[part], target_lengths[part]

    return shuffle_into_batches(order, lengths_of, batch_tokens, random)


def shuffle_into_batches(
    pairs: NDArray[np.integer], lengths_of: PairLengths, batch_tokens: int, random: Generator
) -> list[NDArray[np.integer]]:
    """Return batches of these pairs as `epoch_batches` does; the array of pairs is shuffled and sorted in place.

    Raises ValueError for a budget below one token.
    """
    if batch_tokens < 1:
        raise ValueError(f"batch_tokens is {batch_tokens}, a batch needs at least 1")
    random.shuffle(pairs)
    batches: list[NDArray[np.integer]] = []
    for first in range(0, len(pairs), SORTED_AT_ONCE):
        part = pairs[first : first + SORTED_AT_ONCE]
        source_lengths, target_lengths = lengths_of(part)
        order = _sort_by_length(source_lengths, target_lengths)
        part[:] = part[order]
        starts = _batch_starts(source_lengths[order], target_lengths[order], batch_tokens)
        batches += np.split(part, starts)
    return [batches[i] for i in random.permutation(len(batches))]


def cut_batches(
    source_lengths: Lengths, target_lengths: Lengths, batch_tokens: int
) -> list[NDArray[np.integer]]:
    """Return batches of pairs of these lengths, each as the indices of its pairs, which are of similar length."""
    order = _sort_by_length(source_lengths, target_lengths)
    starts = _batch_starts(source_lengths[order], target_lengths[order], batch_tokens)
    return np.split(order, starts)


def _sort_by_length(source_lengths: Lengths, target_lengths: Lengths) -> NDArray[np.intp]:
    """Return the order in which pairs of similar length are neighbours; pairs of equal keys keep theirs."""
    # Sorted by bands of target length, and in a band by source length, rising and falling in turn.
    # A band spans 13 %: a sort by exact target length would leave no choice of source lengths.
    # Rising and falling in turn makes the source lengths similar where two bands meet.
    span = int(source_lengths.max(initial=0)) + 1
    longest = int(target_lengths.max(initial=1))
    bands = (np.log(np.arange(1, longest + 1)) / np.log(1.13)).astype(np.int64)
    # Keys of 16 bits, where they suffice, are sorted ten times as fast: by counting.
    dtype = np.min_scalar_type((int(bands[-1]) + 1) * span)
    band, sources = bands.astype(dtype)[target_lengths - 1], source_lengths.astype(dtype)
    keys = band * span + np.where(band % 2 == 0, sources, span - 1 - sources)
    return np.argsort(keys, kind="stable")


def _batch_starts(source_lengths: Lengths, target_lengths: Lengths, batch_tokens: int) -> list[int]:
    """Return where each batch but the first begins, such that each has the number of pairs with the cheapest token."""
    # The cost of a batch is its positions on both sides, padding included, plus a sixteenth of the
    # budget for being a batch at all. So a batch stops short of the budget where the next pairs
    # would mostly add padding.
    cuts, start = [0], 0
    while start < len(target_lengths):
        # The pairs that could fit: no batch has more rows than budget / length of its first target.
        window = slice(start, start + max(1, batch_tokens // int(target_lengths[start])))
        sources, targets = source_lengths[window], target_lengths[window]
        pairs = np.arange(1, len(targets) + 1)
        source_positions = pairs * np.maximum.accumulate(sources)
        target_positions = pairs * np.maximum.accumulate(targets)
        fits = (target_positions <= batch_tokens) & (source_positions <= 2 * batch_tokens)
        cost = source_positions + target_positions + batch_tokens / 16
        # Column n: the cost per token of a batch of the first n + 1 pairs, padded to the longest.
        price = np.where(fits, cost, np.inf) / np.cumsum(sources + targets)
        start += int(price.argmin()) + 1
        cuts.append(start)
    return cuts[1:-1]
