"""Distillation: no translation is lost or made twice, and every line is a pair or left out for a reason."""

import sys

import pytest

from pellucid.workflows.distillation import (
    TRANSLATIONS,
    choose_student_settings,
    fingerprint_text,
    translate_with_command,
    write_pairs,
    write_translations,
)
from tests.training.corpora import write_corpus

LINES = ["The ball is blue.", "", "año  nuevo", "tab\there", "no no no no", "long", "Yes."]
ANSWERS = {
    "The ball is blue.": ("La bola es azul.", "eos"),
    "": ("", "empty"),
    "año  nuevo": ("sí sí sí sí", "eos"),
    "tab\there": ("una\ttabla", "failed"),
    "no no no no": ("no no no no", "eos"),
    "long": ("largo largo", "length"),
    "Yes.": ("  ", "eos"),
}
REASONS = {2: "blank line", 3: "runs in a loop", 4: "not translated", 6: "cut off at the limit", 7: "nothing written"}
IDENTITY = {"text": "of the test", "models": ["a teacher"]}


def teacher(asked: list[str]):
    """Return a function that translates by the table above, and appends what it is asked to a list."""

    def translate(lines):
        for line in lines:
            asked.append(line)
            yield ANSWERS[line]

    return translate


@pytest.fixture
def text(tmp_path) -> str:
    """Write the lines into two files that are read as one text; return the first."""
    path = tmp_path / "text.en"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return str(path)


def test_a_run_that_was_killed_at_any_byte_ends_as_if_it_had_not_been(tmp_path, text):
    assert list(write_translations([text], teacher([]), tmp_path / "whole", IDENTITY)) == list(range(1, 8))
    whole = (tmp_path / "whole" / TRANSLATIONS).read_bytes()
    for end in range(len(whole) + 1):
        for tail in (b"", b"\0\0\0\n"):  # what a power cut may leave behind the bytes that came to the disk
            folder, asked = tmp_path / f"{end}{len(tail)}", []
            folder.mkdir()
            (folder / TRANSLATIONS).write_bytes(whole[:end] + tail)
            first = whole.index(b"\n") + 1
            if tail and end < first:  # another first line: not ours to overwrite
                with pytest.raises(ValueError, match="translations of another text"):
                    list(write_translations([text], teacher(asked), folder, IDENTITY))
                continue
            list(write_translations([text], teacher(asked), folder, IDENTITY))
            assert (folder / TRANSLATIONS).read_bytes() == whole
            assert asked == LINES[max(whole[:end].count(b"\n") - 1, 0) :]


def test_translations_of_another_text_or_teacher_are_never_mixed_in(tmp_path, text):
    list(write_translations([text], teacher([]), tmp_path, IDENTITY))
    with pytest.raises(ValueError, match="choose another --out"):
        list(write_translations([text], teacher([]), tmp_path, {**IDENTITY, "models": ["another"]}))


def test_the_fingerprint_is_that_of_the_lines_and_not_of_the_files(tmp_path, text):
    halves = [tmp_path / "a", tmp_path / "b"]
    for half, lines in zip(halves, (LINES[:3], LINES[3:]), strict=True):
        half.write_text("\n".join(lines), encoding="utf-8")
    assert fingerprint_text([text]) == fingerprint_text(list(map(str, halves)))
    assert fingerprint_text([text]) != fingerprint_text([*map(str, halves), text])


@pytest.mark.parametrize("backward", [False, True])
def test_every_line_is_a_pair_or_left_out_for_a_reason(tmp_path, text, backward):
    list(write_translations([text], teacher([]), tmp_path, IDENTITY))
    result = write_pairs([text], tmp_path, backward)
    rows = [row.split("\t") for row in (tmp_path / "left_out.tsv").read_text(encoding="utf-8").split("\n")[:-1]]
    assert {int(number): reason for number, reason, _, _ in rows} == REASONS
    assert sum(result.left_out.values()) + result.pairs == len(LINES)
    pairs = [(LINES[n - 1], ANSWERS[LINES[n - 1]][0]) for n in range(1, 8) if n not in REASONS]
    sides = [path.read_text(encoding="utf-8").split("\n")[:-1] for path in (result.source, result.target)]
    assert list(zip(*(reversed(sides) if backward else sides), strict=True)) == pairs


def test_translations_that_are_fewer_than_the_lines_are_refused(tmp_path, text):
    list(write_translations([text], teacher([]), tmp_path, IDENTITY))
    path = tmp_path / TRANSLATIONS
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    with pytest.raises(ValueError, match="does not hold a translation of each line"):
        write_pairs([text], tmp_path)
    assert not (tmp_path / "train.source").exists()


def run_python(program: str):
    return translate_with_command([sys.executable, "-c", program])


@pytest.mark.parametrize("lines", [0, 3, 5000])
def test_a_program_translates_line_by_line_whether_it_waits_for_the_end_or_not(lines):
    sentences = [f"línea {number}" for number in range(lines)]
    at_once = "import sys\nfor line in sys.stdin: sys.stdout.write(line.upper())"
    at_the_end = "import sys; sys.stdout.write(sys.stdin.read().upper())"
    for program in (at_once, at_the_end):
        assert list(run_python(program)(sentences)) == [(line.upper(), "eos") for line in sentences]


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("print('one')", "was given 3 lines, wrote 1 and ended with exit code 0"),
        ("import sys; sys.stdin.read(); print('a\\nb\\nc\\nd')", "was given 3 lines, wrote 4"),
        ("import sys; print(sys.stdin.read(), end=''); sys.exit(3)", "wrote 3 and ended with exit code 3"),
        ("import sys; sys.stdout.buffer.write(b'\\xff\\n')", "line 1 of what .* wrote is not UTF-8"),
    ],
)
def test_a_program_that_fails_is_named_with_what_it_did(program, problem):
    with pytest.raises(ValueError, match=problem):
        list(run_python(program)(["a", "b", "c"]))


def test_a_program_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="no-such-program cannot be started"):
        list(translate_with_command(["no-such-program"])(["a"]))


def test_a_student_is_deep_where_it_reads_and_shallow_where_it_writes(tmp_path, text):
    list(write_translations([text], teacher([]), tmp_path, IDENTITY))
    files = write_corpus(tmp_path)
    dev = files["dev_source"], files["dev_target"]
    people = files["source"], files["target"]
    settings, reasons = choose_student_settings(
        write_pairs([text], tmp_path), dev, people=people, steps=7, overrides=["model.decoder_layers=2"]
    )
    assert (settings.model.encoder_layers, settings.model.decoder_layers) == (6, 2)
    assert [(corpus.name, corpus.weight) for corpus in settings.data.corpora] == [("teacher", 1.0), ("people", 1.0)]
    assert settings.train.steps == 7
    assert any("6 encoder layers" in reason for reason in reasons)
