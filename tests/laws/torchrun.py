"""Helpers for runs of several workers, each a process as torchrun starts it."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

from pellucid.config import to_toml
from pellucid.training.config import RunConfig
from pellucid.training.loop import train_run
from tests.processes import COMMAND, ForkedProcess


def start_workers(
    run: RunConfig,
    out: Path,
    world_size: int,
    *options: str,
    run_files: dict[int, str] | None = None,
    as_torchrun: bool = False,
    program: str = COMMAND,
) -> list[Any]:
    """Start the workers of a run, forked or, `as_torchrun` does, by Python; some ranks may have other `run_files`.

    Forked ones may run another `program` than the command.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    path = out.parent / f"{out.name}.toml"
    path.write_text(to_toml(run), encoding="utf-8")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    workers = []
    for rank in range(world_size):
        variables = {
            "RANK": rank,
            "WORLD_SIZE": world_size,
            "LOCAL_RANK": rank,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
        }
        environment = {"OMP_NUM_THREADS": "1", **{key: str(value) for key, value in variables.items()}}
        words = ["train", (run_files or {}).get(rank, str(path)), "--out", str(out), *options]
        if as_torchrun:
            command, pipe = [sys.executable, "-m", "pellucid", *words], subprocess.PIPE
            whole = {**os.environ, **environment}
            workers.append(subprocess.Popen(command, env=whole, stdout=pipe, stderr=pipe, text=True))
        else:
            workers.append(ForkedProcess(*words, environment=environment, program=program))
    return workers


def collect_results(workers: list[Any], seconds: float = 150) -> list[tuple[int, str, str]]:
    """Wait for the workers; return the exit code, standard output and standard error of each."""
    try:
        return [(worker.returncode, *output) for worker in workers for output in [worker.communicate(timeout=seconds)]]
    finally:
        for worker in workers:
            worker.kill()


def train_with_workers(world_size: int, run: RunConfig, out: Path, *options: str, as_torchrun: bool = False) -> str:
    """Train with several workers, all of which succeed; return the first worker's standard error."""
    results = collect_results(start_workers(run, out, world_size, *options, as_torchrun=as_torchrun))
    assert [code for code, _, _ in results] == [0] * world_size, results
    assert [output for _, output, _ in results] == [f"{out / 'best'}\n", *[""] * (world_size - 1)], "one speaks for all"
    assert not any(messages for _, _, messages in results[1:])
    return results[0][2]


def train_alone(run: RunConfig, out: Path, resume: bool = False) -> None:
    """Train in this process, with the one thread that each worker has."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    train_run(run, out, resume=resume)
    torch.set_num_threads(threads)


def wait_for_file(path: Path, workers: list[Any], seconds: float = 150) -> None:
    """Wait until a file exists or the workers have ended."""
    until = time.monotonic() + seconds
    while not path.exists() and time.monotonic() < until and any(worker.poll() is None for worker in workers):
        time.sleep(0.01)
