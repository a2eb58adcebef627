"""Worker threads that serve many requests: bounded queues, and requests that wait are translated together."""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Condition, Thread
from typing import Generic, TypeVar

from pellucid.decode.config import SearchConfig
from pellucid.decode.lines import Translation
from pellucid.decode.terms.glossary import Terms

TEXTS_TOGETHER, CHARACTERS_TOGETHER = 64, 10_000
"""Bounds on the texts and characters of one call; a larger request is translated alone."""

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class QueueFull(Exception):
    """Raised when the queue holds as many jobs as it may."""


class NobodyWaits(Exception):
    """Raised in the midst of jobs whose answers nobody waits for any more."""


class JobAnswer(Future[Answer]):
    """The answer to come of a job; it knows whether somebody still waits for it."""

    is_wanted = True

    def cancel(self) -> bool:
        """Say that nobody waits any more, which stops a job that has begun too."""
        self.is_wanted = False
        return super().cancel()


@dataclass(eq=False)
class Job(Generic[Question, Answer]):
    """A question and the future that will hold its answer; a job cancelled before its turn is skipped."""

    question: Question
    answer: JobAnswer[Answer] = field(default_factory=JobAnswer)


class Worker(Generic[Question, Answer]):
    """One thread that answers jobs in the order they came, batching those that `together` allows.

    `answer` returns one answer for each question of its list. Where it raises for several jobs, each job is tried
    alone, so that an error reaches only the job that caused it. It is also given a function to call between its steps,
    which raises `NobodyWaits` once all jobs of its list are cancelled.
    """

    def __init__(
        self,
        answer: Callable[[list[Question], Callable[[], None]], Sequence[Answer]],
        waiting: int,
        together: Callable[[Sequence[Question], Question], bool] = lambda batch, candidate: False,
    ):
        self._answer = answer
        self._together = together
        self._capacity = waiting
        self._queue: deque[Job[Question, Answer]] = deque()
        self._changed = Condition()
        self._closed = False
        self._thread = Thread(target=self._run, name="pellucid-worker", daemon=True)
        self._thread.start()

    @property
    def waiting_jobs(self) -> int:
        """Number of jobs that are not begun."""
        with self._changed:
            return sum(not job.answer.cancelled() for job in self._queue)

    @property
    def alive(self) -> bool:
        """Whether the thread is running."""
        return self._thread.is_alive()

    def submit(self, question: Question) -> Future[Answer]:
        """Return the future of the answer; raise `QueueFull` where too many wait or the worker is closed."""
        job: Job[Question, Answer] = Job(question)
        with self._changed:
            if len(self._queue) >= self._capacity:
                # Jobs whose client has gone still stand in the queue: they are removed only when room is needed.
                self._queue = deque(job for job in self._queue if not job.answer.cancelled())
            if self._closed or len(self._queue) >= self._capacity:
                raise QueueFull
            self._queue.append(job)
            self._changed.notify()
        return job.answer

    def close(self, seconds: float) -> None:
        """Take no more jobs; wait `seconds` for those begun and waiting, then cancel the rest."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(seconds)
        with self._changed:
            # The thread is a daemon: a job that takes too long is abandoned, and does not keep the process alive.
            for job in self._queue:
                job.answer.cancel()
            self._queue.clear()

    def _run(self) -> None:
        while jobs := self._take_jobs():
            self._do(jobs)

    def _take_jobs(self) -> list[Job[Question, Answer]]:
        # An empty list only after `close`: it ends the thread's loop.
        with self._changed:
            while True:
                batch: list[Job[Question, Answer]] = []
                while self._queue and (
                    not batch or self._together([job.question for job in batch], self._queue[0].question)
                ):
                    job = self._queue.popleft()
                    # False for a job that was cancelled while it waited: nobody wants its answer.
                    if job.answer.set_running_or_notify_cancel():
                        batch.append(job)
                if batch or self._closed:
                    return batch
                self._changed.wait()

    def _do(self, jobs: Sequence[Job[Question, Answer]]) -> None:
        def check_wanted() -> None:
            if not any(job.answer.is_wanted for job in jobs):
                raise NobodyWaits

        try:
            answers = self._answer([job.question for job in jobs], check_wanted)
        except Exception as error:
            # One unusable text fails the whole call, so find its job by asking one at a time.
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
    """Texts of one request, and the search and terms with which to translate them."""

    texts: tuple[str, ...]
    search: SearchConfig
    terms: Terms | None = None

    @property
    def characters(self) -> int:
        """Number of characters in all texts."""
        return sum(map(len, self.texts))


def fit_together(batch: Sequence[TranslationJob], candidate: TranslationJob) -> bool:
    """Whether one more request may join a batch."""
    return (
        # All texts of one call share the search and the terms; the first job stands for its batch.
        (candidate.search, candidate.terms) == (batch[0].search, batch[0].terms)
        and sum(len(job.texts) for job in batch) + len(candidate.texts) <= TEXTS_TOGETHER
        and sum(job.characters for job in batch) + candidate.characters <= CHARACTERS_TOGETHER
    )


def translate_together(
    translate: Callable[..., list[Translation]], jobs: Sequence[TranslationJob], check_wanted: Callable[[], None]
) -> list[list[Translation]]:
    """Translate the texts of all requests in one call; return the translations request by request."""
    texts = [text for job in jobs for text in job.texts]
    translations = translate(texts, jobs[0].search, terms=jobs[0].terms, check_wanted=check_wanted)
    remaining = iter(translations)
    return [[next(remaining) for _ in job.texts] for job in jobs]
