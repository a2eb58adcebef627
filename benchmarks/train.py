"""Training beside its peers: the same pairs, sizes and batch budget; pieces a second, memory, time to the first update.

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
from benchmarks.translate_setup import environment
from pellucid.data.batching import EncodedPairs
from pellucid.model import PRESETS, ModelConfig
from pellucid.train.config import RunConfig, read_run
from pellucid.train.costs import training_flops
from pellucid.train.data import read_data
from pellucid.train.pairs import TrainingData, encode_with_note

RECIPE, VOCABULARY, BATCH = HOUSE / "recipes/multi30k-en-de.toml", 8000, 4096
PACKAGES = {
    "train": ("torch==2.13.0", "transformers==5.23.0", "accelerate==1.15.0", "x-transformers==2.31.10"),
    "eole": ("torch==2.13.0", "eole==0.6.4", "aiohttp==3.14.5"),
}
"""Virtual environments under runs/peers, and what is installed in them."""


PRECISIONS = ("float32", "bfloat16")


@dataclass(frozen=True)
class Row:
    """A way to train."""

    name: str
    peer: str
    precision: str
    environment: str = "train"

    @property
    def ours(self) -> bool:
        return self.peer == "pellucid"

    def peers_in(self, precision: str) -> bool:
        """Whether it is a peer that trains so."""
        return not self.ours and self.precision == precision


ROWS = [
    Row(*named, precision, *where)
    for named, where in (
        (("Hugging Face `Seq2SeqTrainer`", "hugging_face"), ()),
        (("`torch.nn.Transformer` in a loop", "nn_transformer"), ()),
        (("x-transformers in a loop", "x_transformers"), ()),
        (("`eole train`", "eole"), ("eole",)),
        (("Pellucid", "pellucid"), ("",)),
    )
    for precision in PRECISIONS
]

Found = dict[str, dict[Row, list[dict[str, float] | str]]]
"""For each size and row what each round gave, or why it gave nothing."""


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["tiny", "small"], choices=list(PRESETS))
    parser.add_argument("--seconds", type=float, default=12.0, help="timed, of each row")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--precisions", nargs="+", default=list(PRECISIONS), choices=PRECISIONS)
    parser.add_argument("--page", default="train.md", help="the file under benchmarks/results/")
    options = parser.parse_args()
    began = time.monotonic()
    pythons = {"": Path(sys.executable)} | {name: environment(name, each) for name, each in PACKAGES.items()}
    with tempfile.TemporaryDirectory() as folder:
        task, lengths = prepared(Path(folder))
        peaks = {kind: product_peak(getattr(torch, kind)) for kind in options.precisions}
        chosen = [row for row in ROWS if row.precision in options.precisions]
        found: Found = {size: {row: [] for row in chosen} for size in options.sizes}
        for _ in range(options.rounds):
            for size in options.sizes:
                for row in chosen:
                    given = {**task, "size": dict(PRESETS[size]), "seconds": options.seconds, "seed": 1}
                    found[size][row].append(measured(row, given, pythons[row.environment]))
                    print(size, row.name, row.precision, found[size][row][-1], file=sys.stderr, flush=True)
    text = page(options, found, peaks, lengths, time.monotonic() - began)
    (HOUSE / "benchmarks/results" / options.page).write_text(text, encoding="utf-8")
    print(text)


def prepared(folder: Path) -> tuple[dict[str, Any], tuple[float, float]]:
    """Multi30k as ids in files that every row reads, and the mean lengths of its sides."""
    run, data = multi30k()
    write(folder / "pairs.npz", data.encoded)
    write(folder / "dev.npz", encode_with_note(data.dev, data.tokenizer, run)[0])
    task = {
        "pairs": str(folder / "pairs.npz"),
        "dev": str(folder / "dev.npz"),
        "scratch": str(folder / "scratch"),
        "vocabulary": data.tokenizer.target_vocabulary,
        "batch_tokens": BATCH,
        "cores": torch.get_num_threads(),
    }
    sides = data.encoded.sources, data.encoded.targets
    return task, (float(sides[0].lengths.mean()), float(sides[1].lengths.mean()))


def multi30k() -> tuple[RunConfig, TrainingData]:
    """The recipe with the vocabulary of these benchmarks, and its pairs."""
    run = read_run(RECIPE, [f"tokenizer.vocabulary={VOCABULARY}"])
    return run, read_data(run)


def write(path: Path, encoded: EncodedPairs) -> None:
    """Pairs as four arrays."""
    sources, targets = encoded.sources, encoded.targets
    np.savez(path, source=sources.ids, source_starts=sources.starts, target=targets.ids, target_starts=targets.starts)


def measured(row: Row, task: dict[str, Any], python: Path) -> dict[str, float] | str:
    """What a process of its own says; of a peer that fails, the last line of its complaint."""
    given = json.dumps({**task, "peer": row.peer, "precision": row.precision, "started": time.time()})
    command = [python, "-W", "ignore", "-m", "benchmarks.train_row", given]
    done = subprocess.run(command, cwd=HOUSE, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    if row.ours:
        raise RuntimeError(f"{row.name}, {row.precision}: {done.stderr[-2000:]}")
    return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1][:200]


def product_peak(kind: torch.dtype, n: int = 2048) -> float:
    """Floating-point operations a second of a large matrix product in this process."""
    a, b = torch.randn(n, n, dtype=kind), torch.randn(n, n, dtype=kind)
    times = []
    for _ in range(6):
        began = time.perf_counter()
        a @ b
        times.append(time.perf_counter() - began)
    return 2 * n**3 / min(times)


def page(
    options: argparse.Namespace,
    found: Found,
    peaks: dict[str, float],
    lengths: tuple[float, float],
    took: float,
) -> str:
    """The results as Markdown."""
    given = f"--sizes {' '.join(options.sizes)} --seconds {options.seconds:g} --rounds {options.rounds}"
    given += f" --precisions {' '.join(options.precisions)}" if options.precisions != list(PRECISIONS) else ""
    given += f" --page {options.page}" if options.page != "train.md" else ""
    packages = dict.fromkeys(each for environment in PACKAGES.values() for each in environment)
    lines = [
        "# Training beside its peers",
        "",
        f"    python -m benchmarks.train {given}",
        "",
        f"{machine()}, {torch.get_num_threads()} threads; {time.strftime('%Y-%m-%d')}, {took / 60:.0f} minutes.",
        f"Peers: {', '.join(packages)}.",
        "",
        f"Multi30k en-de, joint vocabulary of {VOCABULARY:,} pieces, about {BATCH:,} target pieces a batch, dropout",
        "0.1, label smoothing 0.1, Adam, gradients of norm 1 at most, norm before each sublayer (Marian: after).",
        "Target pieces without padding a second after three updates that are not counted: median of the rounds and",
        "(least-most). *best peer*: ratio to the fastest peer in float32, and in bfloat16, within each round. *of the",
        "peak*: operations of useful pieces (three times those of a forward pass without padding,",
        "`pellucid.train.costs.training_flops`) as a share of a large matrix product's in the same "
        "precision, which did",
        f"{' and '.join(f'{peak / 1e9:,.0f} ({kind})' for kind, peak in peaks.items())} GFLOP/s here. *first*:",
        "from the start of the process to the end of the first update, the pairs cut into pieces before.",
        "",
        "That the fast ways learn as much in an update: [train-curves.md](train-curves.md). What each of them gives:",
        "[train-levers.md](train-levers.md).",
        "",
    ]
    for size, rows in found.items():
        c = ModelConfig(VOCABULARY, VOCABULARY, **PRESETS[size])
        flops = training_flops(c, round(lengths[0]), round(lengths[1])) / round(lengths[1])
        lines += [f"## {size}: {flops / 1e6:.1f} MFLOP a target piece", "", *table(rows, flops, peaks), ""]
    return "\n".join(lines)


def table(rows: dict[Row, list[dict[str, float] | str]], flops: float, peaks: dict[str, float]) -> list[str]:
    """The rows of one size; what failed, below."""
    each = {row: [one for one in rounds if not isinstance(one, str)] for row, rounds in rows.items()}
    failed = {
        row: next(one for one in rows[row] if isinstance(one, str)) for row in rows if len(each[row]) < len(rows[row])
    }
    best = {
        precision: [
            max(
                (rounds[n]["speed"] for row, rounds in each.items() if row not in failed and row.peers_in(precision)),
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
    for row, rounds in each.items():
        if row in failed:
            lines.append(f"| {row.name} | {row.precision} | failed | | | | | |")
            continue
        speeds = [one["speed"] for one in rounds]
        speed, first, peak = (statistics.median(one[key] for one in rounds) for key in ("speed", "first", "peak"))
        ratios = (
            statistics.median(one / peer for one, peer in zip(speeds, best[precision], strict=True))
            for precision in PRECISIONS
        )
        lines.append(
            f"| {row.name} | {row.precision} | {speed:,.0f} ({min(speeds):,.0f}-{max(speeds):,.0f}) | "
            + " | ".join("" if math.isnan(ratio) else f"{ratio:.2f}" for ratio in ratios)
            + f" | {speed * flops / peaks[row.precision]:.0%} | {first:.1f} | {peak / 1e9:.2f} |"
        )
    return lines + [f"\n{row.name}, {row.precision}, failed: `{why}`" for row, why in failed.items()]


if __name__ == "__main__":
    main()
