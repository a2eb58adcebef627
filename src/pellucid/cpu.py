"""The processor: what it can do, and how this process shares it with other programs, holding nothing without use."""

import atexit
import os
import platform
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    import torch

# Least share of the time in which its threads could run that a process runs, if it has the machine for itself.
BUSY_SHARE = 0.85

SECONDS_BETWEEN_LOOKS = 1.0
TURN = 100_000  # nanoseconds of a thread's turn, the shortest that Linux grants
_M_ARENA_MAX = -8  # number of this setting in glibc's malloc.h
# Number of the system call `sched_setattr`, for which the C library has no function.
SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}


class ProcessorShare:
    """Measures, from its creation on, how much of the time in which its threads could run this process did run."""

    def __init__(self) -> None:
        self._start = processor_times()

    def measure(self) -> float | None:
        """Return the share, from 0 to 1, that other programs left; None where the system does not say."""
        ran, waited = (now - start for now, start in zip(processor_times(), self._start, strict=True))
        return ran / (ran + waited) if ran > 0 else None


def count_processors() -> int:
    """Return the number of processors this process may use."""
    # A process may be bound to some of them, by a container or taskset; not every system can tell.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def count_threads_of_product() -> int:
    """Return the threads that may share one product: OMP_NUM_THREADS where it is set, otherwise all processors.

    Ray and torchrun set it in each of the processes that share a machine.
    """
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return min(int(limit), count_processors()) if limit.isdecimal() and int(limit) else count_processors()


def processor_times() -> tuple[float, float]:
    """Return the seconds that this process's threads ran, and that they waited for a processor; zeros off Linux."""
    ran = waited = 0
    for table in Path("/proc/self/task").glob("*/schedstat"):
        with suppress(OSError):  # a thread that has just ended
            nanoseconds = table.read_text(encoding="ascii").split()
            ran, waited = ran + int(nanoseconds[0]), waited + int(nanoseconds[1])
    return ran / 1e9, waited / 1e9


def describe_busy_machine(share: float) -> str:
    """Return a clause that says what other programs cost an update, which ran for `share` of the time it could."""
    return (
        f"other programs use the processor: training ran for {share:.0%} of the time in which it could have run, and "
        f"takes about {1 / share:.1f} times as long as on a quiet machine"
    )


_owners = threading.local()


@contextmanager
def let_interrupt(interrupt: Callable[[], object]) -> Iterator[None]:
    """Let the long work that this thread does until the block ends call a function between its steps (`give_way`)."""
    before = getattr(_owners, "interrupt", None)
    _owners.interrupt = interrupt
    try:
        yield
    finally:
        _owners.interrupt = before


def give_way() -> None:
    """Let the owner of this thread delay its work, or end it with an exception; to be called between two steps."""
    interrupt = getattr(_owners, "interrupt", None)
    if interrupt is not None:
        interrupt()


def hold_team(release: threading.Event) -> None:
    """Run as a thread: keep a team of OpenMP threads, all of them asleep, until it is released."""
    import torch

    # A product that is large enough to be shared makes the team; its threads end with this thread.
    torch.ones(2**21).add_(1)
    release.wait()


@cache
def thread_pool(threads: int, inside: int) -> "ThreadPoolExecutor":
    """Return the pool of so many threads that share an update, each with `inside` threads for its own products."""
    from concurrent.futures import ThreadPoolExecutor

    import torch

    # Cached: the libraries below torch set up a good deal for every new thread.
    return ThreadPoolExecutor(threads, "update", initializer=torch.set_num_threads, initargs=(inside,))


