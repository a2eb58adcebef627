"""Benchmarks of training: the compared programs do the same work, and the pages say what was measured."""

import math
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import train, train_curves, train_levers, train_peers, train_row
from benchmarks.train_curves_row import Curve, begin_with
from pellucid.data.batching import EncodedPairs, PackedSentences
from pellucid.model import ModelConfig, Transformer
from pellucid.model.dropout import Dropout

SIZE: dict[str, Any] = {"d_model": 12, "d_ff": 14, "heads": 3, "encoder_layers": 3, "decoder_layers": 2}
VOCABULARY = 29


def make_sentences(number: int, vocabulary: int, seed: int) -> PackedSentences:
    random = np.random.default_rng(seed)
    starts = np.concatenate([[0], random.integers(2, 12, number).cumsum()])
    ids = random.integers(4, vocabulary, starts[-1])
    ids[starts[1:] - 1] = train_peers.END
    return PackedSentences(ids, starts)


def make_pairs(number: int, vocabulary: int) -> EncodedPairs:
    return EncodedPairs(make_sentences(number, vocabulary, 1), make_sentences(number, vocabulary, 2))


@pytest.fixture
def task(tmp_path) -> dict:
    """Task of a row of the benchmark: thirty-one pairs to train on and to measure with."""
    train.write_pairs(tmp_path / "pairs.npz", make_pairs(31, VOCABULARY))
    path = str(tmp_path / "pairs.npz")
    numbers = {
        "vocabulary": VOCABULARY,
        "batch_tokens": 64,
        "seed": 1,
        "every": 2,
        "updates": 4,
        "peak": 0.01,
        "warmup": 2,
    }
    return numbers | {"peer": "any", "pairs": path, "dev": path, "start": "", "size": SIZE, "precision": "float32"}


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_torchs_own_network_begins_as_the_same_model():
    torch.manual_seed(1)
    ours = Transformer(ModelConfig(VOCABULARY, VOCABULARY, **SIZE)).eval()
    theirs = train_peers.Plain(VOCABULARY, SIZE).eval()
    for parameter in ours.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    begin_with(theirs, ours.state_dict())
    source, target = (
        torch.from_numpy(train_peers.pad([side[i] for i in range(5)]))
        for side in (make_sentences(5, VOCABULARY, 3), make_sentences(5, VOCABULARY, 4))
    )
    target_in = train_peers.shift_right(target)
    is_token = target != train_peers.PADDING
    torch.testing.assert_close(
        theirs(source, target_in)[is_token], ours(source, target_in)[is_token], rtol=0, atol=1e-4
    )


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_torchs_own_network_has_dropout_where_ours_has_it():
    theirs = train_peers.Plain(VOCABULARY, SIZE).modules()
    their_dropouts = [module for module in theirs if isinstance(module, torch.nn.Dropout) and module.p > 0]
    ours = Transformer(ModelConfig(VOCABULARY, VOCABULARY, **SIZE, dropout=0.1))
    our_dropouts = [module for module in ours.modules() if isinstance(module, Dropout) and module.rate > 0]
    assert len(their_dropouts) == len(our_dropouts) == 1 + 2 * SIZE["encoder_layers"] + 3 * SIZE["decoder_layers"]


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("peer", ["pellucid", "nn_transformer"])
def test_a_curve_is_of_held_out_pairs_before_and_between_updates(task, peer):
    torch.manual_seed(1)
    curve = Curve(task)
    train_row.ROWS[peer](task, curve)
    assert (curve.updates, len(curve.losses)) == (4, 3)
    assert curve.losses[2] < curve.losses[0]


def test_the_loss_of_a_curve_is_the_cross_entropy_of_a_piece(task):
    curve = Curve(task)
    model = torch.nn.Identity()
    curve.takes(model, lambda source, target_in: torch.zeros(*target_in.shape, VOCABULARY))
    assert curve.losses == [pytest.approx(math.log(VOCABULARY))]
    assert [curve.rate(n) for n in (0, 1, 7)] == [0.005, 0.01, pytest.approx(0.005)]


def test_every_pair_is_in_one_batch_of_an_epoch_and_none_is_too_large(task):
    sources, targets = train_peers.read_pairs(task)
    pairs, pieces = 0, 0
    for source, target in train_peers.make_batches(task):
        assert target.numel() <= task["batch_tokens"]
        pairs, pieces = pairs + len(source), pieces + int((target != train_peers.PADDING).sum())
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


def test_the_page_of_curves_compares_seed_by_seed():
    *ours, peer, _ = train_curves.RUNS
    ends = {peer: (4.0, 5.0), ours[0]: (4.25, 4.5), ours[1]: (4.0, 5.0)}
    curves = {(name, seed): {"losses": [9.0, end[seed - 1]]} for name, end in ends.items() for seed in (1, 2)}
    assert train_curves.apart(curves) == [
        f"After the last update, {ours[0]} is -0.125 from {peer}.",
        f"After the last update, {ours[1]} is +0.000 from {peer}.",
    ]


def test_a_lever_changes_what_an_update_costs_and_not_what_it_does():
    batch = None
    losses = []
    exact_levers = [
        lever
        for lever in train_levers.LEVERS
        if not any(word in lever.name for word in ("bfloat16", "alike", "like", "masks"))
    ]
    assert len(exact_levers) == 5
    for lever in (None, *exact_levers):
        training = train_levers.Training("tiny", make_pairs(31, 100), dropout=0.0)
        batch = batch or next(training.alike)
        with ExitStack() as stack:
            stack.enter_context(train_levers.float32(training))
            if lever:
                stack.enter_context(lever.without(training))
            training.step(batch)
            result = train_levers.update.update_weights(
                training.model, training.optimizer, [batch], 1e-4, training.c, "float32"
            )
        losses.append(result.loss)
    assert losses == [pytest.approx(losses[0], rel=1e-5)] * 6
