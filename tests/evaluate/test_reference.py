"""The reference of a model: which lines it keeps, how it is read, and what counts as the same."""

import json
from math import nan
from pathlib import Path

import pytest

from pellucid.cli.files import json_line
from pellucid.evaluate.reference import (
    REFERENCE_LINES,
    ReferenceLine,
    choose_reference,
    compare_reference,
    encode_reference,
    read_reference,
)

LINES = [ReferenceLine("one", "uno", -0.25), ReferenceLine("two", "dos", -0.5), ReferenceLine("three", "tres", -0.75)]
TEXTS, SCORES = ["uno", "dos", "tres"], [-0.25, -0.5, -0.75]


def test_what_was_written_is_read_again(tmp_path: Path):
    lines = [*LINES, ReferenceLine('quote " and \u2028', "año\x85", -1e-9)]
    (tmp_path / "reference.jsonl").write_text(encode_reference(lines), encoding="utf-8")
    assert read_reference(tmp_path / "reference.jsonl") == lines


@pytest.mark.parametrize(
    "line", ["", "{}", "[]", '{"source": "a", "text": 3, "score": -1.0}', '{"source": "a", "text": "b", "score": "c"}',
             '{"source": "a", "text": "b", "score": -1.0, "more": 1}', "[" * 5000],
)  # fmt: skip
def test_anything_else_is_refused_by_its_line(tmp_path: Path, line: str):
    path = tmp_path / "reference.jsonl"
    path.write_text(encode_reference(LINES) + line + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"reference\.jsonl:4 is not"):
        read_reference(path)


def test_a_file_without_bounds_is_not_read(tmp_path: Path):
    (tmp_path / "reference.jsonl").write_bytes(b" " * (2**22 + 1))
    with pytest.raises(ValueError, match=r"has 4,194,305 bytes; a reference has at most 4,194,304"):
        read_reference(tmp_path / "reference.jsonl")


def test_equal_texts_and_scores_pass():
    verification = compare_reference(LINES, TEXTS, SCORES, tolerance=0.0)
    assert verification.passed
    assert (verification.lines, verification.changed, verification.largest_difference) == (3, (), 0.0)


def test_another_text_is_listed_even_with_the_same_score():
    verification = compare_reference(LINES, ["uno", "DOS", "tres"], SCORES)
    [line] = verification.changed
    assert not verification.passed
    assert (line.number, line.expected, line.text, verification.other_texts) == (2, "dos", "DOS", 1)


@pytest.mark.parametrize(("score", "passed"), [(-0.5009, True), (-0.5011, False), (nan, False)])
def test_a_score_may_differ_by_the_tolerance(score: float, passed: bool):
    verification = compare_reference(LINES, TEXTS, [-0.25, score, -0.75], tolerance=0.001)
    assert verification.passed == passed
    assert verification.other_texts == 0


def test_a_tolerance_below_zero_is_refused():
    with pytest.raises(ValueError, match=r"tolerance is -1, it must be 0 or more"):
        compare_reference(LINES, TEXTS, SCORES, tolerance=-1)


def test_the_answer_is_json_even_where_a_line_failed():
    answer = json_line(compare_reference(LINES, TEXTS, [-0.25, nan, -0.75]))
    assert json.loads(answer)["changed"][0]["score"] is None


def test_a_reference_is_chosen_evenly():
    chosen = choose_reference(ReferenceLine(str(n), "", -float(n)) for n in range(0, 1000, 2))
    assert len(chosen) <= REFERENCE_LINES
    assert [line.source for line in chosen[:3]] == ["0", "6", "12"]
    assert choose_reference([ReferenceLine("failed", "failed", nan)]) == []
