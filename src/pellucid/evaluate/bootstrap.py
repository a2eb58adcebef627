"""Paired bootstrap resampling (Koehn 2004): could the difference of two scores be the luck of the test set?"""

from dataclasses import dataclass

import numpy as np

from pellucid.evaluate.statistics import COMPARED_METRICS, CountRows, metric_signature

FEWEST_SENTENCES = 30
"""Sentences below which resampling is not believed: of one sentence, every sample is the same."""

SIGNIFICANCE_LEVEL = 0.05


@dataclass(frozen=True)
class Interval:
    """A score, and the 95 % confidence interval around it."""

    score: float
    low: float
    high: float


@dataclass(frozen=True)
class PairedScore:
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


def resample_sums(stats: CountRows, samples: int, seed: int) -> CountRows:
    """The sums of `samples` test sets of the same size, drawn with replacement from the sentences of this one."""
    generator, n = np.random.default_rng(seed), len(stats)
    weights = (np.bincount(generator.integers(n, size=n), minlength=n) for _ in range(samples))
    return np.stack([row @ stats for row in weights])


def compare_metric(
    metric: str, a: CountRows, b: CountRows, samples: int, seed: int, lowercase: bool = False
) -> PairedScore:
    """One metric from the counts of every sentence of A and of B, which were made lower case if that is said."""
    score, width = COMPARED_METRICS[metric].score, a.shape[1]
    sums = resample_sums(np.hstack([a, b]), samples, seed)  # one draw for both: that is what pairs them
    drawn_a, drawn_b = score(sums[:, :width]), score(sums[:, width:])
    [score_a], [score_b] = score(a.sum(axis=0, keepdims=True)), score(b.sum(axis=0, keepdims=True))
    difference = confidence_interval(score_b - score_a, drawn_b - drawn_a)
    p = p_value(difference.score, drawn_b - drawn_a)
    better = find_winner(difference, p, len(a), COMPARED_METRICS[metric].lower_is_better)
    return PairedScore(
        title=COMPARED_METRICS[metric].title,
        a=confidence_interval(score_a, drawn_a),
        b=confidence_interval(score_b, drawn_b),
        difference=difference,
        p_value=p,
        better=better,
        verdict=describe_winner(better, difference, p, samples, len(a)),
        signature=metric_signature(metric, lowercase),
        lower_is_better=COMPARED_METRICS[metric].lower_is_better,
    )


def confidence_interval(score: float, drawn: CountRows) -> Interval:
    """The score, between the scores of the samples that leave out a fortieth at each end."""
    ordered, out = np.sort(drawn), len(drawn) // 40
    return Interval(float(score), float(ordered[out]), float(ordered[len(drawn) - 1 - out]))


def p_value(difference: float, drawn: CountRows) -> float:
    """How often samples differ as much by chance: their differences, moved to the mean 0, against the one found.

    As sacreBLEU's paired bootstrap has it, but that a tie counts as chance, so that A against itself has p = 1.
    """
    sizes = np.abs(drawn)
    by_chance = int(np.count_nonzero(sizes - sizes.mean() >= abs(difference)))
    return (by_chance + 1) / (len(drawn) + 1)


def find_winner(difference: Interval, p: float, sentences: int, lower_is_better: bool) -> str | None:
    """Who is better, where p and the interval of the difference both say so.

    Both, because this p counts one side once the samples agree on it, and alone would name a winner too often.
    """
    if sentences < FEWEST_SENTENCES or p >= SIGNIFICANCE_LEVEL or difference.low <= 0 <= difference.high:
        return None
    return "B" if (difference.score > 0) != lower_is_better else "A"


def describe_winner(better: str | None, difference: Interval, p: float, samples: int, sentences: int) -> str:
    """The same in words."""
    said = f"p = {p:.3f}" if p >= 0.0005 else "p < 0.001"
    if better:
        return f"{better} is better, {said}"
    if difference.score == difference.low == difference.high == 0:
        return f"no difference, {said}"
    if sentences < FEWEST_SENTENCES:
        return f"{sentences:,} sentences are too few to tell, {said}"
    if p < SIGNIFICANCE_LEVEL:
        return f"too close to call: {said}, but the interval of the difference has 0 in it"
    return f"no difference that {samples:,} samples can tell, {said}"
