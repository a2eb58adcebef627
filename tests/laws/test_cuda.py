"""On a CUDA device all is as on a processor: attention, losses, weights, searches."""

import copy
from typing import Any

import numpy as np
import pytest
import torch

from pellucid import bundle
from pellucid.api import load
from pellucid.data.batching import Batch
from pellucid.decode.config import SearchConfig
from pellucid.decode.torch_engine import SearchRequest, TorchEngine
from pellucid.model import ModelConfig, Transformer, attention
from pellucid.train.config import OptimConfig
from pellucid.train.optim import make_adam
from pellucid.train.update import compile_layers, update_weights
from tests.decode.models import LINES, random_model, small_tokenizer

pytestmark = pytest.mark.gpu

SIZES = ModelConfig(97, 97, 64, 128, 4, 2, 2, dropout=0.0)


def batch(seed: int = 0) -> Batch:
    """Rows of several lengths."""
    generator = torch.Generator().manual_seed(seed)
    source, target = (torch.randint(4, 97, (24, length), generator=generator) for length in (13, 11))
    for row in range(24):
        source[row, 13 - row % 5 :] = 0
        target[row, 11 - row % 7 :] = 0
    read = torch.cat([torch.full((24, 1), 2), target[:, :-1]], 1)
    return Batch(source, read, target, np.arange(24), int((target != 0).sum()))


def trained(device: str, precision: str = "float32", fused: bool = False, **more: Any) -> tuple[list[float], list]:
    """The losses of twelve updates, and the weights after them."""
    torch.manual_seed(3)
    c = OptimConfig(peak=1e-3, **more)
    model = Transformer(SIZES).train().to(device)
    if fused:
        compile_layers(model)
    optimizer = make_adam(model, c)
    losses = [update_weights(model, optimizer, [batch(n % 4)], 1e-3, c, precision).loss for n in range(12)]
    return losses, [each.detach().cpu() for each in model.parameters()]


@pytest.mark.parametrize("more", [{}, {"r_drop": 5.0}], ids=["plain", "r-drop"])
@pytest.mark.parametrize("fused", [False, True], ids=["as written", "compiled"])
def test_updates_are_those_of_a_processor(fused, more):
    losses, weights = trained("cuda", fused=fused, **more)
    expected, same = trained("cpu", **more)
    assert losses == pytest.approx(expected, rel=1e-4)
    for one, other in zip(weights, same, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=2e-3)  # Adam divides by small numbers


@pytest.mark.parametrize("fused", [False, True], ids=["as written", "compiled"])
def test_bfloat16_learns_as_float32_does(fused):
    assert trained("cuda", "bfloat16", fused)[0] == pytest.approx(trained("cpu")[0], rel=0.02)


def test_the_same_updates_give_the_same_bits():
    (losses, weights), (again, same) = trained("cuda", "bfloat16"), trained("cuda", "bfloat16")
    assert losses == again
    assert all(torch.equal(one, other) for one, other in zip(weights, same, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_kernel_is_the_formula(dtype, monkeypatch):
    generator = torch.Generator("cuda").manual_seed(1)
    q, k, v = (torch.randn(3, 4, 9, 16, device="cuda", generator=generator, dtype=dtype) for _ in range(3))
    allowed = torch.rand(3, 1, 9, 9, device="cuda", generator=generator) < 0.6
    allowed[1, 0, 2] = False  # a query that may read nothing gets zeros
    fused = attention.attend(q, k, v, allowed)
    monkeypatch.setattr(attention, "fused_is_faster", lambda q: False)
    written = attention.attend(q, k, v, allowed)
    torch.testing.assert_close(fused, written, rtol=0, atol=1e-5 if dtype == torch.float32 else 2e-2)


def test_a_model_directory_is_translated_alike_on_either(tmp_path):
    tokenizer = small_tokenizer()
    model = random_model(1, tokenizer.source_vocabulary, tokenizer.target_vocabulary, max_positions=31)
    bundle.save_bundle(tmp_path / "model", model, tokenizer, step=0)
    one, other = (load(tmp_path / "model", device=device) for device in ("cpu", "cuda"))
    assert [each.text for each in other.translate(LINES)] == [each.text for each in one.translate(LINES)]
    assert other.score(LINES, LINES[::-1])[0].log_prob == pytest.approx(one.score(LINES, LINES[::-1])[0].log_prob)
    assert other.trace(LINES[0]).target.text == one.trace(LINES[0]).target.text


SEARCHES = [
    SearchConfig(method="greedy", max_extra=5),
    SearchConfig(beam=4, n_best=3, max_extra=5),
    SearchConfig(method="sample", max_extra=5, seed=4),
]


@pytest.mark.parametrize("config", SEARCHES, ids=["greedy", "beam", "sample"])
def test_searches_find_what_they_find_on_a_processor(config):
    model = random_model(5, 53, 48, d_model=32, d_ff=64)
    generator = np.random.default_rng(2)
    requests = [SearchRequest([*generator.integers(4, 53, size=n % 11 + 1).tolist(), 3], number=n) for n in range(40)]
    expected = TorchEngine([model], (0, 1, 2)).search(requests, config)
    found = TorchEngine([copy.deepcopy(model).cuda()], (0, 1, 2)).search(requests, config)
    assert [[each.tokens for each in some] for some in found] == [[each.tokens for each in some] for some in expected]
    scores = [[each.score for each in some] for some in found]
    assert np.concatenate(scores) == pytest.approx(
        np.concatenate([[e.score for e in some] for some in expected]), rel=1e-4
    )
