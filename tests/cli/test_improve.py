"""`pellucid improve` as users call it: from a file of corrections to a model that is kept or not."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pellucid.training import loop as train
from pellucid.training.loop import train_run
from pellucid.workflows import improvement
from tests.training.corpora import WORDS_AS_PIECES, small_run

STEPS = ("--set", "optim.peak=0.02", "--set", "optim.warmup=5", "--set", "train.batch_tokens=256")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a run of seconds."""
    folder = tmp_path_factory.mktemp("corrected")
    train_run(small_run(folder / "text", **WORDS_AS_PIECES), folder / "run")
    return folder / "run"


@pytest.fixture
def corrections(trained: Path, tmp_path: Path) -> Path:
    """Write 20 corrections of sentences of the training text, all with one right translation."""
    sources = list(dict.fromkeys((trained.parent / "text" / "source.txt").read_text(encoding="utf-8").splitlines()))
    (tmp_path / "c.tsv").write_text("".join(f"{line}\tuno\tseis\n" for line in sources[:20]), encoding="utf-8")
    return tmp_path / "c.tsv"


def test_what_is_better_is_kept_with_what_came_of_each_correction(call, trained, corrections, tmp_path, monkeypatch):
    monkeypatch.setattr(improvement, "_OLD_PAIRS", 4)  # a model of this size has no room for both
    result = call("improve", trained / "best", corrections, "--out", "out", "--steps", 60, "--without", 2, *STEPS)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[-1] == "out/best"
    assert "corrections held out: 0 of" in result.stdout
    rows = [json.loads(row) for row in (tmp_path / "out/best/corrections.jsonl").read_text("utf-8").splitlines()]
    assert [row["number"] for row in rows] == [number for number in range(1, 21) if number != 2]
    held_out = {row["source"] for row in rows if row["held_out"]}
    assert any(row["right_after"] and row["after"] != row["before"] for row in rows if row["held_out"])
    mixed = [json.loads(row) for name in ("corrections", "old")
             for row in (tmp_path / f"out/data/{name}.jsonl").read_text("utf-8").splitlines()]  # fmt: skip
    second = corrections.read_text(encoding="utf-8").splitlines()[1].split("\t")[0]
    assert held_out
    assert not ({*held_out, second} & {row["source"] for row in mixed})
    manifest = json.loads((tmp_path / "out/best/manifest.json").read_text("utf-8"))
    assert manifest["improved"] == {
        "corrections": len(rows) - len(held_out),
        "held_out": len(held_out),
        "without": [2],
    } | {"dev": manifest["improved"]["dev"]}
    assert "corrections.jsonl" in manifest["files"]
    assert manifest["start"]["from"] == "run/best"
    assert (tmp_path / "out/changed.tsv").read_text("utf-8").startswith("dev\t1\t")
    assert call("translate", "out/best", corrections).exit_code == 0
    assert call("verify", "out/best").exit_code == 0


def test_what_was_interrupted_goes_on_with_the_same_command_and_what_is_not_better_is_not_kept(
    call, trained, corrections, tmp_path, monkeypatch
):
    real_train = train.train_run

    def stop_first(settings, directory, **options):
        monkeypatch.setattr(train, "train_run", real_train)
        outcome = real_train(replace(settings, train=replace(settings.train, steps=2)), directory, **options)
        for name in ("last", "average"):  # as Ctrl-C leaves it
            shutil.rmtree(directory / name)
        return replace(outcome, stop="SIGINT")

    monkeypatch.setattr(train, "train_run", stop_first)
    monkeypatch.setattr(improvement, "WEIGHT_PARTS", ((0, 1),))  # none is better, and each takes seconds
    words = "improve", trained / "best", corrections, "--steps", 4, "--set", "optim.peak=1e-9", "--out"
    interrupted = call(*words, "out")
    assert interrupted.exit_code == 130
    assert "out/best is not judged yet: to go on, give the same command again" in interrupted.stderr
    resumed, whole = call(*words, "out"), call(*words, "whole")
    assert "resuming after step 2" in resumed.stderr
    assert (resumed.exit_code, whole.exit_code, resumed.stdout) == (1, 1, whole.stdout)
    assert "pellucid: not kept: of 4 corrections held out it has 0 right, the old model 0" in whole.stderr
    assert not (tmp_path / "out/best").exists()


def test_other_old_text_can_be_given_where_that_of_the_model_is_gone(
    call, refuse, trained, corrections, tmp_path, monkeypatch
):
    monkeypatch.setattr(improvement, "WEIGHT_PARTS", ((0, 1),))
    model, text = Path(shutil.copytree(trained / "best", tmp_path / "alone")), trained.parent / "text"
    words = "improve", model, corrections, "--steps", 1, "--out"
    sentence = refuse(*words, "out")
    assert sentence.startswith("pellucid: the text that ")
    assert "--source FILE --target FILE" in sentence
    given = "--source", text / "source.txt", "--target", text / "target.txt", "--set", "data.max_pieces=16"
    assert call(*words, "out", *given).exit_code == 1  # no update to speak of: not better
    assert (tmp_path / "out/data/old.jsonl").stat().st_size
    assert "out is not empty; choose another --out" in refuse(*words, "out", *given)
