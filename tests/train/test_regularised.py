"""Runs with BPE dropout and R-Drop."""

from pathlib import Path

import pytest

from pellucid.train.data import read_data
from pellucid.train.loop import train
from pellucid.train.prepare import prepare
from tests.laws.runs import assert_same_end, same, train_until, weights
from tests.train.corpora import small_run


def test_a_regularised_run_resumes_to_the_bit_and_shards_are_the_same_run(tmp_path, monkeypatch):
    changes = {"model": {"dropout": 0.2}, "optim": {"r_drop": 5.0}, "train": {"batch_tokens": 401}}
    run = small_run(tmp_path / "data", **changes, data={"bpe_dropout": 0.1})
    train(run, tmp_path / "undisturbed")
    train_until(7, run, tmp_path / "broken", monkeypatch)
    train(run, tmp_path / "broken", resume=True)
    assert_same_end(tmp_path / "undisturbed", tmp_path / "broken")
    shards = str(tmp_path / "shards")
    sharded = small_run(tmp_path / "data", **changes, data={"bpe_dropout": 0.1, "shards": shards})
    prepare(sharded, Path(shards), workers=1, say=lambda _: None)
    train(sharded, tmp_path / "from shards")
    assert same(weights(tmp_path / "undisturbed/last"), weights(tmp_path / "from shards/last"))
    plain = small_run(tmp_path / "data", **changes)
    train(plain, tmp_path / "plain")
    assert not same(weights(tmp_path / "undisturbed/last"), weights(tmp_path / "plain/last"))


def test_only_a_bpe_has_merges_and_only_dropout_two_passes(tmp_path):
    with pytest.raises(ValueError, match="'unigram' has none"):
        small_run(tmp_path, tokenizer={"kind": "unigram"}, data={"bpe_dropout": 0.1})
    with pytest.raises(ValueError, match=r"bpe_dropout is 1\.5"):
        small_run(tmp_path, data={"bpe_dropout": 1.5})
    with pytest.raises(ValueError, match="two passes with other dropout"):
        small_run(tmp_path, model={"dropout": 0.0}, optim={"r_drop": 5.0})
    assert read_data(small_run(tmp_path)).encoded.anew is None
