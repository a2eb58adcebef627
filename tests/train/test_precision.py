"""What the products of training are made in."""

import pytest
import torch

from pellucid.train import precision
from pellucid.train.log import read_log
from pellucid.train.loop import train_run
from pellucid.train.precision import autocast_products, explain_float32
from tests.train.corpora import small_run

CPU = torch.device("cpu")


def built_in(monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    monkeypatch.setattr(precision, "has_native_bfloat16", lambda device: there)


@pytest.mark.parametrize(
    ("asked", "there", "made_in"),
    [
        ("bfloat16", True, torch.bfloat16),
        ("bfloat16", False, torch.float32),
        ("float32", True, torch.float32),
        ("float32", False, torch.float32),
    ],
)
def test_products_are_in_bfloat16_where_that_is_asked_for_and_built_in(monkeypatch, asked, there, made_in):
    built_in(monkeypatch, there)
    with autocast_products(asked, CPU):
        assert (torch.ones(3, 3) @ torch.ones(3, 3)).dtype == made_in


def test_a_run_that_asks_for_what_the_processor_does_not_have_says_so_and_is_one_in_float32(
    tmp_path, monkeypatch, capsys
):
    built_in(monkeypatch, False)
    losses = {}
    for asked in ("float32", "bfloat16"):
        train_run(small_run(tmp_path / "data", train={"precision": asked}), tmp_path / asked)
        said = capsys.readouterr().err.count("products are made in float32")
        assert said == (asked == "bfloat16")
        losses[asked] = [row["loss"] for row in read_log(tmp_path / asked / "log.jsonl") if "loss" in row]
    assert losses["float32"] == losses["bfloat16"]


def test_what_is_taken_in_its_place_is_said_only_where_something_is(monkeypatch):
    built_in(monkeypatch, False)
    assert explain_float32("float32", CPU) is None
    assert str(explain_float32("bfloat16", CPU)).startswith(
        "train.precision = bfloat16, which this processor does not have"
    )
    assert "this GPU" in str(explain_float32("bfloat16", torch.device("cuda")))
    built_in(monkeypatch, True)
    assert explain_float32("bfloat16", CPU) is None
