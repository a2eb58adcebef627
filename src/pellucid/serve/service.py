"""The service behind the routes: the model, the threads that run it, and the stored traces."""

import asyncio
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from starlette.requests import Request

from pellucid.api import Model
from pellucid.decode.assemble import Translation
from pellucid.decode.terms import Terms
from pellucid.serve.keys import ApiKeys
from pellucid.serve.languages import Languages
from pellucid.serve.limits import Limits
from pellucid.serve.metrics import Metrics
from pellucid.serve.problems import Refusal
from pellucid.serve.trace_store import StoredTrace, TraceStore
from pellucid.serve.worker import Answer, Question, QueueFull, TranslationJob, Worker, fit_together, translate_together
from pellucid.trace.page_api import perform_act
from pellucid.trace.trace import Trace

DRAIN_SECONDS = 5.0
"""Seconds that jobs under way may still take when the server stops."""


class Service:
    """One model shared by many clients: one thread translates, one traces, and each has its own queue."""

    def __init__(self, model: Model, limits: Limits, languages: Languages, terms: Terms | None, keys: ApiKeys):
        self.model = model
        self.terms = terms
        self.keys = keys
        self.limits = limits
        self.languages = languages
        self.metrics = Metrics()
        self.traces = TraceStore(limits)
        # Two threads: a trace may take seconds, and translations must not wait behind it.
        self.translation_worker = Worker[TranslationJob, list[Translation]](
            self.translate, limits.waiting, fit_together
        )
        self.trace_worker = Worker[Callable[[], Any], Any](call_functions, limits.waiting)
        # Read when the metrics are asked for, hence functions: nothing has to be counted up and down.
        for name, meaning, value in (
            (
                "pellucid_texts_waiting",
                "requests that wait to be translated",
                lambda: self.translation_worker.waiting_jobs,
            ),
            ("pellucid_traces_waiting", "requests that wait for a trace", lambda: self.trace_worker.waiting_jobs),
            ("pellucid_traces", "traces kept", lambda: len(self.traces)),
            ("pellucid_trace_bytes", "bytes of the traces kept", lambda: self.traces.bytes),
        ):
            self.metrics.add_gauge(name, meaning, value)

    @property
    def is_alive(self) -> bool:
        """Whether both worker threads are running."""
        return self.translation_worker.alive and self.trace_worker.alive

    def translate(self, jobs: list[TranslationJob], check_wanted: Callable[[], None]) -> list[list[Translation]]:
        """Translate several requests together; each gets the same translations as alone."""
        self.metrics.together.observe(len(jobs))
        self.metrics.texts.inc(sum(len(job.texts) for job in jobs))
        self.metrics.characters.inc(sum(job.characters for job in jobs))
        return translate_together(self.model.translator.translate, jobs, check_wanted)

    def terms_with(self, requested: Mapping[str, str] | None) -> Terms | None:
        """Combine a request's terms, which go first, with the server's; raise `Refusal` for invalid ones."""
        if not requested:
            return self.terms
        try:
            terms = Terms.from_pairs(requested)
        except ValueError as error:
            raise Refusal(422, f"terms: {error}") from None
        return terms if self.terms is None else self.terms.with_others(terms)

    async def answer(self, request: Request, worker: Worker[Question, Answer], question: Question) -> Answer:
        """Return the worker's answer to a question.

        Raises `Refusal` when too many requests wait, for the user's mistake, and when it takes too long.
        """
        try:
            future = worker.submit(question)
        except QueueFull:
            raise Refusal(503, f"{self.limits.waiting} requests wait already, which is as many as may") from None
        answer = asyncio.wrap_future(future)
        # Watched beside the answer: a closed browser tab should not keep the model busy.
        gone = asyncio.ensure_future(wait_for_disconnect(request))
        try:
            await asyncio.wait({answer, gone}, timeout=self.limits.seconds, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            if gone.done():
                # nginx's status for this case; no client is left to read it.
                raise Refusal(499, "the client went away")  # seen only in the metrics
            raise Refusal(504, f"not done within {self.limits.seconds:g} s; ask for less at a time")
        except ValueError as error:
            raise Refusal(422, str(error)) from None
        finally:
            # A job that nobody waits for any more is skipped when its turn comes, and stopped between two steps when it
            # has begun. Before the client has its answer: asyncio's future would pass it on in its loop's next turn.
            future.cancel()
            answer.cancel()
            gone.cancel()

    async def run_in_trace_worker(self, request: Request, function: Callable[[], Answer]) -> Answer:
        """Return the result of a function that looks inside the model; such functions run one at a time."""
        return await self.answer(request, self.trace_worker, function)

    def trace(self, sentence: str, **how: Any) -> StoredTrace:
        """Trace a sentence and store the trace; `how` holds the options of `Model.trace`."""
        return self.traces.store(self.model.trace(sentence, **how))

    def act(self, trace: Trace, verb: str, arguments: Mapping[str, Any]) -> bytes:
        """Perform an act on a trace and return its result as JSON; a new trace is stored, its manifest returned."""
        result = perform_act(trace, verb, arguments)
        if isinstance(result, dict):
            return json.dumps(result, ensure_ascii=False, allow_nan=False).encode()
        return self.traces.store(result).manifest

    def get_trace(self, identity: str) -> StoredTrace:
        """Return the trace with this id; raise `Refusal` where it is not stored, or not any more."""
        stored = self.traces.get(identity)
        if stored is None:
            raise Refusal(
                404,
                f"there is no trace {identity!r:.40}: traces are kept {self.limits.trace_minutes:g} minutes, the last "
                f"{self.limits.traces} at most; ask for it again",
            )
        return stored

    async def close(self) -> None:
        """Finish what is under way, and take no more."""
        await asyncio.gather(
            # In threads, since `Worker.close` blocks; both at once, so that the server stops within one grace period.
            *(
                asyncio.to_thread(partial(worker.close, DRAIN_SECONDS))
                for worker in (self.translation_worker, self.trace_worker)
            )
        )


def call_functions(functions: list[Callable[[], Any]], check_wanted: Callable[[], None]) -> list[Any]:
    """Return the result of each function."""
    results = []
    for function in functions:
        check_wanted()
        results.append(function())
    return results


async def wait_for_disconnect(request: Request) -> None:
    """Wait until the client has gone away."""
    # A GET route has not read its body: that message still comes first.
    while (await request.receive())["type"] != "http.disconnect":
        pass
