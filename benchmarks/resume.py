"""Resume a training from each of 20 places, with one process and with two, and compare with an undisturbed run.

    python -m benchmarks.resume                # 160 runs; writes benchmarks/results/resume.md
    python -m benchmarks.resume --places 3 8 --data mixed --precision bfloat16

On one corpus and on two by weight, in float32 and in bfloat16. Each run resumes elsewhere than it began: its directory
is another, at every other place the ids come from shards, and at every other the checkpoint was written by another
number of workers. A campaign that is interrupted continues when it is started again; its results so far are in
--folder, and on the page. Needs a system with fork.
"""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.campaign import (
    RESULTS,
    Rows,
    find_differences,
    prepare_shard_run,
    read_reports,
    run_undisturbed,
    show_progress,
    start_training,
    tiny_run,
)
from benchmarks.quality import machine
from pellucid.training.checkpoint import checkpoint_path, list_checkpoints
from pellucid.training.config import RunConfig

STEPS = 23
PLACES = range(1, 21)
DATA = {"one": "one corpus", "mixed": "two corpora, weights 0.6 and 2"}
PRECISIONS = ("float32", "bfloat16")
PROCESSES = (1, 2)
COLUMNS = (
    *("data", "precision", "processes", "places", "of them at the end of an epoch", "ids from shards"),
    *("checkpoint of another number of processes", "losses compared", "runs that differ"),
)


def main() -> None:
    """Run a campaign and write its page; exit status 1 if a run ended elsewhere."""
    parser = argparse.ArgumentParser(description="Resume from many places.")
    parser.add_argument("--places", type=int, nargs="+", default=list(PLACES), help="after how many updates")
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=list(DATA))
    parser.add_argument("--precision", nargs="+", choices=PRECISIONS, default=list(PRECISIONS))
    parser.add_argument("--page", type=Path, default=RESULTS / "resume.md")
    parser.add_argument("--folder", type=Path, default=Path("runs/campaign-resume"), help="where it works, and goes on")
    arguments = parser.parse_args()
    choices = {name: getattr(arguments, name) for name in ("places", "data", "precision")}
    options = [
        f"--{name} {' '.join(map(str, values))}"
        for name, values in choices.items()
        if values != parser.get_default(name)
    ]
    command, rows = " ".join(["python -m benchmarks.resume", *options]), []
    for rows in run_campaign(arguments.folder, arguments.data, arguments.precision, arguments.places):
        arguments.page.write_text(make_page(rows, command), encoding="utf-8")
    print(arguments.page.read_text(encoding="utf-8"))
    sys.exit(1 if any(row["differences"] for row in rows) else 0)


@dataclass(frozen=True)
class Kind:
    """One of the trainings, with what is made for it once."""

    folder: Path
    data: str
    precision: str

    @cached_property
    def text(self) -> RunConfig:
        """Run on text; every update is saved."""
        # Every update is saved and every checkpoint kept, so that each place can be resumed.
        often = {"steps": STEPS, "evaluate_every": 9, "save_every": 1, "keep": 99}
        return tiny_run(
            self.folder, mixed=self.data == "mixed", train={**often, "batch_tokens": 211, "precision": self.precision}
        )

    @cached_property
    def shards(self) -> RunConfig:
        """Run on shards of the same text."""
        return prepare_shard_run(self.text, self.folder / "shards")

    @cached_property
    def undisturbed(self) -> dict[int, Path]:
        """Directories of undisturbed runs, by their number of processes."""
        outs = {processes: self.folder / f"undisturbed-{processes}" for processes in PROCESSES}
        for processes, out in outs.items():
            run_undisturbed(self.text, out, processes)
        return outs


