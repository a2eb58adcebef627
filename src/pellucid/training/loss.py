"""Label-smoothed cross-entropy, as its formula and in a form that never holds all logits at once.

Losses are returned as sums; the caller divides once, by the target tokens of all batches and
workers.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.training.fused.compiler import Kernels
from pellucid.training.fused.functions import loss_in_place
from pellucid.training.fused.products import product_type, with_rounded_rows

# Rows of logits computed at a time on a CPU: enough for a full-speed product, few enough to stay in
# the cache.
CHUNK = 512
# Rows of logits computed at a time on a GPU, which takes as long for a few rows as for many.
_GPU_CHUNK = 4096


def smoothed_cross_entropy(
    logits: Float[Tensor, "N V"], targets: Int[Tensor, " N"], smoothing: float
) -> Float[Tensor, ""]:
    """Return the sum over positions of -sum_v q(v) log softmax(logits)(v), in nats.

    q puts 1 - smoothing on the target and spreads the rest evenly over the whole vocabulary, target
    included (paper, 5.4; Szegedy et al. 2016, 7).
    """
    # bfloat16 logits are raised to float32; float64 ones stay as they are.
    log_probs = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)
    target_log_probs = log_probs.gather(1, targets[:, None]).squeeze(1)
    return -((1 - smoothing) * target_log_probs + smoothing * log_probs.mean(dim=-1)).sum()


def loss_sum(
    states: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    targets: Int[Tensor, " N"],
    smoothing: float,
    bias: Float[Tensor, " V"] | None = None,
    kernels: Kernels | None = None,
) -> Float[Tensor, ""]:
    """Return `smoothed_cross_entropy(states @ weight.T + bias, ...)`, computed in chunks of rows.

    Its gradient is computed on the way. Under autocast the matrix products use its type; the
    softmax is always float32. With `kernels` each chunk's softmax, loss and gradient are one pass.
    """
    numbers = smoothing, product_type(states), torch.is_grad_enabled(), kernels
    return _ChunkedLoss.apply(states.contiguous(), weight, bias, targets, *numbers)


class _ChunkedLoss(torch.autograd.Function):
    """Loss whose forward pass also computes its gradient, chunk by chunk; backward only scales it."""

    @staticmethod
    def forward(ctx, states, weight, bias, targets, smoothing, dtype, needs_gradient, kernels):
        chunk = CHUNK if states.is_cpu else _GPU_CHUNK
        # The types are chosen here: dtype for the matrix products, float32 at least for all else.
        with torch.autocast(states.device.type, enabled=False):
            w = weight.to(dtype)
            total_type = torch.promote_types(states.dtype, torch.float32)
            total = torch.zeros((), dtype=total_type, device=states.device)
            states_gradient = torch.empty_like(states) if needs_gradient else None
            weight_gradient = torch.zeros_like(weight) if needs_gradient else None
            bias_gradient = torch.zeros_like(bias) if needs_gradient and bias is not None else None

            for first in range(0, len(targets), chunk):
                rows = slice(first, first + chunk)
                h, t = states[rows].to(dtype), targets[rows]
                if kernels is None:
                    loss, g = _loss_in_place(
                        F.linear(h, w), bias, t[:, None], smoothing, needs_gradient
                    )
                    if g is not None and bias_gradient is not None:
                        bias_gradient += g.sum(dim=0, dtype=bias_gradient.dtype)
                else:
                    h = with_rounded_rows(h)
                    g = F.linear(h, w)
                    numbers = smoothing, bias_gradient, needs_gradient
                    loss = loss_in_place(kernels, g[: len(t)], bias, t, *numbers)
                    g[len(t) :] = 0.0

                total += loss
                if g is None or states_gradient is None or weight_gradient is None:
                    continue
                g = g.to(dtype)
                states_gradient[rows] = (g @ w)[: len(t)].to(states_gradient.dtype)
                weight_gradient += g.T @ h

            ctx.save_for_backward(states_gradient, weight_gradient, bias_gradient)
            return total

    @staticmethod
    def backward(ctx, *loss_gradient):
        gradients = []
        for gradient in ctx.saved_tensors:  # of the states, the weight and the bias
            gradients.append(None if gradient is None else gradient * loss_gradient[0])
        # One value for each argument of forward; the last five are no tensors to differentiate.
        return *gradients, None, None, None, None, None


def _loss_in_place(
    z: Float[Tensor, "R V"],
    bias: Float[Tensor, " V"] | None,
    targets: Int[Tensor, "R 1"],
    smoothing: float,
    needs_gradient: bool,
) -> tuple[Float[Tensor, ""], Float[Tensor, "R V"] | None]:
    """Return the loss, and its gradient if needed, in the memory of the logits."""
    z = z.to(torch.promote_types(z.dtype, torch.float32))
    z = z if bias is None else z.add_(bias)
    p = z.softmax(dim=1)
    # log sum exp(z) without a second pass over z: log p = z - log_sum, read off the most probable
    # token of each row, whose probability cannot have vanished.
    log_sum = z.amax(dim=1) - p.amax(dim=1).log()
    target_logits = z.gather(1, targets).squeeze(1)
    loss = (log_sum - (1 - smoothing) * target_logits - smoothing * z.mean(dim=1)).sum()
    if not needs_gradient:
        return loss, None

    # d loss / d logits = softmax - q
    p -= smoothing / p.shape[1]
    p.scatter_add_(1, targets, torch.full_like(targets, -(1 - smoothing), dtype=p.dtype))
    return loss, p
