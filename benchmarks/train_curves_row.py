"""One run of benchmarks/train_curves.py, in a process of its own: trains by count and prints one line of JSON.

It trains as the rows of benchmarks/train.py do, with the same code, and measures the loss of held-out pairs on the way.
"""

import sys
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.train_peers import PADDING, Logits, Plain, pad, read_pairs, shift_right
from benchmarks.train_row import main

ROWS_AT_ONCE = 64


class Curve:
    """The loss of held-out pairs before the first update and after every so many."""

    model: nn.Module
    logits: Logits

    def __init__(self, task: dict[str, Any]):
        self.task, self.updates, self.tokens = task, 0, 0
        self.dev = by_length(*read_pairs({"pairs": task["dev"]}))
        self.losses: list[float] = []

    def takes(self, model: nn.Module, logits: Logits) -> None:
        """The model begins with the weights of the task, where it can hold them."""
        self.model, self.logits = model, logits
        if self.task["start"]:
            with np.load(self.task["start"]) as weights:
                begin_with(model, {name: torch.from_numpy(weights[name]) for name in weights})
        self.losses.append(self.loss())

    def rate(self, update: int) -> float:
        """Up in a straight line for `warmup` updates, then down as 1 / sqrt(update)."""
        rise = (update + 1) / self.task["warmup"]
        return self.task["peak"] * min(rise, rise**-0.5)

    def count_update(self, tokens: int) -> bool:
        self.updates, self.tokens = self.updates + 1, self.tokens + tokens
        if self.updates % self.task["every"] == 0:
            self.losses.append(self.loss())
            print(
                self.task["peer"], self.task["precision"], self.task["seed"], self.losses, file=sys.stderr, flush=True
            )
        return self.updates >= self.task["updates"]

    def loss(self) -> float:
        """Cross-entropy of the held-out target pieces, in nats a piece: float32, no dropout, no label smoothing."""
        training = self.model.training
        self.model.eval()
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            total = sum(
                F.cross_entropy(
                    self.logits(source, shift_right(target)).flatten(0, 1).double(),
                    target.flatten(),
                    ignore_index=PADDING,
                    reduction="sum",
                ).item()
                for source, target in self.dev
            )
        self.model.train(training)
        return total / sum(int((target != PADDING).sum()) for _, target in self.dev)

    def result(self) -> dict[str, Any]:
        return {"losses": self.losses, "tokens": self.tokens / self.updates}


def by_length(sources: list[Any], targets: list[Any]) -> list[tuple[Tensor, Tensor]]:
    """Held-out pairs in padded rectangles."""
    order = sorted(range(len(targets)), key=lambda i: len(targets[i]))
    cut = [order[first : first + ROWS_AT_ONCE] for first in range(0, len(order), ROWS_AT_ONCE)]
    sides = [[torch.from_numpy(pad([side[i] for i in rows])) for rows in cut] for side in (sources, targets)]
    return list(zip(*sides, strict=True))


def begin_with(model: nn.Module, weights: dict[str, Tensor]) -> None:
    """Our weights, into ours or into torch's own, which calls them otherwise."""
    if not isinstance(model, Plain):
        model.load_state_dict(weights)
        return
    names = [(f"inner.{stack}.norm", f"{stack}_norm") for stack in ("encoder", "decoder")]
    for name in {name.rpartition(".")[0] for name in weights if name.split(".")[0] in ("encoder", "decoder")}:
        stack, layer, *parts = name.split(".")
        theirs = PARTS[stack][".".join(parts)]
        names.append((f"inner.{stack}.layers.{layer}.{theirs}", name))
    renamed = {
        f"{theirs}{'_' if theirs.endswith('in_proj') else '.'}{kind}": weights[f"{ours}.{kind}"]
        for theirs, ours in names
        for kind in ("weight", "bias")
    }
    table = {"table.weight": weights["output_embedding.weight"]}
    missing, unexpected = model.load_state_dict(renamed | table, strict=False)
    assert not unexpected, unexpected
    assert missing == ["positions"], missing


ENCODER = {
    "self.qkv": "self_attn.in_proj",
    "self.output": "self_attn.out_proj",
    "self_residual.norm": "norm1",
    "ffn.inner": "linear1",
    "ffn.outer": "linear2",
    "ffn_residual.norm": "norm2",
}
PARTS = {
    "encoder": ENCODER,
    "decoder": ENCODER
    | {
        "cross.qkv": "multihead_attn.in_proj",
        "cross.output": "multihead_attn.out_proj",
        "cross_residual.norm": "norm2",
        "ffn_residual.norm": "norm3",
    },
}


if __name__ == "__main__":
    main(Curve)
