"""What a run will take, before it is begun: pieces, batches, updates, work, memory, time and disk."""

import shutil
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pellucid.data.batching import EncodedPairs
from pellucid.data.tokenizer import Tokenizer
from pellucid.model import ModelConfig
from pellucid.train.config import RunConfig
from pellucid.train.costs import (
    FLOAT_BYTES,
    MemoryEstimate,
    ParameterCounts,
    count_parameters,
    estimate_memory,
    training_flops,
)
from pellucid.train.data import read_data
from pellucid.train.distributed import ALONE
from pellucid.train.epoch_batches import EpochBatches
from pellucid.train.pairs import TrainingData
from pellucid.train.progress import EVALUATIONS
from pellucid.train.resources import free_memory
from pellucid.train.trial import TrialResult, try_updates

TRIAL_SECONDS = 5.0

MODELS_KEPT = 3
"""That a run leaves beside its checkpoints: best, last and average."""

LEAST_OCCURRENCES = 10
"""Times a piece should stand in the training text to be learned."""

_SPECIAL = 260
"""Pieces every vocabulary begins with, whatever the text: four marks and the bytes."""


@dataclass(frozen=True)
class RunPlan:
    """What is known of a run before its first step."""

    run: RunConfig
    stand_in: bool
    """Whether phrasebook pairs were counted and tried in the place of the run's own."""
    dev_pairs: int
    epoch: EpochBatches
    model: ModelConfig
    parameters: ParameterCounts
    memory: MemoryEstimate
    flops: float
    """Floating-point operations of an average update, as `training_flops` counts them."""
    trial: TrialResult | None
    """None where memory would not do, or did not."""
    learned: tuple[int, ...]
    """Pieces in the vocabulary, or in each of the two."""
    supported: int
    """Pieces that stand `LEAST_OCCURRENCES` times or more in the training text, in the smaller of two vocabularies."""
    missing_dev: tuple[str, ...]
    free_memory: int | None
    free_disk: int
    notes: tuple[str, ...]

    @property
    def updates_per_epoch(self) -> float:
        """Not always a whole number: batches of two epochs may meet in one update."""
        return len(self.epoch.order) / self.run.train.accumulate

    @property
    def steps(self) -> int | None:
        """Updates of the run; one that is given minutes has at most these, for evaluations take some of them."""
        c = self.run.train
        if c.steps is not None:
            return c.steps
        assert c.minutes is not None
        return max(1, round(60 * c.minutes / self.trial.seconds)) if self.trial else None

    @property
    def epochs(self) -> float | None:
        """How often each pair is seen."""
        return self.steps / self.updates_per_epoch if self.steps is not None else None

    @property
    def seconds(self) -> float | None:
        """All updates together, evaluations and saving not counted."""
        return self.steps * self.trial.seconds if self.steps is not None and self.trial else None

    @property
    def checkpoints(self) -> int:
        """That stand on the disk at the end."""
        return min(self.run.train.keep, self.saved) if self.saved is not None else self.run.train.keep

    @property
    def saved(self) -> int | None:
        """Checkpoints the whole run writes, the last step's included."""
        c = self.run.train
        every = c.save_every or c.evaluate_every
        if self.steps is None:
            return None
        return min(EVALUATIONS, self.steps) if every is None else ceil(self.steps / every)

    @property
    def model_bytes(self) -> int:
        """Of a model on the disk."""
        return FLOAT_BYTES * self.parameters.total

    @property
    def checkpoint_bytes(self) -> int:
        """Of a checkpoint: the model and Adam's two means."""
        return 3 * self.model_bytes

    @property
    def disk(self) -> int:
        """Most bytes the run takes: a checkpoint is whole before an older one goes."""
        return (self.checkpoints + 1) * self.checkpoint_bytes + MODELS_KEPT * self.model_bytes


