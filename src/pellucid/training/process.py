"""Process of a training run: the lock on its directory, its memory, and the signals that stop it."""

import ctypes
import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from pellucid.cpu import describe_missing_bfloat16, has_native_bfloat16, share_processor
from pellucid.store.atomic import WriteFailed, explain_write_error, is_failed_write

if TYPE_CHECKING:
    import torch

LOCK_FILE = "run.lock"  # name of the lock file in a run directory
STOP_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")  # signals at which a run saves everything and stops


@contextmanager
def hold_run_lock(directory: Path) -> Iterator[None]:
    """Hold the lock of a run directory, which is made if it does not exist and removed again if it stays empty.

    Raises ValueError, with the other's process id, while another process trains into the directory.
    Where the system or the file system has no such locks, nothing is locked.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return

    path = directory / LOCK_FILE
    new_folders = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    while True:
        with _open_lock(path, new_folders) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                owner = file.read(20).strip() or "of unknown number"
                raise ValueError(
                    f"{directory} is being trained into by process {owner}; wait until it ends, "
                    "stop it, or choose another --out"
                ) from None
            except OSError:  # a network file system without locks
                pass
            # The last owner may have removed the file after we opened it: then nobody else sees the
            # file we locked.
            if not _is_file_at(file, path):
                continue
            try:
                with suppress(OSError):  # on a full disk, only the process id is missing
                    file.truncate(0)
                    file.write(f"{os.getpid()}\n")
                    file.flush()
                yield
            finally:
                with suppress(OSError):
                    path.unlink()
                remove_empty(new_folders)
            return


def _open_lock(path: Path, new_folders: list[Path]) -> TextIO:
    """Open the lock file, in a folder that is made for it; raise WriteFailed where the disk refuses it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Append mode: opening must not erase the process id of the owner.
        return path.open("a+", encoding="ascii")
    except OSError as error:
        remove_empty(new_folders)
        if not is_failed_write(error):
            raise
        raise WriteFailed(
            f"{path} could not be written: {explain_write_error(error)}; nothing was left behind"
        ) from error


def remove_empty(folders: list[Path]) -> None:
    """Remove folders, innermost first, up to the first that is not empty."""
    with suppress(OSError):
        for folder in folders:
            if folder.exists():
                folder.rmdir()


def _is_file_at(file: TextIO, path: Path) -> bool:
    """Whether an open file is still the one at `path`."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    return False


def tune_memory() -> None:
    """Tune the allocator, oneDNN's cache and the threads' waiting; every process that trains calls this first."""
    share_processor()
    # Limit oneDNN's cache of compiled kernels to 64 shapes of products, from 1,024. A kernel and
    # its memory take up to a megabyte, batches have hundreds of shapes, and few recur soon: with
    # the limit, a tiny model's batches of 4,096 pieces take 0.9 GB instead of 1.6 GB, and no more
    # time.
    for variable in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        # oneDNN and torch's layer above it have a cache each, and read these at the first product
        # in bfloat16.
        os.environ.setdefault(variable, "64")

    # Make glibc keep freed memory, for all threads, instead of returning it to the kernel after
    # each update: otherwise every update's large tensors are unmapped, mapped and zeroed again.
    if sys.platform == "linux":
        m_trim_threshold, m_mmap_threshold, m_arena_max = -1, -3, -8
        # Other C libraries, such as musl, have no mallopt.
        with suppress(OSError, AttributeError):
            libc = ctypes.CDLL("libc.so.6")
            libc.mallopt(m_mmap_threshold, 2**30)
            libc.mallopt(m_trim_threshold, 2**31 - 1)
            libc.mallopt(m_arena_max, 1)  # the others consist of small mappings, which are returned


def explain_float32(precision: str, device: "torch.device") -> str | None:
    """Return a sentence that explains why another precision than the requested one is used, if so."""
    if precision != "bfloat16" or has_native_bfloat16(device):
        return None
    reason = describe_missing_bfloat16(device)
    return f"train.precision = bfloat16, which {reason}: products are made in float32"


@contextmanager
def catch_signals() -> Iterator[list[str]]:
    """Yield a list that is empty until Ctrl-C, SIGTERM or a closed terminal asks to stop, and then the signal's name.

    The update in progress is finished first. A second Ctrl-C or SIGTERM interrupts at once. A
    process that ignores SIGHUP, as nohup starts it, goes on ignoring it.
    """
    caught: list[str] = []

    def note(number: int, frame: Any) -> None:
        name = signal.Signals(number).name
        if name == "SIGHUP":
            leave_lost_terminals()
        # A terminal that closes sends SIGHUP more than once, from the system and from its shell,
        # and what stops a service sends it beside SIGTERM: nobody has asked a second time.
        if caught and "SIGHUP" not in (caught[0], name):
            raise KeyboardInterrupt
        caught.append(name)

    # Python sets signal handlers in the main thread only.
    if threading.current_thread() is not threading.main_thread():
        yield caught
        return

    # Windows has no SIGHUP.
    numbers = [getattr(signal, name) for name in STOP_SIGNALS if hasattr(signal, name)]
    numbers = [number for number in numbers if not _is_ignored_hangup(number)]
    previous = [signal.signal(number, note) for number in numbers]
    try:
        yield caught
    finally:
        for number, handler in zip(numbers, previous, strict=True):
            signal.signal(number, handler)


def _is_ignored_hangup(number: int) -> bool:
    """Whether a signal is SIGHUP, and this process was started to ignore it."""
    return signal.Signals(number).name == "SIGHUP" and signal.getsignal(number) is signal.SIG_IGN


def leave_lost_terminals() -> None:
    """Put the null device in place of standard output and error where their terminal is closed.

    Each message would be an error of writing there, and the run would end by it before it is saved.
    """
    for number in (1, 2):
        if _is_lost_terminal(number):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, number)
            os.close(null)


def _is_lost_terminal(number: int) -> bool:
    """Whether an open file is a terminal that has been closed at its other end."""
    try:
        import termios
    except ImportError:  # Windows
        return False
    try:
        termios.tcgetattr(number)
    except termios.error as error:
        return error.args[0] == errno.EIO  # what is no terminal gives ENOTTY
    return False
