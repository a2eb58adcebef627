"""Tests of the page on telephones: nothing wider than the screen, one row of tabs, targets that a finger meets."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.reading import VIEWS, Page
from tests.browser.small import SENTENCE
from tests.browser.watched import watch_tab

FINGER = 44
"""CSS pixels that a target has at least in both directions (WCAG 2.5.5)."""

STICKING_OUT = """() => [...document.querySelectorAll(".pellucid *")].filter((element) => {
    const box = element.getBoundingClientRect();
    if (!box.width || box.right <= screen.width + 1) return false;
    for (let outer = element.parentElement; outer; outer = outer.parentElement)
        if (getComputedStyle(outer).overflowX !== "visible") return false;
    return true;
}).map((element) => `${element.tagName}.${element.getAttribute("class")}`)"""
# Links and numbers in running text are left out: they may be as high as a line.
SMALL_TARGETS = """least => {
    const kinds = "button:not(.link, .operand, .bars-link), select, summary, a.button, input:not([type=checkbox])";
    return [...document.querySelectorAll(`.pellucid :is(${kinds})`)].map((element) => {
        const { width, height } = element.getBoundingClientRect();
        return { width, height, name: `${element.tagName}.${element.className}` };
    }).filter(({ width, height }) => width && height && Math.min(width, height) < least - 0.5);
}"""


@pytest.fixture(scope="module", params=[320, pytest.param(390, marks=pytest.mark.slow)])
def telephone(request: Any, browser: Any, home: str) -> Iterator[Page]:
    """A page at the first stop of the story, on a telephone of each width; the second test walks through its views."""
    screen = {"viewport": {"width": request.param, "height": 844}, "has_touch": True, "is_mobile": True}
    with watch_tab(browser, home, **screen) as watched_tab:
        yield Page(watched_tab).open(s=SENTENCE, n=1)


def test_the_translate_button_is_whole_and_the_tabs_stand_in_one_row(telephone: Page):
    width = telephone.tab.viewport_size["width"]
    box = telephone.tab.get_by_role("button", name="Translate").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    tops = {tab.bounding_box()["y"] for tab in telephone.tab.locator(".tabs button").all()}
    assert len(tops) == 1
    story = telephone.tab.locator(".story-panel").bounding_box()
    assert story["y"] + story["height"] == pytest.approx(844, abs=1)  # at the lower edge


def test_nothing_is_wider_than_the_screen_and_every_target_fits_a_finger(telephone: Page):
    width = telephone.tab.viewport_size["width"]
    places = {view: {} for view in VIEWS}
    places |= {"head": {"a": "decoder.1.cross"}, "block": {"a": "encoder.0.self"}}
    places |= {"cell": {"x": "encoder.0.self.products", "i": "0.1.0"}}
    for view, fields in places.items():
        telephone.go(v=view, n=1, **fields)
        telephone.wait_until("view => document.querySelector(`.view-${view}`)", view).settle()
        assert telephone.tab.evaluate(STICKING_OUT) == [], view
        assert telephone.tab.evaluate("() => document.documentElement.scrollWidth") == width, view
        assert telephone.tab.evaluate(SMALL_TARGETS, FINGER) == [], view
