"""Products of matrices in bfloat16 with rounded numbers of rows, so that few shapes of them occur.

For each new shape of a product in bfloat16 oneDNN writes machine code, which takes ten times as
long as a product of a small model (benchmarks/results/fused.md). No two batches have the
same number of positions; rounded up, they share a few.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

_LEAST_STEP = 64


def round_rows(rows: int) -> int:
    """Return a number that is no smaller and one of few; from 512 on it is at most an eighth larger.

    >>> [round_rows(rows) for rows in (1, 900, 1000, 1025, 4000)]
    [64, 960, 1024, 1152, 4096]
    """
    # Eight sizes lie between two powers of two.
    step = max(_LEAST_STEP, 1 << max(0, rows.bit_length() - 4))
    return -(-rows // step) * step


def empty_rows(shape: torch.Size, dtype: torch.dtype) -> Tensor:
    """Return an uninitialised tensor; in bfloat16 with zeros behind it, up to a rounded number of rows."""
    if dtype != torch.bfloat16:
        return torch.empty(shape, dtype=dtype)
    rows, width = shape[:-1].numel(), shape[-1]
    memory = torch.empty(round_rows(rows), width, dtype=dtype)
    memory[rows:].zero_()
    numbers = memory[:rows].view(shape)
    # On the tensor, so that it is forgotten with it: a copy or a sum of tensors has no such rows.
    numbers._pellucid_zeros_behind = True  # pyright: ignore[reportAttributeAccessIssue]
    return numbers


def with_rounded_rows(x: Float[Tensor, "... D"]) -> Float[Tensor, "rounded D"]:
    """Return `x` as a matrix; in bfloat16 with rows of zeros up to a rounded number.

    It is copied unless `empty_rows` has put the zeros behind it.
    """
    rows, width = x.shape[:-1].numel(), x.shape[-1]
    if x.dtype != torch.bfloat16:
        return x.reshape(rows, width)
    if getattr(x, "_pellucid_zeros_behind", False):
        return x.as_strided((round_rows(rows), width), (width, 1))

    memory = torch.empty(round_rows(rows), width, dtype=x.dtype)
    memory[:rows].copy_(x.reshape(rows, width))
    memory[rows:].zero_()
    return memory


def multiply(x: Float[Tensor, "... D"], weight: Float[Tensor, "F D"]) -> Float[Tensor, "... F"]:
    """Return x weight^T, computed in the type of autocast, if that is on."""
    return _Product.apply(x, weight, product_type(x))


def product_type(x: Tensor) -> torch.dtype:
    """Return the type in which products of `x` are computed now: autocast's type, or its own."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, dtype: torch.dtype) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            w = weight.to(dtype)
            # A tensor keeps its marks where its type is the right one already.
            rows = with_rounded_rows(x.to(dtype))
            out = F.linear(rows, w)

        ctx.save_for_backward(rows, w)
        ctx.x_shape, ctx.x_dtype = x.shape, x.dtype
        return out[: x.shape[:-1].numel()].view(*x.shape[:-1], len(weight))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        rows, w = ctx.saved_tensors

        g = with_rounded_rows(gradients[0])
        by_x = (g @ w)[: ctx.x_shape[:-1].numel()].view(ctx.x_shape)
        by_weight = (g.T @ rows).to(torch.float32)
        return by_x.to(ctx.x_dtype), by_weight, None
