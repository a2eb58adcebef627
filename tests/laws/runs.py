"""Helpers that read and compare the results of runs, and that kill a run."""

import json
from itertools import count
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from pellucid.training import loop
from pellucid.training.config import RunConfig
from pellucid.training.loop import train_run


def read_weights(directory: Path) -> dict[str, torch.Tensor]:
    return load_file(directory / "model.safetensors")


def same_weights(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def read_reports(out: Path) -> list[dict]:
    """Return the reports of a run without their times, which differ from run to run."""
    rows = [json.loads(line) for line in (out / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    return [{key: value for key, value in row.items() if key not in ("seconds", "tokens_per_second")} for row in rows]


def assert_same_end(first: Path, second: Path) -> None:
    """Assert that the three models and every report of two runs are equal, to the bit."""
    for name in ("last", "average", "best"):
        assert same_weights(read_weights(first / name), read_weights(second / name)), name
    assert read_reports(first) == read_reports(second)


class RunKilled(BaseException):
    """Simulated power cut: a BaseException, so that no handler of the run catches it."""


def train_until(updates: int, run: RunConfig, out: Path, monkeypatch: pytest.MonkeyPatch, resume: bool = False) -> None:
    """Train, and die right before the update after so many updates."""
    real_update, calls = loop.update_within_memory, count()

    def update_or_die(*arguments):
        if next(calls) == updates:
            raise RunKilled
        return real_update(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "update_within_memory", update_or_die)
        with pytest.raises(RunKilled):
            train_run(run, out, resume=resume)
