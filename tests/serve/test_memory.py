import json
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pellucid.data.corpus import read_pairs
from pellucid.localize.translation_memory import TranslationMemory
from pellucid.serve.bodies import Refusal
from pellucid.serve.corrections import Corrections
from tests.decode.models import LINES
from tests.serve.servers import client, request_body, small_model

MEMORY = TranslationMemory([(LINES[0], "La pelota."), ("Yes or no.", "Sí o no.")])


def test_an_entry_of_the_memory_is_used_and_a_similar_one_offered():
    with client(translation_memory=MEMORY) as server:
        answer = server.post("/translate", json=request_body([LINES[0], "Yes or no?", LINES[1]])).json()
        assert answer["translatedText"][0] == "La pelota."
        assert answer["translatedText"][1:] == [t.text for t in small_model().translate(["Yes or no?", LINES[1]])]
        assert answer["stop"][0] == "memory"
        assert answer["memory"] == [
            [{"source": LINES[0], "target": "La pelota.", "similarity": 1.0, "place": "pair 1"}],
            [{"source": "Yes or no.", "target": "Sí o no.", "similarity": 0.75, "place": "pair 2"}],
            [],
        ]
        one = server.post("/translate", json=request_body(LINES[0], alternatives=2)).json()
        assert (one["translatedText"], one["stop"], len(one["memory"])) == ("La pelota.", "memory", 1)
    with client() as server:
        assert "memory" not in server.post("/translate", json=request_body(LINES[0])).json()


SUGGESTION = {"q": "The ball.", "s": "La\tbola.", "source": "en", "target": "es"}


