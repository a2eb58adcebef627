"""Trial of a few seconds of real updates on real batches: how long one takes on this machine, and how sure that is."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import cycle

import numpy as np
import torch

from pellucid.data.batching import collate
from pellucid.model import ModelConfig, Transformer
from pellucid.processor import ProcessorShare
from pellucid.train.config import RunConfig
from pellucid.train.distributed import ALONE
from pellucid.train.epoch_batches import EpochBatches
from pellucid.train.optim import learning_rate, make_adam
from pellucid.train.process import tune_memory
from pellucid.train.resources import peak_memory, reset_peak_memory
from pellucid.train.update import compile_layers, update_weights

WARM_UP_SHARE = 0.2
"""Share of the trial's seconds that passes before updates are counted."""

FEWEST_UPDATES, LONGEST_FACTOR = 4, 6
"""Updates that are wanted, unless they take so many times the seconds that were asked for."""


@dataclass(frozen=True)
class TrialResult:
    """Times, memory and loss that a trial measured."""

    updates: int
    batches: int
    """Batches in each update: fewer than a run accumulates, where a whole update would take too long."""
    seconds: float
    """Median time of an update, with the run's number of batches and their average number of target positions."""
    spread: float
    """Half the distance between the quartiles, as a share of the median."""
    loss: float
    """Loss of the last update; finite, if the settings can train at all."""
    halved: int
    """Times that a batch that did not fit in memory was split in two."""
    peak_memory: int | None
    """Peak memory of this process in bytes, on a GPU that of its tensors; None if the system does not say."""
    device: str
    """Device that the updates ran on: "cpu", or a GPU."""
    threads: int
    share: float | None
    """Share of the time in which its threads could run that they did run (other programs had the rest), if known."""


def try_updates(
    run: RunConfig, model_config: ModelConfig, epoch: EpochBatches, seconds: float, updates: int | None = None
) -> TrialResult:
    """Train for about `seconds` on the batches of an epoch, or for exactly so many `updates`; nothing is kept of it."""
    tune_memory()
    reset_peak_memory(ALONE.device)
    torch.manual_seed(run.seed)
    model = Transformer(model_config).train().to(ALONE.device)
    if run.train.compile:
        compile_layers(model)
    optimizer = make_adam(model, run.optim)
    upcoming = cycle(range(len(epoch.order)))
    step, loss, halved = 0, 0.0, 0

    def time_update(indices: Iterable[int]) -> float:
        nonlocal step, loss, halved
        collated = [collate(epoch.encoded, epoch.order[index]) for index in indices]
        rate, started = learning_rate(step, 0.0, run.optim), time.monotonic()
        result = update_weights(model, optimizer, collated, rate, run.optim, run.train.precision)
        step, loss, halved = step + 1, result.loss, halved + result.halved
        return time.monotonic() - started

    # The largest batch first: if it does not fit in memory, that shows here. This update and the next are not counted:
    # with train.compile the layers are compiled in them.
    warm_up_seconds = time_update([epoch.largest])
    last_seconds = time_update([next(upcoming)])
    while (warm_up_seconds := warm_up_seconds + last_seconds) < WARM_UP_SHARE * seconds:
        last_seconds = time_update([next(upcoming)])
    batches_per_update = max(1, min(run.train.accumulate, int(seconds / FEWEST_UPDATES / last_seconds)))
    # Target positions of each batch, padding included.
    positions = epoch.shapes[:, 0] * epoch.shapes[:, 2]
    seconds_per_position, spent, processor = [], 0.0, ProcessorShare()
    while not is_enough(len(seconds_per_position), spent, seconds, updates):
        batches = [next(upcoming) for _ in range(batches_per_update)]
        spent += (update_seconds := time_update(batches))
        # By position, for batches differ: the median is scaled to the average batch below.
        seconds_per_position.append(update_seconds / positions[batches].sum())
    low, median, high = np.percentile(seconds_per_position, [25, 50, 75])
    return TrialResult(
        updates=len(seconds_per_position),
        batches=batches_per_update,
        seconds=float(median * positions.mean() * run.train.accumulate),
        spread=float((high - low) / 2 / median),
        loss=loss,
        halved=halved,
        peak_memory=peak_memory(ALONE.device),
        device=str(ALONE.device),
        threads=torch.get_num_threads(),
        share=processor.measure(),
    )


def is_enough(updates_made: int, spent: float, seconds: float, updates: int | None) -> bool:
    """Whether the trial may end."""
    if updates is not None:
        return updates_made >= updates
    # A few slow updates must do if the usual number would take far too long.
    return updates_made >= 1 and spent >= (seconds if updates_made >= FEWEST_UPDATES else LONGEST_FACTOR * seconds)
