"""Dropout: the right rate, the right mean, independent, repeatable from torch's generator."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from pellucid.model.dropout import Dropout, draw_mask, seeded_dropout

MANY = 999_983


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_the_mask_has_the_right_rate_mean_and_variance(rate):
    torch.manual_seed(1)
    mask = draw_mask(torch.Size([MANY]), rate, torch.float64)
    scale = 1 / (1 - rate)
    assert mask.unique().tolist() == pytest.approx([0, scale], rel=2e-4)
    five_sigma = 5 * (rate * (1 - rate) / MANY) ** 0.5
    assert (mask == 0).double().mean().item() == pytest.approx(rate, abs=five_sigma + 1 / 65536)
    assert mask.mean().item() == pytest.approx(1, abs=five_sigma * scale)
    assert mask.var().item() == pytest.approx(rate / (1 - rate), rel=0.02)


def test_neighbours_in_one_random_word_are_independent():
    torch.manual_seed(1)
    dropped = (draw_mask(torch.Size([MANY]), 0.3, torch.float64) == 0).double()
    for distance in (1, 2, 3, 4, 5):
        share_of_both = (dropped[:-distance] * dropped[distance:]).mean().item()
        assert share_of_both == pytest.approx(0.09, abs=5 * (0.09 * 0.91 / MANY) ** 0.5)
    for lane in range(4):
        assert dropped[lane::4].mean().item() == pytest.approx(0.3, abs=5 * (0.21 / (MANY / 4)) ** 0.5)


def test_a_rate_next_to_one_leaves_the_mean_finite():
    assert draw_mask(torch.Size([7]), 0.9999999, torch.float32).isfinite().all()


def test_a_mask_has_any_shape_and_type():
    for shape in ([], [0], [3], [5, 7, 2]):
        mask = draw_mask(torch.Size(shape), 0.5, torch.bfloat16)
        assert (list(mask.shape), mask.dtype) == (shape, torch.bfloat16)


def test_nothing_is_dropped_in_evaluation_or_at_rate_zero():
    x = torch.randn(5, 7)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0).train()(x) is x


def test_the_gradient_takes_the_mask_of_the_value():
    torch.manual_seed(1)
    x = torch.ones(97, requires_grad=True)
    y = Dropout(0.3)(x)
    y.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, y)
    assert 0 < (y == 0).sum() < 97


def test_the_generators_state_is_all_the_mask_depends_on():
    """A checkpoint that holds torch's generator therefore resumes to the bit."""
    dropout, x = Dropout(0.3), torch.ones(101)
    state = torch.get_rng_state()
    first, second = dropout(x), dropout(x)
    torch.set_rng_state(state)
    assert torch.equal(dropout(x), first)
    assert torch.equal(dropout(x), second)
    assert not torch.equal(first, second)


def test_a_thread_with_a_generator_of_its_own_draws_from_that_alone():
    shape = torch.Size([101])
    torch.manual_seed(7)
    seeded_mask = draw_mask(shape, 0.3, torch.float32)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    with seeded_dropout(7):
        assert torch.equal(draw_mask(shape, 0.3, torch.float32), seeded_mask)
        with ThreadPoolExecutor(1) as executor:
            assert not torch.equal(executor.submit(draw_mask, shape, 0.3, torch.float32).result(), seeded_mask)
        torch.set_rng_state(before)
    first = draw_mask(shape, 0.3, torch.float32)
    torch.set_rng_state(before)
    assert torch.equal(draw_mask(shape, 0.3, torch.float32), first)
    assert not torch.equal(first, seeded_mask)
