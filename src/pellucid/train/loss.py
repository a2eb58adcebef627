"""Label-smoothed cross-entropy, and R-Drop, each written twice: as the formula, and without holding all logits at once.

Losses travel as a sum; the caller divides once, by the tokens of all parts and workers.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

CHUNK = 512
"""Rows whose logits exist at a time on a CPU: enough for a full-speed product, few enough to stay in the cache."""

GPU_CHUNK = 4096
"""The same on a GPU, which takes as long for a few rows as for many."""


def smoothed_cross_entropy(
    logits: Float[Tensor, "N V"], targets: Int[Tensor, " N"], smoothing: float
) -> Float[Tensor, ""]:
    """Sum over positions of -sum_v q(v) log softmax(logits)(v), in nats (paper, 5.4; Szegedy et al. 2016, 7).

    q puts 1 - smoothing on the target and spreads the rest evenly over the whole vocabulary, target included.
    """
    log_probs = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)
    of_target = log_probs.gather(1, targets[:, None]).squeeze(1)
    return -((1 - smoothing) * of_target + smoothing * log_probs.mean(dim=-1)).sum()


def r_drop_loss(
    one: Float[Tensor, "N V"], other: Float[Tensor, "N V"], targets: Int[Tensor, " N"], smoothing: float, alpha: float
) -> Float[Tensor, ""]:
    """The mean of `smoothed_cross_entropy` over two passes with other dropout, and how far they are apart.

    Sum over positions of alpha / 4 (KL(one || other) + KL(other || one)), in nats, is added: half of what Liang et al.
    2021 (2.2, formulas 2 and 4) write, so that two passes that agree have the loss of one.
    """
    p, q = one.log_softmax(dim=-1), other.log_softmax(dim=-1)
    apart = F.kl_div(q, p, reduction="sum", log_target=True) + F.kl_div(p, q, reduction="sum", log_target=True)
    both = smoothed_cross_entropy(one, targets, smoothing) + smoothed_cross_entropy(other, targets, smoothing)
    return both / 2 + alpha / 4 * apart


def loss_sum(
    states: Float[Tensor, "R D"],
    weight: Float[Tensor, "V D"],
    targets: Int[Tensor, " N"],
    smoothing: float,
    alpha: float | None = None,
    bias: Float[Tensor, " V"] | None = None,
    fused: Callable[..., tuple[Tensor, Tensor]] | None = None,
) -> Float[Tensor, ""]:
    """`smoothed_cross_entropy(states @ weight.T + bias, ...)` in chunks of rows; its gradient is made on the way.

    With `alpha`, `states` are those of two passes, all of the one and then all of the other (R = 2 N; else R = N), and
    this is their `r_drop_loss`. Under autocast the products are taken in its type; the softmax is always float32.
    `fused` is a compiled `loss_of_rows`, if there is one.
    """
    on = states.device.type
    product_type = torch.get_autocast_dtype(on) if torch.is_autocast_enabled(on) else states.dtype
    passes = (states[None] if alpha is None else states.unflatten(0, (2, -1))).contiguous()
    wanted, alpha = torch.is_grad_enabled(), alpha or 0.0
    fused = fused if wanted and len(passes) == 1 else None
    return _ChunkedLoss.apply(passes, weight, bias, targets, smoothing, alpha, product_type, wanted, fused)


def loss_of_rows(
    z: Float[Tensor, "R V"], bias: Float[Tensor, " V"] | None, targets: Int[Tensor, "R 1"], smoothing: float
) -> tuple[Float[Tensor, ""], Float[Tensor, "R V"]]:
    """`smoothed_cross_entropy` of some logits and its gradient by them, softmax - q: to be compiled into one pass."""
    logits = z.to(torch.promote_types(z.dtype, torch.float32))
    logits = logits if bias is None else logits + bias
    log_sum = logits.logsumexp(dim=1, keepdim=True)
    loss = log_sum - (1 - smoothing) * logits.gather(1, targets) - smoothing * logits.mean(dim=1, keepdim=True)
    on_target = (targets == torch.arange(z.shape[1], device=z.device)).to(logits.dtype)
    gradient = (logits - log_sum).exp() - smoothing / z.shape[1] - (1 - smoothing) * on_target
    return loss.sum(), gradient.to(z.dtype)


class _ChunkedLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, states, weight, bias, targets, smoothing, alpha, product_type, wanted, fused):
        passes, at_once = len(states), CHUNK if states.is_cpu else GPU_CHUNK
        with torch.autocast(states.device.type, enabled=False):
            w = weight.to(product_type)
            total = torch.zeros((), dtype=torch.promote_types(states.dtype, torch.float32), device=states.device)
            of_states = torch.empty_like(states) if wanted else None
            of_weight = torch.zeros_like(weight) if wanted else None
            of_bias = torch.zeros_like(bias) if wanted and bias is not None else None
            for first in range(0, len(targets), at_once // passes):
                rows = slice(first, first + at_once // passes)
                h, t = states[:, rows].flatten(0, 1).to(product_type), targets[rows, None].repeat(passes, 1)
                z = F.linear(h, w)
                loss, g = (
                    fused(z, bias, t, smoothing)
                    if fused
                    else loss_in_place(z, bias, t, smoothing, alpha, passes, wanted)
                )
                total += loss
                if g is None or of_states is None or of_weight is None:
                    continue
                if of_bias is not None:
                    of_bias += g.sum(dim=0, dtype=of_bias.dtype)
                g = g.to(product_type)
                of_states[:, rows] = (g @ w).unflatten(0, (passes, -1)).to(of_states.dtype)
                of_weight += g.T @ h
            ctx.save_for_backward(of_states, of_weight, of_bias)
            return total

    @staticmethod
    def backward(ctx, *of_total):
        of_states, of_weight, of_bias = (None if each is None else each * of_total[0] for each in ctx.saved_tensors)
        return of_states, of_weight, of_bias, None, None, None, None, None, None


def loss_in_place(
    z: Float[Tensor, "R V"],
    bias: Float[Tensor, " V"] | None,
    targets: Int[Tensor, "R 1"],
    smoothing: float,
    alpha: float,
    passes: int,
    wanted: bool,
) -> tuple[Float[Tensor, ""], Float[Tensor, "R V"] | None]:
    """The loss of one pass or two, and its gradient by the logits, if it is wanted, in the memory that those are in."""
    z = z.to(torch.promote_types(z.dtype, torch.float32))
    z = z if bias is None else z.add_(bias)
    p = z.softmax(dim=1)
    # log sum exp(z), read off the largest piece, whose probability cannot have vanished
    log_sum = z.amax(dim=1) - p.amax(dim=1).log()
    of_target = z.gather(1, targets).squeeze(1)
    loss = (log_sum - (1 - smoothing) * of_target - smoothing * z.mean(dim=1)).sum() / passes
    apart, of_apart = _symmetric_kl(p, z.sub_(log_sum[:, None]), alpha / 4, wanted) if passes == 2 else (0.0, None)
    if not wanted:
        return loss + apart, None
    # d loss / d logits = softmax - q
    p -= smoothing / p.shape[1]
    p.scatter_add_(1, targets, torch.full_like(targets, -(1 - smoothing), dtype=p.dtype))
    return loss + apart, p if of_apart is None else of_apart.add_(p, alpha=1 / passes)


def _symmetric_kl(
    p: Float[Tensor, "R V"], log_p: Float[Tensor, "R V"], scale: float, wanted: bool
) -> tuple[Float[Tensor, ""], Float[Tensor, "R V"] | None]:
    """scale (KL(a || b) + KL(b || a)), a the first half of the rows of `p` and b the other; its gradient by the logits.

    d KL(a || b) / d logits of a = a (log a - log b - KL(a || b)), and by those of b: b - a.
    """
    p = p.unflatten(0, (2, -1))
    a_over_b = torch.sub(*log_p.unflatten(0, (2, -1)))
    difference = torch.stack([a_over_b, -a_over_b])
    kl = (p * difference).sum(dim=2, keepdim=True)
    if not wanted:
        return scale * kl.sum(), None
    gradient = difference.sub_(kl).mul_(p).add_(p).sub_(p.flip(0)).mul_(scale)
    return scale * kl.sum(), gradient.flatten(0, 1)
