"""The learning rate is a function of the step."""

import pytest

from pellucid.training.config import OptimConfig
from pellucid.training.update import learning_rate


@pytest.mark.article("A38")
def test_the_learning_rate_is_the_papers_formula_with_a_named_peak():
    d_model, warmup = 512, 4000
    c = OptimConfig(peak=(d_model * warmup) ** -0.5, warmup=warmup)
    for step in (1, 7, 3999, 4000, 4001, 100_000):
        paper = d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)  # 5.3, equation 3, steps counted from 1
        assert learning_rate(step - 1, 0.0, c) == pytest.approx(paper, rel=1e-12)


def test_the_learning_rate_rises_in_a_straight_line_to_its_peak():
    c = OptimConfig(peak=0.7, warmup=13)
    rates = [learning_rate(step, 0.0, c) for step in range(13)]
    assert rates == pytest.approx([0.7 * (step + 1) / 13 for step in range(13)])
    assert max(learning_rate(step, 0.0, c) for step in range(1000)) == pytest.approx(0.7)


def test_a_linear_schedule_ends_at_zero_with_the_run():
    c = OptimConfig(peak=0.8, warmup=10, schedule="linear")
    assert learning_rate(500, 0.5, c) == pytest.approx(0.4)
    assert learning_rate(999, 0.999, c) == pytest.approx(0.0008)
    assert learning_rate(4, 0.0, c) == pytest.approx(0.4)
    assert learning_rate(1000, 1.0, c) == 0.0


def test_a_short_run_still_warms_up_to_a_peak():
    c = OptimConfig(peak=1.0, warmup=600, schedule="linear")
    rates = [learning_rate(step, step / 50, c) for step in range(50)]
    assert max(rates) == rates[10] == pytest.approx(0.8)
    assert rates[5] == pytest.approx(0.5 * 0.9)
