"""What some minutes of `pellucid train` come to: two files and no settings, each length a whole run of its own.

    python -m benchmarks.minutes                # 4 and 20 minutes: runs/minutes, then benchmarks/results/minutes.md
    python -m benchmarks.minutes --lengths 2 8

Multi30k English-German; all is counted, from the start of the command to its end. A run that is there already is
scored as it stands. Needs PELLUCID_DATA.
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

from benchmarks.quality import BEAM, HOUSE, RESULTS, TASKS, lines, machine, scored
from benchmarks.train import product_peak
from pellucid.train.log import read_log

TASK = TASKS["multi30k"]
FILES = {"source": "train.en", "target": "train.de", "dev-source": "val.en", "dev-target": "val.de"}
PAIRS = 29_000
MORE = ("--set", "train.precision=bfloat16")
"""What is asked for besides; the command is the plain one otherwise."""


def main() -> None:
    """Train what is not there, score, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", nargs="+", type=float, default=[4, 20], metavar="MINUTES")
    parser.add_argument("--folder", type=Path, default=HOUSE / "runs" / "minutes")
    parser.add_argument("--page", type=Path, default=RESULTS / "minutes.md")
    chosen = parser.parse_args()
    if "PELLUCID_DATA" not in os.environ:
        sys.exit("PELLUCID_DATA must name the folder that holds multi30k")
    for minutes in chosen.lengths:
        if not (chosen.folder / f"{minutes:g}" / "seconds.json").exists():
            train(minutes, chosen.folder / f"{minutes:g}")
    page = "\n".join(report(chosen.lengths, chosen.folder)) + "\n"
    chosen.page.write_text(page, encoding="utf-8")
    print(page)


def train(minutes: float, run: Path) -> None:
    """The command, and beside its run the seconds that it took by a clock on the wall."""
    folder = Path(os.environ["PELLUCID_DATA"]) / "multi30k"
    files = [word for side, name in FILES.items() for word in (f"--{side}", folder / f"{name}.gz")]
    command = [sys.executable, "-m", "pellucid", "train", *files, "--minutes", f"{minutes:g}", "--out", run, *MORE]
    began = time.monotonic()
    code = subprocess.run(command, check=False, stdout=sys.stderr).returncode
    if code:
        sys.exit(code)
    (run / "seconds.json").write_text(json.dumps(time.monotonic() - began), encoding="utf-8")


def report(lengths: list[float], folder: Path) -> Iterator[str]:
    """The lines of the page."""
    data = Path(os.environ["PELLUCID_DATA"])
    sources, references = lines(data / TASK.source), lines(data / TASK.reference)
    rates = " and ".join(
        f"{product_peak(kind) / 1e9:.0f} GFLOP/s ({name})"
        for name, kind in (("float32", torch.float32), ("bfloat16", torch.bfloat16))
    )
    asked = f" --lengths {' '.join(f'{each:g}' for each in lengths)}" if lengths != [4, 20] else ""
    yield "# Multi30k English-German in so many minutes\n"
    yield f"Made by `python -m benchmarks.minutes{asked}` on {machine()},"
    yield f"where a large matrix product does {rates}. Each row is a run of its own, from two files and no run file:\n"
    named = " ".join(f"--{side} {name}.gz" for side, name in FILES.items())
    yield f"    pellucid train {named} --minutes MINUTES --out RUN {' '.join(MORE)}\n"
    yield "*Wall*: from the start of the command to its end, vocabulary, evaluations and all. Test BLEU (13a, cased)"
    yield f"and chrF of `best/` on {TASK.source}, {len(sources):,} sentences, beam {BEAM}, length penalty"
    yield f"{TASK.length_penalty}.\n"
    yield "| minutes asked for | wall, minutes | updates | target pieces | epochs | test BLEU | test chrF |"
    yield "|---|---|---|---|---|---|---|"
    for minutes in lengths:
        run = folder / f"{minutes:g}"
        wall = json.loads((run / "seconds.json").read_text(encoding="utf-8"))
        end = [row for row in read_log(run / "log.jsonl") if "seen" in row][-1]
        found, _ = scored(run / "best", TASK, sources, references)
        yield (
            f"| {minutes:g} | {wall / 60:.1f} | {end['step']:,} | {end['target_tokens']:,} | "
            f"{sum(end['seen'].values()) / PAIRS:.1f} | {found['bleu']['score']:.2f} | {found['chrf']['score']:.2f} |"
        )


if __name__ == "__main__":
    main()
