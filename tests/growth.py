"""Checks that something takes work in proportion to its size, however busy the machine is."""

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

ROUNDS = 20
"""Times both sizes are measured at most: other processes can make one measurement longer, but not shorter."""


def assert_linear(measure_seconds: Callable[[int], float], size: int) -> None:
    """Assert that twice the size takes at most three times as long; what is quadratic takes four times as long."""
    shortest = {size: float("inf"), 2 * size: float("inf")}
    # Python looks through all of its objects once there are a quarter more of them: at one of the sizes and not at the
    # other, and with torch's objects that takes longer than what is measured.
    gc.disable()
    try:
        for number in range(ROUNDS):
            shortest = {size: min(seconds, measure_seconds(size)) for size, seconds in shortest.items()}
            if number > 0 and shortest[2 * size] < 3 * shortest[size]:
                return
    finally:
        gc.enable()
    raise AssertionError(f"twice the size takes {shortest[2 * size] / shortest[size]:.1f} times as long: {shortest}")


def count_lines(function: Callable[[], object], folder: str) -> int:
    """Return how many lines of Python a call runs in the files of a folder: its work, whatever the machine does."""
    lines = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        if folder not in frame.f_code.co_filename:
            return None
        lines += event in ("line", "call")  # each turn of a generator expression is a call
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return lines


def assert_linear_work(work: Callable[[int], object], size: int, folder: str) -> None:
    """Assert that twice the size runs at most three times as many lines; what is quadratic runs four times as many."""
    once, twice = (count_lines(lambda n=n: work(n), folder) for n in (size, 2 * size))
    assert once > 0
    assert twice < 3 * once, f"twice the size runs {twice / once:.1f} times as many lines: {once}, {twice}"
