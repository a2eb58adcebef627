import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from starlette.requests import Request

from pellucid.serve.app import create_app
from pellucid.serve.bodies import Refusal
from pellucid.serve.service import Service
from pellucid.serve.settings import Limits
from pellucid.serve.workers import JobAnswer
from tests.serve.servers import EN_ES, EndlessTranslator, HeldTranslator, client, request_body, small_model

JSON = {"Content-Type": "application/json"}


def refusal_sentence(answer, status: int) -> str:
    """Return the sentence of an answer that must have this status."""
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"]
    return answer.json()["error"]


def test_every_limit_is_on_by_default():
    assert all(value > 0 for value in vars(Limits()).values())


def test_limits_that_let_nothing_through_are_named():
    with pytest.raises(ValueError, match=r"(?s)characters.*equal to 1.*seconds.*greater than 0"):
        Limits(characters=0, seconds=-1)


def test_characters_up_to_the_limit_are_accepted():
    with client(characters=10) as server:
        assert server.post("/translate", json=request_body("a" * 10)).status_code == 200
        assert "11 characters" in refusal_sentence(server.post("/translate", json=request_body("a" * 11)), 413)
        assert "12 characters" in refusal_sentence(server.post("/translate", json=request_body(["abc"] * 4)), 413)
        refusal_sentence(server.post("/detect", json={"q": "a" * 11}), 413)
        refusal_sentence(server.post("/trace", json={"sentence": "abcdef", "target": "abcde"}), 413)


def test_texts_up_to_the_limit_are_accepted():
    with client(texts=3) as server:
        assert server.post("/translate", json=request_body(["a"] * 3)).status_code == 200
        assert "4 texts" in refusal_sentence(server.post("/translate", json=request_body(["a"] * 4)), 413)


def test_terms_up_to_the_limits_are_accepted():
    with client(request_terms=3, term_characters=5) as server:

        def translate(terms: dict[str, str]) -> list[Any]:
            return [
                server.post("/translate", json=request_body("a", terms=terms)),
                server.post("/translate", data=request_body("a", terms=json.dumps(terms))),
            ]

        for answer in translate({"1": "x", "2": "x" * 5, "3" * 5: "x"}):
            assert answer.status_code == 200
        for answer in translate({str(number): "x" for number in range(4)}):
            assert "4 terms, this server takes 3 at a time" in refusal_sentence(answer, 413)
        for terms in ({"1": "x" * 6}, {"x" * 6: "1"}):
            for answer in translate(terms):
                assert "a term of 6 characters, this server takes terms of 5" in refusal_sentence(answer, 413)


@pytest.mark.parametrize("path", ["/translate", "/detect"])
def test_a_list_is_counted_before_its_items_are_validated(path: str):
    with client() as server:
        answer = server.post(path, json={"q": [1] * 500_000})
        assert "500,000 texts, this server takes 64" in refusal_sentence(answer, 413)


def test_one_invalid_id_of_a_trace_is_reported_however_many_there_are():
    with client() as server:
        for name in ("target_ids", "prefix_ids"):
            answer = server.post("/trace", json={"sentence": "Yes.", name: ["x"] * 10_000})
            assert refusal_sentence(answer, 422).count("valid integer") == 1


def test_a_body_with_too_many_fields_is_refused():
    with client() as server:
        for path in ("/translate", "/trace", "/detect"):
            answer = server.post(path, json={f"name{number}": 1 for number in range(1001)})
            assert "1,001 fields, this server reads 1,000" in refusal_sentence(answer, 422)


def test_alternatives_up_to_the_limit_are_accepted():
    with client(alternatives=1) as server:
        assert server.post("/translate", json=request_body("a", alternatives=1)).status_code == 200
        for count in (2, 10**4, 10**30):
            assert "1 at most" in refusal_sentence(
                server.post("/translate", json=request_body("a", alternatives=count)), 422
            )


def test_a_body_too_large_is_refused_with_or_without_a_declared_length():
    with client(body=1000) as server:
        assert "1,000 bytes" in refusal_sentence(server.post("/translate", content=b" " * 1001, headers=JSON), 413)
        parts = iter([b" " * 600] * 2)
        assert "1,000 bytes" in refusal_sentence(server.post("/translate", content=parts, headers=JSON), 413)
        fitting = b'{"q": "a", "source": "en", "target": "es"}'.ljust(1000)
        assert server.post("/translate", content=fitting, headers=JSON).status_code == 200


