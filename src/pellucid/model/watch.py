"""The watcher that sees nothing, and the protocol of those that see.

Every intermediate value of the model passes through `value = watch(name, value)`. What comes back is what the model
goes on with, so recording, ablation and patching are watchers, and the model has no flag for any of them.
"""

from typing import Protocol, runtime_checkable

from torch import Tensor


@runtime_checkable
class Watch(Protocol):
    """What the model calls with each value it computes."""

    seeing: bool
    """False: nobody looks, so attention may take a kernel that never forms the pattern."""

    def __call__(self, name: str, value: Tensor) -> Tensor:
        """Look at `value`; the tensor returned, of the same shape, is what the model goes on with."""
        ...

    def within(self, part: str) -> "Watch":
        """The same watcher one module further in: names it hears are prefixed with `part`."""
        ...


class Unseen:
    """Returns every value unchanged."""

    seeing = False

    def __call__(self, name: str, value: Tensor) -> Tensor:
        return value

    def within(self, part: str) -> "Unseen":
        return self


unseen = Unseen()
