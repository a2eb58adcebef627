"""Beads of an alignment: a few sentences of one book with a few of the other, and how common each kind is."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log

Shape = tuple[int, int]
"""How many sentences of the source and of the target a bead has."""

SHAPES: tuple[Shape, ...] = ((1, 1), (1, 2), (2, 1), (2, 2), (1, 3), (3, 1))
"""The kinds of beads with sentences on both sides; a gap has them on one side only."""

LONGEST_SIDE = max(max(shape) for shape in SHAPES)

# How often each kind occurs, from a trilingual corpus (Gale and Church
# 1993, table 5), where no three were merged.
_USUAL_SHARES = {
    (1, 1): 0.89,
    (1, 2): 0.0445,
    (2, 1): 0.0445,
    (2, 2): 0.011,
    (1, 3): 0.002,
    (3, 1): 0.002,
}
_USUAL_GAPS = 0.0099
# Beads that the usual shares count for, beside the beads of the books themselves.
_PRIOR_BEADS = 100

# A sentence after a gap is far likelier to be in it than any other sentence: whole chapters are.
# The share of gaps that go on is paid for once for each sentence.
_GAP_GOES_ON = 0.5


@dataclass(frozen=True, slots=True)
class Bead:
    """Sentences that are translations of each other; one of the sides is empty in a gap."""

    source: range
    target: range
    score: float = 0.0
    """How much more likely both sides are as translations than by chance, as a natural logarithm for each word."""

    @property
    def shape(self) -> Shape:
        return len(self.source), len(self.target)

    @property
    def is_gap(self) -> bool:
        return not (self.source and self.target)


@dataclass(frozen=True)
class BeadPriors:
    """Logarithms of how likely each kind of bead is, before its sentences are looked at."""

    shapes: Sequence[float]
    """One for each of `SHAPES`."""
    gap_begins: float
    gap_goes_on: float

    @classmethod
    def estimate(cls, beads: Iterable[Bead] = ()) -> "BeadPriors":
        """Estimate how likely each kind is from an alignment, and from what is usual.

        >>> BeadPriors.estimate().shapes[0] > BeadPriors.estimate([Bead(range(1), range(2))] * 50).shapes[0]
        True
        """
        counts: Counter[Shape] = Counter()
        gaps = 0
        is_in_gap = False
        for bead in beads:
            if not bead.is_gap:
                counts[bead.shape] += 1
            elif not is_in_gap:
                gaps += 1
            is_in_gap = bead.is_gap

        total = sum(counts.values()) + gaps + _PRIOR_BEADS
        shapes: list[float] = []
        for shape in SHAPES:
            usual = _PRIOR_BEADS * _USUAL_SHARES[shape]
            shapes.append(log((counts[shape] + usual) / total))

        # A gap is on one side or the other.
        begins = log((gaps + _PRIOR_BEADS * _USUAL_GAPS) / 2 / total)
        return cls(shapes, begins, log(_GAP_GOES_ON))
