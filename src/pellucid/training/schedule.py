"""The schedule of a run: its learning rate, its dropout, its stages, and when evaluations are due.

All of it follows from the number of updates and from the share of the run that is over.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypedDict

from pellucid.data.pair_noise import PairNoise
from pellucid.data.pair_similar import SimilarPairs
from pellucid.data.pair_terms import PairTerms
from pellucid.data.stream import Stage
from pellucid.model import Transformer
from pellucid.training.checkpoint import RunCounts
from pellucid.training.config import OptimConfig, RunConfig, TrainConfig
from pellucid.training.data import TrainingData

EVALUATIONS = 12  # evaluations of a run that does not say how often to evaluate

# Largest share of the time so far that evaluations take in a run in minutes, except for its first
# and its last.
_EVALUATION_SHARE = 0.2
# Seconds of a run in minutes before its first evaluation: an untrained model also translates
# slowest.
_FIRST_EVALUATION_SECONDS = 30.0


def run_progress(counts: RunCounts, c: TrainConfig) -> float:
    """Return the share of the run that is over: of its updates, or of its minutes."""
    if c.steps is not None:
        return min(1.0, counts.step / c.steps)
    assert c.minutes is not None
    return min(1.0, counts.seconds / (60 * c.minutes))


def is_over(counts: RunCounts, c: TrainConfig) -> bool:
    """Whether a run has reached its end or has run out of patience."""
    if run_progress(counts, c) >= 1.0:
        return True
    return c.patience is not None and counts.stale_evaluations >= c.patience


def learning_rate(step: int, progress: float, c: OptimConfig) -> float:
    """Return the learning rate of update number `step`, counted from 0.

    The share `progress` (0 to 1) of the run is over then.

    >>> c = OptimConfig(peak=1.0, warmup=4)
    >>> [learning_rate(step, 0.0, c) for step in (0, 1, 3, 15)]
    [0.25, 0.5, 1.0, 0.5]
    """
    warmups = (step + 1) / c.warmup
    return c.peak * SCHEDULES[c.schedule].factor(warmups, progress)


def rise_and_fall_as_root(warmups: float, progress: float) -> float:
    """Return the share of the peak after so many warm-ups: a straight rise, then 1 / sqrt(step).

    That is the paper's formula with its peak named instead of implied (peak = (d_model *
    warmup)^-0.5 there).
    """
    # The two curves cross at the peak, where both are 1.
    return min(warmups, warmups**-0.5)


def rise_and_fall_linearly(warmups: float, progress: float) -> float:
    """Return the share of the peak: a straight rise, and a straight fall to zero at the end."""
    # A short run would end before its warm-up does: the rise takes a fifth of the run at most.
    rise = min(max(warmups, progress / 0.2), 1.0)
    # By progress and not by steps, for a run that is given minutes does not know its number of
    # steps.
    return rise * max(0.0, 1.0 - progress)


@dataclass(frozen=True)
class Schedule:
    """How the learning rate changes: its share of the peak after so many warm-ups and so much of the run."""

    factor: Callable[[float, float], float]
    shortens_warmup: bool = False  # where the run would end before its warm-up does


SCHEDULES = {
    "inverse_sqrt": Schedule(rise_and_fall_as_root),
    "linear": Schedule(rise_and_fall_linearly, shortens_warmup=True),
}


def dropout_factor(epochs: float, c: OptimConfig) -> float:
    """Return the share (0 to 1) of the model's dropout after so many epochs: a straight rise.

    >>> [dropout_factor(epochs, OptimConfig(dropout_rise=4.0)) for epochs in (0.0, 1.0, 4.0, 9.0)]
    [0.0, 0.25, 1.0, 1.0]
    """
    return min(epochs / c.dropout_rise, 1.0) if c.dropout_rise else 1.0


def is_due(every: int | None, counts: RunCounts, before: float, now: float) -> bool:
    """Whether `every` updates have gone by, or, if that is None, another twelfth of the run.

    It is always due at the end of the run.

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
    """Whether a run in minutes has time for an evaluation that is due, or needs it for updates.

    >>> c = TrainConfig(minutes=1)
    >>> is_worthwhile(RunCounts(seconds=25), c), is_worthwhile(RunCounts(seconds=35), c)
    (False, True)
    >>> counts = [RunCounts(seconds=50, evaluations=1, evaluation_seconds=n) for n in (4, 6)]
    >>> [is_worthwhile(count, c) for count in counts]
    [True, False]
    """
    if c.minutes is None or c.evaluate_every is not None:
        return True
    if not counts.evaluations:
        return counts.seconds >= _FIRST_EVALUATION_SECONDS
    average = counts.evaluation_seconds / counts.evaluations
    return counts.evaluation_seconds + average <= _EVALUATION_SHARE * counts.seconds


