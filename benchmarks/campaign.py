"""What the campaigns on tiny trainings share: the run, its processes, what two runs differ in, the rows that are kept.

Import it before numpy and torch: a process with threads does not fork well. Needs a system with fork.
"""

import json
import os
import random
import re
import select
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

# One thread gives the same bits everywhere, and a process with threads does not fork well.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"
os.environ["TORCH_CPP_LOG_LEVEL"] = "ERROR"  # that connections break is what is wanted here

from pellucid.train import log, loop
from pellucid.train.config import RunConfig, make_run
from pellucid.train.log import read_log
from pellucid.train.state import write_text_whole

RESULTS = Path(__file__).parent / "results"
WORDS = {"one": "uno", "two": "dos", "three": "tres", "four": "cuatro", "five": "cinco", "six": "seis"}
MODELS = ("last", "average", "best")
MET = "met"
WHERE_IT_WENT_ON = re.compile(r"resuming after step ([\d,]+) |has no checkpoint yet: its run starts from the beginning")


def tiny_run(folder: Path, mixed: bool = True, train: dict[str, Any] | None = None) -> RunConfig:
    """A run of about a second; each update depends on the optimiser and on its place in the data, for dropout too.

    `mixed`: on two corpora by weight, not on one; `train`: more settings of that section.
    """
    news, web, dev = (
        files(folder, name, pairs, seed) for seed, (name, pairs) in enumerate((("news", 67), ("web", 41), ("dev", 11)))
    )
    data: dict[str, Any] = dict(zip(("source", "target"), news, strict=True))
    if mixed:
        sides = ((*news, 0.6), (*web, 2.0))
        data = {"corpus": [dict(zip(("source", "target", "weight"), each, strict=True)) for each in sides]}
    sizes = {"d_model": 32, "d_ff": 46, "heads": 2, "encoder_layers": 1, "decoder_layers": 2, "dropout": 0.2}
    return make_run(
        {
            "data": {**data, "dev_source": dev[0], "dev_target": dev[1]},
            "tokenizer": {"vocabulary": 290},
            "model": sizes,
            "train": {"batch_tokens": 101, "accumulate": 2, "dev_sentences": 3, "dev_beam": 1, **(train or {})},
            "optim": {"peak": 0.003, "warmup": 5},
        }
    )


def files(folder: Path, name: str, pairs: int, seed: int) -> tuple[str, str]:
    """Numbers in words, translated one by one and turned round: two files, one a line."""
    drawn = random.Random(seed)
    lines = [drawn.choices(list(WORDS), k=drawn.randint(2, 7)) for _ in range(pairs)]
    texts = (
        (folder / f"{name}.en", [" ".join(line) for line in lines]),
        (folder / f"{name}.es", [" ".join(WORDS[word] for word in reversed(line)) for line in lines]),
    )
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in texts:
        path.write_text("\n".join(text) + "\n", encoding="utf-8")
    return str(texts[0][0]), str(texts[1][0])


@dataclass
class Crew:
    """The workers of a training, each a process of its own; what they say comes through one pipe."""

    workers: list[int]
    pipe: int
    said: str = ""

    def steps(self) -> list[int]:
        """The updates made."""
        return [int(line[5:]) for line in self.said.splitlines() if line.startswith("step:")]

    def began(self) -> int | None:
        """The step it went on from, if it came so far."""
        found = WHERE_IT_WENT_ON.search(self.said)
        return int((found[1] or "0").replace(",", "")) if found else None

    def ended(self, within: float) -> bool:
        """Whether one of them ends by itself in so many seconds."""
        time.sleep(within)
        return any(os.waitid(os.P_PID, each, os.WEXITED | os.WNOHANG | os.WNOWAIT) for each in self.workers)

    def listen(self, within: float = 0.0) -> bool:
        """Take in what is said next, in so many seconds; False when nobody is left to say more."""
        if not select.select([self.pipe], [], [], within)[0]:
            return True
        said = os.read(self.pipe, 2**16).decode()
        self.said += said
        return bool(said)

    def kill(self, some: Iterable[int]) -> None:
        """End those of these numbers without warning."""
        for each in some:
            os.kill(self.workers[each], signal.SIGKILL)

    def end(self, within: float) -> list[int]:
        """Wait for all, killed after so many seconds; the exit status of each, negative for a signal."""
        until = time.monotonic() + within
        while self.listen(within=max(0.0, until - time.monotonic())):
            if time.monotonic() >= until:
                self.kill(range(len(self.workers)))
                until = time.monotonic() + 60
        os.close(self.pipe)
        return [os.waitstatus_to_exitcode(os.waitpid(each, 0)[1]) for each in self.workers]


