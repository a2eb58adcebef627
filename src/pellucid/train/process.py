"""Process of a training run: its memory, and the signals that ask it to stop."""

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pellucid.processor import share_processor


def tune_memory() -> None:
    """Tune the allocator, oneDNN's cache and the threads' waiting; every process that trains calls this first."""
    keep_freed_memory()
    limit_kernel_cache()
    share_processor()


def keep_freed_memory() -> None:
    """Make glibc keep freed memory, for all threads, instead of returning it to the kernel after each update."""
    # Otherwise every update's large tensors are unmapped, mapped and zeroed again.
    if sys.platform == "linux":
        m_trim_threshold, m_mmap_threshold, m_arena_max = -1, -3, -8
        # Other C libraries, such as musl, have no mallopt.
        with suppress(OSError, AttributeError):
            libc = ctypes.CDLL("libc.so.6")
            libc.mallopt(m_mmap_threshold, 2**30)
            libc.mallopt(m_trim_threshold, 2**31 - 1)
            libc.mallopt(m_arena_max, 1)  # the others consist of small mappings, which are returned


def limit_kernel_cache() -> None:
    """Limit oneDNN's cache of compiled kernels to 64 shapes of products, from 1,024."""
    # A kernel and its memory take up to a megabyte, batches have hundreds of shapes, and few recur soon: with the
    # limit, a tiny model's batches of 4,096 pieces take 0.9 GB instead of 1.6 GB, and no more time.
    for variable in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        # oneDNN and torch's layer above it have a cache each, and read these at the first product in bfloat16.
        os.environ.setdefault(variable, "64")


@contextmanager
def catch_signals() -> Iterator[list[str]]:
    """Yield a list that is empty until Ctrl-C or SIGTERM asks to stop, and then holds the signal's name.

    The update in progress is finished first. A second Ctrl-C interrupts at once.
    """
    caught: list[str] = []

    def note(number: int, frame: Any) -> None:
        if caught:
            raise KeyboardInterrupt
        caught.append(signal.Signals(number).name)

    # Python sets signal handlers in the main thread only.
    if threading.current_thread() is not threading.main_thread():
        yield caught
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    previous = [signal.signal(number, note) for number in numbers]
    try:
        yield caught
    finally:
        for number, handler in zip(numbers, previous, strict=True):
            signal.signal(number, handler)