@dataclass(frozen=True)
class StagePlan:
    """Parts of a run in which each corpus, noise and the other direction are shown.

    A part is two shares of the run, from 0 to 1: where it begins, and where it is over.
    """

    corpora: tuple[tuple[float, float], ...]
    noise: tuple[float, float] = (0.0, 0.0)
    both_directions: tuple[float, float] = (0.0, 0.0)

    def stage_at(self, progress: float) -> Stage:
        """Return the stage when the share `progress` of the run is over.

        >>> StagePlan(corpora=((0.0, 0.5), (0.2, 1.0)), noise=(0.5, 1.0)).stage_at(0.5)
        Stage(corpora=(False, True), noisy=True, both_directions=False)
        """
        corpora = tuple([begin <= progress < end for begin, end in self.corpora])
        noisy = self.noise[0] <= progress < self.noise[1]
        both_directions = self.both_directions[0] <= progress < self.both_directions[1]
        return Stage(corpora, noisy, both_directions)


def plan_stages(run: RunConfig, model: Transformer) -> StagePlan:
    """Return the parts of a run that its settings ask for, as far as the model can learn them."""
    corpora = tuple((corpus.from_, corpus.until) for corpus in run.data.corpora)
    noise, both_directions = (0.0, 0.0), (0.0, 0.0)
    if any(run.data.noise.shares.values()):
        noise = run.data.noise.from_, run.data.noise.until
    if can_reverse(run, model):
        both_directions = 0.0, run.train.both_directions
    return StagePlan(corpora, noise, both_directions)


def can_reverse(run: RunConfig, model: Transformer) -> bool:
    """Whether pairs can also be translated backwards.

    That takes one table of embeddings for both languages, and sources of one sentence.
    """
    return model.config.tie == "all" and not run.data.context and not run.data.directions


class Planters(TypedDict):
    """Planters that a stream uses on its pairs, by the names of its arguments."""

    noise: PairNoise | None
    terms: PairTerms | None
    similar: SimilarPairs | None


def make_noise(run: RunConfig, data: TrainingData) -> PairNoise | None:
    """Return what plants the noise of a run into its pairs, or None for a run without noise."""
    if not any(run.data.noise.shares.values()):
        return None
    languages = data.languages or {}
    source, target = languages.get("source"), languages.get("target")
    return PairNoise(run.data.noise, data.tokenizer, run.data.max_pieces, source, target)


def make_planters(run: RunConfig, data: TrainingData) -> Planters:
    """Return all that changes the pairs of a run on their way into batches."""
    return {
        "noise": make_noise(run, data),
        "terms": make_terms(run, data),
        "similar": make_similar(run, data),
    }


def make_similar(run: RunConfig, data: TrainingData) -> SimilarPairs | None:
    """Return what puts similar translations before the sources of a run, or None for a run without.

    An initial model whose vocabulary has no mark learns none.
    """
    if not run.data.memory or data.tokenizer.memory_mark is None:
        return None
    return SimilarPairs(data.encoded, data.tokenizer, run.data.memory, run.data.max_pieces)


def make_terms(run: RunConfig, data: TrainingData) -> PairTerms | None:
    """Return what marks terms in the pairs of a run, or None for a run without.

    An initial model whose vocabulary has no marks learns none.
    """
    if not run.data.terms or data.tokenizer.term_marks is None:
        return None
    return PairTerms(data.encoded, data.tokenizer, run.data.terms, run.data.max_pieces)


def describe_change(before: Stage, after: Stage, names: list[str]) -> str:
    """Return what changes from one stage to the next, as the end of a sentence.

    `names` are the corpora's names.

    >>> after = Stage((False, True), both_directions=True)
    >>> describe_change(Stage((True, False)), after, ["web", "news"])
    'without web, with news, in both directions'
    """
    changes = []
    for name, was_shown, is_shown in zip(names, before.corpora, after.corpora, strict=True):
        if was_shown != is_shown:
            changes.append(f"{'with' if is_shown else 'without'} {name}")
    if before.noisy != after.noisy:
        changes.append("with noise" if after.noisy else "without noise")
    if before.both_directions != after.both_directions:
        changes.append("in both directions" if after.both_directions else "in one direction")
    return ", ".join(changes)
