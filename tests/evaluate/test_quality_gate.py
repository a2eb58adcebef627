"""Quality gate of a smaller model: what passes, what is refused, and the reasons."""

import pytest
from sacrebleu.metrics.chrf import CHRF

from pellucid.evaluate.scores import GateVerdict, judge_smaller_model

REFERENCES = ["La bola es azul.", "¿Dónde está la casa?", "El gato negro bebió la leche."]
WORSE = ["La bola es azul.", "¿Dónde está el caso?", "El gato negro bebe leche."]
LOOP = ["La bola es azul.", "la la la la", "El gato negro bebió la leche."]


def test_the_numbers_are_those_of_sacrebleu():
    verdict = judge_smaller_model(REFERENCES, WORSE, REFERENCES)
    assert verdict.chrf_full == pytest.approx(100.0)
    assert verdict.chrf_small == CHRF().corpus_score(WORSE, [REFERENCES]).score
    assert (verdict.sentences, verdict.repetition_full, verdict.repetition_small) == (3, 0.0, 0.0)


def test_a_model_that_writes_lower_case_is_not_measured_by_its_case():
    small = [reference.lower() for reference in REFERENCES]
    assert judge_smaller_model(small, small, REFERENCES).chrf_full < 99
    assert judge_smaller_model(small, small, REFERENCES, lowercase=True).chrf_full == pytest.approx(100.0)


def test_the_same_translations_pass_whatever_they_are():
    assert judge_smaller_model(WORSE, WORSE, REFERENCES).passed
    assert judge_smaller_model(LOOP, LOOP, REFERENCES).passed


def test_better_translations_pass():
    assert judge_smaller_model(WORSE, REFERENCES, REFERENCES).reasons == []
    assert judge_smaller_model(LOOP, REFERENCES, REFERENCES).reasons == []


def test_a_drop_of_chrf_is_refused_with_its_numbers():
    verdict = judge_smaller_model(REFERENCES, WORSE, REFERENCES)
    drop = verdict.chrf_full - verdict.chrf_small
    assert not verdict.passed
    assert verdict.reasons == [f"chrF falls by {drop:.2f} to {verdict.chrf_small:.2f}, 0.3 is allowed"]


@pytest.mark.parametrize(("small", "passed"), [(61.71, True), (61.69, False)])
def test_a_drop_of_three_tenths_of_chrf_is_allowed(small: float, passed: bool):
    assert GateVerdict(100, 62.0, small, 0.0, 0.0).passed is passed


def test_more_loops_are_refused_even_at_equal_chrf():
    verdict = GateVerdict(1000, 62.0, 62.5, 0.002, 0.003)
    assert verdict.reasons == ["translations that run in a loop rise from 0.20% to 0.30%"]
    assert GateVerdict(1000, 62.0, 62.5, 0.003, 0.002).passed


def test_each_reason_is_given():
    assert len(judge_smaller_model(REFERENCES, LOOP, REFERENCES).reasons) == 2


def test_unequal_numbers_of_lines_are_refused():
    with pytest.raises(ValueError, match="2 translations and 3 references"):
        judge_smaller_model(REFERENCES, WORSE[:2], REFERENCES)
