"""Paired bootstrap resampling (Koehn 2004): could the difference of two scores be due to the choice of the test set?"""

from dataclasses import dataclass

import numpy as np

from pellucid.evaluate.statistics import COMPARED_METRICS, CountRows, metric_signature

FEWEST_SENTENCES = 30
"""Sentences below which resampling is not trusted: of one sentence, every sample is the same."""

SIGNIFICANCE_LEVEL = 0.05
"""p-value below which a difference counts as significant."""


@dataclass(frozen=True)
class Interval:
    """A score and the 95 % confidence interval around it."""

    score: float
    low: float
    high: float


@dataclass(frozen=True)
class PairedScore:
    """One metric of A and of B, their difference B minus A, and how certain it is."""

    title: str
    a: Interval
    b: Interval
    difference: Interval
    p_value: float
    better: str | None
    """ "A" or "B" where the samples can tell them apart, otherwise None."""
    verdict: str
    signature: str
    lower_is_better: bool


def resample_sums(stats: CountRows, samples: int, seed: int) -> CountRows:
    """Return the sums of `samples` test sets of equal size, drawn with replacement from the sentences of this one."""
    generator, n = np.random.default_rng(seed), len(stats)
    # How often each sentence was drawn: the sum of a sample is then one product with all rows.
    weights = (np.bincount(generator.integers(n, size=n), minlength=n) for _ in range(samples))
    return np.stack([row @ stats for row in weights])


def compare_metric(
    metric: str, a: CountRows, b: CountRows, samples: int, seed: int, lowercase: bool = False
) -> PairedScore:
    """Compare A and B by one metric, from the counts of every sentence; `lowercase` says how these were made."""
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


def confidence_interval(score: float, sample_scores: CountRows) -> Interval:
    """Return the score with the interval that leaves out a fortieth of the samples at each end."""
    ordered, cut = np.sort(sample_scores), len(sample_scores) // 40
    return Interval(float(score), float(ordered[cut]), float(ordered[len(sample_scores) - 1 - cut]))


def p_value(difference: float, sample_differences: CountRows) -> float:
    """Return how often samples differ by chance, once their mean is moved to 0, as much as the test set does."""
    sizes = np.abs(sample_differences)
    # sacreBLEU's paired bootstrap has > here; with >=, ties count as chance, and A against itself has p = 1.
    by_chance = int(np.count_nonzero(sizes - sizes.mean() >= abs(difference)))
    # The test set itself counts as one of the samples, so that p is never 0.
    return (by_chance + 1) / (len(sample_differences) + 1)


def find_winner(difference: Interval, p: float, sentences: int, lower_is_better: bool) -> str | None:
    """Return which is better, A or B, where p and the interval of the difference agree; otherwise None."""
    # Both are asked: this p counts one side once the samples agree on it, and alone would name a winner too often.
    if sentences < FEWEST_SENTENCES or p >= SIGNIFICANCE_LEVEL or difference.low <= 0 <= difference.high:
        return None
    return "B" if (difference.score > 0) != lower_is_better else "A"


def describe_winner(better: str | None, difference: Interval, p: float, samples: int, sentences: int) -> str:
    """Return the verdict in words."""
    p_text = f"p = {p:.3f}" if p >= 0.0005 else "p < 0.001"
    if better:
        return f"{better} is better, {p_text}"
    if difference.score == difference.low == difference.high == 0:
        return f"no difference, {p_text}"
    if sentences < FEWEST_SENTENCES:
        return f"{sentences:,} sentences are too few to tell, {p_text}"
    if p < SIGNIFICANCE_LEVEL:
        return f"too close to call: {p_text}, but the interval of the difference has 0 in it"
    return f"no difference that {samples:,} samples can tell, {p_text}"
