"""Code that was written for the translation pipeline of transformers runs with a model of Pellucid."""

import pytest

import pellucid
from pellucid.api import Model
from tests.decode.models import LINES
from tests.serve.servers import small_model


@pytest.fixture(scope="module")
def model() -> Model:
    return small_model()


def test_one_text_and_several_give_lists_of_translations(model: Model):
    expected = [{"translation_text": translation.text} for translation in model.translate(LINES)]
    translator = pellucid.pipeline("translation_en_to_es", model=model)
    assert translator(LINES[0]) == expected[:1]
    assert translator(LINES, max_length=512, truncation=True, batch_size=2) == expected
    assert [translator(line)[0]["translation_text"] for line in LINES] == [one["translation_text"] for one in expected]


def test_options_have_the_names_of_transformers(model: Model):
    translator = pellucid.pipeline("translation", model=model, num_beams=3)
    three = model.translate(LINES, beam=3, n_best=3)
    rows = [[{"translation_text": one.text} for one in (best, *best.alternatives)] for best in three]
    assert translator(LINES, num_return_sequences=3) == rows
    assert translator(LINES[0], num_return_sequences=3) == rows[0]
    drawn = model.translate(LINES, method="sample", top_k=5, temperature=0.7)
    assert translator(LINES, do_sample=True, top_k=5, temperature=0.7) == [{"translation_text": d.text} for d in drawn]


def test_a_directory_is_loaded(model: Model, tmp_path):
    from pellucid.store.directory import save_bundle

    save_bundle(tmp_path / "best", model.bundle.model, model.bundle.tokenizer)
    translator = pellucid.pipeline("translation", model=str(tmp_path / "best"), device=-1)
    assert translator("Yes.") == [{"translation_text": model.translate("Yes.").text}]


def test_what_it_does_not_know_is_refused(model: Model):
    with pytest.raises(ValueError, match="task is 'summarization', it must be 'translation'"):
        pellucid.pipeline("summarization", model=model)
    with pytest.raises(ValueError, match="unknown option 'num_beam'; did you mean 'num_beams'"):
        pellucid.pipeline("translation", model=model, num_beam=3)
    with pytest.raises(ValueError, match="unknown option 'tgt_lang'"):
        pellucid.pipeline("translation", model=model)("Yes.", tgt_lang="es")
