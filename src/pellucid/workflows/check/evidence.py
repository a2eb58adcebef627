"""Judges by links or by a model whether pairs are translations, and finds blocks where one side has shifted."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pellucid.data.links import Bools, Floats, Ints, LinkModel, SentenceWords

# Pairs from which links are learned; in fewer the words repeat too rarely to say anything.
FEWEST_PAIRS = 400
MOST_PAIRS = 60_000  # pairs that links are learned from
# Share of pairs that must look better than shuffled ones (AUC) before any pair is called wrong.
LEAST_SEPARATION = 0.9
# Share of the pairs called wrong that are meant to be: a doctor that cries wolf is switched off.
PRECISION = 0.87
LONGEST_SHIFT = 10  # lines by which a side may have shifted
# Lines of a shifted block: in fewer, neighbours that happen to be alike could pass for one.
SHORTEST_BLOCK = 6
_WINDOW = 16  # lines over which evidence is averaged to find where a shift may be
# Lines around a suspect window that are looked at, too: between
# two of them lines may be alike by chance.
_AROUND = 250
_CERTAIN = 3.0  # bound of the logit of one pair in a sum, so that no single line decides
_CHANGE = 9.0  # logits that a change of the shift must gain: three lines that are certain
# Pairs that are weighed at a time: their features take more memory than all that is kept of them.
_WEIGHED_AT_ONCE = 2**15


class Judge:
    """Evidence for pairs being translations: a logit that is negative where shuffled pairs are likelier."""

    def __init__(
        self, sources: SentenceWords, targets: SentenceWords, i: Ints, j: Ints, seed: int = 1
    ):
        """Learn from source i[n] and target j[n], by growing i; most of these pairs are translations."""
        self.sources, self.targets = sources, targets
        self.model = LinkModel(sources, targets, i, j)
        self._learned = i[:: self.model.every], j[:: self.model.every]

        # A part is enough to learn nine weights, and shuffled pairs cost as much as others.
        some = slice(None, None, max(1, len(i) // 20_000))
        i, j = i[some], j[some]
        partners = np.random.default_rng(seed).permutation(j)
        real = self.model.features(sources, targets, i, j, self._were_learned_from(i, j))
        shuffled = self.model.features(sources, targets, i, partners, np.zeros(len(i), bool))
        self.fit = ShuffledFit(real, shuffled)
        self.separation, self.threshold = self.fit.separation, self.fit.threshold

    def weigh(self, i: Ints, j: Ints) -> Floats:
        """Return the logit of source i[n] and target j[n] being translations, for each n."""
        learned_from = self._were_learned_from(i, j)
        features = self.model.features(self.sources, self.targets, i, j, learned_from)
        return self.fit.weigh(features)

    def weigh_all(self) -> Floats:
        """Return the logit of each source and the target beside it."""
        pairs = len(self.sources.lengths)
        logits = np.empty(pairs)
        for start in range(0, pairs, _WEIGHED_AT_ONCE):
            block = np.arange(start, min(start + _WEIGHED_AT_ONCE, pairs))
            logits[block] = self.weigh(block, block)
        return logits

    def _were_learned_from(self, i: Ints, j: Ints) -> Bools:
        """Return whether links were learned from source i[n] and target j[n], for each n."""
        sources, targets = self._learned
        places = np.minimum(np.searchsorted(sources, i), len(sources) - 1)
        return (sources[places] == i) & (targets[places] == j)


class ShuffledFit:
    """Logistic regression that tells pairs from shuffled pairs by their features, and where to draw the line."""

    def __init__(self, real: Floats, shuffled: Floats, level: float = 0.5):
        """Learn from a row of features for each pair and for each shuffled pair; most of the pairs are translations.

        Hardly any translation may lie below the quantile `level` of shuffled
        pairs, from which the wrong are estimated.
        """
        self.mean, self.scale = real.mean(axis=0), real.std(axis=0) + 1e-9
        x = (np.concatenate([real, shuffled]) - self.mean) / self.scale
        x = np.concatenate([x, np.ones((len(x), 1))], axis=1)  # the last weight is the constant
        labels = np.repeat([1.0, 0.0], [len(real), len(shuffled)])
        ridge = np.array([1.0] * real.shape[1] + [1e-6])
        self.weights = fit_logistic(x, labels, ridge=ridge, rounds=12)
        real_logits, shuffled_logits = np.sort(self.weigh(real)), self.weigh(shuffled)
        self.separation = _measure_separation(real_logits, shuffled_logits)
        self.better_separation = _measure_separation(real_logits[len(real) // 2 :], shuffled_logits)
        self.wrong_share, self.threshold = _find_threshold(real_logits, shuffled_logits, level)

    def weigh(self, features: Floats) -> Floats:
        """Return, for each row of features, the logit of its pair being a translation."""
        return (features - self.mean) / self.scale @ self.weights[:-1] + self.weights[-1]


def fit_logistic(x: Floats, labels: Floats, ridge: Floats, rounds: int) -> Floats:
    """Return the weights of a logistic regression by Newton's method; `ridge` has the penalty of each weight."""
    weights = np.zeros(x.shape[1])
    for _ in range(rounds):
        p = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
        hessian = (x.T * (p * (1 - p))) @ x + np.diag(ridge)
        weights -= np.linalg.solve(hessian, x.T @ (p - labels) + ridge * weights)
    return weights


