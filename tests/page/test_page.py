"""The whole page in Chromium, opened from one file: words, numbers and keys, and a name for every control."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.page.browser import open_tab
from tests.trace.traced import small_traced

VIEWS = ["map", "tokens", "positions", "words", "heads", "output", "beam", "align", "compare", "claims"]
VIEWS += ["training", "debug", "checks", "export"]
SECTION = "decoder.1.cross"
HOSTILE = "The ball </script><img src=x onerror=document.title='owned'> is blue."


@pytest.fixture(scope="module")
def trace() -> Any:
    return small_traced(tie="all").trace(HOSTILE, beam=3)


@pytest.fixture(scope="module")
def tab(trace: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    file = tmp_path_factory.mktemp("page") / "trace.html"
    trace.save_html(file, keep="float32")
    with open_tab(viewport={"width": 1440, "height": 900}) as tab:
        tab.goto(Path(file).as_uri())
        tab.wait_for_selector(".scrubber")
        yield tab


def go_to(tab: Any, fragment: str) -> None:
    """Go to a place of the page, so that nothing is left over from the test before."""
    tab.evaluate("fragment => { location.hash = fragment }", fragment)
    tab.wait_for_timeout(120)


def test_a_hostile_sentence_is_shown_as_text_and_does_not_run(tab: Any, trace: Any):
    assert tab.inner_text(".asked") == trace.source.text
    assert tab.title() != "owned"
    assert tab.locator(".pellucid img").count() == 0
    pieces = tab.locator(".side section").first.locator("button").all_inner_texts()
    assert [text.strip() for text in pieces] == [piece.strip() for piece in trace.source.pieces]


def test_the_tables_of_a_head_hold_every_number_of_numpy(tab: Any, trace: Any):
    go_to(tab, f"v=head&a={SECTION}&h=1")
    tab.wait_for_selector(".sheet-canvas")
    tab.keyboard.press("t")
    tab.wait_for_selector(".sheet-table")
    tables = [
        [[float(cell.replace("−", "-")) for cell in row] for row in table]
        for table in tab.evaluate(
            """() => [...document.querySelectorAll('.sheet-table table')].map(table =>
                [...table.querySelectorAll('tbody tr')].map(row =>
                    [...row.querySelectorAll('td')].map(cell => cell.innerText)))"""
        )
    ]
    tab.keyboard.press("t")
    assert sum(len(row) for table in tables for row in table) >= 200
    expected = [
        (name, trace.tensor(f"{SECTION}.{name}")[1])
        for name in ("q", "k", "products", "scores", "pattern", "v", "head_output")
    ]
    arrays = [np.array(table, dtype=np.float32) for table in tables]
    for name, values in expected:
        # The keys stand with a column for each position, so that they meet the rows of the queries.
        drawn = values.T if name == "k" else values
        assert any(np.array_equal(array, drawn) for array in arrays), name


def test_the_focused_cell_is_described_in_a_sentence_and_arrow_keys_move_it(tab: Any, trace: Any):
    go_to(tab, f"v=head&a={SECTION}&h=0")
    grid = tab.locator("figure:has(.sheet-label:text-is('pattern')) [role=gridcell]")
    grid.focus()
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("ArrowRight")
    label = grid.get_attribute("aria-label")
    values = trace.tensor(f"{SECTION}.pattern")[0]
    match = re.fullmatch(
        r"row (.+), column (.+), value ([\d.e−]+), (?:(\d+)\w\w )?largest of (\d+), masked none", label
    )
    assert match, label
    assert match[1] == trace.inputs.pieces[1]
    assert match[2] == trace.source.pieces[1]
    assert np.float32(match[3].replace("−", "-")) == values[1, 1]
    assert int(match[4] or 1) == 1 + (values[1] > values[1, 1]).sum()
    assert int(match[5]) == len(values[1])


def test_enter_opens_a_number_and_escape_goes_back(tab: Any):
    go_to(tab, "v=map")
    go_to(tab, f"v=head&a={SECTION}&h=0")
    grid = tab.locator("figure:has(.sheet-label:text-is('scores')) [role=gridcell]")
    grid.focus()
    tab.keyboard.press("Enter")
    tab.wait_for_selector(".view-cell")
    assert f"x={SECTION}.scores" in tab.evaluate("location.hash")
    assert "✓" in tab.inner_text(".view-cell")
    tab.keyboard.press("Escape")
    tab.wait_for_selector(".view-head")
    tab.keyboard.press("Escape")
    tab.wait_for_selector(".view-map")


def test_a_followed_piece_is_marked_and_escape_unfollows_it(tab: Any):
    go_to(tab, f"v=head&a={SECTION}&h=1")
    button = tab.locator(".side section").first.locator("button").nth(1)
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    assert "▸" in button.inner_text()
    assert "f=S1" in tab.evaluate("location.hash")
    tab.keyboard.press("Escape")
    assert button.get_attribute("aria-pressed") == "false"
    assert tab.locator(".view-head").count() == 1


def test_steps_modes_and_help_have_keys(tab: Any, trace: Any):
    go_to(tab, "v=map")
    tab.locator("h2").first.click()
    tab.keyboard.press(".")
    assert tab.locator("[aria-current=step]").inner_text().strip() == trace.steps[1].chosen.piece
    tab.keyboard.press(",")
    assert tab.locator("[aria-current=step]").inner_text().strip() == trace.steps[0].chosen.piece
    tab.keyboard.press("p")
    assert tab.evaluate("getComputedStyle(document.querySelector('.pellucid')).fontSize") == "22px"
    tab.keyboard.press(" ")
    assert tab.get_by_role("button", name="Show values").count() == 1
    tab.keyboard.press(" ")
    tab.keyboard.press("p")
    tab.keyboard.press("?")
    assert tab.get_by_role("dialog", name="Keys").is_visible()
    tab.keyboard.press("Escape")
    assert tab.get_by_role("dialog").count() == 0


@pytest.mark.slow  # so does tests/browser/test_phone.py, on the narrowest screen
def test_every_view_fits_its_width(tab: Any):
    fragments = [f"v={view}" for view in VIEWS]
    fragments += [f"v=block&a={SECTION}", f"v=head&a={SECTION}&h=1", f"v=cell&x={SECTION}.scores&i=1.0.0", "v=map&n=7"]
    problems = []
    for fragment in fragments:
        go_to(tab, fragment)
        for width in (900, 1440):
            tab.set_viewport_size({"width": width, "height": 900})
            page_width = tab.evaluate("document.documentElement.scrollWidth")
            problems += [f"{fragment}: {page_width} pixels across of {width}"] if page_width > width else []
    assert problems == []
