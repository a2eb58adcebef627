"""Accessibility: what a screen reader gets from the browser's own tree, and the contrast of all text."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.browser.reading import VIEWS, Page, parse_number
from tests.browser.small import SENTENCE
from tests.browser.watched import watch_tab

CONTRAST = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")
CROSS = "decoder.1.cross"
CONTROLS = {
    *("button", "link", "textbox", "searchbox", "combobox", "listbox", "checkbox", "radio", "slider", "spinbutton"),
    *("switch", "tab", "menuitem", "gridcell", "grid", "PopUpButton", "img", "image", "table", "region", "navigation"),
}


def show_view(page: Page, view: str) -> Page:
    """Open one view and wait until it is drawn."""
    fields = {"x": f"{CROSS}.scores", "i": "1.3.2"} if view == "cell" else {"a": CROSS, "h": 1}
    page.go(v=view, t=3, f="S2", **fields)
    return page.wait_until("view => document.querySelector(`.view-${view}`)", view).settle()


def accessible_nodes(page: Page) -> list[dict[str, Any]]:
    """The nodes that Chromium shows to assistive software."""
    session = page.tab.context.new_cdp_session(page.tab)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    session.detach()
    return [node for node in nodes if not node["ignored"]]


def node_field(node: dict[str, Any], field: str) -> str:
    return str(node.get(field, {}).get("value", ""))


@dataclass
class Seen:
    """What assistive software gets of a view, and a report of its contrast in each theme."""

    nodes: list[dict[str, Any]]
    contrast: dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def seen(browser: Any, home: str) -> dict[str, Seen]:
    """Walk once through all views, and the list of keys at the end."""
    views = {}
    with watch_tab(browser, home) as watched_tab:
        page = Page(watched_tab).open(s=SENTENCE, n=9)
        for view in VIEWS:
            nodes, contrast = accessible_nodes(show_view(page, view)), {}
            for theme in ("light", "dark"):
                page.tab.emulate_media(color_scheme=theme)
                contrast[theme] = page.settle().tab.evaluate(CONTRAST)
                watched_tab.save_picture(f"{view}-{theme}")
            views[view] = Seen(nodes, contrast)
        page.press("?")
        page.tab.get_by_role("dialog").wait_for()
        return {**views, "keys": Seen(accessible_nodes(page), {})}


def test_every_control_has_a_name(seen: dict[str, Seen]):
    kinds = set()
    for view in VIEWS:
        nodes = [node for node in seen[view].nodes if node_field(node, "role") in CONTROLS]
        nameless = [node for node in nodes if not node_field(node, "name").strip()]
        assert [(view, node_field(node, "role"), node["backendDOMNodeId"]) for node in nameless] == []
        assert len(nodes) > 30, view
        kinds |= {node_field(node, "role") for node in nodes}
    assert {"button", "textbox", "combobox", "gridcell", "slider"} <= kinds
    assert all(
        node_field(node, "name").strip()
        for node in seen["keys"].nodes
        if node_field(node, "role") in {*CONTROLS, "dialog"}
    )


def test_buttons_that_do_different_things_have_different_names(page: Page):
    page.open(s=SENTENCE)
    for view in ("map", "head", "beam"):
        names = [
            node_field(node, "name")
            for node in accessible_nodes(show_view(page, view))
            if node_field(node, "role") == "button"
        ]
        openers = [name for name in names if name.endswith(": open")]
        assert sorted(openers) == sorted(set(openers)), view


def test_the_focused_cell_is_described_in_a_sentence(page: Page, trace):
    page.open(s=SENTENCE, v="head", a=CROSS, h=1).settle()
    sheet = page.sheet("pattern")
    sheet.cell.focus()
    page.press("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight")
    values = trace[f"{CROSS}.pattern"].values[1]
    page.wait_until("() => document.activeElement.getAttribute('aria-colindex') === '4'")
    [focused] = [node for node in accessible_nodes(page) if has_focus(node)]
    assert node_field(focused, "role") == "gridcell"
    sentence = r"row (.+), column (.+), value (\S+), (\S*) ?largest of (\d+), masked (\S+)"
    [(row, column, value, rank_text, total, hidden)] = re.findall(sentence, node_field(focused, "name"))
    assert (row, column) == (trace.inputs.pieces[2], trace.source.pieces[3])
    assert parse_number(value) == values[2, 3]
    rank = int((values[2] > values[2, 3]).sum()) + 1
    assert rank_text == {1: "", 2: "2nd", 3: "3rd"}.get(rank, f"{rank}th")
    assert (int(total), hidden) == (len(values[2]), "none")
    live = sheet.figure.locator("[aria-live=polite]").inner_text()
    assert live == node_field(focused, "name")
    assert [
        node
        for node in accessible_nodes(page)
        if node_field(node, "name") == "pattern" and node_field(node, "role") == "grid"
    ]


def has_focus(node: dict[str, Any]) -> bool:
    if node_field(node, "role") == "RootWebArea":
        return False
    return any(state["name"] == "focused" and state["value"]["value"] for state in node.get("properties", []))


def test_masked_cells_are_described_as_masked(page: Page):
    page.open(s=SENTENCE, v="head", a="decoder.0.self", h=0).settle()
    sheet = page.sheet("pattern")
    sheet.cell.focus()
    page.press("End")
    page.wait_until("() => document.activeElement.getAttribute('aria-label').endsWith(', masked')")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_all_text_has_enough_contrast(seen: dict[str, Seen], theme: str):
    reports = {view: seen[view].contrast[theme] for view in VIEWS}
    assert all(report["looked"] > 40 for report in reports.values())
    assert {view: report["found"] for view, report in reports.items() if report["found"]} == {}


def test_text_has_enough_contrast_before_the_first_sentence_in_the_list_of_keys_and_when_teaching(page: Page):
    page.tab.goto(page.watched_tab.home)
    page.tab.get_by_role("heading", name="See every number").wait_for()
    assert page.tab.evaluate(CONTRAST)["found"] == []
    page.open(s=SENTENCE, m="teach", n=10, v="head", a=CROSS).settle()
    page.press("Escape", "Space")  # out of the box, which has the focus when the page opens without a link
    page.wait_until("() => document.querySelector('.centre').innerText.includes('hidden')")
    assert page.tab.evaluate(CONTRAST)["found"] == []
    page.press("?")
    page.tab.get_by_role("dialog").wait_for()
    assert page.tab.evaluate(CONTRAST)["found"] == []
    page.watched_tab.save_picture("teach")


def test_text_with_too_little_contrast_is_found(page: Page):
    page.open(s=SENTENCE)
    page.tab.evaluate("() => { document.querySelector('.score').style.color = '#999' }")
    first, *others = page.tab.evaluate(CONTRAST)["found"]
    assert re.search(r"score>: 2\.\d\d$", first), first
    # The numbers in it, which have a mark of their own, are found too.
    assert all(re.search(r"<SPAN >: 2\.\d\d$", other) for other in others), others


def test_a_keyboard_reaches_the_picture_by_a_link_and_each_view_by_a_digit(page: Page):
    page.open(s=SENTENCE, v="map").settle()
    page.press("Tab")
    assert page.tab.evaluate("() => document.activeElement.innerText") == "Skip to the picture"
    page.press("Enter")
    assert page.tab.evaluate("() => document.activeElement.tagName") == "MAIN"
    views = ("map", "tokens", "positions", "words", "heads", "output", "beam", "align", "compare")
    for digit, view in enumerate(views, start=1):
        page.press(str(digit))
        page.tab.wait_for_selector(f".view-{view}")
        assert page.tab.locator("h1").count() == 1, view
