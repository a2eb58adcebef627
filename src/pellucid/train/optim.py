"""The learning rate as a function of the step, the warm-up of dropout, and Adam (paper, 5.3 and 5.4)."""

import torch
from torch import nn

from pellucid.train.config import OptimConfig


def learning_rate(step: int, progress: float, c: OptimConfig) -> float:
    """Return the learning rate of update number `step`, counted from 0, when `progress` (0 to 1) of the run is over.

    It rises in a straight line for `warmup` updates. After that it falls, either as 1 / sqrt(step), which is the
    paper's formula with its peak named instead of implied (peak = (d_model * warmup)^-0.5 there), or in a straight line
    to zero at the end of the run.

    >>> c = OptimConfig(peak=1.0, warmup=4)
    >>> [learning_rate(step, 0.0, c) for step in (0, 1, 3, 15)]
    [0.25, 0.5, 1.0, 0.5]
    """
    warmup_factor = (step + 1) / c.warmup
    if c.schedule == "linear":
        # A short run would end before its warm-up does: the rise takes a fifth of the run at most.
        warmup_factor = max(warmup_factor, progress / 0.2)
        # By progress and not by steps, for a run that is given minutes does not know its number of steps.
        return c.peak * min(warmup_factor, 1.0) * max(0.0, 1.0 - progress)
    # The two curves cross at the peak, where both are 1.
    return c.peak * min(warmup_factor, warmup_factor**-0.5)


def dropout_factor(epochs: float, c: OptimConfig) -> float:
    """Return the share (0 to 1) of the model's dropout that applies after so many epochs: a straight rise from nothing.

    >>> [dropout_factor(epochs, OptimConfig(dropout_rise=4.0)) for epochs in (0.0, 1.0, 4.0, 9.0)]
    [0.0, 0.25, 1.0, 1.0]
    """
    return min(epochs / c.dropout_rise, 1.0) if c.dropout_rise else 1.0


def make_adam(model: nn.Module, c: OptimConfig) -> torch.optim.Adam:
    """Return Adam over all parameters of the model."""
    # lr is set before each step from `learning_rate`; fused updates all parameters in one pass over them.
    return torch.optim.Adam(model.parameters(), lr=0.0, betas=(c.beta1, c.beta2), eps=c.epsilon, fused=True)
