"""Lock of a run directory: one training at a time writes into it; the kernel frees it however the process ends."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from pellucid.store.atomic import WriteFailed, explain_write_error, is_failed_write

LOCK_FILE = "run.lock"
"""Name of the lock file in a run directory."""


@contextmanager
def hold_run_lock(directory: Path) -> Iterator[None]:
    """Hold the lock of a run directory, which is made if it does not exist and removed again if it stays empty.

    Raises ValueError, with the other's process id, while another process trains into the directory. Where the system or
    the file system has no such locks, nothing is locked.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    path = directory / LOCK_FILE
    new_folders = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    while True:
        with open_lock(path, new_folders) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(
                    f"{directory} is being trained into by process {lock_owner(file)}; wait until it ends, stop it, or "
                    "choose another --out"
                ) from None
            except OSError:  # a network file system without locks
                pass
            # The last owner may have removed the file after we opened it: then nobody else sees the file we locked.
            if not is_file_at(file, path):
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


def open_lock(path: Path, new_folders: list[Path]) -> TextIO:
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


def is_file_at(file: TextIO, path: Path) -> bool:
    """Whether an open file is still the one at `path`."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    return False


def lock_owner(file: TextIO) -> str:
    """Return the process id that a lock file names."""
    file.seek(0)
    return file.read(20).strip() or "of unknown number"
