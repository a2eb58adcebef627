"""The endless row of training batches; where it stands is three integers."""

from collections.abc import Iterator
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from pellucid.data.batching import Batch, Encoded, Sentences, collate, epoch_batches
from pellucid.data.corpus import Pairs, Skipped
from pellucid.data.tokenizer import Tokenizer


def encode_pairs(pairs: Pairs, tokenizer: Tokenizer, limit: int) -> tuple[Encoded, Skipped]:
    """The pairs as ids, without those that have more than `limit` pieces on a side, which are counted and named.

    Raises ValueError when no pair is left.
    """
    sources, targets, skipped = [], [], Skipped()
    rows = zip(tokenizer.encode_source(pairs.sources), tokenizer.encode_target(pairs.targets), strict=True)
    for i, (source, target) in enumerate(rows):
        if max(len(source), len(target)) <= limit:
            sources.append(source)
            targets.append(target)
        else:
            side = "source" if len(source) > limit else "target"
            skipped.add(f"{side} of more than {limit:,} pieces", pairs.where(i, side))
    if not sources:
        raise ValueError(f"no pair is left of {len(pairs):,}: {skipped}")
    return Encoded(_joined(sources), _joined(targets)), skipped


def _joined(rows: list[list[int]]) -> Sentences:
    starts = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum([len(row) for row in rows], out=starts[1:])
    return Sentences(np.fromiter(chain.from_iterable(rows), dtype=np.int32, count=int(starts[-1])), starts)


class Stream(Iterator[Batch]):
    """Batches without end; `Stream(encoded, batch_tokens, *position)` goes on where another stood."""

    def __init__(self, encoded: Encoded, batch_tokens: int, seed: int, epoch: int = 0, batch: int = 0) -> None:
        """Raises ValueError for no pairs, and for a position that this data does not have."""
        if not len(encoded):
            raise ValueError("there are no sentence pairs to make batches of")
        self.encoded, self.batch_tokens, self.seed, self.epoch, self.batch = encoded, batch_tokens, seed, epoch, batch
        self._order = self._epoch()
        if not 0 <= batch < len(self._order):
            raise ValueError(
                f"batch {batch} of epoch {epoch} does not exist: an epoch of this data has {len(self._order)} batches; "
                "resume with the same corpus, tokenizer and batch_tokens"
            )

    @property
    def position(self) -> tuple[int, int, int]:
        """(seed, epoch, batch) of the batch that comes next: save it after the update, and nothing is seen twice."""
        return self.seed, self.epoch, self.batch

    @property
    def batches_per_epoch(self) -> int:
        return len(self._order)

    def __next__(self) -> Batch:
        indices = self._order[self.batch]
        self.batch += 1
        if self.batch == len(self._order):
            self.epoch, self.batch = self.epoch + 1, 0
            self._order = self._epoch()
        return collate(self.encoded, indices)

    def _epoch(self) -> list[NDArray[np.int64]]:
        lengths = self.encoded.sources.lengths, self.encoded.targets.lengths
        return epoch_batches(*lengths, self.batch_tokens, self.seed, self.epoch)
