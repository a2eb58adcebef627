import json
from typing import Any

import pytest
from sacrebleu.metrics.bleu import BLEU

from pellucid.api import load
from pellucid.decode.alarms import ALARMS
from pellucid.evaluate.stress import STRESS_KINDS

SOURCES = ["The ball is blue.", "", "Where is the house?", "Yes."]
REFERENCES = ["La bola es azul.", "", "¿Dónde está la casa?", "Sí."]


@pytest.fixture
def files(tmp_path):
    (tmp_path / "test.en").write_text("\n".join(SOURCES) + "\n", encoding="utf-8")
    (tmp_path / "test.es").write_text("\n".join(REFERENCES) + "\n", encoding="utf-8")
    return ("--source", "test.en", "--reference", "test.es")


def read_scores(text: str) -> dict[str, dict[str, Any]]:
    """Return the scores of an answer in JSON alone."""
    return {name: value for name, value in json.loads(text).items() if name not in ("alarms", "notes")}


def test_scores_come_with_their_signatures(call, model, files):
    result = call("evaluate", model, *files, "--beam", 2, "--json")
    assert result.exit_code == 0
    [line] = result.stdout.splitlines()
    scores = read_scores(line)
    metric = BLEU()
    texts = [translation.text for translation in load(model).translate(SOURCES, beam=2)]
    assert scores["bleu"] == {
        "score": metric.corpus_score(texts, [REFERENCES]).score,
        "signature": str(metric.get_signature()),
    }
    assert set(scores) == {"bleu", "chrf", "ter", "wer"}
    assert all(set(entry) == {"score", "signature"} for entry in scores.values())
    assert "4 sentences translated in" in result.stderr


def test_several_references_are_given_by_repeating_the_option(call, refuse, model, files, tmp_path):
    second = ["La pelota es azul.", "", "¿Dónde está?", "Claro."]
    (tmp_path / "other.es").write_text("\n".join(second) + "\n", encoding="utf-8")
    result = call("evaluate", model, *files, "--reference", "other.es", "--beam", 1, "--json")
    assert result.exit_code == 0, result.stderr
    assert read_scores(result.stdout) == load(model).evaluate(SOURCES, [REFERENCES, second], beam=1)
    (tmp_path / "other.es").write_text("Sí.\n", encoding="utf-8")
    assert "test.en has 4 lines and other.es has 1" in refuse("evaluate", model, *files, "--reference", "other.es")


def test_without_json_each_score_has_a_line(call, model, files):
    rows = [line.split() for line in call("evaluate", model, *files, "--beam", 1).stdout.splitlines()]
    assert [row[0] for row in rows] == ["BLEU", "chrF", "TER", "WER", "Alarms:"]
    assert all(float(row[1]) >= 0 and "case:mixed" in row[2] for row in rows[:-1])


@pytest.mark.parametrize(
    ("source", "reference", "message"),
    [
        (b"Yes.\nNo.\n", b"S\xc3\xad.\n", "test.en has 2 lines and test.es has 1"),
        (b"", b"", "test.en and test.es are empty"),
        (b"Yes.\n", b"\n", "test.es: nothing to score: no reference has a word"),
        (b"Yes.\n", b"S\xed.\n", "test.es:1:2: byte 0xED is not UTF-8"),
    ],
)
def test_files_that_do_not_belong_together_are_refused(refuse, model, files, tmp_path, source, reference, message):
    (tmp_path / "test.en").write_bytes(source)
    (tmp_path / "test.es").write_bytes(reference)
    assert f"pellucid: {message}" in refuse("evaluate", model, *files, "--beam", 1)


def test_given_translations_are_scored_in_their_order(call, model, tmp_path):
    (tmp_path / "a").write_text("Yes.\n\nThe ball is blue.\n", encoding="utf-8")
    (tmp_path / "b").write_text("Sí.\nNo.\n\n", encoding="utf-8")
    expected = load(model).score(["Yes.", "", "The ball is blue."], ["Sí.", "No.", ""])
    plain = call("score", model, "--source", "a", "--target", "b")
    assert plain.stdout.splitlines() == [f"{score.log_prob:.6f}" for score in expected]
    rows = [
        json.loads(line)
        for line in call("score", model, "--source", "a", "--target", "b", "--json").stdout.splitlines()
    ]
    for row, score in zip(rows, expected, strict=True):
        assert row == {"log_prob": score.log_prob, "pieces": score.pieces, "per_piece": score.per_piece}
        assert sum(row["per_piece"]) == pytest.approx(row["log_prob"])


