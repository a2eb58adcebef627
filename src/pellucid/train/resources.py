"""How much memory the device has left, and how much this process took of it."""

import os
import sys
from contextlib import suppress
from pathlib import Path

import torch


def free_memory(device: torch.device) -> int | None:
    """Bytes that can still be had, without swapping; None where the system does not say."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    with suppress(OSError, StopIteration):
        return read_kilobytes(Path("/proc/meminfo"), "MemAvailable")
    with suppress(AttributeError, ValueError, OSError):
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def reset_peak_memory(device: torch.device) -> None:
    """Begin to measure the process's memory anew, where the system can (Linux), or that of its tensors on a GPU."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_memory(device: torch.device) -> int | None:
    """Bytes the process held at most: since `reset_peak_memory` on Linux and of a GPU, since it began elsewhere."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    with suppress(OSError, StopIteration):
        return read_kilobytes(Path("/proc/self/status"), "VmHWM")
    with suppress(ImportError):
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else 1024 * most
    return None


def read_kilobytes(table: Path, name: str) -> int:
    """A row of one of Linux's tables, as bytes; OSError or StopIteration where there is none."""
    rows = table.read_text(encoding="utf-8", errors="replace").splitlines()
    return 1024 * int(next(row for row in rows if row.startswith(name)).split()[1])
