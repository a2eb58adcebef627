import os
import platform
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pellucid import cpu
from pellucid.cpu import ProcessorShare
from pellucid.training import log
from pellucid.training.checkpoint import RunCounts
from pellucid.training.log import RunLog


class Messages:
    """Keeps what a run says."""

    def __init__(self):
        self.said: list[str] = []

    def say(self, message: str) -> None:
        self.said.append(message)

    def update(self, *numbers: object) -> None:
        pass


def times(monkeypatch: pytest.MonkeyPatch, *readings: tuple[float, float]) -> None:
    """Give these readings to the test's own thread; the watcher that another test started goes on with real ones."""
    rest, test, read = list(readings), threading.current_thread(), cpu.processor_times
    monkeypatch.setattr(cpu, "processor_times", lambda: rest.pop(0) if threading.current_thread() is test else read())


@pytest.mark.parametrize(
    ("ran", "waited", "share"), [(3.0, 1.0, 0.75), (4.0, 0.0, 1.0), (0.0, 0.0, None)], ids=["busy", "quiet", "unknown"]
)
def test_a_share_is_what_ran_of_what_could_have_run(ran, waited, share, monkeypatch):
    times(monkeypatch, (10.0, 5.0), (10.0 + ran, 5.0 + waited))
    assert ProcessorShare().measure() == share


def test_all_threads_of_the_process_are_counted():
    if cpu.processor_times() == (0.0, 0.0):
        pytest.skip("this system does not say how long a thread waited for a processor")
    before, finish, done = cpu.processor_times()[0], threading.Event(), threading.Event()

    def work() -> None:
        sum(range(3_000_000))
        done.set()
        finish.wait()

    thread = threading.Thread(target=work)
    thread.start()
    done.wait()
    ran = cpu.processor_times()[0] - before
    finish.set()
    thread.join()
    assert ran > 0


def test_a_run_says_once_that_other_programs_slow_it_down(monkeypatch, tmp_path):
    monkeypatch.setattr(log, "SECONDS_TO_JUDGE", 0.0)
    times(monkeypatch, (0.0, 0.0), (3.0, 2.0))
    output = Messages()
    run_log = RunLog(tmp_path / "log.jsonl", RunCounts(), output)  # pyright: ignore[reportArgumentType]
    run_log.note_busy_machine()
    run_log.note_busy_machine()
    assert output.said == [
        "other programs use the processor: training ran for 60% of the time in which it could have run, and takes "
        "about 1.7 times as long as on a quiet machine"
    ]


def test_a_run_on_a_gpu_or_a_quiet_machine_says_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(log, "SECONDS_TO_JUDGE", 0.0)
    times(monkeypatch, (0.0, 0.0), (9.0, 1.0))
    output = Messages()
    for on_cpu in (True, False):
        RunLog(tmp_path / "log.jsonl", RunCounts(), output, on_cpu).note_busy_machine()  # pyright: ignore[reportArgumentType]
    assert output.said == []


def test_threads_become_polite_beside_others_and_stop_being_so(monkeypatch):
    held: list[threading.Event] = []
    # Each look takes a reading that ends a share and one that begins the next.
    times(monkeypatch, (0, 0), (1, 1), (1, 1), (2, 2), (2, 2), (3, 2), (3, 2))
    threads = cpu.PoliteThreads(hold=held.append)
    polite = []
    for _ in range(3):
        threads.look()
        polite.append([not release.is_set() for release in held])
    assert polite == [[True], [True], [False]]


PROGRAM = """
import torch, threading, hashlib
from pellucid import cpu as processor
torch.set_num_threads(2)
release = threading.Event()
def numbers():
    torch.manual_seed(1)
    x, w = torch.randn(300, 257, requires_grad=True), torch.randn(257, 129)
    (x @ w).softmax(-1).log().sum().backward()
    return hashlib.sha256(x.grad.numpy().tobytes()).hexdigest()
before = numbers()
processor.share_processor()
thread = threading.Thread(target=processor.hold_team, args=(release,))
thread.start()
during = numbers()
release.set()
thread.join()
assert before == during == numbers()
"""


def test_numbers_do_not_depend_on_how_threads_wait():
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=120)


ENDING = """
import functools, time, torch
from pellucid import cpu as processor
processor.BUSY_SHARE, processor.SECONDS_BETWEEN_LOOKS = 2.0, 0.01
def hold(release):
    x = torch.ones(2**18)
    while not release.is_set():
        x.add_(1)
processor.PoliteThreads = functools.partial(processor.PoliteThreads, hold)
processor.share_processor()
time.sleep(0.5)
"""


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="only Linux says how long a process waited")
def test_a_process_on_a_busy_machine_ends_without_an_abort():
    environment = {
        name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    }
    ended = subprocess.run([sys.executable, "-c", ENDING], env=environment, timeout=120, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.skipif(sys.platform != "linux" or platform.machine() != "x86_64", reason="a system call of Linux")
def test_short_turns_are_asked_for_and_keep_policy_and_niceness():
    program = (
        "import ctypes, os, platform, struct; from pellucid import cpu as processor; os.nice(3); "
        "processor.take_short_turns();"
        "space = ctypes.create_string_buffer(48); ctypes.CDLL(None).syscall(315, 0, space, 48, 0);"
        "print(*struct.unpack('IIQiIQQQ', space.raw))"
    )
    numbers = subprocess.run([sys.executable, "-c", program], check=True, text=True, stdout=subprocess.PIPE).stdout
    _, policy, _, nice, _, turn, *_ = map(int, numbers.split())
    assert (policy, nice) == (os.SCHED_OTHER, min(19, os.nice(0) + 3))
    assert turn in {0, 100_000}  # Linux before 6.12 has no turns of one's own


GAPS = """
import re, sys
from pathlib import Path
from pellucid.cpu import return_free_memory

def measure():
    return int(re.search("VmRSS:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024

blocks = [bytearray(100_000) for _ in range(1000)]
kept = blocks[::50]
del blocks
before = measure()
return_free_memory()
print(before, measure())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc holds freed memory so")
def test_freed_memory_goes_back_though_blocks_between_are_in_use():
    """The 100 MB are freed but for every fiftieth block, which keeps the heap from shrinking."""
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "1000000"}
    done = subprocess.run([sys.executable, "-c", GAPS], env=environment, capture_output=True, text=True, check=True)
    before, after = map(float, done.stdout.split())
    assert before - after > 80


def test_a_product_has_no_more_threads_than_the_environment_says(monkeypatch):
    monkeypatch.setattr(cpu, "count_processors", lambda: 8)
    for words, threads in {"1": 1, "3": 3, "64": 8, "": 8, "0": 8, "many": 8}.items():
        monkeypatch.setenv("OMP_NUM_THREADS", words)
        assert cpu.count_threads_of_product() == threads
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert cpu.count_threads_of_product() == 8
