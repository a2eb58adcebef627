"""Calibration of confidence: a curve fitted on one half of a dev set, and what it is worth on the other half."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pellucid.decode.confidence import Calibration, confidence_features
from pellucid.decode.lines import Translation
from pellucid.evaluate.compare import score_sums, sentence_counts

GOOD_CHRF = 80.0
"""chrF of a sentence, in per cent, from which it counts as needing no change."""

_FEWEST_SENTENCES = 200
"""Sentences of dev below which nothing can be said: a half, in tenths, leaves ten for each."""

_GROUPS = 20
"""Groups of equal size, by score, that the curve is made of before neighbours are pooled."""

_BINS = 10
_RIDGE = 1e-3

Floats = NDArray[np.float64]


def find_unchanged(texts: Sequence[str], references: Sequence[str], good_chrf: float, lowercase: bool) -> Floats:
    """Return 1 for each translation that needs no change: it is the reference, or has at least this chrF with it."""
    return (score_sums("chrf", sentence_counts("chrf", texts, references, lowercase)) >= good_chrf).astype(np.float64)


def features_of(translations: Sequence[Translation]) -> Floats:
    """Return the features of translations, a row for each."""
    return np.array([confidence_features(t.log_prob, len(t.pieces), len(t.source_pieces)) for t in translations])


def fit_calibration(features: Floats, unchanged: Floats, about: dict[str, Any]) -> Calibration:
    """Fit weights and curve on one half of the sentences and add to `about` what they are worth on the other half.

    The weights are those of a logistic regression, and the curve is the isotonic regression of `unchanged` on their
    score. Raises ValueError for too few sentences.
    """
    if len(features) < _FEWEST_SENTENCES:
        raise ValueError(
            f"{len(features)} sentences are too few to calibrate on; {_FEWEST_SENTENCES} are needed, half of them to "
            "prove it (--source FILE --reference FILE)"
        )
    fitted, proved = slice(0, None, 2), slice(1, None, 2)
    weights = _fit_logistic(features[fitted], unchanged[fitted])
    scores = features @ weights
    groups = np.array_split(np.argsort(scores[fitted], kind="stable"), _GROUPS)
    means = pool_adjacent_violators([float(unchanged[fitted][g].mean()) for g in groups], [len(g) for g in groups])
    # Where two neighbours were pooled there is no edge between them.
    edges = [
        (float(scores[fitted][g[0]]), m)
        for g, before, m in zip(groups[1:], means, means[1:], strict=False)
        if m > before
    ]
    curve = Calibration(tuple(weights.tolist()), tuple(e for e, _ in edges), (means[0], *(m for _, m in edges)), about)
    confidences = np.array([curve.confidences[i] for i in np.searchsorted(curve.scores, scores[proved], "right")])
    about |= measure_calibration(confidences, unchanged[proved])
    return curve


def _fit_logistic(features: Floats, labels: Floats) -> Floats:
    """Return the weights of a logistic regression, by Newton's method with a small ridge."""
    scale = np.maximum(np.abs(features).mean(axis=0), 1e-12)
    x, weights = features / scale, np.zeros(features.shape[1])
    for _ in range(30):
        p = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
        hessian = (x.T * (p * (1 - p))) @ x + _RIDGE * len(x) * np.eye(len(weights))
        weights -= np.linalg.solve(hessian, x.T @ (p - labels) + _RIDGE * len(x) * weights)
    return weights / scale


def pool_adjacent_violators(values: Sequence[float], sizes: Sequence[int]) -> list[float]:
    """Return the rising values nearest to these by weighted squares: isotonic regression (Ayer et al. 1955).

    >>> pool_adjacent_violators([0.1, 0.5, 0.3, 0.9], [1, 1, 3, 1])
    [0.1, 0.35, 0.35, 0.9]
    """
    blocks: list[tuple[float, int, int]] = []  # value, size, number of values
    for value, size in zip(values, sizes, strict=True):
        blocks.append((value, size, 1))
        while len(blocks) > 1 and blocks[-2][0] >= blocks[-1][0]:
            (a, m, i), (b, n, j) = blocks[-2:]
            blocks[-2:] = [((a * m + b * n) / (m + n), m + n, i + j)]
    return [value for value, _, count in blocks for _ in range(count)]


def measure_calibration(confidences: Floats, unchanged: Floats) -> dict[str, Any]:
    """Return the expected calibration error and, for bounds, how many sentences are above and how many are unchanged.

    The error is the mean distance, over ten bins of confidence weighted by their sentences, of the mean confidence
    from the share that needs no change (Naeini et al. 2015).
    """
    bins = np.minimum((confidences * _BINS).astype(int), _BINS - 1)
    error = sum(abs((confidences - unchanged)[bins == i].sum()) for i in range(_BINS)) / len(bins)
    above = {
        str(bound): [int((confidences >= bound).sum()), int(unchanged[confidences >= bound].sum())]
        for bound in (0.5, 0.6, 0.7, 0.8, 0.9)
    }
    return {"sentences": len(bins), "unchanged": int(unchanged.sum()), "error": float(error), "above": above}


def calibration_lines(about: dict[str, Any]) -> Iterator[str]:
    """Yield what a calibration is worth, in words and as a table."""
    yield (
        f"On {about['sentences']:,} sentences that nothing was fitted on, {about['unchanged']:,} need no change: the "
        f"translation is the reference or has a chrF of {about['good_chrf']:g} or more with it."
    )
    for bound, (above, unchanged) in about["above"].items():
        share = f"{unchanged / above:.0%} of them need no change" if above else "none: the model is never so sure"
        yield f"confidence {bound} or more: {above:,} sentences, {share}"
    yield f"expected calibration error {about['error']:.3f}"
