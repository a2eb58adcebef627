"""Kill a training at random moments, many of them inside a save, go on each time, and compare with an undisturbed run.

    python -m benchmarks.kill                # 500 kills; writes benchmarks/results/kill.md
    python -m benchmarks.kill --kills 30

SIGKILL leaves a process no time for anything. What it does not show is a power cut, which also loses what the system
has not yet written to the disk; against that every file is forced to the disk before it is renamed into place.
Needs a system with fork.
"""

import argparse
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

# Before numpy and torch are imported: a process with threads does not fork well, and one thread gives the same bits.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

from benchmarks.quality import machine
from pellucid.train import log, loop
from pellucid.train.config import RunConfig, make_run

RESULTS = Path(__file__).parent / "results"
WORDS = {"one": "uno", "two": "dos", "three": "tres", "four": "cuatro", "five": "cinco", "six": "seis"}
SAVE_EVERY, STEPS = 3, 25
MODELS = ("last", "average", "best")
TOLD_HOW_TO_GO_ON = re.compile(r"going on after step ([\d,]+) ")


@dataclass
class Campaign:
    """What happened in all."""

    kills: int = 0
    inside_a_save: int = 0
    before_the_first_checkpoint: int = 0
    runs: int = 0
    lost: list[int] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0


@dataclass
class Child:
    """A training in a process of its own; what it says comes through a pipe."""

    process: int
    pipe: int
    said: str = ""

    def steps(self) -> list[int]:
        """The updates it has made."""
        return [int(line[5:]) for line in self.said.splitlines() if line.startswith("step:")]

    def began(self) -> int:
        """The step it went on from."""
        found = TOLD_HOW_TO_GO_ON.search(self.said)
        return int(found[1].replace(",", "")) if found else 0

    def listen(self) -> bool:
        """Take in what it said; whether it can still say more."""
        said = os.read(self.pipe, 2**16)
        self.said += said.decode()
        return bool(said)

    def end(self, number: int | None = None) -> int:
        """Wait for it, after a signal if one is named; its exit status, negative for a signal."""
        if number is not None:
            os.kill(self.process, number)
        while self.listen():
            pass
        os.close(self.pipe)
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


class Pipe:
    """A voice that another process hears."""

    def __init__(self, pipe: int):
        self.pipe = pipe

    def say(self, message: str) -> None:
        os.write(self.pipe, f"{message}\n".encode())

    def update(self, progress: float, step: int, loss: float, speed: float, score: str) -> None:
        os.write(self.pipe, f"step:{step}\n".encode())

    def close(self) -> None:
        pass


def main() -> None:
    """Carry out a campaign and write its page; exit status 1 if anything was lost that should not be."""
    parser = argparse.ArgumentParser(description="Kill a training again and again.")
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--page", type=Path, default=RESULTS / "kill.md")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        done = campaign(Path(folder), arguments.kills, random.Random(arguments.seed))
    arguments.page.write_text(page(done, arguments.kills, arguments.seed), encoding="utf-8")
    print(arguments.page.read_text(encoding="utf-8"))
    sys.exit(1 if done.problems else 0)


def campaign(folder: Path, kills: int, chance: random.Random) -> Campaign:
    """Runs that are killed and gone on with until they end; each ends as the undisturbed one."""
    for slow in ("sacrebleu", "torch._dynamo"):
        import_module(slow)  # once here, not once in every child
    begun, done = time.monotonic(), Campaign()
    settings, undisturbed = tiny_run(folder), folder / "undisturbed"
    child = start(settings, undisturbed)
    assert child.end() == 0, child.said
    seconds = time.monotonic() - begun
    while done.kills < kills:
        out = folder / f"run-{done.runs}"
        disturbed(settings, out, kills, seconds, chance, done)
        done.problems += [f"run {done.runs}: {each}" for each in differences(undisturbed, out)]
        done.runs += 1
        shutil.rmtree(out)
    done.seconds = time.monotonic() - begun
    return done


def disturbed(
    settings: RunConfig, out: Path, kills: int, seconds: float, chance: random.Random, done: Campaign
) -> None:
    """One run to its end, with kills at random moments of the `seconds` that an undisturbed one takes."""
    reached: int | None = None
    while True:
        child = start(settings, out)
        killed = done.kills < kills and dies(child, out, seconds, chance)
        status = child.end(signal.SIGKILL if killed else None)
        if child.said and reached is not None:
            lost(reached - child.began(), done, f"run {done.runs}")
        if status == 0:
            return
        if not killed:
            done.problems.append(f"run {done.runs} ended with {status}: {child.said[-500:]}")
            return
        done.kills += 1
        done.inside_a_save += any(half_written(out))
        done.before_the_first_checkpoint += not loop.checkpoints(out)
        if child.said:
            reached = max(child.steps(), default=child.began())


def lost(updates: int, done: Campaign, where: str) -> None:
    """Note how many updates had to be made again."""
    done.lost.append(updates)
    if updates > SAVE_EVERY:
        done.problems.append(f"{where}: {updates} updates were lost")


