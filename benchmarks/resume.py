"""Go on with a training from each of 20 places, with one process and with two, and compare with an undisturbed run.

    python -m benchmarks.resume                # 160 runs; writes benchmarks/results/resume.md
    python -m benchmarks.resume --places 3 8 --data mixed --precision bfloat16

On one corpus and on two by weight, in float32 and in bfloat16. Each run goes on elsewhere than it began: its directory
is another, at every other place the ids come from shards, and at every other the checkpoint was written by as many
workers as do not go on. A campaign that is broken off goes on when it is started again; what it found so far is in
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

from benchmarks.campaign import RESULTS, Rows, differences, on_shards, reports, start, tell, tiny_run, undisturbed
from benchmarks.quality import machine
from pellucid.train.config import RunConfig
from pellucid.train.state import checkpoint_path, list_checkpoints

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
    """Carry out a campaign and write its page; exit status 1 if a run ended elsewhere."""
    parser = argparse.ArgumentParser(description="Go on from many places.")
    parser.add_argument("--places", type=int, nargs="+", default=list(PLACES), help="after how many updates")
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=list(DATA))
    parser.add_argument("--precision", nargs="+", choices=PRECISIONS, default=list(PRECISIONS))
    parser.add_argument("--page", type=Path, default=RESULTS / "resume.md")
    parser.add_argument("--folder", type=Path, default=Path("runs/campaign-resume"), help="where it works, and goes on")
    arguments = parser.parse_args()
    given = {name: getattr(arguments, name) for name in ("places", "data", "precision")}
    chosen = [
        f"--{name} {' '.join(map(str, some))}" for name, some in given.items() if some != parser.get_default(name)
    ]
    command, rows = " ".join(["python -m benchmarks.resume", *chosen]), []
    for rows in campaign(arguments.folder, arguments.data, arguments.precision, arguments.places):
        arguments.page.write_text(page(rows, command), encoding="utf-8")
    print(arguments.page.read_text(encoding="utf-8"))
    sys.exit(1 if any(row["differences"] for row in rows) else 0)


@dataclass(frozen=True)
class Kind:
    """One of the trainings, and what is made of it once."""

    folder: Path
    data: str
    precision: str

    @cached_property
    def text(self) -> RunConfig:
        """Its settings; every update is saved."""
        often = {"steps": STEPS, "evaluate_every": 9, "save_every": 1, "keep": 99}
        return tiny_run(
            self.folder, mixed=self.data == "mixed", train={**often, "batch_tokens": 211, "precision": self.precision}
        )

    @cached_property
    def shards(self) -> RunConfig:
        """The same on shards."""
        return on_shards(self.text, self.folder / "shards")

    @cached_property
    def whole(self) -> dict[int, Path]:
        """Undisturbed runs, by their number of processes."""
        outs = {processes: self.folder / f"undisturbed-{processes}" for processes in PROCESSES}
        for processes, out in outs.items():
            undisturbed(self.text, out, processes)
        return outs


def campaign(folder: Path, data: list[str], precisions: list[str], places: list[int]) -> Iterator[list[dict[str, Any]]]:
    """The rows of the cases that were asked for, after each of them; what was found before is not done again."""
    rows, wanted = Rows(folder / "rows.jsonl"), []
    for some, precision in product(data, precisions):
        kind = Kind(folder / f"{some}-{precision}", some, precision)
        for processes, place in product(PROCESSES, places):
            case = {"data": some, "precision": precision, "processes": processes, "place": place}
            wanted.append(case)
            if not any(case.items() <= row.items() for row in rows.rows):
                rows.add(case | resumed(kind, processes, place))
            found = [row for row in rows.rows if any(each.items() <= row.items() for each in wanted)]
            different = sum(bool(row["differences"]) for row in found)
            asked = len(data) * len(precisions) * len(PROCESSES) * len(places)
            tell(f"{len(found)} of {asked} runs gone on with, {different} ended elsewhere")
            yield found


def resumed(kind: Kind, processes: int, place: int) -> dict[str, Any]:
    """What comes of the run of a kind that goes on from a place with so many processes."""
    began = PROCESSES[(processes + place // 2) % 2]
    out, begun = kind.folder / "moved", time.monotonic()
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(kind.whole[began], out, ignore=shutil.ignore_patterns("last", "best", "average"))
    for later in list_checkpoints(out)[place:]:
        shutil.rmtree(later)
    numbers = json.loads((checkpoint_path(out, place) / "training.json").read_text(encoding="utf-8"))
    crew = start(kind.shards if place % 2 else kind.text, out, processes)
    statuses = crew.end(within=3600)
    went_on = crew.began() == place and statuses == [0] * processes
    return {
        "began": began,
        "shards": place % 2 == 1,
        "end_of_epoch": numbers["stream"][2] == 0,
        "epoch": numbers["stream"][1],
        "losses": sum("loss" in row and row["step"] > place for row in reports(out)),
        "differences": differences(kind.whole[1], out)
        if went_on
        else [f"it ended with {statuses}: {crew.said[-500:]}"],
        "seconds": time.monotonic() - begun,
    }


def page(rows: list[dict[str, Any]], command: str) -> str:
    """The campaign in figures."""
    lines = []
    for data, precision, processes in product(DATA, PRECISIONS, PROCESSES):
        case = {"data": data, "precision": precision, "processes": processes}
        if some := [row for row in rows if case.items() <= row.items()]:
            ends, shards = (sum(row[of] for row in some) for of in ("end_of_epoch", "shards"))
            others, losses = sum(row["began"] != processes for row in some), sum(row["losses"] for row in some)
            numbers = (len(some), ends, shards, others, losses, sum(bool(row["differences"]) for row in some))
            cells = (DATA[data], precision, processes, *numbers)
            lines.append(f"| {' | '.join(f'{each:,}' if isinstance(each, int) else each for each in cells)} |")
    problems = [
        f"- {DATA[row['data']]}, {row['precision']}, {row['processes']} processes, after {row['place']}: {each}\n"
        for row in rows
        for each in row["differences"]
    ]
    head = f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|"
    table, epochs = "\n".join(lines), 1 + max(row["epoch"] for row in rows)
    return f"""# Gone on with from many places

Made by `{command}` on {machine()}.

A tiny training of {STEPS} updates with dropout, two batches an update, saves each of them and is never disturbed. A
copy of its directory then goes on by `--resume` from one of the checkpoints, which lie in {epochs} epochs. Its models
`last`, `average` and `best` and its reports, which hold the loss and the length of the gradient of every update, are
compared with those of the undisturbed run of one process: every bit of them.

{head}
{table}

{len(rows):,} runs, {round(sum(row["seconds"] for row in rows)):,} seconds.
{"".join(problems)}"""


if __name__ == "__main__":
    main()
