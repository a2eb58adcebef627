"""Tests of the play: pieces appear in order, what is read lights up, matrices fill, and motion can be left out."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.reading import Page
from tests.browser.small import SENTENCE
from tests.browser.watched import watch_tab

WRITTEN = "() => [...document.querySelectorAll('.step-line li')].slice(1).map(item => Number(item.style.opacity || 1))"
LIGHTS = "() => [...document.querySelectorAll('.side .reading-light')].map(light => Number(light.style.opacity))"
MARKS = """() => [...document.querySelectorAll('[data-stack=decoder] .head-row-mark')].map(mark =>
    Math.round(1000 * parseFloat(mark.style.top) / parseFloat(mark.style.height)) / 1000)"""
SCRUB = """(place) => {
    const input = document.querySelector('.play-track input');
    input.value = place;
    input.dispatchEvent(new Event('input', { bubbles: true }));
}"""
FILLED = """figure => {
    const canvas = figure.querySelector('canvas'), ratio = canvas.width / canvas.clientWidth;
    const cell = figure.querySelector('[role=gridcell]');
    const [left, top, width, height] = ['left', 'top', 'width', 'height'].map(side => parseFloat(cell.style[side]));
    const row0 = Number(cell.parentElement.getAttribute('aria-rowindex')) - 1;
    const grid = figure.querySelector('[role=grid]');
    const [rows, cols] = ['rowcount', 'colcount'].map(name => Number(grid.getAttribute(`aria-${name}`)));
    const pen = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', { willReadFrequently: true });
    pen.drawImage(canvas, 0, 0);
    const isEmpty = (row, col) => pen.getImageData(Math.round((left + (col + 0.2) * width) * ratio),
        Math.round((top + (row - row0 + 0.9) * height) * ratio), 1, 1).data.slice(0, 3).every(part => part === 255);
    return Array.from({ length: rows }, (_, row) => Array.from({ length: cols }, (_, col) => isEmpty(row, col) ? 0 : 1)
        .reduce((sum, filled) => sum + filled));
}"""


@pytest.fixture
def moving(browser: Any, home: str) -> Iterator[Page]:
    """A page of a reader who wants to see motion."""
    with watch_tab(browser, home, reduced_motion="no-preference") as watched_tab:
        yield Page(watched_tab)


def test_a_play_writes_the_pieces_in_order_lights_what_is_read_and_moves_the_frame_in_every_head(moving: Page, trace):
    moving.open(s=SENTENCE, v="map").settle()
    moving.press("k")
    moving.wait_until("() => location.hash.includes('t=1')")
    moving.press("k")  # pause
    assert moving.tab.locator(".play-button").inner_text().endswith("Play")
    moving.tab.evaluate(SCRUB, 2.35)  # the third step, which has been read but not been written
    moving.wait_until("() => location.hash.includes('t=2')")
    assert moving.tab.evaluate(WRITTEN) == [1, 1] + [0] * (len(trace.steps) - 2)
    mean = trace["decoder.2.cross.pattern"].values[:, 2].mean(axis=0)
    assert moving.tab.evaluate(LIGHTS) == pytest.approx((mean / mean.max()).tolist(), abs=0.002)
    marks = moving.tab.evaluate(MARKS)
    assert len(marks) == 3 * 2 * 4
    assert set(marks) == {2.0}
    moving.watched_tab.save_picture("play")
    moving.press(".")
    moving.wait_until("() => location.hash.includes('t=3')")
    assert moving.tab.evaluate(WRITTEN) == [1] * 4 + [0] * (len(trace.steps) - 4)
    moving.tab.get_by_role("button", name="End the play").click()
    assert moving.tab.evaluate(WRITTEN) == [1] * len(trace.steps)


LINE = """() => {
    const halves = [...document.querySelectorAll(".play-line path")];
    const origin = document.querySelector(".play-line").getBoundingClientRect();
    const pointOf = (path, share) => {
        const { x, y } = path.getPointAtLength(share * path.getTotalLength());
        return [x + origin.left, y + origin.top];
    };
    const isIn = ([x, y], element) => {
        const box = element.getBoundingClientRect();
        return x >= box.left - 1 && x <= box.right + 1 && y >= box.top - 1 && y <= box.bottom + 1;
    };
    const find = (point, selector) => [...document.querySelectorAll(selector)].findIndex((each) => isIn(point, each));
    return {
        piece: find(pointOf(halves[0], 0), "[data-pieces=S] > .piece-chip"),
        head: find(pointOf(halves[0], 1), "[data-block='decoder.2.cross'] .head-face"),
        same: find(pointOf(halves[1], 0), "[data-block='decoder.2.cross'] .head-face"),
        bar: find(pointOf(halves[1], 1), ".map-candidates > .current-step .map-track"),
        drawn: halves.map((half) => 1 - Number(half.getAttribute("stroke-dashoffset"))),
    };
}"""


def test_one_line_runs_from_the_piece_that_is_read_through_a_head_to_the_bar_that_grows(moving: Page, trace):
    moving.open(s=SENTENCE, v="map").settle()
    tabs = moving.tab.locator(".tabs").bounding_box()["y"]
    moving.press("k", "k")
    moving.tab.evaluate(SCRUB, 3.9)
    moving.wait_until("() => location.hash.includes('t=3')")
    line = moving.tab.evaluate(LINE)
    weights = trace["decoder.2.cross.pattern"].values[:, 3]
    assert line["piece"] == int(weights.mean(axis=0).argmax())
    assert line["head"] == line["same"] >= 0
    assert line["bar"] == 0
    assert line["drawn"] == [1, 1]
    moving.tab.evaluate(SCRUB, 3.15)  # half of what is read
    first, second = moving.tab.evaluate(LINE)["drawn"]
    assert 0 < first < 1
    assert second == 0
    assert moving.tab.locator(".tabs").bounding_box()["y"] - tabs < 3  # nothing is pushed down
    moving.tab.get_by_role("button", name="End the play").click()
    assert moving.tab.locator(".play-line").count() == 0


@pytest.mark.slow  # web/test/play.test.ts fills the cells of a row one by one
def test_an_open_product_fills_cell_by_cell(moving: Page, trace):
    moving.open(s=SENTENCE, v="head", a="decoder.1.cross", h=1).settle()
    moving.press("k", "k")
    figure = moving.sheet("products").figure
    keys = len(trace.source.pieces)
    counts = []
    for place in (3.1, 3.2, 3.3, 3.4, 3.6):
        moving.tab.evaluate(SCRUB, place)
        moving.tab.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        rows = figure.evaluate(FILLED)
        assert rows[:3] == [keys] * 3
        assert rows[4:] == [0] * (len(rows) - 4)
        counts.append(rows[3])
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (0, keys)
    assert len(set(counts)) >= 4


@pytest.mark.slow  # web/test/play.test.ts plays to the end
def test_a_play_reaches_the_end_by_itself_and_without_motion_it_goes_from_step_to_step(page: Page, trace):
    page.open(s=SENTENCE, v="map", t=len(trace.steps) - 2).settle()  # this reader asks for no motion
    page.press("k")
    seen = set()
    while page.tab.locator(".play-button").inner_text().endswith("Pause"):
        seen |= set(page.tab.evaluate(WRITTEN)) | {page.tab.evaluate(MARKS)[0]}
    assert seen <= {0, 1, len(trace.steps) - 2, len(trace.steps) - 1}  # nothing stands between two steps
    assert page.link["t"] == str(len(trace.steps) - 1)
