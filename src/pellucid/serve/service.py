"""The service behind the routes: the model, the threads that run it, and the stored traces."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from threading import Event, Lock
from typing import Any, Generic, TypeVar

from prometheus_client import Gauge
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from pellucid.api import Model, study_heads
from pellucid.decode.request import SearchConfig
from pellucid.decode.translation import Translation
from pellucid.interpret.trace.session import Trace, perform_act
from pellucid.localize.terminology import Terms
from pellucid.localize.translation_memory import TranslationMemory
from pellucid.serve.bodies import Refusal
from pellucid.serve.corrections import Corrections
from pellucid.serve.directions import Direction, Directions
from pellucid.serve.doubt_counts import MOST_PAIRS, DoubtCounts, count_doubts
from pellucid.serve.gate import ApiKeys, Metrics
from pellucid.serve.settings import Limits
from pellucid.serve.training_text import Mistake, TrainingText, find_mistake
from pellucid.serve.turns import LoopTurns
from pellucid.serve.workers import PAIRS_STUDIED, BackgroundStudy, JobsCancelled, QueueFull, Worker
from pellucid.store.directory import Bundle

# Share of `Limits.seconds` that a request may be expected to wait when it
# comes: speeds are measured on what was done lately, and other programs may
# take a part of the processor before its turn comes.
_WAITING_SHARE = 0.5
# Share of `Limits.seconds` after which a request is given up, so
# that its client is told within the limit.
_GIVING_UP_SHARE = 0.95
# Seconds that a worker's thread has to notice that nobody waits any more.
_LEAST_CLOSING_SECONDS = 0.5
# Bounds on the texts and characters of one call; a larger request is translated alone.
TEXTS_TOGETHER, _CHARACTERS_TOGETHER = 64, 10_000
# Stored traces belong to no more models than these, for each holds its whole model.
MODELS_OF_TRACES = 3

Question = TypeVar("Question")
Answer = TypeVar("Answer")
Item = TypeVar("Item")
Finished = TypeVar("Finished")


class Service:
    """Models shared by many clients: one thread translates, one traces, and each has its own queue."""

    def __init__(
        self,
        directions: Directions,
        limits: Limits,
        terms: Terms | None,
        keys: ApiKeys,
        training_text: TrainingText | None,
        translation_memory: TranslationMemory | None = None,
        corrections: Corrections | None = None,
    ):
        self.directions = directions
        self.training_text, self.shows_training_text = (
            training_text or TrainingText(),
            training_text is not None,
        )
        self.terms = terms
        self.translation_memory = translation_memory
        self.corrections = corrections
        if terms is not None:
            # Before the first request: it would wait for them, and wrong
            # ones would make every request fail.
            terms.prepare(self.model.translator.tokenizer)

        self.keys = keys
        self.limits = limits
        self.metrics = Metrics()
        self.traces = TraceStore(limits)

        # Two threads: a trace may take seconds, and translations must not wait behind it.
        self.turns = LoopTurns()
        self.translation_worker = Worker[TranslationJob, list[Translation]](
            self.translate, limits.waiting, fit_together, wait_for_turn=self.turns.wait
        )
        self.trace_worker = Worker[Callable[[], Any], Any](
            lambda functions, check_wanted: [function() for function in functions],
            limits.waiting,
            wait_for_turn=self.turns.wait,
        )
        self.mistake: Mistake | None = None
        self.doubt_counts: DoubtCounts | None = None  # None until they are counted
        self.is_studying_mistakes = False

        # Threads outside the workers that take documents apart; one that
        # takes too long is left behind in the end.
        self._document_threads: set[Event] = set()

        # Time at which a server that is stopping must have ended.
        self.stops_at: float | None = None
        self._has_given_up = False
        self._given_up: asyncio.Future[None] | None = None
        self.head_study = self._prepare_head_study()
        self._add_gauges()

    def _add_gauges(self) -> None:
        """Add the numbers that are read when the metrics are asked for: nothing has to be counted up and down."""
        translation, trace, directions = self.translation_worker, self.trace_worker, self.directions
        self.add_gauge(
            "texts_waiting",
            "requests that wait to be translated",
            lambda: translation.waiting_jobs,
        )
        self.add_gauge(
            "traces_waiting",
            "requests that wait for a trace",
            lambda: trace.waiting_jobs,
        )
        self.add_gauge("models_loaded", "models in memory", lambda: directions.loaded)
        self.add_gauge(
            "failed_reloads",
            "models that could not be loaded, or are of other languages than they are served for",
            lambda: directions.failed_reloads,
        )
        self.add_gauge("traces", "traces kept", lambda: len(self.traces))
        self.add_gauge("trace_bytes", "bytes of the traces kept", lambda: self.traces.bytes)

    def add_gauge(self, name: str, meaning: str, value: Callable[[], float]) -> None:
        """Add a number to the metrics, which a function returns."""
        Gauge(f"pellucid_{name}", meaning, registry=self.metrics.registry).set_function(value)

    def _prepare_head_study(self) -> BackgroundStudy | None:
        """Prepare the study of the model on the dev text of its run; None without that text."""
        pairs = self.training_text.read_dev_pairs(PAIRS_STUDIED)
        if not pairs:
            return None
        sources, targets = zip(*pairs, strict=True)

        def translate(source: str) -> str:
            return self.model.translate(source).text

        def study(on_progress: Callable[[], None]) -> dict[str, Any]:
            # First what takes seconds: a sentence that the model gets
            # wrong is one of the page's examples.
            try:
                self.mistake = find_mistake(translate, pairs, on_progress)
                more_pairs = self.training_text.read_dev_pairs(MOST_PAIRS)
                self.doubt_counts = count_doubts(self.model, more_pairs, on_progress)
            finally:
                self.is_studying_mistakes = False

            if self._has_badges():
                return {}
            return study_heads(self.model, sources, targets, on_progress)

        def is_busy() -> bool:
            return self.translation_worker.is_busy or self.trace_worker.is_busy

        self.is_studying_mistakes = True
        return BackgroundStudy(study, is_busy, len(pairs))

    def _has_badges(self) -> bool:
        """Whether a study of the heads stands beside the model."""
        directory = self.model.bundle.directory
        return directory.with_name(f"{directory.name}.heads.json").exists()

    @property
    def model(self) -> Model:
        """The model that the page looks into, the first, as it is in memory."""
        return self.directions.first_model

    @property
    def is_alive(self) -> bool:
        """Whether both worker threads are running."""
        return self.translation_worker.alive and self.trace_worker.alive

    @property
    def is_abandoned(self) -> bool:
        """Whether a thread is still inside a computation that took too long when the server stopped."""
        threads = [
            self.translation_worker,
            self.trace_worker,
            *([self.head_study] if self.head_study else []),
        ]
        return bool(self._document_threads) or any(thread.is_abandoned for thread in threads)

    @property
    def is_stuck(self) -> bool:
        """Whether a worker has been at the same jobs for longer than any request may take."""
        workers = (self.translation_worker, self.trace_worker)
        return max(worker.seconds_at_work for worker in workers) > self.limits.stuck

    def refuse_if_full(self) -> None:
        """Raise `Refusal` where no more texts are taken at the moment, before a request with one is read."""
        try:
            self.translation_worker.refuse_if_full(_WAITING_SHARE * self.limits.seconds)
        except QueueFull as error:
            raise Refusal(503, str(error)) from None

    async def answer(
        self,
        request: Request,
        worker: "Worker[Question, Answer]",
        question: Question,
        patience: "Patience | None" = None,
    ) -> Answer:
        """Return the worker's answer to a question, which comes in the time that is left for the request.

        A question that is one piece of a request shares its `patience` with the others, and has a
        time of its own once it has begun. Raises `Refusal` when too many requests wait, for the
        user's mistake, when it takes too long, and when the server stops before.
        """
        if patience is None:
            longest_wait = limit = self.seconds_left(request)
        else:
            longest_wait, limit = patience.seconds, self.seconds_for_one

        try:
            future = worker.submit(
                question, min(longest_wait, _WAITING_SHARE * self.limits.seconds), limit
            )
        except QueueFull as error:
            raise Refusal(503, str(error)) from None

        answer = asyncio.wrap_future(future)
        # Watched beside the answer: a closed browser tab should not keep the model busy.
        gone = asyncio.ensure_future(_wait_for_disconnect(request))
        ends = {answer, gone, self._wait_for_end()}

        try:
            done, _ = await asyncio.wait(
                ends, timeout=longest_wait, return_when=asyncio.FIRST_COMPLETED
            )
            if not done and future.running():
                await asyncio.wait(
                    ends, timeout=limit - longest_wait, return_when=asyncio.FIRST_COMPLETED
                )

            if answer.done() and not answer.cancelled():
                return answer.result()
            if self._has_given_up or answer.cancelled():
                raise Refusal(503, _STOPPING)
            raise _make_late_refusal(
                self.limits.seconds, future.came_behind, client_left=gone.done()
            )
        except JobsCancelled:  # the worker saw that it is too late before the event loop did
            raise _make_late_refusal(
                self.limits.seconds, future.came_behind, client_left=gone.done()
            ) from None
        except ValueError as error:
            raise Refusal(422, str(error)) from None
        finally:
            if patience is not None:
                patience.waited += future.seconds_waited
            # A job that nobody waits for any more is skipped when its turn comes, and stopped
            # between two steps when it has begun. Before the client has its answer: asyncio's
            # future would pass it on in its loop's next turn.
            future.cancel()
            answer.cancel()
            gone.cancel()

    @property
    def seconds_for_one(self) -> float:
        """Seconds after which a request, or a piece of a document, is given up."""
        return _GIVING_UP_SHARE * self.limits.seconds

    def seconds_left(self, request: Request) -> float:
        """Return the seconds until a request is given up; the time that its body took to arrive is gone."""
        arrived = getattr(request.state, "arrived", None)
        gone = 0.0 if arrived is None else time.monotonic() - arrived
        return max(0.0, self.seconds_for_one - gone)

    def translate(
        self, jobs: Sequence["TranslationJob"], check_wanted: Callable[[], None]
    ) -> list[list[Translation]]:
        """Translate several requests in one call; each gets the same translations as alone."""
        texts = [text for job in jobs for text in job.texts]
        contexts = [context for job in jobs for context in job.contexts or [""] * len(job.texts)]
        self.metrics.together.observe(len(jobs))
        self.metrics.texts.inc(len(texts))
        self.metrics.characters.inc(sum(map(len, texts)))

        # `fit_together` has let only jobs with one model, one
        # search and the same terms come together.
        model = jobs[0].model or self.directions.model(jobs[0].direction)
        translations = iter(
            model.translator.translate(
                texts,
                jobs[0].search,
                terms=jobs[0].terms,
                contexts=contexts if model.translator.context else None,
                translation_memory=self.translation_memory,
                check_wanted=check_wanted,
            )
        )
        return [list(islice(translations, len(job.texts))) for job in jobs]

    def terms_with(self, requested: Mapping[str, str] | None) -> Terms | None:
        """Combine a request's terms, which go first, with the server's; raise `Refusal` for invalid ones."""
        if not requested:
            return self.terms
        try:
            terms = Terms.from_pairs(requested)
        except ValueError as error:
            raise Refusal(422, f"terms: {error}") from None
        return terms if self.terms is None else self.terms.with_others(terms)

    def act(self, trace: Trace, verb: str, arguments: Mapping[str, Any]) -> bytes:
        """Perform an act on a trace and return its result as JSON; a new trace is stored, its manifest returned."""
        if verb == "heads" and self.head_study is not None and not self._has_badges():
            return json.dumps(self.head_study.answer, ensure_ascii=False, allow_nan=False).encode()
        if verb == "influence" and not self.shows_training_text:
            raise Refusal(
                403,
                "other machines can reach this server, so it shows no training text; ask with `pellucid explain MODEL "
                "SENTENCE --because WORD`, or start it for this machine alone (--host 127.0.0.1)",
            )

        result = perform_act(trace, verb, arguments)
        if isinstance(result, dict):
            return json.dumps(result, ensure_ascii=False, allow_nan=False).encode()
        return self.traces.store(result).manifest

    def get_trace(self, identity: str) -> "_StoredTrace":
        """Return the trace with this id; raise `Refusal` where it is not stored, or not any more."""
        stored = self.traces.get(identity)
        if stored is None:
            raise Refusal(
                404,
                f"there is no trace {identity!r:.40}: traces are kept {self.limits.trace_minutes:g} minutes, the last "
                f"{self.limits.traces} at most, and of at most {MODELS_OF_TRACES} models where the model is replaced; "
                "ask for it again",
            )

        return stored

    async def run_while_wanted(
        self, request: Request, work: Callable[[Callable[[], None]], Finished]
    ) -> Finished:
        """Run work in a thread as long as its client waits, and within the limit of time.

        `work` is given a function to call now and then, which raises `JobsCancelled`. Raises
        `Refusal` where it did, and when the server stops before.
        """
        stop = Event()
        deadline = time.monotonic() + self.seconds_left(request)

        def check_wanted() -> None:
            self.turns.wait()
            if stop.is_set() or time.monotonic() > deadline:
                raise JobsCancelled

        def run_counted() -> Finished:
            try:
                return work(check_wanted)
            finally:
                self._document_threads.discard(stop)

        self._document_threads.add(stop)
        task = asyncio.ensure_future(run_in_threadpool(run_counted))
        gone = asyncio.ensure_future(_wait_for_disconnect(request))
        try:
            await asyncio.wait(
                {task, gone, self._wait_for_end()}, return_when=asyncio.FIRST_COMPLETED
            )
            if not task.done():
                stop.set()
                if self._has_given_up:
                    # The thread's result is not looked at, nor is its failure.
                    task.add_done_callback(lambda done: done.cancelled() or done.exception())
                    raise Refusal(503, _STOPPING)
            # Only once the thread has ended: a client that leaves must not make
            # room for more threads than there may be.
            return await task
        except JobsCancelled:
            raise _make_late_refusal(
                self.limits.seconds, came_behind=False, client_left=stop.is_set()
            ) from None
        finally:
            stop.set()
            gone.cancel()

    def begin_stop(self) -> None:
        """Note when the server must have ended, since it was told to stop now; what is under way goes on."""
        self.stops_at = time.monotonic() + self.limits.stopping

    def give_up(self) -> None:
        """Tell the clients of all that is still under way that the server stops, on the event loop."""
        if not self._has_given_up:
            self._has_given_up = True
            self._wait_for_end().set_result(None)

    @property
    def is_ending(self) -> bool:
        """Whether the server has given up what is under way."""
        return self._has_given_up

    def _wait_for_end(self) -> "asyncio.Future[None]":
        """Return the future, the same for all requests, that is done when the server gives up what is under way."""
        # Not made in the beginning, when no event loop runs yet.
        loop = asyncio.get_running_loop()
        if self._given_up is None or self._given_up.get_loop() is not loop:
            self._given_up = loop.create_future()
        return self._given_up

    async def close(self) -> None:
        """Finish what is under way, as far as the time for stopping allows, and take no more."""
        left = self.limits.stopping if self.stops_at is None else self.stops_at - time.monotonic()
        seconds = max(_LEAST_CLOSING_SECONDS, left)
        # In threads, since `Worker.close` blocks; both at once, so that
        # the server stops within one grace period.
        workers = (self.translation_worker, self.trace_worker)
        closing = [worker.close for worker in workers] + (
            [self.head_study.close] if self.head_study else []
        )
        await asyncio.gather(*(asyncio.to_thread(close, seconds) for close in closing))


_STOPPING = "the server is stopping, and could not answer this before; come again"


def _make_late_refusal(seconds: float, came_behind: bool, client_left: bool) -> Refusal:
    """Return the refusal of a request that is late, with what it can do about it."""
    if client_left:
        # nginx's status for this case; no client is left to read it,
        # and it is seen only in the metrics.
        return Refusal(499, "the client went away")

    # Others have kept it waiting: the same request may well be answered another time.
    if came_behind:
        return Refusal(
            503, f"not done within {seconds:g} s, since too many requests came before; come again"
        )
    return Refusal(504, f"not done within {seconds:g} s; ask for less at a time")


async def _wait_for_disconnect(request: Request) -> None:
    # A GET route has not read its body: that message still comes first.
    while (await request.receive())["type"] != "http.disconnect":
        pass


class Patience:
    """How long the pieces of one request, such as a document, may wait for their turns.

    Waiting and the request's own work may take `limit` seconds together, so that a client is told
    by then. Where the work alone takes most of that, the pieces may wait as long as they work, and
    no longer than the limit in all.
    """

    def __init__(self, limit: float, clock: Callable[[], float] = time.monotonic):
        self._limit, self._clock, self._began = limit, clock, clock()
        self.waited = 0.0
        """Seconds for which pieces have waited so far."""

    @property
    def seconds(self) -> float:
        """Seconds for which the next piece may wait; to be asked while none waits."""
        worked = self._clock() - self._began - self.waited
        return min(self._limit, max(self._limit - worked, worked)) - self.waited


@dataclass(frozen=True)
class TranslationJob:
    """Texts of one request, and the model, search and terms with which to translate them."""

    texts: tuple[str, ...]
    direction: Direction
    search: SearchConfig
    terms: Terms | None = None
    # The text before each, for a model that was trained with context.
    contexts: tuple[str, ...] = ()
    # The model of the direction, where it must not be one that replaced it in the meantime.
    model: Model | None = None


def fit_together(batch: Sequence[TranslationJob], candidate: TranslationJob) -> bool:
    """Whether one more request may join a batch."""
    texts = [text for job in (*batch, candidate) for text in job.texts]
    return (
        # All texts of one call share model, search and terms; the first job stands for its batch.
        (candidate.direction, candidate.search, candidate.terms)
        == (batch[0].direction, batch[0].search, batch[0].terms)
        and candidate.model is batch[0].model
        and len(texts) <= TEXTS_TOGETHER
        and sum(map(len, texts)) <= _CHARACTERS_TOGETHER
    )


class BoundedStore(Generic[Item]):
    """Items by their names, in memory: the oldest goes first where there are too many, and each after some time.

    With `renew`, an item that is looked at counts as new.
    """

    def __init__(
        self,
        most: int,
        most_bytes: int,
        minutes: float,
        renew: bool,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.most, self.most_bytes, self.minutes, self.renew, self._clock = (
            most,
            most_bytes,
            minutes,
            renew,
            clock,
        )
        self._entries: dict[str, tuple[Item, int, float]] = {}  # the oldest comes first
        self._bytes = 0
        self._lock = Lock()

    def __len__(self) -> int:
        with self._lock:
            self._forget()
            return len(self._entries)

    @property
    def bytes(self) -> int:
        """Bytes of all items."""
        return self._bytes

    def put(self, name: str, item: Item, size: int) -> None:
        """Store an item of `size` bytes as the newest, and let old ones go."""
        with self._lock:
            self._put_last(name, item, size)
            self._forget()

    def get(self, name: str) -> Item | None:
        """Return an item, if it is still stored."""
        with self._lock:
            self._forget()
            if name not in self._entries:
                return None
            item, size, _ = self._entries[name]
            if self.renew:
                self._put_last(name, item, size)
            return item

    def _put_last(self, name: str, item: Item, size: int) -> None:
        self._remove(name)
        self._entries[name] = item, size, self._clock()
        self._bytes += size

    def _remove(self, name: str) -> None:
        self._bytes -= self._entries.pop(name, (None, 0, 0.0))[1]

    def _forget(self) -> None:
        while self._entries:
            name, (_, _, stored) = next(iter(self._entries.items()))
            is_old = stored < self._clock() - 60 * self.minutes
            if not (is_old or len(self._entries) > self.most or self._bytes > self.most_bytes):
                return
            self._remove(name)


@dataclass(frozen=True)
class _StoredTrace:
    """A trace, and its manifest as JSON."""

    trace: Trace
    manifest: bytes


class TraceStore(BoundedStore[_StoredTrace]):
    """Traces by their ids; the one not looked at for longest goes first.

    A trace holds its whole model. Where the model on disk is replaced again and again, only
    traces of the three models whose traces were looked at last are stored: what a server takes
    does not grow with the number of replacements.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic):
        super().__init__(
            limits.traces, limits.trace_bytes, limits.trace_minutes, renew=True, clock=clock
        )

    def store(self, trace: Trace) -> _StoredTrace:
        """Store one more trace and let old ones go; raise ValueError for one larger than the whole store may be."""
        # The checks take longer than the trace: the page asks for
        # them when it has drawn the numbers.
        manifest = trace.manifest(checked=False)
        # Written once here; the page fetches it as it is.
        encoded = json.dumps(manifest, ensure_ascii=False, allow_nan=False).encode()
        size = manifest["run"]["bytes"] + len(encoded)
        if size > self.most_bytes:
            raise ValueError(
                f"this trace takes {size:,} bytes, this server keeps {self.most_bytes:,}; "
                "take a shorter sentence, or serve with --set trace_bytes=..."
            )

        stored = _StoredTrace(trace, encoded)
        self.put(manifest["id"], stored, size)
        self._forget_old_models()
        return stored

    def _forget_old_models(self) -> None:
        """Let the traces of all models go but of those few whose traces were looked at last."""
        with self._lock:
            models: list[Bundle] = []
            for name, (stored, _, _) in reversed(list(self._entries.items())):
                model = stored.trace.origin.bundle
                if any(model is kept for kept in models):
                    continue
                if len(models) < MODELS_OF_TRACES:
                    models.append(model)
                else:
                    self._remove(name)
