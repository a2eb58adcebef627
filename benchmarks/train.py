"""Training beside its peers on equal pairs, sizes and batches: pieces per second, memory, time to the first update.

    make bench-train        # or: python -m benchmarks.train --sizes base --page train-base.md

Writes benchmarks/results/train.md. Every row runs in a process of its own, the peers' in a virtual environment that is
made once under runs/peers; all rows run once before any runs again.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.quality import HOUSE, machine
from benchmarks.translate import make_environment
from pellucid.data.batching import EncodedPairs
from pellucid.model import PRESETS, ModelConfig
from pellucid.training.config import read_run
from pellucid.training.data import read_data
from pellucid.workflows.plan.estimate import training_flops

RECIPE, VOCABULARY, BATCH = HOUSE / "recipes/multi30k-en-de.toml", 8000, 4096
PACKAGES = {
    "train": ("torch==2.13.0", "transformers==5.23.0", "accelerate==1.15.0", "x-transformers==2.31.10"),
    "eole": ("torch==2.13.0", "eole==0.6.4", "aiohttp==3.14.5"),
}
"""Virtual environments under runs/peers, with the packages installed in them."""


PRECISIONS = ("float32", "bfloat16")


@dataclass(frozen=True)
class Row:
    """A way to train: a peer, or Pellucid, in a precision."""

    name: str
    peer: str
    precision: str
    environment: str = "train"

    @property
    def is_ours(self) -> bool:
        """Whether the row is Pellucid's."""
        return self.peer == "pellucid"

    def is_peer_in(self, precision: str) -> bool:
        """Whether the row is a peer's, in this precision."""
        return not self.is_ours and self.precision == precision


ROWS = [
    Row(*names, precision, *where)
    for names, where in (
        (("Hugging Face `Seq2SeqTrainer`", "hugging_face"), ()),
        (("`torch.nn.Transformer` in a loop", "nn_transformer"), ()),
        (("x-transformers in a loop", "x_transformers"), ()),
        (("`eole train`", "eole"), ("eole",)),
        (("Pellucid", "pellucid"), ("",)),
    )
    for precision in PRECISIONS
]

Rounds = dict[str, dict[Row, list[dict[str, float] | str]]]
"""For each size and row, the numbers of each round, or the reason why there are none."""


