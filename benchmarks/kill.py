"""Kill a training at random moments, many inside a save; resume it each time and compare with an undisturbed run.

    python -m benchmarks.kill                # 500 kills; writes benchmarks/results/kill.md
    python -m benchmarks.kill --kills 30

A third of the runs have two workers, of which one is killed, or both. A campaign that is interrupted continues when it
is started again; its results so far are in --folder, and on the page.

SIGKILL leaves a process no time for anything. What it does not show is a power cut, which also loses what the system
has not yet written to the disk; against that every file is forced to the disk before it is renamed into place.
Needs a system with fork.
"""

import argparse
import random
import re
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.campaign import (
    MET,
    RESULTS,
    Crew,
    Rows,
    find_differences,
    run_undisturbed,
    show_progress,
    start_training,
    tiny_run,
)
from benchmarks.quality import machine
from pellucid.training.checkpoint import list_checkpoints
from pellucid.training.config import RunConfig

SAVE_EVERY, STEPS = 3, 25
OFTEN = {"steps": STEPS, "evaluate_every": 13, "save_every": SAVE_EVERY, "keep": 3}
PATIENCE = 1800.0
"""Seconds within which a worker must stop after another was killed."""


@dataclass
class KilledRun:
    """One run that was killed and resumed until it ended."""

    workers: int
    kills: int = 0
    of_one: int = 0
    named: int = 0
    inside_a_save: int = 0
    before_the_first_checkpoint: int = 0
    lost: list[int] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0


def main() -> None:
    """Run a campaign and write its page; exit status 1 if anything was lost that should not be."""
    parser = argparse.ArgumentParser(description="Kill a training again and again.")
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--page", type=Path, default=RESULTS / "kill.md")
    parser.add_argument("--folder", type=Path, default=Path("runs/campaign-kill"), help="where it works, and goes on")
    arguments = parser.parse_args()
    folder = arguments.folder / f"seed-{arguments.seed}"
    rows = Rows(folder / "rows.jsonl")
    for _ in run_campaign(folder, arguments.kills, arguments.seed, rows):
        arguments.page.write_text(make_page(rows, arguments.seed), encoding="utf-8")
    print(arguments.page.read_text(encoding="utf-8"))
    sys.exit(1 if rows.sum(lambda row: len(row["problems"])) else 0)


def run_campaign(folder: Path, kills: int, seed: int, rows: Rows) -> Iterator[None]:
    """Kill and resume runs until they end, and add each to `rows`; pauses after each and at the end."""
    settings, reference = tiny_run(folder / "data", train=OFTEN), folder / "undisturbed"
    shutil.rmtree(folder / "runs", ignore_errors=True)  # of a campaign that was broken off
    run_undisturbed(settings, reference)
    while (remaining := kills - int(rows.sum(lambda row: row["kills"]))) > 0:
        number = len(rows.rows)
        workers = 1 if number % 3 else 2
        # A seed of its own for each run: an interrupted campaign repeats the rest as it would have been.
        run, out, began = KilledRun(workers), folder / f"runs/{number}", time.monotonic()
        kill_run(settings, out, remaining, random.Random(f"{seed}/{number}"), run)
        run.problems += find_differences(reference, out) if (out / "best").exists() else ["it has no end"]
        run.seconds = time.monotonic() - began
        rows.add(asdict(run))
        shutil.rmtree(out)
        problems = rows.sum(lambda row: len(row["problems"]))
        show_progress(
            f"{rows.sum(lambda row: row['kills']):,} of {kills:,} kills, {len(rows.rows):,} runs, {problems} problems"
        )
        yield
    yield


def kill_run(settings: RunConfig, out: Path, kill_limit: int, chance: random.Random, run: KilledRun) -> None:
    """Carry one run to its end, with kills at random moments."""
    reached_step: int | None = None
    while True:
        crew = start_training(settings, out, run.workers)
        killed = run.kills < kill_limit and wait_to_kill(crew, out, chance)
        statuses = kill_workers(crew, out, chance, run) if killed else crew.end(within=3600)
        if reached_step is not None and (first_step := crew.began()) is not None:
            note_lost_updates(reached_step - first_step, run)
        if statuses[0] == 0:
            return
        if not killed:
            run.problems.append(f"it ended with {statuses}: {crew.output[-500:]}")
            return
        # Before its first update, a run that is killed again has reached only where it began.
        reached_step = max(crew.steps(), default=crew.began() or reached_step)


def kill_workers(crew: Crew, out: Path, chance: random.Random, run: KilledRun) -> list[int]:
    """Kill some of the workers, or all; return how each of them ended."""
    victims = chance.sample(range(run.workers), chance.randint(1, run.workers))
    crew.kill(victims)
    saving, survived = any(find_half_written(out)), len(victims) < run.workers
    crew.listen()
    have_met = MET in crew.output
    # Workers that have not met yet are stopped from outside, as torchrun does; others must stop by themselves.
    statuses = crew.end(within=PATIENCE if have_met else 0.0)
    run.kills += 1
    run.of_one += survived
    # Where all died, the file still lies there; a survivor may have finished it, so it was looked for before.
    run.inside_a_save += saving if survived else any(find_half_written(out))
    run.before_the_first_checkpoint += not list_checkpoints(out)
    if survived and have_met:
        note_survivor(victims[0], crew, statuses, run)
    return statuses


