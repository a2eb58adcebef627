"""Counts of each sentence that add up to a score, and scores of any sums of such counts."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pellucid.evaluate.scores import METRICS, bleu_metric, edit_distance, ter_metric

CountRows = np.ndarray
"""Array with a row for each sentence or sum of sentences, and a column for each count."""

CHRF_ORDERS = 6
"""Characters of the longest n-grams of chrF."""


@dataclass(frozen=True)
class Metric:
    """A metric computed from sums over sentences only, so that any resampled test set is scored from its sums."""

    title: str
    counts: Callable[[str, str], Sequence[float]]
    """Function from a translation and its reference to their counts."""
    score: Callable[[CountRows], CountRows]
    """Function from rows of sums to the score of each row, in per cent."""
    lower_is_better: bool = False


def sentence_counts(
    metric: str, hypotheses: Sequence[str], references: Sequence[str], lowercase: bool = False
) -> CountRows:
    """Return the counts of every sentence; `lowercase` ignores case, as in `corpus_scores`."""
    count, normalise = COMPARED_METRICS[metric].counts, str.lower if lowercase else str
    pairs = zip(map(normalise, hypotheses), map(normalise, references), strict=True)
    return np.array([count(*pair) for pair in pairs], dtype=np.float64)


def metric_signature(metric: str, lowercase: bool = False) -> str:
    """Return how a score is computed, as a signature of sacreBLEU."""
    # The signature does not depend on the texts, but exists only after scoring some.
    return METRICS[metric](["a"], [["a"]], lowercase)["signature"]


def bleu_counts(hypothesis: str, reference: str) -> list[float]:
    """Return the lengths of both in words, then the matching and all n-grams of the hypothesis, for n from 1 to 4."""
    score = bleu_metric().corpus_score([hypothesis], [[reference]])
    return [score.sys_len, score.ref_len, *score.counts, *score.totals]


def bleu_from_counts(sums: CountRows) -> CountRows:
    """Return brevity penalty times geometric mean of the precisions (Papineni et al. 2002, 2.3)."""
    hypothesis_words, reference_words, matches, total = sums[:, 0], sums[:, 1], sums[:, 2:6], sums[:, 6:10]
    # sacreBLEU's "exp": the first order without a match counts as half a match, the next such as a quarter.
    smoothed = np.where(matches == 0, 0.5 ** np.cumsum(matches == 0, axis=1), matches)
    precision = smoothed / np.maximum(total, 1)
    penalty = np.exp(np.minimum(0, 1 - reference_words / np.maximum(hypothesis_words, 1)))
    # Without any match, or with a hypothesis shorter than four words, BLEU is 0.
    defined = matches.any(axis=1) & total.all(axis=1)
    return np.where(defined, 100 * penalty * np.exp(np.log(precision).mean(axis=1)), 0.0)


def chrf_counts(hypothesis: str, reference: str) -> list[float]:
    """Return the n-grams of the hypothesis, of the reference and of both, for n from 1 to 6, without spaces."""
    sides = "".join(hypothesis.split()), "".join(reference.split())
    counts = []
    for n in range(1, CHRF_ORDERS + 1):
        hypothesis_ngrams, reference_ngrams = (
            Counter(side[i : i + n] for i in range(len(side) - n + 1)) for side in sides
        )
        # Orders that the reference is too short for are left out, as sacreBLEU does.
        counts += [
            hypothesis_ngrams.total() if reference_ngrams else 0,
            reference_ngrams.total(),
            (hypothesis_ngrams & reference_ngrams).total(),
        ]
    return counts


def chrf_from_counts(sums: CountRows) -> CountRows:
    """Return F2 of mean precision and mean recall, over the orders that both sides have (Popović 2015)."""
    hypothesis_ngrams, reference_ngrams, matches = (sums[:, i::3] for i in range(3))
    used = (hypothesis_ngrams > 0) & (reference_ngrams > 0)
    orders = np.maximum(used.sum(axis=1), 1)
    precision = np.where(used, matches / np.maximum(hypothesis_ngrams, 1), 0).sum(axis=1) / orders
    recall = np.where(used, matches / np.maximum(reference_ngrams, 1), 0).sum(axis=1) / orders
    # F2 = (1 + 2^2) P R / (2^2 P + R).
    weighted = 4 * precision + recall
    return 100 * 5 * precision * recall / np.where(weighted > 0, weighted, 1)


def ter_counts(hypothesis: str, reference: str) -> list[float]:
    """Return the edits and shifts, and the words of the reference."""
    score = ter_metric().corpus_score([hypothesis], [[reference]])
    return [score.num_edits, score.ref_length]


def wer_counts(hypothesis: str, reference: str) -> list[float]:
    """Return the edits, and the words of the reference."""
    words = reference.split()
    return [edit_distance(hypothesis.split(), words), len(words)]


def error_rate_from_counts(sums: CountRows) -> CountRows:
    """Return edits in per cent of words."""
    edits, words = sums[:, 0], sums[:, 1]
    # Against no words at all, any edit is 100 %, as in sacreBLEU's TER.
    return 100 * np.where(words > 0, edits / np.maximum(words, 1), edits > 0)


COMPARED_METRICS: dict[str, Metric] = {
    "bleu": Metric("BLEU", bleu_counts, bleu_from_counts),
    "chrf": Metric("chrF", chrf_counts, chrf_from_counts),
    "ter": Metric("TER", ter_counts, error_rate_from_counts, lower_is_better=True),
    "wer": Metric("WER", wer_counts, error_rate_from_counts, lower_is_better=True),
}
"""Metrics of a comparison by name."""
