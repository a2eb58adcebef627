"""Runs of several workers, each a process as torchrun starts it."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import torch

from pellucid.config import to_toml
from pellucid.train.config import RunConfig
from pellucid.train.loop import train_run


def started(run: RunConfig, out: Path, world: int, *more: str, changed: dict[int, str] | None = None) -> list:
    """The workers of a run, each a process as torchrun starts it."""
    out.parent.mkdir(parents=True, exist_ok=True)
    path = out.parent / f"{out.name}.toml"
    path.write_text(to_toml(run), encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    workers = []
    for rank in range(world):
        given = {"RANK": rank, "WORLD_SIZE": world, "LOCAL_RANK": rank, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **{key: str(value) for key, value in given.items()}}
        settings = (changed or {}).get(rank, str(path))
        command = [sys.executable, "-m", "pellucid", "train", settings, "--out", str(out), *more]
        pipe = subprocess.PIPE
        workers.append(subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True))
    return workers


def ended(workers: list, seconds: float = 150) -> list[tuple[int, str, str]]:
    """How each of them ended: exit code, standard output, standard error."""
    try:
        return [(w.returncode, *said) for w in workers for said in [w.communicate(timeout=seconds)]]
    finally:
        for worker in workers:
            worker.kill()


def train_with(world: int, run: RunConfig, out: Path, *more: str) -> str:
    """What standard error says of a run that goes well."""
    results = ended(started(run, out, world, *more))
    assert [code for code, _, _ in results] == [0] * world, results
    assert [said for _, said, _ in results] == [f"{out / 'best'}\n", *[""] * (world - 1)], "one speaks for all"
    assert not any(said for _, _, said in results[1:])
    return results[0][2]


def train_alone(run: RunConfig, out: Path, resume: bool = False) -> None:
    """The same in this process, with the one thread that each worker has."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    train_run(run, out, resume=resume)
    torch.set_num_threads(threads)


def wait_for(path: Path, workers: list, seconds: float = 150) -> None:
    """Until a file is there, or the workers have ended."""
    until = time.monotonic() + seconds
    while not path.exists() and time.monotonic() < until and any(worker.poll() is None for worker in workers):
        time.sleep(0.01)