def dies(child: Child, out: Path, seconds: float, chance: random.Random) -> bool:
    """Wait for the moment to kill: any, or a little after something begins to be written; False if it ended before."""
    if chance.random() < 0.5:
        return not ended(child, within=chance.uniform(0, seconds))
    for _ in range(chance.randint(0, 4)):
        if not writing(child, out, True) or not writing(child, out, False):
            return False
    return writing(child, out, True) and not ended(child, within=chance.uniform(0, 0.003))


def writing(child: Child, out: Path, wanted: bool) -> bool:
    """Wait until something is being written, or nothing; False if the child ended before."""
    while any(half_written(out)) != wanted:
        if ended(child, within=0.0002):
            return False
    return True


def ended(child: Child, within: float) -> bool:
    """Whether it ends by itself in so many seconds."""
    time.sleep(within)
    return os.waitid(os.P_PID, child.process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def half_written(out: Path) -> Iterator[Path]:
    """What is being written, or replaced."""
    yield from out.glob(".*.new")
    yield from out.glob(".*.old")
    yield from (out / "checkpoints").glob(".*.new")


def start(settings: RunConfig, out: Path) -> Child:
    """Train in a child process, from where the run directory is."""
    reading, writing = os.pipe()
    process = os.fork()
    if process:
        os.close(writing)
        return Child(process, reading)
    try:
        os.close(reading)
        loop.voice = lambda: Pipe(writing)  # type: ignore[assignment]
        log.REPORT_EVERY = 1
        loop.train(settings, out, resume=(out / "run.toml").exists())
        os._exit(0)
    except BaseException as error:
        os.write(writing, f"{type(error).__name__}: {error}\n".encode())
        os._exit(1)


def differences(one: Path, other: Path) -> list[str]:
    """In what two finished runs differ."""
    files = [f"{name}/model.safetensors" for name in MODELS]
    problems = [f"{name} differs" for name in files if (one / name).read_bytes() != (other / name).read_bytes()]
    return problems + (["log.jsonl differs"] if reports(one) != reports(other) else [])


def reports(out: Path) -> list[dict[str, Any]]:
    """What a run reported, without its clock."""
    rows = [json.loads(line) for line in (out / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    return [{key: value for key, value in row.items() if key not in ("seconds", "tokens_per_second")} for row in rows]


def tiny_run(folder: Path) -> RunConfig:
    """A run of about a second; each update depends on the optimiser and on its place in the data, for dropout too."""
    drawn, data = random.Random(1), {}
    for name, pairs in (("", 97), ("dev_", 11)):
        lines = [drawn.choices(list(WORDS), k=drawn.randint(2, 7)) for _ in range(pairs)]
        for side, texts in (
            ("source", [" ".join(line) for line in lines]),
            ("target", [" ".join(WORDS[word] for word in reversed(line)) for line in lines]),
        ):
            path = folder / f"{name}{side}.txt"
            path.write_text("\n".join(texts) + "\n", encoding="utf-8")
            data[f"{name}{side}"] = str(path)
    sizes = {"d_model": 14, "d_ff": 22, "heads": 2, "encoder_layers": 1, "decoder_layers": 2, "dropout": 0.2}
    often = {"evaluate_every": 13, "save_every": SAVE_EVERY, "keep": 3, "dev_sentences": 3, "dev_beam": 1}
    return make_run(
        {
            "data": data,
            "tokenizer": {"vocabulary": 290},
            "model": sizes,
            "train": {"steps": STEPS, "batch_tokens": 101, "accumulate": 2, **often},
            "optim": {"peak": 0.003, "warmup": 5},
        }
    )


def page(done: Campaign, kills: int, seed: int) -> str:
    """The campaign in figures."""
    rows = {
        "kills": done.kills,
        "of them while something was half written": done.inside_a_save,
        "of them before the first checkpoint": done.before_the_first_checkpoint,
        "runs that were killed and gone on with until they ended": done.runs,
        f"most updates lost by a kill (save interval: {SAVE_EVERY})": max(done.lost, default=0),
        "updates lost in all": sum(done.lost),
        "runs that ended elsewhere than the undisturbed one, or kills that lost more": len(done.problems),
        "seconds": round(done.seconds),
    }
    table = "\n".join(f"| {what} | {number:,} |" for what, number in rows.items())
    command = f"python -m benchmarks.kill --kills {kills} --seed {seed}"
    return f"""# Killed at any moment

Made by `{command}` on {machine()}.

A tiny training of {STEPS} updates with dropout and accumulation is killed by SIGKILL, half of the time at a moment
drawn from the whole run and half of the time while something is being written, and gone on with by `--resume`, until it
ends. Its models `last`, `average` and `best` and its reports are then compared with those of a run that nobody
disturbed: every bit of them.

| what | number |
|---|---|
{table}
""" + "".join(f"\n- {problem}" for problem in done.problems)


if __name__ == "__main__":
    main()
