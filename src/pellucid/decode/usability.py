"""Grades of translations: which can be used as they are, which need a look, and which are to be done again."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite, log
from typing import Literal, TypeAlias

Grade: TypeAlias = Literal["usable", "look", "redo"]

GRADES: dict[Grade, str] = {  # each grade with its meaning, the best first
    "usable": "no alarm, and as good as most of the dev set is expected to be",
    "look": "a detail may be wrong (numbers, names, length), or the expected quality is in the middle of the dev set's",
    "redo": "the text is spoiled (empty, copy, repeats, sentences), or the expected quality is that of the dev set's "
    "worst fifth",
}

# A reader who corrects one of these has to translate the line again; any other alarm is about a
# detail of it.
SPOILING_ALARMS = frozenset({"empty", "copy", "repeats", "sentences"})


def quality_features(log_prob: float, pieces: int, source_pieces: int) -> tuple[float, ...]:
    """Return the features from which the quality of a translation is estimated.

    The first feature is always 1. They are 1; the log-probability of each piece, in nats; the
    logarithm of the number of pieces; and how far the logarithm of the ratio of both lengths is
    above 0, and how far below.
    """
    ratio = log(pieces / source_pieces)
    return 1.0, log_prob / pieces, log(pieces), max(0.0, ratio), max(0.0, -ratio)


@dataclass(frozen=True)
class QualityEstimate:
    """The chrF that a translation is expected to have with one by a person, and the bounds of the grades.

    The expected chrF, from 0 to 100, is the sum of the features by their weights. Below
    `redo_below` a translation is to be done again, and below `look_below` it needs a look.
    """

    weights: tuple[float, ...]
    redo_below: float
    look_below: float

    def __post_init__(self) -> None:
        numbers = (*self.weights, self.redo_below, self.look_below)
        features = quality_features(-1.0, 1, 1)
        if len(self.weights) != len(features) or not all(map(isfinite, numbers)):
            raise ValueError("the weights of quality are not one finite number for each feature")
        if self.redo_below > self.look_below:
            raise ValueError("the bound of redo is above that of look")

    def expect_chrf(self, log_prob: float, pieces: int, source_pieces: int) -> float:
        """Return the expected chrF of a translation with this log-probability and these numbers of pieces."""
        features = quality_features(log_prob, pieces, source_pieces)
        total = sum(weight * feature for weight, feature in zip(self.weights, features, strict=True))
        return min(100.0, max(0.0, total))

    def grade_chrf(self, expected: float) -> Grade:
        """Return the grade of an expected chrF."""
        if expected < self.redo_below:
            return "redo"
        return "look" if expected < self.look_below else "usable"


def grade_alarms(alarms: Iterable[str]) -> Grade | None:
    """Return the grade that alarms ask for; None without an alarm.

    >>> grade_alarms(["numbers", "repeats"]), grade_alarms(["numbers"]), grade_alarms([])
    ('redo', 'look', None)
    """
    names = set(alarms)
    if not names:
        return None
    return "redo" if names & SPOILING_ALARMS else "look"


def choose_worst_grade(grades: Iterable[Grade | None]) -> Grade | None:
    """Return the worst of some grades, leaving out None; None where there is no other.

    >>> choose_worst_grade(["usable", None, "look"])
    'look'
    """
    order = list(GRADES)
    return max((grade for grade in grades if grade is not None), key=order.index, default=None)