def note_survivor(victim: int, crew: Crew, statuses: list[int], run: KilledRun) -> None:
    """Note whether the other worker ended because of the kill and said so; one that had finished need not."""
    other_status, message = (
        statuses[1 - victim],
        re.search(rf"worker {victim} .*(is|are) gone, so all stop", crew.output),
    )
    if other_status == 1 and message:
        run.named += 1
    elif other_status != 0:
        run.problems.append(f"worker {victim} was killed, the other ended with {other_status}: {crew.output[-500:]}")


def note_lost_updates(updates: int, run: KilledRun) -> None:
    """Note how many updates had to be made again."""
    run.lost.append(updates)
    if updates > SAVE_EVERY:
        run.problems.append(f"{updates} updates were lost")


def wait_to_kill(crew: Crew, out: Path, chance: random.Random) -> bool:
    """Wait for the moment to kill: any, or a little after something begins to be written; False if the run ended."""
    # Saves are short: moments drawn from the whole run would seldom fall into one.
    if chance.random() < 0.5:
        return wait_for_updates(crew, max(0, chance.randint(-STEPS // 5, STEPS)), chance)
    for _ in range(chance.randint(0, 4)):
        if not wait_for_writing(crew, out, True) or not wait_for_writing(crew, out, False):
            return False
    return wait_for_writing(crew, out, True) and not crew.has_ended(within=chance.uniform(0, 0.003))


def wait_for_updates(crew: Crew, updates: int, chance: random.Random) -> bool:
    """Wait for so many updates, and for a part of the next one, or of a second if there was none yet."""
    began = time.monotonic()
    while len(crew.steps()) < updates:
        if not crew.listen(within=60.0):
            return False
    seconds_each = (time.monotonic() - began) / updates if updates else 1.0
    return not crew.has_ended(within=chance.uniform(0, seconds_each))


def wait_for_writing(crew: Crew, out: Path, expected: bool) -> bool:
    """Wait until something is being written, or nothing; return False if the run ended before."""
    while any(find_half_written(out)) != expected:
        if crew.has_ended(within=0.002):
            return False
    return True


def find_half_written(out: Path) -> Iterator[Path]:
    """Yield what is being written or replaced."""
    yield from out.glob(".*.new")
    yield from out.glob(".*.old")
    yield from (out / "checkpoints").glob(".*.new")


def make_page(campaign_rows: Rows, seed: int) -> str:
    """Return the page of a campaign."""

    def total(key: str) -> int:
        return int(campaign_rows.sum(lambda row: row[key]))

    kills, problems = (
        total("kills"),
        [f"run {i}: {p}" for i, row in enumerate(campaign_rows.rows) for p in row["problems"]],
    )
    updates = [lost for row in campaign_rows.rows for lost in row["lost"]]
    two_workers = [row for row in campaign_rows.rows if row["workers"] == 2]
    rows = {
        "kills": kills,
        "kills while something was half written": total("inside_a_save"),
        "kills before the first checkpoint": total("before_the_first_checkpoint"),
        "kills in runs of two workers": sum(row["kills"] for row in two_workers),
        "kills of only one of two workers": total("of_one"),
        "kills of one worker after which the other stopped and named it": total("named"),
        "runs that were killed and resumed until they ended": sum(row["kills"] > 0 for row in campaign_rows.rows),
        f"most updates lost by one kill (a checkpoint every {SAVE_EVERY} updates)": max(updates, default=0),
        "updates lost by all kills together": sum(updates),
        "runs with another result than the undisturbed one, and kills that lost more updates": len(problems),
        "seconds": round(campaign_rows.sum(lambda row: row["seconds"])),
    }
    table = "\n".join(f"| {label} | {number:,} |" for label, number in rows.items())
    return f"""# Training killed at random moments and resumed

Made by `python -m benchmarks.kill --kills {kills} --seed {seed}` on {machine()}.

A tiny training of {STEPS} updates on two corpora with weights, with dropout and accumulation, is killed by SIGKILL and
continued with `--resume`, again and again until it ends. Half of the kills come at a random moment of the whole run,
and half while something is being written. A third of the runs have two workers, of which one or both are killed. If
only one is killed and the two were already connected, the other must stop by itself and name the killed one. The models
`last`, `average` and `best` and the reports are then compared with those of a run that was not disturbed: every bit
must be the same.

| what | number |
|---|---|
{table}
""" + "".join(f"\n- {problem}" for problem in problems)


if __name__ == "__main__":
    main()
