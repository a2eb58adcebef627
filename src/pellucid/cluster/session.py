"""The connection to Ray: to a cluster that runs, or to processes on this machine that end with it."""

import logging
import os
import re
import secrets
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import TextIOBase
from pathlib import Path
from typing import Any

# Bytes of memory for parts on their way, on this machine; what does not fit waits on the disk.
_STORE_BYTES = 512 * 2**20
# Ray puts sockets into its folder. Their paths may have about 100 characters, and it needs 70 of them.
_LONGEST_FOLDER = 30
_USERS_FOLDER = "/tmp"
_QUIET: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}


@contextmanager
def connect(address: str, cores: int) -> Iterator[None]:
    """Connect to Ray at an address, and leave it at the end; "auto" starts it where none runs, "local" always.

    Ray that is started here has so many cores, and all of it ends with this block, or with this process.
    Raises ValueError, with what to do, where Ray is not installed or does not answer.
    """
    # It would report its use to its makers, over the network.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Of every worker that is lost Ray writes pages; what matters of it is told by the command.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    os.environ.setdefault("RAY_DATA_LOG_LEVEL", "ERROR")
    try:
        import ray
    except ModuleNotFoundError:
        raise ValueError("--cluster needs Ray: pip install 'pellucid[cluster]'") from None

    with tempfile.TemporaryDirectory(
        prefix="ray-", dir=_choose_folder(), ignore_cleanup_errors=True
    ) as folder:
        try:
            with _without_messages():
                _initialize(address, cores, folder)
            with redirect_stdout(_ShortMessages()):
                yield
        finally:
            ray.shutdown()


def _initialize(address: str, cores: int, folder: str) -> None:
    """Start Ray, or connect to it; ValueError where it does not answer."""
    import ray
    import ray.exceptions

    if address != "local":
        try:
            ray.init(address=address, **_QUIET)
            return
        except (ConnectionError, RuntimeError, ray.exceptions.RayError) as error:
            if address != "auto" or not isinstance(error, ConnectionError):
                raise ValueError(f"Ray at {address} does not answer: {error}") from error

    # Ray listens to the network. It takes work only from those who know this word: from nobody else.
    # Without it, Ray would write one into the user's home.
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    try:
        ray.init(
            address="local",
            num_cpus=cores,
            include_dashboard=False,
            object_store_memory=_STORE_BYTES,
            _temp_dir=folder,
            **_QUIET,
        )
    except (RuntimeError, ray.exceptions.RayError) as error:
        raise ValueError(f"Ray cannot be started here: {error}") from error


class _ShortMessages(TextIOBase):
    """Standard output while Ray is connected: it is told there of each lost worker, in ten lines.

    The first sentence of a message goes to standard error.
    """

    def write(self, text: str) -> int:
        """Write the first sentence of a message."""
        plain = re.sub(r"\x1b\[\d*m", "", text).strip()
        if plain:
            sys.stderr.write(f"pellucid: Ray: {plain.partition('. ')[0]}\n")
        return len(text)


@contextmanager
def _without_messages() -> Iterator[None]:
    """Let nothing reach standard error, where Ray's library in C++ says that it was told to say little."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _choose_folder() -> str:
    """Return the usual folder for temporary files, unless its path is too long for Ray."""
    usual = tempfile.gettempdir()
    is_too_long = len(usual) > _LONGEST_FOLDER and Path(_USERS_FOLDER).is_dir()
    return _USERS_FOLDER if is_too_long else usual
