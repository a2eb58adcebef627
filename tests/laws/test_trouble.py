"""Gradients that are not finite, and memory that runs out, cost a run as little as they can."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
import torch
import typer
from torch import nn

from pellucid.cli.train import train_and_plot
from pellucid.data.batching import Batch
from pellucid.store.directory import load_bundle
from pellucid.training import log, loop, recovery, update
from pellucid.training.beginning import begin_run, resume_run
from pellucid.training.checkpoint import list_checkpoints, restore_state
from pellucid.training.distributed import ALONE, TrainingFailed
from pellucid.training.log import ProgressOutput
from pellucid.training.loop import train_run
from pellucid.training.schedule import learning_rate
from pellucid.training.update import batch_loss
from tests.laws.runs import assert_same_end, read_reports, read_weights, same_weights, train_until
from tests.training.corpora import small_run

NOT_NUMBERS = (torch.inf, -torch.inf, torch.nan)


@contextmanager
def poison_gradients(steps: range | set[int], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make one number of one gradient not finite in each of these updates, counted from 0."""
    current_step: list[int] = []
    real_norm = nn.utils.get_total_norm

    def note_step(step, *arguments):
        current_step[:] = [step]
        return learning_rate(step, *arguments)

    def spoil_gradient(gradients, *arguments, **options):
        if current_step[0] in steps:
            gradients[current_step[0] % len(gradients)].view(-1)[0] = NOT_NUMBERS[current_step[0] % 3]
        return real_norm(gradients, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "learning_rate", note_step)
        patch.setattr(nn.utils, "get_total_norm", spoil_gradient)
        yield


# `train_by_hand` computes with the model as it is written.
AS_WRITTEN = {"fused": "never"}


def train_by_hand(
    run, out: Path, skipped: range | set[int], rollback: tuple[int, int] = (-1, -1)
) -> dict[str, torch.Tensor]:
    """Train a run without dropout by the plainest loop, without some updates, and return the weights.

    `rollback` is (a, b): after a updates, weights and optimiser become what they were after b, and the rate is halved.
    """
    _, train_state = begin_run(run, out, ProgressOutput())
    model, optimizer, factor = train_state.model, train_state.optimizer, 1.0
    before: dict[nn.Parameter, tuple[torch.Tensor, dict[str, torch.Tensor]]] = {}
    for step in range(run.train.steps):
        batch = next(train_state.stream)
        if step not in skipped:
            for group in optimizer.param_groups:
                group["lr"] = factor * learning_rate(step, step / run.train.steps, run.optim)
            model.zero_grad()
            batch_loss(model, batch, run.optim.label_smoothing).backward()
            gradients = [p.grad for p in model.parameters() if p.grad is not None]
            norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(gradient) for gradient in gradients]))
            clipped = (run.optim.clip / (norm / batch.target_tokens + 1e-6)).clamp(max=1.0)
            for gradient in gradients:
                gradient *= clipped / batch.target_tokens
            optimizer.step()
        if step + 1 == rollback[1]:
            for p in model.parameters():
                before[p] = p.detach().clone(), {key: value.clone() for key, value in optimizer.state[p].items()}
        if step + 1 == rollback[0]:
            factor = 0.5
            with torch.no_grad():
                for p, (weight, moments) in before.items():
                    p.copy_(weight)
                    optimizer.state[p] = moments
    return {name: p.detach() for name, p in model.named_parameters()}


@pytest.mark.parametrize("kind", ["adam", "muon"])
def test_a_run_with_infinite_gradients_is_the_run_without_those_batches(kind, tmp_path, monkeypatch):
    run = small_run(tmp_path / "data", model={"dropout": 0.0}, train=AS_WRITTEN, optim={"kind": kind})
    skipped = {0, 3, 4, 9}
    monkeypatch.setattr(log, "REPORT_EVERY", 1)
    with poison_gradients(skipped, monkeypatch):
        train_run(run, tmp_path / "out")
    assert same_weights(read_weights(tmp_path / "out/last"), train_by_hand(run, tmp_path / "hand", skipped))
    rows = read_reports(tmp_path / "out")
    reports = [row for row in rows if "learning_rate" in row]
    assert [row.get("skipped_updates", 0) for row in reports] == [1, 1, 1, 2, 3, 3, 3, 3, 3, 4, 4, 4]
    assert [row["step"] for row in reports if "loss" not in row] == [1, 4, 5, 10]
    assert "NaN" not in (tmp_path / "out/log.jsonl").read_text(encoding="utf-8")


STREAK = AS_WRITTEN | {"steps": 31, "evaluate_every": 31, "save_every": 4, "dev_sentences": 1}


