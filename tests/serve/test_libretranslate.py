import json
from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.decode.assemble import Translation
from pellucid.decode.terms import Terms
from pellucid.serve.libretranslate import STOP_ORDER
from tests.decode.models import LINES
from tests.serve.servers import asked, client, small_model


@pytest.fixture(scope="module")
def server():
    with client() as found:
        yield found


def alone(text: str) -> Translation:
    """What the model writes where nobody else asks."""
    [found] = small_model().translate([text])
    return found


def test_one_text_gives_one_and_a_list_gives_a_list_in_its_order(server):
    found, model = server.post("/translate", json=asked(LINES[0])).json(), alone(LINES[0])
    assert found == {"translatedText": model.text, "stop": model.stop, "notes": list(model.notes)}
    several = server.post("/translate", json=asked(LINES)).json()
    assert several["translatedText"] == [each.text for each in small_model().translate(LINES)]
    assert server.post("/translate", json=asked([])).json()["translatedText"] == []


def test_what_the_python_client_sends_is_understood(server):
    # libretranslatepy 2.1.4 sends forms as urllib does, and /languages with a body that a GET has no use for.
    form = {"Content-Type": "application/x-www-form-urlencoded", "User-Agent": "Python-urllib/3.12"}
    fields = {"q": LINES[0], "source": "en", "target": "es", "api_key": "a-key"}
    found = server.post("/translate", content=urlencode(fields).encode(), headers=form)
    assert json.loads(found.text)["translatedText"] == alone(LINES[0]).text
    found = server.post("/detect", content=urlencode({"q": LINES[0]}).encode(), headers=form)
    assert found.json() == [{"language": "en", "confidence": 0.0}]
    found = server.request("GET", "/languages", content=b"", headers=form)
    assert [each["code"] for each in found.json()] == ["en", "es"]


def test_terms_of_the_server_and_of_a_request_are_in_its_translation_and_in_no_others():
    own = Terms.of({LINES[0].split()[0]: "123"})
    with client(terms=own) as server:
        plain = server.post("/translate", json=asked(LINES[0])).json()["translatedText"]
        assert plain == small_model().translate([LINES[0]], terms=own)[0].text
        assert "123" in plain
        terms = {LINES[0].split()[0]: "456"}
        for found in (
            server.post("/translate", json=asked(LINES[0], terms=terms)),
            server.post("/translate", data=asked(LINES[0], terms=json.dumps(terms))),
        ):
            assert found.json()["translatedText"] == small_model().translate([LINES[0]], terms=terms)[0].text
        for wrong in ({"a": ""}, {"a": 5}, "a", ["a"]):
            answer = server.post("/translate", json=asked(LINES[0], terms=wrong))
            assert (answer.status_code, "terms" in answer.json()["error"]) == (422, True)


def test_a_text_that_cannot_be_translated_as_asked_is_named_in_its_own_answer():
    terms = {LINES[0].split()[0]: "1 " * 80 + "1"}
    with client() as server:
        found = server.post("/translate", json=asked([LINES[-1], LINES[0]], terms=terms)).json()
        assert found["translatedText"] == [small_model().translate(LINES[-1]).text, LINES[0]]
        assert found["stop"][1] == "failed"
        assert found["notes"][1][0].startswith("its 1 terms take ")


@pytest.mark.parametrize("path", ["/translate", "/detect"])
def test_a_field_that_nobody_knows_is_refused(server, path):
    fields = asked("Yes.") if path == "/translate" else {"q": "Yes."}
    for answer in (
        server.post(path, json={**fields, "glossary": {}}),
        server.post(path, data={**fields, "glossary": "x"}),
    ):
        assert (answer.status_code, answer.json()["error"]) == (422, "glossary: there is no such field")


def test_a_form_in_parts_is_understood_as_browsers_and_curl_send_it(server):
    text = "¿Dónde está\r\nla casa? 😀 \x01 a=b&c"
    found = server.post("/translate", files={name: (None, str(value)) for name, value in asked(text).items()})
    assert found.json()["translatedText"] == alone(text).text


def test_a_text_in_several_lines_keeps_them(server):
    text = f"{LINES[0]}\n\n  {LINES[2]}\r\n{LINES[4]}\n"
    found = server.post("/translate", json=asked(text)).json()["translatedText"]
    assert found == alone(text).text
    assert found.count("\n") == 4


@settings(max_examples=10, deadline=None)
@given(texts=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=9), max_size=5))
def test_one_text_in_is_one_text_out_as_each_alone(server, texts):
    found = server.post("/translate", json=asked(texts))
    assert found.status_code == 200
    assert found.json()["translatedText"] == [alone(text).text for text in texts]
    assert set(found.json()["stop"]) <= set(STOP_ORDER)


def test_alternatives_are_the_next_best_and_change_nothing(server):
    found = server.post("/translate", json=asked(LINES[:3], alternatives=3)).json()
    best = small_model().translate(LINES[:3], n_best=4)
    assert found["translatedText"] == [each.text for each in best]
    for others, each in zip(found["alternatives"], best, strict=True):
        assert others == list(dict.fromkeys(e.text for e in each.alternatives if e.text != each.text))
    one = server.post("/translate", json=asked(LINES[0], alternatives=7)).json()
    assert 3 < len(one["alternatives"]) <= 7
    assert one["translatedText"] not in one["alternatives"]


