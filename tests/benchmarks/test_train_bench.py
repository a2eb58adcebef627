"""Benchmarks of training: the compared programs do the same work, and the pages say what was measured."""

from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import train, train_row
from pellucid.data.batching import EncodedPairs, PackedSentences
from pellucid.model import ModelConfig, Transformer
from pellucid.model.dropout import Dropout
from tests.tolerances import assert_same_sums

SIZE: dict[str, Any] = {"d_model": 12, "d_ff": 14, "heads": 3, "encoder_layers": 3, "decoder_layers": 2}
VOCABULARY = 29


def make_sentences(number: int, vocabulary: int, seed: int) -> PackedSentences:
    random = np.random.default_rng(seed)
    starts = np.concatenate([[0], random.integers(2, 12, number).cumsum()])
    ids = random.integers(4, vocabulary, starts[-1])
    ids[starts[1:] - 1] = train_row.END
    return PackedSentences(ids, starts)


def make_pairs(number: int, vocabulary: int) -> EncodedPairs:
    return EncodedPairs(make_sentences(number, vocabulary, 1), make_sentences(number, vocabulary, 2))


ENCODER = {
    "self.qkv": "self_attn.in_proj",
    "self.output": "self_attn.out_proj",
    "self_residual.norm": "norm1",
    "ffn.inner": "linear1",
    "ffn.outer": "linear2",
    "ffn_residual.norm": "norm2",
}
CROSS = {"cross.qkv": "multihead_attn.in_proj", "cross.output": "multihead_attn.out_proj"}
DECODER = ENCODER | CROSS | {"cross_residual.norm": "norm2", "ffn_residual.norm": "norm3"}


def rename_weights(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Our weights by the names that torch's own network has for them."""
    renamed = {"table.weight": weights["output_embedding.weight"]}
    for name, weight in weights.items():
        stack, _, rest = name.partition(".")
        module, _, kind = rest.rpartition(".")
        layer, _, part = module.partition(".")
        if name.startswith(("encoder_norm.", "decoder_norm.")):
            renamed[f"inner.{stack.removesuffix('_norm')}.norm.{kind}"] = weight
        elif stack in ("encoder", "decoder"):
            theirs = (ENCODER if stack == "encoder" else DECODER)[part]
            renamed[f"inner.{stack}.layers.{layer}.{theirs}{'_' if theirs.endswith('in_proj') else '.'}{kind}"] = weight
    return renamed


@pytest.fixture
def task(tmp_path) -> dict:
    """Task of a row of the benchmark: thirty-one pairs to train on."""
    train.write_pairs(tmp_path / "pairs.npz", make_pairs(31, VOCABULARY))
    path = str(tmp_path / "pairs.npz")
    return {"vocabulary": VOCABULARY, "batch_tokens": 64, "seed": 1, "pairs": path}


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_torchs_own_network_begins_as_the_same_model():
    torch.manual_seed(1)
    ours = Transformer(ModelConfig(VOCABULARY, VOCABULARY, **SIZE)).eval()
    theirs = train_row.Plain(VOCABULARY, SIZE).eval()
    for parameter in ours.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    theirs.load_state_dict(rename_weights(ours.state_dict()) | {"positions": theirs.positions})
    source, target = (
        torch.from_numpy(train_row.pad([side[i] for i in range(5)]))
        for side in (make_sentences(5, VOCABULARY, 3), make_sentences(5, VOCABULARY, 4))
    )
    target_in = train_row.shift_right(target)
    is_token = target != train_row.PADDING
    assert_same_sums(theirs(source, target_in)[is_token], ours(source, target_in)[is_token])


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_torchs_own_network_has_dropout_where_ours_has_it():
    theirs = train_row.Plain(VOCABULARY, SIZE).modules()
    their_dropouts = [module for module in theirs if isinstance(module, torch.nn.Dropout) and module.p > 0]
    ours = Transformer(ModelConfig(VOCABULARY, VOCABULARY, **SIZE, dropout=0.1))
    our_dropouts = [module for module in ours.modules() if isinstance(module, Dropout) and module.rate > 0]
    assert len(their_dropouts) == len(our_dropouts) == 1 + 2 * SIZE["encoder_layers"] + 3 * SIZE["decoder_layers"]


def test_every_pair_is_in_one_batch_of_an_epoch_and_none_is_too_large(task):
    sources, targets = train_row.read_pairs(task)
    pairs, pieces = 0, 0
    for source, target in train_row.make_batches(task):
        assert target.numel() <= task["batch_tokens"]
        pairs, pieces = pairs + len(source), pieces + int((target != train_row.PADDING).sum())
        if pairs >= len(sources):
            break
    assert (pairs, pieces) == (31, sum(map(len, targets)))


def test_the_first_updates_are_not_timed(monkeypatch):
    clock = train_row.Clock({"started": 0.0, "seconds": 10.0})
    for now, tokens, over in ((7, 900, False), (8, 900, False), (20, 900, False), (25, 30, False), (31, 25, True)):
        monkeypatch.setattr(train_row.time, "time", lambda now=now: float(now))
        assert clock.count_update(tokens) is over
    assert (clock.result()["first"], clock.result()["speed"]) == (7.0, 5.0)


def test_ratios_are_to_the_fastest_peer_of_each_round_and_a_failure_is_named():
    rows: dict[train.Row, list] = {}
    for row in train.ROWS:
        speed = 40.0 if row.is_ours else {"x_transformers": 20.0}.get(row.peer, 10.0)
        speed *= 2 if row.precision == "bfloat16" else 1
        rows[row] = [{"speed": speed * drift, "first": 3.0, "peak": 2e9} for drift in (1, 2)]
    failing = next(row for row in train.ROWS if row.peer == "eole" and row.precision == "bfloat16")
    rows[failing][1] = "RuntimeError: no kernel"
    lines = train.table_lines(rows, flops=2.0, peaks={"float32": 800.0, "bfloat16": 1600.0})
    assert "| Pellucid | float32 | 60 (40-80) | 2.00 | 1.00 | 15% | 3.0 | 2.00 |" in lines
    assert "| Pellucid | bfloat16 | 120 (80-160) | 4.00 | 2.00 | 15% | 3.0 | 2.00 |" in lines
    assert any(line.startswith(f"| {failing.name} | bfloat16 | failed |") for line in lines)
    assert lines[-1].endswith("`RuntimeError: no kernel`")
