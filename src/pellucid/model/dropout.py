"""Dropout, with a mask that is quick to draw on a CPU (paper, 5.4)."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import local

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Dropout(nn.Module):
    """Sets a random share of numbers to zero and scales the rest so that the mean stays (Srivastava et al. 2014)."""

    def __init__(self, share: float):
        super().__init__()
        self.share = self.whole = share

    @property
    def active(self) -> bool:
        """Whether numbers are dropped now."""
        return self.training and self.share > 0.0

    def forward(self, x: Tensor) -> Tensor:
        if not self.active:
            return x
        return x * keep(x.shape, self.share, x.dtype) if x.is_cpu else F.dropout(x, self.share)

    def extra_repr(self) -> str:
        return f"{self.share}"


def drop_only(model: nn.Module, part: float) -> None:
    """Let every dropout of a model drop this part (0 to 1) of the share it was made for, until told otherwise."""
    for each in model.modules():
        if isinstance(each, Dropout):
            each.share = part * each.whole


def keep(shape: torch.Size, share: float, dtype: torch.dtype) -> Tensor:
    """A mask of zeros, on average `share` of them, and of the number that makes their mean 1.

    It is drawn as 16-bit integers, four to a random word of torch's own generator, or of the one that `drawn_from`
    made for this thread: the share is rounded down to a multiple of 1 / 65536.
    """
    dropped = int(share * 65536)
    generator = None if torch.compiler.is_compiling() else _this_thread.generator
    words = torch.empty((shape.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None, generator=generator)
    numbers = words.view(torch.int16)[: shape.numel()].view(shape)
    return (numbers >= dropped - 32768).to(dtype).mul_(65536 / (65536 - dropped))


class _Local(local):
    generator: torch.Generator | None = None


_this_thread = _Local()


@contextmanager
def drawn_from(seed: int) -> Iterator[None]:
    """On a CPU, this thread draws its masks from a generator of its own: of one, threads would take turns by chance."""
    _this_thread.generator = torch.Generator().manual_seed(seed)
    try:
        yield
    finally:
        _this_thread.generator = None
