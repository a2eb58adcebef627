"""Measure `prepare` in two parts side by side, beside one command for the whole text.

    python -m benchmarks.parts                   # writes benchmarks/results/parts.md
    python -m benchmarks.parts --pairs 4000000

Each process has one core, and all take their vocabulary from the same small shards. Needs Linux (taskset).
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path

from benchmarks.quality import RESULTS, machine
from pellucid.store.atomic import write_text_whole

PREPARE = (sys.executable, "-m", "pellucid", "prepare", "run.toml")
SIDES = "en", "es"


def main(arguments: list[str]) -> int:
    """Prepare the text in one command and in two, and compare times, memory and files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=400_000)
    pairs = parser.parse_args(arguments).pairs
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_run(folder, pairs)
        run_side_by_side(folder, [(*PREPARE, "--corpora", "1", "--out", "vocabulary")])
        given = "--tokenizer", "vocabulary"
        whole = run_side_by_side(folder, [(*PREPARE, *given, "--out", "whole")])
        parts = []
        for number in (2, 3):
            parts.append((*PREPARE, *given, "--corpora", str(number), "--out", f"part-{number}"))
        halves = run_side_by_side(folder, parts)
        first = (*PREPARE, *given, "--corpora", "1", "--out", "part-1")
        run_side_by_side(folder, [first])
        is_equal = True
        for side in ("source.ids", "target.ids"):
            joined = b"".join((folder / f"part-{number}" / side).read_bytes() for number in (1, 2, 3))
            is_equal &= joined == (folder / "whole" / side).read_bytes()

    lines = [
        "# Preparing in parts",
        "",
        f"`python -m benchmarks.parts --pairs {pairs}`, on {machine()}.",
        f"{pairs:,} pairs of the phrasebook in two corpora, one core a process, the vocabulary from other shards.",
        "Processor seconds are those of the slower process: where other programs run on the same cores, they tell",
        "what a quiet machine would need. Memory is the largest resident memory of a process.",
        "",
        "| how | seconds | of one process | processor seconds of a process | of one process | memory |",
        "|---|---|---|---|---|---|",
    ]
    for how, (seconds, busy, megabytes) in (("one process", whole), ("two, side by side", halves)):
        shares = seconds / whole[0], busy / whole[1]
        lines.append(f"| {how} | {seconds:.1f} | {shares[0]:.2f} | {busy:.1f} | {shares[1]:.2f} | {megabytes:.0f} MB |")
    lines += ["", f"The ids of the parts, joined, are those of the whole: {'yes' if is_equal else '**no**'}."]
    write_text_whole(RESULTS / "parts.md", "\n".join(lines) + "\n")
    return 0 if is_equal else 1


def write_run(folder: Path, pairs: int) -> None:
    """Write a small corpus, two large ones of half of the pairs each, and the run file."""
    texts = {side: Path(f"runs/demo/data/train.{side}").read_text(encoding="utf-8").splitlines() for side in SIDES}
    tables = []
    for number, (first, last) in enumerate(((0, 1000), (0, pairs // 2), (pairs // 2, pairs))):
        for side, phrases in texts.items():
            lines = islice(enumerate(cycle(phrases)), first, last)
            text = "".join(f"{line} {place}\n" for place, line in lines)
            (folder / f"{number}.{side}").write_text(text, encoding="utf-8")
        tables.append(f'[[data.corpus]]\nsource = "{number}.en"\ntarget = "{number}.es"\n')
    for side in SIDES:
        (folder / f"dev.{side}").write_text("Something else altogether.\n", encoding="utf-8")
    data = '[data]\ndev_source = "dev.en"\ndev_target = "dev.es"\n'
    run = f"{data}{''.join(tables)}[tokenizer]\nvocabulary = 500\n[train]\nsteps = 1\n"
    (folder / "run.toml").write_text(run, encoding="utf-8")


def run_side_by_side(folder: Path, commands: list[tuple[str, ...]]) -> tuple[float, float, float]:
    """Run commands at once, each on a core of its own.

    Return the seconds until all have ended, the most processor seconds of one, and its megabytes.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    began, processes, busy, megabytes = time.monotonic(), [], 0.0, 0.0
    for core, command in enumerate(commands):
        words = ("taskset", "-c", str(core), *command)
        processes.append(
            subprocess.Popen(words, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        )
    for process in processes:
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise RuntimeError(f"{' '.join(process.args)} ended with status {status}")  # pyright: ignore[reportArgumentType, reportCallIssue]
        busy = max(busy, usage.ru_utime + usage.ru_stime)
        megabytes = max(megabytes, usage.ru_maxrss / 1024)
    return time.monotonic() - began, busy, megabytes


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