def plan_run(
    run: RunConfig, stand_in: TrainingData | None = None, seconds: float = TRIAL_SECONDS, updates: int | None = None
) -> RunPlan:
    """Read the data of a run, learn its vocabulary, count, and try a few updates; nothing is written.

    `stand_in` takes the place of the run's own data. The trial lasts about `seconds`, or just so many `updates`.
    Raises ValueError for data that is not there or cannot be trained on.
    """
    missing_dev = () if stand_in else missing_files(run.data.dev_source, run.data.dev_target, run.data.dev)
    if missing_dev:
        run = replace(run, data=replace(run.data, dev_source=None, dev_target=None, dev=None))
    data = stand_in or read_data(require_training_files(run))
    epoch = EpochBatches.first_of_run(data.encoded, run)
    model = run.model_config(data.tokenizer)
    if stand_in and run.model.start is None:  # its text has fewer pieces, and the model is to be as large as it will be
        joint, asked = run.tokenizer.joint, run.tokenizer.vocabulary
        model = run.model.config(asked, asked, joint)
    counted = count_parameters(model)
    rows, sources, targets = (int(n) for n in epoch.shapes[epoch.largest])
    passes = run.optim.passes
    needed, free = estimate_memory(model, counted.total, passes * rows, sources, targets), free_memory(ALONE.device)
    trial = None
    if free is None or needed.total < free:
        with suppress(MemoryError):
            trial = try_updates(run, model, epoch, seconds, updates)
    return RunPlan(
        run=run,
        stand_in=stand_in is not None,
        dev_pairs=len(data.dev),
        epoch=epoch,
        model=model,
        parameters=counted,
        memory=needed,
        flops=passes * flops_of_epoch(model, epoch) * run.train.accumulate / len(epoch.order),
        trial=trial,
        learned=vocabulary_sizes(data.tokenizer),
        supported=count_supported_pieces(data.encoded, data.tokenizer),
        missing_dev=missing_dev,
        free_memory=free,
        free_disk=shutil.disk_usage(Path.cwd()).free,
        notes=data.notes,
    )


def missing_files(*names: str | None) -> tuple[str, ...]:
    """The files that are named and not there."""
    return tuple(name for name in names if name is not None and not Path(name).is_file())


def require_training_files(run: RunConfig) -> RunConfig:
    """The same; ValueError, naming every file, if there is nothing to train on."""
    gone = missing_files(*(name for corpus in run.data.corpora for name in corpus.files))
    if gone and run.data.shards is None:
        raise ValueError(
            f"{', '.join(gone)}: no such file; to plan without the data, on phrasebook pairs in its place, "
            "say --stand-in 20000"
        )
    return run


def flops_of_epoch(c: ModelConfig, epoch: EpochBatches) -> float:
    """The work of every pair, each pair of lengths reckoned once."""
    kinds, times = np.unique(epoch.lengths, axis=1, return_counts=True)
    return sum(int(n) * training_flops(c, int(s), int(t)) for s, t, n in zip(*kinds, times, strict=True))


def vocabulary_sizes(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Pieces of the one vocabulary, or of the two."""
    if tokenizer.config.joint:
        return (tokenizer.source_vocabulary,)
    return tokenizer.source_vocabulary, tokenizer.target_vocabulary


def count_supported_pieces(encoded: EncodedPairs, tokenizer: Tokenizer) -> int:
    """How many pieces stand often enough in the text, the special ones counted."""
    sides = [
        count_pieces(encoded.sources.ids, tokenizer.source_vocabulary),
        count_pieces(encoded.targets.ids, tokenizer.target_vocabulary),
    ]
    if tokenizer.config.joint:
        sides = [sides[0] + sides[1]]
    return _SPECIAL + min(int((side[_SPECIAL:] >= LEAST_OCCURRENCES).sum()) for side in sides)


def count_pieces(ids: NDArray[np.integer], vocabulary: int, block: int = 2**22) -> NDArray[np.int64]:
    """How often each piece stands there, in bounded memory: the ids may lie in a file."""
    blocks = (ids[first : first + block] for first in range(0, len(ids), block))
    return sum((np.bincount(each, minlength=vocabulary) for each in blocks), np.zeros(vocabulary, dtype=np.int64))
