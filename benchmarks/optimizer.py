"""Time one step of Muon, of PyTorch's own Muon and of Adam, and the whole update that it is a part of.

    python -m benchmarks.optimizer        # a few minutes; needs no data

One thread; the optimizers take turns, update by update, on the same batch of made-up pairs. Processor time, so that
other work on the machine counts less. Writes benchmarks/results/optimizer.md.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
import torch

from benchmarks.quality import RESULTS, machine
from pellucid.data.batching import Batch, EncodedPairs, PackedSentences, collate
from pellucid.model import PRESETS, ModelConfig, Transformer
from pellucid.processor import has_native_bfloat16
from pellucid.train.config import OptimConfig
from pellucid.train.optimizer import Optimizer, make_optimizer, matrix_blocks
from pellucid.train.update import update_weights

WARM_UP, UPDATES = 3, 25
VOCABULARY, FIRST_WORD = 8_000, 4  # the ids below are special tokens
LENGTH = 16  # pieces of each made-up sentence
# Target positions of an update, by the size of the model: those that training from two files chooses.
POSITIONS = {"tiny": 1_024, "small": 4_096}
ADAM, OURS, PYTORCH = "Adam", "Muon", "PyTorch's Muon and Adam"


class PyTorchMuon:
    """PyTorch's Muon for the matrices inside the layers and its Adam for all other weights."""

    def __init__(self, model: Transformer, c: OptimConfig) -> None:
        matrices = list(matrix_blocks(model))
        inside = set(matrices)
        others = [parameter for parameter in model.parameters() if parameter not in inside]
        self.optimizers = (
            torch.optim.Muon(matrices, lr=c.peak, weight_decay=c.weight_decay, adjust_lr_fn="match_rms_adamw"),
            torch.optim.Adam(others, lr=c.peak, betas=(c.beta1, c.beta2), eps=c.epsilon, fused=True),
        )
        self.param_groups = [group for optimizer in self.optimizers for group in optimizer.param_groups]
        self.state: dict[Any, Any] = {}

    def step(self) -> None:
        """Change all weights once, by their gradients."""
        for optimizer in self.optimizers:
            optimizer.step()


def make_adam(model: Transformer, c: OptimConfig) -> Optimizer:
    """Return our Adam for all weights."""
    return make_optimizer(model, OptimConfig(kind="adam", peak=c.peak))


OPTIMIZERS: dict[str, Callable[[Transformer, OptimConfig], Optimizer]] = {
    ADAM: make_adam,
    OURS: make_optimizer,
    PYTORCH: PyTorchMuon,
}


@dataclass
class Training:
    """A model with its optimizer, and the milliseconds of each whole update and of each step."""

    model: Transformer
    optimizer: Optimizer
    updates: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)

    def update(self, batch: Batch, c: OptimConfig, precision: str) -> None:
        """Make one update and note what it took."""
        step = self.optimizer.step

        def timed_step() -> None:
            start = time.process_time()
            step()
            self.steps.append((time.process_time() - start) * 1e3)

        with mock.patch.object(self.optimizer, "step", timed_step):
            start = time.process_time()
            update_weights(self.model, self.optimizer, [batch], c.peak, c, precision)
            self.updates.append((time.process_time() - start) * 1e3)


def main() -> None:
    """Measure each size in each precision and write the page."""
    torch.set_num_threads(1)
    precisions = ("float32", "bfloat16") if has_native_bfloat16(torch.device("cpu")) else ("float32",)
    lines = [
        "# What a step of the optimizer costs\n",
        f"Made by `python -m benchmarks.optimizer` on {machine()}, one thread.",
        f"Processor milliseconds, medians of {UPDATES} updates made in turns. The step is that of all weights, Adam's "
        "for the embeddings included. Share: the median of the step's part of its update.\n",
        "| size | target positions | products | optimizer | update | its step | share |",
        "|---|---|---|---|---|---|---|",
    ]
    for size, positions in POSITIONS.items():
        for precision in precisions:
            for name, training in measure(size, positions, precision).items():
                share = statistics.median(
                    step / whole for step, whole in zip(training.steps, training.updates, strict=True)
                )
                update, step = statistics.median(training.updates), statistics.median(training.steps)
                lines.append(
                    f"| {size} | {positions:,} | {precision} | {name} | {update:.1f} | {step:.1f} | {share:.1%} |"
                )
                print(lines[-1], flush=True)
    (RESULTS / "optimizer.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def measure(size: str, positions: int, precision: str) -> dict[str, Training]:
    """Return each optimizer's training after the timed updates."""
    c, batch = OptimConfig(kind="muon", weight_decay=0.1), make_batch(positions)
    trainings = {}
    for name, make in OPTIMIZERS.items():
        torch.manual_seed(1)
        model = Transformer(ModelConfig(VOCABULARY, VOCABULARY, **PRESETS[size])).train()
        trainings[name] = Training(model, make(model, c))
    for number in range(WARM_UP + UPDATES):
        for training in trainings.values():
            training.update(batch, c, precision)
            if number < WARM_UP:
                training.updates.clear()
                training.steps.clear()
    return trainings


def make_batch(positions: int) -> Batch:
    """Return a batch of made-up pairs with so many target positions."""
    generator, pairs = np.random.default_rng(1), positions // LENGTH
    starts = np.arange(pairs + 1) * LENGTH
    source, target = (
        PackedSentences(generator.integers(FIRST_WORD, VOCABULARY, positions), starts) for _ in ("source", "target")
    )
    return collate(EncodedPairs(source, target), np.arange(pairs))


if __name__ == "__main__":
    main()
