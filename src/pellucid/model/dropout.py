"""Dropout, with a mask that is quick to draw on a CPU (paper, 5.4)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Dropout(nn.Module):
    """Sets a random share of numbers to zero and scales the rest so that the mean stays (Srivastava et al. 2014)."""

    def __init__(self, share: float):
        super().__init__()
        self.share = share

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


def keep(shape: torch.Size, share: float, dtype: torch.dtype) -> Tensor:
    """A mask of zeros, on average `share` of them, and of the number that makes their mean 1.

    It is drawn as 16-bit integers, four to a random word of torch's own generator: the share is rounded down to a
    multiple of 1 / 65536.
    """
    dropped = int(share * 65536)
    words = torch.empty((shape.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    numbers = words.view(torch.int16)[: shape.numel()].view(shape)
    return (numbers >= dropped - 32768).to(dtype).mul_(65536 / (65536 - dropped))
