"""Scores: numbers of sacreBLEU's own tests (mjpost/sacrebleu: test/test_bleu.py, test_ter.py) or solved by hand."""

import pytest
from sacrebleu.metrics.bleu import BLEU

from pellucid.evaluate.scores import METRICS, corpus_scores, edit_distance, repetition_rate

HYPOTHESES = ["The dog bit the man.", "It wasn't surprising.", "The man had just bitten him."]
REFERENCES = ["The dog bit the man.", "It was not unexpected.", "The man bit him first."]


def score(metric: str, hypotheses: list[str], references: list[str]) -> float:
    return corpus_scores(hypotheses, references, metrics=[metric])[metric]["score"]


def test_bleu_of_one_wrong_word_by_hand():
    # 5 words; 4 of 5 words, 3 of 4 pairs, 2 of 3 triples and 1 of 2 quadruples are right: (4/5 3/4 2/3 1/2)^(1/4)
    assert score("bleu", ["this is a new test"], ["this is a new fest"]) == pytest.approx(100 * 0.2**0.25)


def test_bleu_of_a_short_translation_has_the_brevity_penalty():
    # every word right, 5 of 7 of them: exp(1 - 7/5)
    assert score("bleu", ["a b c d e"], ["a b c d e f g"]) == pytest.approx(100 * 2.718281828459045 ** (1 - 7 / 5))


@pytest.mark.article("D1")
def test_bleu_is_sacrebleus_with_its_defaults():
    bleu = corpus_scores(HYPOTHESES, REFERENCES)["bleu"]
    metric = BLEU()
    assert bleu["score"] == metric.corpus_score(HYPOTHESES, [REFERENCES]).score
    assert bleu["signature"] == str(metric.get_signature())


@pytest.mark.parametrize(
    ("hypothesis", "reference", "expected"),
    [
        ("aaaa bbbb cccc dddd", "aaaa bbbb cccc dddd", 0),
        ("dddd eeee ffff", "aaaa bbbb cccc", 100),
        ("", "a", 100),
        ("d e f g h a b c", "a b c d e f g h", 100 / 8),  # one shift
    ],
)
def test_ter_of_sacrebleus_tests(hypothesis: str, reference: str, expected: float):
    assert score("ter", [hypothesis], [reference]) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("hypotheses", "references", "expected"),
    [
        (["Niemand hat die Absicht"], ["Niemand hat die Absicht"], 100),
        (["abcdefg"], ["hijklmnop"], 0),
        (["a b c"], ["abc"], 100),  # spaces are left out
        (["aa"], ["ab"], 25),  # 1 of 2 characters, 0 of 1 pair: F2 of the means 1/4 and 1/4
    ],
)
def test_chrf_of_sacrebleus_tests(hypotheses: list[str], references: list[str], expected: float):
    assert score("chrf", hypotheses, references) == pytest.approx(expected)


@pytest.mark.article("D1")
@pytest.mark.parametrize(
    ("hypothesis", "reference", "edits"),
    [
        ("the cat sat", "the cat sat", 0),
        ("the cat sat", "a cat sat", 1),
        ("the cat", "the cat sat", 1),
        ("the big cat sat", "the cat sat", 1),
        ("b c d a", "a b c d", 2),  # a word that moved is taken out and put in
        ("", "the cat sat", 3),
        ("the cat sat", "", 3),
        ("a b c", "x y z v", 4),
    ],
)
def test_edits_counted_by_hand(hypothesis: str, reference: str, edits: int):
    assert edit_distance(hypothesis.split(), reference.split()) == edits
    assert edit_distance(reference.split(), hypothesis.split()) == edits


def test_word_errors_are_summed_before_they_are_divided():
    # 1 edit for 1 word and 0 for 4: a fifth, not the mean of 100 % and 0 %
    assert score("wer", ["no", "the cat sat down"], ["yes", "the cat sat down"]) == pytest.approx(20)


def test_word_errors_may_exceed_all_words():
    assert score("wer", ["a b c"], ["d"]) == pytest.approx(300)


