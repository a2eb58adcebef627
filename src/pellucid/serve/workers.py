"""Threads of a server: workers that answer the jobs of many clients, and a study of the heads while nobody asks."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from math import inf
from threading import Condition, Event, Thread
from typing import Any, Generic, TypeVar

from pellucid.cpu import let_interrupt, return_free_memory

Question = TypeVar("Question")
Answer = TypeVar("Answer")

PAIRS_STUDIED = 64  # pairs of the dev text on which heads are studied, its first ones
_PAUSE_SECONDS = 0.05  # seconds between two looks at whether somebody still waits for an answer
# Seconds without work before the study goes on: who asks once often asks again.
_QUIET_SECONDS = 1.0
# Function that studies the heads; it calls its argument after each step of the work.
Study = Callable[[Callable[[], None]], dict[str, Any]]


class QueueFull(Exception):
    """Raised when the queue holds as many jobs as it may, or as can be answered in time; says so in one sentence."""


class JobsCancelled(Exception):
    """Raised in the midst of jobs whose answers nobody waits for any more, or for which it is too late."""


class JobAnswer(Future[Answer]):
    """The answer to come of a job; it knows whether somebody still waits for it, and whether others were before it."""

    is_wanted = True
    came_behind = False

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        super().__init__()
        self._clock = clock
        self._came, self._begun = clock(), inf

    @property
    def seconds_waited(self) -> float:
        """Seconds until the job was begun, or until now where it is not begun."""
        return min(self._begun, self._clock()) - self._came

    def begin(self) -> bool:
        """Begin the job; return False for one that was cancelled while it waited."""
        self._begun = self._clock()
        return self.set_running_or_notify_cancel()

    def cancel(self) -> bool:
        """Say that nobody waits any more, which stops a job that has begun too."""
        self.is_wanted = False
        return super().cancel()


@dataclass(eq=False)
class _Job(Generic[Question, Answer]):
    """A question and the future that will hold its answer; a job cancelled before its turn is skipped."""

    question: Question
    answer: JobAnswer[Answer]
    deadline: float = inf  # time of the worker's clock after which the answer is of no use


class Worker(Generic[Question, Answer]):
    """One thread that answers jobs in the order they came, batching those that `together` allows.

    `answer` returns one answer for each question of its list. Where it raises for several jobs,
    each job is tried alone, so that an error reaches only the job that caused it. It is also given
    a function to call between its steps, which raises `JobsCancelled` once all jobs of its list are
    cancelled or too late, and calls `wait_for_turn` before that. A job whose deadline has passed
    when its turn comes is not begun.
    """

    _NEWEST_SHARE = 0.2  # weight of the newest jobs in the mean time of a job

    # Seconds of the clock after which a worker returns freed memory to the system again.
    _SECONDS_BETWEEN_RETURNS = 10.0

    def __init__(
        self,
        answer: Callable[[list[Question], Callable[[], None]], Sequence[Answer]],
        waiting: int,
        together: Callable[[Sequence[Question], Question], bool] = lambda batch, candidate: False,
        clock: Callable[[], float] = time.monotonic,
        wait_for_turn: Callable[[], object] = lambda: None,
    ):
        self._answer = answer
        self._wait_for_turn = wait_for_turn
        self._together = together
        self._capacity = waiting
        self._clock = clock
        self._seconds_per_job = 0.0
        self._queue: deque[_Job[Question, Answer]] = deque()
        self._changed = Condition()
        self._closed = False
        self._begun: float | None = None
        self._thread = Thread(target=self._run, name="pellucid-worker", daemon=True)
        self._thread.start()

    @property
    def waiting_jobs(self) -> int:
        """Number of jobs that are not begun."""
        with self._changed:
            return sum(not job.answer.cancelled() for job in self._queue)

    @property
    def is_busy(self) -> bool:
        """Whether a job is under way or waits."""
        return self._begun is not None or self.waiting_jobs > 0

    @property
    def seconds_at_work(self) -> float:
        """Seconds since the jobs under way were begun; 0 where there are none."""
        begun = self._begun
        return 0.0 if begun is None else self._clock() - begun

    @property
    def alive(self) -> bool:
        """Whether the thread is running."""
        return self._thread.is_alive()

    @property
    def is_abandoned(self) -> bool:
        """Whether the thread is running though the worker was closed."""
        return self._closed and self.alive

    def submit(
        self, question: Question, seconds: float = inf, limit: float = inf
    ) -> JobAnswer[Answer]:
        """Return the future of the answer, which fails with `JobsCancelled` where there is none after `limit` seconds.

        Raises `QueueFull` where too many wait, where the worker is closed, and where so
        many wait that this one would hardly be answered in `seconds`: it would keep
        others waiting, and be given up in the end.
        """
        job: _Job[Question, Answer] = _Job(question, JobAnswer(self._clock), self._clock() + limit)
        with self._changed:
            self._refuse_one_more(seconds)
            job.answer.came_behind = self.is_busy
            self._queue.append(job)
            self._changed.notify()
        return job.answer

    def refuse_if_full(self, seconds: float) -> None:
        """Raise `QueueFull` where `submit` would, for a question that has not been read yet."""
        with self._changed:
            self._refuse_one_more(seconds)

    def _refuse_one_more(self, seconds: float) -> None:
        if len(self._queue) >= self._capacity:
            # Jobs whose client has gone still stand in the queue:
            # they are removed only when room is needed.
            self._queue = deque(job for job in self._queue if not job.answer.cancelled())

        if self._closed or len(self._queue) >= self._capacity:
            raise QueueFull(f"{self._capacity} requests wait already, which is as many as may")
        # Not where nothing waits: a single slow job must not close the door for good.
        waiting = self.waiting_jobs
        if waiting and (waiting + 1 + (self._begun is not None)) * self._seconds_per_job > seconds:
            raise QueueFull(
                f"{waiting} requests wait already, too many to answer one more within {seconds:g} s"
            )

    def close(self, seconds: float) -> None:
        """Take no more jobs; wait `seconds` for those begun and waiting, then cancel the rest."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(seconds)
        with self._changed:
            # The thread is a daemon: a job that takes too long is
            # abandoned, and does not keep the process alive.
            for job in self._queue:
                job.answer.cancel()
            self._queue.clear()

    def _run(self) -> None:
        returned = self._clock()
        while jobs := self._take_jobs():
            began = self._clock()
            try:
                self._do(jobs)
            finally:
                self._begun = None
                seconds = (self._clock() - began) / len(jobs)
                self._seconds_per_job += self._NEWEST_SHARE * (seconds - self._seconds_per_job)

            if self._clock() - returned > self._SECONDS_BETWEEN_RETURNS:
                return_free_memory()
                returned = self._clock()

    def _take_jobs(self) -> list[_Job[Question, Answer]]:
        # An empty list only after `close`: it ends the thread's loop.
        with self._changed:
            while True:
                batch: list[_Job[Question, Answer]] = []
                while self._queue:
                    questions = [job.question for job in batch]
                    if batch and not self._together(questions, self._queue[0].question):
                        break
                    job = self._queue.popleft()
                    # False for a job that was cancelled while it waited: nobody wants its answer.
                    if not job.answer.begin():
                        continue
                    # Looked at here too, and not left to the event loop, which
                    # cancels what is late when it gets to it.
                    if self._clock() > job.deadline:
                        job.answer.set_exception(JobsCancelled())
                        continue
                    batch.append(job)

                if batch or self._closed:
                    # Before anybody else looks: a job that comes now comes behind these.
                    self._begun = self._clock() if batch else None
                    return batch
                self._changed.wait()

    def _do(self, jobs: Sequence[_Job[Question, Answer]]) -> None:
        def check_wanted() -> None:
            self._wait_for_turn()
            now = self._clock()
            if not any(job.answer.is_wanted and now <= job.deadline for job in jobs):
                raise JobsCancelled

        self._wait_for_turn()
        try:
            # Work to which the function cannot be given, such as a trace, calls it too.
            with let_interrupt(check_wanted):
                answers = self._answer([job.question for job in jobs], check_wanted)
        except JobsCancelled:
            for job in jobs:
                job.answer.set_exception(JobsCancelled())
            return
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


