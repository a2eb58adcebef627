"""Memory that runs out."""

import re

import torch

OUT_OF_MEMORY = re.compile(r"out of memory|can't allocate memory|not enough memory|CUBLAS_STATUS_ALLOC_FAILED")
"""Texts of the RuntimeErrors that mean it: of CUDA and MPS, of the CPU, of the CPU on Windows, of cuBLAS."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of torch, numpy or Python means that memory does not suffice.

    >>> is_out_of_memory(MemoryError()), is_out_of_memory(RuntimeError("CUDA error: device-side assert triggered"))
    (True, False)
    """
    # Not every backend raises torch's own class: others raise a plain RuntimeError, known by its text only.
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and OUT_OF_MEMORY.search(str(error)) is not None
    )
