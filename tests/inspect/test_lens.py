import numpy as np
import pytest
import torch

from pellucid.api import Model
from pellucid.interpret.studies.lens import early_logits, logit_lens, residual_tensors
from pellucid.interpret.trace.session import Trace
from tests.tolerances import approx_sum
from tests.trace.copying import copying_model, word_tokenizer
from tests.trace.traced import ball, small_traced


def trace_for_lens(model: Model, sentence: str = "The ball is blue.") -> Trace:
    """Trace a sentence with the tensors that the lens needs, and no more."""
    return model.trace(sentence, keep=[*residual_tensors(model.bundle.model.config).values(), "logits"])


@pytest.mark.article("B37")
@pytest.mark.parametrize("norm", ["pre", "post", "rms"])
@pytest.mark.parametrize("tie", ["all", "none"])
def test_the_last_layer_says_what_the_model_says(norm: str, tie: str):
    model = small_traced(norm=norm, tie=tie)
    trace = trace_for_lens(model)
    tensors = residual_tensors(model.bundle.model.config)
    assert list(tensors) == ["input", "layer 0", "layer 1", "layer 2"]
    last = early_logits(model.bundle.model, trace.values_of(tensors["layer 2"])).numpy()
    assert last == approx_sum(trace.values_of("logits"))
    lens = logit_lens(trace, count=4)
    for cell, step in zip(lens.rows[-1], trace.steps, strict=True):
        assert [piece.id for piece in cell.top] == [piece.id for piece in step.top[:4]]
        assert [piece.prob for piece in cell.top] == pytest.approx([piece.prob for piece in step.top[:4]], rel=1e-5)
        assert (cell.rank, cell.divergence) == (step.rank, 0.0)
        assert cell.prob == pytest.approx(step.chosen.prob, rel=1e-5)
        assert cell.entropy == pytest.approx(step.entropy, rel=1e-4, abs=1e-6)


def test_a_row_is_the_norm_and_the_output_by_hand():
    trace = ball()
    model = small_traced().bundle.model
    weight, bias = (trace.parameter(f"decoder_norm.{name}").astype(float) for name in ("weight", "bias"))
    output, shift = (trace.parameter(name).astype(float) for name in ("output_embedding.weight", "output_bias"))
    stream = trace.values_of("decoder.1.ffn_residual.sum").astype(float)
    centred = stream - stream.mean(axis=1, keepdims=True)
    normal = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5) * weight + bias
    logits = normal @ output.T + shift
    assert early_logits(model, trace.values_of("decoder.1.ffn_residual.sum")).numpy() == approx_sum(logits)
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs /= probs.sum(axis=1, keepdims=True)
    row = logit_lens(trace).rows[2]
    ids = trace.target.ids
    assert [cell.prob for cell in row] == pytest.approx([probs[t, i] for t, i in enumerate(ids)], rel=1e-3)
    assert [cell.rank for cell in row] == [1 + int((logits[t] > logits[t, i]).sum()) for t, i in enumerate(ids)]
    last = trace.values_of("logits").astype(float)
    last = np.exp(last - last.max(axis=1, keepdims=True))
    last /= last.sum(axis=1, keepdims=True)
    divergence = (last * np.log(last / probs)).sum(axis=1)
    assert [cell.divergence for cell in row] == pytest.approx(divergence, rel=1e-3, abs=1e-5)


def test_a_layer_that_adds_nothing_repeats_the_one_before():
    model = small_traced()
    layer = model.bundle.model.decoder[2]
    with torch.no_grad():
        for name in ("self.output", "cross.output", "ffn.outer"):
            layer.get_parameter(f"{name}.weight").zero_()
            layer.get_parameter(f"{name}.bias").zero_()
    lens = logit_lens(trace_for_lens(model))
    assert lens.rows[3] == lens.rows[2] != lens.rows[1]


def test_a_piece_is_settled_once_it_stays_first():
    lens = logit_lens(ball())
    for step, place in enumerate(lens.settled):
        ranks = [row[step].rank for row in lens.rows]
        expected = next((n for n in range(4) if set(ranks[n:]) == {1}), None)
        assert place == (None if expected is None else lens.places[expected])


def test_a_model_that_learned_to_copy_settles_at_its_last_layer():
    from pathlib import Path

    from pellucid.decode.translator import Translator
    from pellucid.store.directory import Bundle

    bundle = Bundle(copying_model(), word_tokenizer(), {}, Path("runs/copy/best"))
    lens = logit_lens(trace_for_lens(Model(bundle, Translator(bundle.model, bundle.tokenizer)), "kima lopu tesa"))
    assert lens.written == ["▁kima", "▁lopu", "▁tesa", "</s>"]
    assert lens.settled == ["layer 0"] * 4
    assert [cell.top[0].piece for cell in lens.rows[-1]] == lens.written


def test_a_lens_needs_its_tensors():
    with pytest.raises(ValueError, match="was not captured"):
        logit_lens(small_traced().trace("Yes.", keep="logits"))
    with pytest.raises(ValueError, match="count is 0"):
        logit_lens(ball(), count=0)
