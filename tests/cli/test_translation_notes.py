"""What standard error says about the notes on the translations of a file: counts and places, not a line each."""

import dataclasses
import json

import pytest

from pellucid.api import load
from pellucid.cli.translation_notes import NoteSummary, decode_byte_pieces, name_lines, name_texts, sum_up_notes
from pellucid.data.source_profile import SourceProfile
from pellucid.decode.translation import Translation
from pellucid.store.directory import add_files
from tests.decode.models import LINES

PLAIN = Translation("Sí.", -1.5, -3.0, "eos", ["▁Sí", "."], [-1.0, -2.0], ["▁Yes", "."])
CAPITALS = "read without its capitals, of which the training text has few"


def with_notes(*notes: str, **changes) -> Translation:
    return dataclasses.replace(PLAIN, notes=notes, **changes)


def summary_lines(*translations: Translation) -> list[str]:
    summary = NoteSummary()
    for number, translation in enumerate(translations, start=1):
        summary.add(number, translation)
    return [*summary.lines(name_lines)]


def test_a_note_is_one_line_however_many_translations_have_it():
    lines = summary_lines(*[PLAIN, with_notes(CAPITALS)] * 700)
    assert lines == [f"lines 2, 4, 6, 8, 10 and 695 more: {CAPITALS}"]
    assert summary_lines(PLAIN, with_notes(CAPITALS)) == [f"line 2: {CAPITALS}"]
    assert summary_lines(*[PLAIN] * 9) == []


def test_notes_that_differ_in_their_numbers_are_one():
    cases = (
        (("split into 4 parts", "split into 2 parts", "split into 3 parts"), "split into 2 to 4 parts"),
        (("no 4 pieces twice", "no 4 pieces twice"), "no 4 pieces twice"),
        (("term #3 is odd", "term #5 is odd"), "term #3 to 5 is odd"),
    )
    for notes, told in cases:
        [line] = summary_lines(*map(with_notes, notes))
        assert line.endswith(f" and {len(notes)}: {told}")


def test_missing_sentences_are_counted():
    one = with_notes("the translation has 1 sentence fewer than the line", missing_sentences=1)
    two = with_notes(CAPITALS, "the translation has 2 sentences fewer than the line", missing_sentences=2)
    assert summary_lines(one)[0].startswith("line 1: 1 sentence is missing")
    missing, other = summary_lines(one, PLAIN, two)
    assert missing.startswith("lines 1 and 3: 3 sentences are missing")
    assert other == f"line 3: {CAPITALS}"


def test_a_line_that_failed_is_not_told_twice():
    assert summary_lines(with_notes("no translation was found", stop="failed")) == []


def test_notes_of_many_kinds_do_not_fill_the_screen():
    lines = summary_lines(*[with_notes(f"no room for {'x' * count}") for count in range(1, 90)])
    assert len(lines) == 21
    assert lines[-1].startswith("and 69 other notes; ")


def test_what_is_spelled_in_bytes_is_named_once():
    snowman = ["▁It", "<0xE2>", "<0x98>", "<0x83>", "</s>"]
    lines = summary_lines(PLAIN, *[dataclasses.replace(PLAIN, source_pieces=snowman)] * 3)
    [line] = lines
    assert line.startswith("lines 2, 3 and 4: ")
    assert line.endswith(" in bytes: ☃")
    # A cut sequence, as of damaged text, and characters that nobody can see.
    assert decode_byte_pieces(["<0xE2>", "<0x98>", "a", "<0xC2>", "<0x85>"]) == ["U+0085"]
    many = [dataclasses.replace(PLAIN, source_pieces=[f"<0x{code:X}>", "."]) for code in range(0x41, 0x51)]
    assert summary_lines(*many)[0].endswith(": A B C D E ...")


def test_texts_of_a_document_are_named_by_the_first(capsys):
    texts = ["Yes.", "NO.", "NEVER."]
    translations = [PLAIN, with_notes(CAPITALS), with_notes(CAPITALS)]
    assert [*sum_up_notes(translations, "my.html", texts)] == translations
    assert capsys.readouterr().err == f"pellucid: my.html: 2 texts, such as 'NO.': {CAPITALS}\n"
    assert name_texts(["x" * 99], [1], 1) == f"1 text, such as '{'x' * 59}"


@pytest.fixture
def profiled(model, tmp_path):
    """Return a model whose profile has learned two sentences together where the second begins with "Where"."""
    profile = SourceProfile(sources=9, sentences=(4, 5), continuations={"where": 5}, words=("ball", "is", "blue"))
    add_files(model, {"source_words.txt": "\n".join(profile.words)}, tmp_path / "profiled", sources=profile.as_json())
    return tmp_path / "profiled"


def test_translate_sums_up_its_notes_on_standard_error(call, profiled, tmp_path):
    file = tmp_path / "in.txt"
    file.write_text(f"{LINES[0].upper()}\nYes.\n{LINES[0].upper()}\nYes. ☃ Yes.\n", encoding="utf-8")
    options = ("translate", profiled, "in.txt", "--set", "max_extra=3")
    told = call(*options).stderr
    assert f"pellucid: in.txt: lines 1 and 3: {CAPITALS}\n" in told
    # With --json each line has its own.
    as_json = call(*options, "--json")
    assert as_json.stderr == ""
    rows = [json.loads(line) for line in as_json.stdout.splitlines()]
    assert [CAPITALS in row["notes"] for row in rows] == [True, False, True, False]


def test_sentences_is_a_setting_of_the_search(call, refuse, profiled, tmp_path):
    (tmp_path / "in.txt").write_text("Yes. Where is it? Yes.\n", encoding="utf-8")
    options = ("translate", profiled, "in.txt", "--set", "max_extra=2")
    expected = {
        value: load(profiled).translate("Yes. Where is it? Yes.", max_extra=2, sentences=value)
        for value in ("keep", "auto", "split")
    }
    for value, translation in expected.items():
        assert call(*options, "--set", f"sentences={value}").stdout == f"{translation.text}\n"
    counts = [translation.source_pieces.count("</s>") for translation in expected.values()]
    # Where a sentence of those read together is lost, all are translated again by themselves.
    assert (counts[0], counts[2]) == (1, 3)
    assert "sentences is 'some'" in refuse(*options, "--set", "sentences=some")
