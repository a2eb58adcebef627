"""Promised sizes: of the script that a browser fetches, and of a file that a user sends."""

import gzip

import pytest
import torch

from pellucid.api import Model
from pellucid.decode.translator import Translator
from pellucid.interpret.page.html_file import trace_page
from pellucid.model import PRESETS, ModelConfig, Transformer
from pellucid.store.directory import Bundle
from tests.browser.installed import require_buildable
from tests.browser.small import SENTENCE, learned_pairs, tokenizer


def test_the_script_that_the_server_sends_is_at_most_120_kilobytes_compressed(page):
    page.tab.goto(page.watched_tab.home)
    script = page.tab.request.get(f"{page.watched_tab.home}pellucid.js").body()
    assert len(gzip.compress(script, mtime=0)) <= 120_000


FETCHED = """() => performance.getEntriesByType("resource").reduce((sum, entry) => sum + entry.transferSize, 0)"""


def test_the_first_page_fetches_no_weights_and_a_place_where_something_can_be_changed_does(page):
    page.open(s=SENTENCE, v="map", n=1).settle()
    page.tab.wait_for_load_state("networkidle")
    model = f"{page.watched_tab.home}model"
    assert model not in page.watched_tab.requests
    assert page.tab.evaluate(FETCHED) < 400_000  # of a small model
    page.open(s=SENTENCE, v="map", n=7).settle()
    for _ in range(200):
        if model in page.watched_tab.requests:
            return
        page.tab.wait_for_timeout(50)
    raise AssertionError("the weights were never fetched")


@pytest.mark.parametrize("size", ["tiny", pytest.param("base", marks=pytest.mark.slow)])
def test_a_file_of_maps_at_twelve_pieces_is_at_most_a_megabyte(size, tmp_path):
    require_buildable()
    torch.manual_seed(1)
    vocabulary = tokenizer().source_vocabulary
    model = Transformer(ModelConfig(vocabulary, vocabulary, **PRESETS[size])).eval()
    api_model = Model(Bundle(model, tokenizer(), {}, tmp_path / "random"), Translator(model, tokenizer()))
    source = next(pair.source for pair in learned_pairs() if len(tokenizer().encode_source([pair.source])[0]) >= 12)
    target = next(pair.target for pair in learned_pairs() if len(tokenizer().encode_target([pair.target])[0]) >= 12)
    trace = api_model.trace(source, target=target)
    assert min(len(trace.source.pieces), len(trace.target.pieces)) >= 12
    assert len(trace_page(trace, "maps").encode()) <= 1_000_000
