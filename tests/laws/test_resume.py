"""A run that was stopped ends where an undisturbed one does, to the bit."""

import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from pellucid.training import beginning, checkpoint, loop
from pellucid.training.checkpoint import list_checkpoints
from pellucid.training.config import RunConfig
from pellucid.training.loop import train_run
from tests.laws.runs import RunKilled, assert_same_end, read_weights, same_weights, train_until
from tests.training.corpora import small_run


@pytest.fixture(scope="module")
def undisturbed_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of a run that nothing happened to."""
    folder = tmp_path_factory.mktemp("undisturbed")
    return train_run(small_run(folder / "data", model={"dropout": 0.2}), folder / "out").out


@pytest.fixture
def run(tmp_path: Path) -> RunConfig:
    """Settings of a run like the undisturbed one, for a test to carry out."""
    return small_run(tmp_path / "data", model={"dropout": 0.2})


# At a checkpoint, one after it, at an evaluation and before the end; the others are beside these.
@pytest.mark.parametrize("step", [4, *(pytest.param(step, marks=pytest.mark.slow) for step in (5, 6, 9)), 7, 11])
def test_resume_is_bit_exact(step, run, undisturbed_run, tmp_path, monkeypatch):
    broken = tmp_path / "broken"
    train_until(step, run, broken, monkeypatch)
    torch.manual_seed(99)  # what the generator is now must not matter
    train_run(run, broken, resume=True)
    assert_same_end(undisturbed_run, broken)


def test_the_same_seed_trains_the_same_model_and_another_seed_another(run, undisturbed_run, tmp_path):
    train_run(run, tmp_path / "two")
    assert (undisturbed_run / "last/model.safetensors").read_bytes() == (
        tmp_path / "two/last/model.safetensors"
    ).read_bytes()
    train_run(replace(run, seed=2), tmp_path / "three")
    assert not same_weights(read_weights(undisturbed_run / "last"), read_weights(tmp_path / "three/last"))


def test_a_crash_inside_a_save_leaves_the_checkpoint_before_it(run, undisturbed_run, tmp_path, monkeypatch):
    out = tmp_path / "out"
    real_save = save_file

    def power_cut(tensors, path):
        if "step-00000008" in str(path):
            raise RunKilled
        return real_save(tensors, path)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save_file", power_cut)
        with pytest.raises(RunKilled):
            train_run(run, out)
    assert [path.name for path in list_checkpoints(out)] == ["step-00000004"]
    train_run(run, out, resume=True)
    assert_same_end(undisturbed_run, out)


def test_a_run_that_was_asked_to_stop_ends_where_an_undisturbed_one_does(run, undisturbed_run, tmp_path, monkeypatch):
    real_update = loop.update_within_memory

    def interrupt_and_update(*arguments):
        os.kill(os.getpid(), signal.SIGINT)
        return real_update(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "update_within_memory", interrupt_and_update)
        assert train_run(run, tmp_path / "out").stop == "SIGINT"
        assert train_run(run, tmp_path / "out", resume=True).stop == "SIGINT"
    assert [path.name for path in list_checkpoints(tmp_path / "out")] == ["step-00000002"]
    train_run(run, tmp_path / "out", resume=True)
    assert_same_end(undisturbed_run, tmp_path / "out")


def test_a_run_killed_before_its_first_checkpoint_begins_again(run, undisturbed_run, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    train_until(2, run, out, monkeypatch)
    with pytest.raises(ValueError, match="already holds a run"):
        train_run(run, out)
    with pytest.raises(ValueError, match="seed is 2, it began with 1"):
        train_run(replace(run, seed=2), out, resume=True)
    train_run(run, out, resume=True)
    assert f"{out} has no checkpoint yet: its run starts from the beginning" in capsys.readouterr().err
    assert_same_end(undisturbed_run, out)


def test_files_that_a_crash_left_half_written_or_half_removed_are_cleared_away(tmp_path, monkeypatch):
    run, out = small_run(tmp_path / "data", train={"keep": 1}), tmp_path / "out"
    train_until(9, run, out, monkeypatch)
    shutil.copytree(out / "checkpoints/step-00000008", out / "checkpoints/.step-00000007.new")
    shutil.copytree(out / "checkpoints/step-00000008", out / "checkpoints/step-00000004")
    (out / "checkpoints/step-00000004/manifest.json").unlink()
    train_run(run, out, resume=True)
    assert [path.name for path in (out / "checkpoints").iterdir()] == ["step-00000012"]


def test_resume_refuses_other_data_and_other_settings(tmp_path):
    run, out = small_run(tmp_path / "data"), tmp_path / "out"
    train_run(run, out)
    other = small_run(tmp_path / "data", model={"dropout": 0.5}, train={"batch_tokens": 64})
    with pytest.raises(ValueError, match=r"batch_tokens is 64, it began with 257; model\.dropout is 0\.5"):
        train_run(other, out, resume=True)
    with pytest.raises(ValueError, match=r"data\.context is 1, it began with 0"):
        train_run(small_run(tmp_path / "data", data={"context": 1}), out, resume=True)
    source = tmp_path / "data" / "source.txt"
    source.write_text(source.read_text(encoding="utf-8").replace("six", "five", 1), encoding="utf-8")
    with pytest.raises(ValueError, match="training data is not what"):
        train_run(run, out, resume=True)


@pytest.mark.parametrize("state", ["absent", "empty", "killed while it read its text", "other files"])
def test_a_resume_begins_the_run_where_nothing_was_begun(state, run, undisturbed_run, tmp_path, capsys):
    out = tmp_path / "runs" / "mine"
    if state != "absent":
        out.mkdir(parents=True)
    if state == "killed while it read its text":
        (out / "run.lock").write_text("4711\n", encoding="ascii")
    if state == "other files":
        (out / "slurm-17.out").write_text("mine", encoding="utf-8")
    train_run(run, out, resume=True)
    assert f"Nothing to resume in {out}: a new run begins.\n" in capsys.readouterr().err
    assert_same_end(undisturbed_run, out)
    if state == "other files":
        assert (out / "slurm-17.out").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize(
    ("removed", "message"),
    [
        ("checkpoints", r"holds a finished run \(last, average\) whose checkpoints are gone"),
        ("checkpoints best average", r"holds a finished run \(last\) whose checkpoints are gone"),
        ("checkpoints run.toml", r"holds files of a run \(texts.json, log.jsonl, last, best, average\), but neither"),
        ("checkpoints run.toml texts.json last best average", r"holds files of a run \(log.jsonl\), but neither"),
    ],
)
def test_a_resume_without_a_checkpoint_replaces_nothing_that_was_trained(
    removed, message, run, undisturbed_run, tmp_path
):
    out = Path(shutil.copytree(undisturbed_run, tmp_path / "out"))
    for name in removed.split():
        shutil.rmtree(out / name) if (out / name).is_dir() else (out / name).unlink()
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match=message):
        train_run(run, out, resume=True)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_a_resume_in_the_directory_of_a_model_is_refused(run, undisturbed_run, tmp_path):
    out = Path(shutil.copytree(undisturbed_run / "best", tmp_path / "model"))
    before = sorted(out.iterdir())
    with pytest.raises(ValueError, match="is a model and not the directory of a run"):
        train_run(run, out, resume=True)
    assert sorted(out.iterdir()) == before


def test_the_best_model_of_a_run_that_begins_again_is_kept_beside(tmp_path, monkeypatch, capsys):
    run, out = small_run(tmp_path / "data", train={"evaluate_every": 3, "save_every": 12}), tmp_path / "out"
    train_run(run, tmp_path / "whole")
    for number in (1, 2):
        train_until(5, run, out, monkeypatch, resume=number == 2)
        best, reports = read_weights(out / "best"), (out / "log.jsonl").read_bytes()
        kept = out / f"before-restart-{number}"
        assert not list_checkpoints(out)
        assert not kept.exists()
        with monkeypatch.context() as patch:
            patch.setattr(loop, "open_log", lambda *arguments: pytest.fail("it began"))
            with pytest.raises(BaseException, match="it began"):
                train_run(run, out, resume=True)
        assert f"its best model and its reports, is kept in {kept}\n" in capsys.readouterr().err
        assert same_weights(read_weights(kept / "best"), best)
        assert (kept / "log.jsonl").read_bytes() == reports
    train_run(run, out, resume=True)
    assert_same_end(tmp_path / "whole", out)


def test_a_run_that_begins_again_refuses_other_text(run, tmp_path, monkeypatch):
    out = tmp_path / "out"
    train_until(2, run, out, monkeypatch)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    source = tmp_path / "data" / "source.txt"
    source.write_text(source.read_text(encoding="utf-8").replace("six", "five", 1), encoding="utf-8")
    with pytest.raises(ValueError, match=rf"not what the run in {out} began with: {source} has changed"):
        train_run(run, out, resume=True)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_a_new_run_never_writes_over_another(tmp_path):
    run, out = small_run(tmp_path / "data"), tmp_path / "out"
    out.mkdir()
    (out / "log.jsonl").write_text("mine")
    with pytest.raises(ValueError, match=r"already holds a run \(log.jsonl\)"):
        train_run(run, out)
    assert (out / "log.jsonl").read_text() == "mine"
    assert [path.name for path in out.iterdir()] == ["log.jsonl"]


def test_a_resumed_run_can_make_more_steps_than_planned(tmp_path):
    train_run(small_run(tmp_path / "data", train={"steps": 8}), tmp_path / "out")
    train_run(small_run(tmp_path / "data", train={"steps": 12}), tmp_path / "out", resume=True)
    train_run(small_run(tmp_path / "data", train={"steps": 12}), tmp_path / "whole")
    assert same_weights(read_weights(tmp_path / "out" / "last"), read_weights(tmp_path / "whole" / "last"))


def test_a_damaged_checkpoint_is_reported_and_the_one_before_it_is_taken(tmp_path, capsys):
    run, out = small_run(tmp_path / "data"), tmp_path / "out"
    train_run(run, out)
    expected = read_weights(out / "last")
    path = list_checkpoints(out)[-1] / "training.safetensors"
    flipped = bytearray(path.read_bytes())
    flipped[-5] ^= 1
    path.write_bytes(flipped)
    train_run(run, out, resume=True)
    assert "training.safetensors was changed after it was written" in capsys.readouterr().err
    assert same_weights(read_weights(out / "last"), expected)
    for directory in list_checkpoints(out):
        (directory / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"no checkpoint in .* is sound"):
        train_run(run, out, resume=True)


def test_a_run_that_died_while_it_was_set_up_begins_again(run, undisturbed_run, tmp_path, monkeypatch):
    out = tmp_path / "out"

    def power_cut(*arguments):
        raise RunKilled

    with monkeypatch.context() as patch:
        patch.setattr(beginning, "record_texts", power_cut)
        with pytest.raises(RunKilled):
            train_run(run, out)
    train_run(run, out, resume=True)
    assert_same_end(undisturbed_run, out)