def main() -> None:
    """Measure every row and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["tiny", "small"], choices=list(PRESETS))
    parser.add_argument("--seconds", type=float, default=12.0, help="timed, of each row")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--precisions", nargs="+", default=list(PRECISIONS), choices=PRECISIONS)
    parser.add_argument("--page", default="train.md", help="the file under benchmarks/results/")
    options = parser.parse_args()
    start = time.monotonic()
    # Environments are made before anything is timed.
    pythons = {"": Path(sys.executable)} | {
        name: make_environment(name, packages) for name, packages in PACKAGES.items()
    }
    with tempfile.TemporaryDirectory() as folder:
        task, lengths = prepare_data(Path(folder))
        peaks = {kind: product_peak(getattr(torch, kind)) for kind in options.precisions}
        rows = [row for row in ROWS if row.precision in options.precisions]
        rounds: Rounds = {size: {row: [] for row in rows} for size in options.sizes}
        # All rows once before any runs again: a drift of the machine's speed then meets all of them.
        for _ in range(options.rounds):
            for size in options.sizes:
                for row in rows:
                    row_task = {**task, "size": dict(PRESETS[size]), "seconds": options.seconds, "seed": 1}
                    rounds[size][row].append(measure_row(row, row_task, pythons[row.environment]))
                    print(size, row.name, row.precision, rounds[size][row][-1], file=sys.stderr, flush=True)
    text = make_page(options, rounds, peaks, lengths, time.monotonic() - start)
    (HOUSE / "benchmarks/results" / options.page).write_text(text, encoding="utf-8")
    print(text)


def prepare_data(folder: Path) -> tuple[dict[str, Any], tuple[float, float]]:
    """Write Multi30k as ids to files that every row reads; return the task, and the mean lengths of the two sides."""
    data = read_data(read_run(RECIPE, [f"tokenizer.vocabulary={VOCABULARY}"]))
    write_pairs(folder / "pairs.npz", data.encoded)
    task = {
        "pairs": str(folder / "pairs.npz"),
        "scratch": str(folder / "scratch"),
        "vocabulary": data.tokenizer.target_vocabulary,
        "batch_tokens": BATCH,
        "cores": torch.get_num_threads(),
    }
    sides = data.encoded.sources, data.encoded.targets
    return task, (float(sides[0].lengths.mean()), float(sides[1].lengths.mean()))


def write_pairs(path: Path, encoded: EncodedPairs) -> None:
    """Write pairs as four arrays."""
    sources, targets = encoded.sources, encoded.targets
    np.savez(path, source=sources.ids, source_starts=sources.starts, target=targets.ids, target_starts=targets.starts)


def measure_row(row: Row, task: dict[str, Any], python: Path) -> dict[str, float] | str:
    """Run a row in a process of its own; return its numbers, or the last line of the error of a peer that fails."""
    arguments = json.dumps({**task, "peer": row.peer, "precision": row.precision, "started": time.time()})
    # The time of the start goes along, so that the row can tell how long imports took.
    command = [python, "-W", "ignore", "-m", "benchmarks.train_row", arguments]
    process = subprocess.run(command, cwd=HOUSE, capture_output=True, text=True, check=False)
    if process.returncode == 0:
        return json.loads(process.stdout.splitlines()[-1])
    # A peer may fail, and the page says so; Pellucid must not.
    if row.is_ours:
        raise RuntimeError(f"{row.name}, {row.precision}: {process.stderr[-2000:]}")
    return (process.stderr.strip().splitlines() or [f"exit code {process.returncode}"])[-1][:200]


def product_peak(kind: torch.dtype, n: int = 2048) -> float:
    """Return the floating-point operations per second of a large matrix product in this process."""
    a, b = torch.randn(n, n, dtype=kind), torch.randn(n, n, dtype=kind)
    times = []
    for _ in range(6):
        began = time.perf_counter()
        a @ b
        times.append(time.perf_counter() - began)
    # The fastest of six: the others waited for other programs, or for memory to be touched first.
    return 2 * n**3 / min(times)


def make_page(
    options: argparse.Namespace,
    rounds: Rounds,
    peaks: dict[str, float],
    lengths: tuple[float, float],
    seconds: float,
) -> str:
    """Return the results as Markdown."""
    arguments = f"--sizes {' '.join(options.sizes)} --seconds {options.seconds:g} --rounds {options.rounds}"
    arguments += f" --precisions {' '.join(options.precisions)}" if options.precisions != list(PRECISIONS) else ""
    arguments += f" --page {options.page}" if options.page != "train.md" else ""
    packages = dict.fromkeys(package for environment in PACKAGES.values() for package in environment)
    lines = [
        "# Training beside its peers",
        "",
        f"    python -m benchmarks.train {arguments}",
        "",
        f"{machine()}, {torch.get_num_threads()} threads; {time.strftime('%Y-%m-%d')}, {seconds / 60:.0f} minutes.",
        f"Peers: {', '.join(packages)}.",
        "",
        f"Multi30k en-de, joint vocabulary of {VOCABULARY:,} pieces, about {BATCH:,} target pieces a batch, dropout",
        "0.1, label smoothing 0.1, Adam, gradients of norm 1 at most, norm before each sublayer (Marian: after).",
        "Speed is in target pieces a second, without padding, after three updates that are not counted: the median of",
        "the rounds and (least-most). *best peer*: ratio to the fastest peer, in float32 and in bfloat16, in a round.",
        "*of the peak*: the operations of useful pieces (three times those of a forward pass without padding,",
        "`pellucid.workflows.plan.estimate.training_flops`) as a share of those that a large "
        "matrix product makes in the same",
        "time and precision, which was",
        f"{' and '.join(f'{peak / 1e9:,.0f} ({kind})' for kind, peak in peaks.items())} GFLOP/s here. *first*: the",
        "time from the start of the process to the end of the first update; the pairs were cut into pieces before.",
        "",
        "[train-curves.md](train-curves.md) shows that Pellucid learns as much in an update with all that makes it",
        "fast, and [train-levers.md](train-levers.md) shows how much each of these things gives.",
        "",
    ]
    for size, rows in rounds.items():
        c = ModelConfig(VOCABULARY, VOCABULARY, **PRESETS[size])
        # Of a pair of mean lengths, per target piece: padding is no useful work.
        flops = training_flops(c, round(lengths[0]), round(lengths[1])) / round(lengths[1])
        lines += [f"## {size}: {flops / 1e6:.1f} MFLOP a target piece", "", *table_lines(rows, flops, peaks), ""]
    return "\n".join(lines)


def table_lines(rows: dict[Row, list[dict[str, float] | str]], flops: float, peaks: dict[str, float]) -> list[str]:
    """Return the rows of one size; those that failed are named below the table."""
    numbers = {row: [result for result in rounds if not isinstance(result, str)] for row, rounds in rows.items()}
    failed = {
        row: next(result for result in rows[row] if isinstance(result, str))
        for row in rows
        if len(numbers[row]) < len(rows[row])
    }
    # The fastest peer of each round; a peer that failed in any round is out.
    best = {
        precision: [
            max(
                (
                    rounds[n]["speed"]
                    for row, rounds in numbers.items()
                    if row not in failed and row.is_peer_in(precision)
                ),
                default=math.nan,
            )
            for n in range(len(next(iter(rows.values()))))
        ]
        for precision in PRECISIONS
    }
    lines = [
        "| | precision | pieces/s | best peer, float32 | in bfloat16 | of the peak | first, s | peak memory, GB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row, rounds in numbers.items():
        if row in failed:
            lines.append(f"| {row.name} | {row.precision} | failed | | | | | |")
            continue
        speeds = [result["speed"] for result in rounds]
        speed, first, peak = (statistics.median(result[key] for result in rounds) for key in ("speed", "first", "peak"))
        # Ratios within each round, then the median: the machine's speed drifts between rounds.
        ratios = (
            statistics.median(speed_here / peer for speed_here, peer in zip(speeds, best[precision], strict=True))
            for precision in PRECISIONS
        )
        lines.append(
            f"| {row.name} | {row.precision} | {speed:,.0f} ({min(speeds):,.0f}-{max(speeds):,.0f}) | "
            + " | ".join("" if math.isnan(ratio) else f"{ratio:.2f}" for ratio in ratios)
            + f" | {speed * flops / peaks[row.precision]:.0%} | {first:.1f} | {peak / 1e9:.2f} |"
        )
    return lines + [f"\n{row.name}, {row.precision}, failed: `{reason}`" for row, reason in failed.items()]


if __name__ == "__main__":
    main()
