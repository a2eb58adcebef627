"""Signals that ask a run to stop: a closed terminal counts among them, except for a run that nohup started."""

import os
import pty
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pellucid.training.checkpoint import list_checkpoints
from pellucid.training.loop import train_run
from pellucid.training.process import catch_signals
from tests.processes import ForkedProcess
from tests.training.corpora import small_run

# Becomes the first process of a session whose terminal is the one named, and writes its errors there.
IN_A_TERMINAL = """
import os, sys
os.setsid()
os.dup2(os.open(sys.argv.pop(1), os.O_RDWR), 2)
{before}
from pathlib import Path
from pellucid.training.loop import train_run
from tests.training.corpora import small_run

lengths = {{"steps": 100_000, "evaluate_every": 50_000, "save_every": 50_000}}
outcome = train_run(small_run(Path({data!r}), train=lengths), Path({out!r}))
print("terminal is closed", file=sys.stderr)
print(outcome.stop)
"""


@pytest.fixture
def hangup_handler() -> Iterator[None]:
    """Put back what this process does at SIGHUP."""
    handler = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, handler)


def wait_for_reports(out: Path, child: ForkedProcess) -> None:
    log, until = out / "log.jsonl", time.monotonic() + 120
    while not (log.exists() and log.stat().st_size) and time.monotonic() < until and child.poll() is None:
        time.sleep(0.05)


def test_a_run_whose_terminal_closes_saves_everything_and_can_be_resumed(tmp_path):
    terminal, name = pty.openpty()
    script = IN_A_TERMINAL.format(before="", data=str(tmp_path / "data"), out=str(tmp_path / "out"))
    child = ForkedProcess(os.ttyname(name), program=script)
    wait_for_reports(tmp_path / "out", child)
    os.close(name)
    os.close(terminal)
    output, _ = child.communicate(timeout=120)
    assert (child.returncode, output) == (0, "SIGHUP\n")
    step = int(list_checkpoints(tmp_path / "out")[-1].name[5:])
    assert train_run(small_run(tmp_path / "data", train={"steps": step + 2}), tmp_path / "out", resume=True)


@pytest.mark.parametrize(
    "before", ["import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)", pytest.param("", marks=pytest.mark.slow)]
)
def test_a_run_that_nohup_started_goes_on_when_its_terminal_closes_and_ends_by_the_signals_left(before, tmp_path):
    terminal, name = pty.openpty()
    before = before or "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])"
    script = IN_A_TERMINAL.format(before=before, data=str(tmp_path / "data"), out=str(tmp_path / "out"))
    child = ForkedProcess(os.ttyname(name), program=script)
    wait_for_reports(tmp_path / "out", child)
    size = (tmp_path / "out/log.jsonl").stat().st_size
    os.close(name)
    os.close(terminal)
    child.send_signal(signal.SIGHUP)
    until = time.monotonic() + 120
    while (tmp_path / "out/log.jsonl").stat().st_size == size and child.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    assert child.poll() is None
    assert (tmp_path / "out/log.jsonl").stat().st_size > size
    child.send_signal(signal.SIGTERM)
    output, _ = child.communicate(timeout=120)
    assert (child.returncode, output) == (0, "SIGTERM\n")


@pytest.mark.parametrize(
    ("signals", "first"),
    [("SIGHUP SIGHUP", "SIGHUP"), ("SIGTERM SIGHUP", "SIGTERM"), ("SIGHUP SIGTERM", "SIGHUP")],
)
def test_what_a_closing_terminal_sends_beside_its_first_signal_interrupts_nothing(signals, first, hangup_handler):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    with catch_signals() as caught:
        for name in signals.split():
            signal.raise_signal(signal.Signals[name])
    assert caught[0] == first
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_second_request_to_stop_interrupts_at_once(name):
    def ask_twice() -> None:
        with catch_signals():
            signal.raise_signal(signal.Signals[name])
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        ask_twice()


def test_a_hangup_that_was_ignored_at_the_start_stays_ignored(hangup_handler):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with catch_signals() as caught:
        signal.raise_signal(signal.SIGHUP)
        assert not caught
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_a_system_without_hangups_catches_the_others(monkeypatch):
    monkeypatch.delattr(signal, "SIGHUP")
    with catch_signals() as caught:
        signal.raise_signal(signal.SIGTERM)
    assert caught == ["SIGTERM"]
