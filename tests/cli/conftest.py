"""Fixtures: a random tiny model on disk, and two ways to call a command, in this process and in one of its own."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from pellucid.cli import app
from pellucid.store.directory import save_bundle
from tests.decode.models import random_model, small_tokenizer
from tests.processes import ForkedProcess

# Commands that have said something before they find what is wrong.
SAYS_WHAT_IT_DOES = ("evaluate", "plan", "prepare", "train")
SOURCE = Path(__file__).resolve().parents[2] / "src"


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the `best` directory of a run; its model writes nonsense, fast."""
    directory = tmp_path_factory.mktemp("runs") / "random" / "best"
    vocabulary = small_tokenizer().source_vocabulary
    save_bundle(directory, random_model(1, vocabulary, vocabulary, max_positions=31), small_tokenizer(), step=0)
    return directory


@pytest.fixture
def drawn_curve() -> None:
    """For a test whose trainings draw their curve; it takes longer than their updates, so that the others do not."""


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Result]:
    """Return a function that runs `pellucid` with these words in this process, in an empty working directory."""
    monkeypatch.chdir(tmp_path)
    if "drawn_curve" not in request.fixturenames:
        monkeypatch.setattr("pellucid.interpret.plots.charts.draw_training_curve", lambda log, path: path.touch())
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words], prog_name="pellucid")


@pytest.fixture
def refuse(call: Callable[..., Result]) -> Callable[..., str]:
    """Return a function that runs `pellucid` with a mistake, and returns the sentence that says what the mistake is.

    It asserts what holds for every mistake of a user: exit code 2, no result, and one line, the last, that says it.
    """

    def run(*words: object) -> str:
        result = call(*words)
        assert (result.exit_code, result.stdout) == (2, ""), result.output
        *before, sentence = result.stderr.splitlines()
        if before and before[0].startswith("Usage: "):  # the parser of the command line
            assert sentence.startswith("Error: ")
        else:
            assert sentence.startswith("pellucid: ")
            assert not before or words[0] in SAYS_WHAT_IT_DOES
        return sentence

    return run


@pytest.fixture
def shell(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """Return a function that runs `pellucid` in a process of its own, with bytes as standard input.

    The process is forked, or with `as_user` started as users start it, which takes seconds more.
    """

    def run(
        *words: object, stdin: bytes = b"", as_user: bool = False, **environment: str
    ) -> subprocess.CompletedProcess[bytes]:
        if not as_user:
            process = ForkedProcess(*words, folder=tmp_path, environment=environment, stdin=stdin)
            out, err = process.communicate(timeout=300)
            return subprocess.CompletedProcess([*map(str, words)], process.poll() or 0, out.encode(), err.encode())
        return subprocess.run(
            [sys.executable, "-m", "pellucid", *map(str, words)],
            input=stdin,
            capture_output=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(SOURCE), **environment},
            check=False,
        )

    return run
