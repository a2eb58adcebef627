"""What the grades of a file are summed up to, and which chapters are named first."""

import json
import re
from dataclasses import replace

from pellucid.cli.document_translation import make_review
from pellucid.cli.translation_grades import describe_chapters, describe_grades, sum_up_grades
from pellucid.decode.alarms import ALARMS
from pellucid.decode.translation import Translation
from pellucid.decode.usability import Grade
from pellucid.localize.documents.chapters import Chapter
from pellucid.localize.documents.slots import Review
from tests.cli.test_calibrate import calibrated, model  # noqa: F401  (fixtures)
from tests.documents.samples import make_docx


def read_counts(text: str) -> list[int]:
    """Return the numbers of a summary: usable, to look at and to redo, or how many of how many."""
    return [int(number) for number in re.findall(r"\d+", text)]


def test_a_file_is_summed_up_in_a_line_without_what_needed_no_translation(capsys):
    found = [Translation("a", -1.0, -1.0, "eos", [], [], [], grade=grade) for grade in ("usable", "look", "usable")]
    found.append(Translation("", 0.0, 0.0, "empty", [], [], []))
    assert [*sum_up_grades(found, "book.en")] == found
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("pellucid: book.en: ")
    assert read_counts(line) == [2, 1, 0]


def test_without_a_calibration_nothing_is_called_usable():
    assert describe_grades({None: 30}, "line") == ""
    by_alarms = describe_grades({None: 30, "look": 2}, "text")
    assert "usable" not in by_alarms.partition(";")[0]
    assert read_counts(by_alarms)[:3] == [0, 2, 30]  # to redo, to look at, and the others
    known = describe_grades({None: 1, "redo": 1, "usable": 4}, "line")
    assert known.startswith("4 usable, ")
    assert read_counts(known)[:3] == [4, 1, 0]


def test_the_chapter_with_the_most_work_for_its_size_comes_first_and_ten_at_most_are_named():
    chapters = [Chapter("Good", range(4)), Chapter("Look", range(4, 6)), Chapter("Redo", range(6, 8))]
    grades: list[Grade] = ["usable", "usable", "usable", "usable", "look", "look", "redo", "look"]
    first, *others = describe_chapters(grades, chapters)
    assert read_counts(first) == [2, 3]
    names_and_counts = [(line.partition(":")[0].strip(), read_counts(line)) for line in others]
    assert names_and_counts == [("Redo", [2, 1, 1]), ("Look", [2, 0, 2])]
    many = [Chapter(f"Chapter {i}", range(i, i + 1)) for i in range(40)]
    redo: list[Grade] = ["redo"] * 40
    _, *others = describe_chapters(redo, many)
    assert [read_counts(line) for line in others] == [[i, 1, 1, 0] for i in range(10)]
    assert [*describe_chapters([None] * 40, many)] == []
    assert [*describe_chapters(redo, many[:1])] == []


def test_a_calibrated_model_grades_each_line_and_counts_the_chapters_of_a_document(call, model, tmp_path):  # noqa: F811
    (tmp_path / "in.txt").write_text("one two\n\nsix\n", encoding="utf-8")
    rows = [json.loads(line) for line in call("translate", model, "in.txt", "--json").stdout.splitlines()]
    assert [row.get("grade") for row in rows] == ["redo", None, "redo"]
    for options in ((), ("--beam", 1)):
        last = call("translate", model, "in.txt", *options).stderr.splitlines()[-1]
        assert read_counts(last) == [0, 0, 2]
    (tmp_path / "a.html").write_text("<h2>one</h2><p>two three</p><h2>six</h2>", encoding="utf-8")
    result = call("translate", model, "a.html", "--out", "b.html")
    counts = [read_counts(line) for line in result.stderr.splitlines()]
    assert [0, 0, 3] in counts
    # The chapters come before the account of the document.
    assert "  six: " in result.stderr.splitlines()[-2]
    assert counts[-2] == [1, 1, 0]


def test_the_notes_on_a_document_are_said_to_their_end(call, calibrated, tmp_path):  # noqa: F811
    (tmp_path / "a.html").write_text("<p>one two. three four. six. five one.</p>", encoding="utf-8")
    found = call("translate", calibrated / "run" / "best", "a.html", "--out", "b.html")
    assert found.exit_code == 0
    assert "'one two. three four. six. five one.': " in found.stderr


def test_marks_are_asked_for_and_stand_in_the_document(call, model, tmp_path):  # noqa: F811
    source = (
        '<xliff version="1.2"><file source-language="en" datatype="plaintext" original="a"><body>'
        '<trans-unit id="1"><source>one two</source></trans-unit></body></file></xliff>'
    )
    (tmp_path / "a.xlf").write_text(source, encoding="utf-8")
    plain, marked = (call("translate", model, "a.xlf", *more).stdout for more in ([], ["--mark"]))
    assert "note" not in plain
    assert 'state-qualifier="x-redo"' in marked
    assert '<note from="pellucid" annotates="target" priority="1">redo: ' in marked


def test_a_file_that_cannot_be_marked_is_refused_before_it_is_translated(refuse, model, tmp_path):  # noqa: F811
    (tmp_path / "a.html").write_text("<p>one</p>", encoding="utf-8")
    (tmp_path / "a.en").write_text("one\n", encoding="utf-8")
    for name in ("a.html", "a.en"):
        assert f"{name} cannot be marked; --mark is for .xliff, " in refuse("translate", model, name, "--mark")


def test_comments_are_translated_where_they_are_asked_for(call, refuse, model, tmp_path):  # noqa: F811
    comments = '<w:comment w:id="1"><w:p><w:r><w:t>three four</w:t></w:r></w:p></w:comment>'
    body = "<w:p><w:r><w:t>one two</w:t></w:r></w:p>"
    (tmp_path / "a.docx").write_bytes(make_docx(body, comments=comments))
    for options, account in (((), "1 is a comment"), (("--comments",), "2 texts")):
        result = call("translate", model, "a.docx", "--out", "b.docx", *options)
        assert result.exit_code == 0
        assert account in result.stderr.splitlines()[-1]
    (tmp_path / "a.html").write_text("<p>one</p>", encoding="utf-8")
    assert "--comments is for .docx, " in refuse("translate", model, "a.html", "--comments")


def test_a_review_says_why():
    found = Translation("a", -1.0, -1.0, "eos", [], [], [])
    assert make_review(found) is None
    assert make_review(replace(found, grade="usable")) is None
    assert make_review(replace(found, grade="redo")) == Review("redo", "the model is not sure of it")
    assert make_review(replace(found, grade="look", alarms=("numbers", "names"))) == Review(
        "look",
        f"{ALARMS['numbers']}; {ALARMS['names']}",
    )
    failed = replace(found, grade="redo", stop="failed", notes=("too long",), alarms=("copy",))
    assert make_review(failed) == Review("redo", "it could not be translated; too long")
