"""Judges by a model whether pairs are translations: does it expect a target from its source more than from another?"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from pellucid.check.evidence import ShuffledFit
from pellucid.check.links import Floats

# Returns the log-probability, by piece, of each target given its source; NaN for a pair that the model cannot take.
ScorePairs = Callable[[Sequence[str], Sequence[str]], Floats]
# Share of shuffled pairs that a pair of the better half must beat, on average, before a model is believed. The better
# half, because a text may have many wrong pairs. With a model of the other direction the demo's text has 0.98.
LEAST_MODEL_SEPARATION = 0.99
# Quantile of shuffled pairs below which hardly any translation lies; higher than by links: a model knows more.
_LEVEL = 0.75
_SHUFFLED_PAIRS = 4_000  # shuffled pairs that are scored to see what no translation looks like
# Sources that are next shorter, among which another source is drawn: it fits wherever the own one fits.
_NEIGHBOURS = 40


class OtherSources:
    """Draws for each source another one of like length, so that length alone does not tell them apart."""

    def __init__(self, sources: Iterable[str]):
        self.sources = sorted(set(sources), key=lambda source: (len(source), source))
        self.lengths = np.array(list(map(len, self.sources)))
        self.random = np.random.default_rng(1)

    def draw(self, sources: Sequence[str]) -> list[str]:
        """Return another source for each."""
        places = np.searchsorted(self.lengths, list(map(len, sources)))
        places = (places - self.random.integers(0, _NEIGHBOURS, len(places))).clip(0, len(self.lengths) - 1)
        return [
            self.sources[place if self.sources[place] != source else (place or 2) - 1]
            for place, source in zip(places.tolist(), sources, strict=True)
        ]


def weigh_by_model(
    blocks: Iterable[tuple[Sequence[str], Sequence[str]]], pairs: int, others: OtherSources, score: ScorePairs
) -> tuple[Floats, ShuffledFit | None]:
    """Return the logit of each pair being translations, NaN where it cannot be scored, and how it was learned.

    Each target is scored with its own source and with another one. For every so many pairs a third source is scored
    against the second: two sources that both have nothing to do with the target. None without a pair that can be
    scored.
    """
    every, start = max(1, pairs // _SHUFFLED_PAIRS), 0
    real, shuffled = [], []
    for sources, targets in blocks:
        own, other = score(sources, targets), score(others.draw(sources), targets)
        real.append(np.stack([own - other, own], axis=1))
        some = slice(-start % every, None, every)
        third = score(others.draw(sources[some]), targets[some])
        shuffled.append(np.stack([third - other[some], third], axis=1))
        start += len(sources)
    features, shuffled_features = np.concatenate(real), np.concatenate(shuffled)
    known, shuffled_known = (np.isfinite(rows).all(axis=1) for rows in (features, shuffled_features))
    logits = np.full(len(features), np.nan)
    if not (known.any() and shuffled_known.any()):
        return logits, None
    fit = ShuffledFit(features[known], shuffled_features[shuffled_known], _LEVEL)
    logits[known] = fit.weigh(features[known])
    return logits, fit
