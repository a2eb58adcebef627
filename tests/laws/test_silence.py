"""A worker that gives no sign of life is named, nobody else is, and training goes on when it is back."""

import re
import signal
import socket
import time
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pellucid.training.config import RunConfig
from pellucid.training.silence import SilenceCounter
from tests.laws.runs import assert_same_end
from tests.laws.torchrun import collect_results, start_workers, train_alone
from tests.processes import COMMAND
from tests.training.corpora import small_run

# Names a worker after some seconds; `{rank}` does something in the middle of its run.
PROGRAM = """
import os, signal, time
from itertools import count
from pellucid.training import loop, silence

silence.SECONDS_TO_NAME = {seconds}
real_update, calls = loop.update_within_memory, count()

def update(*arguments):
    if next(calls) == 5 and os.environ["RANK"] == "{rank}":
        {event}
    return real_update(*arguments)

loop.update_within_memory = update
{command}
"""
# After the pause, time enough for the other to hear of it before the run ends.
STOP = "os.kill(os.getpid(), signal.SIGSTOP); time.sleep(5)"
# Python computes, and nothing is exchanged, for longer than a silent worker is left unnamed.
COMPUTE = "until = time.monotonic() + 12\n        while time.monotonic() < until: pass"


@pytest.fixture(scope="module")
def undisturbed_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunConfig, Path]:
    """Run of one worker, whose weights those of two are, to the bit; and its directory."""
    folder = tmp_path_factory.mktemp("alone")
    run = small_run(folder / "data", model={"dropout": 0.2}, train={"accumulate": 2, "batch_tokens": 120})
    train_alone(run, folder / "out")
    return run, folder / "out"


def wait_for_text(text: str, path: Path, workers: list[Any]) -> None:
    until = time.monotonic() + 150
    while not (path.exists() and text in path.read_text(encoding="utf-8")):
        if time.monotonic() > until or all(worker.poll() is not None for worker in workers):
            break
        time.sleep(0.05)


@pytest.mark.parametrize("stopped", [1, pytest.param(0, marks=pytest.mark.slow)])
def test_a_worker_that_is_stopped_is_named_and_the_run_ends_as_if_nothing_had_been(stopped, undisturbed_run, tmp_path):
    run, out = undisturbed_run
    # Six seconds, because a busy machine may keep a thread waiting for two or three.
    program = PROGRAM.format(rank=stopped, event=STOP, command=COMMAND, seconds=6.0)
    workers = start_workers(run, tmp_path / "out", 2, program=program)
    host = socket.gethostname()
    # Without torchrun, the store of the heartbeats is in worker 0: the other learns nothing new when it is stopped.
    wait_for_text(f"worker {stopped} on {host} of 2 (counted from 0) has given no", workers[1 - stopped].err, workers)
    time.sleep(8)
    workers[stopped].send_signal(signal.SIGCONT)
    results = collect_results(workers)
    assert [code for code, _, _ in results] == [0, 0], results
    told = results[1 - stopped][2]
    assert f"worker {stopped} on {host} is back, and training goes on" in told
    lengths = [int(number) for number in re.findall(r"sign of life for (\d+) seconds", told)]
    assert lengths == sorted(set(lengths))
    assert all(later >= 2 * earlier - 1 for earlier, later in pairwise(lengths)), lengths
    assert "sign of life" not in results[stopped][2]
    assert_same_end(out, tmp_path / "out")


def test_a_worker_that_computes_for_long_is_not_named(undisturbed_run, tmp_path):
    run, out = undisturbed_run
    # Here, too, six seconds: the thread that gives signs of life may have to wait for a while.
    program = PROGRAM.format(rank=1, event=COMPUTE, command=COMMAND, seconds=6.0)
    results = collect_results(start_workers(run, tmp_path / "out", 2, program=program))
    assert [code for code, _, _ in results] == [0, 0], results
    assert not any("sign of life" in messages for _, _, messages in results)
    assert_same_end(out, tmp_path / "out")


def listen_for(counter: SilenceCounter, seconds: int, heartbeats: dict[int, str]) -> dict[int, str]:
    """Listen once a second to the same heartbeats; return what was said, by the second."""
    said = {}
    for second in range(1, seconds + 1):
        if sentences := counter.listen(heartbeats, 1.0):
            said[second] = "; ".join(sentences)
    return said


def test_silence_is_said_after_a_minute_and_then_after_twice_as_long_each_time():
    counter = SilenceCounter([1, 2], 3, timedelta(minutes=30))
    assert not counter.listen({1: "0 north", 2: "0 south"}, 1.0)
    said = listen_for(counter, 1800, {1: "0 north", 2: "0 south"})
    assert list(said) == [60, 120, 240, 480, 960]
    assert (
        "worker 1 on north and worker 2 on south of 3 (counted from 0) have given no sign of life for 1 m" in said[60]
    )
    assert "for 16 minutes" in said[960]
    assert "after 30 minutes of waiting all stop" in said[60]


def test_a_worker_that_is_back_is_named_again_only_after_another_minute():
    counter = SilenceCounter([1, 2], 3, timedelta(minutes=30))
    counter.listen({1: "0 north", 2: "0 south"}, 1.0)
    assert list(listen_for(counter, 59, {1: "0 north", 2: "0 south"})) == []
    assert not counter.listen({1: "0 north", 2: "1 south"}, 0.5)
    assert list(listen_for(counter, 10, {1: "0 north", 2: "1 south"})) == [1]
    assert counter.listen({1: "1 north", 2: "2 south"}, 1.0) == ["worker 1 on north is back, and training goes on"]
    assert list(listen_for(counter, 61, {1: "1 north", 2: "2 south"})) == [60]


def test_a_worker_that_was_never_heard_is_named_without_a_machine():
    said = listen_for(SilenceCounter([1], 2, timedelta(minutes=30)), 60, {})
    assert said[60].startswith("worker 1 of 2 (counted from 0) has given no sign of life for 1 minute")
