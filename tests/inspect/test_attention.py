from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from pellucid.interpret.studies.attention_tables import (
    STAGES,
    attention_rollout,
    attention_row_as_sum,
    attention_table,
    mean_distance,
    reading_distances,
    rollout_table,
)
from pellucid.interpret.trace import Trace
from pellucid.interpret.trace.edits import attention_names
from tests.trace.traced import ball, small_traced

ATTENTIONS = attention_names(ball().config)


@cache
def long_trace() -> Trace:
    return small_traced().trace("zebra Ü 犬, the ball!", target="La bola es azul.")


@cache
def double_trace() -> Trace:
    return small_traced(double=True).trace("zebra Ü 犬, the ball!", target="La bola es azul.")


def with_patterns(trace: Trace, **patterns: np.ndarray) -> Trace:
    """A copy of a trace with other patterns: encoder_0_self=..."""
    tensors = {name: np.array(trace.values_of(name)) for name in trace}
    tensors |= {f"{name.replace('_', '.')}.pattern": pattern for name, pattern in patterns.items()}
    return Trace(replace(trace.facts), trace.config, tensors, trace.origin)


@pytest.mark.article("A24")
@pytest.mark.parametrize("name", ATTENTIONS)
@pytest.mark.parametrize("head", [None, 0, 2])
@pytest.mark.parametrize("pieces", [False, True])
def test_every_row_of_weights_sums_to_one(name: str, head: int | None, pieces: bool):
    assert attention_table(long_trace(), name, head, pieces=pieces).sums == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("name", ATTENTIONS)
def test_pieces_and_stages_are_those_of_the_trace(name: str):
    trace, head = ball(), 1
    for stage in STAGES:
        attention = attention_table(trace, name, head, stage=stage, pieces=True)
        values = trace.values_of(f"{name}.{stage}")[head]
        readable = np.isfinite(attention.values)
        np.testing.assert_allclose(attention.values[readable], values[readable], rtol=1e-12)
        assert readable.all() == (not (name.startswith("decoder") and name.endswith("self")))
    raw, scaled = (attention_table(trace, name, head, stage=stage).values for stage in ("products", "scores"))
    width = trace.config.d_model // trace.config.heads
    np.testing.assert_allclose(scaled * width**0.5, raw, rtol=1e-5)
    np.testing.assert_allclose(
        torch.from_numpy(np.nan_to_num(scaled, nan=-np.inf)).softmax(dim=-1).numpy(),
        np.nan_to_num(attention_table(trace, name, head, pieces=True).values),
        atol=1e-6,
    )


@pytest.mark.article("D10", "X30")
def test_the_decoder_shows_no_future():
    trace = long_trace()
    for pieces in (False, True):
        attention = attention_table(trace, "decoder.1.self", 0, pieces=pieces)
        future = np.triu(np.ones_like(attention.values, dtype=bool), k=1)
        assert np.isnan(attention.values[future]).all()
        assert np.isfinite(attention.values[~future]).all()
        assert np.isfinite(attention_table(trace, "decoder.1.cross", 0, pieces=pieces).values).all()


@pytest.mark.article("A3")
def test_the_mean_is_the_mean_of_the_heads():
    trace = long_trace()
    heads = [attention_table(trace, "encoder.1.self", head).values for head in range(3)]
    np.testing.assert_allclose(attention_table(trace, "encoder.1.self").values, np.mean(heads, axis=0))


@pytest.mark.article("B23", "D5", "D6")
@pytest.mark.parametrize("name", ATTENTIONS)
@pytest.mark.parametrize("pieces", [False, True])
def test_the_terms_sum_to_what_the_model_computed(name: str, pieces: bool):
    trace = double_trace()
    for word in ("ball", "zebra") if name.startswith("encoder") else ("bola", "azul"):
        for head in (None, 0, 1):
            row_sum = attention_row_as_sum(trace, name, word, head, pieces=pieces)
            assert row_sum.error < 1e-12
            assert sum(term.weight for term in row_sum.terms) == pytest.approx(1.0)
            assert sum(term.share for term in row_sum.terms) == pytest.approx(1.0)
            assert row_sum.norm <= sum(term.norm for term in row_sum.terms) + 1e-12
            for term in row_sum.terms:
                assert term.value is not None
                assert term.norm == pytest.approx(term.weight * term.value)


def test_the_value_of_a_piece_is_as_long_as_the_value_the_model_made():
    trace = ball()
    row_sum = attention_row_as_sum(trace, "encoder.0.self", "blue", 2, pieces=True)
    lengths = np.linalg.norm(trace.values_of("encoder.0.self.v")[2], axis=-1)
    assert [term.value for term in row_sum.terms] == pytest.approx(lengths, rel=1e-5)


