import gzip
import json
from dataclasses import asdict

import pytest

from pellucid.api import Model, load
from pellucid.evaluate.comparison import compare_translations
from pellucid.evaluate.comparison_page import comparison_as_html
from pellucid.evaluate.report import comparison_as_text

SOURCES = ["The ball is blue.", "", "Where is the house?", "Yes."]
REFERENCES = ["La bola es azul.", "", "¿Dónde está la casa?", "Sí."]
A, B = ["La bola azul.", "", "¿Dónde la casa?", "No."], ["La bola es roja.", "", "¿Dónde está la casa?", "Sí."]


@pytest.fixture
def files(tmp_path):
    for name, lines in {"test.en": SOURCES, "test.es": REFERENCES, "a.es": A, "b.es": B}.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "b.es.gz").write_bytes(gzip.compress((tmp_path / "b.es").read_bytes()))
    return tmp_path


def test_two_files_are_compared(call, files):
    result = call("compare", "a.es", "b.es.gz", "--reference", "test.es")
    expected = compare_translations(A, B, REFERENCES, names=("a.es", "b.es.gz"))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == list(comparison_as_text(expected))


def test_json_is_one_object(call, files):
    result = call("compare", "a.es", "b.es", "--reference", "test.es", "--source", "test.en", "--json")
    expected = compare_translations(A, B, REFERENCES, SOURCES, names=("a.es", "b.es"))
    [line] = result.stdout.splitlines()
    assert json.loads(line) == json.loads(json.dumps(asdict(expected)))


def test_a_directory_is_a_model_and_translates(call, model, files):
    result = call("compare", model, "b.es", "--reference", "test.es", "--source", "test.en", "--beam", 2, "--json")
    texts = [translation.text for translation in load(model).translate(SOURCES, beam=2)]
    expected = compare_translations(texts, B, REFERENCES, SOURCES, names=(f"{model} (beam 2)", "b.es"))
    assert json.loads(result.stdout) == json.loads(json.dumps(asdict(expected)))
    assert "4 sentences translated in" in result.stderr


def test_case_is_ignored_where_asked_for_or_where_a_model_writes_lower_case(call, model, files, monkeypatch):
    upper_references = [line.upper() for line in REFERENCES]
    (files / "loud.es").write_text("\n".join(upper_references) + "\n", encoding="utf-8")
    options = "--reference", "loud.es", "--source", "test.en", "--json"
    result = call("compare", "a.es", "b.es", *options, "--lowercase")
    expected = compare_translations(A, B, upper_references, SOURCES, names=("a.es", "b.es"), lowercase=True)
    assert json.loads(result.stdout) == json.loads(json.dumps(asdict(expected)))
    cased = call("compare", "a.es", model, *options)
    monkeypatch.setattr(Model, "lowercase", True)
    uncased = call("compare", "a.es", model, *options)
    assert uncased.stdout != cased.stdout
    assert uncased.stdout == call("compare", "a.es", model, *options, "--lowercase").stdout


def test_a_model_compared_with_itself_translates_once(call, model, files):
    result = call("compare", model, model, "--reference", "test.es", "--source", "test.en", "--beam", 1, "--json")
    assert json.loads(result.stdout)["identical"] == 4
    assert result.stderr.count("sentences translated") == 1


def test_the_training_text_can_decide_which_words_are_rare(call, files):
    (files / "train.es").write_text("la bola\nla casa\n", encoding="utf-8")
    result = call("compare", "a.es", "b.es", "--reference", "test.es", "--train-target", "train.es")
    assert result.stdout.splitlines() == list(
        comparison_as_text(
            compare_translations(A, B, REFERENCES, training=["la bola", "la casa"], names=("a.es", "b.es"))
        )
    )


def test_the_page_is_written_whole_and_replaces_the_old_one(call, files):
    (files / "page.html").write_text("old", encoding="utf-8")
    result = call("compare", "a.es", "b.es", "--reference", "test.es", "--html", "page.html")
    assert result.exit_code == 0
    expected = compare_translations(A, B, REFERENCES, names=("a.es", "b.es"))
    assert (files / "page.html").read_text(encoding="utf-8") == comparison_as_html(expected)
    assert sorted(path.name for path in files.iterdir() if "page" in path.name) == ["page.html"]


