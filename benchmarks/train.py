"""Training beside its peers: the same pairs, sizes and batch budget; pieces a second, memory, time to the first update.

    make bench-train        # or: python -m benchmarks.train --sizes tiny small --seconds 20 --rounds 2

Writes benchmarks/results/train.md. Every row runs in a process of its own, the peers' in a virtual environment that is
made once under runs/peers; all rows run once before any runs again.
"""

import argparse
import json
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
from pellucid.model import PRESETS, ModelConfig
from pellucid.train.config import read_run
from pellucid.train.data import read_data
from pellucid.train.work import training_flops

RECIPE, VOCABULARY, BATCH = HOUSE / "recipes/multi30k-en-de.toml", 8000, 4096
PACKAGES = ("torch==2.13.0", "transformers==5.23.0", "accelerate==1.15.0", "x-transformers==2.31.10")


@dataclass(frozen=True)
class Row:
    """A way to train."""

    name: str
    peer: str
    precision: str

    @property
    def ours(self) -> bool:
        return self.peer == "pellucid"


ROWS = [
    Row(name, peer, precision)
    for name, peer in (
        ("Hugging Face `Seq2SeqTrainer`", "hugging_face"),
        ("`torch.nn.Transformer` in a loop", "nn_transformer"),
        ("x-transformers in a loop", "x_transformers"),
        ("Pellucid", "pellucid"),
    )
    for precision in ("float32", "bfloat16")
]


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["tiny", "small"], choices=list(PRESETS))
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--page", default="train.md", help="the file under benchmarks/results/")
    options = parser.parse_args()
    began, python = time.monotonic(), environment("train", PACKAGES)
    with tempfile.TemporaryDirectory() as folder:
        task, lengths = prepared(Path(folder))
        peaks = {kind: product_peak(getattr(torch, kind)) for kind in ("float32", "bfloat16")}
        found: dict[str, dict[Row, list[dict[str, float]]]] = {
            size: {row: [] for row in ROWS} for size in options.sizes
        }
        for _ in range(options.rounds):
            for size in options.sizes:
                for row in ROWS:
                    given = {**task, "size": dict(PRESETS[size]), "seconds": options.seconds}
                    found[size][row].append(measured(row, given, sys.executable if row.ours else python))
                    print(size, row.name, row.precision, found[size][row][-1], file=sys.stderr)
    text = page(options, found, peaks, lengths, time.monotonic() - began)
    (HOUSE / "benchmarks/results" / options.page).write_text(text, encoding="utf-8")
    print(text)


def prepared(folder: Path) -> tuple[dict[str, Any], tuple[float, float]]:
    """Multi30k as ids in a file that every row reads, and the mean lengths of its sides."""
    data = read_data(read_run(RECIPE, [f"tokenizer.vocabulary={VOCABULARY}"]))
    sides = {"source": data.encoded.sources, "target": data.encoded.targets}
    arrays = {
        f"{name}{end}": array
        for name, side in sides.items()
        for end, array in (("", side.ids), ("_starts", side.starts))
    }
    np.savez(folder / "pairs.npz", **arrays)
    task = {
        "pairs": str(folder / "pairs.npz"),
        "scratch": str(folder / "scratch"),
        "vocabulary": data.tokenizer.target_vocabulary,
        "batch_tokens": BATCH,
        "cores": torch.get_num_threads(),
    }
    return task, (float(sides["source"].lengths.mean()), float(sides["target"].lengths.mean()))


def measured(row: Row, task: dict[str, Any], python: str | Path) -> dict[str, float]:
    """What a process of its own says."""
    given = json.dumps({**task, "peer": row.peer, "precision": row.precision, "started": time.time()})
    command = [str(python), "-W", "ignore", str(HOUSE / "benchmarks/train_row.py"), given]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{row.name}, {row.precision}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


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
    found: dict[str, dict[Row, list[dict[str, float]]]],
    peaks: dict[str, float],
    lengths: tuple[float, float],
    took: float,
) -> str:
    """The results as Markdown."""
    given = f"--sizes {' '.join(options.sizes)} --seconds {options.seconds:g} --rounds {options.rounds}"
    given += f" --page {options.page}" if options.page != "train.md" else ""
    lines = [
        "# Training beside its peers",
        "",
        f"    python -m benchmarks.train {given}",
        "",
        f"{machine()}; {time.strftime('%Y-%m-%d')}, {took / 60:.0f} minutes. Peers: {', '.join(PACKAGES)}.",
        "",
        f"Multi30k en-de, joint vocabulary of {VOCABULARY:,} pieces, about {BATCH:,} target pieces a batch, dropout",
        "0.1, label smoothing 0.1, Adam, norm before each sublayer (Marian: after). Target pieces without padding a",
        "second after three updates that are not counted: median of the rounds and (least-most). *best peer*: ratio",
        "to the fastest peer in float32, within each round. *of the peak*: operations of useful pieces (three times",
        "those of a forward pass without padding, `pellucid.train.work.training_flops`) as a share of a large matrix",
        f"product's in the same precision, which did {peaks['float32'] / 1e9:,.0f} (float32) and",
        f"{peaks['bfloat16'] / 1e9:,.0f} (bfloat16) GFLOP/s here. *first*: from the start of the process to the end of",
        "the first update, the pairs cut into pieces before.",
        "",
    ]
    for size, rows in found.items():
        c = ModelConfig(VOCABULARY, VOCABULARY, **PRESETS[size])
        flops = training_flops(c, round(lengths[0]), round(lengths[1])) / round(lengths[1])
        plain = [row for row in ROWS if not row.ours and row.precision == "float32"]
        best = [max(rows[row][n]["speed"] for row in plain) for n in range(options.rounds)]
        lines += [
            f"## {size}: {flops / 1e6:.1f} MFLOP a target piece",
            "",
            "| | precision | pieces/s | best peer | of the peak | first, s | peak memory, GB |",
            "|---|---|---|---|---|---|---|",
        ]
        for row, each in rows.items():
            speeds = [one["speed"] for one in each]
            speed = statistics.median(speeds)
            ratio = statistics.median(one / peer for one, peer in zip(speeds, best, strict=True))
            spread = f"({min(speeds):,.0f}-{max(speeds):,.0f})"
            lines.append(
                f"| {row.name} | {row.precision} | {speed:,.0f} {spread} | {ratio:.2f} | "
                f"{speed * flops / peaks[row.precision]:.0%} | {statistics.median(one['first'] for one in each):.1f} | "
                f"{statistics.median(one['peak'] for one in each) / 1e9:.2f} |"
            )
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