class BackgroundStudy:
    """One study of the heads in a thread of its own, which stands still while the server has work, and shortly after.

    The thread has no lower priority than others: with one, it could keep
    Python's lock while it waits for a processor.
    """

    def __init__(self, study: Study, is_busy: Callable[[], bool], pairs: int):
        self._study = study
        self._is_busy = is_busy
        self._stopped = Event()
        self._last_work = -_QUIET_SECONDS
        self._answer: dict[str, Any] = {
            "study": None,
            "says": f"the roles of the heads are being measured on {pairs} sentence pairs, and appear here when ready",
            "pending": True,
        }
        self._thread = Thread(target=self._run, name="pellucid-head-study", daemon=True)

    def start(self) -> None:
        """Begin the study."""
        self._thread.start()

    def close(self, seconds: float) -> None:
        """Stop the study after its present step, and wait so long for that."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    @property
    def is_abandoned(self) -> bool:
        """Whether the study goes on though it was stopped."""
        return self._stopped.is_set() and self._thread.is_alive()

    @property
    def answer(self) -> dict[str, Any]:
        """The study or, until it is there, the reason why not: a `HeadStudyAnswer` of web/src/types.ts."""
        return self._answer

    def _run(self) -> None:
        try:
            self._wait_while_busy()
            self._answer = {"study": self._study(self._wait_while_busy), "says": None}
        except _Stopped:
            pass
        except ValueError as error:  # text that does not suit this model
            self._answer = {"study": None, "says": f"the heads could not be studied: {error}"}

    def _wait_while_busy(self) -> None:
        """Wait until nobody has waited for an answer for a while; raise `_Stopped` once the server stops."""
        while not self._stopped.is_set():
            if self._is_busy():
                self._last_work = time.monotonic()
            if time.monotonic() - self._last_work >= _QUIET_SECONDS:
                return
            self._stopped.wait(_PAUSE_SECONDS)
        raise _Stopped


class _Stopped(Exception):
    """Raised in the midst of a study when the server stops."""
