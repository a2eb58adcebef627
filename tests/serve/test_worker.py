from concurrent.futures import Future
from threading import Event, Thread

import pytest

from pellucid.decode.config import SearchConfig
from pellucid.serve.worker import QueueFull, TranslationJob, Worker, fit_together


class Doubling:
    """Doubles numbers, together while their sum is at most ten; waits until it is let go, and fails at zero."""

    def __init__(self, waiting: int = 99):
        self.go = Event()
        self.begun = Event()
        self.together: list[list[int]] = []
        self.worker = Worker[int, int](self.answer, waiting, lambda some, more: sum(some) + more <= 10)

    def answer(self, numbers: list[int]) -> list[int]:
        self.together.append(numbers)
        self.begun.set()
        assert self.go.wait(10)
        if 0 in numbers:
            raise ValueError("nothing to double")
        return [2 * each for each in numbers]

    def held(self, *numbers: int) -> list[Future[int]]:
        """The first is begun before the others are asked."""
        first = self.worker.submit(numbers[0])
        assert self.begun.wait(10)
        return [first, *map(self.worker.submit, numbers[1:])]


def test_what_has_arrived_is_answered_together_and_to_whom_it_belongs():
    doubling = Doubling()
    futures = doubling.held(7, 1, 2, 3, 4, 5)
    doubling.go.set()
    assert [each.result(10) for each in futures] == [14, 2, 4, 6, 8, 10]
    assert doubling.together == [[7], [1, 2, 3, 4], [5]]


def test_one_that_is_too_large_for_company_goes_alone():
    doubling = Doubling()
    futures = doubling.held(1, 30, 2)
    doubling.go.set()
    assert [each.result(10) for each in futures] == [2, 60, 4]
    assert doubling.together == [[1], [30], [2]]


def test_what_nobody_waits_for_is_left_out():
    doubling = Doubling()
    futures = doubling.held(7, 1, 2, 3)
    assert futures[2].cancel()
    assert doubling.worker.waiting_jobs == 2
    doubling.go.set()
    assert (futures[1].result(10), futures[3].result(10)) == (2, 6)
    assert doubling.together == [[7], [1, 3]]


def test_what_is_wrong_with_one_is_told_to_that_one():
    doubling = Doubling()
    futures = doubling.held(7, 1, 0, 2)
    doubling.go.set()
    assert [futures[i].result(10) for i in (1, 3)] == [2, 4]
    with pytest.raises(ValueError, match="nothing to double"):
        futures[2].result(10)


def test_one_more_than_may_wait_is_sent_away_and_one_that_left_makes_room():
    doubling = Doubling(waiting=2)
    futures = doubling.held(7, 1, 2)
    with pytest.raises(QueueFull):
        doubling.worker.submit(3)
    futures[1].cancel()
    last = doubling.worker.submit(3)
    with pytest.raises(QueueFull):
        doubling.worker.submit(4)
    doubling.go.set()
    assert last.result(10) == 6


def test_who_leaves_at_once_leaves_nothing_behind():
    doubling = Doubling(waiting=5)
    doubling.held(7)
    for number in range(1000):
        doubling.worker.submit(number).cancel()
    assert doubling.worker.waiting_jobs == 0
    assert len(doubling.worker._queue) <= 5
    doubling.go.set()


def test_closing_answers_what_waits_and_takes_no_more():
    doubling = Doubling()
    futures = doubling.held(7, 1, 2)
    closing = Thread(target=doubling.worker.close, args=(10,))
    closing.start()
    while not doubling.worker._closed:
        pass
    with pytest.raises(QueueFull):
        doubling.worker.submit(3)
    doubling.go.set()
    closing.join()
    assert [each.result(0) for each in futures] == [14, 2, 4]
    assert not doubling.worker.alive


def test_closing_gives_up_what_takes_too_long():
    doubling = Doubling()
    futures = doubling.held(7, 9)
    doubling.worker.close(0.01)
    assert futures[1].cancelled()
    doubling.go.set()
    assert futures[0].result(10) == 14


def test_only_what_is_searched_alike_is_translated_together():
    plain, wide = SearchConfig(), SearchConfig(beam=5, n_best=5)
    few, many = TranslationJob(("a",) * 10, plain), TranslationJob(("a",) * 55, plain)
    assert fit_together([few], few)
    assert not fit_together([few], TranslationJob(("a",), wide))
    assert not fit_together([few], many)
    assert fit_together([few], TranslationJob(("b" * 9_990,), plain))
    assert not fit_together([few], TranslationJob(("b" * 9_991,), plain))
