"""One update: teacher forcing, a loss summed over all parts and divided once, clipping, Adam."""

from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import nn

from pellucid.data.batching import Batch
from pellucid.data.tokenizer import PAD
from pellucid.model import Transformer
from pellucid.train.config import OptimConfig
from pellucid.train.loss import loss_sum


@dataclass(frozen=True)
class Update:
    """What one update did."""

    loss: float
    """Mean over the target tokens, label smoothing included, in nats."""
    target_tokens: int
    gradient_norm: float
    learning_rate: float

    @property
    def skipped(self) -> bool:
        """A gradient that was no number changed nothing."""
        return not self.gradient_norm < float("inf")


def update(
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    parts: list[Batch],
    rate: float,
    c: OptimConfig,
    precision: str,
) -> Update:
    """Change the weights once by the gradient of all `parts` together.

    The gradient of the sum over parts of loss / tokens of all parts is that of one large batch.
    """
    tokens = sum(part.target_tokens for part in parts)
    total = 0.0
    for part in parts:
        with products_in(precision, part.source.device):
            loss = batch_loss(model, part, c.label_smoothing)
        (loss / tokens).backward()
        total += loss.item()
    norm = nn.utils.clip_grad_norm_(model.parameters(), c.clip, foreach=True).item()
    done = Update(total / tokens, tokens, norm, rate)
    if not done.skipped:
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return done


def batch_loss(model: Transformer, batch: Batch, smoothing: float) -> torch.Tensor:
    """The summed loss of a batch: each target piece given the source and the pieces before it (teacher forcing)."""
    states = model.decode(batch.target_in, model.encode(batch.source))
    there = batch.target_out != PAD
    return loss_sum(states[there], model.output_embedding.weight, batch.target_out[there], smoothing)


def products_in(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """Matrix products in bfloat16 where asked; everything else, weights and sums among it, stays float32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16")
