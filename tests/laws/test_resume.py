"""A run that was stopped ends where an undisturbed one does, to the bit."""

import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from pellucid.train import checkpoint, loop
from pellucid.train.checkpoint import list_checkpoints
from pellucid.train.config import RunConfig
from pellucid.train.loop import train_run
from tests.laws.runs import RunKilled, assert_same_end, read_weights, same_weights, train_until
from tests.train.corpora import small_run


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


def test_resume_needs_a_checkpoint_and_a_new_run_never_writes_over_another(tmp_path):
    run, out = small_run(tmp_path / "data"), tmp_path / "out"
    with pytest.raises(ValueError, match="no checkpoint to resume from"):
        train_run(run, out, resume=True)
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
        patch.setattr(loop, "record_texts", power_cut)
        with pytest.raises(RunKilled):
            train_run(run, out)
    train_run(run, out, resume=True)
    assert_same_end(undisturbed_run, out)
