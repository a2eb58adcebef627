"""Parts that all searches share: the length penalty, rules, the largest values of a row, finished hypotheses."""

import pytest
import torch

from pellucid.decode.greedy import greedy_search
from pellucid.decode.request import require_finite
from pellucid.decode.search import (
    FinishedHypotheses,
    Hypothesis,
    apply_rules,
    forbidden_rule,
    length_divisor,
    log_probabilities,
    rank_hypotheses,
    stable_topk,
)
from tests.decode.tables import Prefixes, limit, step_from


def test_the_length_penalty_is_the_formula():
    assert length_divisor(1, 0.6) == 1.0  # (6 / 6) ^ alpha
    assert length_divisor(7, 1.0) == 2.0  # 12 / 6
    assert length_divisor(19, 0.5) == 2.0  # (24 / 6) ^ 1/2
    assert length_divisor(13, 0.0) == 1.0
    assert length_divisor(torch.tensor([1, 7]), 1.0).tolist() == [1.0, 2.0]


def test_forbidden_ids_get_nothing_and_the_others_keep_what_they_had():
    logits = torch.tensor([[1.0, 2.0, 3.0, 2.0]])
    before = logits.clone()
    log_probs = apply_rules(logits, [forbidden_rule((0, 2))], torch.empty(1, 0, dtype=torch.int64), torch.tensor([0]))
    assert log_probs[0, 0] == log_probs[0, 2] == -torch.inf
    assert log_probs[0, 1].item() == pytest.approx(before.log_softmax(1)[0, 1].item())
    assert torch.equal(logits, before)


@pytest.mark.parametrize(
    ("logits_dtype", "expected"),
    [(torch.bfloat16, torch.float32), (torch.float32, torch.float32), (torch.float64, torch.float64)],
)
def test_log_probabilities_are_at_least_single_precision(logits_dtype, expected):
    assert log_probabilities(torch.zeros(1, 3, dtype=logits_dtype)).dtype == expected


def test_the_largest_are_those_a_stable_sort_puts_first():
    generator = torch.Generator().manual_seed(1)
    for k in (1, 2, 5, 11):
        x = torch.randint(0, 7, (13, 11), generator=generator).float()  # full of ties
        x[3, 5:] = -torch.inf
        values, indices = stable_topk(x, k)
        expected = x.sort(dim=1, descending=True, stable=True)
        possible = values != -torch.inf
        assert torch.equal(values, expected.values[:, :k])
        assert torch.equal(indices[possible], expected.indices[:, :k][possible])


@pytest.mark.parametrize("vocabulary", [64 * 23, 64 * 23 + 17, 64 * 23 - 1])
def test_the_largest_of_long_rows_are_those_a_stable_sort_puts_first(vocabulary):
    generator = torch.Generator().manual_seed(1)
    for values in (torch.randn(13, vocabulary, generator=generator), torch.randint(0, 999, (13, vocabulary)).float()):
        values[2, 5:] = -torch.inf
        values[3, -1] = 1e9  # behind the last whole block
        for k in (1, 2, 9):
            expected = values.sort(dim=1, descending=True, stable=True)
            top = stable_topk(values, k)
            possible = top[0] != -torch.inf
            assert torch.equal(top[0], expected.values[:, :k])
            assert torch.equal(top[1][possible], expected.indices[:, :k][possible])


def test_ended_hypotheses_rank_before_cut_ones_then_by_score_then_as_they_came():
    cut = Hypothesis([4], -0.1, -0.1, "length", [-0.1])
    low, high, tied = (Hypothesis([i], s, s, "eos", [s]) for i, s in ((5, -2.0), (6, -1.0), (7, -1.0)))
    assert rank_hypotheses([cut, low, high, tied]) == [high, tied, low, cut]


def test_finished_hypotheses_come_back_by_sentence():
    finished = FinishedHypotheses(length_penalty=1.0, sentences=2)
    finished.add(
        torch.tensor([1, 0]), torch.tensor([[4, 3], [5, 3]]), torch.tensor([[-1.0, -0.5], [-2.0, -0.5]]), "eos"
    )
    finished.add(torch.tensor([1]), torch.tensor([[4, 4, 5]]), torch.tensor([[-1.0, -1.0, -2.0]]), "length")
    [[first], [second, third]] = finished.best_lists(n_best=5)
    assert (first.tokens, first.log_prob, first.stop, first.log_probs) == ([5], -2.5, "eos", [-2.0, -0.5])
    assert (second.tokens, second.log_prob, second.stop) == ([4], -1.5, "eos")
    assert (third.tokens, third.log_prob, third.stop) == ([4, 4, 5], -4.0, "length")
    assert [h.score for h in (first, second, third)] == pytest.approx([-2.5 / (7 / 6), -1.5 / (7 / 6), -4.0 / (8 / 6)])
    assert finished.best_lists(n_best=1) == [[first], [second]]


@pytest.mark.parametrize("number", [float("nan"), float("-inf"), float("inf")])
def test_a_log_probability_that_is_not_finite_is_refused(number):
    with pytest.raises(ValueError, match=r"line 3 the log-probability .*, where a finite number is expected"):
        require_finite(number, "line 3")


def test_a_step_that_gives_nan_leaves_no_hypothesis():
    step = step_from(lambda sentence, prefix: torch.full((7,), torch.nan))
    assert greedy_search(step, Prefixes([0]), limit(3), length_penalty=0.6) == [[]]
