"""Settings for two files and nothing else: chosen from the number of pairs, each with its reason."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pellucid.model import PRESETS
from pellucid.train.config import TrainConfig


@dataclass(frozen=True)
class ChosenSettings:
    """The tables of a run file, and a sentence for each choice made."""

    tables: dict[str, Any]
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class CorpusScale:
    """What suits corpora of up to this many pairs."""

    pairs: float
    size: str
    dropout: float
    vocabulary: int
    batch_tokens: int


SCALES = (
    CorpusScale(20_000, "tiny", 0.3, 4_000, 1024),
    CorpusScale(60_000, "tiny", 0.3, 8_000, 1024),
    CorpusScale(500_000, "small", 0.2, 8_000, 4096),
    CorpusScale(5_000_000, "base", 0.1, 16_000, 4096),
    CorpusScale(float("inf"), "big", 0.1, 32_000, 4096),
)
"""Little text wants a small model, small batches, and to be kept from learning by heart (benchmarks/results)."""

DROPOUT_RISE_EPOCHS = 20.0
"""Epochs until all of the dropout is there: in a short run, which sees little twice, it would only be in the way."""

PEAK_AND_WARMUP = {"tiny": (5e-3, 600), "small": (2e-3, 1000), "base": (1e-3, 4000), "big": (5e-4, 4000)}
"""Learning rate and warm-up: the wider the model, the smaller the step it bears."""

FINE_TUNING_DIVISOR = 10
"""A model that has learned already takes steps so much smaller, or it soon forgets what it knows."""

DEFAULT_MINUTES = 30.0

SHORT_MINUTES = 10.0
"""Minutes below which translating all dev sentences for the scores takes time that training has more use for."""

DEV_SENTENCES = TrainConfig.dev_sentences


def choose_settings(
    data: dict[str, str], pairs: int, size: str | None = None, steps: int | None = None, minutes: float | None = None
) -> ChosenSettings:
    """Settings for training on `pairs` from the files in `data`; what is given is kept, the rest follows from them."""
    scale = next(scale for scale in SCALES if pairs <= scale.pairs)
    reasons = []
    if size is None:
        size = scale.size
        reasons.append(f"size {size}: enough for the {pairs:,} pairs left to train on (--size chooses another)")
    reasons += [
        f"dropout rising to {scale.dropout} in {DROPOUT_RISE_EPOCHS:.0f} epochs: {pairs:,} pairs "
        "seen so often are learned by heart",
        f"batches of {scale.batch_tokens:,} target positions: the less text, the more and the smaller the updates",
    ]
    reasons.append(f"vocabulary {scale.vocabulary:,}: pieces this much text shows often enough to learn")
    peak, warmup = PEAK_AND_WARMUP.get(size, PEAK_AND_WARMUP["base"])
    train, more = choose_length(steps, minutes)
    reasons += [*more, f"learning rate up to {peak:g} in {warmup} updates, then straight down to zero at the end"]
    tables = {
        "data": data,
        "tokenizer": {"vocabulary": scale.vocabulary},
        "model": {"size": size, "dropout": scale.dropout},
        "train": {**train, "batch_tokens": scale.batch_tokens},
        "optim": {"peak": peak, "warmup": warmup, "schedule": "linear", "dropout_rise": DROPOUT_RISE_EPOCHS},
    }
    return ChosenSettings(tables, tuple(reasons))


def choose_fine_tuning_settings(
    data: dict[str, str],
    model: dict[str, Any],
    known: Mapping[str, Any],
    steps: int | None = None,
    minutes: float | None = None,
) -> ChosenSettings:
    """The same for a run that starts from a model: `model` is what is given of it, `known` what it says itself."""
    size = next((name for name, sizes in PRESETS.items() if known["d_model"] <= sizes["d_model"]), "big")
    peak, warmup = PEAK_AND_WARMUP[size][0] / FINE_TUNING_DIVISOR, PEAK_AND_WARMUP[size][1]
    train, reasons = choose_length(steps, minutes)
    rate = (
        f"learning rate up to {peak:g}, {FINE_TUNING_DIVISOR} times less than a new model of this "
        "width gets, then straight down "
        "to zero: larger steps learn faster and forget more (--set optim.peak=...)"
    )
    optim = {"peak": peak, "warmup": warmup, "schedule": "linear"}
    return ChosenSettings({"data": data, "model": model, "train": train, "optim": optim}, (*reasons, rate))


def choose_length(steps: int | None, minutes: float | None) -> tuple[dict[str, Any], list[str]]:
    """How long to train, and why, if nobody said."""
    if steps is None and minutes is None:
        why = f"{DEFAULT_MINUTES:.0f} minutes: a first result (--minutes or --steps chooses; longer is better)"
        return {"minutes": DEFAULT_MINUTES}, [why]
    given = {key: value for key, value in (("steps", steps), ("minutes", minutes)) if value is not None}
    if minutes is None or minutes >= SHORT_MINUTES:
        return given, []
    few = max(100, round(DEV_SENTENCES * minutes / SHORT_MINUTES))
    why = f"{few} dev sentences translated at each look: {DEV_SENTENCES} would take a good part of {minutes:g} minutes"
    return {**given, "dev_sentences": few}, [why]
