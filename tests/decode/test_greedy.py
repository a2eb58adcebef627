"""Greedy search on tables that can be checked by hand."""

import pytest
import torch

from pellucid.data.tokenizer import BOS, EOS, PAD, UNK
from pellucid.decode.greedy import greedy_search
from pellucid.decode.search import forbidden_rule
from tests.decode.tables import Prefixes, limit, random_logits, step_from, step_from_table, words

TABLE = {"": {"a": 0.75, "b": 0.25}, "a": {"b": 0.5, ".": 0.5}, "ab": {".": 0.75, "c": 0.25}}


@pytest.mark.article("A31", "A37", "B4", "B33", "C23")
def test_each_piece_is_the_likeliest_and_a_tie_goes_to_the_lower_id():
    [[hypothesis]] = greedy_search(step_from_table(TABLE), Prefixes([0]), limit(7), length_penalty=1.0)
    assert (words(hypothesis.tokens), hypothesis.stop) == ("a", "eos")  # "." is id 3, "b" is id 5
    assert hypothesis.log_probs == pytest.approx(torch.tensor([0.75, 0.5]).log().tolist())
    assert hypothesis.log_prob == pytest.approx(sum(hypothesis.log_probs))
    assert hypothesis.score == pytest.approx(hypothesis.log_prob / (7 / 6))  # two pieces, the end token counted


@pytest.mark.article("A31", "B4")
def test_the_limit_counts_the_end_token():
    step = step_from_table({"": {"a": 1.0}, "a": {"a": 1.0}, "aa": {".": 1.0}})
    [[ended]] = greedy_search(step, Prefixes([0]), limit(3), length_penalty=0.6)
    [[cut]] = greedy_search(step, Prefixes([0]), limit(2), length_penalty=0.6)
    assert (words(ended.tokens), ended.stop, len(ended.log_probs)) == ("aa", "eos", 3)
    assert (words(cut.tokens), cut.stop, len(cut.log_probs)) == ("aa", "length", 2)


@pytest.mark.article("A31", "B4")
def test_without_an_end_token_every_sentence_stops_at_its_own_limit():
    step = step_from(random_logits(1, 7))
    results = greedy_search(
        step, Prefixes([0, 1, 2]), limit(5, 1, 11), length_penalty=0.6, rules=[forbidden_rule((PAD, UNK, BOS, EOS))]
    )
    assert [(h.stop, len(h.tokens)) for [h] in results] == [("length", 5), ("length", 1), ("length", 11)]


def test_special_pieces_are_never_written():
    step = step_from(lambda sentence, prefix: torch.tensor([9.0, 8.0, 7.0, 0.0, 1.0, 0.0, 0.0]))
    [[hypothesis]] = greedy_search(step, Prefixes([0]), limit(3), length_penalty=0.6)
    assert hypothesis.tokens == [4, 4, 4]


def test_the_step_sees_only_sentences_that_are_not_over():
    step, row_counts = step_from_table({"": {".": 1.0}, "a": {".": 1.0}}), []

    def count_rows(ids, state):
        row_counts.append(len(ids))
        logits = step(ids, state)
        if len(row_counts) == 1:
            logits[1] = torch.tensor([0.0, 0, 0, 0, 9, 0, 0])  # the second of three goes on with "a"
        return logits

    results = greedy_search(count_rows, Prefixes([0, 1, 2]), limit(5, 5, 5), length_penalty=0.6)
    assert row_counts == [3, 1]
    assert [words(h.tokens) for [h] in results] == ["", "a", ""]
