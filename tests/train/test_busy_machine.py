import threading

import pytest

from pellucid.train import log, resources
from pellucid.train.log import RunLog
from pellucid.train.resources import ProcessorShare
from pellucid.train.state import RunCounts


class Messages:
    """Keeps what a run says."""

    def __init__(self):
        self.said: list[str] = []

    def say(self, message: str) -> None:
        self.said.append(message)

    def update(self, *numbers: object) -> None:
        pass


def times(monkeypatch: pytest.MonkeyPatch, *readings: tuple[float, float]) -> None:
    rest = list(readings)
    monkeypatch.setattr(resources, "processor_times", lambda: rest.pop(0))


@pytest.mark.parametrize(
    ("ran", "waited", "share"), [(3.0, 1.0, 0.75), (4.0, 0.0, 1.0), (0.0, 0.0, None)], ids=["busy", "quiet", "unknown"]
)
def test_a_share_is_what_ran_of_what_could_have_run(ran, waited, share, monkeypatch):
    times(monkeypatch, (10.0, 5.0), (10.0 + ran, 5.0 + waited))
    assert ProcessorShare().measure() == share


def test_all_threads_of_the_process_are_counted():
    if resources.processor_times() == (0.0, 0.0):
        pytest.skip("this system does not say how long a thread waited for a processor")
    before, finish, done = resources.processor_times()[0], threading.Event(), threading.Event()

    def work() -> None:
        sum(range(3_000_000))
        done.set()
        finish.wait()

    thread = threading.Thread(target=work)
    thread.start()
    done.wait()
    ran = resources.processor_times()[0] - before
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
