"""Measure `translate --cluster` or `score --cluster` on this machine: workers beside one process, and killed workers.

    python -m benchmarks.cluster                          # runs/demo/best; writes benchmarks/results/cluster.md
    python -m benchmarks.cluster runs/mine/best --lines 200000 --kills 50
    python -m benchmarks.cluster --command score          # writes benchmarks/results/cluster-score.md

The text is the phrasebook's, over and over. Every result is compared with that of one process, byte for byte.
Needs Linux, where processes are found in /proc.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

from benchmarks.quality import RESULTS, machine
from pellucid.store.atomic import write_text_whole

WORKER = b"ray::MapWorker"
PELLUCID = (sys.executable, "-m", "pellucid")
# What to do with text.en; greedy search without scores is the fastest, so that reading and writing weigh most.
WORDS = {
    "translate": ("text.en", "--set", "method=greedy"),
    "score": ("--source", "text.en", "--target", "text.es"),
}
PAGES = {"translate": "cluster.md", "score": "cluster-score.md"}
WHAT = {"translate": "greedy search", "score": "scored with their translations"}
COLUMNS = ("how", "seconds", "of one worker", "lines a second", "killed", "most memory of a worker", "bytes equal")


@dataclass
class Row:
    """One run over the text: seconds, workers that were killed, memory, and whether the bytes are equal."""

    name: str
    seconds: float
    killed: int
    megabytes: list[float]
    """Memory of the largest worker, in the order of time."""
    is_equal: bool


def main(arguments: list[str]) -> int:
    """Do the work in one process, by one worker, by two, and by two of which some are killed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="runs/demo/best")
    parser.add_argument("--lines", type=int, default=200_000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--part-lines", type=int, default=2048)
    parser.add_argument("--command", choices=list(WORDS), default="translate")
    options = parser.parse_args(arguments)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for language in ("en", "es"):
            write_text(folder / f"text.{language}", language, options.lines)
        words = (options.command, str(Path(options.model).absolute()), *WORDS[options.command])
        rows = [run_alone(folder, words)]
        cluster = (*words, "--cluster", "local", "--part-lines", str(options.part_lines))
        for workers, kills in ((1, 0), (2, 0), (2, options.kills)):
            rows.append(run_shared(folder, cluster, workers, kills, rows[-1].seconds))
            print(f"{rows[-1].name}: {rows[-1].seconds:.1f} s, equal: {rows[-1].is_equal}", flush=True)

    page = RESULTS / PAGES[options.command]
    write_text_whole(page, "\n".join(page_lines(rows, options)) + "\n")
    return 0 if all(row.is_equal for row in rows) else 1


def write_text(path: Path, language: str, count: int) -> None:
    """Write so many lines of the phrasebook; no two parts are alike."""
    phrases = Path(f"runs/demo/data/train.{language}").read_text(encoding="utf-8").splitlines()
    lines = islice(cycle(phrases), count)
    path.write_text("".join(f"{line} {number}\n" for number, line in enumerate(lines)), encoding="utf-8")


def run_alone(folder: Path, words: tuple[str, ...]) -> Row:
    """Do the work in one process, on one core."""
    began = time.monotonic()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = ("taskset", "-c", "0", *PELLUCID, *words, "--out", "alone")
    subprocess.run(command, cwd=folder, env=environment, check=True, stderr=subprocess.DEVNULL)
    return Row("one process, one core", time.monotonic() - began, 0, [], True)


def run_shared(folder: Path, words: tuple[str, ...], workers: int, kills: int, seconds: float) -> Row:
    """Do the work by workers; some are killed at random moments, spread over the `seconds` that the run before took."""
    out, draw = f"shared-{workers}-{kills}", random.Random(kills)
    command = (*PELLUCID, *words, "--workers", str(workers), "--out", out)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    began, killed, megabytes = time.monotonic(), 0, list[float]()
    moments = sorted(draw.uniform(0, seconds) for _ in range(kills))
    process = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.DEVNULL)
    while True:
        # Not by sleeping: the time ends when the process does.
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.5)
            break
        found = list(find_workers())
        megabytes.append(max((resident for _, resident in found), default=0.0))
        if killed < kills and found and time.monotonic() - began > moments[killed]:
            os.kill(draw.choice(found)[0], signal.SIGKILL)
            killed += 1

    took = time.monotonic() - began
    written = folder / out / "text.en"
    is_equal = written.exists() and written.read_bytes() == (folder / "alone").read_bytes()
    name = f"{workers} worker{'s' * (workers > 1)} of one core{', killed at random moments' * (kills > 0)}"
    return Row(name, took, killed, megabytes, is_equal and process.returncode == 0)


def find_workers() -> Iterator[tuple[int, float]]:
    """Yield number and resident megabytes of each process of Ray that does the work."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if not (path / "cmdline").read_bytes().startswith(WORKER):
                continue
            status = (path / "status").read_text(encoding="utf-8")
        except OSError:  # it has ended
            continue
        kilobytes = int(status.partition("VmRSS:")[2].split()[0])
        yield int(path.name), kilobytes / 1024


def page_lines(rows: list[Row], options: argparse.Namespace) -> Iterator[str]:
    """Yield the lines of the page of results."""
    yield f"# `{options.command}` by the workers of a cluster, on one machine"
    yield ""
    command = f"python -m benchmarks.cluster {options.model} --lines {options.lines} --kills {options.kills}"
    if options.command != "translate":
        command += f" --command {options.command}"
    yield f"`{command}`, on {machine()}."
    yield f"{options.lines:,} lines of the phrasebook, {WHAT[options.command]}, parts of {options.part_lines:,} lines."
    yield "Times are those of the clock, from the start of the command to its end: seconds"
    yield "contain the start of Ray. Killed is by SIGKILL, at random moments; memory is the resident memory of the"
    yield "largest worker, in the first half of the time and in the second."
    yield ""
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|" + "---|" * len(COLUMNS)
    one = next(row.seconds for row in rows if row.name.startswith("1 worker"))
    for row in rows:
        middle = len(row.megabytes) // 2
        halves = [max(part, default=0.0) for part in (row.megabytes[:middle], row.megabytes[middle:])]
        memory = f"{halves[0]:.0f} and {halves[1]:.0f} MB" if row.megabytes else ""
        cells = (
            *(row.name, f"{row.seconds:.0f}", f"{row.seconds / one:.2f}", f"{options.lines / row.seconds:,.0f}"),
            *(str(row.killed or ""), memory, "yes" if row.is_equal else "**no**"),
        )
        yield f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
