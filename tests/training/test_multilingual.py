"""Laws of multilingual models: the language to write is told, each direction is measured, and nothing is guessed."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pellucid.api import Model, load
from pellucid.data.context import count_context
from pellucid.data.text.markup import TaggedText
from pellucid.data.tokenizer import BOS, Tokenizer
from pellucid.decode.line_segments import Segment
from pellucid.decode.request import SearchConfig, SearchRequest
from pellucid.decode.segment_search import SearchSegments
from pellucid.decode.source_reader import ReadText
from pellucid.training.config import make_run
from pellucid.training.data import read_data
from pellucid.training.loop import train_run
from pellucid.training.shard_writing import prepare_shards
from tests.decode.models import small_tokenizer
from tests.laws.runs import assert_same_end, train_until
from tests.tolerances import approx_log_prob
from tests.trace.traced import small_traced
from tests.training.corpora import small_run
from tests.training.multilingual import SENTENCES, WRITES, trained_model, two_directions

LISTED = "translates into eo, tlh"


def test_a_source_becomes_what_the_language_says():
    for language, write in WRITES.items():
        translations = trained_model().into(language).translate(SENTENCES)
        assert [translation.text for translation in translations] == list(map(write, SENTENCES))


def test_a_source_begins_with_the_piece_of_its_language_which_no_text_becomes():
    tokenizer = trained_model().bundle.tokenizer
    for language, piece in tokenizer.languages.items():
        [ids] = tokenizer.into(language).encode_source(["red cat"])
        assert ids == [piece, BOS, *tokenizer.encode_source_text(["red cat"])[0]]
        assert count_context(ids) == 2
        assert tokenizer.decode_source(ids) == "red cat"
        assert piece not in tokenizer.encode_source_text([f"<to:{language}> red cat"])[0]
        assert piece in trained_model().translator.bounds.forbidden
    assert small_tokenizer().languages == {}


@pytest.mark.parametrize("method", ["beam", "greedy"])
def test_a_batch_of_several_directions_is_each_direction_alone(method: Any):
    model, config = trained_model(), SearchConfig(method=method)
    sources = [ids for name in WRITES for ids in model.into(name).translator.tokenizer.encode_source(SENTENCES[::9])]
    # One behind the other, so that neighbours in a batch are of different directions.
    mixed = [ids for pair in zip(sources, sources[len(sources) // 2 :], strict=False) for ids in pair]
    requests = [SearchRequest(ids, number) for number, ids in enumerate(mixed, start=1)]
    segments = [Segment(TaggedText(""), ReadText(""), request) for request in requests]
    translator = model.translator
    search = SearchSegments(translator.engine, translator.tokenizer, translator.models, config)
    with translator.models.inference():
        together = search(segments)
        for segment, result in zip(segments, together, strict=True):
            [alone] = search([segment])
            assert [one.tokens for one in result.hypotheses] == [one.tokens for one in alone.hypotheses]
            assert result.hypotheses[0].log_prob == approx_log_prob(alone.hypotheses[0].log_prob)


def test_every_way_to_look_at_a_translation_is_told_the_language():
    model = trained_model().into("tlh")
    trace = model.trace("red cat sun")
    assert trace.target.text == "sun cat red"
    assert trace.source.text == "<to:tlh> <s> red cat sun"
    assert trace.source.context == 2
    [translation] = model.translate(["red cat sun"], alignments=True)
    assert translation.alignment is not None
    assert {i for i, _ in translation.alignment} <= {0, 1, 2}
    assert translation.source_pieces == trace.source.pieces[2:]
    assert model.score("red cat sun", "sun cat red").log_prob == approx_log_prob(trace.log_prob)
    assert model.score("red cat sun", "red cat sun").log_prob < trace.log_prob - 1
    assert model.evaluate(SENTENCES[:9], [WRITES["tlh"](line) for line in SENTENCES[:9]])["chrf"]["score"] == 100
    # Parts of a line that is split are told, too.
    assert model.translate("red cat.\tsun dog").text.split("\t")[1] == "dog sun"
    rebuild, arguments = model.__reduce__()  # as another process gets it
    assert rebuild(*arguments).translate("red cat").text == "cat red"
    assert model.verify().passed
    assert model.manifest["languages"] == {"source": "en", "target": "tlh"}
    assert "en to tlh" in repr(model)


@pytest.mark.parametrize("step", [pytest.param(4, marks=pytest.mark.slow), 7])
def test_resume_is_bit_exact(step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run = two_directions(tmp_path / "data", model={"dropout": 0.2})
    train_run(run, tmp_path / "undisturbed")
    train_until(step, run, tmp_path / "broken", monkeypatch)
    train_run(run, tmp_path / "broken", resume=True)
    assert_same_end(tmp_path / "undisturbed", tmp_path / "broken")
    [first, *others] = run.data.corpus
    other = replace(run, data=replace(run.data, corpus=(replace(first, languages=("en", "sw")), *others)))
    with pytest.raises(ValueError, match=r"data.corpus: languages is \[\('en', 'sw'\)"):
        train_run(other, tmp_path / "broken", resume=True)


def test_shards_hold_what_is_read_from_text(tmp_path: Path):
    run = two_directions(tmp_path / "data")
    prepare_shards(run, tmp_path / "shards", workers=2, say=lambda message: None)
    text = read_data(run)
    mapped = read_data(replace(run, data=replace(run.data, shards=str(tmp_path / "shards"))))
    assert mapped.tokenizer.contents == text.tokenizer.contents
    assert mapped.encoded.sources.ids.tolist() == text.encoded.sources.ids.tolist()
    assert [pairs.sources for pairs in mapped.dev_sets] == [pairs.sources for pairs in text.dev_sets]
    assert mapped.fingerprint == text.fingerprint


def test_each_direction_is_measured_and_the_mean_chooses_the_best():
    manifest = trained_model().manifest
    dev, directions = manifest["dev"], manifest["dev"]["directions"]
    assert manifest["directions"] == [["en", "eo"], ["en", "tlh"]]
    assert list(directions) == ["en-eo", "en-tlh"]
    for name in ("dev_loss", "bleu", "chrf"):
        assert dev[name] == pytest.approx(sum(one[name] for one in directions.values()) / 2)
    rows = (trained_model().directory / "reference.jsonl").read_text(encoding="utf-8").splitlines()
    assert {json.loads(row)["language"] for row in rows} == {"eo", "tlh"}


def test_a_model_of_one_target_needs_no_language(tmp_path: Path):
    run = two_directions(tmp_path / "data")
    [first, second] = run.data.corpus
    corpora = first, replace(second, languages=("fr", "eo"))
    outcome = train_run(replace(run, data=replace(run.data, corpus=corpora)), tmp_path / "out")
    model = load(outcome.best)
    assert model.manifest["directions"] == [["en", "eo"], ["fr", "eo"]]
    assert model.translate("red cat").text == model.into("eo").translate("red cat").text


def test_further_training_keeps_the_languages(tmp_path: Path):
    start = str(trained_model().directory)
    run = two_directions(tmp_path / "data", model={"start": start}, only_start=True)
    outcome = train_run(run, tmp_path / "out")
    assert load(outcome.best).bundle.tokenizer.languages == trained_model().bundle.tokenizer.languages
    [first, second] = run.data.corpus
    corpora = first, replace(second, languages=("en", "fr"))
    with pytest.raises(ValueError, match="was trained to write eo, tlh, the corpora of this run are into eo, fr; both"):
        train_run(replace(run, data=replace(run.data, corpus=corpora)), tmp_path / "other")
    single = small_run(tmp_path / "single")
    ordinary = replace(run, data=replace(single.data, max_pieces=31))
    with pytest.raises(ValueError, match="was trained to write eo, tlh, the corpora of this run are into one language"):
        train_run(ordinary, tmp_path / "other")


UNTOLD: list[Callable[[Model], Any]] = [
    lambda model: model.translate("red cat"),
    lambda model: list(model.translate_stream(["red cat"])),
    lambda model: model.score("red cat", "red cat"),
    lambda model: model.trace("red cat"),
    lambda model: model.evaluate(["red cat"], ["red cat"]),
]


@pytest.mark.parametrize("ask", UNTOLD)
def test_a_multilingual_model_that_is_told_no_language_lists_them(ask: Callable[[Model], Any]):
    with pytest.raises(ValueError, match=f"{LISTED}; say into which: --to LANGUAGE"):
        ask(trained_model())


def test_a_language_that_a_model_does_not_write_is_refused():
    with pytest.raises(ValueError, match=f"{LISTED}, not into 'fr'"):
        trained_model().into("fr")
    with pytest.raises(ValueError, match="writes one language and is not told which; leave out 'fr'"):
        small_traced().into("fr")


DIRECTION = {"source": "a", "target": "b", "languages": ["en", "de"], "dev_source": "c", "dev_target": "d"}
FRENCH = {**DIRECTION, "target": "e", "name": "f", "languages": ["en", "fr"]}
WRONG: list[tuple[dict[str, Any], str]] = [
    (
        {"corpus": [DIRECTION, {**FRENCH, "languages": []}]},
        "f does not say its languages, others do; all must, or none",
    ),
    ({"corpus": [DIRECTION, {**FRENCH, "languages": ["en"]}]}, r"languages is \['en'\]; write the codes"),
    ({"corpus": [DIRECTION, {**FRENCH, "languages": ["en", "en"]}]}, "write the codes of the source and of the target"),
    (
        {"corpus": [DIRECTION, {**FRENCH, "languages": ["en", "f r"]}]},
        "write the codes of the source and of the target",
    ),
    (
        {"corpus": [DIRECTION, {**FRENCH, "dev_source": None, "dev_target": None}]},
        "one dev set for en-fr, in one of its",
    ),
    ({"corpus": [DIRECTION, FRENCH, {**FRENCH, "name": "g"}]}, "one dev set for en-fr, in one of its corpora"),
    ({"corpus": [DIRECTION, {**FRENCH, "dev_target": None}]}, "name either dev_source and dev_target or dev"),
    ({"corpus": [DIRECTION, FRENCH], "dev": "dev.tsv"}, "for one direction; name a dev set in a .* of each"),
    ({"corpus": [DIRECTION, FRENCH], "context": 1}, "data.context is for models of one direction"),
    ({"corpus": [DIRECTION]}, "a has a dev set of its own, which only corpora of several directions have"),
]


@pytest.mark.parametrize(("data", "message"), WRONG)
def test_corpora_whose_directions_are_not_clear_are_refused(data: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        make_run({"data": data, "train": {"steps": 1}})


def test_separate_vocabularies_have_the_languages_on_the_side_of_the_source(tmp_path: Path):
    run = two_directions(tmp_path / "data", tokenizer={"joint": False})
    tokenizer = read_data(run).tokenizer
    assert list(tokenizer.languages) == ["eo", "tlh"]
    tokenizer.save(tmp_path)
    assert Tokenizer.load(tmp_path, tokenizer.config).languages == tokenizer.languages
    assert not any(name.startswith("<to:") for name in tokenizer.target_names)
