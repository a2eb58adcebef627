import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from pellucid.data.corpus import read_pairs
from pellucid.decode.translation_memory import TranslationMemory
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
            [{"source": LINES[0], "target": "La pelota.", "similarity": 1.0}],
            [{"source": "Yes or no.", "target": "Sí o no.", "similarity": 0.75}],
            [],
        ]
        one = server.post("/translate", json=request_body(LINES[0], alternatives=2)).json()
        assert (one["translatedText"], one["stop"], len(one["memory"])) == ("La pelota.", "memory", 1)
    with client() as server:
        assert "memory" not in server.post("/translate", json=request_body(LINES[0])).json()


SUGGESTION = {"q": "The ball.", "s": "La\tbola.", "source": "en", "target": "es"}


def test_a_suggestion_is_stored_as_a_pair_that_training_reads(tmp_path):
    for name in ("corrections.tsv", "corrections.jsonl"):
        with client(corrections=Corrections(tmp_path / name)) as server:
            assert server.get("/frontend/settings").json()["suggestions"] is True
            assert server.post("/suggest", json=SUGGESTION).json() == {"success": True}
            assert server.post("/suggest", data={**SUGGESTION, "q": "Two\nlines."}).json() == {"success": True}
            for wrong, status in (
                ({"q": " "}, 422),
                ({"target": "de"}, 422),
                ({"s": "a" * 6000}, 413),
                ({"x": "y"}, 422),
            ):
                assert server.post("/suggest", json={**SUGGESTION, **wrong}).status_code == status
        pairs = read_pairs(tmp_path / name, max_characters=100)
        assert (pairs.sources, pairs.targets) == (["The ball.", "Two lines."], ["La bola."] * 2)
    assert json.loads((tmp_path / "corrections.jsonl").read_text("utf-8").split("\n")[0]) == {
        "en": "The ball.",
        "es": "La bola.",
    }


def test_without_a_file_a_suggestion_is_not_stored_and_the_answer_says_so():
    with client() as server:
        answer = server.post("/suggest", json=SUGGESTION)
        assert (answer.status_code, "not stored here" in answer.json()["error"]) == (403, True)
        assert server.get("/frontend/settings").json()["suggestions"] is False


def test_a_correction_is_stored_whole_or_not_at_all(tmp_path, monkeypatch):
    corrections = Corrections(tmp_path / "a.tsv")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: corrections.append(f"source {i}", "target " * 50, ("en", "es")), range(100)))
    lines = corrections.path.read_text("utf-8").splitlines()
    assert sorted(line.split("\t")[0] for line in lines) == sorted(f"source {i}" for i in range(100))
    write = os.write
    monkeypatch.setattr("os.write", lambda file, content: write(file, content[:5]))
    with pytest.raises(Refusal, match="could not be stored"):
        corrections.append("more", "more", ("en", "es"))
    assert corrections.path.read_text("utf-8").splitlines() == lines
    with pytest.raises(ValueError, match=r"must end in \.tsv or \.jsonl"):
        Corrections(tmp_path / "a.txt")
    with pytest.raises(OSError, match="No such file"):
        Corrections(tmp_path / "none" / "a.tsv")
