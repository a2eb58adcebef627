"""Beam search on tables that can be checked by hand."""

import pytest
import torch

from pellucid.data.tokenizer import BOS, EOS, PAD, UNK
from pellucid.decode.beam import beam_search, best_continuations
from pellucid.decode.search import forbidden_rule
from tests.decode.tables import Prefixes, limit, random_logits, step_from, step_from_table, words


def run_beam(step, state, limits, width, n_best=None, alpha=0.0, **options):
    return beam_search(step, state, limits, width=width, n_best=n_best or width, length_penalty=alpha, **options)


def test_candidates_are_the_likeliest_continuations_with_their_parents():
    log_probs = torch.tensor([[0.5, 0.2, 0.3], [0.1, 0.6, 0.3]]).log()
    totals, parents, pieces, gains = best_continuations(log_probs, torch.tensor([[0.5, 0.4]]).log(), 4)
    assert totals.exp()[0].tolist() == pytest.approx([0.25, 0.24, 0.15, 0.12])
    assert (parents[0].tolist(), pieces[0].tolist()) == ([0, 1, 0, 1], [0, 1, 2, 2])
    assert gains.exp()[0].tolist() == pytest.approx([0.5, 0.6, 0.3, 0.3])


def test_equal_candidates_go_to_the_earlier_hypothesis_then_to_the_lower_id():
    step = step_from_table({"": {"b": 0.5, "a": 0.5}, "a": {"c": 0.5, "b": 0.5}, "b": {"a": 0.5, "c": 0.5}})
    [hypotheses] = run_beam(step, Prefixes([0]), limit(2), width=3)
    assert [words(h.tokens) for h in hypotheses] == ["ab", "ac", "ba"]


def test_the_length_penalty_lets_a_longer_hypothesis_win():
    step = step_from_table({"": {".": 0.52, "a": 0.48}, "a": {".": 1.0}})
    for alpha, expected in ((0.0, ""), (1.0, "a")):  # log .48 / (7 / 6) = -.629 beats log .52 = -.654
        [[hypothesis]] = run_beam(step, Prefixes([0]), limit(5), width=2, n_best=1, alpha=alpha)
        assert words(hypothesis.tokens) == expected


def test_only_end_tokens_among_the_first_w_finish():
    step = step_from_table({"": {"a": 0.5, "b": 0.3, ".": 0.2}, "a": {".": 1.0}, "b": {".": 1.0}})
    [hypotheses] = run_beam(step, Prefixes([0]), limit(5), width=2)
    assert [words(h.tokens) for h in hypotheses] == ["a", "b"]


def test_hypotheses_that_never_end_are_cut_at_their_own_limit():
    step = step_from(random_logits(2, 7))
    rules = [forbidden_rule((PAD, UNK, BOS, EOS))]
    results = run_beam(step, Prefixes([0, 1, 2]), limit(5, 2, 7), width=3, rules=rules)
    assert [[(h.stop, len(h.tokens)) for h in hypotheses] for hypotheses in results] == [
        [("length", n)] * 3 for n in (5, 2, 7)
    ]


def test_ended_hypotheses_rank_before_cut_ones():
    step = step_from_table({"": {"a": 0.9, ".": 0.1}, "a": {"a": 1.0}, "aa": {"a": 1.0}})
    [hypotheses] = run_beam(step, Prefixes([0]), limit(3), width=2)
    assert [(words(h.tokens), h.stop) for h in hypotheses] == [("", "eos"), ("aaa", "length")]


def test_a_sentence_with_fewer_ends_than_asked_gives_those_it_has():
    step = step_from_table({"": {"a": 1.0}, "a": {".": 1.0}})
    [hypotheses] = run_beam(step, Prefixes([0]), limit(7), width=5)
    assert [(words(h.tokens), h.stop) for h in hypotheses] == [("a", "eos")]


def test_a_sentence_is_over_when_nothing_live_can_overtake_it():
    step, row_counts = (
        step_from_table({"": {"a": 0.9, "b": 0.1}, "a": {".": 1.0}, "b": {"b": 1.0}, "bb": {"b": 1.0}}),
        [],
    )

    def count_rows(ids, state):
        row_counts.append(len(ids))
        return step(ids, state)

    [[best]] = run_beam(count_rows, Prefixes([0]), limit(3), width=2, n_best=1)
    assert (words(best.tokens), row_counts) == ("a", [1, 2])  # without the bound "bbb" would be followed to the limit
    row_counts.clear()
    [[first, second]] = run_beam(count_rows, Prefixes([0]), limit(3), width=2)
    assert (first, words(second.tokens), len(row_counts)) == (best, "bbb", 3)


def test_a_step_that_gives_nan_leaves_no_hypothesis():
    step = step_from(lambda sentence, prefix: torch.full((7,), torch.nan if prefix else 0.0))
    assert run_beam(step, Prefixes([0]), limit(3), width=2) == [[]]
