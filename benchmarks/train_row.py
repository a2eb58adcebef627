"""Run one row of benchmarks/train.py in a process of its own: train for some seconds and print one line of JSON.

    python -m benchmarks.train_row '{"peer": "hugging_face", "pairs": "pairs.npz", "size": {...}, ...}'

It runs in the virtual environment of the peer, which need not have Pellucid.
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.train_peers import (
    CLIP,
    EPSILON,
    Logits,
    Watcher,
    eole,
    hugging_face,
    nn_transformer,
    x_transformers,
)

WARM = 3
"""Number of updates that are not timed."""


class Clock:
    """Counts target pieces, without padding, from the fourth update on until the time is up."""

    def __init__(self, task: dict[str, Any]):
        self.task, self.updates, self.tokens = task, 0, 0
        self.first = self.start = self.end = 0.0

    def takes(self, model: nn.Module, logits: Logits) -> None:
        """Do nothing: speed needs no model."""

    def rate(self, update: int) -> float:
        return 1e-4

    def count_update(self, tokens: int) -> bool:
        """Count an update; return whether it was the last."""
        now, self.updates = time.time(), self.updates + 1
        # The first update is where everything is loaded and allocated.
        if self.updates == 1:
            self.first = now - self.task["started"]
        if self.updates == WARM:
            self.start = now
        elif self.updates > WARM:
            self.tokens += tokens
            self.end = now
        return self.updates > WARM + 1 and now - self.start > self.task["seconds"]

    def result(self) -> dict[str, float]:
        # Kilobytes on Linux, bytes on macOS.
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        return {"speed": self.tokens / (self.end - self.start), "first": self.first, "peak": peak}


def main(watcher: Callable[[dict[str, Any]], Any] = Clock) -> None:
    """Train as the task says, beside a watcher of it, and print the watcher's result."""
    task = json.loads(sys.argv[1])
    torch.set_num_threads(task["cores"])
    torch.manual_seed(task["seed"])
    training_watcher = watcher(task)
    ROWS[task["peer"]](task, training_watcher)
    print(json.dumps(training_watcher.result()))


def train_pellucid(task: dict[str, Any], watcher: Watcher) -> None:
    """Train with the updates of `pellucid train`."""
    from pellucid.data.batching import EncodedPairs, PackedSentences
    from pellucid.data.stream import Stream
    from pellucid.model import ModelConfig, Transformer
    from pellucid.train.config import OptimConfig
    from pellucid.train.optim import make_adam
    from pellucid.train.process import tune_memory
    from pellucid.train.update import update_weights

    # As every training process of Pellucid does first.
    tune_memory()
    with np.load(task["pairs"]) as arrays:
        sides = [PackedSentences(arrays[side], arrays[f"{side}_starts"]) for side in ("source", "target")]
    vocabulary = task["vocabulary"]
    model = Transformer(ModelConfig(vocabulary, vocabulary, dropout=0.1, **task["size"]))
    watcher.takes(model, model)
    model.train()
    c = OptimConfig(clip=CLIP, epsilon=EPSILON)
    optimizer, stream, number = (
        make_adam(model, c),
        Stream(EncodedPairs(*sides), task["batch_tokens"], seed=task["seed"]),
        0,
    )
    while not watcher.count_update(
        update_weights(model, optimizer, [next(stream)], watcher.rate(number), c, task["precision"]).target_tokens
    ):
        number += 1


ROWS: dict[str, Callable[[dict[str, Any], Watcher], None]] = {
    "pellucid": train_pellucid,
    "nn_transformer": nn_transformer,
    "x_transformers": x_transformers,
    "hugging_face": hugging_face,
    "eole": eole,
}

if __name__ == "__main__":
    main()
