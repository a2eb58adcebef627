"""A request is answered or told to come again within the limit, and the pieces of a document wait no longer in all."""

import asyncio
import time
from collections.abc import Callable
from threading import Event, Timer
from typing import Any, cast

import pytest
from starlette.datastructures import State
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from pellucid.serve.app import create_app
from pellucid.serve.bodies import Refusal
from pellucid.serve.gate import LimitRequests
from pellucid.serve.service import Patience, Service
from pellucid.serve.settings import Limits
from pellucid.serve.workers import JobAnswer, Worker
from tests.serve.servers import small_model


class WaitingRequest:
    """A request that arrived some seconds ago, and whose client waits."""

    def __init__(self, seconds_ago: float | None):
        self.state = State() if seconds_ago is None else State({"arrived": time.monotonic() - seconds_ago})

    async def receive(self) -> dict[str, str]:
        await asyncio.Event().wait()
        raise AssertionError


class HeldWorker:
    """A worker that is at a first job until `go` is set, and then does each job that it is given."""

    def __init__(self) -> None:
        self.go, self.begun = Event(), Event()
        self.worker = Worker[Callable[[], Any], Any](
            lambda functions, check_wanted: [function() for function in functions], 9
        )
        self.first = self.worker.submit(self.hold)
        assert self.begun.wait(60)

    def hold(self) -> None:
        self.begun.set()
        assert self.go.wait(60)


def make_service(seconds: float) -> Service:
    return create_app(small_model(), Limits(seconds=seconds)).state.service


def ask(service: Service, worker: Worker[Any, Any], seconds_ago: float | None, patience: Patience | None = None) -> Any:
    """Ask for "done"."""
    request = cast("Request", WaitingRequest(seconds_ago))
    return asyncio.run(service.answer(request, worker, lambda: "done", patience))


def test_the_time_in_which_a_body_arrived_is_gone():
    service = make_service(100.0)
    assert service.seconds_left(cast("Request", WaitingRequest(None))) == 95.0
    assert 54.0 < service.seconds_left(cast("Request", WaitingRequest(40.0))) <= 55.0
    assert service.seconds_left(cast("Request", WaitingRequest(200.0))) == 0.0


def test_the_gate_notes_when_a_request_arrived():
    noted = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        noted.append(Request(scope).state.arrived)
        await PlainTextResponse("")(scope, receive, send)

    async def send(message: Any) -> None:
        pass

    scope = {"type": "http", "path": "/translate", "method": "POST", "headers": [], "client": ("127.0.0.1", 1)}
    before = time.monotonic()
    asyncio.run(LimitRequests(application, Limits())(scope, cast("Any", None), send))
    assert before <= noted[0] <= time.monotonic()


def test_what_waits_behind_others_until_its_time_is_up_is_told_to_come_again():
    held = HeldWorker()
    with pytest.raises(Refusal) as refusal:
        ask(make_service(100.0), held.worker, seconds_ago=94.9)
    assert refusal.value.status == 503
    held.go.set()


def test_the_pieces_of_a_document_share_their_patience():
    # A clock that stands still: on a busy machine the request's own work would lengthen its patience.
    held, patience, service = HeldWorker(), Patience(0.2, lambda: 0.0), make_service(1000.0)
    # However long ago it came: what was spent on its other pieces is no waiting.
    with pytest.raises(Refusal) as refusal:
        ask(service, held.worker, 900.0, patience)
    assert (refusal.value.status, patience.seconds <= 0.0) == (503, True)
    held.go.set()
    assert held.first.result(60) is None
    more = Patience(60.0)
    assert ask(service, held.worker, 900.0, more) == "done"
    assert 0.0 < more.waited < 60.0


def test_waiting_and_work_end_within_the_limit_and_longer_work_may_wait_as_long():
    now = [100.0]
    patience = Patience(30.0, clock=lambda: now[0])
    assert patience.seconds == 30.0
    now[0], patience.waited = 109.0, 7.0  # 2 seconds of work
    assert now[0] + patience.seconds == 100.0 + 30.0
    now[0] = 122.0  # 15 seconds of work: what is left of the limit
    assert patience.seconds == 8.0
    now[0] = 127.0  # 20 seconds of work, which may wait for 20, and has for 7
    assert patience.seconds == 13.0
    now[0] = 207.0  # 100 seconds of work: 30 is the most
    assert patience.seconds == 23.0


class BegunWorker:
    """A worker that has begun each job at once, and is done with it after a while."""

    def submit(self, question: Callable[[], Any], seconds: float, limit: float) -> JobAnswer[Any]:
        answer: JobAnswer[Any] = JobAnswer()
        answer.begin()
        Timer(0.3, lambda: answer.set_result(question())).start()
        return answer


def test_a_piece_that_has_begun_ends_though_its_document_may_not_wait_any_more():
    patience = Patience(0.01)
    assert ask(make_service(1000.0), cast("Worker[Any, Any]", BegunWorker()), 900.0, patience) == "done"


def test_a_request_that_has_begun_ends_when_its_time_is_up():
    with pytest.raises(Refusal) as refusal:
        ask(make_service(100.0), cast("Worker[Any, Any]", BegunWorker()), 94.95)
    assert refusal.value.status == 504
