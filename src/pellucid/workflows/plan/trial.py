"""Trial of a few seconds of real updates on the batches of an epoch: how long one takes here, and how sure that is."""

import os
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from pellucid.cpu import ProcessorShare
from pellucid.data.batching import EncodedPairs, collate
from pellucid.data.stream import Stream
from pellucid.model import ModelConfig, Transformer
from pellucid.training.config import RunConfig
from pellucid.training.distributed import ALONE
from pellucid.training.fused.choice import choose_kernels
from pellucid.training.optimizer import make_optimizer
from pellucid.training.process import tune_memory
from pellucid.training.schedule import learning_rate
from pellucid.training.update import update_within_memory


@dataclass(frozen=True)
class EpochBatches:
    """Batches of pairs, and the rectangle of each: its rows, source positions and target positions."""

    encoded: EncodedPairs
    order: list[NDArray[np.integer]]
    shapes: NDArray[np.int64]
    lengths: NDArray[np.int64]  # source and target tokens of each pair seen, EOS included: two rows

    @classmethod
    def first_of_run(cls, encoded: EncodedPairs, batch_tokens: int, seed: int) -> "EpochBatches":
        """Return the batches of the first epoch of a run, just as its stream makes them."""
        sources, targets = encoded.sources.lengths, encoded.targets.lengths
        order = Stream(encoded, batch_tokens, seed).list_epoch()
        shapes = [(len(batch), sources[batch].max(), targets[batch].max()) for batch in order]
        # A pair counts as often as the epoch shows it, which the weights of corpora decide.
        indices = np.concatenate(order)
        lengths = np.stack([sources[indices], targets[indices]])
        return cls(encoded, order, np.array(shapes, dtype=np.int64), lengths.astype(np.int64))

    @property
    def pairs(self) -> int:
        """Number of pairs that the epoch shows; weights of corpora may repeat some and leave out others."""
        return self.lengths.shape[1]

    @property
    def source_pieces(self) -> int:
        """Source tokens without padding."""
        return int(self.lengths[0].sum())

    @property
    def target_pieces(self) -> int:
        """Target tokens without padding."""
        return int(self.lengths[1].sum())

    @property
    def source_positions(self) -> int:
        """Source positions with padding."""
        return int((self.shapes[:, 0] * self.shapes[:, 1]).sum())

    @property
    def target_positions(self) -> int:
        """Target positions with padding."""
        return int((self.shapes[:, 0] * self.shapes[:, 2]).sum())

    @property
    def largest(self) -> int:
        """Index of the batch with the most positions on both sides together."""
        rows, sources, targets = self.shapes.T
        return int((rows * (sources + targets)).argmax())


_WARM_UP_SHARE = 0.2  # share of the trial's seconds that passes before updates are counted
# Updates that are wanted, unless they take so many times the seconds that were asked for.
FEWEST_UPDATES, LONGEST_FACTOR = 4, 6


@dataclass(frozen=True)
class TrialResult:
    """Times, memory and loss that a trial measured."""

    updates: int
    # Batches in each update: fewer than a run accumulates, where
    # a whole update would take too long.
    batches: int
    # Median time of an update, with the run's number of batches and
    # their average number of target positions.
    seconds: float
    spread: float  # half the distance between the quartiles, as a share of the median
    loss: float  # loss of the last update; finite, if the settings can train at all
    halved: int  # times that a batch that did not fit in memory was split in two
    # Peak memory of this process in bytes, on a GPU the memory of its
    # tensors; None if the system does not say.
    peak_memory: int | None
    device: str  # device that the updates ran on: "cpu", or a GPU
    threads: int
    # Share of the time in which its threads could run that they did run
    # (other programs had the rest), if known.
    share: float | None


def try_updates(
    run: RunConfig, model_config: ModelConfig, epoch: EpochBatches, seconds: float
) -> TrialResult:
    """Train for about `seconds`, one update at least, on the batches of an epoch; nothing is kept of it."""
    tune_memory()
    _reset_peak_memory(ALONE.device)
    torch.manual_seed(run.seed)
    model = Transformer(model_config).train().to(ALONE.device)
    optimizer = make_optimizer(model, run.optim)
    c = run.train
    kernels = choose_kernels(
        c.fused, c.precision, model_config, ALONE.device, in_lockstep=False
    ).kernels
    upcoming = cycle(range(len(epoch.order)))
    step, loss, halved = 0, 0.0, 0

    def time_update(indices: Iterable[int]) -> float:
        nonlocal step, loss, halved
        collated = [collate(epoch.encoded, epoch.order[index]) for index in indices]
        rate, started = learning_rate(step, 0.0, run.optim), time.monotonic()
        result = update_within_memory(
            model, optimizer, collated, rate, run.optim, run.train.precision, kernels=kernels
        )
        step, loss, halved = step + 1, result.loss, halved + result.halved
        return time.monotonic() - started

    # The largest batch first: if it does not fit in memory, that shows
    # here. This update and the next are not counted.
    warm_up_seconds = time_update([epoch.largest])
    last_seconds = time_update([next(upcoming)])
    while (warm_up_seconds := warm_up_seconds + last_seconds) < _WARM_UP_SHARE * seconds:
        last_seconds = time_update([next(upcoming)])
    batches_per_update = max(
        1, min(run.train.accumulate, int(seconds / FEWEST_UPDATES / last_seconds))
    )

    # Target positions of each batch, padding included.
    positions = epoch.shapes[:, 0] * epoch.shapes[:, 2]
    seconds_per_position, spent, processor = [], 0.0, ProcessorShare()
    enough = 0.0
    while not seconds_per_position or spent < enough:
        batches = [next(upcoming) for _ in range(batches_per_update)]
        spent += (update_seconds := time_update(batches))
        # By position, for batches differ: the median is scaled to the average batch below.
        seconds_per_position.append(update_seconds / positions[batches].sum())
        # A few slow updates must do if the usual number would take far too long.
        enough = seconds * (1 if len(seconds_per_position) >= FEWEST_UPDATES else LONGEST_FACTOR)

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


def free_memory(device: torch.device) -> int | None:
    """Return the bytes that can still be allocated without swapping; None where the system does not say."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    with suppress(OSError, StopIteration):
        # MemAvailable counts the page cache, which the kernel gives
        # up, as free; SC_AVPHYS_PAGES does not.
        return _read_kilobytes(Path("/proc/meminfo"), "MemAvailable")

    with suppress(AttributeError, ValueError, OSError):
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _reset_peak_memory(device: torch.device) -> None:
    """Restart the measurement of peak memory: of the process on Linux, of its tensors on a GPU."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    with suppress(OSError):
        # Writing 5 resets VmHWM, the peak of the resident memory (man proc).
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_memory(device: torch.device) -> int | None:
    """Return the peak memory in bytes, since `_reset_peak_memory` on Linux and of a GPU, elsewhere since the start."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    with suppress(OSError, StopIteration):
        return _read_kilobytes(Path("/proc/self/status"), "VmHWM")
    with suppress(ImportError):
        # Windows does not have this module.
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        # In bytes on macOS, in kilobytes elsewhere.
        return peak if sys.platform == "darwin" else 1024 * peak

    return None


def _read_kilobytes(table: Path, name: str) -> int:
    """Return a row of one of Linux's tables in bytes; raises OSError or StopIteration where there is none."""
    rows = table.read_text(encoding="utf-8", errors="replace").splitlines()
    return 1024 * int(next(row for row in rows if row.startswith(name)).split()[1])
