"""The functions of `kernels.c` as functions of PyTorch, each with its gradient and its formula.

Dropout's masks are drawn from a seed and never stored: the backward pass draws them again.
"""

import ctypes
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pellucid.model.dropout import draw_seed
from pellucid.training.fused.compiler import Kernels
from pellucid.training.fused.products import empty_rows

_LANES = 16  # the same number as in kernels.c


def add_dropped(
    kernels: Kernels,
    x: Float[Tensor, "... D"],
    y: Float[Tensor, "... D"],
    bias: Float[Tensor, " D"],
    rate: float,
) -> Float[Tensor, "... D"]:
    """Return x + dropout(y + bias)."""
    return _AddDropped.apply(kernels, x, y, bias, rate)


def relu_dropped(
    kernels: Kernels, x: Float[Tensor, "... F"], bias: Float[Tensor, " F"], rate: float
) -> Float[Tensor, "... F"]:
    """Return dropout(max(0, x + bias))."""
    return _ReluDropped.apply(kernels, x, bias, rate)


def apply_norm(
    kernels: Kernels,
    x: Float[Tensor, "... D"],
    weight: Float[Tensor, " D"],
    bias: Float[Tensor, " D"] | None,
    epsilon: float,
    dtype: torch.dtype,
) -> tuple[Float[Tensor, "... D"], Float[Tensor, "... D"]]:
    """Return LayerNorm(x), or without `bias` RMSNorm(x), in `dtype`; and x itself.

    What goes around the norm takes that second x, which saves a pass: its gradient is added where
    the norm's is written.
    """
    return _Normalize.apply(kernels, x, weight, bias, epsilon, dtype)


def attend_to_itself(
    kernels: Kernels,
    qkv: Float[Tensor, "B Q three_D"],
    bias: Float[Tensor, " three_D"],
    allowed: Bool[Tensor, "#B 1 #Q Q"] | None,
    heads: int,
    rate: float,
) -> Float[Tensor, "B Q D"]:
    """Return the heads' outputs side by side; so lie queries, keys and values in qkv + bias."""
    return _Attend.apply(kernels, qkv, None, bias, allowed, heads, rate)


def attend_across(
    kernels: Kernels,
    q: Float[Tensor, "B Q D"],
    kv: Float[Tensor, "B K two_D"],
    bias: Float[Tensor, " three_D"],
    allowed: Bool[Tensor, "#B 1 #Q K"] | None,
    heads: int,
    rate: float,
) -> Float[Tensor, "B Q D"]:
    """Return the heads' outputs side by side; so lie keys and values in `kv`."""
    return _Attend.apply(kernels, q, kv, bias, allowed, heads, rate)


def loss_in_place(
    kernels: Kernels,
    logits: Float[Tensor, "R V"],
    bias: Float[Tensor, " V"] | None,
    targets: Int[Tensor, " R"],
    smoothing: float,
    bias_gradient: Float[Tensor, " V"] | None,
    needs_gradient: bool,
) -> float:
    """Return `smoothed_cross_entropy(logits + bias, ...)` and write its gradient over the logits.

    The gradient by `bias` is added to `bias_gradient`.
    """
    loss = ctypes.c_double()

    failed = kernels.loss_of_rows(
        logits.data_ptr(),
        _address(bias),
        targets.data_ptr(),
        ctypes.byref(loss),
        _address(bias_gradient),
        *logits.shape,
        smoothing,
        int(needs_gradient),
        _is_bfloat16(logits),
    )
    _check_memory(failed)
    return loss.value


def _address(x: Tensor | None) -> int | None:
    return None if x is None else x.data_ptr()


def _is_bfloat16(x: Tensor) -> int:
    return int(x.dtype == torch.bfloat16)


def _rows_and_width(x: Tensor) -> tuple[int, int]:
    return x.shape[:-1].numel(), x.shape[-1]


def _check_memory(failed: int) -> None:
    if failed:
        raise MemoryError("there is none left for the fused operations")


def _draw_mask(rate: float) -> tuple[int, int, float]:
    """Return a seed, the bound below which a hash means zero, and the factor of the others."""
    dropped = int(rate * 2**32)
    if dropped == 0:
        return 0, 0, 1.0
    return draw_seed(), dropped, 2**32 / (2**32 - dropped)


class _AddDropped(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, kernels: Kernels, x: Tensor, y: Tensor, bias: Tensor, rate: float
    ) -> Tensor:
        x, y = x.contiguous(), y.contiguous()
        out, mask = torch.empty_like(x), _draw_mask(rate)

        tensors = [tensor.data_ptr() for tensor in (x, y, bias, out)]
        kernels.add_dropped(*tensors, *_rows_and_width(x), *mask, _is_bfloat16(y))

        ctx.kernels, ctx.mask, ctx.dtype = kernels, mask, y.dtype
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        gradient = gradients[0].contiguous()
        by_y = empty_rows(gradient.shape, ctx.dtype)
        by_bias = torch.zeros(gradient.shape[-1])

        tensors = [tensor.data_ptr() for tensor in (gradient, by_y, by_bias)]
        ctx.kernels.drop(*tensors, *_rows_and_width(gradient), *ctx.mask, _is_bfloat16(by_y))
        return None, gradient, by_y, by_bias, None