def test_the_language_is_said_where_it_was_not_known_and_never_as_if_it_had_been_measured(server):
    detected = {"language": "en", "confidence": 0.0}
    found = server.post("/translate", json=asked("Yes.", source="auto")).json()
    assert found["detectedLanguage"] == detected
    found = server.post("/translate", json=asked(["Yes.", "No."], source="auto")).json()
    assert found["detectedLanguage"] == [detected, detected]


@pytest.mark.parametrize(("source", "target"), [("es", "en"), ("en", "fr"), ("de", "es"), ("", "es"), ("en", "auto")])
def test_what_the_model_does_not_translate_is_refused(server, source: str, target: str):
    found = server.post("/translate", json=asked("Yes.", source=source, target=target))
    assert found.status_code == 422
    assert "from en to es" in found.json()["error"]


def test_a_region_may_be_left_out_or_added(server):
    assert server.post("/translate", json=asked("Yes.", source="en-GB", target="ES")).status_code == 200


def test_html_keeps_its_tags_and_entities(server):
    text = (
        '<p class="a">The <b>ball</b> is\nblue &amp; new.</p><!-- a note --><script>let a = "ball";</script><p>Yes.</p>'
    )
    found = server.post("/translate", json=asked(text, format="html")).json()["translatedText"]
    tags = ['<p class="a">', "<b>", "</b>", "</p>", '<!-- a note --><script>let a = "ball";</script>', "<p>", "</p>"]
    assert [tag for tag in tags if tag in found] == tags
    assert "&" not in found.replace("&amp;", "").replace("&lt;", "").replace("&gt;", "")


def test_the_settings_are_those_that_libretranslates_page_asks_for(server):
    found = server.get("/frontend/settings").json()
    assert (found["charLimit"], found["apiKeys"], found["keyRequired"]) == (5000, False, False)
    assert found["language"]["source"] == {"code": "en", "name": "English"}
    assert found["filesTranslation"] is False
    assert found["supportedFilesFormat"] == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b'"q"', "expected an object"),
        (b"[" * 100_000, "nested too deeply"),
        (b"9" * 5000, "a whole number of 5,000 digits"),
        (b'{"q": "a\\u0000b", "source": "en", "target": "es"}', "a NUL"),
        (b'{"q": ["a", "\\u0000"], "source": "en", "target": "es"}', "a NUL"),
        (b'{"q": "a", "source": "en", "target": "es", "terms": {"\\ud800": "x"}}', "surrogate"),
        (b'{"q": "a", "source": "en", "target": "es", "alternatives": ' + b"9" * 4000 + b"}", "4,000 digits"),
        (b'{"q": "\xff"}', "not JSON"),
        (b'{"q": "\\ud800", "source": "en", "target": "es"}', "surrogate"),
        (b'{"q": "Yes."}', "source: Field required; target: Field required"),
        (b'{"q": 5, "source": "en", "target": "es"}', "q"),
        (b'{"q": ["a", 5], "source": "en", "target": "es"}', "q"),
        (b'{"q": "a", "source": "en", "target": "es", "format": "pdf"}', "format"),
        (b'{"q": "a", "source": "en", "target": "es", "alternatives": -1}', "alternatives"),
        (b'{"q": "a", "source": "en", "target": "es", "alternatives": 1e400}', "alternatives"),
        (b'{"q": "a", "source": "en", "target": "es", "alternatives": "2"}', "alternatives"),
    ],
)
def test_a_hostile_body_is_refused_with_a_sentence(server, body: bytes, words: str):
    found = server.post("/translate", content=body, headers={"Content-Type": "application/json"})
    assert found.status_code == 422
    assert words in found.json()["error"]
    assert "Traceback" not in found.text
    assert len(found.text) < 300


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/x-www-form-urlencoded", b"q=%ff&source=en&target=es"),
        ("application/x-www-form-urlencoded", b"q=\xff&source=en&target=es"),
        ("application/x-www-form-urlencoded", b"&".join([b"q=a"] * 2000)),
        ("application/x-www-form-urlencoded", b"q=a%00b&source=en&target=es"),
        ("application/x-www-form-urlencoded", b"q=a&source=en&target=es&alternatives=" + b"9" * 4000),
        ("multipart/form-data", b"q=a"),
        ("multipart/form-data; boundary=x", b"--x\r\n\r\n"),
        ("multipart/form-data; boundary=x", b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\n\xff\r\n--x--'),
        ("multipart/form-data; boundary=" + "x" * 900, b"--x--"),
    ],
)
def test_a_form_that_is_none_is_refused_with_a_sentence(server, kind: str, body: bytes):
    found = server.post("/translate", content=body, headers={"Content-Type": kind})
    assert (found.status_code, list(found.json())) == (422, ["error"])
    assert len(found.text) < 300


@pytest.mark.parametrize("kind", ["", "text/plain", "application/xml", "application/json;", "json"])
def test_a_body_of_another_type_is_refused(server, kind: str):
    found = server.post("/translate", content=json.dumps(asked("Yes.")), headers={"Content-Type": kind})
    assert found.status_code == (200 if kind == "application/json;" else 415)


def test_a_model_without_named_languages_is_asked_by_any():
    with client(languages=None) as server:
        assert server.post("/translate", json=asked("Yes.", source="de", target="gn")).status_code == 200
        assert [each["code"] for each in server.get("/languages").json()] == ["x-source", "x-target"]


def test_the_mistake_of_a_text_is_told_and_the_server_goes_on(server):
    with client() as other:
        found = other.post("/translate", json=asked("Yes.", target="xx"))
        assert found.status_code == 422
    assert server.get("/health").json() == {"status": "ok"}