@pytest.mark.parametrize("kind", [pytest.param("adam", marks=pytest.mark.slow), "muon"])
def test_twenty_infinite_gradients_in_a_row_take_the_run_back_to_the_last_good_checkpoint_at_half_the_rate(
    kind, tmp_path, monkeypatch, capsys
):
    """Updates 6 to 25 are skipped; then the weights are those after 4, and 26 to 30 are made at half the rate."""
    run = small_run(tmp_path / "data", model={"dropout": 0.0}, train=STREAK, optim={"kind": kind})
    monkeypatch.setattr(log, "REPORT_EVERY", 1)
    at_26 = {}

    def record_roll_back(train_state, *arguments):
        at_26.update(weights=[p.detach().clone() for p in train_state.model.parameters()])
        real_roll_back(train_state, *arguments)
        at_26.update(back=[p.detach().clone() for p in train_state.model.parameters()])

    real_roll_back = recovery.roll_back
    monkeypatch.setattr(recovery, "roll_back", record_roll_back)
    with poison_gradients(range(6, 26), monkeypatch):
        train_run(run, tmp_path / "out")
    sentence = (
        "step 26: 20 updates in a row had gradients that are not finite; continuing with the weights of "
        "step-00000004 and half the learning rate (from now on 0.5 of what the settings say)\n"
    )
    assert capsys.readouterr().err.count(sentence) == 1
    saved = load_bundle(tmp_path / "out/checkpoints/step-00000004").model
    assert all(
        torch.equal(weight, other_weight)
        for weight, other_weight in zip(at_26["back"], saved.parameters(), strict=True)
    )
    assert not all(
        torch.equal(weight, other_weight) for weight, other_weight in zip(at_26["back"], at_26["weights"], strict=True)
    )
    assert same_weights(
        read_weights(tmp_path / "out/last"), train_by_hand(run, tmp_path / "hand", range(6, 26), rollback=(26, 4))
    )
    rates = {row["step"]: row["learning_rate"] for row in read_reports(tmp_path / "out") if "learning_rate" in row}
    for step in range(31):
        whole = learning_rate(step, step / 31, run.optim)
        assert rates[step + 1] == (whole if step < 26 else whole / 2)
    counts = json.loads((tmp_path / "out/checkpoints/step-00000031/training.json").read_text())["counts"]
    assert (counts["skipped_updates"], counts["rollbacks"], counts["skipped_in_a_row"]) == (20, 1, 0)
    # the average is made of good checkpoints, none of them from between
    assert [path.name[-2:] for path in list_checkpoints(tmp_path / "out")] == ["04", "28", "31"]


