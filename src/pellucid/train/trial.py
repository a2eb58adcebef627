"""A few seconds of real updates on real batches: how long one takes on this machine, and how sure that is."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import cycle

import numpy as np
import torch

from pellucid.data.batching import collate
from pellucid.model import ModelConfig, Transformer
from pellucid.train.config import RunConfig
from pellucid.train.distributed import ALONE
from pellucid.train.epoch_batches import EpochBatches
from pellucid.train.optim import learning_rate, make_adam
from pellucid.train.process import tune_memory
from pellucid.train.resources import peak_memory, reset_peak_memory
from pellucid.train.update import compile_layers, update_weights

WARM_UP_SHARE = 0.2
"""Share of the trial's seconds that goes by before it counts."""

FEWEST_UPDATES, LONGEST_FACTOR = 4, 6
"""Updates that are wanted, unless they take so many times the seconds that were asked for."""


@dataclass(frozen=True)
class TrialResult:
    """What was measured."""

    updates: int
    batches: int
    """Batches that each of them had: fewer than a run accumulates, where a whole update would take too long."""
    seconds: float
    """The median update, at the run's number of batches and their average number of target positions."""
    spread: float
    """Half the distance between the quartiles, as a share of the median."""
    loss: float
    """Of the last update: a number, if the settings can train at all."""
    halved: int
    """How often a batch that did not fit in memory was split in two."""
    peak_memory: int | None
    """Bytes this process held at most, everything counted; on a GPU those of its tensors; None if nobody says."""
    device: str
    """What the updates were tried on: "cpu", or a GPU."""
    threads: int
    share: float
    """Of its threads' time that this process had; the rest, other programs had or nobody used."""


def try_updates(
    run: RunConfig, model_config: ModelConfig, epoch: EpochBatches, seconds: float, updates: int | None = None
) -> TrialResult:
    """Train for about `seconds` on the batches of an epoch, or for just so many `updates`; nothing is kept of it.

    The first update is of the largest batch, so that a batch that does not fit the memory is found here. It and the
    next are not counted: with train.compile the layers are fused within them.
    """
    tune_memory()
    reset_peak_memory(ALONE.device)
    torch.manual_seed(run.seed)
    model = Transformer(model_config).train().to(ALONE.device)
    if run.train.compile:
        compile_layers(model)
    optimizer = make_adam(model, run.optim)
    upcoming = cycle(range(len(epoch.order)))
    step, loss, halved = 0, 0.0, 0

    def timed(batches: Iterable[int]) -> float:
        nonlocal step, loss, halved
        parts = [collate(epoch.encoded, epoch.order[batch]) for batch in batches]
        rate, started = learning_rate(step, 0.0, run.optim), time.monotonic()
        done = update_weights(model, optimizer, parts, rate, run.optim, run.train.precision)
        step, loss, halved = step + 1, done.loss, halved + done.halved
        return time.monotonic() - started

    warm = timed([epoch.largest])
    one = timed([next(upcoming)])
    while (warm := warm + one) < WARM_UP_SHARE * seconds:
        one = timed([next(upcoming)])
    together = max(1, min(run.train.accumulate, int(seconds / FEWEST_UPDATES / one)))
    rooms = epoch.shapes[:, 0] * epoch.shapes[:, 2]
    paces, spent, processor = [], 0.0, time.process_time()
    while not is_enough(len(paces), spent, seconds, updates):
        batches = [next(upcoming) for _ in range(together)]
        spent += (took := timed(batches))
        paces.append(took / rooms[batches].sum())
    processor = time.process_time() - processor
    low, median, high = np.percentile(paces, [25, 50, 75])
    return TrialResult(
        updates=len(paces),
        batches=together,
        seconds=float(median * rooms.mean() * run.train.accumulate),
        spread=float((high - low) / 2 / median),
        loss=loss,
        halved=halved,
        peak_memory=peak_memory(ALONE.device),
        device=str(ALONE.device),
        threads=torch.get_num_threads(),
        share=processor / spent / torch.get_num_threads(),
    )


def is_enough(done: int, spent: float, seconds: float, updates: int | None) -> bool:
    """Whether the trial may end."""
    if updates is not None:
        return done >= updates
    return done >= 1 and spent >= (seconds if done >= FEWEST_UPDATES else LONGEST_FACTOR * seconds)
