"""Training with fused operations beside training without: processor time, time and memory of an update.

    python -m benchmarks.fused [--rounds 5] [--page benchmarks/results/fused.md]

Both train the same model on the same made-up captions, each in a process of its own, and take turns: what else the
machine does slows both alike. The ratio is the median over the rounds.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import IO

from benchmarks.busy import VOCABULARY, example_batches
from benchmarks.quality import RESULTS, machine

JOBS = (
    ("tiny", 1024, "bfloat16", 12),
    ("small", 4096, "bfloat16", 3),
    ("base", 4096, "bfloat16", 2),
    ("tiny", 1024, "float32", 10),
    ("small", 4096, "float32", 3),
)
"""Size, target positions of a batch, precision, and updates of a turn."""

THREADS = (1, 2)
WAYS = ("always", "never")


@dataclass(frozen=True)
class Turn:
    """One turn of a process: its seconds for a target piece, and the most memory so far in MB."""

    processor: float
    wall: float
    memory: float


def main() -> None:
    """Measure every job and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="measure the jobs whose words contain this text")
    parser.add_argument("--page", type=Path, default=RESULTS / "fused.md")
    parser.add_argument("--worker", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(*options.worker)
        return

    rows = []
    for size, budget, precision, updates in JOBS:
        for threads in THREADS:
            job = f"{size} {budget} {precision} {threads}"
            if options.only in job:
                rows.append(measure(size, budget, precision, threads, updates, options.rounds))
                print(rows[-1], flush=True)

    head = (
        "# Fused operations in training",
        f"Made by `python -m benchmarks.fused --rounds {options.rounds}` on {machine()}.",
        "An update with the operations of `training/fused/kernels.c` and rounded numbers of rows beside one without, "
        "Muon, dropout 0.1, made-up captions of about 14 pieces. Each ratio is the median of rounds in which two "
        "processes took turns; in brackets the smallest and the largest. Above 1 means that fused is faster.",
        "| size, positions, precision | threads | processor time, times less | time, times less | pieces a second: "
        "without, with | peak memory in MB: without, with |\n|---|---|---|---|---|---|\n" + "\n".join(rows),
    )
    options.page.write_text("\n\n".join(head) + "\n", encoding="utf-8")


def measure(size: str, budget: int, precision: str, threads: int, updates: int, rounds: int) -> str:
    """Return the row of one job."""
    workers = {}
    for way in WAYS:
        command = [
            sys.executable,
            "-m",
            "benchmarks.fused",
            "--worker",
            way,
            size,
            str(budget),
            precision,
            str(threads),
        ]
        workers[way] = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    turns: dict[str, list[Turn]] = {way: [] for way in WAYS}
    for _ in range(rounds + 1):
        for way, worker in workers.items():
            assert worker.stdin is not None
            assert worker.stdout is not None
            turns[way].append(take_turn(worker.stdin, worker.stdout, updates))
    for worker in workers.values():
        worker.communicate()

    fused, plain = (turns[way][1:] for way in WAYS)  # the first turn sets things up
    processor = [other.processor / own.processor for own, other in zip(fused, plain, strict=True)]
    wall = [other.wall / own.wall for own, other in zip(fused, plain, strict=True)]
    cells = [
        f"{size}, {budget:,}, {precision}",
        str(threads),
        *(f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})" for ratios in (processor, wall)),
        f"{1 / median(turn.wall for turn in plain):,.0f}, {1 / median(turn.wall for turn in fused):,.0f}",
        f"{plain[-1].memory:,.0f}, {fused[-1].memory:,.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def take_turn(questions: IO[str], answers: IO[str], updates: int) -> Turn:
    """Let a worker make so many updates."""
    questions.write(f"{updates}\n")
    questions.flush()
    return Turn(**json.loads(answers.readline()))


def work(way: str, size: str, budget: str, precision: str, threads: str) -> None:
    """Make as many updates as each line of standard input says, and answer with what they took."""
    import torch

    from pellucid.model import PRESETS, ModelConfig, Transformer
    from pellucid.training.config import OptimConfig
    from pellucid.training.fused.choice import choose_kernels
    from pellucid.training.optimizer import make_optimizer
    from pellucid.training.process import tune_memory
    from pellucid.training.update import update_weights

    torch.set_num_threads(int(threads))
    tune_memory()
    torch.manual_seed(1)
    config, optim = ModelConfig(VOCABULARY, VOCABULARY, dropout=0.1, **PRESETS[size]), OptimConfig(kind="muon")
    model = Transformer(config).train()
    optimizer, batches = make_optimizer(model, optim), example_batches(budget)
    kernels = choose_kernels(way, precision, config, torch.device("cpu"), in_lockstep=False).kernels
    for line in sys.stdin:
        pieces, processor, wall = 0, time.process_time(), time.perf_counter()
        for _ in range(int(line)):
            batch = next(batches)
            result = update_weights(model, optimizer, [batch], 1e-3, optim, precision, kernels=kernels)
            pieces += result.target_tokens
        turn = {
            "processor": (time.process_time() - processor) / pieces,
            "wall": (time.perf_counter() - wall) / pieces,
            "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
        print(json.dumps(turn), flush=True)


if __name__ == "__main__":
    main()
