"""Runs with BPE dropout and R-Drop."""

from pathlib import Path

import pytest

from pellucid.data.stream import Stream
from pellucid.train import loop
from pellucid.train.data import read_data
from pellucid.train.loop import train_run
from pellucid.train.shard_writing import prepare_shards
from tests.laws.runs import assert_same_end, read_weights, same_weights, train_until
from tests.train.corpora import small_run


def test_a_regularised_run_resumes_to_the_bit_and_shards_are_the_same_run(tmp_path, monkeypatch):
    changes = {"model": {"dropout": 0.2}, "optim": {"r_drop": 5.0}, "train": {"batch_tokens": 401}}
    run = small_run(tmp_path / "data", **changes, data={"bpe_dropout": 0.1})
    train_run(run, tmp_path / "undisturbed")
    train_until(7, run, tmp_path / "broken", monkeypatch)
    train_run(run, tmp_path / "broken", resume=True)
    assert_same_end(tmp_path / "undisturbed", tmp_path / "broken")
    shards = str(tmp_path / "shards")
    sharded = small_run(tmp_path / "data", **changes, data={"bpe_dropout": 0.1, "shards": shards})
    prepare_shards(sharded, Path(shards), workers=1, say=lambda _: None)
    train_run(sharded, tmp_path / "from shards")
    assert same_weights(read_weights(tmp_path / "undisturbed/last"), read_weights(tmp_path / "from shards/last"))
    plain = small_run(tmp_path / "data", **changes)
    train_run(plain, tmp_path / "plain")
    assert not same_weights(read_weights(tmp_path / "undisturbed/last"), read_weights(tmp_path / "plain/last"))


def test_dropout_rises_with_the_epochs_and_a_resumed_run_knows_how_far(tmp_path, monkeypatch):
    rates = []
    real_update = loop.update_weights

    def record_rates(model, *arguments):
        rates.append((model.dropout.rate, model.encoder[0].self.dropout.rate))
        return real_update(model, *arguments)

    monkeypatch.setattr(loop, "update_weights", record_rates)
    changes = {"model": {"dropout": 0.2, "attention_dropout": 0.1}, "train": {"batch_tokens": 401, "accumulate": 2}}
    run = small_run(tmp_path / "data", **changes, optim={"dropout_rise": 1.0})
    train_run(run, tmp_path / "undisturbed")
    epoch = Stream(read_data(run).encoded, run.train.batch_tokens, run.seed).batches_per_epoch / 2
    assert run.train.steps == len(rates) > epoch
    for step, recorded in enumerate(rates):
        assert recorded == pytest.approx((0.2 * min(step / epoch, 1), 0.1 * min(step / epoch, 1)))

    undisturbed_rates = list(rates)
    train_until(7, run, tmp_path / "broken", monkeypatch)
    rates.clear()
    train_run(run, tmp_path / "broken", resume=True)
    assert 0 < len(rates) < len(undisturbed_rates)
    assert rates == undisturbed_rates[-len(rates) :]
    assert_same_end(tmp_path / "undisturbed", tmp_path / "broken")


def test_rising_dropout_is_refused_for_compiled_layers(tmp_path):
    with pytest.raises(ValueError, match=r"optim.dropout_rise changes the layers at every update"):
        small_run(tmp_path, optim={"dropout_rise": 1.0}, train={"compile": True})
    with pytest.raises(ValueError, match=r"optim.dropout_rise is -1.0, it must be 0 or more"):
        small_run(tmp_path, optim={"dropout_rise": -1.0})


def test_bpe_dropout_needs_bpe_and_r_drop_needs_dropout(tmp_path):
    with pytest.raises(ValueError, match="'unigram' has none"):
        small_run(tmp_path, tokenizer={"kind": "unigram"}, data={"bpe_dropout": 0.1})
    with pytest.raises(ValueError, match=r"bpe_dropout is 1\.5"):
        small_run(tmp_path, data={"bpe_dropout": 1.5})
    with pytest.raises(ValueError, match="two passes with other dropout"):
        small_run(tmp_path, model={"dropout": 0.0}, optim={"r_drop": 5.0})
    assert read_data(small_run(tmp_path)).encoded.recut is None
