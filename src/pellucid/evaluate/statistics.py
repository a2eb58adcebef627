"""What each sentence adds to a score, as rows of counts, and the scores of any sums of such rows."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pellucid.evaluate.scores import METRICS, bleu_metric, edit_distance, ter_metric

CountRows = np.ndarray
"""One row a sentence, or a sum of sentences; one column a count."""

CHRF_ORDERS = 6
"""Characters of the longest n-grams of chrF."""


@dataclass(frozen=True)
class Metric:
    """A score that depends on sums over sentences only, so that any resampled test set is scored from its sums."""

    title: str
    counts: Callable[[str, str], Sequence[float]]
    """What one translation and its reference add."""
    score: Callable[[CountRows], CountRows]
    """The score, in per cent, of each row of sums."""
    lower_is_better: bool = False


def sentence_counts(
    metric: str, hypotheses: Sequence[str], references: Sequence[str], lowercase: bool = False
) -> CountRows:
    """The counts of every sentence; `lowercase` as in `corpus_scores`."""
    count, told = COMPARED_METRICS[metric].counts, str.lower if lowercase else str
    pairs = zip(map(told, hypotheses), map(told, references), strict=True)
    return np.array([count(*pair) for pair in pairs], dtype=np.float64)


def metric_signature(metric: str, lowercase: bool = False) -> str:
    """How a score is computed, in sacreBLEU's words."""
    return METRICS[metric](["a"], [["a"]], lowercase)["signature"]


def bleu_counts(hypothesis: str, reference: str) -> list[float]:
    """Words of both, then right and all n-grams of the hypothesis, each for n from 1 to 4."""
    found = bleu_metric().corpus_score([hypothesis], [[reference]])
    return [found.sys_len, found.ref_len, *found.counts, *found.totals]


def bleu_from_counts(sums: CountRows) -> CountRows:
    """Brevity penalty times the geometric mean of the precisions (Papineni et al. 2002, 2.3).

    An order without a right n-gram counts as half a right one, the next such as a quarter (sacreBLEU's "exp").
    """
    words, wanted, right, total = sums[:, 0], sums[:, 1], sums[:, 2:6], sums[:, 6:10]
    smoothed = np.where(right == 0, 0.5 ** np.cumsum(right == 0, axis=1), right)
    precision = smoothed / np.maximum(total, 1)
    penalty = np.exp(np.minimum(0, 1 - wanted / np.maximum(words, 1)))
    defined = right.any(axis=1) & total.all(axis=1)
    return np.where(defined, 100 * penalty * np.exp(np.log(precision).mean(axis=1)), 0.0)


def chrf_counts(hypothesis: str, reference: str) -> list[float]:
    """n-grams of the hypothesis, of the reference and of both, for n from 1 to 6, spaces left out."""
    sides = "".join(hypothesis.split()), "".join(reference.split())
    counts = []
    for n in range(1, CHRF_ORDERS + 1):
        ours, theirs = (Counter(side[i : i + n] for i in range(len(side) - n + 1)) for side in sides)
        # Orders that the reference is too short for are left out, as sacreBLEU does.
        counts += [ours.total() if theirs else 0, theirs.total(), (ours & theirs).total()]
    return counts


def chrf_from_counts(sums: CountRows) -> CountRows:
    """F2 of the mean precision and recall, over the orders that both sides have (Popović 2015)."""
    ours, theirs, both = (sums[:, i::3] for i in range(3))
    used = (ours > 0) & (theirs > 0)
    orders = np.maximum(used.sum(axis=1), 1)
    precision = np.where(used, both / np.maximum(ours, 1), 0).sum(axis=1) / orders
    recall = np.where(used, both / np.maximum(theirs, 1), 0).sum(axis=1) / orders
    weighted = 4 * precision + recall
    return 100 * 5 * precision * recall / np.where(weighted > 0, weighted, 1)


def ter_counts(hypothesis: str, reference: str) -> list[float]:
    """Edits and shifts, and the words of the reference."""
    found = ter_metric().corpus_score([hypothesis], [[reference]])
    return [found.num_edits, found.ref_length]


def wer_counts(hypothesis: str, reference: str) -> list[float]:
    """Edits, and the words of the reference."""
    words = reference.split()
    return [edit_distance(hypothesis.split(), words), len(words)]


def error_rate_from_counts(sums: CountRows) -> CountRows:
    """Edits in per cent of words; against no words at all, any edit is 100 (sacreBLEU's TER)."""
    edits, words = sums[:, 0], sums[:, 1]
    return 100 * np.where(words > 0, edits / np.maximum(words, 1), edits > 0)


COMPARED_METRICS: dict[str, Metric] = {
    "bleu": Metric("BLEU", bleu_counts, bleu_from_counts),
    "chrf": Metric("chrF", chrf_counts, chrf_from_counts),
    "ter": Metric("TER", ter_counts, error_rate_from_counts, lower_is_better=True),
    "wer": Metric("WER", wer_counts, error_rate_from_counts, lower_is_better=True),
}
