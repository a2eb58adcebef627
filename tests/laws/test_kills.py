"""A run goes on from any place it was killed at, and no number tells."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from pellucid.train import log, state
from pellucid.train.loop import train
from tests.laws.runs import assert_same_end, timeless
from tests.train.corpora import small_run

HOUSE = Path(__file__).parents[2]


def resumed_at(places: list[int], accumulate: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that goes on from each of some checkpoints reports the losses and ends with the weights that it had."""
    monkeypatch.setattr(log, "REPORT_EVERY", 1)
    often = {"accumulate": accumulate, "steps": 23, "evaluate_every": 23, "save_every": 1, "keep": 99}
    run = small_run(tmp_path / "data", model={"dropout": 0.2}, train={**often, "dev_sentences": 1})
    whole = tmp_path / "whole"
    train(run, whole)
    for step in places:
        out = tmp_path / f"from-{step}"
        shutil.copytree(whole, out)
        for place in state.checkpoints(out)[step:]:
            shutil.rmtree(place)
        assert state.checkpoints(out)[-1].name == f"step-{step:08d}"
        torch.manual_seed(step)
        train(run, out, resume=True)
        assert_same_end(whole, out)
    losses = [row["loss"] for row in timeless(whole) if "loss" in row]
    assert len(set(losses)) == 23


@pytest.mark.parametrize(("accumulate", "places"), [(1, [1, 20]), (3, [13])])
def test_every_loss_after_a_resume_is_the_undisturbed_ones(accumulate, places, tmp_path, monkeypatch):
    resumed_at(places, accumulate, tmp_path, monkeypatch)  # an epoch has 20 batches


@pytest.mark.slow
@pytest.mark.parametrize("accumulate", [1, 3])
def test_every_loss_after_a_resume_is_the_undisturbed_ones_from_any_of_20_places(accumulate, tmp_path, monkeypatch):
    resumed_at([*range(2, 22)], accumulate, tmp_path, monkeypatch)


def test_a_few_kills_at_random_moments_change_nothing(tmp_path):
    page = tmp_path / "kill.md"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.kill", "--kills", "5", "--page", page],
        cwd=HOUSE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| kills | 5 |" in page.read_text(encoding="utf-8")
