"""The learning rate is a function of the step."""

from typing import Any, cast, get_args, get_type_hints

import pytest

from pellucid.training.config import OptimConfig
from pellucid.training.schedule import SCHEDULES, learning_rate


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


def test_every_schedule_that_can_be_chosen_is_a_row_of_the_table():
    assert set(get_args(get_type_hints(OptimConfig)["schedule"])) == set(SCHEDULES)


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_rises_to_its_peak_and_never_above(name: str):
    c = OptimConfig(peak=0.7, warmup=10, schedule=cast(Any, name))
    rates = [learning_rate(step, step / 100, c) for step in range(100)]
    assert rates[:9] == sorted(rates[:9])
    assert 0.7 * 0.85 < max(rates) <= 0.7
    assert rates[-1] < rates[9]
    # Only those that say so reach the peak in a run that is shorter than the warm-up.
    c = OptimConfig(peak=0.7, warmup=1000, schedule=cast(Any, name))
    reached = max(learning_rate(step, step / 100, c) for step in range(100)) > 0.5
    assert reached == SCHEDULES[name].shortens_warmup
