"""A run that goes on elsewhere, on shards or with more workers ends as an undisturbed one; other text is refused."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pellucid.config import to_toml
from pellucid.training import shard_writing
from pellucid.training.checkpoint import list_checkpoints
from pellucid.training.config import RunConfig, read_run
from pellucid.training.loop import train_run
from tests.laws.runs import assert_same_end, train_until
from tests.laws.torchrun import train_alone, train_with_workers
from tests.training.corpora import mixed, small_run

BFLOAT16 = {"steps": 13, "accumulate": 2, "precision": "bfloat16", "batch_tokens": 331, "save_every": 1, "keep": 3}


def mixed_run(folder: Path) -> RunConfig:
    """Return a run on three weighted corpora, with two batches an update and dropout."""
    return mixed(small_run(folder, model={"dropout": 0.2}, train=BFLOAT16), folder)


def with_shards(
    run: RunConfig, folder: Path, pairs_per_part: int, workers: int, monkeypatch: pytest.MonkeyPatch
) -> RunConfig:
    """Write the shards of a run, and return the run on them."""
    monkeypatch.setattr(shard_writing, "PAIRS_PER_PART", pairs_per_part)
    shard_writing.prepare_shards(run, folder, workers, lambda message: None)
    return replace(run, data=replace(run.data, shards=str(folder)))


@pytest.mark.slow  # each step alone: test_resume.py, test_workers.py, tests/training/test_pairs.py
def test_a_killed_moved_and_resharded_run_ends_where_an_undisturbed_one_does(tmp_path, monkeypatch):
    """On text; renamed, on shards; copied with its text, on other shards; then with two workers, without its text."""
    run, out, elsewhere = mixed_run(tmp_path / "data"), tmp_path / "here", tmp_path / "elsewhere"
    train_alone(run, tmp_path / "undisturbed")
    train_until(2, run, out, monkeypatch)
    out.rename(tmp_path / "renamed")
    shards = with_shards(run, tmp_path / "shards", 37, 1, monkeypatch)
    train_until(3, shards, tmp_path / "renamed", monkeypatch, resume=True)

    shutil.copytree(tmp_path / "renamed", elsewhere / "out")
    (tmp_path / "data").rename(elsewhere / "data")
    shutil.rmtree(tmp_path / "shards")
    moved = elsewhere / "run.toml"
    moved.write_text(to_toml(run).replace(str(tmp_path / "data"), str(elsewhere / "data")), encoding="utf-8")
    shards = with_shards(read_run(moved), elsewhere / "shards", 61, 2, monkeypatch)
    train_until(3, shards, elsewhere / "out", monkeypatch, resume=True)
    assert list_checkpoints(elsewhere / "out")[-1].name == "step-00000008"
    assert read_run(elsewhere / "out/run.toml").data == shards.data, (
        "what one is told to go on with names the new places"
    )

    for name in ("source.txt", "target.txt", "rows.tsv"):
        (elsewhere / "data" / name).unlink()
    messages = train_with_workers(2, shards, elsewhere / "out", "--resume")
    assert "resuming after step 8 of" in messages
    assert_same_end(tmp_path / "undisturbed", elsewhere / "out")


@pytest.fixture
def begun_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[RunConfig, Path]:
    """Run on three corpora that has a checkpoint."""
    run, out = mixed_run(tmp_path / "data"), tmp_path / "out"
    train_until(1, run, out, monkeypatch)
    return run, out


def change_word(path: Path) -> None:
    """Change one word of a file."""
    old, new = ("six", "ten") if "six" in path.read_text(encoding="utf-8") else ("seis", "diez")
    path.write_text(path.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["more/target.txt"], r"training data is not .*: \S*/more/target\.txt has changed since; restore it or start"),
        (["rows.tsv"], r"training data is not what \S*/step-00000001 was trained on: \S*/rows\.tsv has changed since;"),
        (["target.txt", "rows.tsv"], r": \S*/data/target\.txt, \S*/rows\.tsv have changed since; restore"),
        (["dev_source.txt"], r"the dev data is not what it was measured with: \S*/dev_source\.txt has changed since;"),
        (["source.txt", "dev_target.txt"], r"/source\.txt has changed since; the dev data .*/dev_target\.txt has"),
    ],
)
def test_of_several_files_those_that_changed_are_named(names, message, begun_run):
    run, out = begun_run
    folder = out.parent / "data"
    untouched = folder / "more/source.txt"
    untouched.write_bytes(untouched.read_bytes())  # the same text at another time
    for name in names:
        change_word(folder / name)
    with pytest.raises(ValueError, match=message) as refused:
        train_run(run, out, resume=True)
    assert str(untouched) not in str(refused.value)


def test_other_weights_and_another_number_of_corpora_are_another_run(begun_run):
    run, out = begun_run
    corpora = run.data.corpus
    for other_corpora in ((*corpora[:2], replace(corpora[2], weight=3.0)), corpora[:2]):
        with pytest.raises(
            ValueError, match=r"data\.corpus: weights is \[1\.0, 0\.3.*\], it began with \[1\.0, 0\.3, 2"
        ):
            train_run(replace(run, data=replace(run.data, corpus=other_corpora)), out, resume=True)


def test_a_run_from_before_its_files_were_listed_names_them_all(begun_run):
    run, out = begun_run
    (out / "texts.json").unlink()
    change_word(out.parent / "data/rows.tsv")
    with pytest.raises(ValueError, match=r"look at \S*/source\.txt, \S*/target\.txt, \S*, \S*, \S*/rows\.tsv; restore"):
        train_run(run, out, resume=True)
