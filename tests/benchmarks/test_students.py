"""Benchmark of students: what its page and figure make of given speeds and translations."""

import json

import pytest

from benchmarks import students
from benchmarks.students import ROWS, STUDENT, TEACHER, Task

REFERENCES = [f"der Hund Nummer {number} läuft über die grüne Wiese" for number in range(40)]


@pytest.fixture
def task(tmp_path, monkeypatch) -> Task:
    """Task in which all is measured: the student is four times as fast as its teacher, and wrong in each line."""
    monkeypatch.setattr(students, "FOLDER", tmp_path)
    task = Task("tiny", "Tiny", "nowhere", ("en", "de"), ("train", "dev", "test"), seeds=(3, 5))
    monkeypatch.setattr(students, "TASKS", (task,))
    task.__dict__["test"] = REFERENCES, REFERENCES
    wrong = [text.replace("grüne", "rote") for text in REFERENCES]
    results = {}
    for row in ROWS:
        export = task.runs / "exports" / f"{row.model}-{row.form or 'int8-shortlist'}"
        export.mkdir(parents=True, exist_ok=True)
        (export / "model.bin").write_bytes(bytes(2_000_000))
        spm = task.runs / "exports" / f"{row.model}-marian" / "source.spm"
        spm.parent.mkdir(exist_ok=True)
        spm.write_bytes(bytes(100_000))
        texts = wrong if row.model == "student" else REFERENCES
        # The machine doubles its speed from round to round.
        speeds = [{STUDENT: 40, TEACHER: 10}.get(row, 20) * drift for drift in (1, 2, 4)]
        results[row.name] = {"batch": 64, "workers": 2, "speeds": speeds, "texts": texts}
    (task.runs / "speed.json").write_text(json.dumps(results), encoding="utf-8")
    for name in ("teacher-3", "teacher-5", "teacher-3+teacher-5", "equal", "student", "people"):
        texts = REFERENCES if "teacher" in name else wrong
        (task.runs / f"{name}.test.json").write_text(json.dumps(texts), encoding="utf-8")
    return task


def test_ratios_are_of_one_round_and_verdicts_of_the_paired_test(task):
    page = [*students.page_lines(7, 9)]
    [student] = [line for line in page if line.startswith(f"| {STUDENT.name} |")]
    assert "| its own | 80 (40-160) | 4.00 (4.00-4.00) | 2.1 |" in student
    assert student.count(" worse |") == 2
    [teacher] = [line for line in page if line.startswith(f"| {TEACHER.name} |")]
    assert "| 64, 2 | 20 (10-40) | 1.00 (1.00-1.00) | 2.1 | 100.00 | 100.00 | +0.00 not told apart |" in teacher
    assert any(line.startswith("| teacher, seed 5 | 100.00 | 100.00 | +0.00 not told apart |") for line in page)
    assert page[-1].startswith("Measured: 4.00 times, chrF -")


def test_the_figure_names_each_row(task, tmp_path):
    students.draw_page_figure(tmp_path / "students.svg")
    drawing = (tmp_path / "students.svg").read_text(encoding="utf-8")
    assert all(f": {row.name}, 2.1 MB" in drawing for row in ROWS)


def test_a_training_that_was_interrupted_goes_on(task, monkeypatch):
    monkeypatch.setenv("PELLUCID_DATA", "data")
    commands = []
    monkeypatch.setattr(students, "command", lambda *words: commands.append(words))
    run = task.runs / "people"
    run.mkdir()
    (run / "run.toml").write_text("", encoding="utf-8")
    students.train_on_pairs(task, run, students.DEEP_ENCODER, 1, 7)
    assert commands == [("train", run / "run.toml", "--out", run, "--resume")]


def test_what_is_trained_is_not_trained_again(task, monkeypatch):
    monkeypatch.setenv("PELLUCID_DATA", "data")
    monkeypatch.setattr(students, "command", lambda *words: pytest.fail(f"{words} is run again"))
    for name in ("people", "equal", "student"):
        (task.runs / name / "average").mkdir(parents=True)
        (task.runs / name / "run.toml").write_text("", encoding="utf-8")
    students.train_on_pairs(task, task.runs / "people", students.DEEP_ENCODER, 1, 7)
    students.distill(task, "student", task.teachers[:1], students.DEEP_ENCODER, 7)
    students.distill(task, "equal", task.teachers, students.PLAIN, 7)
