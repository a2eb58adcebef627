import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from html import escape
from threading import Thread
from time import sleep
from typing import cast

import pytest
from starlette.datastructures import State
from starlette.requests import Request

from pellucid.localize.documents.formats import DOCUMENT_FORMATS, document_suffix
from pellucid.localize.documents.readers import read_document
from pellucid.serve.app import create_app
from pellucid.serve.bodies import Refusal
from pellucid.serve.gate import ApiKeys
from pellucid.serve.service import BoundedStore
from pellucid.serve.settings import Limits
from pellucid.serve.workers import JobsCancelled
from tests.documents.samples import DOCX, HTML, SAMPLES, make_zip
from tests.serve.servers import HeldTranslator, client, request_body, running, small_model


@pytest.fixture(scope="module")
def server():
    with client() as test_client:
        yield test_client


def upload(server, name, content, **fields):
    """Send a document as LibreTranslate's page does."""
    data = {"source": "en", "target": "es", **fields}
    return server.post("/translate_file", data=data, files={"file": (name, content)})


@pytest.mark.parametrize("name", SAMPLES)
def test_a_document_is_translated_and_can_be_fetched(server, name):
    content, texts = SAMPLES[name]
    answer = upload(server, name, content)
    assert answer.status_code == 200, answer.text
    url = answer.json()["translatedFileUrl"]
    stem, _, suffix = name.rpartition(".")
    assert url.startswith("http://127.0.0.1/download_file/")
    assert url.endswith(f".{stem}_es.{suffix}")
    fetched = server.get(url)
    expected = [translation.text for translation in small_model().translate(texts, scores=False)]
    document = read_document(name, content, ("en", "es"))
    assert fetched.content == document.write(expected, language="es")
    unchanged = sum(text == translation for text, translation in zip(texts, expected, strict=True))
    account = {"texts": len(texts), "unchanged": unchanged, "failed": 0, "kept": dict(+document.kept)}
    assert answer.json() == {"translatedFileUrl": url, **account}
    assert fetched.headers["content-disposition"] == f"attachment; filename*=UTF-8''{stem}_es.{suffix}"
    ending = document_suffix(name) or ""
    assert fetched.headers["content-type"].partition(";")[0] == DOCUMENT_FORMATS[ending].media_types[ending]


@pytest.mark.parametrize("context", [1, 2])
def test_each_text_of_a_document_is_read_with_those_before_it_by_a_model_that_learned_so(context, monkeypatch):
    model, texts = small_model(), ["The ball is blue.", "Yes.", "Where is it?"]
    monkeypatch.setattr(model.translator, "context", context)
    with client(model) as server:
        answer = upload(server, "a.html", "".join(f"<p>{text}</p>" for text in texts).encode()).json()
        content = server.get(answer["translatedFileUrl"]).text
    with_context, alone = model.translate_document(texts, scores=False), model.translate(texts, scores=False)
    assert content == "".join(f"<p>{escape(translation.text)}</p>" for translation in with_context)
    assert [t.text for t in with_context] != [t.text for t in alone]


class SilentClient:
    """A request whose client waits, or leaves when it is told to."""

    def __init__(self) -> None:
        self.state = State()
        self.leaves = asyncio.Event()

    async def receive(self) -> dict[str, str]:
        await self.leaves.wait()
        return {"type": "http.disconnect"}


@pytest.mark.parametrize(("leaves", "seconds", "status"), [(True, 60.0, 499), (False, 0.05, 504)])
def test_taking_a_document_apart_stops_where_its_client_leaves_and_where_it_takes_too_long(leaves, seconds, status):
    ended: list[str] = []

    async def ask() -> None:
        client = SilentClient()
        loop = asyncio.get_running_loop()

        def work(check_wanted) -> None:
            if leaves:
                loop.call_soon_threadsafe(client.leaves.set)
            try:
                while True:
                    check_wanted()
                    sleep(0.001)
            finally:
                ended.append("the thread")

        await service.run_while_wanted(cast("Request", client), work)

    service = create_app(small_model(), Limits(seconds=seconds)).state.service
    with pytest.raises(Refusal) as refusal:
        asyncio.run(ask())
    assert refusal.value.status == status
    assert ended == ["the thread"]


def test_what_is_done_in_time_is_returned():
    service = create_app(small_model()).state.service
    assert asyncio.run(service.run_while_wanted(cast("Request", SilentClient()), lambda wanted: "done")) == "done"


@pytest.mark.parametrize("name", [name for name in SAMPLES if document_suffix(name) != ".txt"])
def test_every_reader_asks_whether_anybody_still_waits(name):
    def leave() -> None:
        raise JobsCancelled

    with pytest.raises(JobsCancelled):
        read_document(name, SAMPLES[name][0], ("en", "es"), go_on=leave)


def test_the_page_of_libretranslate_learns_the_formats(server):
    settings = server.get("/frontend/settings").json()
    assert settings["filesTranslation"] is True
    assert settings["supportedFilesFormat"] == list(DOCUMENT_FORMATS)


def test_terms_of_a_request_apply_to_a_document_and_failures_are_counted(server):
    terms = json.dumps({"ball": "1 " * 80 + "1"})
    answer = upload(server, "a.html", b"<p>The ball.</p>", terms=terms).json()
    assert (answer["texts"], answer["failed"]) == (1, 1)
    assert server.get(answer["translatedFileUrl"]).content == b"<p>The ball.</p>"


