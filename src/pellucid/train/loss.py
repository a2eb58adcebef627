"""Label-smoothed cross-entropy, written twice: as the formula, and so that the logits are never held at once.

Losses travel as a sum; the caller divides once, by the tokens of all parts and workers.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

CHUNK = 512
"""Rows whose logits exist at a time: enough for a full-speed product, few enough to stay in the cache."""


def smoothed_cross_entropy(
    logits: Float[Tensor, "N V"], targets: Int[Tensor, " N"], smoothing: float
) -> Float[Tensor, ""]:
    """Sum over positions of -sum_v q(v) log softmax(logits)(v), in nats (paper, 5.4; Szegedy et al. 2016, 7).

    q puts 1 - smoothing on the target and spreads the rest evenly over the whole vocabulary, target included.
    """
    log_probs = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)
    of_target = log_probs.gather(1, targets[:, None]).squeeze(1)
    return -((1 - smoothing) * of_target + smoothing * log_probs.mean(dim=-1)).sum()


def loss_sum(
    states: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    targets: Int[Tensor, " N"],
    smoothing: float,
) -> Float[Tensor, ""]:
    """`smoothed_cross_entropy(states @ weight.T, ...)` in chunks of rows; its gradient is made on the way.

    Under autocast the products are taken in its type; the softmax is always float32.
    """
    on = states.device.type
    product_type = torch.get_autocast_dtype(on) if torch.is_autocast_enabled(on) else states.dtype
    return _Chunked.apply(states, weight, targets, smoothing, product_type, torch.is_grad_enabled())


class _Chunked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, states, weight, targets, smoothing, product_type, wanted):
        with torch.autocast(states.device.type, enabled=False):
            w = weight.to(product_type)
            total = torch.zeros((), dtype=torch.promote_types(states.dtype, torch.float32), device=states.device)
            of_states = torch.empty_like(states) if wanted else None
            of_weight = torch.zeros_like(weight) if wanted else None
            for first in range(0, len(targets), CHUNK):
                rows = slice(first, first + CHUNK)
                h, t = states[rows].to(product_type), targets[rows, None]
                z = F.linear(h, w).to(total.dtype)
                p = z.softmax(dim=1)
                # log sum exp(z), read off the largest piece, whose probability cannot have vanished
                log_sum = z.amax(dim=1) - p.amax(dim=1).log()
                of_target = z.gather(1, t).squeeze(1)
                total += (log_sum - (1 - smoothing) * of_target - smoothing * z.mean(dim=1)).sum()
                if of_states is not None and of_weight is not None:
                    # d loss / d logits = softmax - q
                    p -= smoothing / p.shape[1]
                    p.scatter_add_(1, t, torch.full_like(t, -(1 - smoothing), dtype=p.dtype))
                    g = p.to(product_type)
                    of_states[rows] = g @ w
                    of_weight += g.T @ h
            ctx.save_for_backward(of_states, of_weight)
            return total

    @staticmethod
    def backward(ctx, *of_total):
        of_states, of_weight = ctx.saved_tensors
        return of_states * of_total[0], of_weight * of_total[0], None, None, None, None
