"""Threads that work for many requests: bounded queues, and whatever has arrived is translated together."""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Condition, Thread
from typing import Generic, TypeVar

from pellucid.decode.assemble import Translation
from pellucid.decode.config import SearchConfig
from pellucid.decode.terms import Terms

TEXTS_TOGETHER, CHARACTERS_TOGETHER = 64, 10_000
"""What is translated at a time; a request that is larger goes alone."""

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class QueueFull(Exception):
    """The queue holds as much as it may."""


@dataclass(eq=False)
class Job(Generic[Question, Answer]):
    """What is asked, and the future that will hold the answer; one that is cancelled before its turn is left out."""

    question: Question
    answer: Future[Answer] = field(default_factory=Future)


class Worker(Generic[Question, Answer]):
    """One thread that answers jobs in the order they came, those together that `together` lets.

    `answer` gives one answer for each of the jobs. Where it raises for several, each is asked for alone, so that what
    is wrong with one is told to that one.
    """

    def __init__(
        self,
        answer: Callable[[list[Question]], Sequence[Answer]],
        waiting: int,
        together: Callable[[Sequence[Question], Question], bool] = lambda some, more: False,
    ):
        self._answer = answer
        self._together = together
        self._most = waiting
        self._queue: deque[Job[Question, Answer]] = deque()
        self._changed = Condition()
        self._closed = False
        self._thread = Thread(target=self._run, name="pellucid-worker", daemon=True)
        self._thread.start()

    @property
    def waiting_jobs(self) -> int:
        """Jobs that are not begun."""
        with self._changed:
            return sum(not job.answer.cancelled() for job in self._queue)

    @property
    def alive(self) -> bool:
        """Whether there is somebody to answer."""
        return self._thread.is_alive()

    def submit(self, asked: Question) -> Future[Answer]:
        """The future that will hold the answer; `QueueFull` where too many wait, or the worker was closed."""
        job: Job[Question, Answer] = Job(asked)
        with self._changed:
            if len(self._queue) >= self._most:
                self._queue = deque(job for job in self._queue if not job.answer.cancelled())
            if self._closed or len(self._queue) >= self._most:
                raise QueueFull
            self._queue.append(job)
            self._changed.notify()
        return job.answer

    def close(self, seconds: float) -> None:
        """Take no more; wait so long for what is begun and what waits, then cancel the rest."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(seconds)
        with self._changed:
            for job in self._queue:
                job.answer.cancel()
            self._queue.clear()

    def _run(self) -> None:
        while jobs := self._next():
            self._do(jobs)

    def _next(self) -> list[Job[Question, Answer]]:
        # No job where there never will be one.
        with self._changed:
            while True:
                taken: list[Job[Question, Answer]] = []
                while self._queue and (
                    not taken or self._together([job.question for job in taken], self._queue[0].question)
                ):
                    job = self._queue.popleft()
                    if job.answer.set_running_or_notify_cancel():
                        taken.append(job)
                if taken or self._closed:
                    return taken
                self._changed.wait()

    def _do(self, jobs: Sequence[Job[Question, Answer]]) -> None:
        try:
            answers = self._answer([job.question for job in jobs])
        except Exception as error:
            if len(jobs) > 1:
                for job in jobs:
                    self._do([job])
                return
            jobs[0].answer.set_exception(error)
            return
        for job, answer in zip(jobs, answers, strict=True):
            job.answer.set_result(answer)


@dataclass(frozen=True)
class TranslationJob:
    """Texts of one request, and how they are to be translated."""

    texts: tuple[str, ...]
    search: SearchConfig
    terms: Terms | None = None

    @property
    def characters(self) -> int:
        """In all of them."""
        return sum(map(len, self.texts))


def fit_together(some: Sequence[TranslationJob], more: TranslationJob) -> bool:
    """Whether one more request may be translated with these."""
    return (
        (more.search, more.terms) == (some[0].search, some[0].terms)
        and sum(len(each.texts) for each in some) + len(more.texts) <= TEXTS_TOGETHER
        and sum(each.characters for each in some) + more.characters <= CHARACTERS_TOGETHER
    )


def translate_together(
    translate: Callable[..., list[Translation]], asked: Sequence[TranslationJob]
) -> list[list[Translation]]:
    """The translations of each request, all texts together in one call."""
    found = translate([text for each in asked for text in each.texts], asked[0].search, terms=asked[0].terms)
    rest = iter(found)
    return [[next(rest) for _ in each.texts] for each in asked]
