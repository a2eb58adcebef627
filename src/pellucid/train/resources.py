"""Memory that the device has left, and the most that this process has used."""

import os
import sys
from contextlib import suppress
from pathlib import Path

import torch


def free_memory(device: torch.device) -> int | None:
    """Return the bytes that can still be allocated without swapping; None where the system does not say."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    with suppress(OSError, StopIteration):
        # MemAvailable counts the page cache, which the kernel gives up, as free; SC_AVPHYS_PAGES does not.
        return read_kilobytes(Path("/proc/meminfo"), "MemAvailable")
    with suppress(AttributeError, ValueError, OSError):
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def reset_peak_memory(device: torch.device) -> None:
    """Restart the measurement of peak memory: of the process on Linux, of its tensors on a GPU."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    with suppress(OSError):
        # Writing 5 resets VmHWM, the peak of the resident memory (man proc).
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_memory(device: torch.device) -> int | None:
    """Return the peak memory in bytes, since `reset_peak_memory` on Linux and of a GPU, elsewhere since the start."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    with suppress(OSError, StopIteration):
        return read_kilobytes(Path("/proc/self/status"), "VmHWM")
    with suppress(ImportError):
        # Windows does not have this module.
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        # In bytes on macOS, in kilobytes elsewhere.
        return peak if sys.platform == "darwin" else 1024 * peak
    return None


def read_kilobytes(table: Path, name: str) -> int:
    """Return a row of one of Linux's tables in bytes; raises OSError or StopIteration where there is none."""
    rows = table.read_text(encoding="utf-8", errors="replace").splitlines()
    return 1024 * int(next(row for row in rows if row.startswith(name)).split()[1])
