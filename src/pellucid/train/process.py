"""The process a run lives in: its memory, and the signals that ask it to stop."""

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


def tune_memory() -> None:
    """Both of the following: what every process that trains does first."""
    keep_freed_memory()
    limit_kernel_cache()


def keep_freed_memory() -> None:
    """Tell glibc to keep freed memory instead of giving it back to the kernel after each update, for all threads.

    Otherwise every update's large tensors are unmapped, mapped and zeroed again. Does nothing where there is no glibc.
    """
    if sys.platform == "linux":
        m_trim_threshold, m_mmap_threshold, m_arena_max = -1, -3, -8
        with suppress(OSError, AttributeError):
            libc = ctypes.CDLL("libc.so.6")
            libc.mallopt(m_mmap_threshold, 2**30)
            libc.mallopt(m_trim_threshold, 2**31 - 1)
            libc.mallopt(m_arena_max, 1)  # those of other threads are made of small pieces, which are given back


def limit_kernel_cache() -> None:
    """Let oneDNN, which multiplies in bfloat16, remember the programs it made for 64 shapes of products, not for 1,024.

    A program and its memory take up to a megabyte, batches have hundreds of shapes, and few come twice soon: a tiny
    model's batches of 4,096 pieces take 0.9 GB with it and 1.6 GB without, and not more time. oneDNN and torch's layer
    over it each remember, and read this once, at the first such product; what the user has set stays.
    """
    for variable in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(variable, "64")


@contextmanager
def catch_signals() -> Iterator[list[str]]:
    """A list that is empty until Ctrl-C or SIGTERM asks to stop, and then holds the signal's name.

    The update under way is finished first. A second Ctrl-C interrupts at once.
    """
    asked: list[str] = []

    def note(number: int, frame: Any) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(signal.Signals(number).name)

    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, note) for number in numbers]
    try:
        yield asked
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
