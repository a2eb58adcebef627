"""Several models in one server: chosen by language, loaded when needed, loaded anew when replaced, let go in turn."""

import gc
import shutil
import weakref
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from starlette.testclient import TestClient

from pellucid.api import Model, load
from pellucid.serve import uploads
from pellucid.serve.app import create_app
from pellucid.serve.bodies import Refusal
from pellucid.serve.directions import Direction, Directions
from pellucid.serve.settings import Languages, Limits
from pellucid.store.atomic import read_manifest
from pellucid.store.directory import save_bundle
from tests.decode.models import LINES, random_model, small_tokenizer
from tests.serve.servers import EN_ES, client, request_body, running_app, small_model
from tests.training.multilingual import WRITES, trained_model

SIZES = {"encoder_layers": 1, "decoder_layers": 1, "max_positions": 31}


def save_model(directory: Path, seed: int, **manifest: Any) -> Path:
    vocabulary = small_tokenizer().source_vocabulary
    model = random_model(seed, vocabulary, vocabulary, **SIZES)
    save_bundle(directory, model, small_tokenizer(), step=seed, **manifest)
    return directory


def name_languages(source: str, target: str) -> dict[str, dict[str, str]]:
    return {"languages": {"source": source, "target": target}}


def saved_direction(directory: Path, source: str, target: str, seed: int, loads: list[str]) -> Direction:
    """Save a model; return its direction, which appends its source language to `loads` whenever it is loaded."""
    save_model(directory, seed)

    def load_and_count() -> Model:
        loads.append(source)
        return load(directory)

    return Direction(Languages(source, target), small_tokenizer(), load_and_count, directory)


@pytest.fixture
def loads() -> list[str]:
    return []


@pytest.fixture
def others(tmp_path, loads) -> list[Direction]:
    return [
        saved_direction(tmp_path / code, code, "en", seed, loads) for seed, code in enumerate(("de", "fr", "it"), 11)
    ]


def test_a_request_is_answered_by_the_model_for_its_languages_which_is_loaded_once(others, loads, tmp_path):
    with client(others=others) as server:
        assert loads == []
        for code in ("de", "fr", "de"):
            answer = server.post("/translate", json=request_body(LINES[0], source=code, target="en")).json()
            assert answer["translatedText"] == load(tmp_path / code).translate(LINES[0]).text
        assert server.post("/translate", json=request_body(LINES[0])).json()["translatedText"] == (
            small_model().translate(LINES[0]).text
        )
        assert loads == ["de", "fr"]
        refusal = server.post("/translate", json=request_body("Yes.", source="es", target="en"))
        assert refusal.status_code == 422
        assert "en to es, de to en, fr to en" in refusal.json()["error"]


def test_all_languages_are_listed_and_detected(others):
    with client(others=others) as server:
        listed = {language["code"]: language["targets"] for language in server.get("/languages").json()}
        assert listed == {"en": ["es"], "es": [], "de": ["en"], "fr": ["en"], "it": ["en"]}
        detected = server.post("/detect", json={"q": "The ball"}).json()
        assert {item["language"] for item in detected} == {"en", "de", "fr", "it"}
        fields = server.get("/openapi.json").json()["paths"]["/translate"]["post"]["requestBody"]["content"]
        properties = fields["application/json"]["schema"]["properties"]
        assert properties["source"]["enum"] == ["en", "de", "fr", "it", "auto"]
        assert properties["target"]["enum"] == ["es", "en"]


def test_ten_directions_are_loaded_and_let_go_in_turn(tmp_path, loads):
    codes = [f"{letter}{letter}" for letter in "abcdefghij"]
    others = [saved_direction(tmp_path / code, code, "en", 1, loads) for code in codes]
    first = small_model()
    directions = Directions([Direction(EN_ES, small_tokenizer(), lambda: first), *others], first, most=3)
    alive = []
    for direction in [*others, *others]:
        alive.append(weakref.ref(directions.model(direction).translator.models.models_or_bundles[0]))
        assert directions.loaded <= 3
        assert directions.first_model is first
    gc.collect()
    assert sum(reference() is not None for reference in alive) <= 2
    assert loads == [*codes, *codes]


def test_with_auto_the_model_that_knows_the_words_is_asked(tmp_path, loads):
    spanish_reader = saved_direction(tmp_path / "m", "xx", "es", 3, loads)
    directions = Directions([Direction(EN_ES, small_tokenizer(), small_model), spanish_reader], small_model(), 2)
    # Two models with one tokenizer know the same words: the first is asked. With one that knows none, the other is.
    assert directions.find("auto", "es", ["The ball"]) is directions.first
    assert directions.find("xx", "es") is spanish_reader
    with pytest.raises(Refusal, match="translates en to es, xx to es, not 'auto' to 'fr'"):
        directions.find("auto", "fr")


@pytest.mark.parametrize(
    ("languages", "problem"),
    [(Languages("en", "es"), "both translate en to es"), (Languages(), "does not say its languages")],
)
def test_models_that_cannot_be_told_apart_are_refused(languages, problem):
    directions = [Direction(codes, small_tokenizer(), small_model, Path("a")) for codes in (EN_ES, languages)]
    with pytest.raises(ValueError, match=problem):
        Directions(directions, small_model(), 4)


