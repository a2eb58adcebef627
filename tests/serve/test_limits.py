import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from pellucid.serve.limits import Limits
from tests.serve.servers import Held, asked, client

JSON = {"Content-Type": "application/json"}


def refused(found, status: int) -> str:
    """The sentence of an answer that must have this status."""
    assert found.status_code == status, found.text
    assert list(found.json()) == ["error"]
    return found.json()["error"]


def test_every_limit_is_on_by_default():
    assert all(value > 0 for value in vars(Limits()).values())


def test_limits_that_let_nothing_through_are_named():
    with pytest.raises(ValueError, match="characters is 0, it must be 1 or more; seconds is -1, it must be above 0"):
        Limits(characters=0, seconds=-1)


def test_as_many_characters_as_may_be_and_not_one_more():
    with client(characters=10) as server:
        assert server.post("/translate", json=asked("a" * 10)).status_code == 200
        assert "11 characters" in refused(server.post("/translate", json=asked("a" * 11)), 413)
        assert "12 characters" in refused(server.post("/translate", json=asked(["abc"] * 4)), 413)
        refused(server.post("/detect", json={"q": "a" * 11}), 413)
        refused(server.post("/trace", json={"sentence": "abcdef", "target": "abcde"}), 413)


def test_as_many_texts_as_may_be_and_not_one_more():
    with client(texts=3) as server:
        assert server.post("/translate", json=asked(["a"] * 3)).status_code == 200
        assert "4 texts" in refused(server.post("/translate", json=asked(["a"] * 4)), 413)


def test_as_many_alternatives_as_may_be_and_not_one_more():
    with client(alternatives=1) as server:
        assert server.post("/translate", json=asked("a", alternatives=1)).status_code == 200
        for many in (2, 10**4, 10**30):
            assert "1 at most" in refused(server.post("/translate", json=asked("a", alternatives=many)), 422)


def test_a_body_that_is_too_large_is_refused_whoever_says_how_large_it_is():
    with client(body=1000) as server:
        assert "1,000 bytes" in refused(server.post("/translate", content=b" " * 1001, headers=JSON), 413)
        assert "1,000 bytes" in refused(server.post("/nothing", content=iter([b" " * 600] * 2)), 413)
        fitting = b'{"q": "a", "source": "en", "target": "es"}'.ljust(1000)
        assert server.post("/translate", content=fitting, headers=JSON).status_code == 200


def test_a_beam_of_a_trace_has_a_limit():
    with client(beam=2) as server:
        assert "2 at most" in refused(server.post("/trace", json={"sentence": "Yes.", "beam": 3}), 422)


def test_what_is_not_done_in_time_is_given_up_and_others_are_answered():
    held = Held()
    with client(held.model, seconds=0.3) as server, ThreadPoolExecutor(3) as pool:
        first = pool.submit(server.post, "/translate", json=asked("One."))
        assert held.begun.wait(10)
        second = pool.submit(server.post, "/translate", json=asked("Two."))
        assert "0.3 s" in refused(first.result(10), 504)
        refused(second.result(10), 504)
        held.go.set()
        until(lambda: server.post("/translate", json=asked("Three.")).status_code == 200)  # a busy machine may need two
    assert {text for texts in held.asked for text in texts} == {"One.", "Three."}  # nobody waited for the second


def test_a_full_queue_sends_away_and_says_when_to_come_again():
    held = Held()
    with client(held.model, waiting=1) as server, ThreadPoolExecutor(2) as pool:
        first = pool.submit(server.post, "/translate", json=asked("One."))
        assert held.begun.wait(10)
        second = pool.submit(server.post, "/translate", json=asked("Two."))
        until(lambda: "pellucid_texts_waiting 1.0" in server.get("/metrics").text)
        found = server.post("/translate", json=asked("Three."))
        assert "1 requests wait" in refused(found, 503)
        assert int(found.headers["Retry-After"]) > 0
        held.go.set()
        assert (first.result(10).status_code, second.result(10).status_code) == (200, 200)


@pytest.mark.parametrize(("limits", "status"), [({"each": 2}, 429), ({"open_requests": 2}, 503)])
def test_more_requests_at_once_than_may_be_are_sent_away_and_health_is_not(limits, status: int):
    held = Held()
    with client(held.model, **limits) as server, ThreadPoolExecutor(2) as pool:
        several = [pool.submit(server.post, "/translate", json=asked("One."))]
        assert held.begun.wait(10)
        several.append(pool.submit(server.post, "/translate", json=asked("One.")))
        until(lambda: "pellucid_texts_waiting 1.0" in server.get("/metrics").text)
        assert "open" in refused(server.post("/translate", json=asked("Two.")), status)
        forged = {"X-Forwarded-For": "10.0.0.9", "Forwarded": "for=10.0.0.9", "X-Real-IP": "10.0.0.9"}
        refused(server.get("/languages", headers=forged), status)
        assert server.get("/health").status_code == 200
        held.go.set()
        assert [each.result(10).status_code for each in several] == [200, 200]
        assert server.get("/languages").status_code == 200


def until(holds) -> None:
    """Waits until it does."""
    end = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)