@contextmanager
def limit_threads(threads: int) -> Iterator[None]:
    """Let so many threads share an operation of torch until the block ends, and as many as before after it."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class PoliteThreads:
    """Makes OpenMP's threads sleep instead of spin while other programs use the processor; changes no result.

    The threads that share a product spin at its end until the last of them is done, which is the fastest way on a quiet
    machine. Beside other programs they spin while the thread that they wait for is not running: beside six of them,
    translation with torch and a plain loop around `nn.Transformer` keep only a twentieth of their speed
    (benchmarks/results/busy.md).
    """

    # How long to spin is fixed when GNU's OpenMP library is loaded, but it spins hardly at all while it manages more
    # threads than there are processors (manual of libgomp, GOMP_SPINCOUNT). So a thread that has a team of its own and
    # does nothing is the switch. More or fewer threads in a product would give other roundings; this does not.

    def __init__(self, hold: Callable[[threading.Event], None] = hold_team) -> None:
        self._share, self._release, self._hold = ProcessorShare(), None, hold
        self._thread = threading.Thread()

    def look(self) -> None:
        """Switch by the share of the processor that this process got since the last look."""
        share, self._share = self._share.measure(), ProcessorShare()
        if share is None:
            return
        if share < BUSY_SHARE and self._release is None:
            self._release = threading.Event()
            self._thread = threading.Thread(target=self._hold, args=(self._release,), daemon=True, name="polite")
            self._thread.start()
        elif share >= BUSY_SHARE:
            self.release()

    def release(self) -> None:
        """Let the threads spin again, and wait for the end of the one that kept them from it."""
        if self._release is not None:
            self._release.set()
            self._thread.join()
            self._release = None


_started = threading.Lock()


def share_processor() -> None:
    """Share the processor well with other programs from now on: take short turns, and do not spin beside them.

    Does something on Linux only, and once in a process; what OMP_WAIT_POLICY or GOMP_SPINCOUNT say is left alone.
    """
    if not Path("/proc/self/schedstat").exists() or not _started.acquire(blocking=False):
        return
    take_short_turns()
    if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & set(os.environ):
        end = threading.Event()
        looking = threading.Thread(target=_look_until, args=(end,), daemon=True, name="processor")
        looking.start()

        @atexit.register
        def stop_looking() -> None:
            # A daemon thread that is inside of torch while Python ends aborts the process, with exit code 134.
            end.set()
            looking.join()


def _look_until(end: threading.Event) -> None:
    threads = PoliteThreads()
    while not end.wait(SECONDS_BETWEEN_LOOKS):
        threads.look()
    threads.release()


def take_short_turns() -> None:
    """Ask Linux for shorter turns of this process's threads, so that one that has waited runs sooner.

    The share of the processor stays the same. Linux before 6.12 ignores it.
    """
    import ctypes

    number = SCHED_SETATTR.get(platform.machine())
    # Who runs this under another policy, such as SCHED_IDLE, has chosen.
    if number is None or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return
    libc = ctypes.CDLL(None)
    # struct sched_attr: size, policy, flags, nice, priority, runtime (of a turn), deadline, period (man sched_setattr).
    attributes = struct.pack("IIQiIQQQ", 48, os.SCHED_OTHER, 0, os.nice(0), 0, TURN, 0, 0)
    with suppress(OSError):
        for thread in os.listdir("/proc/self/task"):
            libc.syscall(number, int(thread), attributes, 0)


def return_free_memory() -> None:
    """Return to the system what the C library holds of freed memory; it takes some milliseconds.

    Tensors of many sizes, made by several threads, leave gaps that glibc keeps otherwise: a server that had answered
    1,800 texts of 1 to 60 words held 60 MB of them, and more with time.
    """
    import ctypes

    # Other C libraries, such as musl and the ones on macOS and Windows, have no malloc_trim.
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def share_free_memory() -> None:
    """Let all threads of this process take memory from two pools; to be called before it has many threads.

    glibc gives threads up to eight pools for each processor, and what is freed in one is no use to a thread of another:
    a server with dozens of threads grew by a fifth in the time in which each pool had once held the largest batch.
    """
    import ctypes

    # Other C libraries have no such pools, or no such function.
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)


def has_native_bfloat16(device: "torch.device") -> bool:
    """Whether the device itself multiplies in bfloat16, instead of emulating it, which is slower than float32.

    Processors with AVX512-BF16 or ARM's BF16 do, if this torch was built with oneDNN, which has the kernels.
    """
    import torch

    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    # A private operator: a torch built without oneDNN has none.
    onednn_supports_bfloat16 = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
    if onednn_supports_bfloat16 is None or not onednn_supports_bfloat16():
        return False
    # With AVX512 alone oneDNN says yes, and emulates.
    return platform.machine().lower() not in ("x86_64", "amd64") or torch.cpu._is_avx512_bf16_supported()  # pyright: ignore[reportPrivateUsage]


def describe_missing_bfloat16(device: "torch.device") -> str:
    """Say that the device has no native bfloat16, in words that follow "bfloat16, which "."""
    return f"this {'GPU' if device.type == 'cuda' else 'processor'} does not have built in"


def explain_emulated_bfloat16(device: str) -> str | None:
    """Return a sentence where torch only emulates bfloat16 on a device such as "cuda"; None where it is built in."""
    import torch

    actual_device = torch.device(device)
    if has_native_bfloat16(actual_device):
        return None
    return f"bfloat16, which {describe_missing_bfloat16(actual_device)}: torch emulates it, and float32 is faster"
