"""Runs a job on a cluster for a command: what it says while it runs, and at its end."""

import glob
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import typer

from pellucid.cli.options import FAILED
from pellucid.store.atomic import WriteFailed

if TYPE_CHECKING:
    from pellucid.cluster.engine import WorkerPlan
    from pellucid.cluster.part_worker import Job
    from pellucid.cluster.progress import FileProgress, JobProgress

_SECONDS_BETWEEN_REPORTS = 15
_NAMED_FILES = 3  # files that are not complete, and are named at the end
_MOST_PROBLEMS = 20  # problems that are named one by one


class Account(Protocol):
    """All that is said of a file, put together from what there is to say of its parts."""

    def add_later(self, values: Mapping[str, Any]) -> None:
        """Add what there is to say of the next part."""
        ...

    def lines(self) -> Iterator[str]:
        """Yield what is said of the file."""
        ...


class SilentAccount:
    """The account of files about which nothing is said, or only later."""

    def add_later(self, values: Mapping[str, Any]) -> None:
        """Take nothing."""

    def lines(self) -> Iterator[str]:
        """Say nothing."""
        return iter(())


def expand_files(pattern: str) -> dict[str, str]:
    """Return the absolute paths of the files that a pattern such as 'books/*.txt' names, sorted.

    Each has the text that stands in place of the pattern's stars, empty where there is none. Raises
    ValueError where the pattern names no file, and for standard input.
    """
    if pattern == "-":
        reason = "--cluster reads files, perhaps on other machines"
        raise ValueError(f"{reason}; name a file, not standard input")

    if Path(pattern).exists():
        paths, before, behind = [pattern], pattern, ""
    else:
        paths = sorted(glob.glob(pattern, recursive=True))
        before, behind = re.split(r"[*?\[]", pattern)[0], re.split(r"[*?\]]", pattern)[-1]

    files: dict[str, str] = {}
    for path in paths:
        if Path(path).is_file():
            matched = path[len(before) : len(path) - len(behind)]
            files[matched] = str(Path(path).absolute())
    if not files:
        advice = "a pattern such as 'books/*.txt' stands in quotes"
        raise ValueError(f"there is no file {pattern}; {advice}")

    return files


def expand_pairs(source: str, target: str) -> dict[str, tuple[str, str]]:
    """Return the pairs of files that two patterns such as 'books/*.en' and 'books/*.es' name.

    A pair has the same text in place of the stars. Raises ValueError for a file without its other.
    """
    sources, targets = expand_files(source), expand_files(target)
    for file in sorted(sources.keys() ^ targets.keys()):
        alone, other = (sources[file], target) if file in sources else (targets[file], source)
        reason = f"{os.path.relpath(alone)} has no other file among {other}"
        raise ValueError(f"{reason}: those of a pair differ only where the patterns do")

    return {matched: (file, targets[matched]) for matched, file in sources.items()}


def require_sentences(files: Sequence[str]) -> None:
    """Raise ValueError for a file that does not hold a sentence a line, by its name or its beginning."""
    from pellucid.data.corpus import sentence_lines

    for file in files:
        next(sentence_lines(file), None)


def plan_workers(options: Mapping[str, Any]) -> "WorkerPlan":
    """Return the workers that the options of a command ask for.

    Raises ValueError for a certain GPU, which Ray chooses.
    """
    from pellucid.cluster.engine import WorkerPlan

    device = options.get("device", "cpu")
    if device not in ("cpu", "cuda"):
        advice = "with --cluster Ray gives each worker its GPU: --device cuda"
        raise ValueError(f"--device is {device}; {advice}")

    return WorkerPlan(options["cores"], int(device != "cpu"), options["workers"])


def require_folder(out: str | None, reason: str = "--cluster writes a file for each input file") -> Path:
    """Return the folder of the results; ValueError where none is named, or a file stands there."""
    if out is None:
        raise ValueError(f"{reason}; name a folder for them: --out FOLDER")

    folder = Path(out).absolute()
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{out} is a file; --cluster writes into a folder")
    return folder


