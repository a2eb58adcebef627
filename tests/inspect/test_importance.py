import math

import numpy as np
import pytest
import torch

from pellucid.decode.scoring import score_pairs
from pellucid.decode.torch_models import inference_only
from pellucid.decode.translator import Translator
from pellucid.interpret.studies import importance
from pellucid.interpret.studies.importance import (
    Head,
    gate_heads,
    list_heads,
    pair_losses,
    silence_in_weights,
    silence_watcher,
)
from pellucid.interpret.studies.pattern_measures import study_batches
from pellucid.interpret.trace.edits import Edit, attention_names
from pellucid.model import Transformer
from tests.decode.models import small_tokenizer
from tests.inspect.studied import SOURCES, TARGETS, small_pairs
from tests.trace.traced import small_traced


def model_and_pairs(**options):
    model = small_traced(**options).bundle.model
    return model, small_pairs(model.config)


def zero_head(model: Transformer, head: Head) -> None:
    width = model.config.d_model // model.config.heads
    with torch.no_grad():
        weight = model.get_parameter(f"{head.attention}.output.weight")
        weight[:, head.number * width : (head.number + 1) * width] = 0.0


def losses_with_factor(model: Transformer, pairs, head: Head, factor: float) -> np.ndarray:
    """Loss of each pair, a piece, with one head times a factor."""
    losses = np.zeros(len(pairs))
    with inference_only(model):
        for batch in study_batches(pairs, model.config, torch.device("cpu")):
            ones = torch.ones(len(batch.numbers), model.config.heads, dtype=model.output_embedding.weight.dtype)
            ones[:, head.number] = factor
            watch = gate_heads({head.attention: ones})
            summed = importance.batch_losses(model, model.encode(batch.source.ids, watch), batch, watch)
            losses[batch.numbers] = (summed / batch.target_out.not_padding.sum(dim=1)).numpy()
    return losses


def test_the_loss_is_that_of_scoring():
    model, pairs = model_and_pairs(double=True)
    scores = score_pairs(Translator(model, small_tokenizer()), SOURCES, TARGETS, batch=2)
    [losses] = pair_losses(model, pairs, [()])
    assert losses == pytest.approx([-score.log_prob for score in scores], rel=1e-5)
    assert pairs.pieces == sum(len(score.pieces) for score in scores)


def test_factors_of_one_change_no_bit():
    model, pairs = model_and_pairs()
    names = attention_names(model.config)
    for batch in study_batches(pairs, model.config, torch.device("cpu")):
        ones = {name: torch.ones(len(batch.numbers), model.config.heads) for name in names}
        with inference_only(model):
            runs = [
                model(batch.source.ids, batch.target_in.ids, watch)
                for watch in (Edit({}), silence_watcher([]), gate_heads(ones))
            ]
        assert all(torch.equal(runs[0], run) for run in runs[1:])


def test_a_head_that_is_not_read_has_no_importance():
    model, pairs = model_and_pairs()
    for head in (Head("encoder.1.self", 2), Head("decoder.0.self", 1), Head("decoder.2.cross", 0)):
        zero_head(model, head)
        base, silent = pair_losses(model, pairs, [(), [head]])
        assert np.array_equal(base, silent)
        assert importance.loss_change(base, silent, pairs.pieces).value == 0.0
        assert np.all(importance.head_gradients(model, pairs)[:, list_heads(model.config).index(head)] == 0.0)


@pytest.mark.parametrize(
    ("options", "step"),
    [
        ({"activation": "gelu"}, 1e-3),
        ({"activation": "gelu", "norm": "post"}, 1e-3),
        ({"activation": "swiglu", "positions": "rotary", "tie": "all"}, 1e-3),
        ({"activation": "relu"}, 1e-6),  # small, because a unit that starts to answer makes a bend
    ],
)
def test_gradients_are_finite_differences(options, step: float):
    model, pairs = model_and_pairs(double=True, **options)
    gradients = importance.head_gradients(model, pairs)
    for head in (Head("encoder.0.self", 1), Head("decoder.1.self", 0), Head("decoder.2.cross", 2)):
        up, down = (losses_with_factor(model, pairs, head, 1 + sign * step) for sign in (1, -1))
        slope = (up - down) / (2 * step)
        column = gradients[:, list_heads(model.config).index(head)]
        assert np.abs(column - slope).max() <= 1e-4 * np.abs(slope).max()
    expected = np.abs(gradients).mean(axis=0)
    assert expected == pytest.approx([np.mean([abs(row[n]) for row in gradients]) for n in range(len(expected))])


def test_gradients_leave_the_model_as_it_was():
    model, pairs = model_and_pairs()
    model.train()
    first = next(model.parameters()).requires_grad_(False)
    importance.head_gradients(model, pairs)
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert [parameter.requires_grad for parameter in model.parameters()] == [
        parameter is not first for parameter in model.parameters()
    ]


