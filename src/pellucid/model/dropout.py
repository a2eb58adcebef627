"""Dropout, with a mask that is quick to draw on a CPU (paper, 5.4)."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import local

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Dropout(nn.Module):
    """Sets a random share of numbers to zero and scales the rest so that the mean stays (Srivastava et al. 2014)."""

    def __init__(self, rate: float):
        super().__init__()
        self.rate = self.full_rate = rate

    @property
    def active(self) -> bool:
        """Whether numbers are dropped now."""
        return self.training and self.rate > 0.0

    def forward(self, x: Tensor) -> Tensor:
        if not self.active:
            return x
        return x * draw_mask(x.shape, self.rate, x.dtype) if x.is_cpu else F.dropout(x, self.rate)

    def extra_repr(self) -> str:
        return f"{self.rate}"


def scale_dropout(model: nn.Module, factor: float) -> None:
    """Let every dropout of a model drop this part (0 to 1) of the share it was made for, until told otherwise."""
    for each in model.modules():
        if isinstance(each, Dropout):
            each.rate = factor * each.full_rate


def draw_mask(shape: torch.Size, rate: float, dtype: torch.dtype) -> Tensor:
    """A mask of zeros, on average `rate` of them, and of the number that makes their mean 1.

    It is drawn as 16-bit integers, four to a random word of torch's own generator, or of the one that `seeded_dropout`
    made for this thread: the share is rounded down to a multiple of 1 / 65536.
    """
    dropped = int(rate * 65536)
    generator = None if torch.compiler.is_compiling() else _this_thread.generator
    words = torch.empty((shape.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None, generator=generator)
    numbers = words.view(torch.int16)[: shape.numel()].view(shape)
    return (numbers >= dropped - 32768).to(dtype).mul_(65536 / (65536 - dropped))


class _ThreadGenerator(local):
    generator: torch.Generator | None = None


_this_thread = _ThreadGenerator()


@contextmanager
def seeded_dropout(seed: int) -> Iterator[None]:
    """On a CPU, this thread draws its masks from a generator of its own: of one, threads would take turns by chance."""
    _this_thread.generator = torch.Generator().manual_seed(seed)
    try:
        yield
    finally:
        _this_thread.generator = None