def test_the_pairs_of_one_file_are_scored_each_in_its_place(call, model, tmp_path):
    (tmp_path / "a").write_text("Yes.\n\nThe ball is blue.\n", encoding="utf-8")
    (tmp_path / "b").write_text("Sí.\nNo.\n\n", encoding="utf-8")
    (tmp_path / "pairs.csv").write_text("es,en\nSí.,Yes.\nNo.,\n,The ball is blue.\n", encoding="utf-8")
    expected = call("score", model, "--source", "a", "--target", "b")
    result = call("score", model, "--source", "pairs.csv", "--from", "en", "--to", "es")
    assert (result.exit_code, result.stdout) == (0, expected.stdout)
    (tmp_path / "empty.tsv").write_text("", encoding="utf-8")
    assert "empty.tsv is empty" in call("score", model, "--source", "empty.tsv").stderr
    assert "a: a single file of pairs must be one of" in call("score", model, "--source", "a").stderr


def test_scores_of_unequal_files_are_refused(refuse, model, tmp_path):
    (tmp_path / "a").write_text("Yes.\nNo.\n", encoding="utf-8")
    (tmp_path / "b").write_text("Sí.\n" + "casa " * 99 + "\n", encoding="utf-8")
    (tmp_path / "c").write_text("Sí.\n", encoding="utf-8")
    for target, phrase in (("c", "a has 2 lines and c has 1"), ("b", "31 pieces a line, line 2 has")):
        assert phrase in refuse("score", model, "--source", "a", "--target", target)


def test_a_file_of_pairs_is_a_test_set(call, refuse, model, files, tmp_path):
    rows = [f"{target}\t{source}" for source, target in zip(SOURCES, REFERENCES, strict=True)]
    (tmp_path / "test.tsv").write_text("\n".join(["es\ten", *rows]) + "\n", encoding="utf-8")
    result = call("evaluate", model, "--source", "test.tsv", "--from", "en", "--to", "es", "--beam", 1, "--json")
    filled = [(source, target) for source, target in zip(SOURCES, REFERENCES, strict=True) if source]
    sources, references = map(list, zip(*filled, strict=True))
    assert read_scores(result.stdout) == load(model).evaluate(sources, references, beam=1)
    assert "test.tsv: 1 pairs skipped" in result.stderr
    compared = call("compare", model, model, "--source", "test.tsv", "--from", "en", "--to", "es", "--json")
    assert json.loads(compared.stdout)["sentences"] == 3
    for words in (["evaluate", model], ["compare", model, model]):
        sentence = refuse(*words, "--source", "test.en")
        assert "--reference is missing: name the translations of test.en, line by line; or" in sentence


def test_the_script_of_the_references_or_an_option_chooses_the_words(call, model, files, tmp_path):
    chinese = ["球是蓝色的。", "", "房子在哪里？", "是的。"]
    (tmp_path / "test.es").write_text("\n".join(chinese) + "\n", encoding="utf-8")
    for asked_for, tokenizer, unit in ((None, "zh", "char"), ("13a", "13a", "whitespace")):
        option = ["--tokenize", asked_for] if asked_for else []
        result = call("evaluate", model, *files, "--beam", 1, "--json", *option)
        assert result.exit_code == 0, result.stderr
        scores = read_scores(result.stdout)
        assert f"|tok:{tokenizer}|" in scores["bleu"]["signature"]
        assert f"|tok:{unit}|" in scores["wer"]["signature"]
        assert scores == load(model).evaluate(SOURCES, chinese, beam=1, tokenize=asked_for)


