"""A test set with noise: scores fall only where words get lost; a line that nothing changes keeps its translation."""

from collections.abc import Sequence

import pytest

from pellucid.evaluate.stress import (
    CLEAN,
    SENTENCES,
    STRESS_KINDS,
    StressRow,
    plant_test_noise,
    score_stress,
    stress_table,
    strip_form,
)
from pellucid.interpret.plots.charts import draw_stress

SOURCES = ["The big dog sleeps in the garden.", "He's here!", "Who drinks the café's milk - and why?", "12", ""]
REFERENCES = [
    "Der große Hund schläft im Garten.",
    "Er ist hier!",
    "Wer trinkt die Milch des Cafés - und warum?",
    "12",
    "",
]


def copy_sources(kind: str, sources: Sequence[str]) -> list[str]:
    """Translate a language into itself."""
    return list(sources)


def test_who_keeps_all_words_loses_nothing_to_case_and_marks():
    rows, signatures = score_stress(SOURCES, [SOURCES], copy_sources, ("en", "en"))
    by_kind = {row.kind: row for row in rows}
    assert (rows[0].kind, rows[0].bleu, rows[0].chrf) == (CLEAN, pytest.approx(100), pytest.approx(100))
    for kind in ("capitals", "title_case", "small_letters", "end_marks", "marks", "copies", SENTENCES):
        assert by_kind[kind].bleu_difference == pytest.approx(0, abs=1e-9), kind
        assert by_kind[kind].chrf_difference == pytest.approx(0, abs=1e-9), kind
    # Errors of the source stay in a copy, and are none of the reference.
    for kind in ("typing_errors", "lost_accents", "spellings"):
        assert by_kind[kind].chrf_difference < 0, kind
    assert set(signatures) == {"bleu", "chrf"}
    assert "case:lc" in signatures["bleu"]


def test_who_reads_no_capitals_loses_all_by_them_alone():
    known = dict(zip(SOURCES, REFERENCES, strict=True))
    rows, _ = score_stress(
        SOURCES, [REFERENCES], lambda _, texts: [known.get(text, "?") for text in texts], ("en", "de")
    )
    by_kind = {row.kind: row for row in rows}
    assert by_kind[CLEAN].bleu == pytest.approx(100)
    assert by_kind["capitals"].chrf < 5
    # One line of five has an accent; the others keep their translations.
    assert by_kind["lost_accents"].changed == 1
    assert by_kind["lost_accents"].chrf > 30


def test_only_lines_that_the_noise_changes_are_translated_again():
    asked = {}

    def translate(kind: str, sources: Sequence[str]) -> list[str]:
        asked[kind] = list(sources)
        return list(sources)

    rows, _ = score_stress(SOURCES, [REFERENCES], translate)
    assert asked.pop(CLEAN) == SOURCES
    assert not [text for texts in asked.values() for text in texts if text in SOURCES]
    assert {row.kind: row.changed for row in rows if row.kind != CLEAN} == {
        kind: len(texts) for kind, texts in asked.items()
    }
    # Two lines as one; the last of an odd number stays alone.
    assert asked[SENTENCES] == [f"{SOURCES[0]} {SOURCES[1]}", f"{SOURCES[2]} {SOURCES[3]}"]


@pytest.mark.parametrize("kind", STRESS_KINDS)
def test_a_line_gets_the_same_noise_each_time_and_beside_each_reference(kind):
    first = plant_test_noise(kind, SOURCES, [REFERENCES, SOURCES], ("en", "de"))
    again = plant_test_noise(kind, SOURCES, [SOURCES], ("en", "de"))
    assert first.sources == again.sources
    assert first.references[1] == again.references[0]


def test_a_blank_second_reference_stays_blank():
    for kind in STRESS_KINDS:
        noisy = plant_test_noise(kind, SOURCES[:3], [REFERENCES[:3], ["", "Er ist da!", ""]], ("en", "de"))
        if kind != SENTENCES:
            assert (noisy.references[1][0], noisy.references[1][2]) == ("", "")


@pytest.mark.parametrize(
    ("text", "inside"),
    [("1. „Ja!“", "Ja"), ("(Nein.)", "Nein"), ("• Gut...", "Gut"), ("好。", "好"), ("12", "12"), ("!", ""), ("", "")],
)
def test_form_is_marks_around_a_text_and_at_its_end(text, inside):
    assert strip_form(text) == inside


def test_the_table_and_the_figure_name_each_kind(tmp_path):
    rows = [StressRow(CLEAN, 0, 30.0, 50.0), StressRow("title_case", 1234, 28.5, 50.25, -1.5, 0.25)]
    assert stress_table(rows)[1:] == [
        "clean                    30.00           50.00",
        "title case       1,234   28.50   -1.50   50.25   +0.25",
    ]
    draw_stress([row.row() for row in rows], tmp_path / "stress.svg")
    drawn = (tmp_path / "stress.svg").read_text(encoding="utf-8")
    assert "title case" in drawn
    assert "clean lines: BLEU 30.0, chrF 50.0" in drawn
