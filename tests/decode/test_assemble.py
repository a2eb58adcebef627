"""A line put together again: its words are counted as a reader counts them."""

from dataclasses import replace
from math import isnan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.decode.assemble import word_indices_in_line
from pellucid.decode.config import SearchConfig
from pellucid.decode.translate import Translator
from pellucid.text.line_splitting import split_line
from pellucid.text.markup import extract_tags
from tests.decode.models import random_model, small_tokenizer

WORDS = st.lists(st.sampled_from(["a", "b.", "<b>", "</b>", " ", "\t", "😀", "<br/>", "é", "\u3000"]), max_size=12)


@settings(derandomize=True, deadline=None)
@given(WORDS.map("".join))
def test_every_word_of_a_part_has_the_number_it_has_in_the_line(line):
    parts = [part for part in split_line(line, lambda _: True).segments if extract_tags(part).text.split()]
    plain = [extract_tags(part).text for part in parts]
    for part, found in zip(plain, word_indices_in_line(plain, parts, line), strict=True):
        assert len(found) == len(part.split())
        for word, number in zip(part.split(), found, strict=True):
            shown = line.split()[number]
            assert word[0] in shown


def test_links_count_the_words_of_the_whole_line():
    tokenizer = small_tokenizer()
    translator = Translator(random_model(5, tokenizer.source_vocabulary, tokenizer.target_vocabulary), tokenizer)
    config = SearchConfig(alignments=True, max_extra=5)
    line = "😀 The <b>ball</b> is blue.\tYes.  \tWhere is the house? 😀 😀"
    [found] = translator.translate([line], config)
    assert found.alignment
    sources, targets = len(line.split()), len(found.text.split())
    assert all(0 < i < sources - 2 and 0 < j < targets - 2 for i, j in found.alignment)
    assert {i for i, _ in found.alignment} & {5} <= {5}
    alone = translator.translate(["Yes."], config)[0].alignment
    assert alone is not None
    first = len(found.text.split("\t")[0].split())
    assert {(i - 5, j - first) for i, j in found.alignment if i == 5} == set(alone)
    assert translator.translate(["", "😀"], config)[1].alignment == []


@pytest.mark.parametrize("method", ["greedy", "beam", "sample"])
def test_scores_are_told_only_where_they_are_asked_for(method):
    tokenizer = small_tokenizer()
    translator = Translator(random_model(5, tokenizer.source_vocabulary, tokenizer.target_vocabulary), tokenizer)
    config = SearchConfig(method=method, max_extra=5)
    for line in ["The ball is blue.", "Where is it? Here."]:
        [told], [untold] = (translator.translate([line], replace(config, scores=scores)) for scores in (True, False))
        assert told.score < 0
        assert len(told.piece_log_probs) == len(told.pieces)
        assert isnan(untold.score)
        assert isnan(untold.log_prob)
        assert untold.piece_log_probs == []
        blank = {"score": 0.0, "log_prob": 0.0, "piece_log_probs": []}
        assert replace(told, **blank) == replace(untold, **blank)


def test_a_line_with_alternatives_has_links_for_each():
    tokenizer = small_tokenizer()
    translator = Translator(random_model(5, tokenizer.source_vocabulary, tokenizer.target_vocabulary), tokenizer)
    [found] = translator.translate(["The ball is blue."], SearchConfig(alignments=True, n_best=3, max_extra=5))
    assert len(found.alternatives) == 2
    assert all(each.alignment is not None for each in (found, *found.alternatives))