def _measure_separation(real: Floats, shuffled: Floats) -> float:
    """Return the probability that a real pair has the larger logit (the area under the ROC curve).

    >>> _measure_separation(np.array([2.0, 3.0]), np.array([1.0, 2.5]))
    0.75
    """
    return float(np.searchsorted(np.sort(shuffled), real).mean() / len(shuffled))


def _find_threshold(real: Floats, shuffled: Floats, level: float) -> tuple[float, float]:
    """Return the share of pairs that are wrong, and the logit up to which they are called so.

    With a level of 0.5, half of all shuffled pairs lie below their median, and hardly any
    translation does: twice the share of real pairs there is the share that is wrong. The threshold
    is the highest with the wanted precision by that estimate.
    """
    wrong_share = min(1.0, float((real < np.quantile(shuffled, level)).mean()) / level)
    shuffled = np.sort(shuffled)

    # A pair with as much for it as against it is never called wrong.
    logits = np.sort(real[real < 0])
    below_real = np.arange(1, len(logits) + 1) / len(real)
    below_shuffled = np.searchsorted(shuffled, logits, side="right") / len(shuffled)
    enough = np.flatnonzero(wrong_share * below_shuffled >= PRECISION * below_real)
    return wrong_share, float(logits[enough[-1]]) if len(enough) else -np.inf


@dataclass(frozen=True)
class Shift:
    """A block of pairs, from number 0 on, where source i belongs to target i + `offset`, or to none if that is 0."""

    first: int
    last: int
    offset: int


def guess_offsets(
    source_lengths: NDArray[np.integer], target_lengths: NDArray[np.integer], window: int = 500
) -> Ints:
    """Return for each pair the offset at which the lengths of the lines around it agree best.

    Lengths of translations go together. This is enough to learn
    links where most of a text has shifted.
    """
    pairs = len(source_lengths)
    offsets = np.zeros(pairs, np.int64)
    for start in range(0, pairs, window):
        lines = np.arange(start, min(start + window, pairs))
        if len(lines) < window // 2:
            break
        # Of these lines and all that they may belong to.
        first = max(0, start - LONGEST_SHIFT)
        near = slice(first, start + window + LONGEST_SHIFT)
        logs = [np.log(lengths[near] + 1.0) for lengths in (source_lengths, target_lengths)]
        agreements = {}
        for offset in sorted(range(-LONGEST_SHIFT, LONGEST_SHIFT + 1), key=abs):
            i = lines[(lines + offset >= 0) & (lines + offset < pairs)]
            a, b = logs[0][i - first], logs[1][i + offset - first]
            a, b = a - a.mean(), b - b.mean()
            agreements[offset] = float((a * b).mean() / (a.std() * b.std() + 1e-9))

        best = max(agreements, key=agreements.__getitem__)
        # By chance a correlation of 500 lines varies by 0.045.
        if agreements[best] > agreements[0] + 0.25:
            offsets[lines] = best

    offsets[(np.arange(pairs) + offsets < 0) | (np.arange(pairs) + offsets >= pairs)] = 0
    return offsets


