"""A run that was stopped ends where an undisturbed one does, to the bit."""

import json
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from pellucid.train import loop, state
from pellucid.train.loop import train
from tests.train.corpora import small_run


def weights(directory: Path) -> dict[str, torch.Tensor]:
    return load_file(directory / "model.safetensors")


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def timeless(log: Path) -> list[dict]:
    rows = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    return [{key: value for key, value in row.items() if key not in ("seconds", "tokens_per_second")} for row in rows]


class Killed(BaseException):
    """What a power cut looks like from inside: nothing after it runs."""


def train_until(step: int, run, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Train, and die right after update number `step`, before anything about it is written."""
    real, updates = loop.update, count()

    def dying(*arguments):
        if next(updates) == step:
            raise Killed
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "update", dying)
        with pytest.raises(Killed):
            train(run, out)


@pytest.mark.parametrize("step", [4, 5, 6, 7, 9, 11])
def test_resume_is_bit_exact(step, tmp_path, monkeypatch):
    run = small_run(tmp_path / "data", model={"dropout": 0.2})
    undisturbed, broken = tmp_path / "undisturbed", tmp_path / "broken"
    train(run, undisturbed)
    train_until(step, run, broken, monkeypatch)
    torch.manual_seed(99)  # what the generator is now must not matter
    train(run, broken, resume=True)
    for name in ("last", "average", "best"):
        assert same(weights(undisturbed / name), weights(broken / name)), name
    assert timeless(undisturbed / "log.jsonl") == timeless(broken / "log.jsonl")


def test_resume_is_bit_exact_with_accumulation_and_bfloat16(tmp_path, monkeypatch):
    run = small_run(tmp_path / "data", train={"accumulate": 3, "precision": "bfloat16", "batch_tokens": 61})
    train(run, tmp_path / "undisturbed")
    train_until(7, run, tmp_path / "broken", monkeypatch)
    train(run, tmp_path / "broken", resume=True)
    assert same(weights(tmp_path / "undisturbed" / "last"), weights(tmp_path / "broken" / "last"))


def test_the_same_seed_trains_the_same_model_and_another_seed_another(tmp_path):
    train(small_run(tmp_path / "data"), tmp_path / "one")
    train(small_run(tmp_path / "data"), tmp_path / "two")
    assert (tmp_path / "one/last/model.safetensors").read_bytes() == (
        tmp_path / "two/last/model.safetensors"
    ).read_bytes()
    train(replace(small_run(tmp_path / "data"), seed=2), tmp_path / "three")
    assert not same(weights(tmp_path / "one/last"), weights(tmp_path / "three/last"))


def test_a_crash_inside_a_save_leaves_the_checkpoint_before_it(tmp_path, monkeypatch):
    run, out = small_run(tmp_path / "data"), tmp_path / "out"
    real = state.save_file

    def full_disk(tensors, path):
        if "step-00000008" in str(path):
            raise OSError(28, "No space left on device", str(path))
        return real(tensors, path)

    with monkeypatch.context() as patch:
        patch.setattr(state, "save_file", full_disk)
        with pytest.raises(OSError, match="No space left"):
            train(run, out)
    assert [path.name for path in state.checkpoints(out)] == ["step-00000004"]
    train(run, out, resume=True)
    train(run, tmp_path / "undisturbed")
    assert same(weights(out / "last"), weights(tmp_path / "undisturbed" / "last"))


def test_resume_refuses_other_data_and_other_settings(tmp_path):
    run, out = small_run(tmp_path / "data"), tmp_path / "out"
    train(run, out)
    other = small_run(tmp_path / "data", model={"dropout": 0.5}, train={"batch_tokens": 64})
    with pytest.raises(ValueError, match=r"batch_tokens is 64, it began with 257; model\.dropout is 0\.5"):
        train(other, out, resume=True)
    source = tmp_path / "data" / "source.txt"
    source.write_text(source.read_text(encoding="utf-8").replace("six", "five", 1), encoding="utf-8")
    with pytest.raises(ValueError, match="training data is not what"):
        train(run, out, resume=True)


def test_resume_needs_a_checkpoint_and_a_new_run_never_writes_over_another(tmp_path):
    run, out = small_run(tmp_path / "data"), tmp_path / "out"
    with pytest.raises(ValueError, match="no checkpoint to resume from"):
        train(run, out, resume=True)
    out.mkdir()
    (out / "log.jsonl").write_text("mine")
    with pytest.raises(ValueError, match=r"already holds a run \(log.jsonl\)"):
        train(run, out)
    assert (out / "log.jsonl").read_text() == "mine"
    assert [path.name for path in out.iterdir()] == ["log.jsonl"]


def test_more_steps_than_planned_can_follow(tmp_path):
    train(small_run(tmp_path / "data", train={"steps": 8}), tmp_path / "out")
    train(small_run(tmp_path / "data", train={"steps": 12}), tmp_path / "out", resume=True)
    train(small_run(tmp_path / "data", train={"steps": 12}), tmp_path / "whole")
    assert same(weights(tmp_path / "out" / "last"), weights(tmp_path / "whole" / "last"))


def test_a_damaged_checkpoint_is_said_and_the_one_before_it_taken(tmp_path, capsys):
    run, out = small_run(tmp_path / "data"), tmp_path / "out"
    train(run, out)
    undisturbed = weights(out / "last")
    place = state.checkpoints(out)[-1] / "training.safetensors"
    flipped = bytearray(place.read_bytes())
    flipped[-5] ^= 1
    place.write_bytes(flipped)
    train(run, out, resume=True)
    assert "training.safetensors was changed after it was written" in capsys.readouterr().err
    assert same(weights(out / "last"), undisturbed)
    for each in state.checkpoints(out):
        (each / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"no checkpoint in .* is sound"):
        train(run, out, resume=True)
