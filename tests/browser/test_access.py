"""For everybody: what a screen reader finds in the browser's own tree, and letters that stand out from their paper."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.browser.reading import VIEWS, Page, number
from tests.browser.small import SENTENCE

CONTRAST = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")
CROSS = "decoder.1.cross"
CONTROLS = {
    *("button", "link", "textbox", "searchbox", "combobox", "listbox", "checkbox", "radio", "slider", "spinbutton"),
    *("switch", "tab", "menuitem", "gridcell", "grid", "PopUpButton", "img", "image", "table", "region", "navigation"),
}


def shown(page: Page, view: str) -> Page:
    """One picture, settled."""
    place = {"x": f"{CROSS}.scores", "i": "1.3.2"} if view == "cell" else {"a": CROSS, "h": 1}
    page.go(v=view, t=3, f="S2", **place)
    return page.until("view => document.querySelector(`.view-${view}`)", view).settled()


def accessible(page: Page) -> list[dict[str, Any]]:
    """The nodes that Chromium tells assistive software of."""
    session = page.tab.context.new_cdp_session(page.tab)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    session.detach()
    return [node for node in nodes if not node["ignored"]]


def told(node: dict[str, Any], field: str) -> str:
    return str(node.get(field, {}).get("value", ""))


def test_every_control_has_a_name(page: Page):
    page.open(s=SENTENCE, n=6)
    kinds = set()
    for view in VIEWS:
        nodes = [node for node in accessible(shown(page, view)) if told(node, "role") in CONTROLS]
        nameless = [node for node in nodes if not told(node, "name").strip()]
        assert [(view, told(node, "role"), node["backendDOMNodeId"]) for node in nameless] == []
        assert len(nodes) > 30, view
        kinds |= {told(node, "role") for node in nodes}
    assert {"button", "textbox", "combobox", "gridcell", "slider"} <= kinds
    page.press("?")
    page.tab.get_by_role("dialog").wait_for()
    assert all(told(node, "name").strip() for node in accessible(page) if told(node, "role") in {*CONTROLS, "dialog"})


def test_buttons_that_do_different_things_have_different_names(page: Page):
    page.open(s=SENTENCE)
    for view in ("map", "head", "beam"):
        names = [told(node, "name") for node in accessible(shown(page, view)) if told(node, "role") == "button"]
        openers = [name for name in names if name.endswith(": open")]
        assert sorted(openers) == sorted(set(openers)), view


def test_the_focused_cell_is_told_in_a_sentence(page: Page, trace):
    page.open(s=SENTENCE, v="head", a=CROSS, h=1).settled()
    sheet = page.sheet("pattern")
    sheet.cell.focus()
    page.press("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight")
    values = trace[f"{CROSS}.pattern"].values[1]
    page.until("() => document.activeElement.getAttribute('aria-colindex') === '4'")
    [focused] = [node for node in accessible(page) if focus(node)]
    assert told(focused, "role") == "gridcell"
    sentence = r"row (.+), column (.+), value (\S+), (\S*) ?largest of (\d+), masked (\S+)"
    [(row, column, value, place, total, hidden)] = re.findall(sentence, told(focused, "name"))
    assert (row, column) == (trace.inputs.pieces[2], trace.source.pieces[3])
    assert number(value) == values[2, 3]
    rank = int((values[2] > values[2, 3]).sum()) + 1
    assert place == {1: "", 2: "2nd", 3: "3rd"}.get(rank, f"{rank}th")
    assert (int(total), hidden) == (len(values[2]), "none")
    live = sheet.figure.locator("[aria-live=polite]").inner_text()
    assert live == told(focused, "name")
    assert [node for node in accessible(page) if told(node, "name") == "pattern" and told(node, "role") == "grid"]


def focus(node: dict[str, Any]) -> bool:
    if told(node, "role") == "RootWebArea":
        return False
    return any(each["name"] == "focused" and each["value"]["value"] for each in node.get("properties", []))


def test_masked_cells_are_told_as_masked(page: Page):
    page.open(s=SENTENCE, v="head", a="decoder.0.self", h=0).settled()
    sheet = page.sheet("pattern")
    sheet.cell.focus()
    page.press("End")
    page.until("() => document.activeElement.getAttribute('aria-label').endsWith(', masked')")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_all_text_stands_out_from_its_paper(page: Page, theme):
    page.tab.emulate_media(color_scheme=theme)
    page.open(s=SENTENCE, n=9)
    faint = {}
    for view in VIEWS:
        found = shown(page, view).tab.evaluate(CONTRAST)
        assert found["looked"] > 40, view
        faint[view] = found["found"]
        page.watched.picture(f"{view}-{theme}")
    assert {view: found for view, found in faint.items() if found} == {}


def test_text_stands_out_before_the_first_sentence_in_the_list_of_keys_and_on_a_wall(page: Page):
    page.tab.goto(page.watched.home)
    page.tab.get_by_role("heading", name="See every number").wait_for()
    assert page.tab.evaluate(CONTRAST)["found"] == []
    page.open(s=SENTENCE, m="teach", n=10, v="head", a=CROSS).settled()
    page.press("Space")
    page.until("() => document.querySelector('.centre').innerText.includes('hidden')")
    assert page.tab.evaluate(CONTRAST)["found"] == []
    page.press("?")
    page.tab.get_by_role("dialog").wait_for()
    assert page.tab.evaluate(CONTRAST)["found"] == []
    page.watched.picture("teach")


def test_faint_text_would_be_found(page: Page):
    page.open(s=SENTENCE)
    page.tab.evaluate("() => { document.querySelector('.translation').style.color = '#999' }")
    [found] = page.tab.evaluate(CONTRAST)["found"]
    assert re.search(r"translation>: 2\.\d\d$", found), found
