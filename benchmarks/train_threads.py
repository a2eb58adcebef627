"""Two ways for an update to use several processors: threads that share each product, or threads that share the rows.

    python -m benchmarks.train_threads

One process trains one model both ways in turn on the same batches. Writes benchmarks/results/train-threads.md. Needs
PELLUCID_DATA.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Iterator
from itertools import islice
from unittest import mock

import torch

from benchmarks.quality import RESULTS, machine
from benchmarks.train import VOCABULARY, read_multi30k
from pellucid.data.batching import Batch, EncodedPairs
from pellucid.data.stream import Stream
from pellucid.model import PRESETS, ModelConfig, Transformer
from pellucid.train import threads
from pellucid.train.config import OptimConfig
from pellucid.train.optim import make_adam
from pellucid.train.process import tune_memory
from pellucid.train.update import update_weights

UPDATES = {"tiny": 4, "small": 3, "base": 1}
"""Updates of one turn, after one that is not timed."""
TOGETHER, EACH_PRODUCT = 1, 2**62
"""Target positions that are worth a thread, so that rows are shared always or never."""


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=list(UPDATES), choices=list(UPDATES))
    parser.add_argument("--budgets", nargs="+", type=int, default=[512, 1024, 2048, 4096])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    began = time.monotonic()
    encoded = read_multi30k()[1].encoded
    tune_memory()
    rows = []
    for size in options.sizes:
        for precision in ("bfloat16", "float32"):
            for budget in options.budgets:
                rows.append(row(size, precision, budget, encoded, options.rounds))
                print(rows[-1], file=sys.stderr, flush=True)
    text = "\n".join([*head(options, time.monotonic() - began), *rows]) + "\n"
    (RESULTS / "train-threads.md").write_text(text, encoding="utf-8")
    print(text)


def row(size: str, precision: str, budget: int, encoded: EncodedPairs, rounds: int) -> str:
    """Target pieces a second both ways, and the ratio within each round."""
    torch.manual_seed(1)
    model = Transformer(ModelConfig(VOCABULARY, VOCABULARY, dropout=0.1, **PRESETS[size])).train()
    c = OptimConfig()
    optimizer, stream = make_adam(model, c), Stream(encoded, budget, seed=1)
    speeds_by_least: dict[int, list[float]] = {TOGETHER: [], EACH_PRODUCT: []}
    for number in range(rounds):
        batches = list(islice(stream, 1 + UPDATES[size]))
        for least in list(speeds_by_least)[:: -1 if number % 2 else 1]:
            with mock.patch.object(threads, "POSITIONS_PER_THREAD", least):
                speeds_by_least[least].append(speed(model, optimizer, batches, c, precision))
    ratios = [
        shared_rows / other
        for shared_rows, other in zip(speeds_by_least[TOGETHER], speeds_by_least[EACH_PRODUCT], strict=True)
    ]
    speeds = [f"{statistics.median(speeds_by_least[least]):,.0f}" for least in (EACH_PRODUCT, TOGETHER)]
    ratio_text = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
    return f"| {size} | {precision} | {budget:,} | {' | '.join(speeds)} | {ratio_text} |"


def speed(
    model: Transformer, optimizer: torch.optim.Optimizer, batches: list[Batch], c: OptimConfig, precision: str
) -> float:
    """Target pieces a second, the first batch not counted."""
    update_weights(model, optimizer, batches[:1], 1e-4, c, precision)
    began = time.perf_counter()
    pieces = sum(update_weights(model, optimizer, [batch], 1e-4, c, precision).target_tokens for batch in batches[1:])
    return pieces / (time.perf_counter() - began)


def head(options: argparse.Namespace, took: float) -> Iterator[str]:
    """Yield the head of the page: the machine, the data and the columns."""
    arguments = f"--budgets {' '.join(map(str, options.budgets))} --rounds {options.rounds}"
    yield "# Threads that share each product, or the rows\n"
    yield f"    python -m benchmarks.train_threads --sizes {' '.join(options.sizes)} {arguments}\n"
    yield f"{machine()}, {torch.get_num_threads()} threads; {time.strftime('%Y-%m-%d')}, {took / 60:.0f} minutes."
    yield f"Multi30k en-de, joint vocabulary of {VOCABULARY:,} pieces, dropout 0.1; one process trains one model both"
    yield "ways in turn on the same batches. *products*: all threads work on one product, then on the next. *rows*:"
    yield "each has rows of the batch, and a gradient of its own; they are added (`train/threads.py`). Target pieces a"
    yield f"second: medians of {options.rounds} rounds; the ratio is taken within each: median (least-most). Training"
    yield f"shares rows where a batch has {threads.POSITIONS_PER_THREAD:,} target positions or more for each thread.\n"
    yield "| size | precision | batch | products | rows | rows / products |"
    yield "|---|---|---|---|---|---|"


if __name__ == "__main__":
    main()
