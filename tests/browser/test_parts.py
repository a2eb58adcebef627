"""A text of several sentences: the page shows one of them, offers the others, and its links lead to each."""

from typing import Any

import pytest

from pellucid.interpret.trace.model_page import save_model_page
from tests.browser.reading import Page
from tests.browser.small import OTHER, SENTENCE
from tests.browser.test_computed_here import ALIKE, BY_SERVER, HERE, wait_for_line
from tests.browser.test_phone import FINGER, SMALL_TARGETS, STICKING_OUT
from tests.browser.watched import watch_tab

LINE = f"{SENTENCE} {OTHER} {SENTENCE}"
PARTS = [SENTENCE, OTHER, SENTENCE]


def list_parts(page: Page) -> tuple[list[str], list[int]]:
    """The parts that the page offers, and the numbers of those that are marked as shown."""
    buttons = page.tab.locator(".line-parts button")
    marked = [n for n, button in enumerate(buttons.all(), 1) if button.get_attribute("aria-current") == "true"]
    return buttons.all_inner_texts(), marked


def show_part(page: Page, number: int) -> None:
    page.tab.locator(".line-parts button").nth(number - 1).click()
    page.wait_until(
        "n => document.querySelectorAll('.line-parts button')[n - 1].getAttribute('aria-current') === 'true'", number
    ).settle()


def test_every_sentence_of_a_text_is_one_click_and_one_link_away(page: Page, model: Any):
    page.open(s=LINE).settle()
    assert page.text(".line-parts p") == "This text has 3 parts. Each is translated by itself:"
    assert list_parts(page) == (PARTS, [1])
    assert page.text(".translation") == model.translate(SENTENCE).text
    assert page.tab.locator("#pellucid-sentence").input_value() == LINE
    wait_for_line(page, BY_SERVER)

    show_part(page, 2)
    assert page.text(".translation") == model.translate(OTHER).text
    assert (page.link["s"], page.link["g"]) == (LINE, "2")
    page.tab.locator(".score button").click()
    assert "the line is translated in 3 parts; this is part 2" in page.text(".view-checks")
    show_part(page, 3)
    assert page.text(".translation") == model.translate(SENTENCE).text
    page.tab.go_back()
    page.wait_until("() => document.querySelectorAll('.line-parts button')[1].ariaCurrent === 'true'")
    assert page.link["g"] == "2"

    # A link that somebody else opens.
    page.open(s=LINE, g=3)
    page.wait_until("() => document.querySelectorAll('.line-parts button')[2]?.ariaCurrent === 'true'")
    assert list_parts(page) == (PARTS, [3])
    page.open(s=LINE, g=4)
    page.tab.wait_for_selector(".problem")
    assert "segment is 4, and the line has no such part; they are 1 to 3" in page.text(".problem")
    page.watched_tab.complaints.clear()  # the browser names the refusal
    page.open(s=OTHER)
    page.wait_until("() => !document.querySelector('.line-parts')")
    assert page.text(".translation") == model.translate(OTHER).text


def test_a_change_is_made_to_the_sentence_that_is_shown(page: Page, model: Any):
    page.open(s=LINE, g=2, v="output").settle()
    wait_for_line(page, ALIKE)
    page.tab.get_by_label("What if it had written").fill("Mi")
    page.press("Enter")
    wait_for_line(page, HERE)
    assert page.text(".translation").startswith("Mi")
    assert list_parts(page) == (PARTS, [2])
    assert (page.link["s"], page.link["g"]) == (LINE, "2")
    assert page.tab.locator(".problem").count() == 0


def test_on_a_telephone_the_row_is_no_wider_than_the_screen(browser: Any, home: str):
    screen = {"viewport": {"width": 320, "height": 844}, "has_touch": True, "is_mobile": True}
    with watch_tab(browser, home, **screen) as watched_tab:
        page = Page(watched_tab)
        page.open(s=LINE).settle()
        assert page.tab.evaluate(STICKING_OUT) == []
        assert page.tab.evaluate("() => document.documentElement.scrollWidth") == 320
        assert page.tab.evaluate(SMALL_TARGETS, FINGER) == []
        show_part(page, 2)
        page.watched_tab.save_picture("parts-phone")


@pytest.mark.slow  # tests/page/test_engine.py traces every part of a line
def test_a_file_with_the_model_shows_each_sentence_too(browser: Any, model: Any, tmp_path: Any):
    file = tmp_path / "model.html"
    save_model_page(model.trace(LINE), file)
    with watch_tab(browser, file.as_uri()) as watched_tab:
        page = Page(watched_tab)
        page.open().settle()
        assert list_parts(page) == (PARTS, [1])
        assert page.text(".translation") == model.translate(SENTENCE).text
        show_part(page, 2)
        assert page.text(".translation") == model.translate(OTHER).text
        show_part(page, 1)
        assert page.text(".translation") == model.translate(SENTENCE).text
        assert page.tab.evaluate("text => window.pellucid.translate(text).then(({text}) => text)", LINE) == (
            model.translate(LINE).text
        )


def test_a_saved_trace_names_the_sentence_that_it_holds(browser: Any, model: Any, tmp_path: Any):
    file = tmp_path / "trace.html"
    model.trace(LINE, segment=2).save_html(file)
    with watch_tab(browser, file.as_uri()) as watched_tab:
        page = Page(watched_tab)
        page.open().settle()
        assert list_parts(page) == (PARTS, [2])
        assert page.tab.locator(".line-parts button:enabled").count() == 0
