from collections.abc import Callable
from concurrent.futures import Future
from math import inf
from threading import Event, Thread

import pytest

from pellucid.decode.request import SearchConfig
from pellucid.serve import workers
from pellucid.serve.directions import Direction
from pellucid.serve.service import TranslationJob, fit_together
from pellucid.serve.workers import JobsCancelled, QueueFull, Worker
from tests.decode.models import small_tokenizer
from tests.serve.servers import EN_ES, small_model


class DoublingWorker:
    """A worker that doubles numbers, together up to a sum of ten; it waits until released, and fails at zero."""

    def __init__(self, waiting: int = 99):
        self.go = Event()
        self.begun = Event()
        self.batches: list[list[int]] = []
        self.worker = Worker[int, int](self.answer, waiting, lambda batch, candidate: sum(batch) + candidate <= 10)

    def answer(self, numbers: list[int], check_wanted: Callable[[], None]) -> list[int]:
        self.batches.append(numbers)
        self.begun.set()
        assert self.go.wait(10)
        check_wanted()
        if 0 in numbers:
            raise ValueError("nothing to double")
        return [2 * number for number in numbers]

    def submit_all(self, *numbers: int) -> list[Future[int]]:
        """Submit the numbers; the first is begun before the others are submitted."""
        first = self.worker.submit(numbers[0])
        assert self.begun.wait(10)
        return [first, *map(self.worker.submit, numbers[1:])]


def test_waiting_jobs_are_answered_together_each_with_its_own_answer():
    doubling = DoublingWorker()
    futures = doubling.submit_all(7, 1, 2, 3, 4, 5)
    doubling.go.set()
    assert [future.result(10) for future in futures] == [14, 2, 4, 6, 8, 10]
    assert doubling.batches == [[7], [1, 2, 3, 4], [5]]


def test_a_job_too_large_for_a_batch_goes_alone():
    doubling = DoublingWorker()
    futures = doubling.submit_all(1, 30, 2)
    doubling.go.set()
    assert [future.result(10) for future in futures] == [2, 60, 4]
    assert doubling.batches == [[1], [30], [2]]


def test_cancelled_jobs_are_skipped():
    doubling = DoublingWorker()
    futures = doubling.submit_all(7, 1, 2, 3)
    assert futures[2].cancel()
    assert doubling.worker.waiting_jobs == 2
    doubling.go.set()
    assert (futures[1].result(10), futures[3].result(10)) == (2, 6)
    assert doubling.batches == [[7], [1, 3]]


def test_a_job_that_has_begun_is_stopped_when_nobody_waits_for_it_or_any_other_of_its_batch():
    doubling = DoublingWorker()
    futures = doubling.submit_all(7, 1, 2)
    for future in futures[:2]:
        assert not future.cancel() or future is futures[1]
    doubling.go.set()
    assert futures[2].result(10) == 4
    with pytest.raises(JobsCancelled):
        futures[0].result(10)
    assert doubling.batches == [[7], [2]]


def test_a_job_goes_on_while_somebody_waits_for_another_of_its_batch():
    doubling = DoublingWorker()
    futures = doubling.submit_all(10, 1, 2)
    steps: list[str] = []

    def answer(numbers: list[int], check_wanted: Callable[[], None]) -> list[int]:
        futures[1].cancel()
        check_wanted()
        steps.append("one goes on")
        futures[2].cancel()
        check_wanted()
        steps.append("none goes on")
        return numbers

    doubling.worker._answer = answer
    doubling.go.set()
    with pytest.raises(JobsCancelled):
        futures[2].result(10)
    assert steps == ["one goes on"]


def test_an_error_reaches_only_its_own_job():
    doubling = DoublingWorker()
    futures = doubling.submit_all(7, 1, 0, 2)
    doubling.go.set()
    assert [futures[i].result(10) for i in (1, 3)] == [2, 4]
    with pytest.raises(ValueError, match="nothing to double"):
        futures[2].result(10)


def test_a_full_queue_refuses_and_a_cancelled_job_makes_room():
    doubling = DoublingWorker(waiting=2)
    futures = doubling.submit_all(7, 1, 2)
    with pytest.raises(QueueFull):
        doubling.worker.submit(3)
    futures[1].cancel()
    last = doubling.worker.submit(3)
    with pytest.raises(QueueFull):
        doubling.worker.submit(4)
    doubling.go.set()
    assert last.result(10) == 6


def test_jobs_that_would_hardly_be_answered_in_time_are_refused():
    """A job takes four seconds here, so that the eighth would end after more than thirty."""
    now, go, begun = [0.0], Event(), Event()

    def answer(numbers: list[int], check_wanted: Callable[[], None]) -> list[int]:
        begun.set()
        assert go.wait(10)
        now[0] += 4
        return numbers

    worker = Worker[int, int](answer, waiting=99, clock=lambda: now[0])
    go.set()
    for number in range(40):  # the mean of the newest jobs comes near four seconds
        worker.submit(number, 30).result(10)
    go.clear()
    begun.clear()
    futures = [worker.submit(0, 30)]
    assert begun.wait(10)
    futures += [worker.submit(number, 30) for number in range(6)]
    with pytest.raises(QueueFull, match="6 requests wait already, too many to answer one more within 30 s"):
        worker.submit(7, 30)
    futures[3].cancel()
    futures.append(worker.submit(8, 30))
    go.set()
    assert futures[-1].result(10) == 8


