"""How far a run is, from 0 to 1, in updates or in time; and whether something is due."""

from pellucid.train.config import TrainConfig
from pellucid.train.state import Counts

EVALUATIONS = 12
"""In a run that does not say how often to evaluate."""

SHARE = 0.2
"""Of the time so far, that the evaluations of a run in minutes take at most, but for its first and its last."""

FIRST = 30.0
"""Seconds of a run in minutes before its first evaluation: a model that knows nothing yet also translates slowest."""


def progress(counts: Counts, c: TrainConfig) -> float:
    """The share of the run that is over: of its updates, or of its minutes."""
    if c.steps is not None:
        return min(1.0, counts.step / c.steps)
    assert c.minutes is not None
    return min(1.0, counts.seconds / (60 * c.minutes))


def due(every: int | None, counts: Counts, before: float, now: float) -> bool:
    """Whether `every` updates have gone by, or, left out, another twelfth of the run; and at its end.

    >>> due(500, Counts(step=1000), 0.1, 0.11)
    True
    >>> due(None, Counts(step=7), 0.07, 0.08), due(None, Counts(step=8), 0.08, 0.09)
    (False, True)
    """
    if now >= 1.0:
        return True
    if every is not None:
        return counts.step % every == 0
    return int(now * EVALUATIONS) > int(before * EVALUATIONS)


def worthwhile(counts: Counts, c: TrainConfig) -> bool:
    """Whether a run has time for an evaluation that is due, or its minutes are better spent on updates.

    >>> c = TrainConfig(minutes=1)
    >>> worthwhile(Counts(seconds=25), c), worthwhile(Counts(seconds=35), c)
    (False, True)
    >>> [worthwhile(Counts(seconds=50, evaluations=1, evaluation_seconds=n), c) for n in (4, 6)]
    [True, False]
    """
    if c.minutes is None or c.evaluate_every is not None or c.average == "best":
        return True
    if not counts.evaluations:
        return counts.seconds >= FIRST
    one = counts.evaluation_seconds / counts.evaluations
    return counts.evaluation_seconds + one <= SHARE * counts.seconds
