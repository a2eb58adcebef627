"""A line put together from its segments: its words are counted as a reader counts them."""

from dataclasses import replace
from math import isnan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.data.text.line_splitting import split_line
from pellucid.data.text.markup import extract_tags
from pellucid.decode.line_alignment import word_indices_in_line
from pellucid.decode.request import SearchConfig
from pellucid.decode.translator import Translator
from tests.decode.models import random_model, small_tokenizer

WORDS = st.lists(st.sampled_from(["a", "b.", "<b>", "</b>", " ", "\t", "😀", "<br/>", "é", "\u3000"]), max_size=12)


@settings(derandomize=True, deadline=None)
@given(WORDS.map("".join))
def test_every_word_of_a_segment_has_its_index_in_the_line(line):
    split = split_line(line, lambda _: True)
    plain = [extract_tags(text).text for text in split.segments]
    found = word_indices_in_line(plain, split.segments, line, split.gaps)
    for text, indices in zip(plain, found, strict=True):
        assert len(indices) == len(text.split())
        for word, index in zip(text.split(), indices, strict=True):
            word_in_line = line.split()[index]
            assert word[0] in word_in_line


def test_links_count_the_words_of_the_whole_line():
    tokenizer = small_tokenizer()
    translator = Translator(random_model(5, tokenizer.source_vocabulary, tokenizer.target_vocabulary), tokenizer)
    config = SearchConfig(alignments=True, max_extra=5)
    line = "😀 The <b>ball</b> is blue.\tYes.  \tWhere is the house? 😀 😀"
    [translation] = translator.translate([line], config)
    assert translation.alignment
    sources, targets = len(line.split()), len(translation.text.split())
    assert all(0 < i < sources - 2 and 0 < j < targets - 2 for i, j in translation.alignment)
    assert {i for i, _ in translation.alignment} & {5} <= {5}
    segment_alignment = translator.translate(["Yes."], config)[0].alignment
    assert segment_alignment is not None
    words_before = len(translation.text.split("\t")[0].split())
    assert {(i - 5, j - words_before) for i, j in translation.alignment if i == 5} == set(segment_alignment)
    assert translator.translate(["", "😀"], config)[1].alignment == []


def test_words_between_the_texts_of_a_message_are_not_counted_as_theirs():
    line = "{n, plural, one {a b} other {n}}"
    split = split_line(line, lambda _: True)
    # The words of the line are {n, - plural, - one - {a - b} - other - {n}}.
    assert word_indices_in_line(split.segments, split.segments, line, split.gaps) == [[3, 4], [6]]


@pytest.mark.parametrize("method", ["greedy", "beam", "sample"])
def test_scores_are_given_only_on_request(method):
    tokenizer = small_tokenizer()
    translator = Translator(random_model(5, tokenizer.source_vocabulary, tokenizer.target_vocabulary), tokenizer)
    config = SearchConfig(method=method, max_extra=5)
    for line in ["The ball is blue.", "Where is it? Here."]:
        [scored], [unscored] = (
            translator.translate([line], replace(config, scores=scores)) for scores in (True, False)
        )
        assert scored.score < 0
        assert len(scored.piece_log_probs) == len(scored.pieces)
        assert isnan(unscored.score)
        assert isnan(unscored.log_prob)
        assert unscored.piece_log_probs == []
        blank = {"score": 0.0, "log_prob": 0.0, "piece_log_probs": []}
        assert replace(scored, **blank) == replace(unscored, **blank)


def test_every_alternative_of_a_line_has_links():
    tokenizer = small_tokenizer()
    translator = Translator(random_model(5, tokenizer.source_vocabulary, tokenizer.target_vocabulary), tokenizer)
    [translation] = translator.translate(["The ball is blue."], SearchConfig(alignments=True, n_best=3, max_extra=5))
    assert len(translation.alternatives) == 2
    assert all(candidate.alignment is not None for candidate in (translation, *translation.alternatives))
