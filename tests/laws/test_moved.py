"""A run that goes on elsewhere, on shards, with more workers ends where an undisturbed one does; on other text, not."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pellucid.config import to_toml
from pellucid.train import shard_writing
from pellucid.train.config import RunConfig, read_run
from pellucid.train.loop import train_run
from pellucid.train.state import list_checkpoints
from tests.laws.runs import assert_same_end, train_until
from tests.laws.torchrun import train_alone, train_with
from tests.train.corpora import mixed, small_run

BFLOAT16 = {"steps": 13, "accumulate": 2, "precision": "bfloat16", "batch_tokens": 331, "save_every": 1, "keep": 3}


def mixed_run(folder: Path) -> RunConfig:
    """Three corpora by weight, two batches an update, dropout."""
    return mixed(small_run(folder, model={"dropout": 0.2}, train=BFLOAT16), folder)


def on_shards(run: RunConfig, place: Path, part: int, workers: int, monkeypatch: pytest.MonkeyPatch) -> RunConfig:
    """The same run on shards, written in parts of so many pairs by so many threads."""
    monkeypatch.setattr(shard_writing, "PAIRS_PER_PART", part)
    shard_writing.prepare_shards(run, place, workers, lambda message: None)
    return replace(run, data=replace(run.data, shards=str(place)))


def test_a_killed_moved_and_resharded_run_ends_where_an_undisturbed_one_does(tmp_path, monkeypatch):
    """On text; renamed, on shards; copied with its text, on other shards; then with two workers, without its text."""
    run, here, there = mixed_run(tmp_path / "data"), tmp_path / "here", tmp_path / "elsewhere"
    train_alone(run, tmp_path / "undisturbed")
    train_until(2, run, here, monkeypatch)
    here.rename(tmp_path / "renamed")
    shards = on_shards(run, tmp_path / "shards", 37, 1, monkeypatch)
    train_until(3, shards, tmp_path / "renamed", monkeypatch, resume=True)

    shutil.copytree(tmp_path / "renamed", there / "out")
    (tmp_path / "data").rename(there / "data")
    shutil.rmtree(tmp_path / "shards")
    moved = there / "run.toml"
    moved.write_text(to_toml(run).replace(str(tmp_path / "data"), str(there / "data")), encoding="utf-8")
    shards = on_shards(read_run(moved), there / "shards", 61, 2, monkeypatch)
    train_until(3, shards, there / "out", monkeypatch, resume=True)
    assert list_checkpoints(there / "out")[-1].name == "step-00000008"
    assert read_run(there / "out/run.toml").data == shards.data, "what one is told to go on with names the new places"

    for name in ("source.txt", "target.txt", "rows.tsv"):
        (there / "data" / name).unlink()
    said = train_with(2, shards, there / "out", "--resume")
    assert "resuming after step 8 of" in said
    assert_same_end(tmp_path / "undisturbed", there / "out")


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[RunConfig, Path]:
    """A run on three corpora that has a checkpoint."""
    run, out = mixed_run(tmp_path / "data"), tmp_path / "out"
    train_until(1, run, out, monkeypatch)
    return run, out


def spoil(path: Path) -> None:
    """One word becomes another."""
    old, new = ("six", "ten") if "six" in path.read_text(encoding="utf-8") else ("seis", "diez")
    path.write_text(path.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["more/target.txt"], r"training data is not .*: \S*/more/target\.txt has changed since; restore it or start"),
        (["rows.tsv"], r"training data is not what \S*/step-00000001 was trained on: \S*/rows\.tsv has changed since;"),
        (["target.txt", "rows.tsv"], r": \S*/data/target\.txt, \S*/rows\.tsv have changed since; restore"),
        (["dev_source.txt"], r"the dev data is not what it was measured with: \S*/dev_source\.txt has changed since;"),
        (["source.txt", "dev_target.txt"], r"/source\.txt has changed since; the dev data .*/dev_target\.txt has"),
    ],
)
def test_of_several_files_the_one_that_changed_is_named(names, said, begun):
    run, out = begun
    folder = out.parent / "data"
    untouched = folder / "more/source.txt"
    untouched.write_bytes(untouched.read_bytes())  # the same text at another time
    for name in names:
        spoil(folder / name)
    with pytest.raises(ValueError, match=said) as refused:
        train_run(run, out, resume=True)
    assert str(untouched) not in str(refused.value)


def test_other_weights_and_another_number_of_corpora_are_another_run(begun):
    run, out = begun
    corpora = run.data.corpus
    for others in ((*corpora[:2], replace(corpora[2], weight=3.0)), corpora[:2]):
        with pytest.raises(
            ValueError, match=r"data\.corpus: weights is \[1\.0, 0\.3.*\], it began with \[1\.0, 0\.3, 2"
        ):
            train_run(replace(run, data=replace(run.data, corpus=others)), out, resume=True)


def test_a_run_from_before_its_files_were_listed_names_them_all(begun):
    run, out = begun
    (out / "texts.json").unlink()
    spoil(out.parent / "data/rows.tsv")
    with pytest.raises(ValueError, match=r"look at \S*/source\.txt, \S*/target\.txt, \S*, \S*, \S*/rows\.tsv; restore"):
        train_run(run, out, resume=True)
