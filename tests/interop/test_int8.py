"""Int8 as CTranslate2 computes it."""

import ctranslate2
import numpy as np
import pytest
import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from pellucid.decode.scoring import score_pairs
from pellucid.decode.translator import Translator
from pellucid.interop.ctranslate2 import LARGEST_WEIGHT_BYTE, convert_to_ctranslate2, quantize_rows
from tests.decode.models import LINES, random_model, small_tokenizer
from tests.tolerances import approx_log_prob, largest_size, relative_rounding

SOURCES, TARGETS = [*LINES, *LINES[::-1]], [*LINES[::-1], *LINES[::-1]]


def round_through_int8(rows):
    """Return each row as it comes back from its bytes."""
    quantized, scale = quantize_rows(rows)
    return quantized / scale


def round_vectors(rows):
    """Return each row as it comes back from bytes up to 127, as CTranslate2 rounds the other side of a product."""
    scale = 127 / rows.abs().amax(dim=-1, keepdim=True).clamp(min=1e-30)
    return (rows * scale).round() / scale


class Int8Mode(TorchFunctionMode):
    """Mode in which every product and look-up computes with bytes."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in (F.linear, F.embedding):
            vectors = round_vectors(args[0]) if func is F.linear else args[0]
            args = (vectors, round_through_int8(args[1]), *args[2:])
        return func(*args, **(kwargs or {}))


def make_model(**sizes):
    size = small_tokenizer().source_vocabulary
    return random_model(3, size, size, **{"d_model": 32, "d_ff": 64, **sizes})


def sum_log_probs(model):
    translator = Translator(model, small_tokenizer())
    return np.array([score.log_prob for score in score_pairs(translator, SOURCES, TARGETS, 64)])


def scores_of_ctranslate2(model, directory, precision):
    tokenizer = small_tokenizer()
    convert_to_ctranslate2(model, tokenizer, directory / precision, precision)
    translator = ctranslate2.Translator(str(directory / precision), compute_type=precision, intra_threads=1)
    sources = [tokenizer.source_pieces(ids[:-1]) for ids in tokenizer.encode_source(SOURCES)]
    targets = [tokenizer.target_pieces(ids[:-1]) for ids in tokenizer.encode_target(TARGETS)]
    return np.array([sum(scores.log_probs) for scores in translator.score_batch(sources, targets)])


@pytest.mark.parametrize("sizes", [{}, {"norm": "post", "activation": "swiglu"}, {"positions": "rotary"}])
def test_all_parts_in_int8_score_as_ctranslate2_does(tmp_path, sizes):
    model = make_model(**sizes)
    plain, theirs = sum_log_probs(model), scores_of_ctranslate2(model, tmp_path, "int8")
    with Int8Mode():
        ours = sum_log_probs(model)
    assert scores_of_ctranslate2(model, tmp_path, "float32") == approx_log_prob(plain)
    differences, int8_loss = np.abs(ours - theirs), np.abs(plain - theirs).mean()
    # A number half-way between two bytes may be rounded either way, and what follows differs by a little.
    assert np.median(differences) < relative_rounding() * np.abs(plain).max()
    assert differences.mean() < 0.2 * int8_loss


def test_conversion_leaves_the_model_as_it_was(tmp_path):
    model = make_model()
    weights = {name: parameter.clone() for name, parameter in model.named_parameters()}
    convert_to_ctranslate2(model, small_tokenizer(), tmp_path / "out", "int8")
    assert all(torch.equal(parameter, weights[name]) for name, parameter in model.named_parameters())


def test_rounding_is_to_even_steps_of_each_row():
    rows = torch.randn(7, 11, generator=torch.Generator().manual_seed(1))
    rounded, step = round_through_int8(rows), rows.abs().amax(dim=1, keepdim=True) / LARGEST_WEIGHT_BYTE
    assert torch.allclose(rounded / step, (rounded / step).round(), atol=1e-3)
    assert ((rounded - rows).abs() <= step / 2 + relative_rounding(terms=1) * largest_size(rows)).all()
    assert torch.allclose(round_through_int8(rounded), rounded)


def test_the_sums_of_two_products_fit_into_16_bits():
    assert 2 * 255 * LARGEST_WEIGHT_BYTE < 2**15 <= 2 * 255 * (LARGEST_WEIGHT_BYTE + 2)


def test_rows_of_zeros_and_of_next_to_nothing_are_finite():
    tiny = torch.finfo(torch.float32).tiny
    assert round_through_int8(torch.tensor([[0.0, 0.0], [tiny, -tiny / 2]])).isfinite().all()
