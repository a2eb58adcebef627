"""What a run does when: its end, its stages, and what its settings ask of them."""

from dataclasses import replace

import pytest

from pellucid.data.stream import Stage
from pellucid.model import Transformer
from pellucid.training.checkpoint import RunCounts
from pellucid.training.config import TrainConfig
from pellucid.training.data import read_data
from pellucid.training.schedule import StagePlan, is_over, plan_stages
from tests.training.corpora import small_run


@pytest.mark.parametrize(("step", "stale", "over"), [(11, 0, False), (12, 0, True), (5, 2, False), (5, 3, True)])
def test_a_run_is_over_at_its_last_update_or_without_patience(step, stale, over):
    c = TrainConfig(steps=12, patience=3)
    assert is_over(RunCounts(step=step, stale_evaluations=stale), c) == over
    assert is_over(RunCounts(step=step, stale_evaluations=stale), replace(c, patience=None)) == (step == 12)


def test_each_part_of_a_run_begins_at_its_first_share_and_ends_before_its_last():
    plan = StagePlan(corpora=((0.0, 0.4), (0.4, 1.0)), noise=(0.2, 0.6), both_directions=(0.0, 0.3))
    assert plan.stage_at(0.0) == Stage((True, False), noisy=False, both_directions=True)
    assert plan.stage_at(0.3) == Stage((True, False), noisy=True, both_directions=False)
    assert plan.stage_at(0.4) == Stage((False, True), noisy=True, both_directions=False)
    assert plan.stage_at(0.6) == Stage((False, True), noisy=False, both_directions=False)


@pytest.mark.parametrize(("tie", "shown"), [("all", (0.0, 0.25)), ("none", (0.0, 0.0))])
def test_pairs_are_reversed_only_where_both_languages_share_one_table(tie, shown, tmp_path):
    run = small_run(tmp_path, train={"both_directions": 0.25}, model={"tie": tie}, data={"noise": {"capitals": 0.1}})
    model = Transformer(run.model_config(read_data(run).tokenizer))
    plan = plan_stages(run, model)
    assert (plan.corpora, plan.noise, plan.both_directions) == (((0.0, 1.0),), (0.0, 1.0), shown)
