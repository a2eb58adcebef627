"""Grades: alarms and expected quality say what a person can use, and neither is kinder than the other."""

import itertools
from dataclasses import replace
from math import exp, nan

import pytest

from pellucid.decode.alarms import ALARMS
from pellucid.decode.confidence import Calibration, ConfidenceCurve
from pellucid.decode.line_segments import Line
from pellucid.decode.request import SearchConfig
from pellucid.decode.stages.grades import GradeTranslations
from pellucid.decode.translation import Translation
from pellucid.decode.translator import Translator
from pellucid.decode.usability import (
    GRADES,
    SPOILING_ALARMS,
    QualityEstimate,
    choose_worst_grade,
    grade_alarms,
    quality_features,
)
from pellucid.localize.translation_memory import TranslationMemory
from tests.decode.models import LINES, random_model, small_tokenizer

ESTIMATE = QualityEstimate((90.0, 40.0, 0.0, -10.0, -20.0), redo_below=30.0, look_below=50.0)


def translation(log_prob: float, alarms: tuple[str, ...] = (), **changed) -> Translation:
    """Return a translation of three pieces from as many."""
    found = Translation("La bola", log_prob, log_prob, "eos", ["▁La", "▁bola", "</s>"], [], ["▁The", "▁ball", "</s>"])
    return replace(found, **{"alarms": alarms, "grade": grade_alarms(alarms), **changed})


def grade(translator: Translator, found: Translation) -> Translation:
    """Return a translation as the stage of a calibrated translator grades it."""
    assert translator.calibration is not None
    stage = GradeTranslations(translator.calibration)
    [graded] = stage([Line("The ball", 1)], lambda lines: [found])
    return graded


@pytest.fixture
def translator():
    """Return a translator that was calibrated by hand: a chrF of 90, and 40 less for each nat of a piece."""
    tokenizer = small_tokenizer()
    made = Translator(random_model(3, tokenizer.source_vocabulary, tokenizer.target_vocabulary), tokenizer)
    curve = ConfidenceCurve((), (0.5,))
    made.calibration = Calibration((0.0,) * 5, curve, None, {}, ESTIMATE)
    return made


def test_the_expected_chrf_is_the_weighted_sum_and_never_leaves_its_range():
    # Six pieces from three: the ratio is 2, the logarithm of which is 0.693.
    assert quality_features(-3.0, 6, 3) == pytest.approx((1.0, -0.5, 1.791759, 0.693147, 0.0))
    assert quality_features(-3.0, 3, 6) == pytest.approx((1.0, -1.0, 1.098612, 0.0, 0.693147))
    assert ESTIMATE.expect_chrf(-3.0, 6, 3) == pytest.approx(90 - 20 - 6.93147)
    assert ESTIMATE.expect_chrf(-3.0, 3, 6) == pytest.approx(90 - 40 - 13.86294)
    assert ESTIMATE.expect_chrf(-900.0, 3, 6) == 0.0
    assert replace(ESTIMATE, weights=(400.0, 0.0, 0.0, 0.0, 0.0)).expect_chrf(-1.0, 1, 1) == 100.0


def test_every_alarm_asks_for_a_person_and_no_grade_gets_better_by_one():
    order = list(GRADES)
    assert set(ALARMS) >= SPOILING_ALARMS
    for names in itertools.chain.from_iterable(itertools.combinations(ALARMS, size) for size in range(1, 4)):
        grade = grade_alarms(names)
        assert grade is not None
        assert grade == ("redo" if SPOILING_ALARMS & set(names) else "look")
        for quality in GRADES:
            worst = choose_worst_grade([grade, quality])
            assert worst is not None
            assert order.index(worst) == max(order.index(grade), order.index(quality))


@pytest.mark.parametrize(
    ("log_prob", "alarms", "expected"),
    [
        (-0.3, (), "usable"),  # a chrF of 86
        (-3.0, (), "usable"),  # of 50, which is not below the bound
        (-3.03, (), "look"),
        (-4.5, (), "look"),  # of 30
        (-4.53, (), "redo"),
        (-0.3, ("numbers",), "look"),
        (-0.3, ("names", "repeats"), "redo"),
        (-4.53, ("length",), "redo"),
    ],
)
def test_a_grade_is_that_of_its_alarms_or_of_its_quality_whichever_is_worse(translator, log_prob, alarms, expected):
    assert grade(translator, translation(log_prob, alarms)).grade == expected


def test_without_a_calibration_only_what_has_an_alarm_has_a_grade(translator):
    translator.calibration = replace(translator.calibration, quality=None)  # of an older version
    assert grade(translator, translation(-0.3)).grade is None
    assert grade(translator, translation(-0.3, ("copy",))).grade == "redo"
    assert grade(translator, translation(-0.3, ("names",))).grade == "look"

    translator.calibration = None
    for found in translator.translate([*LINES, "", "犬"], SearchConfig()):
        assert found.grade == grade_alarms(found.alarms)
        assert all(other.grade is None for other in found.alternatives)


def test_a_translation_without_a_score_is_graded_by_its_alarms(translator):
    assert grade(translator, translation(nan)).grade is None
    assert grade(translator, translation(nan, ("length",))).grade == "look"


def test_what_was_not_searched_for_is_graded_by_why(translator):
    memory = TranslationMemory([("Yes.", "Sí.")])
    blank, known = translator.translate(["", "Yes."], SearchConfig(), translation_memory=memory)
    assert (blank.stop, blank.grade) == ("empty", None)
    assert (known.stop, known.grade) == ("memory", "usable")
    for kept in (blank, known, translation(nan, stop="failed", grade="redo")):
        assert grade(translator, kept) is kept


def test_every_line_that_has_something_to_translate_is_graded_by_a_calibrated_model(translator):
    lines = [*LINES, "", "   "]
    grades = [found.grade for found in translator.translate(lines, SearchConfig.from_options({}))]
    assert grades[-2:] == [None, None]
    assert all(grade in GRADES for grade in grades[:-2])


def test_damaged_estimates_are_refused():
    for weights in ((1.0,) * 4, (1.0, 1.0, 1.0, 1.0, nan), (exp(1), 0, 0, 0, float("inf"))):
        with pytest.raises(ValueError, match="not one finite number for each feature"):
            QualityEstimate(weights, 30.0, 50.0)
    with pytest.raises(ValueError, match="the bound of redo is above that of look"):
        QualityEstimate((1.0,) * 5, 50.0, 30.0)
