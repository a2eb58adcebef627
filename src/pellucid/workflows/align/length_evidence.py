"""Evidence from lengths: translations are as long as their sources, by a factor (Gale and Church 1993)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pellucid.workflows.align.band import Floats, Ints, Matrix
from pellucid.workflows.align.beads import LONGEST_SIDE, SHAPES, Bead

_USUAL_VARIANCE = 6.8  # of the difference of the lengths, for each character (Gale and Church 1993)
_FEWEST_BEADS = 50  # beads from which the variance of these books is learned


class LengthEvidence:
    """How much more likely the lengths of both sides of a bead are in translations than by chance.

    Both sides are measured in characters, scaled to the same total. The difference
    of a pair of translations is normal, with a variance that grows with the length;
    a sentence by itself has a log-normal length.
    """

    def __init__(self, source_lengths: Ints, target_lengths: Ints, beads: Sequence[Bead] = ()):
        """Learn the factor and, from the beads of an earlier alignment, the variance."""
        source, target = np.maximum(source_lengths, 1.0), np.maximum(target_lengths, 1.0)
        pairs = [bead for bead in beads if bead.shape == (1, 1)]
        i, j = [bead.source.start for bead in pairs], [bead.target.start for bead in pairs]
        has_learned = len(pairs) >= _FEWEST_BEADS

        # Half of the factor on each side, so that exchanged books are aligned in the same way.
        ratio = source[i].sum() / target[j].sum() if has_learned else source.mean() / target.mean()
        self._source, self._target = source / np.sqrt(ratio), target * np.sqrt(ratio)
        self._variance = _USUAL_VARIANCE
        if has_learned:
            x, y = self._source[i], self._target[j]
            # By the median, which a few wrong pairs do not move: half of
            # all normal values are within 0.6745.
            self._variance = float(np.median(np.abs(x - y) / np.sqrt((x + y) / 2)) / 0.6745) ** 2
            self._variance = max(self._variance, 1.0)

        self._source_sums = [_sum_last(self._source, count) for count in range(LONGEST_SIDE + 1)]
        self._target_sums = [_sum_last(self._target, count) for count in range(LONGEST_SIDE + 1)]
        source_chance, target_chance = _log_chances(self._source), _log_chances(self._target)
        counts = range(LONGEST_SIDE + 1)
        self._source_chances = [_sum_last(source_chance, count) for count in counts]
        self._target_chances = [_sum_last(target_chance, count) for count in counts]

    def weigh(self, first: int, end: int, low: int, high: int) -> list[Matrix]:
        """Return a matrix for each of `SHAPES`, as `Evidence` says."""
        matrices: list[Matrix] = []
        for source_side, target_side in SHAPES:
            x = self._source_sums[source_side][first:end, None]
            y = self._target_sums[target_side][None, low:high]
            variance = (x + y) * np.float32(self._variance / 2)
            fit = -((x - y) ** 2) / (2 * variance) - 0.5 * np.log(2 * np.pi * variance)
            # How likely each side is by chance. Where both have as many
            # sentences, either may be the given one.
            source_chance = self._source_chances[source_side][first:end, None]
            target_chance = self._target_chances[target_side][None, low:high]
            if source_side > target_side:
                chance = target_chance
            elif source_side < target_side:
                chance = source_chance
            elif source_side == 1:
                chance = (source_chance + target_chance) / 2
            else:
                # Two for two: the place where the total of the other side is cut is any.
                chance = (source_chance + target_chance + np.log(x) + np.log(y)) / 2

            matrices.append(fit - chance)
        return matrices


def _log_chances(lengths: Floats) -> Floats:
    """Return the log-probability density of each length, as log-normal ones."""
    logs = np.log(lengths)
    spread = max(float(logs.std()), 0.05)
    return -0.5 * ((logs - logs.mean()) / spread) ** 2 - np.log(spread * np.sqrt(2 * np.pi)) - logs


def _sum_last(values: Floats, count: int) -> NDArray[np.float32]:
    """Return at each place the sum of the last `count` values up to it, or of all where there are fewer.

    >>> _sum_last(np.array([1.0, 2.0, 3.0]), 2).tolist()
    [1.0, 3.0, 5.0]
    """
    sums = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.arange(1, len(values) + 1)
    return (sums[ends] - sums[np.maximum(ends - count, 0)]).astype(np.float32)