@pytest.fixture(scope="module")
def rolled_back_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of a run with dropout that went back once, and that nothing else happened to."""
    folder = tmp_path_factory.mktemp("back")
    with pytest.MonkeyPatch.context() as patch, poison_gradients(range(6, 26), patch):
        return train_run(small_run(folder / "data", train=STREAK), folder / "out").out


@pytest.mark.parametrize("killed_at", [*(pytest.param([at], marks=pytest.mark.slow) for at in (13, 26)), [15, 10, 4]])
def test_a_run_killed_around_a_rollback_resumes_to_the_bit(killed_at, rolled_back_run, tmp_path, monkeypatch):
    run, out = small_run(tmp_path / "data", train=STREAK), tmp_path / "out"
    with poison_gradients(range(6, 26), monkeypatch):
        for attempt, updates in enumerate(killed_at):
            train_until(updates, run, out, monkeypatch, resume=attempt > 0)
        train_run(run, out, resume=True)
    assert_same_end(rolled_back_run, out)


@pytest.mark.parametrize("stopped_at", [5, pytest.param(17, marks=pytest.mark.slow)])
def test_a_run_that_was_interrupted_goes_back_to_the_same_checkpoint(
    stopped_at, rolled_back_run, tmp_path, monkeypatch
):
    run, out = small_run(tmp_path / "data", train=STREAK), tmp_path / "out"
    real_update, steps = loop.update_within_memory, count(1)

    def update_and_interrupt(*arguments):
        result = real_update(*arguments)
        if next(steps) == stopped_at:
            os.kill(os.getpid(), signal.SIGINT)
        return result

    with poison_gradients(range(6, 26), monkeypatch):
        with monkeypatch.context() as patch:
            patch.setattr(loop, "update_within_memory", update_and_interrupt)
            assert train_run(run, out).stop == "SIGINT"
        train_run(run, out, resume=True)
    assert_same_end(rolled_back_run, out)


def test_a_run_that_no_rollback_helps_ends_with_one_sentence_and_exit_code_1(tmp_path, monkeypatch, capsys):
    run, out = small_run(tmp_path / "data", train={**STREAK, "steps": 200, "evaluate_every": 200}), tmp_path / "out"
    with poison_gradients(range(14, 200), monkeypatch), pytest.raises(typer.Exit) as ended:
        train_and_plot(run, out, resume=False)
    messages = capsys.readouterr().err
    assert ended.value.exit_code == 1
    assert messages.splitlines()[-1] == (
        "pellucid: 20 updates in a row had gradients that are not finite, and going back 3 times did not help: "
        "start a new run with a lower optim.peak than 0.003, or look at the data"
    )
    # each time to an older one, and the oldest stays
    assert [messages.count(f"weights of step-000000{n:02}") for n in (12, 8, 4)] == [1, 1, 1]
    assert load_bundle(list_checkpoints(out)[0]).manifest["step"] == 4


@pytest.mark.slow
def test_a_run_goes_back_as_often_as_needed_if_it_gets_on_in_between(tmp_path, monkeypatch):
    run = small_run(tmp_path / "data", train={**STREAK, "steps": 151, "evaluate_every": 151})
    spoiled = {step for first in (6, 36, 66, 96, 126) for step in range(first, first + 20)}
    with poison_gradients(spoiled, monkeypatch):
        out = train_run(run, tmp_path / "out").out
    counts = json.loads((out / "checkpoints/step-00000151/training.json").read_text())["counts"]
    assert (counts["rollbacks"], counts["fruitless_rollbacks"], counts["skipped_updates"]) == (5, 0, 100)


def test_a_run_without_a_checkpoint_to_go_back_to_ends(tmp_path, monkeypatch):
    run = small_run(tmp_path / "data", train=STREAK)
    with (
        poison_gradients(range(200), monkeypatch),
        pytest.raises(TrainingFailed, match="no checkpoint was saved before them"),
    ):
        train_run(run, tmp_path / "out")


def limit_memory(monkeypatch: pytest.MonkeyPatch, fits: Callable[[Batch], bool]) -> None:
    real_loss = batch_loss

    def loss_or_refusal(model, batch, *settings):
        if not fits(batch):
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return real_loss(model, batch, *settings)

    monkeypatch.setattr(update, "batch_loss", loss_or_refusal)


def test_a_batch_that_does_not_fit_is_split_and_that_is_reported_once(tmp_path, monkeypatch, capsys):
    run = small_run(tmp_path / "data", model={"dropout": 0.0})
    train_run(run, tmp_path / "roomy")
    limit_memory(monkeypatch, lambda batch: batch.target_out.numel() <= 100)
    train_run(run, tmp_path / "tight")
    messages = capsys.readouterr().err
    assert messages.count("a batch did not fit in memory; such batches are split in two") == 1
    assert "what went wrong on the way: " in messages
    for row, expected in zip(read_reports(tmp_path / "tight"), read_reports(tmp_path / "roomy"), strict=True):
        for key in ("loss", "gradient_norm", "dev_loss"):
            assert row.get(key, 0.0) == pytest.approx(expected.get(key, 0.0), rel=1e-3)
    counts = json.loads((tmp_path / "tight/checkpoints/step-00000012/training.json").read_text())["counts"]
    assert counts["halved_batches"] > 12
    assert counts["pairs_left_out"] == 0


def test_a_pair_that_does_not_fit_alone_is_left_out_and_reported(tmp_path, monkeypatch, capsys):
    run = small_run(tmp_path / "data", train={"steps": 20, "evaluate_every": 20, "save_every": 20})
    limit_memory(monkeypatch, lambda batch: 5 not in batch.indices)  # an epoch has 20 batches
    train_run(run, tmp_path / "out")
    messages = capsys.readouterr().err
    assert messages.count("pieces did not fit in memory even alone and was left out (data.max_pieces keeps") == 1
    assert "1 pairs left out for lack of memory" in messages


def test_a_run_without_memory_for_a_single_pair_ends_with_what_to_do(tmp_path, monkeypatch):
    run, out = small_run(tmp_path / "data"), tmp_path / "out"
    train_until(5, run, out, monkeypatch)
    limit_memory(monkeypatch, lambda batch: False)
    with pytest.raises(TrainingFailed, match=r"out of memory: .* model\. The newest .* is step-00000004\. Resume with"):
        train_run(run, out, resume=True)


def test_a_checkpoint_without_these_counts_can_be_resumed(tmp_path, monkeypatch):
    run, out = small_run(tmp_path / "data"), tmp_path / "out"
    train_until(5, run, out, monkeypatch)
    train_state = resume_run(run, out, ProgressOutput(), ALONE)[1]
    checkpoint = list_checkpoints(out)[0]
    numbers = json.loads((checkpoint / "training.json").read_text())
    for new in ("skipped_in_a_row", "rollbacks", "fruitless_rollbacks", "halved_batches", "pairs_left_out"):
        del numbers["counts"][new]
    (checkpoint / "training.json").write_text(json.dumps(numbers), encoding="utf-8")
    restore_state(train_state, checkpoint)
    assert (train_state.counts.step, train_state.counts.rollbacks) == (4, 0)
