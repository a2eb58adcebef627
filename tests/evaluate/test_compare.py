import json

import pytest
from sacrebleu.metrics.chrf import CHRF

from pellucid.evaluate.compare import Comparison, compare_translations
from pellucid.evaluate.report import comparison_as_text, headline
from pellucid.evaluate.scores import corpus_scores
from tests.evaluate.sentences import references, translated

LINES = [*references(83, seed=1), "the end"]
A, B = (translated(LINES, wrong, seed=2) for wrong in (0.6, 0.2))


def found(**more) -> Comparison:
    return compare_translations(A, B, LINES, sources=LINES, **{"samples": 97, **more})


def test_scores_are_those_of_evaluate():
    scores = found().scores
    for name, expected in corpus_scores(A, LINES).items():
        assert scores[name].a.score == pytest.approx(expected["score"], rel=1e-12)
        assert scores[name].signature == expected["signature"]


def test_without_case_everything_is_as_if_all_were_lower_case_but_what_is_shown():
    loud = [line.upper() if n % 3 else line for n, line in enumerate(LINES)]
    training = ["The end", "THE cat"]
    with_case = compare_translations(A, B, loud, samples=97, training=training)
    without = compare_translations(A, B, loud, samples=97, training=training, lowercase=True)
    lower = compare_translations(
        *([each.lower() for each in side] for side in (A, B, loud)), samples=97, training=["the end the cat"]
    )
    for name, expected in corpus_scores(A, loud, lowercase=True).items():
        assert without.scores[name].a.score == pytest.approx(expected["score"], rel=1e-12)
        assert without.scores[name].a.score != pytest.approx(with_case.scores[name].a.score)
        assert without.scores[name].signature == expected["signature"]
        assert without.scores[name].p_value == lower.scores[name].p_value
    assert without.groupings == lower.groupings
    assert all(each.reference == loud[each.line - 1] and each.b == B[each.line - 1] for each in without.gained)


def test_the_sentences_that_changed_most_come_first():
    metric = CHRF()
    chrf_a, chrf_b = (
        [metric.sentence_score(each, [line]).score for each, line in zip(side, LINES, strict=True)] for side in (A, B)
    )
    differences = [b - a for a, b in zip(chrf_a, chrf_b, strict=True)]
    comparison = found(show=7)
    assert [each.difference for each in comparison.gained] == pytest.approx(sorted(differences)[:-8:-1])
    assert [each.difference for each in comparison.lost] == pytest.approx(sorted(differences)[:7])
    for each in [*comparison.gained, *comparison.lost]:
        i = each.line - 1
        assert (each.source, each.reference, each.a, each.b) == (LINES[i], LINES[i], A[i], B[i])
        assert (each.chrf_a, each.chrf_b) == pytest.approx((chrf_a[i], chrf_b[i]))


def test_show_limits_what_is_kept():
    everything = found(show=len(LINES))
    assert all(each.difference > 0 for each in everything.gained)
    assert all(each.difference < 0 for each in everything.lost)
    assert len(found(show=2).gained) == 2
    assert found(show=0).lost == []


def test_exchanged_sides_exchange_gains_and_losses():
    one, other = found(show=99), compare_translations(B, A, LINES, sources=LINES, samples=97, show=99)
    assert [each.line for each in one.gained] == [each.line for each in other.lost]
    assert [each.line for each in one.lost] == [each.line for each in other.gained]


def test_the_groups_are_scored_like_the_whole():
    for grouping in found().groupings.values():
        assert sum(each.sentences for each in grouping.buckets) == len(LINES)
    bucket = found().groupings["length"].buckets[2]
    low, high = map(int, bucket.name.split("-"))
    inside = [i for i, line in enumerate(LINES) if low <= len(line.split()) <= high]
    assert len(inside) == bucket.sentences > 5
    for side, (bleu, chrf) in enumerate(zip(bucket.bleu, bucket.chrf, strict=True)):
        expected = corpus_scores([(A, B)[side][i] for i in inside], [LINES[i] for i in inside])
        assert (bleu, chrf) == pytest.approx((expected["bleu"]["score"], expected["chrf"]["score"]), rel=1e-12)


def test_what_groups_are_by_follows_what_is_at_hand():
    with_all = compare_translations(A, B, LINES, sources=["one"] * len(LINES), training=["the"], samples=9).groupings
    without = compare_translations(A, B, LINES, samples=9).groupings
    assert [each.title for each in with_all.values()] == [
        "length of the source, in words",
        "how often the rarest word of the reference occurs in the training text",
    ]
    assert [each.title for each in without.values()] == [
        "length of the reference, in words",
        "words of the reference that occur only once in all references",
    ]
    assert [each.name for each in with_all["length"].buckets] == ["1+"]


def test_one_against_itself_shows_nothing():
    same = compare_translations(A, A, LINES, samples=97)
    assert (same.identical, same.gained, same.lost) == (len(LINES), [], [])
    assert headline(same) == "A and B are the same."
    assert not any("Where" in line for line in comparison_as_text(same))


def test_translations_that_are_the_same_are_counted():
    assert compare_translations(["x", "y", "z "], ["x", "Y", "z"], ["x", "y", "z"], samples=9).identical == 1


def test_the_json_holds_everything_and_survives_a_round_trip():
    comparison = found(names=("old", "new"))
    written = comparison.to_json()
    assert json.loads(json.dumps(written, allow_nan=False)) == json.loads(json.dumps(written))
    assert (written["a"], written["b"], written["sentences"]) == ("old", "new", 84)
    assert written["scores"]["bleu"]["difference"]["score"] == comparison.scores["bleu"].difference.score
    assert written["groupings"]["rare_words"]["buckets"][0]["chrf"][1] > 0
    assert written["gained"][0]["line"] == comparison.gained[0].line


def test_the_text_says_who_is_better_and_how_surely():
    text = list(comparison_as_text(found(names=("old", "new"))))
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
def test_what_does_not_belong_together_is_refused(arguments, message: str):
    with pytest.raises(ValueError, match="nothing to compare: ") as error:
        compare_translations(*arguments)
    assert message in str(error.value)


def test_all_problems_are_told_at_once():
    with pytest.raises(ValueError, match="nothing to compare") as error:
        compare_translations(["x"], [], [""], samples=0, seed=-1, show=-2)
    for part in ("each needs its own", "no reference", "samples is 0, it must be 1", "seed is -1", "show is -2"):
        assert part in str(error.value)
