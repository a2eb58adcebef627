"""`pellucid calibrate`, and the confidence that `translate` and the server give from then on."""

import dataclasses
import json
import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pellucid import load
from pellucid.cli import app
from pellucid.cli.translation_lines import leave_to_people
from pellucid.decode.confidence import ConfidenceCurve
from pellucid.decode.translation import Translation
from pellucid.store.directory import load_bundle, save_bundle
from pellucid.training.loop import train_run
from tests.serve.servers import client, request_body
from tests.training.corpora import small_run, write_corpus


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run of seconds, beside a text to calibrate on."""
    folder = tmp_path_factory.mktemp("calibrated")
    train_run(small_run(folder / "text"), folder / "run")
    (folder / "more").mkdir()
    write_corpus(folder / "more", pairs=230, seed=3)
    return folder


@pytest.fixture(scope="module")
def model(calibrated: Path) -> Path:
    """Return a model that was calibrated; its translations are nonsense, so it is never sure."""
    copy, text = Path(shutil.copytree(calibrated / "run" / "best", calibrated / "best")), calibrated / "more"
    words = ["calibrate", copy, "--source", text / "source.txt", "--reference", text / "target.txt"]
    result = CliRunner().invoke(app, [str(word) for word in words], prog_name="pellucid")
    assert result.exit_code == 0, result.stderr
    *_, sentences, words_line, bounds, worth = result.stdout.splitlines()
    assert sentences.startswith("expected calibration error 0.")
    assert re.match(r"Of [\d,]+ words ", words_line)
    # The best translations of such a model are not usable either.
    assert re.findall(r"\d+", bounds) == ["30", "50"]
    assert re.search(r" \d+% of the worst fifth; ", worth)
    return copy


def test_the_dev_set_of_a_run_that_is_too_small_says_so(refuse, calibrated):
    sentence = refuse("calibrate", calibrated / "run" / "best")
    assert "23 sentences are too few" in sentence


def test_a_model_that_reads_the_sentence_before_is_calibrated_on_a_text_in_its_order(
    call, refuse, calibrated, tmp_path
):
    bundle = load_bundle(calibrated / "run" / "best")
    save_bundle(tmp_path / "best", bundle.model, bundle.tokenizer, step=1, longest_source=40, context=1)
    sentence = refuse("calibrate", tmp_path / "best")
    assert "data.context" in sentence
    text = calibrated / "more"
    result = call("calibrate", tmp_path / "best", "--source", text / "source.txt", "--reference", text / "target.txt")
    assert result.exit_code == 0, result.stderr
    calibration = load(tmp_path / "best").translator.calibration
    assert calibration
    assert calibration.words is None


def test_a_calibrated_model_is_the_same_with_one_file_more(model, calibrated):
    before, after = (json.loads((path / "manifest.json").read_text()) for path in (calibrated / "run/best", model))
    assert after["files"].pop("calibration.json")
    assert {name: after[name] for name in ("files", "data", "step")} == {
        name: before[name] for name in ("files", "data", "step")
    }


def test_lines_below_the_bound_are_empty_named_and_not_lost(call, model, tmp_path):
    (tmp_path / "in.txt").write_text("one two\n\nsix\n", encoding="utf-8")
    rows = [json.loads(line) for line in call("translate", model, "in.txt", "--json").stdout.splitlines()]
    confidences = [row.get("confidence") for row in rows]
    assert confidences[1] is None
    assert all(0 <= number <= 1 for number in (confidences[0], confidences[2]))
    result = call("translate", model, "in.txt", "--only-above", 1)
    assert result.stdout == "\n\n\n"
    assert re.search(r"2 of 3 lines are left to people, .* below 1: 1, 3\n$", result.stderr)
    assert call("translate", model, "in.txt", "--only-above", 0).stdout.split("\n")[:3] == [r["text"] for r in rows]


def test_a_line_with_an_alarm_is_left_to_people_whatever_its_confidence(capsys):
    sure = Translation("Sí.", -0.1, -0.1, "eos", ["▁Sí."], [-0.1], ["▁Yes."], confidence=0.95)
    translations = [
        sure,
        dataclasses.replace(sure, alarms=("numbers",)),
        dataclasses.replace(sure, confidence=0.2),
        dataclasses.replace(sure, confidence=0.2, alarms=("copy",)),
        dataclasses.replace(sure, confidence=None, stop="memory"),
    ]
    assert [translation.text for translation in leave_to_people(translations, 0.9)] == ["Sí.", "", "", "", "Sí."]
    told = capsys.readouterr().err
    assert re.findall(r"[\d.]+", told) == ["3", "5", "0.9", "1", "2", "3", "4"]
    assert "alarm" in told


def test_an_engine_that_gives_each_piece_gives_the_confidence_of_each_word(call, model, tmp_path):
    (tmp_path / "in.txt").write_text("one two\n\nsix\n", encoding="utf-8")
    first, blank, _ = map(
        json.loads, call("translate", model, "in.txt", "--json", "--engine", "torch").stdout.splitlines()
    )
    assert len(first["word_confidences"]) == len(first["text"].split())
    assert all(0 <= number <= 1 for number in first["word_confidences"])
    assert "word_confidences" not in blank
    loaded = load(model)
    manifest = loaded.trace("one two").manifest(checked=False)
    assert loaded.translator.calibration
    assert loaded.translator.calibration.words == ConfidenceCurve(**manifest["word_curve"])


def test_what_has_no_confidence_is_refused_in_a_sentence(call, refuse, model, calibrated, tmp_path):
    (tmp_path / "in.txt").write_text("one\n", encoding="utf-8")
    sentence = refuse("translate", calibrated / "run" / "best", "in.txt", "--only-above", 0.9)
    assert "pellucid calibrate" in sentence
    assert "leave out --only-above" in call("translate", model, "in.txt", "--only-above", 0.9, "--json").stderr


def test_the_server_gives_the_confidence_of_each_text(model):
    texts = ["one two", "six"]
    expected = [found.confidence for found in load(model).translate(texts, beam=4)]
    with client(load(model)) as server:
        assert server.post("/translate", json=request_body(texts)).json()["confidence"] == expected
        assert server.post("/translate", json=request_body("six")).json()["confidence"] == expected[1]
    with client() as server:
        assert "confidence" not in server.post("/translate", json=request_body("six")).json()