def find_blocks(judge: Judge, logits: Floats) -> list[Shift]:
    """Return the blocks of lines that do not belong to the lines beside them, exact to the line.

    `logits` has the logit of each line at offset 0.

    Where no offset explains a block, its offset is 0: its pairs are no
    translations, wherever their targets are.
    """
    certain = np.clip(logits, -_CERTAIN, _CERTAIN)
    if len(certain) < _WINDOW:
        return []
    means = np.convolve(certain, np.full(_WINDOW, 1 / _WINDOW), mode="valid")
    changes = np.zeros(len(certain) + 1, np.int64)
    starts = np.flatnonzero(means < 0)
    np.add.at(changes, np.maximum(starts - _AROUND, 0), 1)
    np.add.at(changes, np.minimum(starts + _WINDOW + _AROUND, len(certain)), -1)
    suspect = np.concatenate([[0], np.cumsum(changes[:-1]) > 0, [0]])
    edges = np.flatnonzero(np.diff(suspect))

    blocks: list[Shift] = []
    for first, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        blocks += _explain_region(judge, certain, first, end)
    return blocks


def _explain_region(judge: Judge, certain: Floats, first: int, end: int) -> list[Shift]:
    """Return the blocks among the lines from `first` to before `end`."""
    offsets = sorted([0, *_winning_offsets(judge, certain, first, end)])
    rows: list[Floats] = []
    for offset in offsets:
        rows.append(_weigh_offset(judge, first, end, offset) if offset else certain[first:end])

    # The last state stands for no offset: as much for it as against it.
    path = _best_path(np.stack([*rows, np.zeros(end - first)]), offsets)
    blocks = []
    start = 0
    for line in range(1, len(path) + 1):
        if line == len(path) or path[line] != path[start]:
            shortest = _WINDOW if path[start] == _NONE else SHORTEST_BLOCK
            if path[start] != 0 and line - start >= shortest:
                offset = 0 if path[start] == _NONE else int(path[start])
                blocks.append(Shift(first + start, first + line - 1, offset))
            start = line

    return blocks


def _weigh_offset(judge: Judge, first: int, end: int, offset: int) -> Floats:
    """Return the bounded logits of lines with the targets `offset` lines further on."""
    lines = np.arange(first, end)
    inside = (lines + offset >= 0) & (lines + offset < len(judge.targets.lengths))
    evidence = np.full(len(lines), -_CERTAIN)
    logits = judge.weigh(lines[inside], lines[inside] + offset)
    evidence[inside] = np.clip(logits, -_CERTAIN, _CERTAIN)
    return evidence


