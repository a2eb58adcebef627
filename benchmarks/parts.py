"""Measure `prepare` in two parts side by side, and by two workers of a cluster, beside one process for the whole text.

    python -m benchmarks.parts                           # writes benchmarks/results/parts.md
    python -m benchmarks.parts --pairs 1000000 50000000 --folder /large/disk

Each process has one core, and all take their vocabulary from the same small shards. 50 million pairs take
about 25 GB of the disk. Needs Linux (taskset, /proc).
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

from benchmarks.cluster import find_workers
from benchmarks.quality import RESULTS, machine
from pellucid.store.atomic import write_text_whole

PREPARE = (sys.executable, "-m", "pellucid", "prepare")
SIDES = "en", "es"
IDS = "source.ids", "target.ids"
COLUMNS = ("pairs", "how", "seconds", "of one process", "processor seconds of a process", "memory", "ids equal")


@dataclass
class Row:
    """One way to prepare so many pairs: seconds, processor seconds and megabytes of the largest process."""

    pairs: int
    how: str
    seconds: float
    busy: float | None
    megabytes: float
    is_equal: bool = True


def main(arguments: list[str]) -> int:
    """Prepare texts of some sizes in one process, in two, and on a cluster; compare times, memory and files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, nargs="+", default=[400_000])
    parser.add_argument("--folder", help="where texts and shards are written; default: the usual temporary folder")
    options = parser.parse_args(arguments)
    rows: list[Row] = []
    for pairs in options.pairs:
        with tempfile.TemporaryDirectory(dir=options.folder) as name:
            for row in measure(Path(name), pairs):
                print(f"{row.pairs:,} {row.how}: {row.seconds:.1f} s, {row.megabytes:.0f} MB", flush=True)
                rows.append(row)
                write_text_whole(RESULTS / "parts.md", "\n".join(page_lines(rows, options.pairs)) + "\n")

    return 0 if all(row.is_equal for row in rows) else 1


def measure(folder: Path, pairs: int) -> Iterator[Row]:
    """Yield a row for each way to prepare a text of so many pairs in a folder."""
    write_corpus(folder / "0", 0, None)
    middle = pairs // 2
    write_corpus(folder / "1", 0, middle)
    write_corpus(folder / "2", middle, pairs)
    write_run(folder, "halves.toml", ("0", "1", "2"))
    command = (*PREPARE, "halves.toml")
    run_side_by_side(folder, [(*command, "--corpora", "1", "--out", "vocabulary")])
    command = (*command, "--tokenizer", "vocabulary", "--corpora")

    yield Row(pairs, "one process", *run_side_by_side(folder, [(*command, "2-3", "--out", "whole")]))
    expected = hash_ids(folder, ["whole"])
    shutil.rmtree(folder / "whole")

    parts = [(*command, str(number), "--out", f"part-{number}") for number in (2, 3)]
    times = run_side_by_side(folder, parts)
    is_equal = hash_ids(folder, ["part-2", "part-3"]) == expected
    yield Row(pairs, "two processes, half of the corpora each", *times, is_equal)

    for path in (*folder.glob("part-*"), *folder.glob("[12].e?")):
        path.unlink() if path.is_file() else shutil.rmtree(path)
    write_corpus(folder / "3", 0, pairs)
    write_run(folder, "one.toml", ("0", "3"))
    words = (*PREPARE, "one.toml", "--tokenizer", "vocabulary", "--corpora", "2", "--out", "shared")
    seconds, worker, driver = run_on_cluster(folder, (*words, "--cluster", "local", "--workers", "2"))
    is_equal = hash_ids(folder, ["shared/2"]) == expected
    yield Row(pairs, "one corpus, divided between two workers", seconds, None, worker, is_equal)
    yield Row(pairs, "the command that divides it and joins the shards", seconds, None, driver, is_equal)


def write_corpus(name: Path, first: int, last: int | None) -> None:
    """Write lines of the phrasebook from `first` to before `last`, over and over with a number; once for None."""
    for side in SIDES:
        phrases = Path(f"runs/demo/data/train.{side}").read_text(encoding="utf-8").splitlines()
        lines = enumerate(cycle(phrases))
        with name.with_suffix(f".{side}").open("w", encoding="utf-8") as file:
            for place, line in islice(lines, first, len(phrases) if last is None else last):
                file.write(f"{line} {place}\n")


