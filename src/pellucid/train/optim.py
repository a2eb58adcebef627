"""The learning rate as a function of the step, the rise of dropout, and Adam (paper, 5.3 and 5.4)."""

import torch
from torch import nn

from pellucid.train.config import OptimConfig


def learning_rate(step: int, progress: float, c: OptimConfig) -> float:
    """The rate of update number `step`, counted from 0, when `progress` (0 to 1) of the run is over.

    Up in a straight line for `warmup` updates, then down: as 1 / sqrt(step), the paper's formula with its peak named
    instead of implied (peak = (d_model * warmup)^-0.5 there), or in a straight line to zero at the end of the run. The
    straight line is fitted to the run at its other end, too: the rise takes a fifth of it at the most.

    >>> c = OptimConfig(peak=1.0, warmup=4)
    >>> [learning_rate(step, 0.0, c) for step in (0, 1, 3, 15)]
    [0.25, 0.5, 1.0, 0.5]
    """
    rise = (step + 1) / c.warmup
    if c.schedule == "linear":
        rise = max(rise, progress / 0.2)
        return c.peak * min(rise, 1.0) * max(0.0, 1.0 - progress)
    return c.peak * min(rise, rise**-0.5)


def dropout_factor(epochs: float, c: OptimConfig) -> float:
    """The part (0 to 1) of the model's dropout that is there after so many epochs: from nothing, in a straight line.

    >>> [dropout_factor(epochs, OptimConfig(dropout_rise=4.0)) for epochs in (0.0, 1.0, 4.0, 9.0)]
    [0.0, 0.25, 1.0, 1.0]
    """
    return min(epochs / c.dropout_rise, 1.0) if c.dropout_rise else 1.0


def make_adam(model: nn.Module, c: OptimConfig) -> torch.optim.Adam:
    """Adam over all weights, in one fused pass."""
    return torch.optim.Adam(model.parameters(), lr=0.0, betas=(c.beta1, c.beta2), eps=c.epsilon, fused=True)
