"""Settings and fixtures of every test: one thread, checked shapes, and the folder of test corpora."""

import gc
import os
import signal
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import IO, Any

# A job that a script starts in the background ignores Ctrl-C, and so would the commands that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Before torch is imported, and for the processes the tests start. One thread, because a sum that is split among
# threads is rounded in another order on another machine, and because matrices this small run faster on one.
os.environ["OMP_NUM_THREADS"] = "1"

import jaxtyping
import pytest
import torch
import typer.main
import typer.testing
from xdist.scheduler.loadfile import LoadFileScheduling

torch.set_num_threads(1)

# Typer's runner builds all commands anew at each call, which took longer than what most of the calls do.
typer.testing._get_command = cache(typer.main.get_command)  # pyright: ignore[reportPrivateImportUsage]


def check_descriptor(file: int | IO) -> None:
    """Stand in for `os.fsync`, which refuses what is no open file."""
    os.fstat(file if isinstance(file, int) else file.fileno())


# Every write would wait for the disk, some milliseconds each and some hundred in a training: what is still there after
# a power cut is no subject of a test. A process that a test starts waits all the same.
os.fsync = check_descriptor

# Every shape in a signature of the model and its loss is checked at every call of the tests named here. In the others,
# which make the same calls thousands of times, that took up to two thirds of the time.
SHAPES_CHECKED = (
    "articles",
    "model",
    "decode/test_beam.py",
    "decode/test_greedy.py",
    "decode/test_sample.py",
    "decode/test_search.py",
    "laws/test_loss.py",
    "laws/test_model.py",
    "laws/test_one_model.py",
    "laws/test_update.py",
    "laws/test_watching.py",
    "inspect/test_heads.py",
    "inspect/test_importance.py",
    "trace/test_erasure.py",
    "trace/test_recompute.py",
    "trace/test_record.py",
)
TESTS = Path(__file__).parent
assert all((TESTS / name).exists() for name in SHAPES_CHECKED), "a test file whose shapes are checked has moved"
MODEL_FOLDER = TESTS.parent / "src" / "pellucid" / "model"
# Not of the sizes, which refuse wrong types themselves, in words.
UNCHECKED = ("__init__", "config")
CHECKED_MODULES = [f"pellucid.model.{path.stem}" for path in MODEL_FOLDER.glob("*.py") if path.stem not in UNCHECKED]
jaxtyping.install_import_hook([*CHECKED_MODULES, "pellucid.training.loss"], "beartype.beartype")


# Files whose tests share what takes long to make: a browser and a server, or a model that learned something.
SHARING = {
    "tests/browser": ("tests/browser/",),
    "tests/trace/copying.py": (
        *("tests/trace/test_erasure.py", "tests/trace/test_verdict.py"),
        *("tests/inspect/test_heads.py", "tests/inspect/test_lens.py"),
    ),
    "tests/training/multilingual.py": (
        *("tests/training/test_multilingual.py", "tests/cli/test_multilingual.py"),
        "tests/serve/test_directions.py",
    ),
}


class FileSchedule(LoadFileScheduling):
    """A file of tests goes to one process as a whole, and all that share what takes long to make go to the same."""

    def _split_scope(self, nodeid: str) -> str:
        shared = (name for name, places in SHARING.items() if nodeid.startswith(places))
        return next(shared, super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """Run one process more than there are cores: some test always waits for a browser or for another process."""
    return (yield) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FileSchedule | None:
    """Hand out tests by file, where several processes run them."""
    return FileSchedule(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ask once more where a test in a browser fails: beside three other tests, an answer may come later than it waits.

    The summary names what was asked twice, and what fails twice has failed.
    """
    for item in items:
        if item.path.is_relative_to(TESTS / "browser") or item.path.is_relative_to(TESTS / "page"):
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_collection_finish() -> None:
    """Spare the collector of garbage the many objects of what is imported now, which are never garbage.

    And let it look at the others seldom: at each 700 new ones it took a fortieth of the time.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Check shapes from here on, or stop checking them."""
    checked = any(item.path.is_relative_to(TESTS / place) for place in SHAPES_CHECKED)
    jaxtyping.config.update("jaxtyping_disable", not checked)


@pytest.fixture
def attention_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention that takes the formula even where the fused kernel is faster."""
    from pellucid.model import attention

    monkeypatch.setattr(attention, "fused_is_faster", lambda q: False)


@pytest.fixture(params=["fused", "written out"])
def both_attentions(request: pytest.FixtureRequest) -> None:
    """Attention as the fused kernel and then as the formula: a test runs twice."""
    if request.param == "written out":
        request.getfixturevalue("attention_formula")


@pytest.fixture(scope="session")
def pellucid_data() -> Path:
    """Folder of test corpora, named by PELLUCID_DATA; tests that need it are skipped where it is unset."""
    folder = os.environ.get("PELLUCID_DATA")
    if not folder:
        pytest.skip("PELLUCID_DATA names no folder of test corpora")
    if not Path(folder).is_dir():
        pytest.fail(f"PELLUCID_DATA is {folder}, which is not a folder")
    return Path(folder)
