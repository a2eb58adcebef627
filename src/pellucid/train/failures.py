"""What can go wrong in the middle of a run that is nobody's mistake: memory that runs out, and a disk that is full."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import Tensor

from pellucid.atomic import WriteFailed, explain_write_error
from pellucid.data.batching import Batch
from pellucid.data.tokenizer import PAD

OUT_OF_MEMORY = re.compile(r"out of memory|can't allocate memory|not enough memory|CUBLAS_STATUS_ALLOC_FAILED")
"""What the RuntimeErrors say that stand for it: of CUDA and MPS, of the CPU, of the CPU on Windows, of cuBLAS."""


class TrainingFailed(RuntimeError):
    """A run cannot go on; the message says why, and what to do."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether this is how torch, numpy or Python say that memory does not suffice.

    >>> is_out_of_memory(MemoryError()), is_out_of_memory(RuntimeError("CUDA error: device-side assert triggered"))
    (True, False)
    """
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and OUT_OF_MEMORY.search(str(error)) is not None
    )


def halve_batch(batch: Batch) -> tuple[Batch, Batch]:
    """The first pairs of a batch and the others, without the padding that only the longest needed."""
    middle = len(batch.source) // 2
    return slice_batch(batch, slice(0, middle)), slice_batch(batch, slice(middle, None))


def slice_batch(batch: Batch, some: slice) -> Batch:
    """Some pairs of a batch, as a batch."""
    source, target_in, target_out = batch.source[some], batch.target_in[some], batch.target_out[some]
    longest_source, longest_target = longest_row(source), longest_row(target_out)
    return replace(
        batch,
        source=source[:, :longest_source],
        target_in=target_in[:, :longest_target],
        target_out=target_out[:, :longest_target],
        indices=batch.indices[some],
        target_tokens=int((target_out != PAD).sum()),
    )


def longest_row(padded: Tensor) -> int:
    """Pieces of the longest sentence."""
    return int((padded != PAD).sum(dim=1).max())


@contextmanager
def explain_failed_write(place: Path, size: int) -> Iterator[None]:
    """What cannot be written at `place`, which takes about `size` bytes, becomes NotWritten."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise WriteFailed(
            f"{place} could not be written: {explain_write_error(error)} "
            f"(it takes about {size / 1e6:,.1f} MB, {free_disk_bytes(place) / 1e6:,.1f} MB are free there)"
        ) from None


def free_disk_bytes(place: Path) -> int:
    """How many bytes the disk takes there."""
    return shutil.disk_usage(next(folder for folder in place.resolve().parents if folder.is_dir())).free
