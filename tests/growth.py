"""Checks that something takes time in proportion to its size, however busy the machine is."""

import gc
from collections.abc import Callable

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
            if number > 1 and shortest[2 * size] < 3 * shortest[size]:
                return
    finally:
        gc.enable()
    raise AssertionError(f"twice the size takes {shortest[2 * size] / shortest[size]:.1f} times as long: {shortest}")