@pytest.mark.parametrize(
    ("name", "content", "fields", "status", "sentence"),
    [
        ("a.docx", b"no zip", {}, 400, "not a document of this format, or damaged"),
        ("a.pdf", b"%PDF", {}, 400, "of no known format; those are .txt"),
        ("../../a.docx/..", b"", {}, 400, "of no known format"),
        ("a.odt", make_zip({"content.xml": b"0" * 2**22}), {}, 413, "unpacks to 4,194,304 bytes"),
        ("a.txt", b"a" * 3000, {}, 413, "3,000 characters together"),
        ("a.html", b"<br>" * 3001, {}, 413, "more than 3,000 elements"),
        ("a.tmx", b"<tmx>" + b"<tu/>" * 3000 + b"</tmx>", {}, 413, "more than 3,000 elements"),
        ("a.html", HTML, {"target": "de"}, 422, "not 'en' to 'de'"),
        ("a.html", HTML, {"target": "es-../b"}, 422, "not 'en' to 'es-../b'"),
        ("a.html", HTML, {"terms": "x"}, 422, "terms: expected a JSON object"),
        ("a.tmx", SAMPLES["a.tmx"][0], {"source": "auto"}, 400, "name two of them"),
    ],
)
def test_a_document_that_cannot_be_translated_is_refused_in_one_sentence(name, content, fields, status, sentence):
    with client(document_characters=2000, document_elements=3000) as server:
        answer = upload(server, name, content, **fields)
        assert (answer.status_code, sentence in answer.json()["error"]) == (status, True), answer.text


def test_unknown_fields_are_ignored_and_codes_are_written_as_documents_have_them(server):
    answer = upload(server, "a.html", b"<html lang=en><p>The ball.</p>", source="eng", target="spa", glossary="x")
    assert (answer.status_code, answer.headers["Pellucid-Ignored"]) == (200, "glossary")
    assert answer.json()["translatedFileUrl"].endswith("a_es.html")
    assert server.get(answer.json()["translatedFileUrl"]).content.startswith(b"<html lang=es><p>")


def test_a_form_without_a_file_or_of_another_type_is_refused(server):
    assert server.post("/translate_file", json={"source": "en", "target": "es"}).status_code == 415
    answer = server.post("/translate_file", files={"source": (None, "en"), "target": (None, "es")})
    assert (answer.status_code, answer.json()["error"]) == (422, "file: the form has no file")
    two = [("file", ("a.txt", b"A.")), ("file", ("b.txt", b"B."))]
    assert server.post("/translate_file", data={"source": "en", "target": "es"}, files=two).status_code == 422


def test_a_document_may_be_larger_than_other_bodies_and_no_larger_than_its_limit():
    with client(body=1000, document_bytes=20_000) as server:
        comment = b"<!--" + b"x" * 10_000 + b"-->"
        assert upload(server, "a.html", comment + HTML).status_code == 200
        assert upload(server, "a.html", comment * 3).status_code == 413
        assert upload(server, "a.html", comment * 30).status_code == 413
        assert server.post("/translate", json=request_body("a " * 1000)).status_code == 413


def test_a_document_needs_a_key_where_there_are_keys_and_its_download_needs_none():
    key = "a-key-of-20-characters"
    with client(keys=ApiKeys([key])) as server:
        assert upload(server, "a.html", HTML).status_code == 403
        answer = upload(server, "a.html", HTML, api_key=key)
        assert answer.status_code == 200
        assert server.get(answer.json()["translatedFileUrl"]).status_code == 200
        assert server.get("/download_file/a.html").status_code == 404


def test_documents_beyond_the_limit_are_told_to_come_again_and_others_are_answered_meanwhile():
    held = HeldTranslator()
    with client(held.model, documents=1) as server:
        answers = []
        first = Thread(target=lambda: answers.append(upload(server, "a.docx", DOCX)))
        first.start()
        assert held.begun.wait(60)
        second = upload(server, "b.docx", DOCX)
        assert (second.status_code, second.headers["retry-after"]) == (503, "2")
        assert server.get("/health").status_code == 200
        held.go.set()
        first.join()
        assert answers[0].status_code == 200
        assert upload(server, "b.docx", DOCX).status_code == 200


def test_a_document_waits_for_its_turn_where_as_many_requests_wait_as_may():
    held = HeldTranslator()
    with client(held.model, waiting=1) as server, ThreadPoolExecutor(3) as pool:
        begun = pool.submit(server.post, "/translate", json=request_body("One."))
        assert held.begun.wait(60)
        waiting = pool.submit(server.post, "/translate", json=request_body("Two."))
        while "pellucid_texts_waiting 1.0" not in server.get("/metrics").text:
            pass
        assert server.post("/translate", json=request_body("Three.")).status_code == 503
        document = pool.submit(upload, server, "a.docx", DOCX)
        sleep(0.3)
        assert not document.done()
        held.go.set()
        assert [answer.result().status_code for answer in (begun, waiting, document)] == [200, 200, 200]


def test_documents_are_forgotten_by_age_number_and_size():
    now = 0.0
    store = BoundedStore[str](2, most_bytes=10, minutes=1.0, renew=False, clock=lambda: now)
    for name in "abc":
        store.put(name, f"{name}.txt", 4)
    assert [store.get(name) for name in "abc"] == [None, "b.txt", "c.txt"]
    store.put("large", "large.txt", 7)
    assert len(store) == 1
    now = 61.0
    assert store.get("large") is None
    store.put("huge", "huge.txt", 11)
    assert len(store) == 0


def test_libretranslates_python_client_lists_detects_and_translates():
    libretranslatepy = pytest.importorskip("libretranslatepy", reason="the extra dev brings libretranslatepy")
    with running(small_model()) as port:
        api = libretranslatepy.LibreTranslateAPI(f"http://127.0.0.1:{port}/", api_key="a-key-of-20-characters")
        assert api.translate("The ball.", "en", "es") == small_model().translate("The ball.").text
        assert [language["code"] for language in api.languages()] == ["en", "es"]
        assert api.detect("The ball.")[0]["language"] == "en"