def test_a_model_that_is_replaced_is_loaded_anew_and_no_request_is_lost(tmp_path):
    directory = save_model(tmp_path / "best", 1)
    texts = {}
    for seed in (1, 2):
        texts[seed] = load(save_model(tmp_path / f"copy{seed}", seed)).translate(LINES[0]).text
    assert texts[1] != texts[2]
    with client(load(directory), reload=lambda: load(directory)) as server:
        answers = []

        def ask() -> None:
            for _ in range(30):
                answers.append(server.post("/translate", json=request_body(LINES[0])))

        asking = Thread(target=ask)
        asking.start()
        save_model(directory, 2)
        asking.join()
        assert {answer.status_code for answer in answers} == {200}
        assert {answer.json()["translatedText"] for answer in answers} <= set(texts.values())
        assert server.post("/translate", json=request_body(LINES[0])).json()["translatedText"] == texts[2]


def test_a_document_is_translated_by_one_model_though_another_replaces_it(tmp_path, monkeypatch):
    directory = save_model(tmp_path / "best", 1)
    text = load(directory).translate(LINES[0]).text

    def replace_between_chunks(texts: list[str]) -> Iterator[list[str]]:
        yield texts[:1]
        save_model(directory, 2)
        yield texts[1:]

    monkeypatch.setattr(uploads, "_cut_into_chunks", replace_between_chunks)
    with client(load(directory), reload=lambda: load(directory)) as server:
        file, form = ("a.txt", f"{LINES[0]}\n{LINES[0]}"), {"source": "en", "target": "es"}
        answer = server.post("/translate_file", data=form, files={"file": file}).json()
        assert server.get(answer["translatedFileUrl"]).text == f"{text}\n{text}"
        assert server.post("/translate", json=request_body(LINES[0])).json()["translatedText"] != text


def test_a_damaged_replacement_leaves_the_model_in_memory_at_work(tmp_path):
    directory = save_model(tmp_path / "best", 1)
    text = load(directory).translate(LINES[0]).text
    with client(load(directory), reload=lambda: load(directory)) as server:
        shutil.rmtree(directory)
        assert server.post("/translate", json=request_body(LINES[0])).json()["translatedText"] == text
        directory.mkdir()
        (directory / "manifest.json").write_text("{}", encoding="utf-8")
        assert server.post("/translate", json=request_body(LINES[0])).json()["translatedText"] == text
        assert "pellucid_failed_reloads 1.0" in server.get("/metrics").text
        shutil.rmtree(directory)
        save_model(directory, 1)
        assert server.post("/translate", json=request_body(LINES[0])).json()["translatedText"] == text


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        (name_languages("en", "pt"), "it translates en to pt, and is served for en to es"),
        (name_languages("es", "en"), "it translates es to en, and is served for en to es"),
        ({}, "it translates languages that it does not name, and is served for en to es"),
    ],
)
def test_a_replacement_of_other_languages_is_refused_counted_and_logged_once(tmp_path, caplog, manifest, words):
    directory = save_model(tmp_path / "best", 1, **name_languages("en", "es"))
    first, second = (load(save_model(tmp_path / f"copy{seed}", seed)).translate(LINES[0]).text for seed in (1, 2))
    assert first != second
    with client(load(directory), languages=None, reload=lambda: load(directory)) as server:
        save_model(directory, 2, **manifest)
        for _ in range(3):
            answer = server.post("/translate", json=request_body(LINES[0]))
            assert (answer.status_code, answer.json()["translatedText"]) == (200, first)
        assert "pellucid_failed_reloads 1.0" in server.get("/metrics").text
        messages = [record.getMessage() for record in caplog.records if record.name == "pellucid.serve"]
        assert messages == [f"the model in {directory} is refused: {words}; the one in memory goes on"]
        # Three letters name the same languages.
        save_model(directory, 2, **name_languages("eng", "spa"))
        assert server.post("/translate", json=request_body(LINES[0])).json()["translatedText"] == second


def test_a_multilingual_model_in_the_place_of_one_for_one_language_is_refused(tmp_path, caplog):
    directory = save_model(tmp_path / "best", 1, **name_languages("en", "eo"))
    text = load(directory).translate(LINES[0]).text
    with client(load(directory), languages=None, reload=lambda: load(directory)) as server:
        shutil.rmtree(directory)
        shutil.copytree(trained_model().directory, directory)
        answer = server.post("/translate", json=request_body(LINES[0], target="eo"))
        assert (answer.status_code, answer.json()["translatedText"]) == (200, text)
        assert "it translates en to eo, en to tlh, and is served for en to eo" in caplog.text


def served_from(directory: Path, source: str, target: str) -> Direction:
    """Return the direction of a saved model, as `pellucid serve` makes it."""
    manifest = read_manifest(directory)
    return Direction(Languages(source, target), small_tokenizer(), lambda: load(directory), directory, None, manifest)


