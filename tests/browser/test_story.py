"""Tests that the story points at what it speaks of: in view, framed and explained, on a screen and on a telephone."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.reading import Page
from tests.browser.small import SENTENCE
from tests.browser.watched import WIDE, watch_tab
from tests.page.telling import Telling
from tests.variants import mark_others_slow

TELEPHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
ACCENT = (0x1F, 0x4E, 0x8C)  # on light paper
SPOKEN_OF = """() => {
    const panel = document.querySelector(".story-panel");
    const isBelow = panel.offsetWidth > 0.9 * innerWidth;
    const names = [...document.querySelectorAll("[data-subject]")].map((element) => element.dataset.subject);
    return { names, room: innerHeight - (isBelow ? panel.offsetHeight : 0) };
}"""


def list_subjects(telling: Telling) -> list[str]:
    """What each stop speaks of first."""
    encoder, cross = telling.encoder.section, telling.cross.section
    return [
        *("translation", "pieces", "encoder.embedding", "encoder.positions", f"{encoder}.q", f"{encoder}.products"),
        *(f"{encoder}.scores", "decoder.0.self.allowed", f"{encoder}.pattern", f"{encoder}.head_output"),
        *(encoder.replace("self", "ffn.active"), f"{cross}.pattern", "candidates", "beam"),
    ]


IS_IN_VIEW = """([subject, room]) => {
    const box = document.querySelector(`[data-subject="${subject}"]`)?.getBoundingClientRect();
    return box !== undefined && box.height > 30 && box.top >= 0 && box.bottom <= room
        && box.left >= 0 && box.right <= innerWidth;
}"""


@pytest.fixture(params=mark_others_slow({"1440x900": {"viewport": WIDE}, "390x844": TELEPHONE}, "390x844"))
def told(request: Any, browser: Any, home: str) -> Iterator[Page]:
    """A page at the first stop of the story, on a screen of each size."""
    with watch_tab(browser, home, **request.param) as watched_tab:
        yield Page(watched_tab).open(s=SENTENCE, n=1)


def test_what_a_stop_speaks_of_is_wholly_in_view_at_each_of_the_fourteen(told: Page, telling: Telling):
    for stop, subject in enumerate(list_subjects(telling), start=1):
        told.tab.get_by_role("region", name=f"Story, stop {stop} of 14").wait_for()
        told.settle()
        room = told.tab.evaluate(SPOKEN_OF)["room"]
        told.wait_until(IS_IN_VIEW, [subject, room])
        told.watched_tab.save_picture(f"told-{room}-{stop:02}")
        told.press("PageDown")


def test_the_row_spoken_of_is_framed_in_every_matrix_and_explained_below(page: Page, trace, telling: Telling):
    page.open(s=SENTENCE, n=8).press("PageDown").settle()
    query = telling.piece
    best = int(trace[f"{telling.encoder.section}.pattern"].values[telling.encoder.head, query].argmax())
    page.wait_until("place => location.hash.includes(place)", f"r={query}&c={best}")
    page.settle()
    row_of = dict.fromkeys(("x", "q", "products", "scores", "pattern", "head output"), query) | {"v": best}
    for label, row in row_of.items():
        rows, _ = page.sheet(label).find_outlines(ACCENT, away=5)
        assert row in rows, label
        assert rows <= {row, row + 1}, label
    for label in ("kᵀ", "products"):  # the column of the key meets the row of the query in their product
        _, cols = page.sheet(label).find_outlines(ACCENT, away=0)
        assert cols >= {best, best + 1}, label
    _, cols = page.sheet("W_Q").find_outlines(ACCENT, away=5)
    assert {1} <= cols <= {0, 1}  # the column that gives the first number of the query; its left line is at the edge
    piece = trace.source.pieces[query].replace("▁", "")
    assert f"“{piece}” (row {query}) reads" in page.text(".head-body")
    assert piece in page.text(".story-text")
    assert page.tab.locator(".sheet-subject .sheet-label").inner_text() == "pattern"


def test_in_the_decoder_the_framed_row_is_the_step_and_moves_with_it(page: Page):
    page.open(s=SENTENCE, n=7).press("PageDown").settle()
    assert page.link["a"] == "decoder.0.self"
    step = int(page.link["t"])
    rows, _ = page.sheet("may be read").find_outlines(ACCENT, away=0)
    assert rows == {step, step + 1}
    page.press(".").settle()
    rows, _ = page.sheet("may be read").find_outlines(ACCENT, away=0)
    assert rows == {step + 1, step + 2}


def test_row_and_column_of_a_link_are_honoured_and_a_picked_cell_changes_them_without_a_new_entry(page: Page, trace):
    page.open(s=SENTENCE, v="head", a="encoder.1.self", h=2, r=3, c=2).settle()
    assert "(row 3) reads" in page.text(".head-body")
    _, cols = page.sheet("kᵀ").find_outlines(ACCENT, away=5)
    assert cols == {2, 3}
    entries = page.tab.evaluate("history.length")
    page.sheet("pattern").cell.focus()
    page.press("ArrowDown")
    page.wait_until("() => location.hash.includes('r=1')")
    assert "(row 1) reads" in page.text(".head-body")
    assert page.tab.evaluate("history.length") == entries
    page.open(s=SENTENCE, v="head", a="decoder.1.cross", r=2).settle()
    page.wait_until("() => location.hash.includes('t=2')")
    assert "(row 2) reads" in page.text(".head-body")


def test_the_arrow_keys_go_through_the_numbers_of_a_vector_that_is_open(page: Page, trace):
    page.open(s=SENTENCE, v="cell", x="encoder.embedding", i="1.0").settle()
    page.tab.wait_for_selector('[data-cell="encoder.embedding 1.0"]')
    page.press("ArrowRight", "ArrowRight", "ArrowLeft")
    page.tab.wait_for_selector('[data-cell="encoder.embedding 1.1"] .cell-receipt')
    shown = page.tab.locator(".cell-receipt dd").first.inner_text()
    assert re.sub("−", "-", shown)[:5] == str(trace["encoder.embedding"].values[1, 1])[:5]
