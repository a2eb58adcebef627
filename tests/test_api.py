"""Python API: what a loaded model does, how a run is trained, and the messages for wrong arguments."""

import re
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context
from multiprocessing.reduction import ForkingPickler
from typing import Any, cast, get_type_hints

import pytest
import torch

import pellucid
from pellucid.api import Model
from pellucid.decode.request import SearchConfig, SearchOptions
from pellucid.decode.translator import Translator
from pellucid.evaluate.scores import corpus_scores
from pellucid.store.directory import Bundle, save_bundle
from pellucid.training.log import read_log
from tests.decode.models import LINES, random_model, small_tokenizer
from tests.training.corpora import write_corpus


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> pellucid.Model:
    path = tmp_path_factory.mktemp("api") / "best"
    vocabulary = small_tokenizer().source_vocabulary
    save_bundle(path, random_model(1, vocabulary, vocabulary, max_positions=61), small_tokenizer(), step=41)
    return pellucid.load(path)


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
    assert [translation.text for translation in streamed] == [translation.text for translation in expected]


def test_a_score_is_the_log_probability_of_a_translation(model):
    [translation] = model.translate(["Yes."], beam=3, max_extra=23)
    if translation.stop == "eos":
        assert model.score(["Yes."], [translation.text])[0].log_prob <= 0
    with pytest.raises(ValueError, match="batch is -1"):
        model.score(["Yes."], ["Sí."], batch=-1)


def test_an_evaluation_scores_the_translations(model):
    texts = [translation.text for translation in model.translate(LINES, beam=1)]
    assert model.evaluate(LINES, LINES, beam=1) == corpus_scores(texts, LINES)
    with pytest.raises(ValueError, match="7 sources and 6 references"):
        model.evaluate(LINES, LINES[1:])


def test_an_evaluation_takes_several_references(model):
    texts = [translation.text for translation in model.translate(LINES, beam=1)]
    reversed_lines = list(reversed(LINES))
    assert model.evaluate(LINES, [LINES, iter(reversed_lines)], beam=1) == corpus_scores(texts, [LINES, reversed_lines])
    assert model.evaluate(LINES, [LINES], beam=1) == model.evaluate(LINES, LINES, beam=1)
    with pytest.raises(ValueError, match="7 sources and 6 references in list 2 of 2: each needs the other"):
        model.evaluate(LINES, [LINES, LINES[1:]])


def test_one_text_gives_one_translation_and_one_score(model):
    assert model.translate("Yes.", beam=2, max_extra=5) == model.translate(["Yes."], beam=2, max_extra=5)[0]
    continued = model.translate("Yes.", prefixes="the", max_extra=5)
    assert continued == model.translate(["Yes."], prefixes=["the"], max_extra=5)[0]
    assert continued != model.translate("Yes.", max_extra=5)
    assert model.score("Yes.", "Sí.") == model.score(["Yes."], ["Sí."])[0]
    with pytest.raises(ValueError, match="prefixes are several and lines is one text"):
        model.translate("Yes.", prefixes=["the"])


@pytest.mark.parametrize("kind", [iter, tuple, dict.fromkeys, lambda lines: (line for line in lines)])
def test_lines_may_be_any_iterable_of_texts(model, kind):
    lines = list(dict.fromkeys(LINES))
    assert model.translate(kind(lines), beam=1) == model.translate(lines, beam=1)
    assert model.translate(lines, beam=1, prefixes=kind(lines)) == model.translate(lines, beam=1, prefixes=lines)
    assert model.score(kind(lines), kind(lines)) == model.score(lines, lines)
    assert model.evaluate(kind(lines), kind(lines), beam=1) == model.evaluate(lines, lines, beam=1)


def test_one_text_is_not_taken_for_a_list_of_letters(model):
    for call in (
        model.translate_stream,
        lambda text: model.translate(["a"], prefixes=text),
        lambda text: model.score(text, ["a"]),
        lambda text: model.score(["a"], text),
        lambda text: model.evaluate(text, text),
    ):
        with pytest.raises(ValueError, match="is one text; give a list, with one text in it"):
            call("Yes.")


def test_a_value_that_is_no_text_is_named_with_its_line(model):
    for call, problem in {
        lambda: model.translate(["Yes.", None]): "line 2 is None (NoneType); a text is expected",
        lambda: model.translate(None): "lines is None (NoneType); a list of texts is expected",
        lambda: model.translate(b"Yes."): "lines is b'Yes.' (bytes); a list of texts is expected",
        lambda: model.translate(["Yes."], prefixes=[7]): "prefix 1 is 7 (int); a text is expected",
        lambda: list(
            model.translate_stream(["Yes.", "No.", 3.5], block=1)
        ): "line 3 is 3.5 (float); a text is expected",
        lambda: model.score(["Yes."], [b"a"]): "target 1 is b'a' (bytes); a text is expected",
        lambda: model.evaluate(["Yes."], [None]): "reference 1 is None (NoneType); a text is expected",
        lambda: model.translate_stream(["Yes."], block=0): "block is 0, it must be 1 or more",
    }.items():
        with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
            call()


