"""Comparisons of two translations: scores, groups of sentences, and the sentences that changed most."""

import json
from dataclasses import asdict

import pytest
from sacrebleu.metrics.chrf import CHRF

from pellucid.cli.files import json_line
from pellucid.evaluate.comparison import Comparison, compare_translations
from pellucid.evaluate.report import comparison_as_text, headline
from pellucid.evaluate.scores import corpus_scores
from tests.evaluate.sentences import make_references, mistranslate

LINES = [*make_references(83, seed=1), "the end"]
A, B = (mistranslate(LINES, wrong, seed=2) for wrong in (0.6, 0.2))


def make_comparison(**options) -> Comparison:
    return compare_translations(A, B, LINES, sources=LINES, **{"samples": 97, **options})


def test_scores_are_those_of_evaluate():
    scores = make_comparison().scores
    for name, expected in corpus_scores(A, LINES).items():
        assert scores[name].a.score == pytest.approx(expected["score"], rel=1e-12)
        assert scores[name].signature == expected["signature"]


def test_without_case_all_is_compared_in_lower_case_and_shown_as_it_was_written():
    upper_case_lines = [line.upper() if n % 3 else line for n, line in enumerate(LINES)]
    training = ["The end", "THE cat"]
    with_case = compare_translations(A, B, upper_case_lines, samples=97, training=training)
    without_case = compare_translations(A, B, upper_case_lines, samples=97, training=training, lowercase=True)
    lower_case = compare_translations(
        *([line.lower() for line in side] for side in (A, B, upper_case_lines)),
        samples=97,
        training=["the end the cat"],
    )
    for name, expected in corpus_scores(A, upper_case_lines, lowercase=True).items():
        assert without_case.scores[name].a.score == pytest.approx(expected["score"], rel=1e-12)
        assert without_case.scores[name].a.score != pytest.approx(with_case.scores[name].a.score)
        assert without_case.scores[name].signature == expected["signature"]
        assert without_case.scores[name].p_value == lower_case.scores[name].p_value
    assert without_case.groupings == lower_case.groupings
    assert all(
        change.reference == upper_case_lines[change.line - 1] and change.b == B[change.line - 1]
        for change in without_case.gained
    )


def test_the_sentences_that_changed_most_come_first():
    metric = CHRF()
    chrf_a, chrf_b = (
        [metric.sentence_score(translation, [line]).score for translation, line in zip(side, LINES, strict=True)]
        for side in (A, B)
    )
    differences = [b - a for a, b in zip(chrf_a, chrf_b, strict=True)]
    comparison = make_comparison(show=7)
    assert [change.difference for change in comparison.gained] == pytest.approx(sorted(differences)[:-8:-1])
    assert [change.difference for change in comparison.lost] == pytest.approx(sorted(differences)[:7])
    for change in [*comparison.gained, *comparison.lost]:
        i = change.line - 1
        assert (change.source, change.reference, change.a, change.b) == (LINES[i], LINES[i], A[i], B[i])
        assert (change.chrf_a, change.chrf_b) == pytest.approx((chrf_a[i], chrf_b[i]))


def test_show_limits_the_changed_sentences():
    comparison = make_comparison(show=len(LINES))
    assert all(change.difference > 0 for change in comparison.gained)
    assert all(change.difference < 0 for change in comparison.lost)
    assert len(make_comparison(show=2).gained) == 2
    assert make_comparison(show=0).lost == []


def test_exchanged_sides_exchange_gains_and_losses():
    comparison, exchanged = (
        make_comparison(show=99),
        compare_translations(B, A, LINES, sources=LINES, samples=97, show=99),
    )
    assert [change.line for change in comparison.gained] == [change.line for change in exchanged.lost]
    assert [change.line for change in comparison.lost] == [change.line for change in exchanged.gained]


