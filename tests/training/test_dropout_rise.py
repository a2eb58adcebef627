"""Runs whose dropout rises with the epochs."""

import pytest

from pellucid.data.stream import Stream
from pellucid.training import loop
from pellucid.training.data import read_data
from pellucid.training.loop import train_run
from tests.laws.runs import assert_same_end, train_until
from tests.training.corpora import small_run


def test_dropout_rises_with_the_epochs_and_a_resumed_run_knows_how_far(tmp_path, monkeypatch):
    rates = []
    real_update = loop.update_within_memory

    def record_rates(model, *arguments):
        rates.append((model.dropout.rate, model.encoder[0].self.dropout.rate))
        return real_update(model, *arguments)

    monkeypatch.setattr(loop, "update_within_memory", record_rates)
    changes = {"model": {"dropout": 0.2, "attention_dropout": 0.1}, "train": {"batch_tokens": 401, "accumulate": 2}}
    run = small_run(tmp_path / "data", **changes, optim={"dropout_rise": 1.0})
    train_run(run, tmp_path / "undisturbed")
    epoch = len(Stream(read_data(run).encoded, run.train.batch_tokens, run.seed).order) / 2
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


def test_rising_dropout_takes_a_number_of_epochs(tmp_path):
    with pytest.raises(ValueError, match=r"'optim.dropout_rise' is -1.0: it must be greater than or equal to 0"):
        small_run(tmp_path, optim={"dropout_rise": -1.0})
