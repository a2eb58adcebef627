"""Statistics of sentences: scores from sums of counts are sacreBLEU's for the sentences."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from pellucid.evaluate.comparison import compare_metric, score_sums, sentence_counts
from pellucid.evaluate.scores import METRICS, corpus_scores
from tests.evaluate.sentences import make_references, mistranslate

LINES = make_references(61, seed=1)
OUTPUTS = mistranslate(LINES, wrong=0.4, seed=2)

TEXTS = st.text(st.sampled_from("abcä ,.'\t\u3000漢🙂"), max_size=12)


def score_from_sums(metric: str, hypotheses: list[str], texts: list[str]) -> float:
    [score] = score_sums(metric, sentence_counts(metric, hypotheses, texts).sum(axis=0, keepdims=True))
    return score


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("span", [slice(None), slice(0, 5), slice(7, 8), slice(20, 43)])
def test_sums_give_the_score_of_the_corpus(metric: str, span: slice):
    expected = corpus_scores(OUTPUTS[span], LINES[span], [metric])[metric]
    assert score_from_sums(metric, OUTPUTS[span], LINES[span]) == pytest.approx(expected["score"], rel=1e-12)
    counts = sentence_counts(metric, OUTPUTS[span], LINES[span])
    assert compare_metric(metric, counts, counts, samples=2, seed=1).signature == expected["signature"]


@pytest.mark.parametrize("metric", METRICS)
@settings(max_examples=60, deadline=None)
@given(pairs=st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=4))
def test_sums_give_the_score_of_any_text(metric: str, pairs: list[tuple[str, str]]):
    hypotheses, texts = [hypothesis for hypothesis, _ in pairs], [f"{text} x" for _, text in pairs]
    expected = corpus_scores(hypotheses, texts, [metric])[metric]["score"]
    assert score_from_sums(metric, hypotheses, texts) == pytest.approx(expected, rel=1e-12)


def test_each_row_of_chrf_gives_the_score_of_its_sentence():
    metric = CHRF()
    expected = [metric.sentence_score(output, [line]).score for output, line in zip(OUTPUTS, LINES, strict=True)]
    assert score_sums("chrf", sentence_counts("chrf", OUTPUTS, LINES)) == pytest.approx(expected)


@pytest.mark.parametrize(("hypothesis", "expected"), [("", 0), ("a word", 100)])
@pytest.mark.parametrize("metric", ["ter", "wer"])
def test_against_no_words_any_edit_is_all(metric: str, hypothesis: str, expected: float):
    assert score_from_sums(metric, [hypothesis], [""]) == expected


def test_rows_are_scored_one_by_one():
    counts = sentence_counts("bleu", OUTPUTS, LINES)
    together = score_sums("bleu", np.stack([counts[:9].sum(axis=0), counts[9:].sum(axis=0)]))
    assert together.tolist() == [
        score_from_sums("bleu", OUTPUTS[:9], LINES[:9]),
        score_from_sums("bleu", OUTPUTS[9:], LINES[9:]),
    ]
