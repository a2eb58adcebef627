"""Tests of watchers: which tensors are recorded, which are edited, and the messages about unknown names."""

import re

import pytest
import torch

from pellucid.interpret.trace import Chain, Edit, Record
from tests.model.models import sentences, small_model

SOURCE, TARGET = sentences([11, 5]), sentences([7, 3])


def test_a_record_keeps_the_tensors_that_match_a_pattern():
    model = small_model()
    record = Record(only="decoder.*.cross.pattern")
    model(SOURCE, TARGET, watch=record)
    assert list(record) == ["decoder.0.cross.pattern", "decoder.1.cross.pattern"]
    assert len(record) == 2
    assert "logits" not in record
    outputs = Record(only=("logits", "memory"))
    model(SOURCE, TARGET, watch=outputs)
    assert list(outputs) == ["memory", "logits"]


def test_a_record_copies_its_tensors():
    model = small_model()
    record = Record()
    logits = model(SOURCE, TARGET, watch=record)
    assert not record["logits"].requires_grad
    expected = logits.detach().clone()
    logits.detach().zero_()
    assert torch.equal(record["logits"], expected)


def test_recording_a_name_again_replaces_its_value():
    record = Record()
    record("logits", torch.zeros(2))
    record("logits", torch.ones(3))
    assert record["logits"].tolist() == [1, 1, 1]


def test_a_name_that_was_not_recorded_is_answered_with_the_nearest():
    record = Record()
    small_model()(SOURCE, TARGET, watch=record)
    with pytest.raises(
        KeyError, match=r"'decoder.1.cros.patern' was not recorded; did you mean 'decoder.1.cross.pattern'"
    ):
        record["decoder.1.cros.patern"]
    with pytest.raises(KeyError, match=r"'qqqq' was not recorded\W*$"):
        record["qqqq"]


def test_an_edit_that_matches_nothing_is_answered_with_the_nearest():
    edit = Edit({"decoder.0.self.v": torch.zeros_like, "decoder.7.cross.pattern": torch.zeros_like, "qqqq": torch.sin})
    small_model()(SOURCE, TARGET, watch=edit)
    with pytest.raises(ValueError, match=re.escape("did you mean 'decoder.1.cross.pattern'?; 'qqqq' fits nothing")):
        edit.require_used()


def test_an_edit_that_matches_is_used():
    edit = Edit({"encoder.*.head_output": torch.zeros_like})
    small_model()(SOURCE, TARGET, watch=edit)
    edit.require_used()


def test_an_edit_keeps_the_shape_and_the_type():
    message = (
        "the edit of memory made torch.float32 (2, 10, 30) of torch.float64 (2, 11, 30); it must keep shape and type"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        small_model()(SOURCE, TARGET, watch=Edit({"memory": lambda x: x[:, 1:].float()}))


def test_a_chain_records_the_effects_of_an_edit():
    model = small_model()
    before, after, plain = Record(), Record(), Record()
    edit = Edit({"decoder.0.self_residual.sum": lambda x: -x})
    model(SOURCE, TARGET, watch=plain)
    model(SOURCE, TARGET, watch=Chain(before, edit, after))
    name = "decoder.0.self_residual.sum"
    assert torch.equal(before[name], plain[name])
    assert torch.equal(after[name], -plain[name])
    assert torch.equal(after["memory"], plain["memory"])
    assert not torch.equal(after["logits"], plain["logits"])
