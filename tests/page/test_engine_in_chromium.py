"""A file with a model inside, opened in Chromium without a network: it translates what is typed, as Python does."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from pellucid.api import Model, load
from pellucid.interpret.trace import Hide, Silence, Without
from pellucid.interpret.trace.model_page import save_model_page
from tests.browser.small import OTHER, SENTENCE, save_trained_model
from tests.page.browser import open_tab
from tests.page.telling import choose_telling
from tests.tolerances import approx_log_prob

TABLES = """() => [...document.querySelectorAll('.sheet-table table')].map(table =>
    [...table.querySelectorAll('tbody tr')].map(row => [...row.querySelectorAll('td')].map(cell => cell.innerText)))"""
IS_AS_IT_WAS = "() => !document.querySelector('.busy:not(:empty)') && !location.hash.includes('&e=')"
HOSTILE = "The queen </script><img src=x onerror=window.harmed=1> is here."


@dataclass
class OpenPage:
    """The page in a tab, the model in it, and the addresses that the tab asked for."""

    tab: Any
    model: Model
    addresses: list[str]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenPage]:
    folder = tmp_path_factory.mktemp("page")
    model = load(save_trained_model(folder / "runs" / "best"), engine="torch")
    save_model_page(model.trace(SENTENCE), folder / "model.html", "float32", [OTHER, HOSTILE], ("en", "es"))
    with open_tab(viewport={"width": 1440, "height": 900}) as tab:
        tab.context.set_offline(True)
        addresses: list[str] = []
        tab.on("request", lambda request: addresses.append(request.url))
        tab.goto((folder / "model.html").as_uri())
        tab.wait_for_selector(".scrubber")
        yield OpenPage(tab, model, addresses)


def translate(page: OpenPage, sentence: str) -> str:
    """Type a sentence, press Enter, and return the translation that is shown."""
    page.tab.fill("#pellucid-sentence", sentence)
    page.tab.keyboard.press("Enter")
    page.tab.wait_for_function("text => document.title.startsWith(text)", arg=sentence.strip())
    return page.tab.inner_text(".translation")


def test_it_opens_with_a_translation_and_asks_nobody(page: OpenPage):
    assert page.tab.inner_text(".translation") == page.model.translate(SENTENCE).text
    assert [address for address in page.addresses if not address.startswith(("file:", "blob:", "data:"))] == []


def test_the_first_sentence_is_drawn_before_the_model_is_there(page: OpenPage):
    patterns = [name for name in page.model.trace(SENTENCE) if name.endswith(".pattern")]
    tab = page.tab.context.browser.new_page(viewport={"width": 1440, "height": 900})
    tab.add_init_script("window.Worker = class { postMessage() {} }")  # one that never answers
    for _ in range(
        2
    ):  # its address then names the trace: whoever comes back sees the same, and is told of no other run
        tab.goto(page.tab.url.partition("#")[0]) if tab.url == "about:blank" else tab.reload()
        tab.wait_for_selector(".scrubber")
        assert tab.inner_text(".translation") == page.model.translate(SENTENCE).text
        assert tab.locator(".head-face canvas").count() == page.model.bundle.model.config.heads * len(patterns)
        assert tab.locator(".waiting, .problem").count() == 0
    assert "&id=" in tab.url
    tab.close()


def test_a_typed_sentence_has_the_translation_and_the_numbers_of_python(page: OpenPage):
    trace = page.model.trace(OTHER)
    assert translate(page, OTHER) == trace.target.text
    page.tab.evaluate("location.hash = 'v=head&a=decoder.1.cross&h=2'")
    page.tab.wait_for_selector(".sheet-canvas")
    page.tab.keyboard.press("t")
    page.tab.wait_for_selector(".sheet-table")
    tables = [
        np.array([[float(cell.replace("−", "-")) for cell in row] for row in table])
        for table in page.tab.evaluate(TABLES)
    ]
    for name in ("q", "k", "products", "scores", "pattern", "v", "head_output"):
        values = trace[f"decoder.1.cross.{name}"].values[2]
        # The keys stand with a column for each position, so that they meet the rows of the queries.
        drawn = values.T if name == "k" else values
        close = [np.allclose(table, drawn, atol=1e-4) for table in tables if table.shape == drawn.shape]
        assert any(close), name
    page.tab.keyboard.press("t")


@pytest.mark.slow  # test_engine.py compares the same runs in Node
def test_switches_of_the_story_run_the_model_without_what_a_stop_explains(page: OpenPage):
    trace = page.model.trace(SENTENCE)
    # Of the switches one of each kind: the numbers of all are compared in Node, and all are used with a server.
    telling = choose_telling(trace)
    silence = Silence(telling.encoder.section, telling.encoder.head)
    word = trace.source.words[telling.piece]
    assert word is not None
    stops = {8: Without("mask"), 10: silence, 12: Hide(word)}
    translate(page, SENTENCE)
    page.tab.evaluate("location.hash = 'v=map&n=1'")
    for stop, edit in stops.items():
        page.tab.get_by_role("button", name=f"Stop {stop}:").click()
        page.tab.wait_for_function(
            "() => !document.querySelector('.busy:not(:empty)') && !location.hash.includes('&e=')"
        )
        page.tab.click(".without [role=switch]")
        page.tab.wait_for_selector(".without-pair")
        texts = page.tab.locator(".without-pair b").all_inner_texts()
        assert texts[0] == trace.target.text
        edited = trace.edited(edit, keep_target=edit == Without("mask"))
        assert texts[1] == (edited.target.text or "an empty translation"), stop
    page.tab.click(".without [role=switch]")
    page.tab.wait_for_function("() => !location.hash.includes('&e=')")
    assert page.tab.inner_text(".translation") == trace.target.text


def test_a_script_around_the_page_may_translate(page: OpenPage):
    answer = page.tab.evaluate("text => window.pellucid.translate(text, { beam: 2 })", OTHER)
    expected = page.model.translate(OTHER, beam=2)
    assert [answer["text"], answer["stop"], answer["pieces"]] == [expected.text, expected.stop, expected.pieces]
    assert answer["score"] == approx_log_prob(expected.score)
    refusal = page.tab.evaluate("window.pellucid.translate('a', { beam: 0 }).catch(error => error.message)")
    assert refusal == "The beam is 0; it must be a whole number from 1 to 64."


def test_hostile_text_is_shown_as_text(page: OpenPage):
    translate(page, HOSTILE)
    assert page.tab.evaluate("window.harmed") is None
    assert page.tab.locator(".pellucid img").count() == 0


def test_what_the_engine_does_not_compute_is_said_in_a_sentence(page: OpenPage):
    translate(page, SENTENCE)
    page.tab.evaluate("location.hash = 'v=debug'")
    page.tab.get_by_text("The model in this page does not compute this").first.wait_for()
