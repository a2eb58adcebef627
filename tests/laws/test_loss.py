"""The chunked loss is the formula, the formula is torch's, in value and gradient."""

import math

import pytest
import torch
import torch.nn.functional as F

from pellucid.training import loss as losses
from pellucid.training.loss import loss_sum, smoothed_cross_entropy

SIZES = [(37, 11), (512, 11), (1061, 101), (1, 7)]  # rows of one chunk, exactly a chunk, several and a rest, alone


def random_inputs(rows: int, vocabulary: int, dtype: torch.dtype):
    torch.manual_seed(1)
    states = torch.randn(rows, 13, dtype=dtype, requires_grad=True)
    weight = torch.randn(vocabulary, 13, dtype=dtype, requires_grad=True)
    return states, weight, torch.randint(vocabulary, (rows,))


@pytest.mark.article("A38", "B34")
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(("rows", "vocabulary"), SIZES)
@pytest.mark.parametrize(("dtype", "relative"), [(torch.float64, 1e-12), (torch.float32, 2e-5)])
def test_the_chunked_loss_equals_the_formula_and_torchs(smoothing, rows, vocabulary, dtype, relative):
    states, weight, targets = random_inputs(rows, vocabulary, dtype)
    logits = states @ weight.T
    values = [
        loss_sum(states, weight, targets, smoothing),
        smoothed_cross_entropy(logits, targets, smoothing),
        F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing),
    ]
    gradients = [torch.autograd.grad(3 * loss, (states, weight), retain_graph=True) for loss in values]
    for loss, (of_states, of_weight) in zip(values[:2], gradients[:2], strict=True):
        torch.testing.assert_close(loss, values[2], rtol=relative, atol=0)
        for ours, theirs in zip((of_states, of_weight), gradients[2], strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=relative * theirs.abs().max().item())


@pytest.mark.article("B34", "X23")
def test_the_loss_of_one_token_is_that_computed_by_hand():
    """Three pieces with probabilities 1/2, 1/4, 1/4; the target is the first, 0.3 spread over all three."""
    logits = torch.tensor([[2.0, 1.0, 1.0]]).log()
    expected = 0.8 * math.log(2) + 0.1 * math.log(4) + 0.1 * math.log(4)
    assert smoothed_cross_entropy(logits, torch.tensor([0]), 0.3).item() == pytest.approx(expected, rel=1e-6)
    assert loss_sum(logits, torch.eye(3), torch.tensor([0]), 0.3).item() == pytest.approx(expected, rel=1e-6)


def test_the_gradient_equals_finite_differences(monkeypatch):
    monkeypatch.setattr(losses, "CHUNK", 3)
    states, weight, targets = random_inputs(7, 5, torch.float64)
    assert torch.autograd.gradcheck(lambda s, w: loss_sum(s, w, targets, 0.1), (states, weight))


@pytest.mark.parametrize("chunk", [1, 2, 5, 37, 1000])
def test_the_size_of_the_chunks_changes_nothing(chunk, monkeypatch):
    states, weight, targets = random_inputs(37, 11, torch.float64)
    whole = loss_sum(states, weight, targets, 0.1)
    monkeypatch.setattr(losses, "CHUNK", chunk)
    cut = loss_sum(states, weight, targets, 0.1)
    torch.testing.assert_close(cut, whole, rtol=1e-13, atol=0)
    for gradient_of_whole, gradient_of_cut in zip(
        *(torch.autograd.grad(loss, (states, weight)) for loss in (whole, cut)), strict=True
    ):
        torch.testing.assert_close(gradient_of_whole, gradient_of_cut, rtol=0, atol=1e-12)


def test_the_loss_under_bfloat16_is_close():
    states, weight, targets = random_inputs(1061, 101, torch.float32)
    exact = loss_sum(states, weight, targets, 0.1)
    with torch.autocast("cpu", torch.bfloat16):
        close = loss_sum(states, weight, targets, 0.1)
    assert close.dtype == torch.float32
    torch.testing.assert_close(close, exact, rtol=2e-3, atol=0)
    pairs = zip(*(torch.autograd.grad(loss, (states, weight)) for loss in (exact, close)), strict=True)
    for right, rounded in pairs:
        assert rounded.dtype == torch.float32
        assert F.cosine_similarity(rounded.flatten(), right.flatten(), dim=0) > 0.9998
        assert (rounded - right).norm() < 0.02 * right.norm()


def test_an_unlikely_target_costs_its_distance_and_no_more():
    """The target's probability is exp(-1000), which is 0 as a float; the loss is still 1000."""
    states = torch.tensor([[1000.0, 0.0]], requires_grad=True)
    loss = loss_sum(states, torch.eye(2), torch.tensor([1]), 0.0)
    (gradient,) = torch.autograd.grad(loss, states)
    assert loss.item() == 1000
    assert gradient.tolist() == [[1, -1]]


def test_a_loss_without_gradients_has_the_value_and_no_gradient():
    states, weight, targets = random_inputs(37, 11, torch.float64)
    with torch.no_grad():
        loss = loss_sum(states, weight, targets, 0.1)
    assert not loss.requires_grad
    torch.testing.assert_close(loss, loss_sum(states, weight, targets, 0.1).detach())


def test_a_loss_without_gradients_is_equal_to_the_bit_in_float32():
    states, weight, targets = torch.randn(7, 6), torch.randn(11, 6, requires_grad=True), torch.arange(7)
    with torch.no_grad():
        loss = loss_sum(states, weight, targets, 0.1)
    assert torch.equal(loss, loss_sum(states, weight, targets, 0.1))
    assert not loss.requires_grad
