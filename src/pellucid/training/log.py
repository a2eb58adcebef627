"""Reports of a run: a line of JSON each, a progress bar for a terminal, plain lines for a file."""

import json
import sys
import time
from contextlib import suppress
from datetime import datetime, timedelta
from math import inf, nan
from pathlib import Path
from typing import Any

from pellucid.cpu import BUSY_SHARE, ProcessorShare, describe_busy_machine
from pellucid.store.atomic import WriteFailed, explain_write_error, write_text_whole
from pellucid.training.checkpoint import RunCounts, SinceReport
from pellucid.training.dev_evaluation import Evaluation
from pellucid.training.process import leave_lost_terminals
from pellucid.training.tracking import Tracker
from pellucid.training.update import UpdateResult

REPORT_EVERY = 50  # updates between two lines of `log.jsonl`
# Seconds of training after which a run can tell whether other programs slow it down.
SECONDS_TO_JUDGE = 3.0
LEAST_SECONDS_LEFT = 30.0  # a run that is ready sooner does not say when


def read_log(path: Path) -> list[dict[str, Any]]:
    """Read the reports of a run, oldest first; a last line that was cut short by a crash is left out."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return rows


def describe_time_left(seconds: float) -> str:
    """Return the line that says when a run will be ready that needs so many seconds more."""
    clock = (datetime.now() + timedelta(seconds=seconds)).strftime("%H:%M")
    return (
        f"Ready: about {clock}, in {seconds / 60:.3g} minutes. Ctrl-C saves everything and stops."
    )


class ProgressOutput:
    """Destination of a run's progress and messages; this one discards them, as on other workers."""

    def say(self, message: str) -> None:
        """Show a message."""

    def update(self, progress: float, step: int, loss: float, speed: float, score: str) -> None:
        """Show how far the run is (0 to 1), its loss, its tokens per second and its newest dev score."""

    def close(self) -> None:
        """Show no more."""


class PlainOutput(ProgressOutput):
    """Prints messages as plain lines to standard error, for a log file or a pipe; shows no progress."""

    def __init__(self, prefix: str = ""):
        self.prefix = prefix

    def say(self, message: str) -> None:
        print(self.prefix + message, file=sys.stderr, flush=True)