@pytest.mark.parametrize("metric", METRICS)
def test_case_counts_and_the_signature_says_so(metric: str):
    same = corpus_scores(["The black cat drank."], ["The black cat drank."], metrics=[metric])[metric]
    other = corpus_scores(["the Black cat Drank."], ["The black cat drank."], metrics=[metric])[metric]
    assert same["score"] != other["score"]
    assert "case:mixed" in same["signature"]
    ignoring_case = corpus_scores(["the Black cat Drank."], ["The black cat drank."], metrics=[metric], lowercase=True)[
        metric
    ]
    assert ignoring_case["score"] == same["score"]
    assert "case:lc" in ignoring_case["signature"]


@pytest.mark.parametrize("metric", METRICS)
def test_an_empty_translation_makes_the_score_worse(metric: str):
    complete, with_empty = score(metric, HYPOTHESES, REFERENCES), score(metric, ["", *HYPOTHESES[1:]], REFERENCES)
    assert (with_empty > complete) == (metric in ("ter", "wer"))


def test_lines_that_cannot_be_scored_are_refused():
    with pytest.raises(ValueError, match="3 translations and 2 references"):
        corpus_scores(HYPOTHESES, REFERENCES[:2])
    for empty_lines in ([], [""], [" ", "\t"]):
        with pytest.raises(ValueError, match="no reference has a word"):
            corpus_scores(empty_lines, empty_lines)


@pytest.mark.parametrize(
    ("text", "loop"),
    [
        ("go go go", True),
        ("go go", False),
        ("and he said go go go then", True),
        ("a b a b a b", True),
        ("a b a b a", False),
        ("a b c d a b c d a b c d", True),
        ("a b c d e a b c d e a b c d e", False),  # five words
        ("a b a c a d", False),
        ("Go go go", False),
        ("我们去公园，我们去公园，我们去公园，", True),
        ("มากมากมาก", True),
        ("哈哈哈", False),  # laughter
        ("这座城市有10000000人……………", False),
        ("我们去公园，我们去公园", False),
        ("", False),
    ],
)
def test_a_loop_is_words_three_times_in_a_row(text: str, loop: bool):
    assert repetition_rate([text]) == loop
    assert repetition_rate([text, "", "a dog", "a cat"]) == loop / 4


def test_no_texts_have_no_loops():
    assert repetition_rate([]) == 0


SECOND_REFERENCES = [" ".join(reversed(reference.split())) for reference in REFERENCES]


def test_several_references_are_scored_as_sacrebleu_scores_them():
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    scores = corpus_scores(HYPOTHESES, [REFERENCES, SECOND_REFERENCES])
    for name, metric in {"bleu": BLEU(), "chrf": CHRF(), "ter": TER(case_sensitive=True)}.items():
        assert scores[name]["score"] == metric.corpus_score(HYPOTHESES, [REFERENCES, SECOND_REFERENCES]).score
        assert scores[name]["signature"] == str(metric.get_signature())
    assert all(result["signature"].startswith("nrefs:2|") for result in scores.values())


def test_word_errors_are_counted_to_the_nearest_reference_over_the_mean_length():
    wer = corpus_scores(["a b c", "x"], [["a b c d", "y"], ["a b", "x y z"]], metrics=["wer"])["wer"]
    assert wer["score"] == 100 * (1 + 1) / (3 + 2)
    assert (
        corpus_scores(
            ["a b"],
            [
                [
                    "a b",
                ]
            ]
            * 3,
            metrics=["wer"],
        )["wer"]["score"]
        == 0
    )


@pytest.mark.parametrize("metric", METRICS)
def test_one_list_of_references_is_the_same_as_references(metric):
    assert corpus_scores(HYPOTHESES, [REFERENCES], [metric]) == corpus_scores(HYPOTHESES, REFERENCES, [metric])


def test_a_list_of_references_that_is_too_short_is_named():
    with pytest.raises(ValueError, match="translations and 1 references in list 2 of 2: each needs the other"):
        corpus_scores(HYPOTHESES, [REFERENCES, REFERENCES[:1]])