def write_run(folder: Path, name: str, corpora: tuple[str, ...]) -> None:
    """Write a run file with these corpora, and a dev set that has nothing to do with them."""
    for side in SIDES:
        (folder / f"dev.{side}").write_text("Something else altogether.\n", encoding="utf-8")
    data = '[data]\ndev_source = "dev.en"\ndev_target = "dev.es"\n'
    tables = [f'[[data.corpus]]\nsource = "{corpus}.en"\ntarget = "{corpus}.es"\n' for corpus in corpora]
    run = f"{data}{''.join(tables)}[tokenizer]\nvocabulary = 4000\n[train]\nsteps = 1\n"
    (folder / name).write_text(run, encoding="utf-8")


def hash_ids(folder: Path, parts: list[str]) -> list[str]:
    """Return the SHA-256 of the ids of each side of shards, one behind the other."""
    hashes: list[str] = []
    for side in IDS:
        digest = hashlib.sha256()
        for part in parts:
            with (folder / part / side).open("rb") as file:
                while block := file.read(2**20):
                    digest.update(block)
        hashes.append(digest.hexdigest())
    return hashes


def run_side_by_side(folder: Path, commands: list[tuple[str, ...]]) -> tuple[float, float, float]:
    """Run commands at once, each on a core of its own.

    Return the seconds until all have ended, the most processor seconds of one, and its megabytes.
    """
    began, processes, busy, megabytes = time.monotonic(), [], 0.0, 0.0
    for core, command in enumerate(commands):
        processes.append(start(folder, ("taskset", "-c", str(core), *command)))
    for process in processes:
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise RuntimeError(f"{' '.join(process.args)} ended with status {status}")  # pyright: ignore[reportArgumentType, reportCallIssue]
        busy = max(busy, usage.ru_utime + usage.ru_stime)
        megabytes = max(megabytes, usage.ru_maxrss / 1024)
    return time.monotonic() - began, busy, megabytes


def start(folder: Path, command: tuple[str, ...]) -> subprocess.Popen[bytes]:
    """Start a command that says nothing."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    nothing = subprocess.DEVNULL
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=nothing, stderr=nothing)


def run_on_cluster(folder: Path, command: tuple[str, ...]) -> tuple[float, float, float]:
    """Run a command with its workers; return seconds, and the most megabytes of a worker and of the command."""
    began, worker, driver = time.monotonic(), 0.0, 0.0
    process = start(folder, command)
    while True:
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.5)
            break
        worker = max(worker, *(megabytes for _, megabytes in find_workers()), 0.0)
        with suppress(OSError, IndexError):
            status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
            driver = int(status.partition("VmHWM:")[2].split()[0]) / 1024
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with status {process.returncode}")
    return time.monotonic() - began, worker, driver


def page_lines(rows: list[Row], sizes: list[int]) -> Iterator[str]:
    """Yield the lines of the page of results."""
    yield "# Preparing in parts"
    yield ""
    yield f"`python -m benchmarks.parts --pairs {' '.join(map(str, sizes))}`, on {machine()}."
    yield "Pairs of the phrasebook, with a number behind each sentence; one core a process or worker, the vocabulary"
    yield "from other shards. Seconds are those of the clock, of a cluster with the start of Ray and the joining of the"
    yield "shards. Processor seconds are those of the slower process: where other programs run on the same cores, they"
    yield "tell what a quiet machine would need. Memory is the largest resident memory of a process."
    yield ""
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|" + "---|" * len(COLUMNS)
    alone: dict[int, Row] = {}
    for row in rows:
        one = alone.setdefault(row.pairs, row)
        busy = "" if row.busy is None else f"{row.busy:.1f} ({row.busy / (one.busy or 1):.2f})"
        cells = (
            *(f"{row.pairs:,}", row.how, f"{row.seconds:.1f}", f"{row.seconds / one.seconds:.2f}", busy),
            *(f"{row.megabytes:.0f} MB", "yes" if row.is_equal else "**no**"),
        )
        yield f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
