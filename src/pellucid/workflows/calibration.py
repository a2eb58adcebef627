"""Calibration of confidence: a curve fitted on one half of a dev set, and what it is worth on the other half."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pellucid.data.text.word_pieces import strip_word
from pellucid.decode.confidence import Calibration, ConfidenceCurve, word_log_probs
from pellucid.decode.scoring import score_pairs
from pellucid.decode.translation import Translation
from pellucid.decode.translator import Translator
from pellucid.decode.usability import QualityEstimate
from pellucid.evaluate.comparison import score_sums, sentence_counts
from pellucid.workflows.check.evidence import fit_logistic

GOOD_CHRF = 80.0  # chrF of a sentence, in per cent, from which it counts as needing no change
# Sentences of dev below which nothing can be said: a half, in tenths, leaves ten for each.
_FEWEST_SENTENCES = 200
# Groups of equal size, by score, that the curve is made of before neighbours are pooled.
_GROUPS = 20

# Shares of dev whose chrF bounds the grades: its worst fifth, and two fifths.
_REDO_SHARE, _LOOK_SHARE = 0.2, 0.4
# Bounds of these bounds: the best lines of a poor model are not
# usable, and the worst of a perfect one are.
_REDO_CHRF, _LOOK_CHRF = (30.0, 50.0), (50.0, GOOD_CHRF)
# How expected chrF may go with each of `quality_features`; 0: both ways.
_QUALITY_SIGNS = np.array([0, 1, 0, -1, -1])
# What chrF falls by at least with each nat of a piece: it was 37 on the dev set of Tatoeba, and 55
# on Multi30k's. A dev set that a model translates without a fault cannot tell.
_LEAST_CHRF_OF_A_NAT = 35.0

_BINS = 10
_RIDGE = 1e-3

Floats = NDArray[np.float64]


def find_unchanged(
    texts: Sequence[str], references: Sequence[str], good_chrf: float, lowercase: bool
) -> Floats:
    """Return 1 for each translation that needs no change: it is the reference, or has at least this chrF with it."""
    return (score_sentences(texts, references, lowercase) >= good_chrf).astype(np.float64)


def find_kept_words(text: str, reference: str, lowercase: bool = False) -> list[bool]:
    """Return for each word of a translation whether the reference has it too, in the same order (most words win).

    Words are separated by white space, and punctuation around them does not count.

    >>> find_kept_words("la bola es azul.", "La pelota es muy azul", lowercase=True)
    [True, False, True, True]
    """
    if lowercase:
        text, reference = text.lower(), reference.lower()
    words = [strip_word(word) for word in text.split()]
    expected = [strip_word(word) for word in reference.split()]

    # lengths[i][j]: the length of the longest common subsequence of words[i:] and expected[j:].
    lengths = [[0] * (len(expected) + 1) for _ in range(len(words) + 1)]
    for i in reversed(range(len(words))):
        for j in reversed(range(len(expected))):
            if words[i] == expected[j]:
                lengths[i][j] = 1 + lengths[i + 1][j + 1]
            else:
                lengths[i][j] = max(lengths[i + 1][j], lengths[i][j + 1])

    kept, j = [], 0
    for i, word in enumerate(words):
        # A word that the subsequence can do without is left out, so that
        # the next ones have all of the reference.
        found = next((k for k in range(j, len(expected)) if expected[k] == word), None)
        is_kept = found is not None and 1 + lengths[i + 1][found + 1] >= lengths[i + 1][j]
        kept.append(is_kept)
        j = found + 1 if is_kept and found is not None else j

    return kept


def judge_words(
    translator: Translator,
    sources: Sequence[str],
    texts: Sequence[str],
    references: Sequence[str],
    lowercase: bool,
) -> list[tuple[Floats, Floats]]:
    """Return for each translation the log-probabilities of its words, and 1 for each word that the reference keeps.

    They are scored anew, since an engine may give the log-probability of a whole
    translation alone. Both are empty for a pair that is too long for the model, and
    where the pieces do not spell the translation.
    """
    tokenizer, longest = translator.tokenizer, translator.lengths.longest
    pairs = zip(tokenizer.encode_source(sources), tokenizer.encode_target(texts), strict=True)
    fitting = [i for i, sides in enumerate(pairs) if max(map(len, sides)) <= longest]
    scores = score_pairs(
        translator, [sources[i] for i in fitting], [texts[i] for i in fitting], batch=0
    )
    judged = [(np.empty(0), np.empty(0)) for _ in texts]
    for i, score in zip(fitting, scores, strict=True):
        if log_probs := word_log_probs(texts[i], score.pieces, score.per_piece):
            kept = find_kept_words(texts[i], references[i], lowercase)
            judged[i] = np.array(log_probs), np.array(kept, np.float64)
    return judged


def list_features(
    translations: Sequence[Translation], features: Callable[[float, int, int], tuple[float, ...]]
) -> Floats:
    """Return a row for each translation: `confidence_features` or `quality_features`."""
    return np.array(
        [features(t.log_prob, len(t.pieces), len(t.source_pieces)) for t in translations]
    )


def score_sentences(texts: Sequence[str], references: Sequence[str], lowercase: bool) -> Floats:
    """Return the chrF of each translation with its reference, in per cent."""
    return score_sums("chrf", sentence_counts("chrf", texts, references, lowercase))


def fit_quality(features: Floats, chrf: Floats) -> tuple[QualityEstimate, dict[str, Any]]:
    """Fit the expected chrF on one half of the sentences; return it with what it is worth on the other half.

    It is a linear regression on the rows of `quality_features`, in which a less likely translation
    is always expected to be worse, and one of an odd length never to be better. The grades are
    bounded by the chrF of the worst fifth of dev, and of its worst two fifths.
    """
    fitted, proved = slice(0, None, 2), slice(1, None, 2)
    x, y = features[fitted], chrf[fitted]
    weights = _fit_with_signs(x, y)
    if weights[1] < _LEAST_CHRF_OF_A_NAT:
        others = x * (np.arange(x.shape[1]) != 1)
        weights = _fit_with_signs(others, y - _LEAST_CHRF_OF_A_NAT * x[:, 1])
        weights[1] = _LEAST_CHRF_OF_A_NAT

    redo, look = np.quantile(chrf[fitted], [_REDO_SHARE, _LOOK_SHARE])
    estimate = QualityEstimate(
        tuple(weights.tolist()),
        float(np.clip(redo, *_REDO_CHRF)),
        float(np.clip(look, *_LOOK_CHRF)),
    )
    expected = np.array([features[proved] @ weights, features[proved][:, 1]])
    found, found_by_log_prob = (count_worst_found(scores, chrf[proved]) for scores in expected)
    worth = {
        "worst": len(chrf[proved]) // 5,
        "found": found,
        "found_by_log_prob": found_by_log_prob,
    }
    return estimate, worth


def _fit_with_signs(x: Floats, y: Floats) -> Floats:
    """Return the weights of a linear regression, 0 for each that would go the wrong way (`_QUALITY_SIGNS`)."""
    weights = np.zeros(x.shape[1])
    used = np.ones(x.shape[1], dtype=bool)
    while True:
        weights[used] = _fit_linear(x[:, used], y)
        is_wrong = used & (weights * _QUALITY_SIGNS < 0)
        if not is_wrong.any():
            return weights
        weights[is_wrong] = 0.0
        used &= ~is_wrong


def _fit_linear(x: Floats, y: Floats) -> Floats:
    """Return the weights of a linear regression, with a ridge that keeps features of one value apart."""
    scale = np.maximum(np.abs(x).mean(axis=0), 1e-12)
    scaled = x / scale
    ridge = _RIDGE * len(x) * np.eye(len(scale))
    return np.linalg.solve(scaled.T @ scaled + ridge, scaled.T @ y) / scale


def count_worst_found(scores: Floats, quality: Floats) -> int:
    """Count how many of the worst fifth by quality are in the lowest fifth by scores.

    >>> count_worst_found(np.arange(10.0), np.array([7.0, 0, 5, 6, 4, 3, 1, 8, 9, 10]))
    1
    """
    size = len(scores) // 5
    lowest = np.argsort(scores, kind="stable")[:size].tolist()
    worst = np.argsort(quality, kind="stable")[:size].tolist()
    return len(set(lowest) & set(worst))


def _join_words(sentences: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """Return the log-probabilities of the words of all sentences, and which of these words were kept."""
    log_probs = [of_sentence for of_sentence, _ in sentences] or [np.empty(0)]
    kept = [of_sentence for _, of_sentence in sentences] or [np.empty(0)]
    return np.concatenate(log_probs), np.concatenate(kept)


def fit_calibration(
    features: Floats,
    unchanged: Floats,
    words: Sequence[tuple[Floats, Floats]],
    about: dict[str, Any],
) -> Calibration:
    """Fit weights and curves on one half of the sentences and add to `about` what they are worth on the other half.

    The weights come from a logistic regression, and the curves are isotonic regressions: of
    `unchanged` on the score of a sentence, and of kept words on their log-probability; `words` has
    both for each sentence. Raises ValueError for too few sentences.
    """
    if len(features) < _FEWEST_SENTENCES:
        raise ValueError(
            f"{len(features)} sentences are too few to calibrate on; {_FEWEST_SENTENCES} are needed, half of them to "
            "prove it (--source FILE --reference FILE)"
        )

    fitted, proved = slice(0, None, 2), slice(1, None, 2)
    scale = np.maximum(np.abs(features[fitted]).mean(axis=0), 1e-12)
    ridge = np.full(len(scale), _RIDGE * len(features[fitted]))
    weights = fit_logistic(features[fitted] / scale, unchanged[fitted], ridge, rounds=30) / scale
    scores = features @ weights
    curve = fit_curve(scores[fitted], unchanged[fitted])
    about |= measure_calibration(confidences_at(curve, scores[proved]), unchanged[proved])

    log_probs, kept = _join_words(words[fitted])
    other_log_probs, other_kept = _join_words(words[proved])
    word_curve = None
    if min(len(log_probs), len(other_log_probs)) >= _FEWEST_SENTENCES // 2:
        word_curve = fit_curve(log_probs, kept)
        word_confidences = confidences_at(word_curve, other_log_probs)
        about["words"] = measure_calibration(word_confidences, other_kept)
    return Calibration(tuple(weights.tolist()), curve, word_curve, about)


def fit_curve(scores: Floats, labels: Floats) -> ConfidenceCurve:
    """Return the isotonic regression of the labels, 0 or 1, on the scores."""
    groups = np.array_split(np.argsort(scores, kind="stable"), _GROUPS)
    means = pool_adjacent_violators(
        [float(labels[g].mean()) for g in groups], [len(g) for g in groups]
    )

    # Where two neighbours were pooled there is no edge between them, and none between equal scores.
    edges: dict[float, float] = {}
    for group, before, mean in zip(groups[1:], means, means[1:], strict=False):
        if mean > before:
            edges[float(scores[group[0]])] = mean
    return ConfidenceCurve(tuple(edges), (means[0], *edges.values()))


def confidences_at(curve: ConfidenceCurve, scores: Floats) -> Floats:
    """Return the confidence at each score."""
    return np.array([curve.confidence_at(score) for score in scores.tolist()])


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

    The error is the mean distance, over ten bins of confidence weighted by their sentences, of the
    mean confidence from the share that needs no change (Naeini et al. 2015).
    """
    bins = np.minimum((confidences * _BINS).astype(int), _BINS - 1)
    error = sum(abs((confidences - unchanged)[bins == i].sum()) for i in range(_BINS)) / len(bins)
    above: dict[str, list[int]] = {}
    for bound in (0.5, 0.6, 0.7, 0.8, 0.9):
        is_above = confidences >= bound
        above[str(bound)] = [int(is_above.sum()), int(unchanged[is_above].sum())]

    return {
        "sentences": len(bins),
        "unchanged": int(unchanged.sum()),
        "error": float(error),
        "above": above,
    }


