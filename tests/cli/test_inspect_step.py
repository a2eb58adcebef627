"""`pellucid inspect step` on checkpoints after one update, whose steps can be computed by hand."""

import json
from pathlib import Path
from typing import Literal

import pytest
import torch
from torch import Tensor

from pellucid.data.corpus import SentencePairs
from pellucid.data.stream import Stream, encode_pairs
from pellucid.training.checkpoint import TrainState, checkpoint_path, save_state
from pellucid.training.config import OptimConfig
from pellucid.training.optimizer import MOMENTUM, cut_blocks, make_optimizer
from tests.decode.models import random_model, small_tokenizer

QKV, OUTER = "encoder.0.self.qkv.weight", "decoder.0.ffn.outer.weight"


def save_one_update(run: Path, kind: Literal["adam", "muon"]) -> dict[str, Tensor]:
    """Write the checkpoint of a run after one update with drawn gradients; return the gradients by name."""
    tokenizer = small_tokenizer()
    model = random_model(1, tokenizer.source_vocabulary, tokenizer.source_vocabulary)
    optimizer = make_optimizer(model, OptimConfig(kind=kind))
    generator = torch.Generator().manual_seed(5)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    optimizer.step()
    encoded, _ = encode_pairs(SentencePairs.from_lists(["a"], ["b"]), tokenizer, limit=8)
    state = TrainState(model, optimizer, Stream(encoded, 64, seed=1))
    save_state(state, tokenizer, checkpoint_path(run, 1), step=1)
    return {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}


def read_rows(result) -> list[dict]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_muons_step_is_equally_strong_in_every_direction_of_each_heads_projections(call, tmp_path):
    gradients = save_one_update(tmp_path / "run", "muon")
    rows = read_rows(call("inspect", "step", "run", "--tensor", QKV, "--json"))
    assert [row["name"] for row in rows] == [
        f"{what} of head {head}" for what in ("queries", "keys", "values") for head in (0, 1)
    ]
    for row, block in zip(rows, cut_blocks(gradients[QKV], 6, 1), strict=True):
        assert row["optimizer"] == "muon"
        assert row["gradient"] == pytest.approx((torch.linalg.svdvals(block) * (1 - MOMENTUM)).tolist(), rel=1e-4)
        assert row["step"] == pytest.approx([1.0] * len(row["step"]), abs=0.15)


def test_adams_first_step_is_the_sign_of_each_number(call, tmp_path):
    gradients = save_one_update(tmp_path / "run", "adam")
    [row] = read_rows(call("inspect", "step", "run", "--tensor", OUTER, "--json"))
    c = OptimConfig()
    size = (1 - c.beta1) / (1 - c.beta2) ** 0.5
    assert (row["name"], row["optimizer"]) == ("all", "adam")
    assert row["step"] == pytest.approx((torch.linalg.svdvals(gradients[OUTER].sign()) * size).tolist(), rel=1e-3)


def test_the_table_counts_directions_and_a_figure_is_drawn(call, tmp_path):
    save_one_update(tmp_path / "run", "muon")
    result = call("inspect", "step", "run", "--plot", "step.png")
    assert result.stdout.startswith(
        f"{OUTER} in step-00000001: the running mean of its gradients, and the step of Muon\n"
    )
    # The random matrix has 6 directions, and nine tenths of the square need all of them where all are equally strong.
    assert result.stdout.rstrip().endswith("6 of 6")
    assert (tmp_path / "step.png").read_bytes().startswith(b"\x89PNG")


def test_what_has_no_step_is_refused_with_what_has_one(refuse, model, tmp_path):
    save_one_update(tmp_path / "run", "muon")
    for words, message in (
        ((model,), "is neither the directory of a run with checkpoints nor a checkpoint"),
        (("run", "--tensor", "source_embedding.weight"), f"is not a matrix of a layer; the first layers have {QKV}, "),
        (("run", "--tensor", "nothing"), "nothing is not a matrix of a layer"),
    ):
        assert message in refuse("inspect", "step", *words)