def read_rows(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_a_suggestion_is_stored_with_its_languages_and_its_time_as_a_pair_that_training_reads(tmp_path):
    path = tmp_path / "corrections.jsonl"
    before = datetime.now(UTC).replace(microsecond=0)
    with client(corrections=Corrections(path)) as server:
        assert server.get("/frontend/settings").json()["suggestions"] is True
        assert server.post("/suggest", json=SUGGESTION).json() == {"success": True}
        assert server.post("/suggest", data={**SUGGESTION, "q": "Two\nlines.\x1b\x07"}).json() == {"success": True}
        # The languages are those of the direction, however a client writes them; an unknown field is named.
        answer = server.post("/suggest", json={**SUGGESTION, "source": "eng_US", "target": "spa-MX", "x": "y"})
        assert (answer.json(), answer.headers["Pellucid-Ignored"]) == ({"success": True}, "x")
        for wrong, status in (({"q": " "}, 422), ({"target": "de"}, 422), ({"s": "a" * 6000}, 413)):
            assert server.post("/suggest", json={**SUGGESTION, **wrong}).status_code == status
    pairs = read_pairs(path, max_characters=100)
    assert (pairs.sources, pairs.targets) == (["The ball.", "Two lines.", "The ball."], ["La bola."] * 3)
    rows = read_rows(path)
    times = [datetime.fromisoformat(row.pop("time")) for row in rows]
    assert before <= min(times) <= max(times) <= datetime.now(UTC)
    languages = {"source_language": "en", "target_language": "es"}
    assert rows == [{"source": source, "target": "La bola.", **languages} for source in pairs.sources]


@pytest.mark.parametrize("blank", ["\x1c", "", " \t\n", "\u200b\u2060", "\u3164", "\u2800\xa0", "\u0301", "\x07\x1b"])
@pytest.mark.parametrize("field", ["q", "s"])
def test_nothing_empty_is_stored(tmp_path, field, blank):
    path = tmp_path / "c.jsonl"
    with client(corrections=Corrections(path)) as server:
        answer = server.post("/suggest", json={**SUGGESTION, field: blank})
        assert (answer.status_code, answer.json()["error"][:2]) == (422, f"{field}:")
    assert path.read_bytes() == b""


def test_a_file_that_ends_inside_of_a_line_gets_a_line_feed_first(tmp_path):
    path = tmp_path / "c.jsonl"
    edited = '{"en": "No end.", "es": "Sin fin."}'
    path.write_text(edited, encoding="utf-8")
    corrections = Corrections(path)
    for text in ("one", "two"):
        corrections.append(text, text, ("en", "es"))
    lines = path.read_text("utf-8").split("\n")
    assert (lines[0], len(lines), lines[-1]) == (edited, 4, "")
    # What an older version stored, and what was added, are read as one file.
    assert read_pairs(path, max_characters=100).sources == ["No end.", "one", "two"]


def test_with_auto_the_languages_are_those_of_the_direction_that_translates_the_text(tmp_path):
    path = tmp_path / "c.jsonl"
    with client(corrections=Corrections(path)) as server:
        assert server.post("/suggest", json={**SUGGESTION, "source": "auto"}).status_code == 200
    [row] = read_rows(path)
    assert (row["source_language"], row["target_language"]) == ("en", "es")
    with client(languages=None, corrections=Corrections(path)) as server:
        answer = server.post("/suggest", json={**SUGGESTION, "source": "auto"})
        assert (answer.status_code, answer.json()["error"][:16]) == (422, "source: name the")


def test_a_model_without_named_languages_stores_those_of_the_request(tmp_path):
    path = tmp_path / "c.jsonl"
    with client(languages=None, corrections=Corrections(path)) as server:
        assert server.post("/suggest", json={**SUGGESTION, "source": "deu"}).status_code == 200
        assert server.post("/suggest", json={**SUGGESTION, "target": "a/b"}).status_code == 422
    [row] = read_rows(path)
    assert (row["source_language"], row["target_language"]) == ("de", "es")


def test_a_file_of_another_kind_is_not_appended_to(tmp_path):
    for name, content, problem in (
        ("old.tsv", "a\tb\n", r"old\.tsv must end in \.jsonl: .*`pellucid improve` reads it"),
        ("a.txt", "", r"a\.txt must end in \.jsonl"),
        ("table.jsonl", "en\tes\n", r"table\.jsonl:1: no JSON object"),
        ("array.jsonl", "[\n", r"array\.jsonl:1: no JSON object"),
    ):
        (tmp_path / name).write_text(content, encoding="utf-8")
        with pytest.raises(ValueError, match=problem):
            Corrections(tmp_path / name)
        assert (tmp_path / name).read_text("utf-8") == content


def test_without_a_file_a_suggestion_is_not_stored_and_the_answer_says_so():
    with client() as server:
        answer = server.post("/suggest", json=SUGGESTION)
        assert (answer.status_code, "not stored here" in answer.json()["error"]) == (403, True)
        assert server.get("/frontend/settings").json()["suggestions"] is False


def test_a_correction_is_stored_whole_or_not_at_all(tmp_path, monkeypatch):
    corrections = Corrections(tmp_path / "a.jsonl")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: corrections.append(f"source {i}", "target " * 50, ("en", "es")), range(100)))
    lines = corrections.path.read_text("utf-8").splitlines()
    assert sorted(json.loads(line)["source"] for line in lines) == sorted(f"source {i}" for i in range(100))
    write = os.write
    monkeypatch.setattr("os.write", lambda file, content: write(file, content[:5]))
    with pytest.raises(Refusal, match="could not be stored"):
        corrections.append("more", "more", ("en", "es"))
    assert corrections.path.read_text("utf-8").splitlines() == lines
    with pytest.raises(OSError, match="No such file"):
        Corrections(tmp_path / "none" / "a.jsonl")


def test_corrections_are_not_appended_to_a_pipe(tmp_path):
    path = tmp_path / "pipe.jsonl"
    os.mkfifo(path)
    with pytest.raises(ValueError, match=r"pipe\.jsonl is a pipe or a socket; corrections are appended to a file"):
        Corrections(path)
    assert path.is_fifo()