def test_the_groups_are_scored_like_the_whole():
    for grouping in make_comparison().groupings.values():
        assert sum(bucket.sentences for bucket in grouping.buckets) == len(LINES)
    bucket = make_comparison().groupings["length"].buckets[2]
    low, high = map(int, bucket.name.split("-"))
    indices = [i for i, line in enumerate(LINES) if low <= len(line.split()) <= high]
    assert len(indices) == bucket.sentences > 5
    assert bucket.bleu is not None
    for side, (bleu, chrf) in enumerate(zip(bucket.bleu, bucket.chrf, strict=True)):
        expected = corpus_scores([(A, B)[side][i] for i in indices], [LINES[i] for i in indices])
        assert (bleu, chrf) == pytest.approx((expected["bleu"]["score"], expected["chrf"]["score"]), rel=1e-12)


def test_groupings_depend_on_whether_sources_and_a_training_text_are_given():
    with_all = compare_translations(A, B, LINES, sources=["one"] * len(LINES), training=["the"], samples=9).groupings
    without_texts = compare_translations(A, B, LINES, samples=9).groupings
    assert [grouping.title for grouping in with_all.values()] == [
        "length of the source, in words",
        "how often the rarest word of the reference occurs in the training text",
    ]
    assert [grouping.title for grouping in without_texts.values()] == [
        "length of the reference, in words",
        "words of the reference that occur only once in all references",
    ]
    assert [bucket.name for bucket in with_all["length"].buckets] == ["1+"]


def test_a_comparison_with_itself_shows_nothing():
    same = compare_translations(A, A, LINES, samples=97)
    assert (same.identical, same.gained, same.lost) == (len(LINES), [], [])
    assert headline(same) == "A and B are the same."
    assert not any("Where" in line for line in comparison_as_text(same))


def test_identical_translations_are_counted():
    assert compare_translations(["x", "y", "z "], ["x", "Y", "z"], ["x", "y", "z"], samples=9).identical == 1


def test_the_json_holds_everything_and_survives_a_round_trip():
    comparison = make_comparison(names=("old", "new"))
    table = asdict(comparison)
    assert json.loads(json.dumps(table, allow_nan=False)) == json.loads(json_line(comparison))
    assert (table["a"], table["b"], table["sentences"]) == ("old", "new", 84)
    assert table["scores"]["bleu"]["difference"]["score"] == comparison.scores["bleu"].difference.score
    assert table["groupings"]["rare_words"]["buckets"][0]["chrf"][1] > 0
    assert table["gained"][0]["line"] == comparison.gained[0].line


def test_the_text_says_which_translations_are_better_and_how_surely():
    text = list(comparison_as_text(make_comparison(names=("old", "new"))))
    assert text[:2] == ["A: old", "B: new"]
    assert text[2].endswith("translated the same by both. B is better by BLEU, chrF, TER and WER.")
    rows = {line.split()[0]: line for line in text[4:9] if line.split()}
    assert rows["chrF"].endswith("B is better, p = 0.010")
    assert rows["TER"].endswith("B is better, p = 0.010 (lower is better)")
    assert len({row.index("[") for row in (rows["BLEU"], rows["chrF"], rows["TER"], rows["WER"])}) == 1
    few = compare_translations(["x"], ["y"], ["x"], samples=9)
    assert headline(few) == "No score can tell A and B apart."


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["x"], ["x", "y"], ["x", "y"]), "2 references, 1 translations in A, 2 translations in B: each needs its own"),
        ((["x"], ["x"], ["x"], ["x", "y"]), "1 translations in B, 2 sources: each needs its own"),
        (([], [], []), "no reference has a word"),
        ((["x"], ["x"], [" "]), "no reference has a word"),
    ],
)
def test_inputs_that_cannot_be_compared_are_refused(arguments, message: str):
    with pytest.raises(ValueError, match="nothing to compare: ") as error:
        compare_translations(*arguments)
    assert message in str(error.value)


def test_all_problems_are_named_at_once():
    with pytest.raises(ValueError, match="nothing to compare") as error:
        compare_translations(["x"], [], [""], samples=0, seed=-1, show=-2)
    for problem in ("each needs its own", "no reference", "samples is 0, it must be 1", "seed is -1", "show is -2"):
        assert problem in str(error.value)
