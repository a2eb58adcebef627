"""Tests of the first screen: a sentence already traced, others to click, and words that the model never saw."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pellucid.api import load
from tests.browser.installed import run_server
from tests.browser.reading import Page
from tests.browser.small import OTHER, SENTENCE, learned_pairs, save_trained_model
from tests.browser.watched import WatchedTab, watch_tab
from tests.variants import mark_others_slow

UNSURE = "The zebra drinks the coffee."
"""A sentence that the model was not trained on."""


@pytest.fixture(scope="module")
def home_of_run(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server whose model stands in its run, with the text that it learned from."""
    run = tmp_path_factory.mktemp("run")
    save_trained_model(run / "best")
    (run / "train.en").write_text("\n".join(pair.source for pair in learned_pairs()), encoding="utf-8")
    (run / "dev.en").write_text(f"{SENTENCE}\n{OTHER}\n", encoding="utf-8")
    references = [load(run / "best").translate(sentence).text for sentence in (SENTENCE, OTHER)]
    (run / "dev.es").write_text("\n".join(references) + "\n", encoding="utf-8")
    names = {"source": "train.en", "target": "train.es", "dev_source": "dev.en", "dev_target": "dev.es"}
    lines = [f"{key} = {json.dumps(name)}" for key, name in names.items()]
    (run / "run.toml").write_text("\n".join(["[data]", *lines]), encoding="utf-8")
    with run_server(site, run / "best", tmp_path_factory.mktemp("elsewhere")) as address:
        yield address


@pytest.fixture(scope="module")
def first_tab(browser: Any, home_of_run: str) -> Iterator[WatchedTab]:
    """A tab for all tests of that server."""
    with watch_tab(browser, home_of_run) as watched_tab:
        yield watched_tab


@pytest.fixture
def first_page(first_tab: WatchedTab, home_of_run: str) -> Iterator[Page]:
    """A tab at that server's bare address."""
    page = Page(first_tab)
    page.tab.goto(home_of_run)
    page.tab.wait_for_selector(".centre .view")
    yield page
    first_tab.leave_page()


def test_the_page_opens_with_the_first_dev_sentence_already_traced(first_page: Page, model):
    assert first_page.text(".translation") == model.translate([SENTENCE])[0].text
    assert first_page.tab.get_by_role("region", name="Story, stop 1 of 14").count() == 1
    box = first_page.tab.locator("#pellucid-sentence")
    first_page.wait_until(
        "() => document.activeElement.selectionEnd - document.activeElement.selectionStart > 5"
    )  # what is typed now takes its place
    assert box.evaluate("box => box === document.activeElement") is True
    assert "Translates English into Spanish" in first_page.text(".examples")
    first_page.watched_tab.save_picture("first-screen")


def test_a_click_on_an_example_traces_it(first_page: Page, model):
    examples = first_page.tab.locator(".example")
    assert examples.all_inner_texts() == [SENTENCE, OTHER]
    examples.nth(1).click()
    translation = model.translate([OTHER])[0].text
    first_page.wait_until("text => document.querySelector('.translation').textContent === text", translation)
    assert first_page.tab.input_value("#pellucid-sentence") == OTHER
    assert examples.nth(1).get_attribute("aria-current") == "true"


def test_words_that_were_never_or_seldom_seen_in_training_are_named_while_one_types(first_page: Page):
    first_page.tab.fill("#pellucid-sentence", "The zebra drinks the coffee.")
    first_page.tab.wait_for_selector(".rare-word")
    seen = " ".join(pair.source.lower() for pair in learned_pairs())
    rare = first_page.tab.locator(".rare-word").all_inner_texts()
    assert "zebra" in rare
    assert "the" not in [word.lower() for word in rare]
    assert seen.count("zebra") == 0
    style = "word => getComputedStyle(word).textDecorationStyle"
    assert first_page.tab.locator(".rare-word").first.evaluate(style) == "wavy"


