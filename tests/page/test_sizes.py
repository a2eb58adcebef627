"""The smallest file takes at most 1 MB for twelve pieces a side, with the tiny and with the base size."""

import pytest

from pellucid.api import Model
from pellucid.decode.translate import Translator
from pellucid.model import PRESETS, ModelConfig, Transformer
from pellucid.page.html import trace_page
from pellucid.store.directory import load_bundle, save_bundle
from tests.decode.models import small_tokenizer
from tests.page.traces import built_script

__all__ = ["built_script"]

SOURCE, TARGET = "The cat is the ball", "El gato es la."
SCRIPT = 400_000
"""Bytes of a script that has about 120 kB when it is compressed, the most that the page may have."""


@pytest.mark.parametrize("size", ["tiny", pytest.param("base", marks=pytest.mark.slow)])
def test_a_file_of_maps_has_at_most_one_megabyte(built_script, tmp_path, size: str):
    built_script.write_text(f"//{'x' * SCRIPT}", encoding="utf-8")
    vocabulary = small_tokenizer().source_vocabulary
    config = ModelConfig(vocabulary, vocabulary, **PRESETS[size])
    save_bundle(tmp_path / "best", Transformer(config).eval(), small_tokenizer(), step=0)
    bundle = load_bundle(tmp_path / "best")
    trace = Model(bundle, Translator(bundle.model, bundle.tokenizer)).trace(SOURCE, target=TARGET)
    assert (len(trace.source.ids), len(trace.target.ids)) == (12, 12)
    assert len(trace_page(trace, "maps").encode()) <= 1_000_000