def test_a_wrong_value_does_not_sum_to_the_head_s_output():
    trace = ball()
    tensors = {name: np.array(trace.values_of(name)) for name in trace}
    tensors["encoder.0.self.v"][:, 0] += 1.0
    wrong = Trace(replace(trace.facts), trace.config, tensors, trace.origin)
    assert attention_row_as_sum(wrong, "encoder.0.self", "blue", 0).error > 1e-3
    assert attention_row_as_sum(trace, "encoder.0.self", "blue", 0).error < 1e-5


def test_a_sum_has_no_future_terms():
    row_sum = attention_row_as_sum(long_trace(), "decoder.0.self", "es", 0)
    assert [term.label for term in row_sum.terms] == ["<s>", "La", "bola", "es"]


@pytest.mark.article("C28")
@pytest.mark.parametrize("name", [name for name in ATTENTIONS if name.endswith("self")])
def test_rows_of_rollout_sum_to_one(name: str):
    trace = long_trace()
    assert attention_rollout(trace, name).sum(axis=1) == pytest.approx(1.0, abs=1e-6)
    assert rollout_table(trace, name).sums == pytest.approx(1.0, abs=1e-6)
    assert rollout_table(trace, name, pieces=True).values[0, 0] > 0.0


@pytest.mark.article("C28")
def test_rollout_by_hand():
    trace = ball()
    length, heads = len(trace.source.ids), trace.config.heads
    before = np.roll(np.eye(length), 1, axis=0)  # each position reads the one before it, the first the last
    last = np.zeros((length, length))
    last[:, -1] = 1.0
    first_layer, second_layer = (np.repeat(pattern[None], heads, axis=0) for pattern in (before, last))
    rollout = attention_rollout(
        with_patterns(trace, encoder_0_self=first_layer, encoder_1_self=second_layer), "encoder.1.self"
    )
    for i in range(length):
        expected = np.zeros(length)  # half stays, of which half is from before; half comes from the last, likewise
        expected[i] += 0.25
        expected[i - 1] += 0.25
        expected[-1] += 0.25
        expected[-2] += 0.25
        assert rollout[i] == pytest.approx(expected)
    untouched = with_patterns(trace, encoder_0_self=np.repeat(np.eye(length)[None], heads, axis=0))
    assert attention_rollout(untouched, "encoder.0.self") == pytest.approx(np.eye(length))


@pytest.mark.article("C28")
def test_distances_by_hand():
    distances = np.abs(np.subtract.outer(range(4), range(4)))
    assert mean_distance(np.eye(4), distances) == 0.0
    assert mean_distance(np.eye(4, k=1) + np.eye(4, k=-3), distances) == pytest.approx((1 + 1 + 1 + 3) / 4)
    # the mean of |i - j|, whatever its mass
    assert mean_distance(np.full((4, 4), 0.1), distances) == pytest.approx(1.25)
    assert mean_distance(np.zeros((4, 4)), distances) is None


def test_heads_that_read_a_neighbour_are_one_piece_away():
    trace = ball()
    length = len(trace.source.ids) - 1  # the end token reads and is read, and does not count
    pattern = np.zeros((3, length + 1, length + 1))
    pattern[0, :, -1] = 1.0
    pattern[1, range(length), range(length)] = 1.0
    pattern[2, 1:length, : length - 1] = np.eye(length - 1)
    encoder = reading_distances(with_patterns(trace, encoder_0_self=pattern), "encoder")
    assert encoder[0].heads == [None, 0.0, 1.0]
    assert encoder[0].mean == 0.5
    assert [attention.attention for attention in encoder] == ["encoder.0.self", "encoder.1.self"]
    assert encoder[1].even == pytest.approx(np.abs(np.subtract.outer(range(length), range(length))).mean())
    decoder = reading_distances(trace, "decoder")
    rows = len(trace.inputs.ids) - 1
    assert decoder[0].even == pytest.approx(np.mean([np.mean(range(n + 1)) for n in range(rows)]))


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda t: attention_table(t, "encoder.7.self"),
            "'encoder.7.self' is no attention of this model; did you mean",
        ),
        (lambda t: attention_table(t, "encoder.0.self", 3), "encoder.0.self has heads 0 to 2; head 3 is none"),
        (lambda t: attention_table(t, "encoder.0.self", 0, stage="softmax"), "it must be products, scores, pattern"),
        (lambda t: attention_table(t, "encoder.0.self", stage="scores"), "scores are looked at head by head"),
        (lambda t: attention_row_as_sum(t, "encoder.0.self", "red"), "'red' is not here"),
        (lambda t: attention_row_as_sum(t, "encoder.0.self", "blue", -1), "head -1 is none"),
        (lambda t: attention_rollout(t, "decoder.0.cross"), "decoder.0.cross joins two"),
    ],
)
def test_unknown_names_are_refused(ask, message: str):
    with pytest.raises(ValueError, match=r".") as raised:
        ask(ball())
    assert message in str(raised.value)
