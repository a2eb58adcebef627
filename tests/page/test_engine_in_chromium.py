"""A file with a model inside, opened in Chromium without a network: it translates what is typed, as Python does."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from pellucid.api import Model, load
from pellucid.trace.model_page import save_model_page
from tests.browser.small import OTHER, SENTENCE, save_trained_model
from tests.page.browser import open_tab

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


def test_a_typed_sentence_has_the_translation_and_the_numbers_of_python(page: OpenPage):
    trace = page.model.trace(OTHER)
    assert translate(page, OTHER) == trace.target.text
    page.tab.evaluate("location.hash = 'v=head&a=decoder.1.cross&h=2'")
    page.tab.wait_for_selector(".sheet-canvas")
    page.tab.keyboard.press("t")
    page.tab.wait_for_selector(".sheet-table")
    table = page.tab.locator("figure:has(.sheet-label:text-is('pattern')) .sheet-table table")
    rows = [row.split("\t") for row in table.first.inner_text().split("\n")]
    shown = [[float(cell.replace("−", "-")) for cell in row if re.fullmatch(r"[−\d.e-]+", cell)] for row in rows]
    numbers = [number for row in shown for number in row]
    expected = trace["decoder.1.cross.pattern"].values[2]
    assert len(numbers) >= expected.size
    for value in expected.ravel():
        assert min(abs(value - number) for number in numbers) < 1e-4
    page.tab.keyboard.press("t")


def test_an_edit_is_computed_in_the_page(page: OpenPage):
    trace = page.model.trace(SENTENCE)
    translate(page, SENTENCE)
    edited = trace.edited({"kind": "without", "part": "positions"})
    page.tab.evaluate("location.hash = 'v=map&n=6'")
    switch = page.tab.get_by_role("switch").first
    switch.wait_for()
    assert switch.is_enabled()
    page.tab.evaluate(
        "({ sentence, edits }) => { location.hash = 'v=map&' + new URLSearchParams({ s: sentence, e: edits }) }",
        {"sentence": SENTENCE, "edits": '[{"kind": "without", "part": "positions"}]'},
    )
    page.tab.get_by_text("1 edit", exact=False).first.wait_for()
    assert page.tab.inner_text(".translation") == (edited.target.text or "an empty translation")


def test_a_script_around_the_page_may_translate(page: OpenPage):
    answer = page.tab.evaluate("text => window.pellucid.translate(text, { beam: 2 })", OTHER)
    expected = page.model.translate(OTHER, beam=2)
    assert [answer["text"], answer["stop"], answer["pieces"]] == [expected.text, expected.stop, expected.pieces]
    assert answer["score"] == pytest.approx(expected.score, abs=1e-4)
    refusal = page.tab.evaluate("window.pellucid.translate('a', { beam: 0 }).catch(error => error.message)")
    assert refusal == "The beam is 0; it must be a whole number from 1 to 64."


def test_hostile_text_is_shown_as_text(page: OpenPage):
    translate(page, HOSTILE)
    assert page.tab.evaluate("window.harmed") is None
    assert page.tab.locator(".pellucid img").count() == 0


def test_what_the_engine_does_not_compute_is_said_in_a_sentence(page: OpenPage):
    translate(page, SENTENCE)
    page.tab.evaluate("location.hash = 'v=debug'")
    page.tab.get_by_role("button", name="Ask for the verdict").click()
    page.tab.get_by_text("The model in this page does not compute this").first.wait_for()
