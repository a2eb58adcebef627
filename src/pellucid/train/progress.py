"""Progress of a run from 0 to 1, in updates or in time, and whether an evaluation or a save is due."""

from pellucid.train.config import TrainConfig
from pellucid.train.state import RunCounts

EVALUATIONS = 12
"""Evaluations of a run that does not say how often to evaluate."""

EVALUATION_SHARE = 0.2
"""Largest share of the time so far that evaluations take in a run in minutes, except for its first and its last."""

FIRST_EVALUATION_SECONDS = 30.0
"""Seconds of a run in minutes before its first evaluation: an untrained model also translates slowest."""


def run_progress(counts: RunCounts, c: TrainConfig) -> float:
    """Return the share of the run that is over: of its updates, or of its minutes."""
    if c.steps is not None:
        return min(1.0, counts.step / c.steps)
    assert c.minutes is not None
    return min(1.0, counts.seconds / (60 * c.minutes))


def is_due(every: int | None, counts: RunCounts, before: float, now: float) -> bool:
    """Whether `every` updates have gone by, or, if that is None, another twelfth of the run; always at its end.

    >>> is_due(500, RunCounts(step=1000), 0.1, 0.11)
    True
    >>> is_due(None, RunCounts(step=7), 0.07, 0.08), is_due(None, RunCounts(step=8), 0.08, 0.09)
    (False, True)
    """
    if now >= 1.0:
        return True
    if every is not None:
        return counts.step % every == 0
    # By progress, not by step: a run in minutes does not know its number of steps.
    return int(now * EVALUATIONS) > int(before * EVALUATIONS)


def is_worthwhile(counts: RunCounts, c: TrainConfig) -> bool:
    """Whether a run in minutes has time for an evaluation that is due, or had better spend it on updates.

    >>> c = TrainConfig(minutes=1)
    >>> is_worthwhile(RunCounts(seconds=25), c), is_worthwhile(RunCounts(seconds=35), c)
    (False, True)
    >>> [is_worthwhile(RunCounts(seconds=50, evaluations=1, evaluation_seconds=n), c) for n in (4, 6)]
    [True, False]
    """
    if c.minutes is None or c.evaluate_every is not None:
        return True
    if not counts.evaluations:
        return counts.seconds >= FIRST_EVALUATION_SECONDS
    average = counts.evaluation_seconds / counts.evaluations
    return counts.evaluation_seconds + average <= EVALUATION_SHARE * counts.seconds