def test_factor_zero_and_zero_weights_are_silence():
    model, pairs = model_and_pairs(double=True)
    heads = [
        Head("encoder.0.self", 2),
        Head("encoder.1.self", 0),
        Head("decoder.1.cross", 1),
        Head("decoder.2.self", 0),
    ]
    losses = pair_losses(model, pairs, [[head] for head in heads])
    for head, silent in zip(heads, losses, strict=True):
        a_piece = [loss / len(ids) for loss, (ids, _) in zip(silent, pairs.targets, strict=True)]
        assert losses_with_factor(model, pairs, head, 0.0) == pytest.approx(a_piece, rel=1e-12)
        [weightless] = pair_losses(silence_in_weights(model, [head]), pairs, [()])
        assert weightless == pytest.approx(silent, rel=1e-12)
    [together], [weightless] = (
        pair_losses(model, pairs, [heads]),
        pair_losses(silence_in_weights(model, heads), pairs, [()]),
    )
    assert weightless == pytest.approx(together, rel=1e-12)


def test_a_silent_copy_shares_all_other_weights():
    model, _ = model_and_pairs(tie="all")
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    copy = silence_in_weights(model, [Head("decoder.0.cross", 1)])
    assert all(torch.equal(parameter, before[name]) for name, parameter in model.named_parameters())
    copied = [name for name, parameter in copy.named_parameters() if parameter is not model.get_parameter(name)]
    assert copied == ["decoder.0.cross.output.weight"]
    assert copy.source_embedding is not model.source_embedding
    assert copy.source_embedding.weight is copy.output_embedding.weight


def test_variants_are_independent():
    model, pairs = model_and_pairs()
    heads = list_heads(model.config)
    variants = [heads[:1], heads[-2:], heads[:4], heads[3:9], (), heads[:1] + heads[-2:], heads, ()]
    together = pair_losses(model, pairs, variants)
    for variant, row in zip(variants, together, strict=True):
        assert np.array_equal(row, pair_losses(model, pairs, [variant])[0])
    assert len({row.sum() for row in together}) == len(variants) - 1


def test_neighbours_in_a_batch_change_nothing(monkeypatch):
    model, pairs = model_and_pairs(double=True)
    heads = list_heads(model.config)[::5]
    together = pair_losses(model, pairs, [[head] for head in heads]), importance.head_gradients(model, pairs)
    monkeypatch.setattr("pellucid.interpret.studies.pattern_measures.NUMBERS_PER_BATCH", 1)
    one_by_one = pair_losses(model, pairs, [[head] for head in heads]), importance.head_gradients(model, pairs)
    for a, b in zip(together, one_by_one, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_the_error_of_a_change_by_hand():
    change = importance.loss_change(np.array([1.0, 2.0, 3.0]), np.array([1.5, 2.0, 4.0]), pieces=10)
    assert change.value == pytest.approx(0.15)
    assert change.error == pytest.approx(math.sqrt(3) * 0.5 / 10)


def test_each_attention_has_length_one():
    normalised = importance.normalise_by_attention(np.array([3.0, 4.0, 0.0, 0.0, 1.0, 0.0]), 2)
    assert normalised.tolist() == [0.6, 0.8, 0.0, 0.0, 1.0, 0.0]


def test_spearman_is_the_correlation_of_ranks():
    assert importance.spearman_correlation([1, 2, 3], [9, 8, 7]) == pytest.approx(-1.0)
    assert importance.spearman_correlation([1, 5, 3], [10, 1e9, 20]) == pytest.approx(1.0)
    # ranks 0, 1.5, 1.5, 3 and 0, 1, 2, 3, by hand: 4.5 / sqrt(4.5 * 5)
    assert importance.spearman_correlation([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(4.5 / math.sqrt(22.5))
    assert math.isnan(importance.spearman_correlation([1, 1], [1, 2]))


def test_kinds_share_all_heads_among_them():
    config = small_traced().bundle.model.config
    parts = [list_heads(config, kind) for kind in ("encoder", "decoder", "cross")]
    assert [len(part) for part in parts] == [6, 9, 9]
    assert sorted([*parts[0], *parts[1], *parts[2]]) == sorted(list_heads(config))
    with pytest.raises(ValueError, match="'feet' is no kind of heads; choose one of all, encoder, decoder, cross"):
        list_heads(config, "feet")


def test_orders_begin_with_what_matters_most():
    heads = [Head("encoder.0.self", n) for n in range(5)]
    orders = importance.head_orders(heads, {"ablation": [0.1, 0.5, -0.2, 0.3, 0.0]})
    assert [head.number for head in orders["ablation"]] == [1, 3, 0, 4, 2]
    assert list(orders) == ["ablation", "random 1"]
    assert sorted(orders["random 1"]) == heads
    assert orders["random 1"] == importance.head_orders(heads, {})["random 1"]


@pytest.mark.parametrize(("heads", "points"), [(48, 9), (3, 9), (1, 2), (144, 5)])
def test_curves_go_from_all_heads_to_none(heads: int, points: int):
    counts = importance.kept_counts(heads, points)
    assert (counts[0], counts[-1]) == (heads, 0)
    assert counts == sorted(set(counts), reverse=True)
    assert len(counts) == min(points, heads + 1)
