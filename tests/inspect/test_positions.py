import math

import numpy as np
import pytest
import torch

from pellucid.interpret.studies.position_tables import (
    compare_with_wrong_table,
    doubled_exponent_table,
    interleave_sine_cosine,
    paper_table,
    position_vectors,
    wavelengths,
)
from pellucid.model import config, positions
from tests.model.models import small_model


def article_encoding(position: int, d_model: int) -> list[float]:
    """The code of the article, as it stands there but for the name of its width."""
    pe = [0.0] * d_model
    for i in range(0, d_model, 2):
        pe[i] = math.sin(position / (10000 ** ((2 * i) / d_model)))
        pe[i + 1] = math.cos(position / (10000 ** ((2 * i) / d_model)))
    return pe


def paper_number(position: int, dimension: int, d_model: int) -> float:
    """Section 3.5 of the paper, one number."""
    angle = position / 10000 ** (2 * (dimension // 2) / d_model)
    return math.cos(angle) if dimension % 2 else math.sin(angle)


@pytest.mark.article("A10-12")
def test_the_table_of_a_model_is_the_formula():
    table = position_vectors(small_model(positions="sinusoidal"), 11)
    assert (table.kind, table.trained, table.values.shape) == ("sinusoidal", False, (11, 30))
    for position in range(11):
        assert table.values[position] == pytest.approx([paper_number(position, d, 30) for d in range(30)], abs=1e-7)
    assert paper_table(11, 30) == pytest.approx(table.values, abs=1e-7)


def test_learned_positions_are_the_trained_ones_of_their_side():
    model = small_model(positions="learned")
    for side in ("source", "target"):
        table = position_vectors(model, 5, side)
        assert table.trained
        assert (table.values == model.get_parameter(f"{side}_positions.table")[:5].detach().numpy()).all()


def test_rotary_angles_are_those_of_one_head():
    table = position_vectors(small_model(positions="rotary"), 7)
    assert table.values == pytest.approx(paper_table(7, 10), abs=1e-7)


def test_a_model_without_positions_has_nothing_to_show():
    with pytest.raises(ValueError, match="no positions: it reads a bag of pieces"):
        position_vectors(small_model(positions="none"), 3)
    with pytest.raises(ValueError, match="54 positions were asked for, this model has 1 to 53"):
        position_vectors(small_model(), 54)
    with pytest.raises(ValueError, match="side is 'left'"):
        position_vectors(small_model(), 5, "left")


@pytest.mark.article("C7", "X25")
def test_each_pair_comes_round_after_its_wavelength():
    waves = wavelengths(30)
    for pair, wave in enumerate(waves):
        turned = interleave_sine_cosine(np.array([[(5 + wave) / 10000 ** (2 * pair / 30)]]))
        assert turned[0] == pytest.approx([paper_number(5, 2 * pair, 30), paper_number(5, 2 * pair + 1, 30)], abs=1e-9)
    assert waves[0] == pytest.approx(2 * math.pi)
    assert wavelengths(512)[-1] == pytest.approx(60_611, abs=1)


@pytest.mark.article("B16")
def test_similarity_depends_on_distance_alone_and_does_not_only_fall():
    from pellucid.interpret.studies.position_tables import PositionTable

    table = PositionTable("sinusoidal", paper_table(60, 512), trained=False)
    by_distance, cosines = table.by_distance(), table.similarity
    for d in range(60):
        assert cosines.diagonal(d) == pytest.approx(by_distance[d])
    numbers = {0: 1.0, 1: 0.973, 2: 0.905, 5: 0.741, 10: 0.679, 20: 0.616, 50: 0.512}
    assert {d: round(float(by_distance[d]), 3) for d in numbers} == numbers
    assert table.first_rise == 44
    assert PositionTable("sinusoidal", paper_table(44, 512), trained=False).first_rise is None


@pytest.mark.article("A13", "X2")
def test_the_article_s_code_is_the_table_with_the_doubled_exponent():
    for position in (0, 3, 49):
        assert doubled_exponent_table(50, 512)[position] == pytest.approx(article_encoding(position, 512), abs=1e-13)


@pytest.mark.article("A13", "X2")
def test_the_numbers_of_the_article_s_mistake():
    comparison = compare_with_wrong_table(512)
    assert (comparison.position, comparison.positions, comparison.entries) == (3, 50, 512)
    assert (comparison.different, round(comparison.largest, 2), comparison.first_dimension) == (467, 0.70, 2)
    assert comparison.first_wrong == pytest.approx(0.342782, abs=5e-7)
    assert comparison.first_right == pytest.approx(0.245085, abs=5e-7)
    assert comparison.longest_wavelength_wrong == pytest.approx(5.8e8, rel=0.01)
    assert comparison.longest_wavelength_right == pytest.approx(6.06e4, rel=1e-3)
    assert (comparison.nearly_zero_wrong, comparison.nearly_zero_right) == (144, 33)
    assert (comparison.constant_wrong, comparison.constant_right) == (311, 112)


def test_comparing_two_positions_counts_more_constant_dims():
    # Whoever compares only the last of 50 positions with the first counts 312 and 116 constant dims.
    ends = [
        int((np.abs(table[49] - table[0]) < 0.01).sum())
        for table in (doubled_exponent_table(50, 512), paper_table(50, 512))
    ]
    assert ends == [312, 116]


def test_the_two_tables_agree_where_the_exponent_is_zero():
    assert (doubled_exponent_table(50, 512)[:, :2] == paper_table(50, 512)[:, :2]).all()
    assert np.abs(doubled_exponent_table(50, 512) - paper_table(50, 512))[1:].max(axis=0)[2:].min() > 0.0
    narrow = compare_with_wrong_table(2)
    assert (narrow.different, narrow.largest) == (0, 0.0)


def test_positions_that_only_add_to_the_scores_are_not_called_none(monkeypatch: pytest.MonkeyPatch):
    class Nearer(positions.Positions):
        def __init__(self, *unused: int):
            super().__init__()

        def bias(self, q_positions: torch.Tensor, k_positions: torch.Tensor) -> torch.Tensor:
            return -(q_positions[:, None] - k_positions[None, :]).abs()[None, None].float()

    monkeypatch.setitem(positions.POSITIONS, "nearer", Nearer)
    monkeypatch.setitem(config._CHOICES, "positions", (*config._CHOICES["positions"], "nearer"))
    model = small_model(positions="nearer")
    with pytest.raises(ValueError, match="positions are 'nearer': they have no vectors, they add numbers"):
        position_vectors(model, 3)