class _BarOutput(ProgressOutput):
    """Shows a progress bar with step, loss, tokens per second, dev score and the time left."""

    def __init__(self) -> None:
        # rich takes its time to import, and only a terminal needs it.
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self.bar = Progress(
            TextColumn("step {task.fields[step]:,}"),
            BarColumn(),
            TextColumn(
                "loss {task.fields[loss]:.3f}  {task.fields[speed]:,.0f} tokens/s  {task.fields[score]}"
            ),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self.task = self.bar.add_task("", total=1.0, step=0, loss=float("nan"), speed=0.0, score="")
        self.bar.start()

    def say(self, message: str) -> None:
        # Through the bar's console, or the message would break the bar.
        try:
            self.bar.console.print(message, highlight=False, markup=False)
        except OSError:
            # The terminal of a run that was detached from its shell may close: the run goes on
            # without it.
            leave_lost_terminals()

    def update(self, progress: float, step: int, loss: float, speed: float, score: str) -> None:
        self.bar.update(
            self.task, completed=progress, step=step, loss=loss, speed=speed, score=score
        )

    def close(self) -> None:
        with suppress(OSError):
            self.bar.stop()


def choose_output() -> ProgressOutput:
    """Return a progress bar if standard error is a terminal, otherwise plain lines."""
    return _BarOutput() if sys.stderr.isatty() else PlainOutput()


class RunLog:
    """Appends reports to `log.jsonl`; a resumed run drops those that come again.

    Reports that cannot be written, as on a full disk, are kept until they can.
    """

    def __init__(
        self,
        path: Path | None,
        counts: RunCounts,
        output: ProgressOutput,
        on_cpu: bool = True,
        tracker: Tracker | None = None,
    ):
        """Open the log at `path`; without a path, as on other workers, nothing is written.

        A run that is `on_cpu` is told once if other programs slow it down. Each report goes to the
        `tracker`, too.
        """
        self.path, self.output, self.tracker = path, output, tracker
        self.score = self.write_error = ""
        self.evaluations: dict[int, Evaluation] = {}
        self.beginning: dict[str, Any] = {}  # what the report of the first update has, too
        self.processor, self.started = ProcessorShare() if on_cpu else None, time.monotonic()
        # Whether the run has so many updates, and nobody said yet how long they take.
        self.counts_updates, self.progress_before = False, 0.0
        if path is None:
            return

        kept = ""
        for row in read_log(path) if path.exists() else []:
            # A run that is made longer is averaged again: its earlier average goes, too.
            if row["step"] <= counts.step and "model" not in row:
                kept += json.dumps(row) + "\n"

        write_text_whole(path, kept)
        self.size, self.unwritten = path.stat().st_size, ""

    def report_update(
        self,
        counts: RunCounts,
        result: UpdateResult,
        seconds: float,
        progress: float,
        seen: dict[str, int],
    ) -> None:
        """Note an update that took `seconds`; report the first, the last, and some in between.

        `seen` is how many pairs of each corpus have been taken from the data.
        """
        since = counts.since_report
        since.seconds += seconds
        # A skipped update took time, which counts, but its loss may not be finite.
        if not result.skipped:
            since.loss += result.loss * result.target_tokens
            since.target_tokens += result.target_tokens

        loss = since.loss / since.target_tokens if since.target_tokens else nan
        speed = since.target_tokens / since.seconds
        self.output.update(progress, counts.step, loss, speed, self.score)

        if counts.step % REPORT_EVERY == 0 or counts.step == 1 or progress >= 1.0:
            self.write(
                counts,
                loss=loss,
                tokens_per_second=round(speed),
                learning_rate=result.learning_rate,
                gradient_norm=result.gradient_norm,
                seen=seen,
                **(self.beginning if counts.step == 1 else {}),
            )
            counts.since_report = SinceReport()
            self.note_end(progress)
            self.note_busy_machine()

    def note_end(self, progress: float) -> None:
        """Say once, after some seconds of training, when a run of so many updates will be ready."""
        if not self.counts_updates or self.seconds_open() < SECONDS_TO_JUDGE:
            return
        self.counts_updates = False
        gained = progress - self.progress_before
        left = self.seconds_open() * (1 - progress) / gained if gained > 0 else 0.0
        if left >= LEAST_SECONDS_LEFT:
            self.output.say(describe_time_left(left))

    def seconds_open(self) -> float:
        """Seconds since the log was opened."""
        return time.monotonic() - self.started

    def note_busy_machine(self) -> None:
        """Say once, after some seconds of training, when other programs slow the run down."""
        if self.processor is None or self.seconds_open() < SECONDS_TO_JUDGE:
            return
        share, self.processor = self.processor.measure(), None
        if share is not None and share < BUSY_SHARE:
            self.output.say(describe_busy_machine(share))

    def report_evaluation(self, counts: RunCounts, evaluation: Evaluation) -> None:
        """Report dev scores, in the file and to the user."""
        self.write(counts, **evaluation.row())
        # Only the newest: the end of a run looks for the evaluation at its last step.
        self.evaluations = {counts.step: evaluation}
        self.score = f"BLEU {evaluation.bleu:.1f}"
        self.output.say(f"step {counts.step:,} after {counts.seconds / 60:.1f} min: {evaluation}")

    def report_average(self, counts: RunCounts, averaged: Evaluation) -> None:
        """Report the dev scores of the averaged model."""
        self.write(counts, model="average", **averaged.row())
        self.output.say(f"average of the last checkpoints: {averaged}")

    def require_written(self) -> None:
        """Raise WriteFailed if reports are still unwritten when there will be no more."""
        if self.path is not None and self.unwritten:
            raise WriteFailed(
                f"{self.path} could not be written: {self.write_error}; what stood there is as it "
                f"was, without the last {self.unwritten.count(chr(10))} reports"
            )

    def write(self, counts: RunCounts, **row: Any) -> None:
        """Append a report, with step, seconds and tokens so far, and reports not written before."""
        if self.path is None:
            return

        position = {
            "step": counts.step,
            "seconds": round(counts.seconds, 3),
            "target_tokens": counts.target_tokens,
        }
        if counts.skipped_updates:
            position["skipped_updates"] = counts.skipped_updates
        # JSON has neither NaN nor infinity.
        numbers = {key: value for key, value in row.items() if value == value and value != inf}
        if self.tracker is not None:
            self.tracker.report(position | numbers)

        was_full = bool(self.unwritten)
        self.unwritten += json.dumps(position | numbers) + "\n"
        try:
            with self.path.open("r+b") as file:
                file.seek(self.size)  # over a line that a full disk cut short
                file.write(self.unwritten.encode())
        except OSError as error:
            self.write_error = explain_write_error(error)
            # Say it once, not at every report.
            if not was_full:
                self.output.say(
                    f"{self.path}: {self.write_error}; its reports are kept until they can be "
                    "written"
                )
            return

        self.size, self.unwritten = self.size + len(self.unwritten.encode()), ""
