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


def model(**sizes):
    size = small_tokenizer().source_vocabulary
    return random_model(3, size, size, **{"d_model": 32, "d_ff": 64, **sizes})


def scores(model):
    return np.array([each.log_prob for each in Translator(model, small_tokenizer()).score(SOURCES, TARGETS, 64)])


def scores_of_ctranslate2(model, place, precision):
    tokenizer = small_tokenizer()
    convert_to_ctranslate2(model, tokenizer, place / precision, precision)
    translator = ctranslate2.Translator(str(place / precision), compute_type=precision, intra_threads=1)
    sources = [tokenizer.source_pieces(ids) for ids in tokenizer.encode_source(SOURCES)]
    targets = [tokenizer.target_pieces(ids[:-1]) for ids in tokenizer.encode_target(TARGETS)]
    return np.array([sum(each.log_probs) for each in translator.score_batch(sources, targets)])


@pytest.mark.parametrize("sizes", [{}, {"norm": "post", "activation": "swiglu"}, {"positions": "rotary"}])
def test_all_parts_in_int8_score_as_ctranslate2_does(tmp_path, sizes):
    some = model(**sizes)
    plain, theirs = scores(some), scores_of_ctranslate2(some, tmp_path, "int8")
    with Int8Mode(list_quantized_parts(some)):
        ours = scores(some)
    assert np.abs(scores_of_ctranslate2(some, tmp_path, "float32") - plain).max() < 1e-3
    apart, lost = np.abs(ours - theirs), np.abs(plain - theirs).mean()
    # A number half-way between two bytes may be rounded either way, and what follows differs by a little.
    assert np.median(apart) < 1e-4
    assert apart.mean() < 0.2 * lost


@pytest.mark.parametrize("tie", ["none", "decoder", "all"])
def test_every_matrix_belongs_to_a_part_and_every_part_changes_something(tie):
    torch.manual_seed(2)
    some = Transformer(replace(model().config, tie=tie)).eval()
    parts = list_quantized_parts(some)
    held = {id(weight) for part in parts for weight in part.weights}
    assert held == {id(each) for each in some.parameters() if each.dim() == 2}
    names = [part.name for part in parts]
    assert names[:4] == ["encoder.0.self", "encoder.0.ffn", "encoder.1.self", "encoder.1.ffn"]
    assert names[4:7] == ["decoder.0.self", "decoder.0.cross", "decoder.0.ffn"]
    looked_up = ["source_embedding and target_embedding"] if tie == "all" else ["source_embedding", "target_embedding"]
    assert names[13:] == [*looked_up, "output_embedding"]
    plain = scores(some)
    for part in parts:
        with Int8Mode([part]):
            assert np.abs(scores(some) - plain).max() > 1e-6, part.name


def test_afterwards_the_model_is_what_it_was(tmp_path):
    some = model()
    weights, before = {n: each.clone() for n, each in some.named_parameters()}, scores(some)
    rank_int8_losses(some, lambda: -scores(some).sum())
    convert_to_ctranslate2(some, small_tokenizer(), tmp_path / "out", "int8")
    assert all(torch.equal(each, weights[name]) for name, each in some.named_parameters())
    assert (scores(some) == before).all()


def test_the_part_that_int8_ruins_costs_most():
    plain, some = scores(model()), with_an_outlier(model(), "decoder.1.ffn")
    assert scores(some) == pytest.approx(plain, rel=0.5)  # one inner unit less
    before = scores(some)
    costs = rank_int8_losses(some, lambda: np.abs(scores(some) - before).sum())
    assert costs[0][0] == "decoder.1.ffn"
    assert costs[0][1] > 5 * costs[1][1]


@pytest.mark.parametrize("largest", [LARGEST_BYTE, LARGEST_WEIGHT_BYTE])
def test_rounding_is_to_even_steps_of_each_row(largest):
    rows = torch.randn(7, 11, generator=torch.Generator().manual_seed(1))
    found, step = round_through_int8(rows, largest), rows.abs().amax(dim=1, keepdim=True) / largest
    assert torch.allclose(found / step, (found / step).round(), atol=1e-3)
    assert ((found - rows).abs() <= step / 2 + 1e-6).all()
    assert torch.allclose(round_through_int8(found, largest), found)


def test_the_sums_of_two_products_fit_into_16_bits():
    assert 2 * 255 * LARGEST_WEIGHT_BYTE < 2**15 <= 2 * 255 * (LARGEST_WEIGHT_BYTE + 2)


def test_rows_of_zeros_and_of_next_to_nothing_are_finite():
    tiny = torch.finfo(torch.float32).tiny
    for largest in (LARGEST_BYTE, LARGEST_WEIGHT_BYTE):
        assert round_through_int8(torch.tensor([[0.0, 0.0], [tiny, -tiny / 2]]), largest).isfinite().all()
