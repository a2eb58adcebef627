"""`pellucid verify`: a trained model comes out the same, and one that does not is caught."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pellucid.api import load
from pellucid.store.atomic import write_manifest
from pellucid.training.loop import train_run
from tests.training.corpora import WORDS_AS_PIECES, small_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run of seconds whose models each keep a reference."""
    folder = tmp_path_factory.mktemp("verified")
    train_run(
        small_run(
            folder / "text",
            **WORDS_AS_PIECES,
            train={"steps": 40, "evaluate_every": 40, "dev_sentences": 23, "dev_beam": 3},
        ),
        folder / "run",
    )
    return folder / "run"


def with_changed(model: Path, name: str, change: Callable[[str], str]) -> None:
    """Change a file of a model and list it anew, as somebody might who means it."""
    (model / name).write_text(change((model / name).read_text(encoding="utf-8")), encoding="utf-8")
    change_manifest(model, lambda manifest: None)


def change_manifest(model: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change what the manifest of a model says, and list its files anew."""
    manifest = json.loads((model / "manifest.json").read_text(encoding="utf-8"))
    change(manifest)
    (model / "manifest.json").unlink()
    write_manifest(model, {k: v for k, v in manifest.items() if k not in ("files", "format", "versions", "sha256")})


@pytest.mark.parametrize("name", ["best", "last", "average"])
def test_every_model_of_a_run_comes_out_the_same(call, run, name):
    result = call("verify", run / name, "--engine", "torch")
    assert result.exit_code == 0, result.stdout
    assert result.stdout.startswith("23 of 23 lines come out the same, 0 with another text, 0 with another score")


def test_the_search_is_the_one_of_training(run):
    manifest = json.loads((run / "best" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["reference"] == {"lines": 23, "beam": 3, "length_penalty": 1.0}
    assert "reference.jsonl" in manifest["files"]


def test_a_model_that_does_not_say_its_length_penalty_was_saved_with_that_of_the_paper(call, run, tmp_path):
    model = Path(shutil.copytree(run / "best", tmp_path / "best"))

    def translate_as_before(text: str) -> str:
        rows = [json.loads(row) for row in text.splitlines()]
        sources = [row["source"] for row in rows]
        found = zip(rows, load(run / "best").translate(sources, beam=3, length_penalty=0.6), strict=True)
        return "".join(json.dumps(row | {"text": one.text, "score": one.score}) + "\n" for row, one in found)

    with_changed(model, "reference.jsonl", translate_as_before)
    assert call("verify", model, "--engine", "torch").exit_code == 1  # it says 1
    change_manifest(model, lambda manifest: manifest["reference"].pop("length_penalty"))
    assert call("verify", model, "--engine", "torch").exit_code == 0


def test_another_text_and_another_score_are_listed_and_fail(call, run, tmp_path):
    model = Path(shutil.copytree(run / "best", tmp_path / "best"))

    def change(text: str) -> str:
        first, second, *rest = map(json.loads, text.splitlines())
        first["text"] += " and more"
        second["score"] -= 0.01
        return "".join(json.dumps(row) + "\n" for row in (first, second, *rest))

    with_changed(model, "reference.jsonl", change)
    result = call("verify", model, "--engine", "torch")
    assert result.exit_code == 1
    assert "and more\n" in result.stdout
    assert result.stdout.splitlines()[-1].startswith(
        "21 of 23 lines come out the same, 1 with another text, 1 with another"
    )
    answer = json.loads(call("verify", model, "--engine", "torch", "--json").stdout)
    assert (answer["passed"], [line["number"] for line in answer["changed"]]) == (False, [1, 2])


def test_other_weights_do_not_come_out_the_same(call, run, tmp_path):
    model = Path(shutil.copytree(run / "best", tmp_path / "best"))
    first = sorted((run / "checkpoints").iterdir())[0]
    shutil.copyfile(first / "model.safetensors", model / "model.safetensors")
    with_changed(model, "config.json", lambda text: text)
    assert call("verify", model, "--engine", "torch").exit_code == 1


def test_a_model_without_a_reference_says_why(refuse, model):
    assert "has no reference.jsonl: it was trained by version 0.2 or earlier" in refuse("verify", model)


def test_a_run_may_keep_none(tmp_path):
    train_run(small_run(tmp_path / "text", train={"keep_reference": False}), tmp_path / "run")
    assert not (tmp_path / "run" / "best" / "reference.jsonl").exists()