def run_on_cluster(
    job: "Job",
    address: str,
    workers: "WorkerPlan",
    identity: Mapping[str, Any],
    begin_account: "Callable[[], Account]",
) -> None:
    """Work on all parts of a job that are not done, and join the results of each file.

    `identity` is what decides the results, as it is written beside each. Exits with code 1 where a
    file is not complete, after all others are.
    """
    from pellucid.cluster.engine import ClusterFailed, run_job
    from pellucid.cluster.progress import JobProgress
    from pellucid.cluster.session import connect
    from pellucid.cpu import count_processors

    job.folder.mkdir(parents=True, exist_ok=True)
    progress = JobProgress(job.works)

    def say_start(count: int) -> None:
        named = len({file for work in job.works for file in work.files})
        files = f"{named:,} file{'s' * (named > 1)}"
        typer.echo(f"pellucid: {files} on {count:,} worker{'s' * (count > 1)}", err=True)
        progress.start_clock()

    try:
        with connect(address, count_processors()):
            # Ray's own handler, in C++, prints where each of its threads was.
            signal.signal(signal.SIGTERM, _exit_at_signal)
            reported = time.monotonic()
            for outcome in run_job(job, workers, say_start):
                if outcome.state == "stopped":
                    advice = "the same command goes on with what is done so far"
                    raise WriteFailed(f"{outcome.reason}; {advice}")

                file = progress.add(outcome)
                if outcome.state in ("failed", "unreadable"):
                    _say_problem(progress, file)
                if file.is_complete and not file.problems:
                    _finish_file(job, file, identity, begin_account())

                if time.monotonic() - reported > _SECONDS_BETWEEN_REPORTS:
                    reported = time.monotonic()
                    typer.echo(f"pellucid: {progress.describe()}", err=True)
    except ClusterFailed as error:
        typer.echo(f"pellucid: Ray has failed: {error}", err=True)

    _say_end(job, progress)


def _exit_at_signal(number: int, frame: Any) -> NoReturn:
    """End the command as a signal asks, so that Ray's processes end before."""
    sys.exit(128 + number)


def _say_problem(progress: "JobProgress", file: "FileProgress") -> None:
    """Say what went wrong last, unless very much did already."""
    count = sum(len(other.problems) for other in progress.files)
    if count <= _MOST_PROBLEMS:
        typer.echo(f"pellucid: {file.work.title}: {file.problems[-1]}", err=True)

    if count == _MOST_PROBLEMS:
        typer.echo("pellucid: no more of these are named", err=True)


def _finish_file(
    job: "Job",
    file: "FileProgress",
    identity: Mapping[str, Any],
    account: "Account",
) -> None:
    """Join the results of a file whose parts are all there, and say what there is to say."""
    from pellucid.cluster.results import Results

    results, count = Results(job.folder, file.work.name), len(file.done)
    if results.are_joined(count):
        return

    made_of = {"files": list(file.work.files), "made_by": job.made_by, **identity}
    try:
        results.join(count, made_of, lambda record: account.add_later(record.about))
    except ValueError as error:
        file.problems.append(str(error))
        typer.echo(f"pellucid: {error}", err=True)
        return

    for line in account.lines():
        typer.echo(f"pellucid: {file.work.title}: {line}", err=True)


def _say_end(job: "Job", progress: "JobProgress") -> None:
    """Say what was done, and what was not; exit with code 1 where anything was not."""
    there = f", {progress.count_before:,} were there" if progress.count_before else ""
    line = f"{progress.count_made:,} made at {progress.rate:,.0f} a second{there}"
    folder = os.path.relpath(job.made_in or job.folder)
    typer.echo(f"pellucid: {line}; the results are in {folder}", err=True)

    incomplete = [file for file in progress.files if file.problems or not file.is_complete]
    if not incomplete:
        return
    names = ", ".join(file.work.title for file in incomplete[:_NAMED_FILES])
    if len(incomplete) > _NAMED_FILES:
        names += ", ..."
    count = f"{len(incomplete):,} of {len(progress.files):,} files"
    advice = "the same command goes on with what is missing"
    typer.echo(f"pellucid: {count} are not complete ({names}); {advice}", err=True)
    raise typer.Exit(FAILED)
