import pytest
import torch

import pellucid
from pellucid import bundle
from pellucid.decode.config import SearchConfig
from pellucid.decode.translate import Translator
from pellucid.evaluate.scores import corpus_scores
from pellucid.train.log import read_log
from tests.decode.models import LINES, random_model, small_tokenizer
from tests.train.corpora import write_corpus


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> pellucid.Model:
    place = tmp_path_factory.mktemp("api") / "best"
    vocabulary = small_tokenizer().source_vocabulary
    bundle.save(place, random_model(1, vocabulary, vocabulary, max_positions=61), small_tokenizer(), step=41)
    return pellucid.load(place)


def tables(folder, **train) -> dict:
    return {
        "data": write_corpus(folder),
        "tokenizer": {"vocabulary": 290},
        "model": {"d_model": 6, "d_ff": 11, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "max_positions": 256},
        "train": {"steps": 2, "batch_tokens": 257, "dev_sentences": 3, "dev_beam": 1, **train},
    }


def test_a_loaded_model_translates_as_its_translator_does(model):
    expected = Translator(model.bundle.model, small_tokenizer()).translate(LINES, SearchConfig(beam=2, max_extra=5))
    assert model.translate(LINES, beam=2, max_extra=5) == expected
    streamed = model.translate_stream(iter(LINES), beam=2, max_extra=5, block=3)
    assert [each.text for each in streamed] == [each.text for each in expected]


def test_a_score_is_the_log_probability_of_a_translation(model):
    [translation] = model.translate(["Yes."], beam=3, max_extra=23)
    if translation.stop == "eos":
        assert model.score(["Yes."], [translation.text])[0].log_prob <= 0
    with pytest.raises(ValueError, match="batch is -1"):
        model.score(["Yes."], ["Sí."], batch=-1)


def test_an_evaluation_scores_the_translations(model):
    texts = [each.text for each in model.translate(LINES, beam=1)]
    assert model.evaluate(LINES, LINES, beam=1) == corpus_scores(texts, LINES)
    with pytest.raises(ValueError, match="7 sources and 6 references"):
        model.evaluate(LINES, LINES[1:])


def test_one_text_is_not_taken_for_a_list_of_letters(model):
    for call in (model.translate, lambda text: model.score(text, ["a"]), lambda text: model.evaluate(text, text)):
        with pytest.raises(ValueError, match="is one text; give a list, with one text in it"):
            call("Yes.")


def test_what_is_known_of_a_model_comes_with_it(model):
    assert (model.manifest["step"], model.directory.name) == (41, "best")


def test_only_two_precisions_are_known(model):
    half = pellucid.load(model.directory, precision="bfloat16")
    assert half.bundle.model.output_embedding.weight.dtype == torch.bfloat16
    assert len(half.translate(LINES, beam=1, max_extra=3)) == len(LINES)
    with pytest.raises(ValueError, match="precision is 'int8', it must be one of float32, bfloat16"):
        pellucid.load(model.directory, precision="int8")


def test_training_gives_the_best_model(tmp_path):
    from pellucid.train import loop  # importing the folder must not hide the function

    assert loop is not pellucid.train
    trained = pellucid.train(tables(tmp_path), out=tmp_path / "run")
    assert trained.directory == tmp_path / "run" / "best"
    assert len(trained.translate(["one two"], max_extra=3)) == 1
    from_file = pellucid.train(tmp_path / "run" / "run.toml", out=tmp_path / "again")
    weights = [dict(each.bundle.model.named_parameters()) for each in (trained, from_file)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_a_model_that_writes_lower_case_only_is_scored_without_case(tmp_path):
    given = tables(tmp_path)
    given["tokenizer"]["lowercase"] = True
    trained = pellucid.train(given, out=tmp_path / "run")
    measured = [row for row in read_log(tmp_path / "run" / "log.jsonl") if "bleu" in row]
    assert measured
    assert all("case:lc" in each for row in measured for each in row["signatures"].values())
    found = trained.evaluate(["one two"], ["ONE TWO"], max_extra=3)
    assert all("case:lc" in each["signature"] for each in found.values())


def test_a_run_is_named_in_one_way_only(tmp_path):
    with pytest.raises(ValueError, match=r"a run file and steps are both given.*--set train\.steps=5"):
        pellucid.train(tables(tmp_path), out=tmp_path / "run", steps=5)
    with pytest.raises(ValueError, match="nothing to train on: name a run file, or source and target"):
        pellucid.train(out=tmp_path / "run", source="a")
    with pytest.raises(ValueError, match="none of them can be standard input"):
        pellucid.train(out=tmp_path / "run", source="-", target="b")
    assert not (tmp_path / "run").exists()


def test_the_names_of_the_package_come_when_they_are_used():
    with pytest.raises(AttributeError, match="no attribute 'lode'; it has Model, load, train"):
        pellucid.lode  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]
