"""Lines of garbage, of every kind, come through both engines and both searches undamaged."""

from pathlib import Path

import pytest

import pellucid
from benchmarks.garbage import (
    CONTROL,
    EVERY,
    KINDS,
    SENTENCES,
    draw_lines,
    find_differences,
    find_lost_sentences,
    find_problems,
)
from pellucid.store.directory import save_bundle
from tests.decode.models import random_model, small_tokenizer


@pytest.fixture(scope="module")
def model_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokenizer = small_tokenizer()
    path = tmp_path_factory.mktemp("garbage") / "model"
    save_bundle(
        path,
        random_model(5, tokenizer.source_vocabulary, tokenizer.target_vocabulary, encoder_layers=1, decoder_layers=1),
        tokenizer,
    )
    return path


@pytest.mark.parametrize(("engine", "beam"), [("torch", 4), ("ctranslate2", 1)])
def test_no_line_of_garbage_is_lost_moved_or_damaged(model_directory: Path, engine: str, beam: int):
    model, lines = pellucid.load(model_directory, engine=engine), draw_lines(45, seed=3)
    assert {kind for kind, _ in lines} == {"control", *KINDS}
    expected = model.translate(CONTROL, beam=beam, max_extra=5).text
    translations = model.translate_stream((line for _, line in lines), beam=beam, max_extra=5)
    texts = [translation.text for translation in translations]
    assert [*find_problems(lines, texts, expected)] == []
    alone = [("alone", sentence) for sentence in SENTENCES]
    texts += [translation.text for translation in model.translate(SENTENCES, beam=beam, max_extra=5)]
    assert [*find_lost_sentences([*lines, *alone], texts)] == []


def test_differences_in_a_translation_are_found():
    assert find_differences("a {n} <b>c</b>", "x {n} <b>y</b>") == []
    assert find_differences("a {n}{n}", "x {n}") == ["{n} is lost"]
    assert find_differences("<b>a</b>", "<b>x") == ["tags differ"]
    lines = [("control", CONTROL), ("tags", "a")]
    assert [*find_problems(lines, ["La bola."], "La bola.")] == ["2 lines in, 1 out"]
    joined = [("joined sentences", "Go. Stay."), ("alone", "Go."), ("alone", "Stay.")]
    assert [*find_lost_sentences(joined, ["Ve. Quédate.", "Ve.", "Quédate."])] == []
    assert len([*find_lost_sentences(joined, ["Ve.", "Ve.", "Quédate."])]) == 1
    assert "line 1: the known" in next(find_problems(lines, ["x", "La bola."], "La bola."))


def test_the_same_seed_makes_the_same_lines():
    assert draw_lines(200, seed=3) == draw_lines(200, seed=3) != draw_lines(200, seed=4)
    assert [line for kind, line in draw_lines(200, seed=3)][::EVERY] == [CONTROL] * 40
    assert not any("\n" in line or "\0" in line for _, line in draw_lines(3000, seed=3))
    for _, line in draw_lines(3000, seed=3):
        line.encode()