def test_a_beam_of_a_trace_has_a_limit():
    with client(beam=2) as server:
        assert "2 at most" in refusal_sentence(server.post("/trace", json={"sentence": "Yes.", "beam": 3}), 422)


def test_a_request_that_takes_too_long_is_given_up_and_others_are_answered():
    translator = HeldTranslator()
    with client(translator.model, seconds=2) as server, ThreadPoolExecutor(3) as pool:
        first = pool.submit(server.post, "/translate", json=request_body("One."))
        assert translator.begun.wait(60)
        second = pool.submit(server.post, "/translate", json=request_body("Two."))
        assert "within 2 s" in refusal_sentence(first.result(60), 504)
        # It asked for no more than it would get at another time.
        assert "since too many requests came before" in refusal_sentence(second.result(60), 503)
        translator.go.set()
        # A blank text needs no search, which may take longer than the limit beside other busy processes.
        assert server.post("/translate", json=request_body(" ")).status_code == 200
    # Nobody waited for the second.
    assert {text for texts in translator.translated for text in texts} == {"One.", " "}


def test_a_request_that_was_given_up_does_not_keep_the_model_busy():
    translator = EndlessTranslator()
    with client(translator.model, seconds=2) as server:
        refusal_sentence(server.post("/translate", json=request_body("Endless.")), 504)
        assert server.post("/translate", json=request_body(" ")).status_code == 200
        assert translator.stopped.is_set()


def test_a_request_is_cancelled_before_its_client_is_told_so():
    job_answer: JobAnswer[str] = JobAnswer()

    class IdleWorker:
        def submit(self, question: str, seconds: float, limit: float) -> JobAnswer[str]:
            return job_answer

    async def receive_nothing() -> dict[str, Any]:
        await asyncio.sleep(60)
        return {}

    async def give_up(service: Service) -> None:
        request = Request({"type": "http"}, receive_nothing)
        with pytest.raises(Refusal, match="not done within"):
            await service.answer(request, IdleWorker(), "Yes.")  # pyright: ignore[reportArgumentType]
        assert job_answer.cancelled()

    service = create_app(small_model(), Limits(seconds=0.01), languages=EN_ES).state.service
    asyncio.run(give_up(service))
    asyncio.run(service.close())


def test_a_full_queue_refuses_and_says_when_to_retry():
    translator = HeldTranslator()
    with client(translator.model, waiting=1) as server, ThreadPoolExecutor(2) as pool:
        first = pool.submit(server.post, "/translate", json=request_body("One."))
        assert translator.begun.wait(60)
        second = pool.submit(server.post, "/translate", json=request_body("Two."))
        wait_until(lambda: "pellucid_texts_waiting 1.0" in server.get("/metrics").text)
        response = server.post("/translate", json=request_body("Three."))
        assert "1 requests wait" in refusal_sentence(response, 503)
        assert int(response.headers["Retry-After"]) > 0
        translator.go.set()
        assert (first.result(60).status_code, second.result(60).status_code) == (200, 200)


@pytest.mark.parametrize(("limits", "status"), [({"each": 2}, 429), ({"open_requests": 2}, 503)])
def test_too_many_open_requests_are_refused_but_health_is_answered(limits, status: int):
    translator = HeldTranslator()
    with client(translator.model, **limits) as server, ThreadPoolExecutor(2) as pool:
        requests = [pool.submit(server.post, "/translate", json=request_body("One."))]
        assert translator.begun.wait(60)
        requests.append(pool.submit(server.post, "/translate", json=request_body("One.")))
        wait_until(lambda: "pellucid_texts_waiting 1.0" in server.get("/metrics").text)
        assert "open" in refusal_sentence(server.post("/translate", json=request_body("Two.")), status)
        forged = {"X-Forwarded-For": "10.0.0.9", "Forwarded": "for=10.0.0.9", "X-Real-IP": "10.0.0.9"}
        refusal_sentence(server.get("/languages", headers=forged), status)
        assert server.get("/health").status_code == 200
        translator.go.set()
        assert [request.result(60).status_code for request in requests] == [200, 200]
        assert server.get("/languages").status_code == 200


def wait_until(condition) -> None:
    """Wait until the condition holds."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