def _winning_offsets(judge: Judge, certain: Floats, first: int, end: int) -> list[int]:
    """Return the offsets that are best in some window of a region, by a sample of its lines."""
    pairs, winners = len(certain), set[int]()
    tried = [offset for offset in range(-LONGEST_SHIFT, LONGEST_SHIFT + 1) if offset]
    span = max(_WINDOW, (end - first) // 400)
    for start in range(first, end, span):
        lines = np.unique(np.linspace(start, min(start + span, end) - 1, _WINDOW).astype(np.int64))
        means = {0: float(certain[lines].mean())}
        if means[0] > 1:
            continue
        near = [lines[(lines + offset >= 0) & (lines + offset < pairs)] for offset in tried]
        i, j = (
            np.concatenate(near),
            np.concatenate([n + offset for n, offset in zip(near, tried, strict=True)]),
        )
        weighed = np.clip(judge.weigh(i, j), -_CERTAIN, _CERTAIN)
        for offset in tried:
            chosen = weighed[j - i == offset]
            if len(chosen) > len(lines) // 2:
                means[offset] = float(chosen.mean())

        best = max(means, key=means.__getitem__)
        if best and means[best] > 0 and means[best] > means[0] + 1:
            winners.add(best)

    return sorted(winners)


_NONE = 2**31  # state of lines that no offset explains


def _best_path(evidence: Floats, offsets: list[int]) -> Ints:
    """Return the offset of each line with the largest sum of evidence, where each change costs `_CHANGE`.

    Lines keep their order: to a smaller offset the path skips as many source lines, whose targets
    are missing. Skipped lines belong to a shifted block: the new one, or the old one where the new
    offset is 0. The last row of `evidence` belongs to `_NONE`.
    """
    states, lines = evidence.shape
    best = np.full((lines + 1, states), -np.inf)

    # Of each line and state: the line that the path came from, and its state.
    came = np.zeros((lines + 1, states, 2), np.int64)
    best[0] = [0.0 if offset == 0 else -_CHANGE for offset in (*offsets, _NONE)]
    named = [*offsets, _NONE]
    skips = [[0 if _NONE in (a, b) else max(0, a - b) for a in named] for b in named]  # to b from a
    for line in range(1, lines + 1):
        for state in range(states):
            value, origin = best[line - 1, state], (line - 1, state)
            for other in range(states):
                before = line - 1 - skips[state][other]
                if other != state and before >= 0 and best[before, other] - _CHANGE > value:
                    value, origin = best[before, other] - _CHANGE, (before, other)

            best[line, state] = value + evidence[state, line - 1]
            came[line, state] = origin
    path = np.zeros(lines, np.int64)
    line, state = lines, int(best[lines].argmax())
    while line > 0:
        before, other = map(int, came[line, state])
        path[line - 1] = named[state]
        path[before : line - 1] = named[state] or named[other]
        line, state = before, other
    return path


# Returns the log-probability, by piece, of each target given its source;
# NaN for a pair that the model cannot take.
ScorePairs = Callable[[Sequence[str], Sequence[str]], Floats]
# Share of shuffled pairs that a pair of the better half must beat, on average, before a
# model is believed. The better half, because a text may have many wrong pairs. With a model
# of the other direction the demo's text has 0.98.
LEAST_MODEL_SEPARATION = 0.99
# Quantile of shuffled pairs below which hardly any translation lies;
# higher than by links: a model knows more.
_LEVEL = 0.75
_SHUFFLED_PAIRS = 4_000  # shuffled pairs that are scored to see what no translation looks like
# Sources that are next shorter, among which another source is
# drawn: it fits wherever the own one fits.
_NEIGHBOURS = 40


class OtherSources:
    """Draws for each source another one of like length, so that length alone does not tell them apart."""

    def __init__(self, sources: Iterable[str]):
        self.sources = sorted(set(sources), key=lambda source: (len(source), source))
        self.lengths = np.array(list(map(len, self.sources)))

    def draw(self, sources: Sequence[str], random: np.random.Generator) -> list[str]:
        """Return another source for each."""
        places = np.searchsorted(self.lengths, list(map(len, sources)))
        places -= random.integers(0, _NEIGHBOURS, len(places))
        places = places.clip(0, len(self.lengths) - 1)

        others: list[str] = []
        for place, source in zip(places.tolist(), sources, strict=True):
            if self.sources[place] == source:
                place = (place or 2) - 1  # the one before it; of the first the one behind it
            others.append(self.sources[place])
        return others


class BlockScores(NamedTuple):
    """Features of the pairs of a block, by the scores of a model, and of some shuffled pairs: a row each."""

    real: Floats
    shuffled: Floats


def score_block(
    start: int,
    sources: Sequence[str],
    targets: Sequence[str],
    pairs: int,
    others: OtherSources,
    score: ScorePairs,
) -> BlockScores:
    """Score each target of a block with its own source and with another one.

    The block begins at pair `start` of so many `pairs`. Here and there a third source is scored
    against the second: two sources that both have nothing to do with the target.
    """
    # By its place alone, so that nothing depends on who scores the other blocks.
    random = np.random.default_rng((1, start))
    own, other = score(sources, targets), score(others.draw(sources, random), targets)
    every = max(1, pairs // _SHUFFLED_PAIRS)
    some = slice(-start % every, None, every)

    third = score(others.draw(sources[some], random), targets[some])

    real = np.stack([own - other, own], axis=1)
    return BlockScores(real, np.stack([third - other[some], third], axis=1))


def weigh_by_model(blocks: Iterable[BlockScores]) -> tuple[Floats, ShuffledFit | None]:
    """Return the logit of each pair being translations, NaN where it cannot be scored, and how it was learned.

    None without a pair that can be scored.
    """
    real, shuffled = zip(*blocks, strict=True)
    features, shuffled_features = np.concatenate(real), np.concatenate(shuffled)
    known = np.isfinite(features).all(axis=1)
    shuffled_known = np.isfinite(shuffled_features).all(axis=1)
    logits = np.full(len(features), np.nan)
    if not (known.any() and shuffled_known.any()):
        return logits, None
    fit = ShuffledFit(features[known], shuffled_features[shuffled_known], _LEVEL)
    logits[known] = fit.weigh(features[known])
    return logits, fit
