"""`pellucid distill`, from a teacher to a student that is compared with it."""

import json

import pytest

from pellucid.api import load
from tests.training.corpora import write_corpus

QUICK = [
    word
    for setting in (
        "tokenizer.vocabulary=300", "model.d_model=8", "model.heads=2", "model.d_ff=16", "model.encoder_layers=2",
        "train.batch_tokens=64", "train.dev_sentences=3", "train.dev_beam=1", "data.max_pieces=64",
    )
    for word in ("--set", setting)
]  # fmt: skip


@pytest.fixture
def files(tmp_path) -> dict[str, str]:
    """Write a corpus of 60 pairs into the working directory; return options that name it."""
    names = write_corpus(tmp_path, pairs=60)
    return {
        "--source": names["source"],
        "--dev-source": names["dev_source"],
        "--dev-target": names["dev_target"],
        "--out": "student",
    }


def words(options: dict[str, str]) -> list[str]:
    return [word for option in options.items() for word in option]


def test_a_student_is_trained_on_what_the_teacher_writes_and_compared_with_it(call, tmp_path, files, monkeypatch):
    teacher = "tr a-z A-Z"
    command = ["distill", "--command", teacher, *words(files), "--steps", 3, "--no-export", *QUICK]
    result = call(*command)
    assert result.exit_code == 0, result.stderr
    assert "60 pairs of the teacher" in result.stderr
    written = (tmp_path / "student" / "data" / "train.target").read_text(encoding="utf-8")
    assert written == (tmp_path / "student" / "data" / "train.source").read_text(encoding="utf-8").upper()
    assert result.stdout.splitlines()[-1] == "student/best"
    assert [line.split(",")[0] for line in result.stdout.splitlines()[1:-1]] == ["student"]
    # Run again: nothing is translated or trained a second time.
    before = (tmp_path / "student" / "log.jsonl").read_bytes()
    assert call(*command).exit_code == 0
    assert (tmp_path / "student" / "log.jsonl").read_bytes() == before


@pytest.mark.slow  # a command teaches before it; test_export.py exports
def test_a_model_teaches_and_the_student_is_exported_in_int8_if_it_passes(call, model, tmp_path, files, monkeypatch):
    monkeypatch.setattr("pellucid.evaluate.scores.LARGEST_DROP", 100.0)
    monkeypatch.setattr("pellucid.evaluate.scores.repetition_rate", lambda texts: 0.0)
    # The random teacher writes nonsense that runs in loops; here every text is good enough.
    monkeypatch.setattr("pellucid.workflows.distillation.runs_in_a_loop", lambda text: False)
    monkeypatch.setattr(
        "pellucid.workflows.distillation._reason_to_leave_out",
        lambda line, text, stop: None if text.strip() else "blank",
    )
    result = call("distill", model, *words(files), "--steps", 2, "--beam", 2, "--length-penalty", 3, *QUICK)
    assert result.exit_code == 0, result.stderr
    sources = (tmp_path / files["--source"]).read_text(encoding="utf-8").splitlines()
    rows = (tmp_path / "student" / "data" / "translations.jsonl").read_text(encoding="utf-8").splitlines()[1:]
    translations = load(model).translate(sources, beam=2, length_penalty=3.0, scores=False)
    assert [json.loads(row)[0] for row in rows] == [translation.text for translation in translations]
    rows = [line[:24].strip() for line in result.stdout.splitlines()]
    assert rows[1:4] == ["teacher, beam 2", "student, beam 2", "student, int8, greedy"]
    assert result.stdout.splitlines()[-1] == "student/int8"
    manifest = json.loads((tmp_path / "student" / "int8" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["precision"] == "int8"
    assert "vmap.txt" in manifest["files"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({}, "name either a teacher, a model directory, or --command"),
        ({"--command": "cat", "--pairs-source": "x"}, "--pairs-source and --pairs-target belong together"),
        (
            {"--command": "cat", "--source": "-"},
            "standard input can be read only once, and distillation reads its text several times",
        ),
        ({"--command": "cat", "--source": "missing"}, "missing: no such file or directory"),
        ({"--command": "false"}, "false was given"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_before_anything_is_trained(refuse, tmp_path, files, change, problem):
    assert problem in refuse("distill", *words(files | change), "--steps", 1, *QUICK)
    assert not (tmp_path / "student" / "run.toml").exists()