def test_the_least_sure_word_is_marked_and_debug_begins_with_it(first_page: Page, model):
    first_page.tab.fill("#pellucid-sentence", UNSURE)
    first_page.press("Enter")
    trace = model.trace(UNSURE)
    doubt = trace.doubt
    assert doubt is not None
    assert doubt.instead
    first_page.wait_until("text => document.querySelector('.translation').textContent === text", trace.target.text)
    marked = "".join(first_page.tab.locator(".translation .doubted").all_text_contents())
    assert marked.strip() == doubt.text
    for word in (doubt.text, doubt.instead):
        assert f"“{word}”" in first_page.text(".score .doubt")
    first_page.tab.locator(".score .doubt").click()
    first_page.tab.wait_for_selector(".view-debug .sheet")
    assert f"“{doubt.text}”" in first_page.tab.locator(".findings > li").first.inner_text()
    assert first_page.tab.locator("[aria-label='Who taught it?'] h2").inner_text() == f"Who taught it “{doubt.text}”?"
    # What is known of an example is there: its reference, and how well such words tell mistakes.
    first_page.tab.locator(".example").nth(1).click()
    reference = first_page.tab.get_by_label("A correct translation")
    first_page.wait_until(
        "text => document.querySelector('.translation').textContent === text", model.translate(OTHER).text
    )
    assert reference.input_value() == model.translate(OTHER).text
    first_page.tab.get_by_text("In 2 sentences not trained on").wait_for()


def test_after_enter_the_focus_leaves_the_box_so_that_keys_work(first_page: Page):
    first_page.tab.fill("#pellucid-sentence", OTHER)
    first_page.press("Enter")
    first_page.wait_until("() => document.activeElement.classList.contains('translation')")
    first_page.press(".")
    first_page.wait_until("() => location.hash.includes('t=1')")
    assert first_page.tab.input_value("#pellucid-sentence") == OTHER


def test_a_model_without_the_text_of_its_run_welcomes_the_reader(page: Page):
    page.tab.goto(page.watched_tab.home)
    page.tab.wait_for_selector(".welcome")
    assert page.tab.locator(".example").count() == 0
    page.wait_until("() => document.activeElement.id === 'pellucid-sentence'")


def test_a_damaged_link_is_said_to_be_damaged_and_not_replaced_by_an_example(first_page: Page):
    first_page.settle()
    first_page.tab.wait_for_load_state("networkidle")
    first_page.tab.goto("about:blank")
    first_page.tab.goto(f"{first_page.watched_tab.home}#s=Hello&b=none")
    first_page.tab.wait_for_selector(".problem")
    first_page.tab.wait_for_timeout(300)
    assert first_page.tab.locator(".translation").count() == 0


@pytest.mark.parametrize("mode", ["learn", "teach"])
# With the story there is less room.
@pytest.mark.parametrize("story", mark_others_slow({"with the story": {"n": 1}, "without it": {}}, "with the story"))
def test_the_whole_network_stands_in_one_window(page: Page, mode, story):
    for width, height in ((1440, 900), (1280, 720)):
        page.tab.set_viewport_size({"width": width, "height": height})
        page.open(s=SENTENCE, v="map", m=mode, **story).settle()
        box = page.tab.locator(".map-body").bounding_box()
        assert box["y"] + box["height"] <= height, (width, height)
        assert page.tab.evaluate("() => document.documentElement.scrollWidth") <= width
        assert page.tab.locator(".map-how[open]").count() == 0  # the explanation is behind the question mark


def test_a_first_visitor_learns_in_a_few_presses_why_a_word_was_chosen(first_page: Page, model):
    presses = 0
    for name in (re.compile("Step 3: writes"), "why?"):
        first_page.tab.get_by_role("button", name=name).click()
        presses += 1
    assert presses <= 5
    trace = model.trace(SENTENCE)
    first_page.wait_until("() => document.querySelector('.output-body')?.innerText.includes('The parts add up to')")
    heading = first_page.tab.get_by_role("heading", name="What adds to its logit").inner_text()
    assert heading.startswith(f"Why “{trace.steps[2].chosen.piece.replace('▁', '')}”?")
    sum_text = first_page.text("section[aria-label='What adds to the logit'] > p >> nth=0")
    assert f"{trace.account(2).sum:+.2f}" in sum_text
