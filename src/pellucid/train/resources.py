"""How much memory the machine has left, and how much this process took."""

import os
import sys
from contextlib import suppress
from pathlib import Path


def free_memory() -> int | None:
    """Bytes that can still be had without swapping; None where the system does not say."""
    with suppress(OSError, StopIteration):
        return in_kilobytes(Path("/proc/meminfo"), "MemAvailable")
    with suppress(AttributeError, ValueError, OSError):
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def forget_peak() -> None:
    """Begin to measure the process's memory anew, where the system can (Linux)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_memory() -> int | None:
    """Bytes the process held at most: since `forget_peak` on Linux, since it began elsewhere."""
    with suppress(OSError, StopIteration):
        return in_kilobytes(Path("/proc/self/status"), "VmHWM")
    with suppress(ImportError):
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else 1024 * most
    return None


def in_kilobytes(table: Path, name: str) -> int:
    """A row of one of Linux's tables, as bytes; OSError or StopIteration where there is none."""
    rows = table.read_text(encoding="utf-8", errors="replace").splitlines()
    return 1024 * int(next(row for row in rows if row.startswith(name)).split()[1])
