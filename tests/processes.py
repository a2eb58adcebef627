"""Processes that start at once: forked from one that has imported what the `pellucid` command needs.

A training that starts by itself spends seven seconds on importing torch and what torch imports at its first update,
and the training of a test takes one. A forked process has its own memory, signals, files and exit code all the same.
"""

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

# torch imports the first three when an optimizer is made, when a model is sharded and when its checkpoint is read.
IMPORTED_ONCE = [
    *("torch._dynamo", "torch.distributed.fsdp", "torch.distributed.checkpoint.state_dict"),
    *("matplotlib.figure", "matplotlib.backends.backend_agg", "sacrebleu", "fastapi", "uvicorn"),
    *("pellucid.cli", "pellucid.training.loop", "pellucid.evaluate.scores", "pellucid.interpret.plots.charts"),
    *("pellucid.api", "pellucid.serve.app", "pellucid.store.weights"),
]
_CONTEXT = multiprocessing.get_context("forkserver")
# Libraries of macOS may not be used in a process that was forked after they were loaded: there each imports its own.
_CONTEXT.set_forkserver_preload(IMPORTED_ONCE if sys.platform == "linux" else [])


COMMAND = "from pellucid.cli import main; main()"


class ForkedProcess:
    """A process of its own that runs `pellucid`, or another program, with some words, used like `subprocess.Popen`.

    What it writes goes to the files `out` and `err`. `environment` is added to the environment of this process.
    """

    def __init__(
        self,
        *words: object,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        program: str = COMMAND,
    ):
        self._files = Path(tempfile.mkdtemp(prefix="command-"))
        self.out, self.err = self._files / "out", self._files / "err"
        (self._files / "in").write_bytes(stdin)
        texts = [str(word) for word in words]
        variables = {**os.environ, **(environment or {})}
        self._process = _CONTEXT.Process(
            target=_run_program, args=(program, texts, str(folder or Path.cwd()), variables, str(self._files))
        )
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, minus the signal that killed the process, or None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for the end, and return what the process wrote to standard output and standard error."""
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(sys.executable, timeout or 0.0)
        if self._files.exists():
            self._texts = self.out.read_text(encoding="utf-8"), self.err.read_text(encoding="utf-8")
            shutil.rmtree(self._files)
        return self._texts


def _run_program(program: str, words: list[str], folder: str, environment: dict[str, str], files: str) -> None:
    """Run a program in a forked process, which becomes what `python -m pellucid WORDS` would be."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    writing = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    for descriptor, (name, flags) in enumerate((("in", os.O_RDONLY), ("out", writing), ("err", writing))):
        file = os.open(Path(files, name), flags, 0o600)
        os.dup2(file, descriptor)
        os.close(file)
    sys.stdin = os.fdopen(0, encoding="utf-8")  # multiprocessing has closed it
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["pellucid", *words]
    exec(program, {"__name__": "__main__"})