@pytest.mark.parametrize("command", ["evaluate", "compare"])
def test_a_tokenizer_that_cannot_be_used_is_refused_before_a_model_is_read(refuse, files, command):
    sides = ["nowhere"] if command == "evaluate" else ["nowhere", "nothing"]
    sentence = refuse(command, *sides, *files, "--tokenize", "moses")
    assert sentence.startswith("pellucid: unknown tokenizer 'moses' for the scores (known: 13a, ")


def test_a_blank_line_of_a_second_file_is_no_reference(call, model, files, tmp_path):
    (tmp_path / "other.es").write_text("La pelota es azul.\n\n\n \n", encoding="utf-8")
    result = call("evaluate", model, *files, "--reference", "other.es", "--beam", 1, "--json")
    second = ["La pelota es azul.", None, None, None]
    assert read_scores(result.stdout) == load(model).evaluate(SOURCES, [REFERENCES, second], beam=1)
    assert all(score["signature"].startswith("nrefs:var|") for score in read_scores(result.stdout).values())


def test_what_makes_a_score_doubtful_is_said_in_both_forms(call, model, tmp_path):
    (tmp_path / "s").write_text("Yes.\nNo.\n", encoding="utf-8")
    (tmp_path / "r").write_text("Sí\nNo\n", encoding="utf-8")
    options = "--source", "s", "--reference", "r", "--beam", 1
    note = "no reference has four words, so BLEU has nothing to count"
    result = call("evaluate", model, *options)
    assert result.stdout.split()[:2] == ["BLEU", "-"]
    assert f"pellucid: note: {note}" in result.stderr
    assert json.loads(call("evaluate", model, *options, "--json").stdout)["notes"] == [note]


def test_alarms_are_counted_over_the_test_set(call, model, tmp_path):
    """The counts of the command are those of `translate`, which names the alarms of each line."""
    lines = ["The ball is blue.", "It costs 1250 euros.", "", "She ate bread. He drank water. They went home."]
    for name in ("t.en", "t.es"):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = [translation.alarms for translation in load(model).translate(lines, beam=1)]
    assert any(found)  # a model with random weights goes wrong somewhere
    options = ("evaluate", model, "--source", "t.en", "--reference", "t.es", "--beam", 1)
    counts = json.loads(call(*options, "--json").stdout)["alarms"]
    assert list(counts) == [*ALARMS]
    assert counts == {name: sum(name in names for names in found) for name in ALARMS}
    [line] = [row for row in call(*options).stdout.splitlines() if row.startswith("Alarms: ")]
    assert line.startswith(f"Alarms: {sum(map(bool, found))} of 4 translations (")
    assert all(f"{name} {count}" in line for name, count in counts.items() if count)


def test_stress_has_a_row_for_each_kind_of_noise_that_fits(call, model, files, tmp_path):
    result = call("evaluate", model, *files, "--beam", 1, "--stress", "--figure", "stress.png", "--json")
    assert result.exit_code == 0, result.stderr
    report = json.loads(result.stdout)
    clean, *noisy = report["stress"]
    assert clean["kind"] == "clean"
    # English has no accents to lose.
    assert {row["kind"] for row in noisy} == set(STRESS_KINDS) - {"lost_accents"}
    assert {row["kind"]: row["changed"] for row in noisy}["capitals"] == 3
    assert (tmp_path / "stress.png").read_bytes().startswith(b"\x89PNG")
    assert "capitals:" in result.stderr
    table = call("evaluate", model, *files, "--beam", 1, "--stress").stdout.splitlines()
    assert len(table) == 1 + len(report["stress"]) + 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--figure", "a.png"), "--figure draws the scores of --stress; name both"),
        (("--stress", "--document"), "--stress plants noise into single lines"),
        (("--set", "batch=-1", "--set", "beams=2"), "unknown option 'beams'; did you mean 'beam'?"),
        (("--source", "-", "--reference", "-"), "both files are standard input"),
        (("--source", "x"), "--reference is missing: name the translations of x"),
    ],
)
def test_options_that_do_not_go_together_are_refused(refuse, model, files, options, message):
    named = () if "--source" in options else files
    assert message in refuse("evaluate", model, *named, *options)
