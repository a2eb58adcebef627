"""Paired bootstrap resampling (Koehn 2004): could the difference of two scores be the luck of the test set?"""

from dataclasses import dataclass

import numpy as np

from pellucid.evaluate.statistics import COMPARED, Rows, signature

FEWEST = 30
"""Sentences below which resampling is not believed: of one sentence, every sample is the same."""

LEVEL = 0.05


@dataclass(frozen=True)
class Interval:
    """A score, and the 95 % confidence interval around it."""

    score: float
    low: float
    high: float


@dataclass(frozen=True)
class Paired:
    """One score of both, B minus A, and how surely they differ."""

    title: str
    a: Interval
    b: Interval
    difference: Interval
    p_value: float
    better: str | None
    """ "A" or "B" where the samples can tell them apart, else nothing."""
    verdict: str
    signature: str
    lower_is_better: bool


def resampled(stats: Rows, samples: int, seed: int) -> Rows:
    """The sums of `samples` test sets of the same size, drawn with replacement from the sentences of this one."""
    generator, n = np.random.default_rng(seed), len(stats)
    weights = (np.bincount(generator.integers(n, size=n), minlength=n) for _ in range(samples))
    return np.stack([row @ stats for row in weights])


def paired(metric: str, a: Rows, b: Rows, samples: int, seed: int, lowercase: bool = False) -> Paired:
    """One metric from the counts of every sentence of A and of B, which were made lower case if that is said."""
    score, width = COMPARED[metric].score, a.shape[1]
    sums = resampled(np.hstack([a, b]), samples, seed)  # one draw for both: that is what pairs them
    drawn_a, drawn_b = score(sums[:, :width]), score(sums[:, width:])
    [score_a], [score_b] = score(a.sum(axis=0, keepdims=True)), score(b.sum(axis=0, keepdims=True))
    difference = interval(score_b - score_a, drawn_b - drawn_a)
    p = p_value(difference.score, drawn_b - drawn_a)
    better = winner(difference, p, len(a), COMPARED[metric].lower_is_better)
    return Paired(
        title=COMPARED[metric].title,
        a=interval(score_a, drawn_a),
        b=interval(score_b, drawn_b),
        difference=difference,
        p_value=p,
        better=better,
        verdict=verdict(better, difference, p, samples, len(a)),
        signature=signature(metric, lowercase),
        lower_is_better=COMPARED[metric].lower_is_better,
    )


def interval(score: float, drawn: Rows) -> Interval:
    """The score, between the scores of the samples that leave out a fortieth at each end."""
    ordered, out = np.sort(drawn), len(drawn) // 40
    return Interval(float(score), float(ordered[out]), float(ordered[len(drawn) - 1 - out]))


def p_value(difference: float, drawn: Rows) -> float:
    """How often samples differ as much by chance: their differences, moved to the mean 0, against the one found.

    As sacreBLEU's paired bootstrap has it, but that a tie counts as chance, so that A against itself has p = 1.
    """
    sizes = np.abs(drawn)
    by_chance = int(np.count_nonzero(sizes - sizes.mean() >= abs(difference)))
    return (by_chance + 1) / (len(drawn) + 1)


def winner(difference: Interval, p: float, sentences: int, lower_is_better: bool) -> str | None:
    """Who is better, where p and the interval of the difference both say so.

    Both, because this p counts one side once the samples agree on it, and alone would name a winner too often.
    """
    if sentences < FEWEST or p >= LEVEL or difference.low <= 0 <= difference.high:
        return None
    return "B" if (difference.score > 0) != lower_is_better else "A"


def verdict(better: str | None, difference: Interval, p: float, samples: int, sentences: int) -> str:
    """The same in words."""
    said = f"p = {p:.3f}" if p >= 0.0005 else "p < 0.001"
    if better:
        return f"{better} is better, {said}"
    if difference.score == difference.low == difference.high == 0:
        return f"no difference, {said}"
    if sentences < FEWEST:
        return f"{sentences:,} sentences are too few to tell, {said}"
    if p < LEVEL:
        return f"too close to call: {said}, but the interval of the difference has 0 in it"
    return f"no difference that {samples:,} samples can tell, {said}"