def test_standard_input_may_be_one_of_the_files(shell, files):
    result = shell("compare", "-", "b.es", "--reference", "test.es", stdin=(files / "a.es").read_bytes())
    assert result.returncode == 0
    assert result.stdout.decode().splitlines()[0] == "A: -"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nowhere", "b.es"), "nowhere is neither a model directory nor a file of translations"),
        (("a.es", "b.es", "--source", "none.en"), "--source none.en does not exist; name a file of sentences"),
        (("a.es", "b.es", "--train-target", "."), "--train-target . is a directory; name a file of sentences"),
        ((".", "b.es"), ". is a model, so it needs sentences to translate: --source FILE"),
        ((".", "b.es", "--source", "test.en"), "manifest.json is missing"),
        (("-", "-"), "only one file can be standard input"),
        (("a.es", "short.es"), "a.es has 4 lines, short.es has 1 line: line n of each"),
        (("a.es", "bad.es"), "bad.es:1:2: byte 0xED is not UTF-8"),
        (("a.es", "b.es", "--html", "no/page.html"), "no/page.html cannot be written: no is not a folder"),
        (("a.es", "b.es", "--html", "."), ". cannot be written: it is a folder"),
        (("a.es", "b.es", "--beam", "0"), "invalid search settings: beam is 0"),
    ],
)
def test_what_cannot_be_compared_is_refused(refuse, files, words, message: str):
    (files / "short.es").write_text("Sí.\n", encoding="utf-8")
    (files / "bad.es").write_bytes(b"S\xed.\n")
    assert message in refuse("compare", *words, "--reference", "test.es")


def test_all_problems_with_the_names_are_reported_at_once(call, files):
    result = call("compare", "x", "y", "--reference", "z")
    assert all(problem in result.stderr for problem in ("x is neither", "y is neither", "--reference z does not exist"))


def test_empty_files_and_references_without_a_word_are_refused(call, files):
    (files / "empty").write_bytes(b"")
    (files / "blank").write_bytes(b"\n\n\n \n")
    assert "there is no line to compare" in call("compare", "empty", "empty", "--reference", "empty").stderr
    result = call("compare", "a.es", "b.es", "--reference", "blank")
    assert (result.exit_code, result.stderr) == (2, "pellucid: blank: nothing to compare: no reference has a word\n")


def test_a_page_that_cannot_be_written_leaves_the_old_one(call, files, monkeypatch):
    (files / "page.html").write_text("old", encoding="utf-8")

    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", fail)
    result = call("compare", "a.es", "b.es", "--reference", "test.es", "--html", "page.html")
    message = "page.html could not be written: no space left on device; what stood there is as it was"
    assert (result.exit_code, result.stderr) == (1, f"pellucid: {message}\n")
    assert (files / "page.html").read_text(encoding="utf-8") == "old"
    assert not (files / ".page.html.new").exists()


def test_several_references_are_given_by_repeating_the_option(call, files):
    (files / "other.es").write_text("La pelota es azul.\n\n\nClaro.\n", encoding="utf-8")
    result = call("compare", "a.es", "b.es", "--reference", "test.es", "--reference", "other.es", "--json")
    second = ["La pelota es azul.", None, None, "Claro."]
    expected = compare_translations(A, B, [REFERENCES, second], names=("a.es", "b.es"))
    assert json.loads(result.stdout) == json.loads(json.dumps(asdict(expected)))
    assert "nrefs:var" in expected.scores["ter"].signature
    missing = call("compare", "a.es", "b.es", "--reference", "test.es", "--reference", "none.es")
    assert "--reference none.es does not exist" in missing.stderr


def test_tokenized_text_is_warned_of_on_standard_error_and_in_json(call, files):
    for name, end in (("c.es", " ."), ("d.es", ".")):
        (files / name).write_text(f"La bola es azul{end}\n" * 120, encoding="utf-8")
    result = call("compare", "c.es", "d.es", "--reference", "d.es", "--json")
    [note] = json.loads(result.stdout)["notes"]
    assert "120 of 120 translations in A end in a space and a full stop, as tokenized text does" in note
    assert result.stderr == f"pellucid: note: {note}\n"
    # A tokenizer that is asked for is used on both sides.
    spaces = call("compare", "c.es", "d.es", "--reference", "d.es", "--tokenize", "none", "--json")
    bleu = json.loads(spaces.stdout)["scores"]["bleu"]
    assert "tok:none" in bleu["signature"]
    assert bleu["a"]["score"] < 100
