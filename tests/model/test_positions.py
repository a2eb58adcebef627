"""Positions against the paper's formula, and the property each kind is chosen for."""

import math

import pytest
import torch

from pellucid.model.positions import Rotary, sinusoids
from tests.model.models import sentences, small_model
from tests.tolerances import approx_sum, largest_size, relative_rounding


@pytest.mark.article("A10-12", "X3")
def test_sinusoids_are_the_papers_formula():
    """Section 3.5, one number at a time in float64."""
    table = sinusoids(53, 30)
    for position in range(53):
        for i in range(15):
            angle = position / 10000 ** (2 * i / 30)
            assert table[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=6e-8)
            assert table[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=6e-8)


@pytest.mark.article("A13", "X2", "X4")
def test_known_numbers_of_the_sinusoids():
    """Position 3 of the paper's 512: a well-known article prints 0.342782 at dimension 2, its exponent doubled."""
    third = sinusoids(4, 512)[3]
    assert third[2].item() == pytest.approx(0.245085, abs=5e-7)
    assert third.norm().item() == approx_sum(16, terms=512)
    assert sinusoids(1, 6)[0].tolist() == [0, 1, 0, 1, 0, 1]


@pytest.mark.article("B16")
@pytest.mark.parametrize(("distance", "cosine"), [(1, 0.973), (2, 0.905), (5, 0.741), (10, 0.679), (50, 0.512)])
def test_near_positions_have_similar_sinusoids(distance, cosine):
    """The product of two positions depends on their distance alone: it is the sum of cos(distance * frequency)."""
    table = sinusoids(101, 512).double()
    for position in (0, 7, 43):
        product = table[position] @ table[position + distance] / 256
        assert product.item() == pytest.approx(cosine, abs=5e-4)


def test_rotary_is_a_product_with_a_complex_number():
    torch.manual_seed(1)
    q, k = torch.randn(2, 3, 5, 11, 10, dtype=torch.float64)
    at = torch.arange(7, 18)
    frequencies = 10000.0 ** (-torch.arange(0, 10, 2, dtype=torch.float64) / 10)
    turn = torch.polar(torch.ones(11, 5, dtype=torch.float64), at[:, None] * frequencies)
    for vectors, turned in zip((q, k), Rotary(50, 53, 5).double().rotate(q, k, at), strict=True):
        expected = torch.view_as_real(torch.view_as_complex(vectors.unflatten(-1, (5, 2))) * turn).flatten(-2)
        size = relative_rounding(torch.float32, terms=2) * largest_size(expected)  # the table is float32
        torch.testing.assert_close(turned, expected, rtol=0, atol=size)


def test_rotary_products_depend_on_the_distance_alone():
    torch.manual_seed(1)
    rotary = Rotary(50, 53, 5).double()
    q, k = torch.randn(2, 1, 5, 1, 10, dtype=torch.float64)
    turned_q, _ = rotary.rotate(q.expand(1, 5, 53, 10), k.expand(1, 5, 53, 10), torch.arange(53))
    _, turned_k = rotary.rotate(q.expand(1, 5, 53, 10), k.expand(1, 5, 53, 10), torch.arange(53))
    products = turned_q @ turned_k.transpose(-1, -2)
    # The table of sines is float32, and a product of two vectors is at most as large as the product of their lengths.
    rounding, size = relative_rounding(torch.float32, terms=10), (q.norm(dim=-1) * k.norm(dim=-1)).max().item()
    for distance in (-11, 0, 2, 17):
        diagonal = products.diagonal(distance, -2, -1)
        torch.testing.assert_close(diagonal, diagonal[..., :1].expand_as(diagonal), rtol=0, atol=rounding * size)
    torch.testing.assert_close(turned_q.norm(dim=-1), q.norm(dim=-1).expand(1, 5, 53), rtol=rounding, atol=0)


@pytest.mark.article("A9", "C5", "X24")
@pytest.mark.parametrize("norm", ["pre", "post", "rms"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "none"])
def test_only_without_positions_is_the_encoder_blind_to_order(positions, norm):
    model = small_model(positions=positions, norm=norm)
    source, order = sentences([11]), torch.tensor([4, 0, 9, 1, 10, 3, 2, 8, 5, 7, 6])
    shuffled = model.encode(source[:, order]).states
    expected = model.encode(source).states[:, order]
    difference = (shuffled - expected).abs().max().item()
    assert difference < 1e-12 if positions == "none" else difference > 1e-2