def test_a_single_slow_job_does_not_close_the_door():
    now = [0.0]

    def answer(numbers: list[int], check_wanted: Callable[[], None]) -> list[int]:
        now[0] += 1000
        return numbers

    worker = Worker[int, int](answer, waiting=99, clock=lambda: now[0])
    assert [worker.submit(number, 30).result(10) for number in range(5)] == [0, 1, 2, 3, 4]


def test_a_job_that_is_too_late_when_its_turn_comes_is_not_begun():
    now, go, begun, answered = [0.0], Event(), Event(), list[int]()

    def answer(numbers: list[int], check_wanted: Callable[[], None]) -> list[int]:
        begun.set()
        assert go.wait(10)
        now[0] += 20
        answered.extend(numbers)
        return numbers

    worker = Worker[int, int](answer, waiting=99, clock=lambda: now[0])
    first = worker.submit(1, limit=30)
    assert begun.wait(10)
    late, in_time, without_limit = (
        worker.submit(number, limit=limit) for number, limit in ((2, 19), (3, 30), (4, inf))
    )
    go.set()
    assert [future.result(10) for future in (first, in_time, without_limit)] == [1, 3, 4]
    with pytest.raises(JobsCancelled):
        late.result(10)
    assert answered == [1, 3, 4]
    assert [future.came_behind for future in (first, late, in_time)] == [False, True, True]


def test_jobs_under_way_are_stopped_between_two_steps_when_they_are_all_too_late_and_none_is_tried_again():
    now, go, begun, batches = [0.0], Event(), Event(), list[list[int]]()

    def answer(numbers: list[int], check_wanted: Callable[[], None]) -> list[int]:
        batches.append(numbers)
        begun.set()
        assert go.wait(10)
        for _ in range(100):  # steps of a search
            check_wanted()
            now[0] += 1
        return numbers

    worker = Worker[int, int](answer, 99, lambda batch, candidate: True, clock=lambda: now[0])
    first = worker.submit(1, limit=5)
    assert begun.wait(10)
    others = [worker.submit(2, limit=10), worker.submit(3, limit=20)]
    go.set()
    for future in (first, *others):
        with pytest.raises(JobsCancelled):
            future.result(10)
    # The batch went on as long as one of its jobs could be in time.
    assert (batches, now) == ([[1], [2, 3]], [21.0])


def test_a_busy_worker_returns_freed_memory_now_and_then(monkeypatch: pytest.MonkeyPatch):
    now, returned = [0.0], list[float]()
    monkeypatch.setattr(workers, "return_free_memory", lambda: returned.append(now[0]))

    def answer(numbers: list[int], check_wanted: Callable[[], None]) -> list[int]:
        now[0] += 4
        return numbers

    worker = Worker[int, int](answer, waiting=99, clock=lambda: now[0])
    for number in range(10):
        worker.submit(number).result(10)
    worker.close(10)
    assert returned == [12, 24, 36]


def test_cancelled_jobs_do_not_pile_up():
    doubling = DoublingWorker(waiting=5)
    doubling.submit_all(7)
    for number in range(1000):
        doubling.worker.submit(number).cancel()
    assert doubling.worker.waiting_jobs == 0
    assert len(doubling.worker._queue) <= 5
    doubling.go.set()


def test_closing_answers_waiting_jobs_and_takes_no_more():
    doubling = DoublingWorker()
    futures = doubling.submit_all(7, 1, 2)
    closing = Thread(target=doubling.worker.close, args=(10,))
    closing.start()
    while not doubling.worker._closed:
        pass
    with pytest.raises(QueueFull):
        doubling.worker.submit(3)
    doubling.go.set()
    closing.join()
    assert [future.result(0) for future in futures] == [14, 2, 4]
    assert not doubling.worker.alive


def test_closing_gives_up_slow_jobs():
    doubling = DoublingWorker()
    futures = doubling.submit_all(7, 9)
    doubling.worker.close(0.01)
    assert futures[1].cancelled()
    doubling.go.set()
    assert futures[0].result(10) == 14


def test_only_equal_searches_are_translated_together():
    plain, wide = SearchConfig(), SearchConfig(beam=5, n_best=5)
    direction, other = (Direction(EN_ES, small_tokenizer(), small_model) for _ in range(2))
    few, many = TranslationJob(("a",) * 10, direction, plain), TranslationJob(("a",) * 55, direction, plain)
    assert fit_together([few], few)
    assert not fit_together([few], TranslationJob(("a",), direction, wide))
    assert not fit_together([few], TranslationJob(("a",), other, plain))
    assert not fit_together([few], many)
    assert fit_together([few], TranslationJob(("b" * 9_990,), direction, plain))
    assert not fit_together([few], TranslationJob(("b" * 9_991,), direction, plain))


def test_an_answer_knows_how_long_its_job_has_waited():
    now, go, begun = [0.0], Event(), Event()

    def answer(numbers: list[int], check_wanted: Callable[[], None]) -> list[int]:
        begun.set()
        assert go.wait(10)
        now[0] += 7
        return numbers

    worker = Worker[int, int](answer, waiting=9, clock=lambda: now[0])
    first = worker.submit(1)
    assert begun.wait(10)
    now[0] = 5
    second = worker.submit(2)
    now[0] = 8
    assert (first.seconds_waited, second.seconds_waited) == (0, 3)
    go.set()
    assert [first.result(10), second.result(10)] == [1, 2]
    assert (first.seconds_waited, second.seconds_waited) == (0, 10)
