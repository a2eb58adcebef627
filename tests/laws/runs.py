"""What a run left behind, to be compared with another; and ways to die."""

import json
from itertools import count
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from pellucid.train import loop
from pellucid.train.config import RunConfig
from pellucid.train.loop import train_run


def weights(directory: Path) -> dict[str, torch.Tensor]:
    return load_file(directory / "model.safetensors")


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def timeless(out: Path) -> list[dict]:
    """The reports of a run, without its clock."""
    rows = [json.loads(line) for line in (out / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    return [{key: value for key, value in row.items() if key not in ("seconds", "tokens_per_second")} for row in rows]


def assert_same_end(one: Path, other: Path) -> None:
    """The three models and every report of two runs are equal, to the bit."""
    for name in ("last", "average", "best"):
        assert same(weights(one / name), weights(other / name)), name
    assert timeless(one) == timeless(other)


class Killed(BaseException):
    """What a power cut looks like from inside: nothing after it runs."""


def train_until(updates: int, run: RunConfig, out: Path, monkeypatch: pytest.MonkeyPatch, resume: bool = False) -> None:
    """Train, and die right after so many updates and one, before anything about it is written."""
    real, made = loop.update_weights, count()

    def dying(*arguments):
        if next(made) == updates:
            raise Killed
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "update_weights", dying)
        with pytest.raises(Killed):
            train_run(run, out, resume=resume)