def test_an_unknown_option_is_answered_with_the_nearest(model, tmp_path):
    calls = [model.translate, model.translate_stream, lambda lines, **search: model.evaluate(lines, lines, **search)]
    for call in calls:
        with pytest.raises(ValueError, match=r"unknown option 'num_beams'; did you mean 'beam'\? \(known: method, "):
            call(["Yes."], num_beams=4)
    with pytest.raises(
        ValueError, match=r"unknown option 'step'; did you mean 'steps'\? \(known: run, out, resume, so"
    ):
        pellucid.train(tables(tmp_path), out=tmp_path / "run", step=1)  # pyright: ignore[reportCallIssue]
    assert not (tmp_path / "run").exists()
    with pytest.raises(
        ValueError, match=r"unknown option 'beams'; did you mean 'beam'\? \(known: sentence, target, context, be"
    ):
        model.trace("Yes.", beams=3)
    with pytest.raises(ValueError, match=r"unknown option 'precison'; did you mean 'precision'\? \(known: directory, "):
        pellucid.load(model.directory, precison="bfloat16")  # pyright: ignore[reportCallIssue]


def test_a_search_setting_given_to_another_function_is_sent_to_translate(model):
    with pytest.raises(ValueError, match=r"load does not take beam, which a search takes: give it to Model.translate"):
        pellucid.load(model.directory, beam=4)  # pyright: ignore[reportCallIssue]
    assert len(model.trace("Yes.", beam=2).steps) > 0  # but `trace` has a beam of its own


def test_a_missing_argument_is_named(model, tmp_path):
    train, load = cast(Any, pellucid.train), cast(Any, pellucid.load)  # for a type checker these calls are errors
    with pytest.raises(ValueError, match=r"^train: missing a required .*argument: 'out' \(known: run, out, resume, "):
        train(tables(tmp_path))
    with pytest.raises(ValueError, match=r"^train: too many positional arguments \(known: run, out, resume, "):
        train(tables(tmp_path), tmp_path / "run")
    with pytest.raises(ValueError, match=r"unknown option 'output'; did you mean 'out'\?"):
        train(tables(tmp_path), output=tmp_path / "run")
    with pytest.raises(ValueError, match=r"^load: missing a required argument: 'directory' \(known: directory, "):
        load()
    with pytest.raises(ValueError, match=r"^trace: missing a required argument: 'sentence' \(known: sentence, "):
        cast(Any, model.trace)(beam=2)


def test_a_warning_of_load_names_the_line_that_called_it(model, monkeypatch):
    monkeypatch.setattr("pellucid.cpu.has_native_bfloat16", lambda device: False)
    with pytest.warns(UserWarning, match="float32 is faster") as caught:
        pellucid.load(model.directory, precision="bfloat16")
    assert [warning.filename for warning in caught] == [__file__]


def test_documented_options_are_those_that_exist():
    """Type checkers and completion read `SearchOptions`; the code follows `SearchConfig`."""
    assert get_type_hints(SearchOptions) == get_type_hints(SearchConfig)


def test_a_loaded_model_has_its_manifest_and_its_directory(model):
    assert (model.manifest["step"], model.directory.name) == (41, "best")


def test_only_two_precisions_are_known(model):
    bfloat16_model = pellucid.load(model.directory, precision="bfloat16")
    assert bfloat16_model.bundle.model.output_embedding.weight.dtype == torch.bfloat16
    assert len(bfloat16_model.translate(LINES, beam=1, max_extra=3)) == len(LINES)
    with pytest.raises(ValueError, match="precision is 'int8', it must be one of float32, bfloat16"):
        pellucid.load(model.directory, precision="int8")


