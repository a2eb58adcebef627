"""Failures in the middle of a run that are nobody's mistake: memory that runs out, and a disk that is full."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import Tensor

from pellucid.data.batching import Batch
from pellucid.data.tokenizer import PAD
from pellucid.store.atomic import WriteFailed, explain_write_error

OUT_OF_MEMORY = re.compile(r"out of memory|can't allocate memory|not enough memory|CUBLAS_STATUS_ALLOC_FAILED")
"""Texts of the RuntimeErrors that mean it: of CUDA and MPS, of the CPU, of the CPU on Windows, of cuBLAS."""


class TrainingFailed(RuntimeError):
    """Error of a run that cannot continue; the message says why, and what to do."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of torch, numpy or Python means that memory does not suffice.

    >>> is_out_of_memory(MemoryError()), is_out_of_memory(RuntimeError("CUDA error: device-side assert triggered"))
    (True, False)
    """
    # Not every backend raises torch's own class: others raise a plain RuntimeError, known by its text only.
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and OUT_OF_MEMORY.search(str(error)) is not None
    )


def halve_batch(batch: Batch) -> tuple[Batch, Batch]:
    """Return the first and the second half of a batch, without padding that only the longest pair needed."""
    middle = len(batch.source) // 2
    return slice_batch(batch, slice(0, middle)), slice_batch(batch, slice(middle, None))


def slice_batch(batch: Batch, rows: slice) -> Batch:
    """Return some rows of a batch as a batch, cut to its longest sentences."""
    source, target_in, target_out = batch.source[rows], batch.target_in[rows], batch.target_out[rows]
    # target_in is as long as target_out: BOS in front, EOS missing at the end.
    longest_source, longest_target = longest_row(source), longest_row(target_out)
    return replace(
        batch,
        source=source[:, :longest_source],
        target_in=target_in[:, :longest_target],
        target_out=target_out[:, :longest_target],
        indices=batch.indices[rows],
        target_tokens=int((target_out != PAD).sum()),
    )


def longest_row(padded: Tensor) -> int:
    """Return the length of the longest sentence, padding not counted."""
    return int((padded != PAD).sum(dim=1).max())


@contextmanager
def explain_failed_write(path: Path, size: int) -> Iterator[None]:
    """Turn any error of writing `path`, which takes about `size` bytes, into WriteFailed with the free space."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise WriteFailed(
            f"{path} could not be written: {explain_write_error(error)} "
            f"(it takes about {size / 1e6:,.1f} MB, {free_disk_bytes(path) / 1e6:,.1f} MB are free there)"
        ) from None


def free_disk_bytes(path: Path) -> int:
    """Return the free bytes of the disk that `path` is to be written to."""
    # The path itself may not be there yet; the nearest folder that is lies on the same disk.
    return shutil.disk_usage(next(folder for folder in path.resolve().parents if folder.is_dir())).free