class _ReluDropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, kernels: Kernels, x: Tensor, bias: Tensor, rate: float) -> Tensor:
        x = x.contiguous()
        out, mask = empty_rows(x.shape, x.dtype), _draw_mask(rate)
        tensors = [tensor.data_ptr() for tensor in (x, bias, out)]
        kernels.relu_dropped(*tensors, *_rows_and_width(x), *mask, _is_bfloat16(x))

        ctx.kernels, ctx.scale = kernels, mask[2]
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        gradient, (out,) = gradients[0].contiguous(), ctx.saved_tensors
        by_x, by_bias = empty_rows(out.shape, out.dtype), torch.zeros(out.shape[-1])
        tensors = [tensor.data_ptr() for tensor in (gradient, out, by_x, by_bias)]
        ctx.kernels.relu_dropped_gradient(
            *tensors, *_rows_and_width(out), ctx.scale, _is_bfloat16(out)
        )
        return None, by_x, by_bias, None


class _Normalize(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        kernels: Kernels,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        epsilon: float,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        x = x.contiguous()
        rows, width = _rows_and_width(x)

        out = empty_rows(x.shape, dtype)
        means, inverses = torch.empty(2, rows).unbind()
        tensors = [_address(tensor) for tensor in (x, weight, bias, out, means, inverses)]
        kernels.normalize(*tensors, rows, width, epsilon, _is_bfloat16(out))

        ctx.kernels, ctx.has_bias = kernels, bias is not None
        ctx.save_for_backward(x, weight, means, inverses)
        ctx.set_materialize_grads(False)
        return out, x

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        gradient, passed = gradients
        if gradient is None:
            return None, passed, None, None, None, None

        x, weight, means, inverses = ctx.saved_tensors
        gradient = gradient.contiguous()
        passed = passed.contiguous() if passed is not None else None
        by_x, by_weight = torch.empty_like(x), torch.zeros_like(weight)
        by_bias = torch.zeros_like(weight) if ctx.has_bias else None

        read = [_address(tensor) for tensor in (gradient, passed, x, weight, means, inverses)]
        written = [_address(tensor) for tensor in (by_x, by_weight, by_bias)]
        ctx.kernels.normalize_gradient(*read, *written, *_rows_and_width(x), _is_bfloat16(gradient))
        return None, by_x, by_weight, by_bias, None, None


class _Attend(torch.autograd.Function):
    """Attention whose queries, keys and values are columns of one projection, or of two."""

    @staticmethod
    def forward(
        ctx: Any,
        kernels: Kernels,
        first: Tensor,
        second: Tensor | None,
        bias: Tensor,
        allowed: Tensor | None,
        heads: int,
        rate: float,
    ) -> Tensor:
        first = first.contiguous()
        second = second.contiguous() if second is not None else None
        allowed = allowed.contiguous() if allowed is not None else None
        width = len(bias) // 3

        sizes = _measure_attention(first, second, allowed, heads, width)
        batch, queries, keys = (
            first.shape[0],
            first.shape[1],
            (first if second is None else second).shape[1],
        )

        patterns = torch.empty(batch, heads, queries, -(-keys // _LANES) * _LANES)
        out, mask = empty_rows(torch.Size((batch, queries, width)), first.dtype), _draw_mask(rate)
        failed = kernels.attend(
            *_find_thirds(first, second, width),
            *_find_thirds(bias, None, width),
            _address(allowed),
            out.data_ptr(),
            patterns.data_ptr(),
            sizes,
            *mask,
            _is_bfloat16(first),
        )
        _check_memory(failed)

        ctx.kernels, ctx.mask, ctx.sizes = kernels, mask, sizes
        ctx.save_for_backward(first, second, bias, patterns)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        gradient, (first, second, bias, patterns) = gradients[0].contiguous(), ctx.saved_tensors
        width = len(bias) // 3
        by_first, by_bias = empty_rows(first.shape, first.dtype), torch.zeros_like(bias)
        by_second = empty_rows(second.shape, second.dtype) if second is not None else None

        failed = ctx.kernels.attend_gradient(
            gradient.data_ptr(),
            *_find_thirds(first, second, width),
            *_find_thirds(bias, None, width),
            patterns.data_ptr(),
            *_find_thirds(by_first, by_second, width),
            *_find_thirds(by_bias, None, width),
            ctx.sizes,
            *ctx.mask,
            _is_bfloat16(first),
        )
        _check_memory(failed)
        return None, by_first, by_second, by_bias, None, None, None


def _measure_attention(
    first: Tensor, second: Tensor | None, allowed: Tensor | None, heads: int, width: int
) -> ctypes.Array[ctypes.c_int64]:
    """Return the `attention_sizes` of kernels.c."""
    batch, queries, query_row = first.shape
    _, keys, key_row = (first if second is None else second).shape

    # The steps of a mask are zero where one row, or one sentence, stands for all.
    allowed_batch = allowed_row = 0
    if allowed is not None:
        allowed_batch = allowed.stride(0) if allowed.shape[0] > 1 else 0
        allowed_row = allowed.stride(2) if allowed.shape[2] > 1 else 0
    return (ctypes.c_int64 * 11)(
        *(batch, heads, queries, keys, width // heads),
        *(queries * query_row, query_row),
        *(keys * key_row, key_row),
        *(allowed_batch, allowed_row),
    )


def _find_thirds(first: Tensor, second: Tensor | None, width: int) -> tuple[int, int, int]:
    """Return the addresses of the first number that belongs to queries, to keys and to values."""
    step = width * first.element_size()

    if second is None:
        start = first.data_ptr()
        return start, start + step, start + 2 * step
    return first.data_ptr(), second.data_ptr(), second.data_ptr() + step
