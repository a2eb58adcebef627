"""The protocol of watchers, which see every tensor that the model computes.

Every intermediate value of the model passes through `value = watch(name, value)`, and the model
continues with the tensor that is returned. Recording, ablation and patching are watchers, so the
model has no flag for any of them.
"""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from torch import Tensor


@runtime_checkable
class Watch(Protocol):
    """A function that the model calls with the name and the value of every tensor it computes."""

    # Whether it needs every tensor; if False, attention may use a kernel that never forms the
    # pattern.
    seeing: bool

    def __call__(self, name: str, value: Tensor) -> Tensor:
        """Look at `value` and return the tensor of the same shape that the model continues with."""
        ...

    def within(self, part: str) -> "Watch":
        """Return this watcher for a submodule: it puts `part` and a dot before every name."""
        ...


class Unseen:
    """A watcher that returns every value unchanged."""

    seeing = False

    # Two methods and no state: a model that nobody watches pays for a call per tensor, 73 ns
    # (benchmarks/results/watch.md).
    def __call__(self, name: str, value: Tensor) -> Tensor:
        return value

    def within(self, part: str) -> "Unseen":
        return self


unseen = Unseen()


class Watcher:
    """A watcher that calls `see` with each full name and value, and gives the model its result."""

    seeing = True

    def __init__(self, see: Callable[[str, Tensor], Tensor], prefix: str = ""):
        self._see = see
        self._prefix = prefix

    def __call__(self, name: str, value: Tensor) -> Tensor:
        return self._see(self._prefix + name, value)

    def within(self, part: str) -> "Watcher":
        # It shares `see`: every value that a module deep inside shows arrives at one function,
        # under its full name.
        return Watcher(self._see, f"{self._prefix}{part}.")
