"""What the routes work with: the model, the threads that run it, and the traces that are kept."""

import asyncio
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

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
from pellucid.serve.worker import QueueFull, TranslationJob, Worker, fit_together, translate_together
from pellucid.trace.page_api import perform_act
from pellucid.trace.trace import Trace

Question = TypeVar("Question")
Answer = TypeVar("Answer")

DRAIN_SECONDS = 5.0
"""Seconds that what is under way may still take when the server stops."""


class Service:
    """A model that is asked by many at once. One thread translates, one looks inside; each has its queue."""

    def __init__(self, model: Model, limits: Limits, languages: Languages, terms: Terms | None, keys: ApiKeys):
        self.model = model
        self.terms = terms
        self.keys = keys
        self.limits = limits
        self.languages = languages
        self.metrics = Metrics()
        self.traces = TraceStore(limits)
        self.translation_worker = Worker[TranslationJob, list[Translation]](
            self.translate, limits.waiting, fit_together
        )
        self.trace_worker = Worker[Callable[[], Any], Any](call_each, limits.waiting)
        for name, means, value in (
            (
                "pellucid_texts_waiting",
                "requests that wait to be translated",
                lambda: self.translation_worker.waiting_jobs,
            ),
            ("pellucid_traces_waiting", "requests that wait for a trace", lambda: self.trace_worker.waiting_jobs),
            ("pellucid_traces", "traces kept", lambda: len(self.traces)),
            ("pellucid_trace_bytes", "bytes of the traces kept", lambda: self.traces.bytes),
        ):
            self.metrics.add_gauge(name, means, value)

    @property
    def is_alive(self) -> bool:
        """Whether both threads are there."""
        return self.translation_worker.alive and self.trace_worker.alive

    def translate(self, asked: list[TranslationJob]) -> list[list[Translation]]:
        """The translations of several requests, as of each alone."""
        self.metrics.together.observe(len(asked))
        self.metrics.texts.inc(sum(len(each.texts) for each in asked))
        self.metrics.characters.inc(sum(each.characters for each in asked))
        return translate_together(self.model.translator.translate, asked)

    def terms_with(self, asked: Mapping[str, str] | None) -> Terms | None:
        """The server's own terms and those of a request, which go first; `Refusal` for what are no terms."""
        if not asked:
            return self.terms
        try:
            terms = Terms.of(asked)
        except ValueError as error:
            raise Refusal(422, f"terms: {error}") from None
        return terms if self.terms is None else self.terms.with_others(terms)

    async def answer(self, request: Request, worker: Worker[Question, Answer], asked: Question) -> Answer:
        """The worker's answer; `Refusal` for too many that wait, for the user's mistake, and when it takes too long.

        What nobody waits for any more, because time is up or the client went away, is left out when its turn comes.
        """
        try:
            future = worker.submit(asked)
        except QueueFull:
            raise Refusal(503, f"{self.limits.waiting} requests wait already, which is as many as may") from None
        answer = asyncio.wrap_future(future)
        gone = asyncio.ensure_future(wait_for_disconnect(request))
        try:
            await asyncio.wait({answer, gone}, timeout=self.limits.seconds, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            if gone.done():
                raise Refusal(499, "the client went away")  # seen by nobody but the metrics
            raise Refusal(504, f"not done within {self.limits.seconds:g} s; ask for less at a time")
        except ValueError as error:
            raise Refusal(422, str(error)) from None
        finally:
            answer.cancel()
            gone.cancel()

    async def run_in_trace_worker(self, request: Request, what: Callable[[], Answer]) -> Answer:
        """What a function gives that looks inside the model, one at a time."""
        return await self.answer(request, self.trace_worker, what)

    def trace(self, sentence: str, **how: Any) -> StoredTrace:
        """The trace of a sentence, kept; `how` is what `Model.trace` takes."""
        return self.traces.store(self.model.trace(sentence, **how))

    def act(self, trace: Trace, verb: str, arguments: Mapping[str, Any]) -> bytes:
        """What is asked of a trace, as JSON; where that is a new trace, it is kept."""
        found = perform_act(trace, verb, arguments)
        if isinstance(found, dict):
            return json.dumps(found, ensure_ascii=False, allow_nan=False).encode()
        return self.traces.store(found).manifest

    def get_trace(self, identity: str) -> StoredTrace:
        """A trace by its id; `Refusal` where it is not here, or not any more."""
        kept = self.traces.get(identity)
        if kept is None:
            raise Refusal(
                404,
                f"there is no trace {identity!r:.40}: traces are kept {self.limits.trace_minutes:g} minutes, the last "
                f"{self.limits.traces} at most; ask for it again",
            )
        return kept

    async def close(self) -> None:
        """Answer what is under way, and take no more."""
        await asyncio.gather(
            *(
                asyncio.to_thread(partial(each.close, DRAIN_SECONDS))
                for each in (self.translation_worker, self.trace_worker)
            )
        )


def call_each(functions: list[Callable[[], Any]]) -> list[Any]:
    """What each of the functions gives."""
    return [function() for function in functions]


async def wait_for_disconnect(request: Request) -> None:
    """Waits until the client has gone away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
