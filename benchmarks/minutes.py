"""Measure what some minutes of `pellucid train` reach: two files and no settings, each length a run of its own.

    python -m benchmarks.minutes                # 4 and 20 minutes: runs/minutes, then benchmarks/results/minutes.md
    python -m benchmarks.minutes --lengths 2 8

Multi30k English-German; all is counted, from the start of the command to its end. A run that exists already is scored
as it is. Needs PELLUCID_DATA.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from benchmarks.quality import BEAM, HOUSE, RESULTS, TASKS, lines, machine, score_model
from benchmarks.train import product_peak
from pellucid.training.log import read_log

TASK = TASKS["multi30k"]
FILES = {"source": "train.en", "target": "train.de", "dev-source": "val.en", "dev-target": "val.de"}
PAIRS = 29_000


def main() -> None:
    """Train the runs that do not exist, score all, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", nargs="+", type=float, default=[4, 20], metavar="MINUTES")
    parser.add_argument("--folder", type=Path, default=HOUSE / "runs" / "minutes")
    parser.add_argument("--page", type=Path, default=RESULTS / "minutes.md")
    options = parser.parse_args()
    if "PELLUCID_DATA" not in os.environ:
        sys.exit("PELLUCID_DATA must name the folder that holds multi30k")
    for minutes in options.lengths:
        # This file is written only when a run has ended.
        if not (options.folder / f"{minutes:g}" / "seconds.json").exists():
            train_for(minutes, options.folder / f"{minutes:g}")
    page = "\n".join(report_lines(options.lengths, options.folder)) + "\n"
    options.page.write_text(page, encoding="utf-8")
    print(page)


def train_for(minutes: float, run: Path) -> None:
    """Train for some minutes, and write the seconds of wall time beside the run."""
    folder = Path(os.environ["PELLUCID_DATA"]) / "multi30k"
    files = [word for side, name in FILES.items() for word in (f"--{side}", folder / f"{name}.gz")]
    command = [sys.executable, "-m", "pellucid", "train", *files, "--minutes", f"{minutes:g}", "--out", run]
    # Around the whole command: vocabulary, evaluations and start are counted too.
    began = time.monotonic()
    code = subprocess.run(command, check=False, stdout=sys.stderr).returncode
    if code:
        sys.exit(code)
    (run / "seconds.json").write_text(json.dumps(time.monotonic() - began), encoding="utf-8")


def report_lines(lengths: list[float], folder: Path) -> Iterator[str]:
    """Yield the lines of the page."""
    data = Path(os.environ["PELLUCID_DATA"])
    sources, references = lines(data / TASK.source), lines(data / TASK.reference)
    rates = " and ".join(
        f"{product_peak(kind) / 1e9:.0f} GFLOP/s ({name})"
        for name, kind in (("float32", torch.float32), ("bfloat16", torch.bfloat16))
    )
    length_option = f" --lengths {' '.join(f'{length:g}' for length in lengths)}" if lengths != [4, 20] else ""
    yield "# Multi30k English-German in a few minutes\n"
    yield f"Made by `python -m benchmarks.minutes{length_option}` on {machine()},"
    yield f"where a large matrix product does {rates}. Each row is a run of its own, from two files and no run file:\n"
    file_options = " ".join(f"--{side} {name}.gz" for side, name in FILES.items())
    yield f"    pellucid train {file_options} --minutes MINUTES --out RUN\n"
    yield "*Wall*: the whole command, with learning the vocabulary and all evaluations. Test BLEU (13a, cased)"
    yield f"and chrF of `best/` on {TASK.source}, {len(sources):,} sentences, beam {BEAM}, length penalty"
    yield f"{TASK.length_penalty}.\n"
    yield "| minutes asked for | wall, minutes | updates | target pieces | epochs | test BLEU | test chrF |"
    yield "|---|---|---|---|---|---|---|"
    for minutes in lengths:
        run = folder / f"{minutes:g}"
        wall = json.loads((run / "seconds.json").read_text(encoding="utf-8"))
        last_row = [row for row in read_log(run / "log.jsonl") if "seen" in row][-1]
        scores, _ = score_model(run / "best", TASK, sources, references)
        yield (
            f"| {minutes:g} | {wall / 60:.1f} | {last_row['step']:,} | {last_row['target_tokens']:,} | "
            f"{sum(last_row['seen'].values()) / PAIRS:.1f} | {scores['bleu']['score']:.2f} | "
            f"{scores['chrf']['score']:.2f} |"
        )


if __name__ == "__main__":
    main()
