"""Two ways for an update to use two processors: threads that share each product, or threads that share the rows.

    python -m benchmarks.train_threads [--rounds 9] [--page benchmarks/results/train-threads.md]

One process trains one model in both ways, in turns, on made-up captions, with the operations that `pellucid train`
would choose. Adds a table to the page.
"""

import argparse
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

import torch

from benchmarks.busy import VOCABULARY, example_batches
from benchmarks.quality import RESULTS, machine
from pellucid.model import PRESETS, ModelConfig, Transformer
from pellucid.training import update
from pellucid.training.config import OptimConfig
from pellucid.training.fused.choice import choose_kernels
from pellucid.training.optimizer import make_optimizer
from pellucid.training.process import tune_memory

JOBS = (("tiny", "bfloat16", 8192), ("small", "bfloat16", 3000), ("tiny", "float32", 8192))
"""Size, precision, and target positions of a turn."""
BUDGETS = (512, 768, 1024, 1536, 2048, 4096)
ROWS, PRODUCTS = 1, 2**62
"""Target positions that are worth a thread, so that rows are shared always or never."""


def main() -> None:
    """Measure and add a table to the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--page", type=Path, default=RESULTS / "train-threads.md")
    options = parser.parse_args()
    tune_memory()
    rows = ["| size | precision | batch | products | rows | rows / products |", "|---|---|---|---|---|---|"]
    for size, precision, positions in JOBS:
        for budget in BUDGETS:
            rows.append(measure(size, precision, budget, max(3, positions // budget), options.rounds))
            print(rows[-1], flush=True)
    head = f"\n## {machine()}, {torch.get_num_threads()} threads; {time.strftime('%Y-%m-%d')}\n\n"
    with options.page.open("a", encoding="utf-8") as page:
        page.write(head + "\n".join(rows) + "\n")


def measure(size: str, precision: str, budget: int, updates: int, rounds: int) -> str:
    """Return the row of one model and one size of batches."""
    torch.manual_seed(1)
    config, optim = ModelConfig(VOCABULARY, VOCABULARY, dropout=0.1, **PRESETS[size]), OptimConfig(kind="muon")
    model = Transformer(config).train()
    optimizer = make_optimizer(model, optim)
    kernels = choose_kernels("auto", precision, config, torch.device("cpu"), in_lockstep=False).kernels
    # The same batches again and again: what sets up a product of a new shape is not timed.
    batches: Iterator[Any] = cycle(islice(example_batches(str(budget)), 2 * updates))

    def speed(least: int) -> float:
        """Return target pieces a second."""
        with mock.patch.dict(update.POSITIONS_PER_THREAD, {precision: least, "fused": least}):
            began, pieces = time.perf_counter(), 0
            for batch in islice(batches, updates):
                result = update.update_weights(model, optimizer, [batch], 1e-3, optim, precision, kernels=kernels)
                pieces += result.target_tokens
        return pieces / (time.perf_counter() - began)

    for least in (PRODUCTS, ROWS, PRODUCTS, ROWS):
        speed(least)
    speeds = [(speed(PRODUCTS), speed(ROWS)) for _ in range(rounds)]
    ratios = [rows / products for products, rows in speeds]
    cells = [size, precision, f"{budget:,}", *(f"{median(way):,.0f}" for way in zip(*speeds, strict=True))]
    return f"| {' | '.join(cells)} | {median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f}) |"


if __name__ == "__main__":
    main()
