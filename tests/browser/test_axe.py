"""axe-core finds nothing to object to, in every view, on a screen and on a telephone."""

from pathlib import Path
from typing import Any

import pytest

from tests.browser.reading import VIEWS, Page
from tests.browser.small import SENTENCE
from tests.browser.test_access import show_view
from tests.browser.watched import WIDE, watch_tab
from tests.page.built import ROOT
from tests.variants import mark_others_slow

AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
"""Installed by npm for this test alone; no part of the page."""

WIDTHS = {
    "1440x900": {"viewport": WIDE},
    "390x844": {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True},
}
FIND = """async () => {
    const { violations } = await axe.run(document, { resultTypes: ["violations"] });
    return violations.flatMap(rule => rule.nodes.map(node => `${rule.id}: ${node.html.slice(0, 120)}`));
}"""


def read_axe() -> str:
    if not Path(AXE).is_file():
        pytest.skip("axe-core is not installed: `make page` installs it with what builds the page")
    return AXE.read_text(encoding="utf-8")


# In one theme: what the other changes are colours, and test_access.py measures the contrast of both.
@pytest.mark.parametrize("width", mark_others_slow({width: width for width in WIDTHS}, "1440x900"))
def test_axe_finds_nothing_in_any_view(browser: Any, home: str, width: str):
    script = read_axe()
    with watch_tab(browser, home, color_scheme="light", **WIDTHS[width]) as watched_tab:
        page = Page(watched_tab).open(s=SENTENCE, n=6)
        page.tab.evaluate(script)
        found = {view: show_view(page, view).tab.evaluate(FIND) for view in VIEWS}
        page.go(v="head", a="decoder.1.cross", m="teach", n=9).settle()
        found["teach"] = page.tab.evaluate(FIND)
        page.press("?")
        found["keys"] = page.tab.evaluate(FIND)
    assert {view: rules for view, rules in found.items() if rules} == {}


def test_axe_finds_a_button_without_a_name(page: Page):
    page.open(s=SENTENCE)
    page.tab.evaluate(read_axe())
    page.tab.evaluate("() => document.querySelector('.tabs').append(document.createElement('button'))")
    assert [problem for problem in page.tab.evaluate(FIND) if problem.startswith("button-name: <button")]


def test_a_keyboard_comes_to_the_picture_in_fewer_than_ten_stops_and_arrows_walk_within_a_row(page: Page):
    page.open(s=SENTENCE, v="output").settle()
    stops = 0
    while not page.tab.evaluate("() => document.activeElement.closest('main') !== null"):
        page.press("Tab")
        stops += 1
    assert stops < 10 + 1  # the last press is the arrival
    page.press("Shift+Tab")
    assert page.tab.evaluate("() => document.activeElement.innerText") == "Output"
    page.press("ArrowRight", "Enter")
    page.tab.wait_for_selector(".view-beam")
    page.press("Home", "Enter")
    page.tab.wait_for_selector(".view-map")