class Pipe:
    """A voice that another process hears."""

    def __init__(self, pipe: int):
        self.pipe = pipe
        self.say(MET)  # a run gets its voice when its workers have found each other

    def say(self, message: str) -> None:
        os.write(self.pipe, f"{message}\n".encode())

    def update(self, progress: float, step: int, loss: float, speed: float, score: str) -> None:
        os.write(self.pipe, f"step:{step}\n".encode())

    def close(self) -> None:
        pass


def start(settings: RunConfig, out: Path, workers: int = 1) -> Crew:
    """Train in processes of their own, from where the run directory is."""
    for slow in ("sacrebleu", "torch._dynamo"):
        import_module(slow)  # once here, not once in every child
    hears, speaks = os.pipe()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": str(workers)}
    processes = []
    for rank in range(workers):
        processes.append(process := os.fork())
        if not process:
            os.close(hears)
            os.environ.update(place, RANK=str(rank), LOCAL_RANK=str(rank))
            work(settings, out, speaks)
    os.close(speaks)
    return Crew(processes, hears)


def work(settings: RunConfig, out: Path, speaks: int) -> None:
    """What a worker does; it never returns."""
    try:
        loop.choose_output = lambda: Pipe(speaks)  # type: ignore[assignment]
        log.REPORT_EVERY = 1
        loop.train_run(settings, out, resume=(out / "run.toml").exists())
        os._exit(0)
    except BaseException as error:
        os.write(speaks, f"{type(error).__name__}: {error}\n".encode())
        os._exit(1)


def undisturbed(settings: RunConfig, out: Path, workers: int = 1) -> None:
    """Train from the beginning to the end, unless that was done before."""
    if (out / "log.jsonl").exists() and any("model" in row for row in reports(out)):
        return
    shutil.rmtree(out, ignore_errors=True)
    crew = start(settings, out, workers)
    assert crew.end(within=3600) == [0] * workers, crew.said


def on_shards(settings: RunConfig, folder: Path) -> RunConfig:
    """The same run on shards, which this makes."""
    from pellucid.train.shard_writing import prepare_shards

    prepare_shards(settings, folder, 1, lambda message: None)
    return replace(settings, data=replace(settings.data, shards=str(folder)))


def differences(one: Path, other: Path) -> list[str]:
    """In what two finished runs differ."""
    models = [f"{name}/model.safetensors" for name in MODELS]
    problems = [f"{name} differs" for name in models if (one / name).read_bytes() != (other / name).read_bytes()]
    return problems + (["log.jsonl differs"] if reports(one) != reports(other) else [])


def reports(out: Path) -> list[dict[str, Any]]:
    """What a run reported, without its clock."""
    rows = read_log(out / "log.jsonl")
    return [{key: value for key, value in row.items() if key not in ("seconds", "tokens_per_second")} for row in rows]


class Rows:
    """What a campaign has found, a line of JSON for each piece of work; broken off, it goes on behind the last."""

    def __init__(self, path: Path):
        self.path, self.rows = path, read_log(path) if path.exists() else []
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text_whole(
            path, "".join(json.dumps(row) + "\n" for row in self.rows)
        )  # without a line that was cut short

    def add(self, row: dict[str, Any]) -> None:
        """Note one, before the next is begun."""
        self.rows.append(row)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def sum(self, of: Callable[[dict[str, Any]], int | float]) -> int | float:
        """Over all of them."""
        return sum(of(row) for row in self.rows)


def tell(done: str) -> None:
    """A line on how far it has come, which replaces itself at a terminal."""
    print(f"\r{done}" if sys.stderr.isatty() else done, end="" if sys.stderr.isatty() else "\n", file=sys.stderr)
