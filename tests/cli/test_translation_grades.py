"""What the grades of a file are summed up to, and which chapters are named first."""

import json
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


def test_a_file_is_summed_up_in_a_line_without_what_needed_no_translation(capsys):
    found = [Translation("a", -1.0, -1.0, "eos", [], [], [], grade=grade) for grade in ("usable", "look", "usable")]
    found.append(Translation("", 0.0, 0.0, "empty", [], [], []))
    assert [*sum_up_grades(found, "book.en")] == found
    assert capsys.readouterr().err == "pellucid: book.en: 2 lines usable, 1 to look at, 0 to redo\n"


def test_without_a_calibration_nothing_is_called_usable():
    assert describe_grades({None: 30}, "line") == ""
    assert describe_grades({None: 30, "look": 2}, "text").startswith(
        "0 texts to redo, 2 to look at, as alarms say; 30 "
    )
    assert describe_grades({None: 1, "redo": 1, "usable": 4}, "line").startswith(
        "4 usable, 1 line to redo, 0 to look at"
    )


def test_the_chapter_with_the_most_work_for_its_size_comes_first_and_ten_at_most_are_named():
    chapters = [Chapter("Good", range(4)), Chapter("Look", range(4, 6)), Chapter("Redo", range(6, 8))]
    grades: list[Grade] = ["usable", "usable", "usable", "usable", "look", "look", "redo", "look"]
    assert [*describe_chapters(grades, chapters)] == [
        "2 of 3 chapters need a person, those that need one most first:",
        "  Redo: of 2 texts, 1 to redo, 1 to look at",
        "  Look: of 2 texts, 0 to redo, 2 to look at",
    ]
    many = [Chapter(f"Chapter {i}", range(i, i + 1)) for i in range(40)]
    redo: list[Grade] = ["redo"] * 40
    lines = [*describe_chapters(redo, many)]
    assert lines[1:] == [f"  Chapter {i}: of 1 text, 1 to redo, 0 to look at" for i in range(10)]
    assert [*describe_chapters([None] * 40, many)] == []
    assert [*describe_chapters(redo, many[:1])] == []


def test_a_calibrated_model_grades_each_line_and_counts_the_chapters_of_a_document(call, model, tmp_path):  # noqa: F811
    (tmp_path / "in.txt").write_text("one two\n\nsix\n", encoding="utf-8")
    rows = [json.loads(line) for line in call("translate", model, "in.txt", "--json").stdout.splitlines()]
    assert [row.get("grade") for row in rows] == ["redo", None, "redo"]
    assert call("translate", model, "in.txt").stderr.endswith("in.txt: 0 lines usable, 0 to look at, 2 to redo\n")
    greedy = call("translate", model, "in.txt", "--beam", 1)
    assert greedy.stderr.endswith("0 lines usable, 0 to look at, 2 to redo\n")
    (tmp_path / "a.html").write_text("<h2>one</h2><p>two three</p><h2>six</h2>", encoding="utf-8")
    result = call("translate", model, "a.html", "--out", "b.html")
    assert "pellucid: a.html: 0 texts usable, 0 to look at, 3 to redo\n" in result.stderr
    before_account = result.stderr[: result.stderr.rindex("pellucid: a.html: ")]
    assert before_account.endswith("  six: of 1 text, 1 to redo, 0 to look at\n")


def test_the_notes_on_a_document_are_said_to_their_end(call, calibrated, tmp_path):  # noqa: F811
    (tmp_path / "a.html").write_text("<p>one two. three four. six. five one.</p>", encoding="utf-8")
    found = call("translate", calibrated / "run" / "best", "a.html", "--out", "b.html")
    assert found.exit_code == 0
    assert "pellucid: a.html: 1 text, such as 'one two. three four. six. five one.': " in found.stderr


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
    sentence = refuse("translate", model, "a.html", "--comments")
    assert sentence.startswith("pellucid: a.html has no comments to translate; --comments is for .docx, .docm, ")


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