def calibration_lines(about: dict[str, Any]) -> Iterator[str]:
    """Yield what a calibration is worth, in words and as a table."""
    yield (
        f"On {about['sentences']:,} sentences that nothing was fitted on, {about['unchanged']:,} need no change: the "
        f"translation is the reference or has a chrF of {about['good_chrf']:g} or more with it."
    )
    for bound, (above, unchanged) in about["above"].items():
        share = "none: the model is never so sure"
        if above:
            share = f"{unchanged / above:.0%} of them need no change"
        yield f"confidence {bound} or more: {above:,} sentences, {share}"

    yield f"expected calibration error {about['error']:.3f}"
    if words := about.get("words"):
        yield (
            f"Of {words['sentences']:,} words of theirs, the reference has {words['unchanged']:,}, in the same order; "
            f"expected calibration error {words['error']:.3f}"
        )


def grade_lines(quality: QualityEstimate, worth: Mapping[str, int]) -> Iterator[str]:
    """Yield the bounds of the grades, and what the expected chrF is worth."""
    yield (
        f"A translation is to be done again below an expected chrF of {quality.redo_below:.0f}, and to be looked at "
        f"below {quality.look_below:.0f}"
    )
    worst = max(1, worth["worst"])
    yield (
        f"Reading the fifth with the lowest expected chrF finds {worth['found'] / worst:.0%} of the worst fifth; the "
        f"log-probability of each piece alone finds {worth['found_by_log_prob'] / worst:.0%}, and chance 20%"
    )
