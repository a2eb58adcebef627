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
    """The batches of an epoch, counted, and the batches of its first window; each is a rectangle on either side.

    A shape is the rows of a batch, its source positions and its target positions. So many pairs as
    an epoch may have, only shapes and lengths that differ are kept, with the number of each.
    """

    encoded: EncodedPairs
    first: list[NDArray[np.integer]]  # batches of the first window, in their order
    largest: NDArray[np.integer]  # the batch with the most positions on both sides together
    shapes: NDArray[np.int64]  # a row each
    shape_counts: NDArray[np.int64]
    # Source and target tokens of the pairs seen, EOS included: two columns. A pair counts as often
    # as the epoch shows it, which the weights of corpora decide.
    lengths: NDArray[np.int64]
    length_counts: NDArray[np.int64]

    @classmethod
    def first_of_run(cls, encoded: EncodedPairs, batch_tokens: int, seed: int) -> "EpochBatches":
        """Return the batches of the first epoch of a run, just as its stream makes them."""
        stream = Stream(encoded, batch_tokens, seed)
        first, largest, most = stream.order, stream.order[0], 0
        shapes, lengths = _RowCounts(), _RowCounts()
        for order in stream.list_windows():
            pairs = np.concatenate(order)
            sides = encoded.sources.lengths_of(pairs), encoded.targets.lengths_of(pairs)
            lengths.add(np.stack(sides, axis=1))

            rows = np.array(list(map(len, order)), np.int64)
            starts = np.cumsum(rows) - rows
            longest = [np.maximum.reduceat(side, starts) for side in sides]
            shapes.add(np.stack([rows, *longest], axis=1))
            positions = rows * (longest[0] + longest[1])
            if positions.max() > most:
                largest, most = order[int(positions.argmax())], int(positions.max())

        return cls(
            encoded, first, largest, shapes.rows, shapes.counts, lengths.rows, lengths.counts
        )

    @property
    def batches(self) -> int:
        """Number of batches."""
        return int(self.shape_counts.sum())

    @property
    def pairs(self) -> int:
        """Number of pairs that the epoch shows; weights of corpora may repeat some and leave out others."""
        return int(self.length_counts.sum())

    @property
    def source_pieces(self) -> int:
        """Source tokens without padding."""
        return int(self.lengths[:, 0] @ self.length_counts)

    @property
    def target_pieces(self) -> int:
        """Target tokens without padding."""
        return int(self.lengths[:, 1] @ self.length_counts)

    @property
    def source_positions(self) -> int:
        """Source positions with padding."""
        return int((self.shapes[:, 0] * self.shapes[:, 1]) @ self.shape_counts)

    @property
    def target_positions(self) -> int:
        """Target positions with padding."""
        return int((self.shapes[:, 0] * self.shapes[:, 2]) @ self.shape_counts)


def find_shape(encoded: EncodedPairs, batch: NDArray[np.integer]) -> tuple[int, int, int]:
    """Return the rows, source positions and target positions of a batch."""
    sides = encoded.sources.lengths_of(batch), encoded.targets.lengths_of(batch)
    return len(batch), int(sides[0].max()), int(sides[1].max())


# Bits of a number in a row: three make a whole number, which is sorted much faster than a row.
_BITS = 21


class _RowCounts:
    """Counts how often each row occurs in many arrays; a row has two or three numbers."""

    def __init__(self) -> None:
        """Begin without a row."""
        self._counts: dict[int, int] = {}
        self._columns = 0

    def add(self, rows: NDArray[np.integer]) -> None:
        """Count the rows of an array."""
        assert rows.max() < 2**_BITS
        keys = np.zeros(len(rows), np.int64)
        for column in rows.T:
            keys = (keys << _BITS) + column

        self._columns = rows.shape[1]
        different, counts = np.unique(keys, return_counts=True)
        for key, count in zip(different.tolist(), counts.tolist(), strict=True):
            self._counts[key] = self._counts.get(key, 0) + count

    @property
    def rows(self) -> NDArray[np.int64]:
        """The rows, in the order of their numbers."""
        keys = np.array(sorted(self._counts), np.int64)
        columns: list[NDArray[np.int64]] = []
        for column in reversed(range(self._columns)):
            columns.append((keys >> (column * _BITS)) & (2**_BITS - 1))
        return np.stack(columns, axis=1)

    @property
    def counts(self) -> NDArray[np.int64]:
        """How often each row occurs."""
        return np.array([self._counts[key] for key in sorted(self._counts)], np.int64)


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
    upcoming = cycle(epoch.first)
    step, loss, halved = 0, 0.0, 0

    def time_update(batches: Iterable[NDArray[np.integer]]) -> float:
        nonlocal step, loss, halved
        collated = [collate(epoch.encoded, batch) for batch in batches]
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

    seconds_per_position, spent, processor = [], 0.0, ProcessorShare()
    enough = 0.0
    while not seconds_per_position or spent < enough:
        batches = [next(upcoming) for _ in range(batches_per_update)]
        spent += (update_seconds := time_update(batches))
        # By target position, padding included, for batches differ: the median is scaled to the
        # average batch below.
        shapes = [find_shape(epoch.encoded, batch) for batch in batches]
        positions = sum(rows * targets for rows, _, targets in shapes)
        seconds_per_position.append(update_seconds / positions)
        # A few slow updates must do if the usual number would take far too long.
        enough = seconds * (1 if len(seconds_per_position) >= FEWEST_UPDATES else LONGEST_FACTOR)

    low, median, high = np.percentile(seconds_per_position, [25, 50, 75])
    return TrialResult(
        updates=len(seconds_per_position),
        batches=batches_per_update,
        seconds=float(median * epoch.target_positions / epoch.batches * run.train.accumulate),
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
