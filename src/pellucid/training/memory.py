"""Memory that runs out: how an error of it is recognised, and the error of a batch that does not fit."""

import re

import torch

# Texts of the RuntimeErrors that mean it: of CUDA and MPS, of the CPU, of the CPU on Windows, of
# cuBLAS.
_OUT_OF_MEMORY = re.compile(
    r"out of memory|can't allocate memory|not enough memory|CUBLAS_STATUS_ALLOC_FAILED"
)


class BatchTooLarge(MemoryError):
    """Error of an update whose batch number `index` of this worker does not fit in memory."""

    def __init__(self, index: int):
        super().__init__(f"batch {index} of the update does not fit in memory")
        self.index = index


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of torch, numpy or Python means that memory does not suffice.

    >>> is_out_of_memory(MemoryError()), is_out_of_memory(RuntimeError("device-side assert triggered"))
    (True, False)
    """
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    # Not every backend raises torch's own class: others raise a plain RuntimeError, known by its
    # text.
    return isinstance(error, RuntimeError) and _OUT_OF_MEMORY.search(str(error)) is not None
