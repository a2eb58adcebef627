"""Groups pairs of like length by token budget, and pads them to one rectangle."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from pellucid.data.mixture import CorpusShare, index_type
from pellucid.data.tokenizer import BOS, EOS, PAD


@dataclass(frozen=True)
class PackedSentences:
    """Many sentences as one long row of ids: sentence i is `ids[starts[i]:starts[i + 1]]`, the end mark last."""

    ids: NDArray[np.integer]
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, i: int) -> NDArray[np.integer]:
        return self.ids[self.starts[i] : self.starts[i + 1]]

    @cached_property
    def lengths(self) -> NDArray[np.int32]:
        """Pieces of each sentence; kept in memory, where `starts` may lie in a file."""
        return np.diff(self.starts).astype(np.int32)

    def pad_rows(self, indices: NDArray[np.integer]) -> NDArray[np.int64]:
        """The chosen sentences, one a row, filled up with padding to the longest."""
        lengths = self.starts[indices + 1] - self.starts[indices]
        columns = np.arange(lengths.max())
        there = columns < lengths[:, None]
        rectangle = np.full(there.shape, PAD, dtype=np.int64)
        rectangle[there] = self.ids[(self.starts[indices][:, None] + columns)[there]]
        return rectangle


@dataclass(frozen=True)
class EncodedPairs:
    """Sentence pairs as ids: pair i is `sources[i]` and `targets[i]`; with several corpora, one after the other."""

    sources: PackedSentences
    targets: PackedSentences
    corpora: tuple[CorpusShare, ...] = ()
    """How many pairs each corpus has, and how often they are seen; left out: all are one corpus, seen once an epoch."""
    recut: Callable[["EncodedPairs", int, int], "EncodedPairs"] | None = None
    """How they are cut in an epoch, from these pairs, a seed and its number; left out: as they are."""

    def __len__(self) -> int:
        return len(self.sources)

    def for_epoch(self, seed: int, epoch: int) -> "EncodedPairs":
        """The pairs as that epoch has them."""
        return self.recut(self, seed, epoch) if self.recut else self


@dataclass(frozen=True)
class Batch:
    """What one forward pass takes. The decoder reads `target_in` and is asked for `target_out`, one piece further."""

    source: Int[Tensor, "B S"]
    target_in: Int[Tensor, "B T"]
    target_out: Int[Tensor, "B T"]
    indices: NDArray[np.integer]
    target_tokens: int
    """Target positions that are not padding: what a sum of losses is divided by."""
    seed: int = 0
    """What dropout draws from: that of its place in the stream."""

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device."""
        return self._map_tensors(lambda ids: ids.to(device, non_blocking=True))

    def pinned(self) -> "Batch":
        """The same batch in memory that a GPU copies from by itself."""
        return self._map_tensors(Tensor.pin_memory)

    def _map_tensors(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        source, target_in, target_out = map(change, (self.source, self.target_in, self.target_out))
        return replace(self, source=source, target_in=target_in, target_out=target_out)


def collate(encoded: EncodedPairs, indices: NDArray[np.integer], seed: int = 0) -> Batch:
    """Pads the chosen pairs; `target_in` is the start mark and then `target_out` without its end mark."""
    target_out = encoded.targets.pad_rows(indices)
    target_in = np.full_like(target_out, BOS)
    target_in[:, 1:] = np.where(target_out[:, :-1] == EOS, PAD, target_out[:, :-1])
    return Batch(
        source=torch.from_numpy(encoded.sources.pad_rows(indices)),
        target_in=torch.from_numpy(target_in),
        target_out=torch.from_numpy(target_out),
        indices=indices,
        target_tokens=int((target_out != PAD).sum()),
        seed=seed,
    )


def epoch_batches(
    source_lengths: NDArray[np.integer],
    target_lengths: NDArray[np.integer],
    batch_tokens: int,
    seed: int,
    epoch: int,
    pairs: NDArray[np.integer] | None = None,
) -> list[NDArray[np.integer]]:
    """Every pair once, in batches of like length, in an order that is a function of `(seed, epoch)`.

    Or the `pairs` of that epoch, an array of indices that is shuffled in place. A batch has at most `batch_tokens`
    target positions and twice as many source positions, padding counted; a pair longer than that is a batch of its own.
    Raises ValueError for a budget below one token.
    """
    if batch_tokens < 1:
        raise ValueError(f"batch_tokens is {batch_tokens}, a batch needs at least 1")
    random = np.random.Generator(np.random.PCG64([seed, epoch]))
    order = np.arange(len(target_lengths), dtype=index_type(len(target_lengths))) if pairs is None else pairs
    random.shuffle(order)
    order = order[np.argsort(_length_sort_keys(source_lengths[order], target_lengths[order]), kind="stable")]
    batches = np.split(order, _batch_starts(source_lengths[order], target_lengths[order], batch_tokens))
    return [batches[i] for i in random.permutation(len(batches))]


def _length_sort_keys(source_lengths: NDArray[np.integer], target_lengths: NDArray[np.integer]) -> NDArray[np.integer]:
    """Sort keys: by bands of target length, in a band by source length, upwards and downwards in turn.

    A band spans 13 %, for sorting by each exact target length would leave no choice of source lengths. Because of the
    turns, the neighbours where two bands meet have like source lengths, too.
    """
    span = int(source_lengths.max(initial=0)) + 1
    bands = (np.log(np.arange(1, int(target_lengths.max(initial=1)) + 1)) / np.log(1.13)).astype(np.int64)
    # Keys of 16 bits, where they suffice, are sorted ten times as fast: by counting.
    kind = np.min_scalar_type((int(bands[-1]) + 1) * span)
    band, sources = bands.astype(kind)[target_lengths - 1], source_lengths.astype(kind)
    return band * span + np.where(band % 2 == 0, sources, span - 1 - sources)


def _batch_starts(
    source_lengths: NDArray[np.integer], target_lengths: NDArray[np.integer], batch_tokens: int
) -> list[int]:
    """Where each batch but the first begins: each takes as many pairs as make a token cheapest.

    A batch costs its positions on both sides, padding counted, and a sixteenth of the budget for being a batch; so it
    stops short of a full budget where the next pairs would mostly add padding.
    """
    cuts, start = [0], 0
    while start < len(target_lengths):
        window = slice(start, start + max(1, batch_tokens // int(target_lengths[start])))
        sources, targets = source_lengths[window], target_lengths[window]
        pairs = np.arange(1, len(targets) + 1)
        source_positions = pairs * np.maximum.accumulate(sources)
        target_positions = pairs * np.maximum.accumulate(targets)
        fits = (target_positions <= batch_tokens) & (source_positions <= 2 * batch_tokens)
        cost = source_positions + target_positions + batch_tokens / 16
        price = np.where(fits, cost, np.inf) / np.cumsum(sources + targets)
        start += int(price.argmin()) + 1
        cuts.append(start)
    return cuts[1:-1]
