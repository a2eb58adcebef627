"""Batches of one epoch, and how well they are filled."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pellucid.data.batching import EncodedPairs, epoch_batches
from pellucid.data.mixture import CorpusShare, epoch_pairs
from pellucid.train.config import RunConfig


@dataclass(frozen=True)
class EpochBatches:
    """Batches of pairs, and the rectangle of each: its rows, source positions and target positions."""

    encoded: EncodedPairs
    order: list[NDArray[np.integer]]
    shapes: NDArray[np.int64]
    lengths: NDArray[np.int64]
    """Source and target tokens of each pair seen, EOS included: two rows."""

    @classmethod
    def first_of_run(cls, encoded: EncodedPairs, run: RunConfig) -> "EpochBatches":
        """Return the batches of the first epoch of a run, just as its stream makes them."""
        sources, targets = encoded.sources.lengths, encoded.targets.lengths
        # Pairs that are not divided into corpora count once an epoch, as in `Stream`.
        pairs = epoch_pairs(encoded.corpora or (CorpusShare("all", len(encoded)),), run.seed, epoch=0)
        order = epoch_batches(sources, targets, run.train.batch_tokens, run.seed, 0, pairs)
        shapes = [(len(batch), sources[batch].max(), targets[batch].max()) for batch in order]
        # A pair counts as often as the epoch shows it, which the weights of corpora decide.
        indices = np.concatenate(order)
        lengths = np.stack([sources[indices], targets[indices]])
        return cls(encoded, order, np.array(shapes, dtype=np.int64), lengths.astype(np.int64))

    @property
    def pairs(self) -> int:
        """Number of pairs that the epoch shows; weights of corpora may repeat some and leave out others."""
        return self.lengths.shape[1]

    @property
    def source_pieces(self) -> int:
        """Source tokens without padding."""
        return int(self.lengths[0].sum())

    @property
    def target_pieces(self) -> int:
        """Target tokens without padding."""
        return int(self.lengths[1].sum())

    @property
    def source_positions(self) -> int:
        """Source positions with padding."""
        return int((self.shapes[:, 0] * self.shapes[:, 1]).sum())

    @property
    def target_positions(self) -> int:
        """Target positions with padding."""
        return int((self.shapes[:, 0] * self.shapes[:, 2]).sum())

    @property
    def largest(self) -> int:
        """Index of the batch with the most positions on both sides together."""
        rows, sources, targets = self.shapes.T
        return int((rows * (sources + targets)).argmax())
