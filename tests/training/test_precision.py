"""Precision in which the matrix products of training are computed."""

import pytest
import torch

from pellucid.training import process, update
from pellucid.training.fused import choice
from pellucid.training.log import read_log
from pellucid.training.loop import train_run
from pellucid.training.process import explain_float32
from pellucid.training.update import autocast_products
from tests.training.corpora import small_run

CPU = torch.device("cpu")


def pretend_native_bfloat16(monkeypatch: pytest.MonkeyPatch, native: bool) -> None:
    for module in (process, update, choice):
        monkeypatch.setattr(module, "has_native_bfloat16", lambda device: native)


@pytest.mark.parametrize(
    ("setting", "native", "dtype"),
    [
        ("bfloat16", True, torch.bfloat16),
        ("bfloat16", False, torch.float32),
        ("float32", True, torch.float32),
        ("float32", False, torch.float32),
    ],
)
def test_products_are_in_bfloat16_if_the_run_asks_for_it_and_the_processor_has_it(monkeypatch, setting, native, dtype):
    pretend_native_bfloat16(monkeypatch, native)
    with autocast_products(setting, CPU):
        assert (torch.ones(3, 3) @ torch.ones(3, 3)).dtype == dtype


def test_a_run_in_bfloat16_on_a_processor_without_it_says_so_and_is_one_in_float32(tmp_path, monkeypatch, capsys):
    pretend_native_bfloat16(monkeypatch, False)
    losses = {}
    for setting in ("float32", "bfloat16"):
        train_run(small_run(tmp_path / "data", train={"precision": setting}), tmp_path / setting)
        warnings = capsys.readouterr().err.count("products are made in float32")
        assert warnings == (setting == "bfloat16")
        losses[setting] = [row["loss"] for row in read_log(tmp_path / setting / "log.jsonl") if "loss" in row]
    assert losses["float32"] == losses["bfloat16"]


def test_float32_is_explained_only_where_it_replaces_bfloat16(monkeypatch):
    pretend_native_bfloat16(monkeypatch, False)
    assert explain_float32("float32", CPU) is None
    assert str(explain_float32("bfloat16", CPU)).startswith(
        "train.precision = bfloat16, which this processor does not have"
    )
    assert "this GPU" in str(explain_float32("bfloat16", torch.device("cuda")))
    pretend_native_bfloat16(monkeypatch, True)
    assert explain_float32("bfloat16", CPU) is None
