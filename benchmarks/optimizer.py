"""Time one step of Muon, of PyTorch's own Muon and of Adam, and the whole update that it is a part of.

    python -m benchmarks.optimizer        # a few minutes; needs no data

One thread; the optimizers take turns, update by update, on the same batch of made-up pairs. Processor time, so that
other work on the machine counts less. Writes benchmarks/results/optimizer.md.
"""

import time
from collections.abc import Callable, Iterable
from statistics import median

import torch

from benchmarks.busy import VOCABULARY, example_batches
from benchmarks.quality import RESULTS, machine
from benchmarks.race_row import make_optimizers
from pellucid.cpu import has_native_bfloat16
from pellucid.model import PRESETS, ModelConfig, Transformer
from pellucid.training.config import OptimConfig
from pellucid.training.defaults import SCALES
from pellucid.training.optimizer import Optimizer, make_optimizer
from pellucid.training.update import update_weights

WARM_UP, UPDATES = 3, 25
# Target positions of an update, by the size of the model, as training from two files chooses them.
POSITIONS = {scale.size: scale.batch_tokens for scale in SCALES if scale.size in ("tiny", "small")}
ADAM, MUON = OptimConfig(), OptimConfig(kind="muon", weight_decay=0.1)
PYTORCH = {"optimizer": "muon", "vocabulary": VOCABULARY, "rate": MUON.peak}
OPTIMIZERS: dict[str, Callable[[Transformer], Iterable[Optimizer]]] = {
    "Adam": lambda model: [make_optimizer(model, ADAM)],
    "Muon": lambda model: [make_optimizer(model, MUON)],
    "PyTorch's Muon and Adam": lambda model: make_optimizers(PYTORCH, model),
}


class TimedOptimizer:
    """Optimizers that share a model's weights, as one; it notes how long its last step took."""

    def __init__(self, optimizers: Iterable[Optimizer]):
        self.optimizers, self.milliseconds = list(optimizers), 0.0
        self.param_groups = [group for optimizer in self.optimizers for group in optimizer.param_groups]
        self.state = None

    def step(self) -> None:
        """Change all weights once, by their gradients."""
        start = time.process_time()
        for optimizer in self.optimizers:
            optimizer.step()
        self.milliseconds = (time.process_time() - start) * 1e3


def main() -> None:
    """Measure each size in each precision and write the page."""
    torch.set_num_threads(1)
    precisions = ("float32", "bfloat16") if has_native_bfloat16(torch.device("cpu")) else ("float32",)
    lines = [
        "# What a step of the optimizer costs\n",
        f"Made by `python -m benchmarks.optimizer` on {machine()}, one thread.",
        f"Processor milliseconds, medians of {UPDATES} updates made in turns. The step is that of all weights, Adam's "
        "for the embeddings included. Share: the median of the step's part of its update.\n",
        "| size | target positions, at most | products | optimizer | update | its step | share |",
        "|---|---|---|---|---|---|---|",
    ]
    for size, positions in POSITIONS.items():
        for precision in precisions:
            for name, times in measure(size, positions, precision).items():
                update, step = (median(column) for column in zip(*times, strict=True))
                share = median(step / update for update, step in times)
                lines.append(
                    f"| {size} | {positions:,} | {precision} | {name} | {update:.1f} | {step:.1f} | {share:.1%} |"
                )
                print(lines[-1], flush=True)
    (RESULTS / "optimizer.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def measure(size: str, positions: int, precision: str) -> dict[str, list[tuple[float, float]]]:
    """Return, for each optimizer, the milliseconds of each update and of the step in it."""
    batch = next(iter(example_batches(str(positions))))
    trainings = {}
    for name, make in OPTIMIZERS.items():
        torch.manual_seed(1)
        model = Transformer(ModelConfig(VOCABULARY, VOCABULARY, **PRESETS[size])).train()
        trainings[name] = model, TimedOptimizer(make(model))
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in trainings}
    for _ in range(WARM_UP + UPDATES):
        for name, (model, optimizer) in trainings.items():
            start = time.process_time()
            update_weights(model, optimizer, [batch], MUON.peak, MUON, precision)
            times[name].append(((time.process_time() - start) * 1e3, optimizer.milliseconds))
    return {name: rows[WARM_UP:] for name, rows in times.items()}


if __name__ == "__main__":
    main()
