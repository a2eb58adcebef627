"""A CUDA device gives what a processor gives: attention, losses, weights, searches."""

import copy
from typing import Any

import numpy as np
import pytest
import torch

from pellucid.api import load
from pellucid.data.batching import Batch
from pellucid.decode.request import SearchConfig
from pellucid.decode.torch_engine import SearchRequest, TorchEngine
from pellucid.interop.ctranslate2_engine import CTranslate2Engine
from pellucid.model import ModelConfig, Transformer, attention
from pellucid.store.directory import save_bundle
from pellucid.training.config import OptimConfig
from pellucid.training.optimizer import make_optimizer
from pellucid.training.update import update_weights
from tests.decode.models import LINES, random_model, small_tokenizer
from tests.tolerances import approx_log_prob, assert_same_sums

pytestmark = pytest.mark.gpu

SIZES = ModelConfig(97, 97, 64, 128, 4, 2, 2, dropout=0.0)


def make_batch(seed: int = 0) -> Batch:
    """Return a batch with rows of several lengths."""
    generator = torch.Generator().manual_seed(seed)
    source, target = (torch.randint(4, 97, (24, length), generator=generator) for length in (13, 11))
    for row in range(24):
        source[row, 13 - row % 5 :] = 0
        target[row, 11 - row % 7 :] = 0
    target_in = torch.cat([torch.full((24, 1), 2), target[:, :-1]], 1)
    return Batch(source, target_in, target, np.arange(24), int((target != 0).sum()))


def train_model(device: str, precision: str = "float32", **options: Any) -> tuple[list[float], list]:
    """Return the losses of twelve updates, and the weights after them."""
    torch.manual_seed(3)
    c = OptimConfig(peak=1e-3, **options)
    model = Transformer(SIZES).train().to(device)
    optimizer = make_optimizer(model, c)
    losses = [update_weights(model, optimizer, [make_batch(n % 4)], 1e-3, c, precision).loss for n in range(12)]
    return losses, [parameter.detach().cpu() for parameter in model.parameters()]


def test_updates_give_the_losses_and_weights_of_a_processor():
    # The gradient of a key's bias is zero but for rounding, which Adam would divide by itself: a larger epsilon.
    losses, weights = train_model("cuda", epsilon=1e-4)
    expected_losses, expected_weights = train_model("cpu", epsilon=1e-4)
    assert losses == pytest.approx(expected_losses, rel=1e-4)
    for weight, expected_weight in zip(weights, expected_weights, strict=True):
        assert_same_sums(weight, expected_weight)


def test_bfloat16_learns_as_float32_does():
    assert train_model("cuda", "bfloat16")[0] == pytest.approx(train_model("cpu")[0], rel=0.02)


def test_the_same_updates_give_the_same_bits():
    (losses, weights), (losses_again, weights_again) = train_model("cuda", "bfloat16"), train_model("cuda", "bfloat16")
    assert losses == losses_again
    assert all(torch.equal(weight, weight_again) for weight, weight_again in zip(weights, weights_again, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_kernel_gives_what_the_formula_gives(dtype, monkeypatch):
    generator = torch.Generator("cuda").manual_seed(1)
    q, k, v = (torch.randn(3, 4, 9, 16, device="cuda", generator=generator, dtype=dtype) for _ in range(3))
    allowed = torch.rand(3, 1, 9, 9, device="cuda", generator=generator) < 0.6
    allowed[1, 0, 2] = False  # a query that may read nothing gets zeros
    fused = attention.attend(q, k, v, allowed)
    monkeypatch.setattr(attention, "fused_is_faster", lambda q: False)
    formula = attention.attend(q, k, v, allowed)
    assert_same_sums(fused, formula, terms=9 * 16 if dtype == torch.float32 else 1)  # bfloat16 is rounded at the end


def test_a_model_directory_translates_alike_on_both_devices(tmp_path):
    tokenizer = small_tokenizer()
    model = random_model(1, tokenizer.source_vocabulary, tokenizer.target_vocabulary, max_positions=31)
    save_bundle(tmp_path / "model", model, tokenizer, step=0)
    on_cpu, on_cuda = (load(tmp_path / "model", device=device) for device in ("cpu", "cuda"))
    assert [translation.text for translation in on_cuda.translate(LINES)] == [
        translation.text for translation in on_cpu.translate(LINES)
    ]
    scores, expected_scores = (model.score(LINES[:2], LINES[1::-1]) for model in (on_cuda, on_cpu))
    assert [score.log_prob for score in scores] == approx_log_prob([score.log_prob for score in expected_scores])
    assert on_cuda.trace(LINES[0]).target.text == on_cpu.trace(LINES[0]).target.text


@pytest.mark.parametrize("precision", ["float32", "float16", "int8_float16"])
def test_ctranslate2_translates_on_a_gpu(tmp_path, precision):
    tokenizer = small_tokenizer()
    model = random_model(1, tokenizer.source_vocabulary, tokenizer.target_vocabulary, max_positions=31)
    save_bundle(tmp_path / "model", model, tokenizer, step=0)
    on_cpu = load(tmp_path / "model")
    on_cuda = load(tmp_path / "model", precision, "ctranslate2", device="cuda")
    assert type(on_cuda.translator.engine) is CTranslate2Engine
    texts = [translation.text for translation in on_cuda.translate(LINES, max_extra=5)]
    assert len(texts) == len(LINES)
    if precision == "float32":
        assert texts == [translation.text for translation in on_cpu.translate(LINES, max_extra=5)]
    assert on_cuda.trace(LINES[0]).target.text == on_cpu.trace(LINES[0]).target.text


SEARCHES = [
    SearchConfig(method="greedy", max_extra=5),
    SearchConfig(beam=4, n_best=3, max_extra=5),
    SearchConfig(method="sample", max_extra=5, seed=4),
]


@pytest.mark.parametrize("config", SEARCHES, ids=["greedy", "beam", "sample"])
def test_searches_give_the_hypotheses_of_a_processor(config):
    model = random_model(5, 53, 48, d_model=32, d_ff=64)
    generator = np.random.default_rng(2)
    requests = [SearchRequest([*generator.integers(4, 53, size=n % 11 + 1).tolist(), 3], number=n) for n in range(40)]
    expected = TorchEngine([model], (0, 1, 2)).search(requests, config)
    results = TorchEngine([copy.deepcopy(model).cuda()], (0, 1, 2)).search(requests, config)
    assert [[hypothesis.tokens for hypothesis in hypotheses] for hypotheses in results] == [
        [hypothesis.tokens for hypothesis in hypotheses] for hypotheses in expected
    ]
    scores = [[hypothesis.score for hypothesis in hypotheses] for hypotheses in results]
    assert np.concatenate(scores) == pytest.approx(
        np.concatenate([[hypothesis.score for hypothesis in hypotheses] for hypotheses in expected]), rel=1e-4
    )
