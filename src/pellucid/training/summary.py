"""Summary of a finished run in words: how good its model is, and whether longer training would help."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pellucid.training.config import TrainConfig

# From which BLEU on a translation is called so, after Google's table for its own systems
# (cloud.google.com/translate/docs/advanced/automl-evaluate, "Interpretation"). Texts differ, so
# these are no more than words for a first impression.
_USABILITY = (
    (0.0, "not usable yet"),
    (10.0, "the meaning is seldom clear"),
    (20.0, "the meaning is clear, with many errors"),
    (30.0, "understandable, to be corrected by hand"),
    (40.0, "good"),
    (50.0, "very good"),
)
_USABLE_BLEU = 10.0  # BLEU below which a run is too short if it was too short to show a trend
_CLEAR_BLEU = 30.0  # BLEU from which on a model is not told to train on only because its loss fell
_FALLING = 0.99  # the loss still falls if the last third of a run brings it below this factor
_RISING = 1.02  # it rises again if it ends above the lowest one by this factor
_BEGUN = 0.8  # a model whose loss never fell below this factor has learned next to nothing
_LONGER = 4  # times as long a run is proposed that was too short
_USEFUL_MINUTES = 20  # fewest minutes that are proposed


@dataclass(frozen=True)
class RunSummary:
    """Judgement on a finished run, and the length to train on to, as options of `train`."""

    sentence: str
    longer: tuple[str, ...] = ()  # empty where longer training would not help


def summarize_run(
    train: TrainConfig, bleu: float, sentences: int, log: Sequence[Mapping[str, Any]]
) -> RunSummary:
    """Return what became of a run: its BLEU in words, and what would make it better.

    The best model has this `bleu` on so many `sentences` kept apart; `log` has the run's reports.

    >>> log = [{"step": 10 * n, "dev_loss": 5 / n} for n in range(1, 10)]
    >>> summarize_run(TrainConfig(minutes=1), 1.9, 100, log).sentence
    'BLEU 1.9 on 100 sentences kept apart: not usable yet. The loss was still falling, so longer \
training will help.'
    """
    words = [name for lowest, name in _USABILITY if bleu >= lowest][-1]
    judgement = f"BLEU {bleu:.1f} on {sentences:,} sentences kept apart: {words}."
    trend = _find_trend(log)

    if trend == "rising":
        advice = (
            "The loss on them had begun to rise: more text will help, and longer training will not."
        )
        return RunSummary(f"{judgement} {advice}")
    if trend == "falling" and bleu < _CLEAR_BLEU:
        advice = "The loss was still falling, so longer training will help."
        return RunSummary(f"{judgement} {advice}", _lengthen(train))
    if not trend and bleu < _USABLE_BLEU:
        advice = "So short a run learns little, and longer training will help."
        return RunSummary(f"{judgement} {advice}", _lengthen(train))
    if trend == "hardly begun":
        advice = "The model has hardly begun to learn, so longer training will help."
        return RunSummary(f"{judgement} {advice}", _lengthen(train))
    if trend == "level" and bleu < _CLEAR_BLEU:
        return RunSummary(f"{judgement} The loss hardly fell at the end: more text will help most.")
    return RunSummary(judgement)


def _find_trend(log: Sequence[Mapping[str, Any]]) -> str:
    """Return whether the dev loss of a run was "falling", "level" or "rising" at its end.

    Or the model has "hardly begun" to learn. Empty where there are too few evaluations to tell.
    """
    evaluations = []
    for row in log:
        if "dev_loss" in row and "model" not in row:
            evaluations.append((row["step"], row["dev_loss"]))
    if len(evaluations) < 3:
        return ""

    last_step, last = evaluations[-1]
    earlier = [loss for step, loss in evaluations if step <= last_step * 2 / 3]
    if not earlier:
        return ""
    if last < _FALLING * min(earlier):
        return "falling"
    lowest = min(loss for _, loss in evaluations)
    if lowest > _BEGUN * evaluations[0][1]:
        return "hardly begun"
    return "rising" if last > _RISING * lowest else "level"


def _lengthen(train: TrainConfig) -> tuple[str, str]:
    """Return a length that is worth trying after a run that was too short, as an option."""
    if train.minutes is not None:
        return "--minutes", f"{max(_USEFUL_MINUTES, round(_LONGER * train.minutes))}"
    assert train.steps is not None
    return "--steps", f"{_LONGER * train.steps}"
