"""A run that was killed anywhere goes on, and none of its numbers shows it."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from benchmarks.kill import KilledRun
from pellucid.training import log, loop
from pellucid.training.checkpoint import checkpoint_path, list_checkpoints
from tests.laws.runs import assert_same_end, read_reports
from tests.processes import ForkedProcess
from tests.training.corpora import mixed, small_run

ROOT = Path(__file__).parents[2]


def check_resumes(steps: list[int], train: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a run resumed from each of these steps reports the same losses and ends with the same weights."""
    monkeypatch.setattr(log, "REPORT_EVERY", 1)
    settings = {**train, "steps": 23, "evaluate_every": 23, "save_every": 1, "keep": 99, "dev_sentences": 1}
    run = mixed(small_run(tmp_path / "data", model={"dropout": 0.2}, train=settings), tmp_path / "data")
    whole = tmp_path / "whole"
    loop.train_run(run, whole)
    losses = [row["loss"] for row in read_reports(whole) if "loss" in row]
    assert len(set(losses)) == 23
    if 1 in steps:
        assert any(is_at_end_of_epoch(checkpoint_path(whole, step)) for step in steps)
    for step in steps:
        out = tmp_path / f"from-{step}"
        shutil.copytree(whole, out)
        for path in list_checkpoints(out)[step:]:
            shutil.rmtree(path)
        assert list_checkpoints(out)[-1].name == f"step-{step:08d}"
        torch.manual_seed(step)
        loop.train_run(run, out, resume=True)
        assert_same_end(whole, out)


def is_at_end_of_epoch(checkpoint: Path) -> bool:
    """Whether the next update begins with the first batch of an epoch."""
    _, epoch, batch = json.loads((checkpoint / "training.json").read_text(encoding="utf-8"))["stream"]
    return epoch > 0 and batch == 0


ONE_BATCH = {"accumulate": 1, "precision": "float32"}
THREE_BATCHES = {"accumulate": 3, "precision": "bfloat16"}


@pytest.mark.parametrize(
    ("train", "steps"), [pytest.param(ONE_BATCH, [1, 16], marks=pytest.mark.slow), (THREE_BATCHES, [13])]
)
def test_every_loss_of_mixed_corpora_after_a_resume_is_that_of_an_undisturbed_run(train, steps, tmp_path, monkeypatch):
    check_resumes(steps, train, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("train", [ONE_BATCH, THREE_BATCHES])
def test_every_loss_after_a_resume_from_any_of_20_steps_is_that_of_an_undisturbed_run(train, tmp_path, monkeypatch):
    check_resumes([*range(1, 21)], train, tmp_path, monkeypatch)


def run_campaign(name: str, page: Path, *options: str) -> str:
    """Run a short campaign, which succeeds, and return the page it writes."""
    words = [*options, "--page", page, "--folder", page.with_suffix("")]
    process = ForkedProcess(*words, folder=ROOT, program=f"from benchmarks.{name} import main; main()")
    output = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return page.read_text(encoding="utf-8")


@pytest.mark.slow  # test_resume.py kills in this process
def test_a_few_kills_at_random_moments_change_nothing(tmp_path):
    """The campaign goes on where it was broken off, in the middle of a line: with a run of two workers."""
    rows = tmp_path / "kill/seed-1/rows.jsonl"
    rows.parent.mkdir(parents=True)
    before = "".join(json.dumps(asdict(KilledRun(workers, kills=1))) + "\n" for workers in (2, 1, 1))
    rows.write_text(f'{before}{{"workers": 2, "ki', encoding="utf-8")
    assert "| kills | 5 |" in run_campaign("kill", tmp_path / "kill.md", "--kills", "5")
    assert rows.read_text(encoding="utf-8").startswith(before)
    assert json.loads(rows.read_text(encoding="utf-8").splitlines()[3])["workers"] == 2


@pytest.mark.slow
def test_a_few_resumes_with_one_process_and_with_two_change_nothing(tmp_path):
    """From the end of an epoch and from inside one, from a checkpoint of as many processes and of another number."""
    options = ("--places", "18", "21", "--data", "mixed", "--precision", "bfloat16")
    page = run_campaign("resume", tmp_path / "resume.md", *options)
    table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if "| bfloat16 |" in line]
    processes = [[*(str(n) for n in (n, 2, 1, 1, 1, 7, 0))] for n in (1, 2)]
    assert [row[2:] for row in table] == processes, page
