"""Kill a training at random moments, many of them inside a save, go on each time, and compare with an undisturbed run.

    python -m benchmarks.kill                # 500 kills; writes benchmarks/results/kill.md
    python -m benchmarks.kill --kills 30

A third of the runs have two workers, of which one is killed, or both. A campaign that is broken off goes on when it is
started again; what it found so far is in --folder, and on the page.

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

from benchmarks.campaign import MET, RESULTS, Crew, Rows, differences, start, tell, tiny_run, undisturbed
from benchmarks.quality import machine
from pellucid.train.config import RunConfig
from pellucid.train.state import list_checkpoints

SAVE_EVERY, STEPS = 3, 25
OFTEN = {"steps": STEPS, "evaluate_every": 13, "save_every": SAVE_EVERY, "keep": 3}
PATIENCE = 1800.0
"""Seconds in which a worker must have stopped after another was killed."""


@dataclass
class Disturbed:
    """What happened in one run, which was killed and gone on with until it ended."""

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
    """Carry out a campaign and write its page; exit status 1 if anything was lost that should not be."""
    parser = argparse.ArgumentParser(description="Kill a training again and again.")
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--page", type=Path, default=RESULTS / "kill.md")
    parser.add_argument("--folder", type=Path, default=Path("runs/campaign-kill"), help="where it works, and goes on")
    arguments = parser.parse_args()
    folder = arguments.folder / f"seed-{arguments.seed}"
    done = Rows(folder / "rows.jsonl")
    for _ in campaign(folder, arguments.kills, arguments.seed, done):
        arguments.page.write_text(page(done, arguments.seed), encoding="utf-8")
    print(arguments.page.read_text(encoding="utf-8"))
    sys.exit(1 if done.sum(lambda row: len(row["problems"])) else 0)


def campaign(folder: Path, kills: int, seed: int, done: Rows) -> Iterator[None]:
    """Runs that are killed and gone on with until they end, each added to `done`; pauses after each and at the end."""
    settings, whole = tiny_run(folder / "data", train=OFTEN), folder / "undisturbed"
    shutil.rmtree(folder / "runs", ignore_errors=True)  # of a campaign that was broken off
    undisturbed(settings, whole)
    while (left := kills - int(done.sum(lambda row: row["kills"]))) > 0:
        number = len(done.rows)
        workers = 1 if number % 3 else 2
        run, out, begun = Disturbed(workers), folder / f"runs/{number}", time.monotonic()
        disturb(settings, out, left, random.Random(f"{seed}/{number}"), run)
        run.problems += differences(whole, out) if (out / "best").exists() else ["it has no end"]
        run.seconds = time.monotonic() - begun
        done.add(asdict(run))
        shutil.rmtree(out)
        problems = done.sum(lambda row: len(row["problems"]))
        tell(f"{done.sum(lambda row: row['kills']):,} of {kills:,} kills, {len(done.rows):,} runs, {problems} problems")
        yield
    yield


def disturb(settings: RunConfig, out: Path, most: int, chance: random.Random, run: Disturbed) -> None:
    """One run to its end, with kills at random moments."""
    reached: int | None = None
    while True:
        crew = start(settings, out, run.workers)
        killed = run.kills < most and dies(crew, out, chance)
        statuses = killed_now(crew, out, chance, run) if killed else crew.end(within=3600)
        if reached is not None and (began := crew.began()) is not None:
            lost(reached - began, run)
        if statuses[0] == 0:
            return
        if not killed:
            run.problems.append(f"it ended with {statuses}: {crew.said[-500:]}")
            return
        reached = max(crew.steps(), default=crew.began() or reached)


def killed_now(crew: Crew, out: Path, chance: random.Random, run: Disturbed) -> list[int]:
    """Kill some of the workers, or all; how each of them ended."""
    victims = chance.sample(range(run.workers), chance.randint(1, run.workers))
    crew.kill(victims)
    saving, survived = any(half_written(out)), len(victims) < run.workers
    crew.listen()
    met = MET in crew.said
    # As torchrun does, those that have not met yet are stopped from outside; those that have must stop by themselves.
    statuses = crew.end(within=PATIENCE if met else 0.0)
    run.kills += 1
    run.of_one += survived
    run.inside_a_save += saving if survived else any(half_written(out))
    run.before_the_first_checkpoint += not list_checkpoints(out)
    if survived and met:
        heard_of(victims[0], crew, statuses, run)
    return statuses


def heard_of(victim: int, crew: Crew, statuses: list[int], run: Disturbed) -> None:
    """Note whether the other worker ended because of it and said so; one that was done already needs not."""
    other, named = statuses[1 - victim], re.search(rf"worker {victim} .*(is|are) gone, so all stop", crew.said)
    if other == 1 and named:
        run.named += 1
    elif other != 0:
        run.problems.append(f"worker {victim} was killed, the other ended with {other}: {crew.said[-500:]}")


def lost(updates: int, run: Disturbed) -> None:
    """Note how many updates had to be made again."""
    run.lost.append(updates)
    if updates > SAVE_EVERY:
        run.problems.append(f"{updates} updates were lost")


def dies(crew: Crew, out: Path, chance: random.Random) -> bool:
    """Wait for the moment to kill: any, or a little after something begins to be written; False if it ended before."""
    if chance.random() < 0.5:
        return reaches(crew, max(0, chance.randint(-STEPS // 5, STEPS)), chance)
    for _ in range(chance.randint(0, 4)):
        if not writing(crew, out, True) or not writing(crew, out, False):
            return False
    return writing(crew, out, True) and not crew.ended(within=chance.uniform(0, 0.003))


def reaches(crew: Crew, updates: int, chance: random.Random) -> bool:
    """Wait for so many updates, and for a part of the next or, where there is none yet, of a second."""
    begun = time.monotonic()
    while len(crew.steps()) < updates:
        if not crew.listen(within=60.0):
            return False
    each = (time.monotonic() - begun) / updates if updates else 1.0
    return not crew.ended(within=chance.uniform(0, each))


def writing(crew: Crew, out: Path, wanted: bool) -> bool:
    """Wait until something is being written, or nothing; False if the run ended before."""
    while any(half_written(out)) != wanted:
        if crew.ended(within=0.002):
            return False
    return True


def half_written(out: Path) -> Iterator[Path]:
    """What is being written, or replaced."""
    yield from out.glob(".*.new")
    yield from out.glob(".*.old")
    yield from (out / "checkpoints").glob(".*.new")


def page(done: Rows, seed: int) -> str:
    """The campaign in figures."""

    def total(of: str) -> int:
        return int(done.sum(lambda row: row[of]))

    kills, problems = total("kills"), [f"run {i}: {p}" for i, row in enumerate(done.rows) for p in row["problems"]]
    updates = [each for row in done.rows for each in row["lost"]]
    two = [row for row in done.rows if row["workers"] == 2]
    rows = {
        "kills": kills,
        "of them while something was half written": total("inside_a_save"),
        "of them before the first checkpoint": total("before_the_first_checkpoint"),
        "of them in runs of two workers": sum(row["kills"] for row in two),
        "of them of one of the two": total("of_one"),
        "of them heard of by the other, which stopped and named it": total("named"),
        "runs that were killed and gone on with until they ended": sum(row["kills"] > 0 for row in done.rows),
        f"most updates lost by a kill (save interval: {SAVE_EVERY})": max(updates, default=0),
        "updates lost in all": sum(updates),
        "runs that ended elsewhere than the undisturbed one, or kills that lost more": len(problems),
        "seconds": round(done.sum(lambda row: row["seconds"])),
    }
    table = "\n".join(f"| {what} | {number:,} |" for what, number in rows.items())
    return f"""# Killed at any moment

Made by `python -m benchmarks.kill --kills {kills} --seed {seed}` on {machine()}.

A tiny training of {STEPS} updates on two corpora by weight, with dropout and accumulation, is killed by SIGKILL, half
of the time at a moment drawn from the whole run and half of the time while something is being written, and gone on
with by `--resume`, until it ends. A third of the runs have two workers, of which one is killed, or both; one that is
left must stop by itself and name the other, if the two had met. The models `last`, `average` and `best` and the reports
are then compared with those of a run that nobody disturbed: every bit of them.

| what | number |
|---|---|
{table}
""" + "".join(f"\n- {problem}" for problem in problems)


if __name__ == "__main__":
    main()
