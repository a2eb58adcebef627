"""A multilingual model on the command line: told the language to write by --to, or refused in one sentence."""

import json
from pathlib import Path

import pytest

from tests.training.multilingual import SENTENCES, WRITES, trained_model

LISTED = "this model translates into eo, tlh"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of a few sentences with what each language makes of them."""
    folder = tmp_path_factory.mktemp("sentences")
    for name, write in {"en": str, **WRITES}.items():
        (folder / f"test.{name}").write_text("".join(f"{write(line)}\n" for line in SENTENCES[::7]), encoding="utf-8")
    (folder / "fixes.tsv").write_text("".join(f"{line}\t{line}\n" for line in SENTENCES[:20]), encoding="utf-8")
    return folder


@pytest.mark.parametrize("language", WRITES)
def test_translate_evaluate_score_and_explain_write_the_language(call, files: Path, language: str):
    model, source, target = trained_model().directory, files / "test.en", files / f"test.{language}"
    expected = target.read_text(encoding="utf-8")
    for more in ((), ("--from", "en"), ("--engine", "torch")):
        assert call("translate", model, source, "--to", language, *more).stdout == expected
    scores = json.loads(
        call("evaluate", model, "--source", source, "--reference", target, "--to", language, "--json").stdout
    )
    assert scores["chrf"]["score"] == 100
    scored = call("score", model, "--source", source, "--target", target, "--to", language).stdout
    assert all(float(line) > -1 for line in scored.splitlines())
    told = call("compare", model, target, "--source", source, "--reference", target, "--to", language, "--json")
    assert json.loads(told.stdout)["scores"]["chrf"]["difference"]["score"] == 0
    explained = json.loads(call("explain", model, "red cat", "--to", language, "--json").stdout)
    assert explained["target"]["text"] == WRITES[language]("red cat")


@pytest.mark.parametrize("language", WRITES)
def test_what_is_inspected_is_the_translation_into_the_language(call, files: Path, language: str):
    model, pair = trained_model().directory, ("--source", files / "test.en", "--target", files / f"test.{language}")
    told, three = ("--to", language), "red cat sun"

    def answer(*words: object) -> list[dict]:
        result = call(*words, *told, "--json")
        assert result.exit_code == 0, result.stderr
        return [json.loads(line) for line in result.stdout.splitlines()]

    [table] = answer("inspect", "attention", model, three, "--where", "decoder.0.cross")
    assert table["texts"] == [f"<to:{language}> <s> {three}", WRITES[language](three)]
    [query_and_key] = answer("inspect", "pair", model, three, "red", "cat")
    assert (query_and_key["query"], query_and_key["key"]) == ("red", "cat")
    assert answer("inspect", "lens", model, three)
    read = [probe["words"] for probe in answer("inspect", "probes", model) if probe["probe"]["where"] == "encoder"]
    assert {words[0] for words in read} == {f"<to:{language}>"}
    assert answer("inspect", "heads", model, *pair)
    assert sum(bucket["sentences"] for bucket in answer("inspect", "length", model, *pair)) == len(SENTENCES[::7])
    links = files / "links"
    answer("inspect", "align", model, *pair, "--links", links)
    # Words are counted from 0 in the sentence itself, without the piece that names the language.
    for line, sentence in zip(links.read_text().splitlines(), SENTENCES[::7], strict=True):
        assert {int(link.partition("-")[0]) for link in line.split()} <= set(range(len(sentence.split())))
    assert "not_translation" not in str(answer("check", *pair[1::2], "--model", model)[0]["faults"])


def test_an_export_to_ctranslate2_writes_the_same(call, files: Path, tmp_path: Path):
    model = trained_model().directory
    assert call("export", model, tmp_path / "exported", "--to", "ctranslate2").exit_code == 0
    for language in WRITES:
        result = call("translate", model, files / "test.en", "--to", language, "--exported", tmp_path / "exported")
        assert result.stdout == (files / f"test.{language}").read_text(encoding="utf-8")


def test_what_is_not_told_or_cannot_be_told_is_refused_in_one_sentence(refuse, files: Path, tmp_path: Path):
    model, source, target = trained_model().directory, files / "test.en", files / "test.eo"
    pair = ("--source", source, "--target", target)
    out = tmp_path / "out"
    for words, message in (
        (("translate", model, source, "--out", out), f"{LISTED}; say into which: --to LANGUAGE"),
        (("translate", model, source, "--to", "fr"), f"{LISTED}, not into 'fr'"),
        (
            ("translate", model, source, "--to", "tlh", "--from", "eo"),
            "translates en to eo, en to tlh, not 'eo' to 'tlh'",
        ),
        (("translate", model, source, "--to", "tlh", "--document"), "trained on single sentences"),
        (("score", model, *pair), LISTED),
        (("evaluate", model, "--source", source, "--reference", target), LISTED),
        (("explain", model, "red cat"), LISTED),
        (("distill", model, "--source", source, "--dev-source", source, "--dev-target", target, "--out", out), LISTED),
        (("check", source, target, "--model", model), LISTED),
        (("calibrate", model), LISTED),
        (("improve", model, files / "fixes.tsv", "--out", out), LISTED),
        (("inspect", "heads", model, "--source", source, "--target", target), LISTED),
        (("inspect", "align", model, *pair), LISTED),
        (("export", model, out, "--to", "marian"), "it is multilingual, and neither tokenizer would tell it"),
        (
            ("export", model, tmp_path / "a.argosmodel", "--to", "argos", "--languages", "en:eo"),
            "the model is multilingual",
        ),
        (("export", model, out, "--to", "page", "--sentence", "red cat"), LISTED),
    ):
        assert message in refuse(*words)
        assert not out.exists(), words
