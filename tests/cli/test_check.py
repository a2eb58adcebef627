import json
import random

import pytest

from pellucid.demo.phrasebook import split_phrases
from pellucid.training.loop import train_run
from tests.training.corpora import WORDS_AS_PIECES, small_run, write_corpus


@pytest.fixture
def text(tmp_path):
    phrases = split_phrases(600, dev=1, test=1, seed=3).train
    sources, targets = [phrase.source for phrase in phrases], [phrase.target for phrase in phrases]
    targets[7] = sources[7]
    for name, lines in (("a.en", sources), ("a.es", targets)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def test_a_fault_is_shown_with_its_line_and_the_option_that_takes_it_out(call, text):
    result = call("check", "a.en", "a.es")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "copies: 1 pair, 0.17% (--fix PREFIX)" in result.stdout
    assert "\n        8  " in result.stdout


def test_json_is_one_line_and_pairs_may_come_from_one_file(call, shell, text):
    rows = (
        f"{a}\t{b}" for a, b in zip(*((text / f"a.{x}").read_text().splitlines() for x in ("en", "es")), strict=True)
    )
    (text / "a.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    [line] = call("check", "a.tsv", "--json", "--examples", 1).stdout.splitlines()
    answer = json.loads(line)
    assert (answer["pairs"], [fault["pairs"] for fault in answer["faults"] if fault["fault"] == "copy"]) == (600, [1])
    piped = shell("check", "-", "--json", "--examples", 1, stdin=(text / "a.tsv").read_bytes())
    assert {**json.loads(piped.stdout), "files": ["a.tsv"]} == answer


def test_fix_writes_three_files(call, text):
    result = call("check", "a.en", "a.es", "--fix", "clean")
    kept = len((text / "clean.source").read_text().splitlines())
    removed = (text / "clean.removed.tsv").read_text().splitlines()
    assert kept + len(removed) == 600
    assert any(row.startswith("8\tcopy") for row in removed)
    assert (
        result.stderr
        == f"{kept} pairs kept in clean.source and clean.target, {len(removed)} removed: clean.removed.tsv\n"
    )
    assert call("check", "a.en", "a.es", "--fix", "all", "--keep", "copy").exit_code == 0
    assert not any("copy" in row for row in (text / "all.removed.tsv").read_text().splitlines())


def test_a_rare_spelling_is_named_with_what_the_model_reads_for_it(call, tmp_path):
    sources = [f"The ball number {n} is blue." for n in range(1_100)]
    sources[6] = "It’s blue."
    (tmp_path / "a.en").write_text("\n".join(sources) + "\n", encoding="utf-8")
    (tmp_path / "a.es").write_text("\n".join(text.upper() for text in sources) + "\n", encoding="utf-8")
    shown = " ".join(call("check", "a.en", "a.es").stdout.split())
    assert "rare spellings: 1 pair, 0.09% (--fix PREFIX --remove spelling)" in shown
    assert "U+2019 (right single quotation mark) in 1 line of the source, read as ' when the model translates" in shown
    assert " 7 It’s blue." in shown


def test_a_page_is_written(call, text):
    assert call("check", "a.en", "a.es", "--html", "a.html").exit_code == 0
    assert "<h2>copies: 1 pair</h2>" in (text / "a.html").read_text()


def test_escapes_of_a_terminal_are_shown_and_not_sent(call, text):
    lines = (text / "a.es").read_text().splitlines()
    lines[7] = "\x1b[2J"
    (text / "a.es").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert "\\x1b[2J" in call("check", "a.en", "a.es").stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a.en", "missing.es"], "missing.es: no such file or directory"),
        (["a.en", "short.es"], "a.en has 600 lines and short.es has 1"),
        (["a.en"], "a single file of pairs must be one of"),
        (["empty.en", "empty.es"], "there is no pair in it"),
        (["binary.en", "a.es"], "NUL byte"),
        (["a.en", "a.en"], "source and target are one file"),
        (["a.en", "a.es", "--fix", "nowhere/clean"], "nowhere is not a folder"),
        (["a.en", "a.es", "--fix", "x", "--remove", "numbers"], "'numbers' is no fault; known: shifted"),
        (["a.en", "a.es", "--html", "nowhere/a.html"], "nowhere is not a folder"),
        (["a.en", "a.es", "--remove", "number"], "name a prefix: --fix PREFIX"),
        (["a.en", "a.es", "--against", "missing"], "missing: no such file or directory"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(refuse, text, words, message):
    (text / "short.es").write_text("Uno.\n")
    (text / "binary.en").write_bytes(b"a\0b\n")
    for name in ("empty.en", "empty.es"):
        (text / name).touch()
    assert message in refuse("check", *words)


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    """Return a model that has learned to translate the words of numbers, in some seconds."""
    folder = tmp_path_factory.mktemp("numbers")
    changes = {**WORDS_AS_PIECES, "model": {"d_model": 32, "d_ff": 64, "decoder_layers": 1, "max_positions": 16}}
    train = {"steps": 300, "batch_tokens": 300, "evaluate_every": 300, "save_every": 300}
    train_run(small_run(folder, **changes, train=train, optim={"peak": 0.01, "warmup": 50}), folder / "run")
    return folder / "run" / "best"


def test_a_model_says_which_pairs_are_no_translations(call, refuse, translator, tmp_path):
    files = write_corpus(tmp_path, pairs=1_000, seed=7)
    targets = (tmp_path / "target.txt").read_text().splitlines()
    wrong = random.Random(3).sample(range(1_000), 50)
    ruined = [targets[(wrong[wrong.index(i) - 1])] if i in wrong else target for i, target in enumerate(targets)]
    (tmp_path / "target.txt").write_text("\n".join(ruined) + "\n", encoding="utf-8")
    words = ("check", files["source"], files["target"], "--model", translator)
    result = call(*words, "--json", "--examples", 1_000)
    [fault] = [fault for fault in json.loads(result.stdout)["faults"] if fault["fault"] == "not_translation"]
    marked = {example["line"] - 1 for example in fault["examples"]}
    planted = {i for i in wrong if ruined[i] != targets[i]}
    assert len(marked & planted) >= 0.9 * len(planted)
    assert len(marked & planted) >= 0.75 * len(marked)
    sentence = refuse("check", files["target"], files["source"], "--model", translator)
    assert "the model hardly tells the pairs of this text from shuffled ones" in sentence


def test_a_model_that_is_not_there_is_said_before_the_text_is_read(refuse, text):
    sentence = refuse("check", "a.en", "a.es", "--model", "nowhere")
    assert "nowhere does not exist; a model is a directory such as" in sentence


def test_what_holds_no_pair_is_counted_alike_by_check_and_convert(call, tmp_path):
    rows = ['{"en": "One.", "es": "Uno."}', "null", '{"en": "Two.", "es": 2}', '{"en": "Three.", "es": "Tres."}', "{"]
    (tmp_path / "a.jsonl").write_text("\n".join(rows), encoding="utf-8")
    checked = call("check", "a.jsonl", "--from", "en", "--to", "es", "--json")
    reasons = {"a value that is no text": 1, "no valid JSON": 1}
    assert json.loads(checked.stdout)["no_pair"] == reasons
    assert [fault["fault"] for fault in json.loads(checked.stdout)["faults"]] == ["empty"]
    assert "2 pairs skipped: 1 with a value that is no text, 1 with no valid JSON (a.jsonl:3 a value" in checked.stderr
    shown = call("check", "a.jsonl", "--from", "en", "--to", "es").stdout
    assert "1 without a pair: no valid JSON" in shown
    converted = call("convert", "a.jsonl", "-", "--from", "en", "--to", "es")
    assert converted.stdout == "One.\tUno.\nThree.\tTres.\n"
    assert "3 pairs skipped" in converted.stderr
    assert all(f"1 with {reason}" in converted.stderr for reason in (*reasons, "empty source"))
