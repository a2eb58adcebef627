"""Tests that the story fits its window at every stop, and that each number of its text frames its cell."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.reading import Page
from tests.browser.small import SENTENCE
from tests.browser.watched import watch_tab
from tests.variants import mark_others_slow

SCREENS: dict[str, dict[str, Any]] = {
    **{
        f"{width}x{height}": {"viewport": {"width": width, "height": height}}
        for width, height in [(1440, 900), (1366, 768), (1280, 720)]
    },
    **{
        f"{width}x{height}": {"viewport": {"width": width, "height": height}, "has_touch": True, "is_mobile": True}
        for width, height in [(390, 844), (320, 640)]
    },
}
# A formula may lie below the fold of the text, which scrolls, but must fit into what scrolls, and may not be squeezed.
CLIPPED = """() => {
    const body = document.querySelector(".story-body");
    return [...body.querySelectorAll(".formula, .story-text, .source-line, .story-try")].filter((part) =>
        part.scrollHeight > part.clientHeight + 2 || (part.matches(".formula") && part.offsetHeight > body.clientHeight)
    ).map((part) => part.className);
}"""
NEXT_IS_IN_VIEW = """() => {
    const next = document.querySelector(".story-next").getBoundingClientRect();
    const panel = document.querySelector(".story-panel").getBoundingClientRect();
    return next.top >= panel.top && next.bottom <= Math.min(innerHeight, panel.bottom);
}"""
NUMBERS = """() => [...document.querySelectorAll(".story-text .value-shown")]
    .filter((value) => /^[−\\d.e∞]+$/.test(value.innerText))
    .map((value) => value.closest(".spot-link")?.dataset.names ?? "no link")"""
IS_FRAMED = """(spot) => {
    const panel = document.querySelector(".story-panel").getBoundingClientRect();
    const room = panel.width > 0.9 * innerWidth ? panel.top : innerHeight;
    return [...document.querySelectorAll("[data-spoken]")].some((cell) => {
        if (cell.dataset.spoken !== spot) return false;
        const box = cell.getBoundingClientRect();
        const isInside = (frame) => {
            const outer = frame?.getBoundingClientRect();
            return !outer || (box.right > outer.left && box.left < outer.right
                && box.top >= outer.top - 3 && box.bottom <= outer.bottom + 3);
        };
        const line = getComputedStyle(cell);
        return box.width > 0 && box.top >= 0 && box.bottom <= room && box.right > 0 && box.left < innerWidth
            && isInside(cell.closest(".sheet-frame")) && isInside(cell.closest(".product"))
            && line.outlineStyle === "solid" && parseFloat(line.outlineWidth) >= 3;
    });
}"""


@pytest.fixture(scope="module", params=mark_others_slow(SCREENS, "1280x720", "320x640"))
def told(request: Any, browser: Any, home: str) -> Iterator[Page]:
    """A page at the first stop of the story, on a screen of each size."""
    with watch_tab(browser, home, **request.param) as watched_tab:
        yield Page(watched_tab).open(s=SENTENCE, n=1)


def visit(told: Page, stop: int) -> None:
    """Go to a stop, and wait until its text and its picture stand."""
    told.tab.evaluate("stop => document.querySelector(`.story-stops [aria-label^='Stop ${stop}:']`).click()", stop)
    told.tab.get_by_role("region", name=f"Story, stop {stop} of 14").wait_for()
    told.wait_until("() => document.querySelector('.story-text')?.innerText.trim().length > 20").settle()


@pytest.mark.parametrize("stop", range(1, 15))
def test_no_formula_is_clipped_and_next_is_in_view(told: Page, stop: int):
    visit(told, stop)
    assert told.tab.evaluate(CLIPPED) == []
    told.wait_until(NEXT_IS_IN_VIEW)


COVERED = """() => {
    const panel = document.querySelector(".story-panel").getBoundingClientRect();
    const tops = [...document.querySelectorAll(".story-panel > :is(header, nav) > button")]
        .map((button) => button.getBoundingClientRect().top);
    const text = document.querySelector(".story-body").clientHeight;
    return [innerWidth < 800, panel.height / innerHeight, text / panel.height, new Set(tops).size];
}"""


def test_on_a_telephone_the_picture_has_three_fifths_of_the_screen(told: Page):
    visit(told, 6)
    is_telephone, of_screen, of_panel, rows_of_buttons = told.tab.evaluate(COVERED)
    if is_telephone:
        assert of_screen <= 0.385
        assert of_panel > 0.75
        assert rows_of_buttons == 1


@pytest.mark.parametrize("stop", range(2, 15))  # the first names no number of a picture
def test_each_number_of_the_text_frames_its_cell(told: Page, stop: int):
    visit(told, stop)
    spots = told.tab.evaluate(NUMBERS)
    assert spots
    assert "no link" not in spots
    for spot in spots:
        told.tab.evaluate("spot => document.querySelector(`[data-names='${spot}']`).click()", spot)
        told.wait_until(IS_FRAMED, spot)
        if told.tab.get_by_role("button", name="Show this stop again").count():
            visit(told, 1)  # the number stands in another picture
            visit(told, stop)


def test_a_number_is_reached_and_opened_by_keyboard(told: Page):
    visit(told, 9)
    link = told.tab.locator(".spot-link").last
    link.focus()
    told.press("Enter")
    told.wait_until(IS_FRAMED, link.get_attribute("data-names"))
    assert link.get_attribute("aria-pressed") == "true"
    assert link.evaluate("link => link === document.activeElement")
