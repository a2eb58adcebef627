"""Dropout, with a mask that is quick to draw on a CPU (paper, 5.4)."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import local

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Dropout(nn.Module):
    """Set numbers to zero at random, and keep the mean by scaling the rest (Srivastava et al. 2014).

    `rate` is the probability that a number is dropped.
    """

    def __init__(self, rate: float):
        super().__init__()
        # `scale_dropout` lowers `rate` for a while; `full_rate` remembers what the model was built
        # with.
        self.rate = self.full_rate = rate

    @property
    def active(self) -> bool:
        """Whether numbers are dropped now."""
        return self.training and self.rate > 0.0

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.rate == 0.0:
            return x
        # F.dropout makes an update on a CPU 1.02 to 1.07 times as long:
        # benchmarks/results/train-levers.md
        return x * draw_mask(x.shape, self.rate, x.dtype) if x.is_cpu else F.dropout(x, self.rate)

    def extra_repr(self) -> str:
        return f"{self.rate}"


def scale_dropout(model: nn.Module, factor: float) -> None:
    """Set the rate of every dropout to `factor` (0 to 1) times the rate that it was built with."""
    for module in model.modules():
        if isinstance(module, Dropout):
            module.rate = factor * module.full_rate


def draw_mask(shape: torch.Size, rate: float, dtype: torch.dtype) -> Tensor:
    """Draw a mask whose numbers are 0 with probability `rate`, and whose mean is 1.

    The rate is rounded down to a multiple of 1 / 65536.
    """
    dropped = int(rate * 65536)

    # Compiled layers run on one thread (training/update.py), so they can draw from torch's own
    # generator.
    generator = None if torch.compiler.is_compiling() else _this_thread.generator
    # Four 16-bit integers are cut from each random 64-bit word: a quarter of the draws. (None: up
    # to 2^63.)
    words = torch.empty((shape.numel() + 3) // 4, dtype=torch.int64)
    words.random_(-(2**63), None, generator=generator)
    numbers = words.view(torch.int16)[: shape.numel()].view(shape)

    # They are signed: -32768 to 32767; the lowest `dropped` values mean zero.
    return (numbers >= dropped - 32768).to(dtype).mul_(65536 / (65536 - dropped))


class _ThreadGenerator(local):
    # Set on the class, so that it is there in every thread; an assignment is seen by its own thread
    # only.
    generator: torch.Generator | None = None


_this_thread = _ThreadGenerator()


@contextmanager
def seeded_dropout(seed: int) -> Iterator[None]:
    """Draw this thread's dropout masks from a generator of its own, seeded with `seed`, on a CPU."""
    # From one shared generator, which thread draws first would decide the masks: a run could not be
    # repeated.
    _this_thread.generator = torch.Generator().manual_seed(seed)
    try:
        yield
    finally:
        _this_thread.generator = None


def draw_seed() -> int:
    """Draw a number below 2^63 from the generator that this thread's dropout masks come from."""
    return int(torch.empty((), dtype=torch.int64).random_(generator=_this_thread.generator))
