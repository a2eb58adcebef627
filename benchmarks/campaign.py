"""Common parts of the campaigns on tiny trainings: the run, its processes, the comparison of runs, and their rows.

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
os.environ["TORCH_CPP_LOG_LEVEL"] = "ERROR"  # connections break on purpose here, and torch would report each

from pellucid.store.atomic import write_text_whole
from pellucid.training import beginning, log, loop
from pellucid.training.config import RunConfig, make_run
from pellucid.training.log import read_log

RESULTS = Path(__file__).parent / "results"
WORDS = {"one": "uno", "two": "dos", "three": "tres", "four": "cuatro", "five": "cinco", "six": "seis"}
MODELS = ("last", "average", "best")
MET = "met"
WHERE_IT_WENT_ON = re.compile(r"resuming after step ([\d,]+) |has no checkpoint yet: its run starts from the beginning")


def tiny_run(folder: Path, mixed: bool = True, train: dict[str, Any] | None = None) -> RunConfig:
    """Return a run of about a second; each update depends on the optimiser, on the place in the data and on dropout.

    `mixed`: on two corpora by weight, not on one; `train`: more settings of that section.
    """
    news, web, dev = (
        write_corpus(folder, name, pairs, seed)
        for seed, (name, pairs) in enumerate((("news", 67), ("web", 41), ("dev", 11)))
    )
    data: dict[str, Any] = dict(zip(("source", "target"), news, strict=True))
    if mixed:
        sides = ((*news, 0.6), (*web, 2.0))
        data = {"corpus": [dict(zip(("source", "target", "weight"), side, strict=True)) for side in sides]}
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


def write_corpus(folder: Path, name: str, pairs: int, seed: int) -> tuple[str, str]:
    """Write numbers in words, translated one by one and in reverse order, as two files of one sentence a line."""
    generator = random.Random(seed)
    lines = [generator.choices(list(WORDS), k=generator.randint(2, 7)) for _ in range(pairs)]
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
    """The workers of a training, each a process of its own; their messages come through one pipe."""

    workers: list[int]
    pipe: int
    output: str = ""

    def steps(self) -> list[int]:
        """Return the steps of the updates made."""
        return [int(line[5:]) for line in self.output.splitlines() if line.startswith("step:")]

    def began(self) -> int | None:
        """Return the step from which the run resumed, if it came so far."""
        match = WHERE_IT_WENT_ON.search(self.output)
        return int((match[1] or "0").replace(",", "")) if match else None

    def has_ended(self, within: float) -> bool:
        """Whether a worker ends by itself within so many seconds."""
        time.sleep(within)
        # WNOWAIT leaves the exit status for `end`, which collects it.
        return any(os.waitid(os.P_PID, worker, os.WEXITED | os.WNOHANG | os.WNOWAIT) for worker in self.workers)

    def listen(self, within: float = 0.0) -> bool:
        """Read what the workers write next, within so many seconds; return False when none is left to write more."""
        if not select.select([self.pipe], [], [], within)[0]:
            return True
        text = os.read(self.pipe, 2**16).decode()
        self.output += text
        return bool(text)

    def kill(self, numbers: Iterable[int]) -> None:
        """Kill the workers with these numbers without warning."""
        for number in numbers:
            os.kill(self.workers[number], signal.SIGKILL)

    def end(self, within: float) -> list[int]:
        """Wait for all workers, killed after so many seconds; return the exit status of each, negative for a signal."""
        deadline = time.monotonic() + within
        while self.listen(within=max(0.0, deadline - time.monotonic())):
            if time.monotonic() >= deadline:
                self.kill(range(len(self.workers)))
                deadline = time.monotonic() + 60
        os.close(self.pipe)
        return [os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) for worker in self.workers]


class Pipe:
    """Output of a training run that another process reads."""

    def __init__(self, pipe: int):
        self.pipe = pipe
        self.say(MET)  # a run makes its output when its workers have found each other

    def say(self, message: str) -> None:
        os.write(self.pipe, f"{message}\n".encode())

    def update(self, progress: float, step: int, loss: float, speed: float, score: str) -> None:
        os.write(self.pipe, f"step:{step}\n".encode())

    def close(self) -> None:
        pass


def start_training(settings: RunConfig, out: Path, workers: int = 1) -> Crew:
    """Train in processes of their own, from the state of the run directory."""
    for module in ("sacrebleu", "torch._dynamo"):
        import_module(module)  # slow ones: imported once here, not once in every child
    read_end, write_end = os.pipe()
    with socket.socket() as probe:
        # The system chooses a free port, which the workers then use to meet.
        probe.bind(("127.0.0.1", 0))
        rendezvous = {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(probe.getsockname()[1]),
            "WORLD_SIZE": str(workers),
        }
    processes = []
    for rank in range(workers):
        processes.append(process := os.fork())
        if not process:
            os.close(read_end)
            os.environ.update(rendezvous, RANK=str(rank), LOCAL_RANK=str(rank))
            run_worker(settings, out, write_end)
    os.close(write_end)
    return Crew(processes, read_end)


def run_worker(settings: RunConfig, out: Path, write_end: int) -> None:
    """Train as one worker; never returns."""
    try:
        beginning.choose_output = lambda: Pipe(write_end)  # type: ignore[assignment]
        log.REPORT_EVERY = 1
        loop.train_run(settings, out, resume=(out / "run.toml").exists())
        # Not sys.exit: that would run the exit handlers of the parent, whose copy this process is.
        os._exit(0)
    except BaseException as error:
        os.write(write_end, f"{type(error).__name__}: {error}\n".encode())
        os._exit(1)


def run_undisturbed(settings: RunConfig, out: Path, workers: int = 1) -> None:
    """Train from the beginning to the end, unless that was done before."""
    if (out / "log.jsonl").exists() and any("model" in row for row in read_reports(out)):
        return
    shutil.rmtree(out, ignore_errors=True)
    crew = start_training(settings, out, workers)
    assert crew.end(within=3600) == [0] * workers, crew.output


def prepare_shard_run(settings: RunConfig, folder: Path) -> RunConfig:
    """Prepare shards for a run, and return the run on them."""
    from pellucid.training.shard_writing import prepare_shards

    prepare_shards(settings, folder, 1, lambda message: None)
    return replace(settings, data=replace(settings.data, shards=str(folder)))


def find_differences(first: Path, second: Path) -> list[str]:
    """List the differences between two finished runs."""
    models = [f"{name}/model.safetensors" for name in MODELS]
    problems = [f"{name} differs" for name in models if (first / name).read_bytes() != (second / name).read_bytes()]
    return problems + (["log.jsonl differs"] if read_reports(first) != read_reports(second) else [])


def read_reports(out: Path) -> list[dict[str, Any]]:
    """Read the reports of a run, without its clock."""
    rows = read_log(out / "log.jsonl")
    return [{key: value for key, value in row.items() if key not in ("seconds", "tokens_per_second")} for row in rows]


class Rows:
    """Results of a campaign, a line of JSON for each piece of work; an interrupted one continues behind the last."""

    def __init__(self, path: Path):
        self.path, self.rows = path, read_log(path) if path.exists() else []
        path.parent.mkdir(parents=True, exist_ok=True)
        # Rewritten without a last line that was cut short.
        write_text_whole(path, "".join(json.dumps(row) + "\n" for row in self.rows))

    def add(self, row: dict[str, Any]) -> None:
        """Write a row before the next piece of work begins."""
        self.rows.append(row)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def sum(self, number_of: Callable[[dict[str, Any]], int | float]) -> int | float:
        """Sum a number over all rows."""
        return sum(number_of(row) for row in self.rows)


def show_progress(line: str) -> None:
    """Print a line about the progress, which replaces itself at a terminal."""
    print(f"\r{line}" if sys.stderr.isatty() else line, end="" if sys.stderr.isatty() else "\n", file=sys.stderr)
