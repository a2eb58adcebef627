"""At the start of a run half of the batches may be translated backwards: which ones follows from the data alone."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pellucid.data.batching import Batch, EncodedPairs, collate, pack_sentences, reverse_batch
from pellucid.data.tokenizer import EOS
from pellucid.training import loop
from pellucid.training.beginning import begin_run
from pellucid.training.config import RunConfig
from pellucid.training.distributed import empty_batch
from pellucid.training.log import ProgressOutput
from pellucid.training.loop import train_run
from pellucid.training.update import batch_loss
from tests.laws.runs import assert_same_end, read_reports, train_until
from tests.laws.torchrun import train_alone, train_with_workers
from tests.training.corpora import small_run

STEPS, REVERSED_STEPS = 12, 6


def reversing_run(folder: Path, **changes: dict) -> RunConfig:
    train = {"both_directions": 0.5, "steps": STEPS, "batch_tokens": 120, **changes.pop("train", {})}
    return small_run(folder, train=train, **{"model": {"dropout": 0.2}, **changes})


def random_rows(seed: int) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [[*rng.integers(4, 90, rng.integers(0, 9)).tolist(), EOS] for _ in range(40)]


def same_batch(first: Batch, second: Batch) -> bool:
    names = ("source", "target_in", "target_out")
    same = all(torch.equal(getattr(first, name), getattr(second, name)) for name in names)
    return same and (first.target_tokens, first.seed) == (second.target_tokens, second.seed)


def test_a_reversed_batch_is_that_of_the_pairs_with_their_sides_exchanged():
    sources, targets = (pack_sentences(random_rows(seed), np.int32) for seed in (1, 2))
    indices = np.array([3, 7, 31, 0, 12])
    batch = collate(EncodedPairs(sources, targets), indices, seed=5)
    exchanged = collate(EncodedPairs(targets, sources), indices, seed=5)
    assert not same_batch(batch, exchanged)
    assert same_batch(reverse_batch(batch), exchanged)
    assert same_batch(reverse_batch(reverse_batch(batch)), batch)
    assert reverse_batch(batch).indices is indices


def test_a_worker_without_pairs_still_has_no_loss(tmp_path):
    _, state = begin_run(reversing_run(tmp_path / "data"), tmp_path / "out", ProgressOutput())
    assert batch_loss(state.model, reverse_batch(empty_batch(1)), smoothing=0.1).item() == 0


def test_half_of_the_batches_of_the_first_updates_are_reversed_and_none_later(tmp_path, monkeypatch):
    run, reversals = reversing_run(tmp_path / "data", train={"accumulate": 4}), []
    real_update = loop.update_within_memory

    def spy_on_update(model, optimizer, batches, *others):
        forward = [collate(data, batch.indices, batch.seed) for batch in batches]
        kinds = [same_batch(*each) for each in zip(batches, forward, strict=True)]
        assert all(
            same or same_batch(batch, reverse_batch(plain))
            for same, batch, plain in zip(kinds, batches, forward, strict=True)
        )
        reversals.append(kinds.count(False))
        return real_update(model, optimizer, batches, *others)

    data = begin_run(run, tmp_path / "looked at", ProgressOutput())[0].data.encoded
    monkeypatch.setattr(loop, "update_within_memory", spy_on_update)
    train_run(run, tmp_path / "out")
    assert len(reversals) == STEPS
    assert 0.25 < sum(reversals[:REVERSED_STEPS]) / (4 * REVERSED_STEPS) < 0.75
    assert not any(reversals[REVERSED_STEPS:])


def test_a_run_that_was_killed_among_reversed_batches_or_after_them_ends_as_an_undisturbed_one(tmp_path, monkeypatch):
    run = reversing_run(tmp_path / "data", train={"save_every": 2})
    train_run(run, tmp_path / "undisturbed")
    for updates in (3, 9):
        train_until(updates, run, tmp_path / f"killed {updates}", monkeypatch)
        train_run(run, tmp_path / f"killed {updates}", resume=True)
        assert_same_end(tmp_path / "undisturbed", tmp_path / f"killed {updates}")


@pytest.mark.slow  # the test before last counts the reversals, which follow from the data alone
def test_two_workers_reverse_the_batches_that_one_reverses(tmp_path):
    run = reversing_run(tmp_path / "data", train={"accumulate": 2})
    train_alone(run, tmp_path / "one")
    train_with_workers(2, run, tmp_path / "two")
    assert_same_end(tmp_path / "one", tmp_path / "two")


@pytest.mark.slow
def test_two_workers_that_share_the_rows_of_a_batch_reverse_it_both(tmp_path):
    run = reversing_run(tmp_path / "data", model={"dropout": 0.0})
    train_alone(run, tmp_path / "one")
    train_with_workers(2, run, tmp_path / "two")
    losses = [
        [row["loss"] for row in read_reports(tmp_path / name) if "learning_rate" in row] for name in ("one", "two")
    ]
    assert len(losses[0]) > 0
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


def test_a_resume_with_another_share_is_refused(tmp_path, monkeypatch):
    run = reversing_run(tmp_path / "data")
    train_until(5, run, tmp_path / "out", monkeypatch)
    other = replace(run, train=replace(run.train, both_directions=0.25))
    with pytest.raises(ValueError, match=r"train\.both_directions is 0\.25, it began with 0\.5"):
        train_run(other, tmp_path / "out", resume=True)


@pytest.mark.parametrize(
    "changes", [{"tokenizer": {"joint": False}}, pytest.param({"data": {"context": 1}}, marks=pytest.mark.slow)]
)
def test_a_run_that_cannot_learn_both_directions_says_so_and_learns_one(tmp_path, capsys, changes):
    run = reversing_run(tmp_path / "data", **changes)
    train_run(run, tmp_path / "asked")
    message = "train.both_directions needs one table of embeddings for both languages (model.tie = all, "
    assert " ".join(capsys.readouterr().err.split()).count(message) == 1
    train_run(replace(run, train=replace(run.train, both_directions=0.0)), tmp_path / "not asked")
    assert message not in " ".join(capsys.readouterr().err.split())
    assert_same_end(tmp_path / "asked", tmp_path / "not asked")
