"""The batches of one epoch, and how well they are filled."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pellucid.data.batching import EncodedPairs, epoch_batches
from pellucid.data.mixture import CorpusShare, epoch_pairs
from pellucid.train.config import RunConfig


@dataclass(frozen=True)
class EpochBatches:
    """Which pairs each batch holds, and its rectangle: how many rows, source positions and target positions."""

    encoded: EncodedPairs
    order: list[NDArray[np.integer]]
    shapes: NDArray[np.int64]
    lengths: NDArray[np.int64]
    """Source and target pieces of each pair seen, end marks counted: two rows."""

    @classmethod
    def first_of_run(cls, encoded: EncodedPairs, run: RunConfig) -> "EpochBatches":
        """The first epoch of a run, as the stream has it."""
        encoded = encoded.for_epoch(run.seed, epoch=0)
        sources, targets = encoded.sources.lengths, encoded.targets.lengths
        pairs = epoch_pairs(encoded.corpora or (CorpusShare("all", len(encoded)),), run.seed, epoch=0)
        order = epoch_batches(sources, targets, run.train.batch_tokens, run.seed, 0, pairs)
        shapes = [(len(batch), sources[batch].max(), targets[batch].max()) for batch in order]
        seen = np.concatenate(order)
        lengths = np.stack([sources[seen], targets[seen]])
        return cls(encoded, order, np.array(shapes, dtype=np.int64), lengths.astype(np.int64))

    @property
    def pairs(self) -> int:
        """That an epoch shows; where corpora have weights, not as many as there are."""
        return self.lengths.shape[1]

    @property
    def source_pieces(self) -> int:
        """Padding not counted."""
        return int(self.lengths[0].sum())

    @property
    def target_pieces(self) -> int:
        """Padding not counted."""
        return int(self.lengths[1].sum())

    @property
    def source_positions(self) -> int:
        """Padding counted."""
        return int((self.shapes[:, 0] * self.shapes[:, 1]).sum())

    @property
    def target_positions(self) -> int:
        """Padding counted."""
        return int((self.shapes[:, 0] * self.shapes[:, 2]).sum())

    @property
    def largest(self) -> int:
        """The batch with most positions on both sides."""
        rows, sources, targets = self.shapes.T
        return int((rows * (sources + targets)).argmax())