def test_training_gives_the_best_model(tmp_path):
    from pellucid.training import loop  # importing the folder must not hide the function

    assert loop is not pellucid.train
    trained_model = pellucid.train(tables(tmp_path), out=tmp_path / "run")
    assert trained_model.directory == tmp_path / "run" / "best"
    assert len(trained_model.translate(["one two"], max_extra=3)) == 1
    from_file = pellucid.train(tmp_path / "run" / "run.toml", out=tmp_path / "again")
    weights = [dict(trained.bundle.model.named_parameters()) for trained in (trained_model, from_file)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_a_model_that_writes_lower_case_only_is_scored_without_case(tmp_path):
    run_tables = tables(tmp_path)
    run_tables["tokenizer"]["lowercase"] = True
    trained_model = pellucid.train(run_tables, out=tmp_path / "run")
    rows = [row for row in read_log(tmp_path / "run" / "log.jsonl") if "bleu" in row]
    assert rows
    assert all("case:lc" in signature for row in rows for signature in row["signatures"].values())
    scores = trained_model.evaluate(["one two"], ["ONE TWO"], max_extra=3)
    assert all("case:lc" in score["signature"] for score in scores.values())


def test_a_run_is_named_in_one_way_only(tmp_path):
    with pytest.raises(ValueError, match=r"a run file and size are both given.*--set model\.size=tiny"):
        pellucid.train(tables(tmp_path), out=tmp_path / "run", size="tiny")
    with pytest.raises(ValueError, match="nothing to train on: name a run file, or source and target"):
        pellucid.train(out=tmp_path / "run")
    with pytest.raises(ValueError, match="target is missing: name the file that belongs to a"):
        pellucid.train(out=tmp_path / "run", source="a")
    with pytest.raises(ValueError, match="none of them can be standard input"):
        pellucid.train(out=tmp_path / "run", source="-", target="b")
    assert not (tmp_path / "run").exists()


def test_an_unknown_name_of_the_package_is_refused():
    with pytest.raises(AttributeError, match="no attribute 'lode'; it has Model, load, pipeline, train"):
        pellucid.lode  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


def test_the_version_is_known_without_loading_anything():
    code = (
        "import sys, pellucid; assert pellucid.__version__[0].isdigit(), pellucid.__version__; "
        "assert not {'torch', 'numpy', 'pellucid.api'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert pellucid.__version__ == version("pellucid")


def test_a_package_that_is_not_installed_still_has_a_version(monkeypatch):
    def raise_not_found(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", raise_not_found)
    assert pellucid.__version__ == "0+source"


def save_random_model(path, seed: int, **manifest) -> None:
    vocabulary = small_tokenizer().source_vocabulary
    save_bundle(path, random_model(seed, vocabulary, vocabulary, max_positions=61), small_tokenizer(), **manifest)


def unpickle_model(pickled: bytes) -> Model:
    return ForkingPickler.loads(pickled)  # pyright: ignore[reportAttributeAccessIssue]  # pickle's, taken for a method


def test_the_repr_of_a_model_says_in_three_lines_what_it_is(tmp_path):
    save_random_model(tmp_path / "best", 1, languages={"source": "en", "target": "es"})
    pellucid.load(tmp_path / "best", engine="ctranslate2")  # converts it once
    model = pellucid.load(tmp_path / "best", engine="ctranslate2")
    pieces = f"{small_tokenizer().target_vocabulary:,} pieces, en to es"
    first, second, third = repr(model).splitlines()
    assert (first, third) == (f"<pellucid.Model {tmp_path / 'best'}", "  CTranslate2, float32, cpu>")
    assert second.endswith(pieces)
    assert "layers, d_model" in second
    assert isinstance(model.bundle, Bundle)
    assert model.bundle.is_unloaded  # no weights are read for it
    bfloat16_model = pellucid.load(tmp_path / "best", precision="bfloat16", others=[tmp_path / "best"])
    assert repr(bfloat16_model).endswith(f"  torch, bfloat16, cpu, with {tmp_path / 'best'}>")
    assert repr(Model(bfloat16_model.bundle, bfloat16_model.translator)).endswith(f"{pieces}>")


def test_a_model_is_sent_to_another_process_as_its_path(tmp_path, monkeypatch):
    save_random_model(tmp_path / "best", 1)
    monkeypatch.chdir(tmp_path)
    model = pellucid.load("best", engine="ctranslate2")
    expected = model.translate(LINES, beam=2, max_extra=5)
    pickled = bytes(ForkingPickler.dumps(model))
    assert len(pickled) < 2000
    monkeypatch.chdir("/")
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        call = partial(Model.translate, model, beam=2, max_extra=5)
        assert pool.submit(call, LINES).result() == expected
    assert repr(unpickle_model(pickled)).splitlines()[1:] == repr(model).splitlines()[1:]


@pytest.mark.slow  # the test before it translates in a process of a pool
def test_a_pool_of_processes_can_translate(model):
    with get_context("spawn").Pool(1) as pool:
        assert pool.map(model.translate, [LINES[:2]]) == [model.translate(LINES[:2])]


@pytest.mark.parametrize("name", ["best", "other"])
def test_a_model_that_changed_after_it_was_sent_is_refused(tmp_path, name):
    save_random_model(tmp_path / "best", 1)
    save_random_model(tmp_path / "other", 2)
    model = pellucid.load(tmp_path / "best", others=[tmp_path / "other"])
    pickled = bytes(ForkingPickler.dumps(model))
    assert unpickle_model(pickled).translate("Yes.", max_extra=3) == model.translate("Yes.", max_extra=3)
    save_random_model(tmp_path / name, 3)
    with pytest.raises(ValueError, match="holds another model than the one that was sent"):
        unpickle_model(pickled)


def test_a_model_put_together_by_hand_cannot_be_sent(model):
    with pytest.raises(TypeError, match=r"put together by hand; only one from pellucid\.load can be sent"):
        ForkingPickler.dumps(Model(model.bundle, model.translator))
