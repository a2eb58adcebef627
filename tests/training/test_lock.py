"""Lock of a run directory: two trainings never write into one."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pellucid.training.loop import train_run
from pellucid.training.process import LOCK_FILE, hold_run_lock
from tests.training.corpora import small_run

HOLD_SCRIPT = """
import sys, time
from pathlib import Path
from pellucid.training.process import hold_run_lock
with hold_run_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path: Path):
    """Another process that holds the lock of tmp_path / "run", as a training does."""
    process = subprocess.Popen([sys.executable, "-c", HOLD_SCRIPT, tmp_path / "run"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.parametrize("resume", [False, True])
def test_two_trainings_never_write_into_one_directory(tmp_path, holder, resume):
    run = small_run(tmp_path)
    with pytest.raises(ValueError, match=f"is being trained into by process {holder.pid}; wait until it ends"):
        train_run(run, tmp_path / "run", resume=resume)
    assert [path.name for path in (tmp_path / "run").iterdir()] == [LOCK_FILE]  # the other's is not removed


def test_the_lock_of_a_killed_training_is_free(tmp_path, holder):
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    with hold_run_lock(tmp_path / "run"):
        assert (tmp_path / "run" / LOCK_FILE).read_text(encoding="ascii") == f"{os.getpid()}\n"
    assert not list((tmp_path / "run").iterdir())


def test_a_training_that_is_refused_leaves_no_directory(tmp_path):
    run = small_run(tmp_path)
    Path(run.data.source or "").write_bytes(b"")
    for resume in (False, True):
        with pytest.raises(ValueError, match=r"source\.txt"):
            train_run(run, tmp_path / "run", resume=resume)
    assert not (tmp_path / "run").exists()
