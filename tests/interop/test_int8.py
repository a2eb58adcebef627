"""Int8 as CTranslate2 computes it: the same scores, and how much each part loses."""

from dataclasses import replace

import ctranslate2
import numpy as np
import pytest
import torch

from pellucid.decode.translate import Translator
from pellucid.interop.ctranslate2 import convert_to_ctranslate2
from pellucid.interop.int8 import (
    LARGEST_BYTE,
    LARGEST_WEIGHT_BYTE,
    Int8Mode,
    list_quantized_parts,
    rank_int8_losses,
    round_through_int8,
)
from pellucid.model import Transformer
from tests.decode.models import LINES, random_model, small_tokenizer
from tests.interop.hostile import with_an_outlier

SOURCES, TARGETS = [*LINES, *LINES[::-1]], [*LINES[::-1], *LINES[::-1]]


def make_model(**sizes):
    size = small_tokenizer().source_vocabulary
    return random_model(3, size, size, **{"d_model": 32, "d_ff": 64, **sizes})


def score_pairs(model):
    return np.array([score.log_prob for score in Translator(model, small_tokenizer()).score(SOURCES, TARGETS, 64)])


def scores_of_ctranslate2(model, directory, precision):
    tokenizer = small_tokenizer()
    convert_to_ctranslate2(model, tokenizer, directory / precision, precision)
    translator = ctranslate2.Translator(str(directory / precision), compute_type=precision, intra_threads=1)
    sources = [tokenizer.source_pieces(ids) for ids in tokenizer.encode_source(SOURCES)]
    targets = [tokenizer.target_pieces(ids[:-1]) for ids in tokenizer.encode_target(TARGETS)]
    return np.array([sum(scores.log_probs) for scores in translator.score_batch(sources, targets)])


@pytest.mark.parametrize("sizes", [{}, {"norm": "post", "activation": "swiglu"}, {"positions": "rotary"}])
def test_all_parts_in_int8_score_as_ctranslate2_does(tmp_path, sizes):
    model = make_model(**sizes)
    plain, theirs = score_pairs(model), scores_of_ctranslate2(model, tmp_path, "int8")
    with Int8Mode(list_quantized_parts(model)):
        ours = score_pairs(model)
    assert np.abs(scores_of_ctranslate2(model, tmp_path, "float32") - plain).max() < 1e-3
    differences, int8_loss = np.abs(ours - theirs), np.abs(plain - theirs).mean()
    # A number half-way between two bytes may be rounded either way, and what follows differs by a little.
    assert np.median(differences) < 1e-4
    assert differences.mean() < 0.2 * int8_loss


@pytest.mark.parametrize("tie", ["none", "decoder", "all"])
def test_every_matrix_belongs_to_a_part_and_every_part_changes_something(tie):
    torch.manual_seed(2)
    model = Transformer(replace(make_model().config, tie=tie)).eval()
    parts = list_quantized_parts(model)
    covered = {id(weight) for part in parts for weight in part.weights}
    assert covered == {id(parameter) for parameter in model.parameters() if parameter.dim() == 2}
    names = [part.name for part in parts]
    assert names[:4] == ["encoder.0.self", "encoder.0.ffn", "encoder.1.self", "encoder.1.ffn"]
    assert names[4:7] == ["decoder.0.self", "decoder.0.cross", "decoder.0.ffn"]
    looked_up = ["source_embedding and target_embedding"] if tie == "all" else ["source_embedding", "target_embedding"]
    assert names[13:] == [*looked_up, "output_embedding"]
    plain = score_pairs(model)
    for part in parts:
        with Int8Mode([part]):
            assert np.abs(score_pairs(model) - plain).max() > 1e-6, part.name


def test_ranking_and_conversion_leave_the_model_as_it_was(tmp_path):
    model = make_model()
    weights, before = {n: parameter.clone() for n, parameter in model.named_parameters()}, score_pairs(model)
    rank_int8_losses(model, lambda: -score_pairs(model).sum())
    convert_to_ctranslate2(model, small_tokenizer(), tmp_path / "out", "int8")
    assert all(torch.equal(parameter, weights[name]) for name, parameter in model.named_parameters())
    assert (score_pairs(model) == before).all()


def test_the_part_that_int8_ruins_costs_most():
    plain, ruined = score_pairs(make_model()), with_an_outlier(make_model(), "decoder.1.ffn")
    assert score_pairs(ruined) == pytest.approx(plain, rel=0.5)  # one inner unit less
    before = score_pairs(ruined)
    costs = rank_int8_losses(ruined, lambda: np.abs(score_pairs(ruined) - before).sum())
    assert costs[0][0] == "decoder.1.ffn"
    assert costs[0][1] > 5 * costs[1][1]


@pytest.mark.parametrize("largest", [LARGEST_BYTE, LARGEST_WEIGHT_BYTE])
def test_rounding_is_to_even_steps_of_each_row(largest):
    rows = torch.randn(7, 11, generator=torch.Generator().manual_seed(1))
    rounded, step = round_through_int8(rows, largest), rows.abs().amax(dim=1, keepdim=True) / largest
    assert torch.allclose(rounded / step, (rounded / step).round(), atol=1e-3)
    assert ((rounded - rows).abs() <= step / 2 + 1e-6).all()
    assert torch.allclose(round_through_int8(rounded, largest), rounded)


def test_the_sums_of_two_products_fit_into_16_bits():
    assert 2 * 255 * LARGEST_WEIGHT_BYTE < 2**15 <= 2 * 255 * (LARGEST_WEIGHT_BYTE + 2)


def test_rows_of_zeros_and_of_next_to_nothing_are_finite():
    tiny = torch.finfo(torch.float32).tiny
    for largest in (LARGEST_BYTE, LARGEST_WEIGHT_BYTE):
        assert round_through_int8(torch.tensor([[0.0, 0.0], [tiny, -tiny / 2]]), largest).isfinite().all()