def test_a_direction_whose_directory_is_away_is_told_to_come_again(tmp_path, caplog):
    directory = save_model(tmp_path / "fr", 3, **name_languages("fr", "en"))
    text = load(directory).translate(LINES[0]).text
    body = request_body(LINES[0], source="fr", target="en")
    with client(others=[served_from(directory, "fr", "en")]) as server:
        directory.rename(tmp_path / "away")
        for _ in range(2):
            for answer in (
                server.post("/translate", json=body),
                server.post(
                    "/translate_file", data={"source": "fr", "target": "en"}, files={"file": ("a.txt", "Yes.")}
                ),
            ):
                assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
                assert answer.json()["error"] == (
                    "the model for fr to en is away at the moment; the log of the server says why"
                )
        assert "pellucid_failed_reloads 1.0" in server.get("/metrics").text
        [message] = [record.getMessage() for record in caplog.records if record.name == "pellucid.serve"]
        assert str(directory) in message
        assert message.endswith("; requests for it are told to come again (503)")
        # One of other languages is no better, and the other directions are served all the while.
        save_model(directory, 3, **name_languages("it", "en"))
        answer = server.post("/translate", json=body)
        assert (answer.status_code, "cannot be used at the moment" in answer.json()["error"]) == (503, True)
        assert server.post("/translate", json=request_body(LINES[0])).status_code == 200
        assert "pellucid_failed_reloads 2.0" in server.get("/metrics").text
        shutil.rmtree(directory)
        (tmp_path / "away").rename(directory)
        assert server.post("/translate", json=body).json()["translatedText"] == text


def test_a_multilingual_model_may_be_replaced_by_one_of_more_directions_and_of_no_fewer():
    def find_others(before: list[list[str]], after: list[list[str]], *served: tuple[str, str]) -> str | None:
        direction = Direction(Languages(), small_tokenizer(), small_model, manifest={"directions": before})
        return direction.find_other_languages({"directions": after}, [Languages(*pair) for pair in served])

    two, three = [["en", "eo"], ["en", "tlh"]], [["en", "tlh"], ["en", "fr"], ["en", "eo"]]
    assert find_others(two, three, ("en", "eo"), ("en", "tlh")) is None
    assert find_others(three, two, ("en", "eo")) is None
    assert find_others(three, two, ("en", "eo"), ("en", "fr")) == "en to eo, en to tlh"
    assert find_others(two, [], ("en", "eo")) == "languages that it does not name"


def test_one_multilingual_model_serves_all_of_its_directions(others, loads):
    libretranslatepy = pytest.importorskip("libretranslatepy", reason="the extra dev brings libretranslatepy")
    model, limits = trained_model(), Limits()
    app = create_app(model, limits, others=others)
    with running_app(app, limits) as port:
        api = libretranslatepy.LibreTranslateAPI(f"http://127.0.0.1:{port}/")
        for language, write in WRITES.items():
            assert api.translate("red cat sun", "en", language) == write("red cat sun")
            assert api.translate("red cat sun", "auto", language) == write("red cat sun")
        listed = {language["code"]: language["targets"] for language in api.languages()}
        assert listed == {"en": ["eo", "tlh"], "eo": [], "tlh": [], "de": ["en"], "fr": ["en"], "it": ["en"]}
    assert loads == []
    with TestClient(create_app(model), base_url="http://127.0.0.1") as server:
        refusal = server.post("/translate", json=request_body("red cat", source="eo", target="tlh"))
        assert (refusal.status_code, refusal.json()["error"]) == (
            422,
            "this server translates en to eo, en to tlh, not 'eo' to 'tlh'",
        )
        # The page looks into the first direction.
        trace = server.post("/trace", json={"sentence": "red cat sun"}).json()
        assert trace["target"]["text"] == "red cat sun"
        assert "language" in server.get("/model").json()["refusal"]


def test_a_multilingual_model_is_loaded_once_for_all_of_its_directions_and_may_be_asked_for_one():
    model, loads = trained_model(), []

    def load_and_count() -> Model:
        loads.append(model.directory)
        return model

    shared = Direction(Languages(), model.bundle.tokenizer, load_and_count, model.directory)
    with client(others=shared.split(model.manifest)) as server:
        for _ in range(2):
            for language, write in WRITES.items():
                answer = server.post("/translate", json=request_body("red cat", target=language)).json()
                assert answer["translatedText"] == write("red cat")
    assert len(loads) == 1
    with client(model, languages=Languages("en", "tlh")) as server:
        assert server.get("/languages").json()[0]["targets"] == ["tlh"]
        assert (
            server.post("/translate", json=request_body("red cat", target="tlh")).json()["translatedText"] == "cat red"
        )
    with client(model, languages=Languages("eng", "epo")) as server:
        assert server.get("/languages").json()[0]["targets"] == ["eo"]
    with pytest.raises(ValueError, match="this model translates en to eo, en to tlh, not 'en' to 'es'"):
        create_app(model, languages=EN_ES)