def run_campaign(
    folder: Path, data: list[str], precisions: list[str], places: list[int]
) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of the requested cases, after each of them; cases with a row are not run again."""
    rows, requested = Rows(folder / "rows.jsonl"), []
    for data_name, precision in product(data, precisions):
        kind = Kind(folder / f"{data_name}-{precision}", data_name, precision)
        for processes, place in product(PROCESSES, places):
            case = {"data": data_name, "precision": precision, "processes": processes, "place": place}
            requested.append(case)
            # Rows of an interrupted campaign are kept.
            if not any(case.items() <= row.items() for row in rows.rows):
                rows.add(case | resume_run(kind, processes, place))
            finished = [
                row for row in rows.rows if any(requested_case.items() <= row.items() for requested_case in requested)
            ]
            different = sum(bool(row["differences"]) for row in finished)
            total = len(data) * len(precisions) * len(PROCESSES) * len(places)
            show_progress(f"{len(finished)} of {total} runs gone on with, {different} ended elsewhere")
            yield finished


def resume_run(kind: Kind, processes: int, place: int) -> dict[str, Any]:
    """Resume a run of a kind from a place, with so many processes, and return its row."""
    # At every other place, the checkpoint of the other number of processes.
    saved_by = PROCESSES[(processes + place // 2) % 2]
    out, start = kind.folder / "moved", time.monotonic()
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(kind.undisturbed[saved_by], out, ignore=shutil.ignore_patterns("last", "best", "average"))
    # Only the checkpoints up to the place may be there: the newest one is resumed.
    for later in list_checkpoints(out)[place:]:
        shutil.rmtree(later)
    numbers = json.loads((checkpoint_path(out, place) / "training.json").read_text(encoding="utf-8"))
    crew = start_training(kind.shards if place % 2 else kind.text, out, processes)
    statuses = crew.end(within=3600)
    resumed = crew.began() == place and statuses == [0] * processes
    return {
        "began": saved_by,
        # At odd places the ids come from shards, at even ones from text: both must give the same run.
        "shards": place % 2 == 1,
        "end_of_epoch": numbers["stream"][2] == 0,
        "epoch": numbers["stream"][1],
        "losses": sum("loss" in row and row["step"] > place for row in read_reports(out)),
        "differences": find_differences(kind.undisturbed[1], out)
        if resumed
        else [f"it ended with {statuses}: {crew.output[-500:]}"],
        "seconds": time.monotonic() - start,
    }


def make_page(rows: list[dict[str, Any]], command: str) -> str:
    """Return the page of a campaign."""
    lines = []
    for data, precision, processes in product(DATA, PRECISIONS, PROCESSES):
        case = {"data": data, "precision": precision, "processes": processes}
        if cases := [row for row in rows if case.items() <= row.items()]:
            ends, shards = (sum(row[key] for row in cases) for key in ("end_of_epoch", "shards"))
            saved_by_others, losses = (
                sum(row["began"] != processes for row in cases),
                sum(row["losses"] for row in cases),
            )
            numbers = (
                len(cases),
                ends,
                shards,
                saved_by_others,
                losses,
                sum(bool(row["differences"]) for row in cases),
            )
            cells = (DATA[data], precision, processes, *numbers)
            lines.append(f"| {' | '.join(f'{cell:,}' if isinstance(cell, int) else cell for cell in cells)} |")
    problems = [
        f"- {DATA[row['data']]}, {row['precision']}, {row['processes']} processes, after {row['place']}: {difference}\n"
        for row in rows
        for difference in row["differences"]
    ]
    head = f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|"
    table, epochs = "\n".join(lines), 1 + max(row["epoch"] for row in rows)
    return f"""# Training resumed from many places

Made by `{command}` on {machine()}.

A tiny training of {STEPS} updates with dropout and two batches an update writes a checkpoint after each update and is
never interrupted. Its checkpoints lie in {epochs} epochs. A copy of its directory is then continued with `--resume`
from one of the checkpoints. The models `last`, `average` and `best` and the reports, which hold the loss and the length
of the gradient of every update, are compared with those of the uninterrupted run of one process: every bit must be the
same.

{head}
{table}

{len(rows):,} runs, {round(sum(row["seconds"] for row in rows)):,} seconds.
{"".join(problems)}"""


if __name__ == "__main__":
    main()
