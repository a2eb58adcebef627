"""Counts the steps of a program: the same on every machine, unlike the time that it takes."""

import sys
from collections.abc import Callable


def count_calls(action: Callable[[], object]) -> int:
    """Return how many functions are called while an action runs, those of C included."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(None)
    return calls


def require_linear_steps(action: Callable[[int], object], size: int = 300) -> None:
    """Fail where an action on something four times as large takes more than five times as many steps."""
    action(7)  # what is imported and compiled once is no step
    small, large = count_calls(lambda: action(size)), count_calls(lambda: action(4 * size))
    assert large <= 5 * small, (small, large)
