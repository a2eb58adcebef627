"""Tests of the study of heads in the background: what it finds, that it stands still for requests, that it stops."""

import time
from collections.abc import Callable
from threading import Event, Thread
from typing import Any, cast

import pytest
from starlette.testclient import TestClient

from pellucid.api import study_heads
from pellucid.interpret.studies.roles import badges_problem
from pellucid.serve.service import Service
from pellucid.serve.training_text import TrainingText
from pellucid.serve.workers import BackgroundStudy
from tests.serve.servers import HeldTranslator, client, request_body, small_model

PAIRS = [("The ball is blue.", "La bola es azul."), ("Yes.", "Sí."), ("The cat drinks.", "El gato bebe.")]


@pytest.fixture
def text(tmp_path) -> TrainingText:
    """A run's dev text."""
    for name, side in (("dev.en", 0), ("dev.es", 1)):
        (tmp_path / name).write_text("".join(f"{pair[side]}\n" for pair in PAIRS), encoding="utf-8")
    return TrainingText(dev_file=tmp_path / "dev.en", dev_target=tmp_path / "dev.es")


def get_service(server: TestClient) -> Service:
    """The service behind a client."""
    return cast(Any, server.app).state.service


def wait_for(is_so: Callable[[], bool]) -> None:
    for _ in range(600):
        if is_so():
            return
        time.sleep(0.05)
    raise AssertionError("it never came")


def test_the_heads_are_studied_on_the_dev_text_and_the_page_gets_what_the_study_finds(text):
    assert text.read_dev_pairs(2) == PAIRS[:2]
    with client(training_text=text) as server:
        identity = server.post("/trace", json={"sentence": "Yes."}).json()["id"]

        def ask() -> dict:
            return server.post(f"/trace/{identity}/heads", json={}).json()

        wait_for(lambda: not ask().get("pending"))
        answer = ask()
    sources, targets = zip(*PAIRS, strict=True)
    assert answer == {"study": study_heads(small_model(), list(sources), list(targets)), "says": None}
    assert badges_problem(answer["study"], small_model().bundle) is None
    assert answer["study"]["pairs"] == len(PAIRS)


def test_without_the_dev_text_the_page_is_told_how_heads_are_studied(text):
    for unfit in (TrainingText(), TrainingText(dev_file=text.dev_file)):
        with client(training_text=unfit) as server:
            identity = server.post("/trace", json={"sentence": "Yes."}).json()["id"]
            answer = server.post(f"/trace/{identity}/heads", json={}).json()
        assert answer["study"] is None
        assert "pellucid inspect heads" in answer["says"]


def test_a_study_stands_still_while_a_request_is_answered():
    held = HeldTranslator()
    with client(held.model) as server:
        service = get_service(server)
        assert service.head_study is None  # it would be in the way of what follows
        steps: list[float] = []

        def count_steps(on_progress: Callable[[], None]) -> dict:
            while len(steps) < 10_000:
                steps.append(time.monotonic())
                on_progress()
                time.sleep(0.001)
            return {}

        slow = BackgroundStudy(count_steps, lambda: service.translation_worker.is_busy, 3)
        slow.start()
        wait_for(lambda: len(steps) > 3)
        answering = Event()

        def translate() -> None:
            assert server.post("/translate", json=request_body("Yes.")).status_code == 200
            answering.set()

        thread = Thread(target=translate)
        thread.start()
        assert held.begun.wait(60)
        time.sleep(0.1)
        before = len(steps)
        time.sleep(0.3)
        assert len(steps) == before
        held.go.set()
        thread.join()
        assert answering.is_set()
        wait_for(lambda: len(steps) > before + 3)
        slow.close(10)
        assert slow.answer["pending"] is True
        after = len(steps)
        time.sleep(0.1)
        assert len(steps) == after


def test_text_that_does_not_suit_the_model_is_said_to_be_unfit():
    def refuse(_: Callable[[], None]) -> dict:
        raise ValueError("no pair to look at")

    study = BackgroundStudy(refuse, lambda: False, 3)
    study.start()
    wait_for(lambda: not study.answer.get("pending"))
    assert study.answer == {"study": None, "says": "the heads could not be studied: no pair to look at"}
    study.close(1)
