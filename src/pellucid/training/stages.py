"""Stages of a run: which corpora are shown, with noise or without, and in which directions, at each part of it."""

from pellucid.data.pair_noise import PairNoise
from pellucid.data.stream import Stage
from pellucid.model import Transformer
from pellucid.training.config import RunConfig
from pellucid.training.data import TrainingData


def can_reverse(run: RunConfig, model: Transformer) -> bool:
    """Whether pairs can also be translated backwards: one table for both languages, and sources of one sentence."""
    return model.config.tie == "all" and not run.data.context and not run.data.directions


def make_noise(run: RunConfig, data: TrainingData) -> PairNoise | None:
    """Return what plants the noise of a run into its pairs, or None for a run without noise."""
    if not any(run.data.noise.shares.values()):
        return None
    languages = data.languages or {}
    return PairNoise(
        run.data.noise, data.tokenizer, run.data.max_pieces, languages.get("source"), languages.get("target")
    )


def stage_at(progress: float, run: RunConfig, reversible: bool) -> Stage:
    """Return a run's stage when the share `progress` of it is over; `reversible` is the answer of `can_reverse`."""
    noise = run.data.noise
    return Stage(
        corpora=tuple(corpus.from_ <= progress < corpus.until for corpus in run.data.corpora),
        noisy=any(noise.shares.values()) and noise.from_ <= progress < noise.until,
        both_directions=reversible and progress < run.train.both_directions,
    )


def describe_change(before: Stage, after: Stage, names: list[str]) -> str:
    """Return what changes from one stage to the next, as the end of a sentence; `names` are the corpora's names.

    >>> describe_change(Stage((True, False)), Stage((False, True), both_directions=True), ["web", "news"])
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
