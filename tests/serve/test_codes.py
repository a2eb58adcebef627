"""Codes of languages in requests: every route refuses what is none, and one language on both sides, before it works."""

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from pellucid.localize.translation_memory import TranslationMemory
from pellucid.serve.corrections import Corrections
from pellucid.serve.settings import Languages
from tests.documents.samples import SAMPLES
from tests.serve.servers import HeldTranslator, client

NO_CODES = ("", "auto", "a/b", "../es", "Spanish", "es-", "es\n", "e", "en es", "\u202ees", "x" * 5000)
ROUTES = ("json", "list", "terms", "form", "address", "get", "opus-cat", "document", "document with terms", "suggest")


def ask(server: TestClient, route: str, source: str, target: str) -> Any:
    """Send a request that would be answered if its languages were right."""
    codes = {"source": source, "target": target}
    match route:
        case "json":
            return server.post("/translate", json={"q": "Yes.", **codes})
        case "list":
            return server.post("/translate", json={"q": ["Yes.", ""], "format": "html", **codes})
        case "terms":
            return server.post("/translate", json={"q": "Yes.", "terms": {"Yes": "a"}, **codes})
        case "form":
            return server.post("/translate", data={"q": "Yes.", **codes})
        case "address":
            return server.post("/translate", params={"q": "Yes.", **codes})
        case "get":
            return server.get("/translate_get", params={"q": "Yes.", **codes})
        case "opus-cat":
            words = {"input": "Yes.", "srcLangCode": source, "trgLangCode": target}
            return server.get("/MTRestService/TranslateJson", params=words)
        case "suggest":
            return server.post("/suggest", json={"q": "Yes.", "s": "Sí.", **codes})
    data = {**codes, "terms": '{"Yes": "a"}'} if route == "document with terms" else codes
    return server.post("/translate_file", data=data, files={"file": ("a.txt", b"Yes.")})


@pytest.mark.parametrize("languages", [Languages("en", "es"), Languages()], ids=["named", "not named"])
def test_a_target_that_is_no_code_is_refused_by_every_route_before_anything_is_translated(
    tmp_path: Path, languages: Languages
):
    translator, corrections = HeldTranslator(), Corrections(tmp_path / "corrections.jsonl")
    options: dict[str, Any] = {"languages": languages, "corrections": corrections}
    if languages.are_named:
        options["translation_memory"] = TranslationMemory([("Yes.", "Sí.")])
    with client(translator.model, **options) as server:
        for route in ROUTES:
            for code in NO_CODES:
                answer = ask(server, route, "en", code)
                assert answer.status_code == 422, (route, code, answer.text)
                assert answer.json()["error"].isprintable()
                assert len(answer.json()["error"]) < 300
    assert translator.translated == []
    assert corrections.path.read_bytes() == b""


def test_one_language_on_both_sides_is_refused_in_one_sentence_where_it_cannot_be_given_back(tmp_path: Path):
    translator = HeldTranslator()
    with client(translator.model, corrections=Corrections(tmp_path / "c.jsonl")) as server:
        for source, target in (("en", "en"), ("en", "EN"), ("eng", "en"), ("es", "es")):
            for route in ("document", "document with terms", "suggest"):
                answer = ask(server, route, source, target)
                name = "English" if target.lower() == "en" else "Spanish"
                assert (answer.status_code, answer.json()["error"]) == (
                    422,
                    f"source and target are one language, {name}, which this model does not translate into itself; "
                    "name another target",
                )
            for route in ("json", "form", "address", "get"):  # as LibreTranslate does, whose clients rely on it
                assert ask(server, route, source, target).json()["translatedText"] == "Yes."
        # A language that this server does not know is not one of its own.
        for route in ROUTES:
            answer = ask(server, route, "fr", "fr")
            assert answer.status_code == 422
            assert "translates en to es" in answer.json()["error"]
    assert translator.translated == []


@pytest.mark.parametrize("name", ["a.txt", "a.html", "a.docx", "a.xliff", "a.tmx", "a.po"])
def test_a_model_without_languages_answers_for_one_language_on_both_sides_of_a_document(name: str):
    content, _ = SAMPLES[name]
    with client(languages=Languages()) as server:
        for code in ("en", "es", "fr"):
            fields = {"source": code, "target": code}
            answer = server.post("/translate_file", data=fields, files={"file": (name, content)})
            assert answer.status_code in (200, 400), answer.text
            assert answer.json().get("error", "").isprintable()
