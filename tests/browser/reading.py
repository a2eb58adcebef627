"""The page as a user sees and uses it: open a view, press keys, read numbers and pixels."""

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, urlencode

import numpy as np

from tests.browser.watched import WatchedTab

VIEWS = (
    *("map", "block", "head", "cell", "tokens", "positions", "words", "output", "beam", "heads", "align", "compare"),
    *("claims", "training", "debug", "checks", "export"),
)
"""The names of all views, as they stand in links."""

NUMBER = re.compile(r"[−-]?(?:\d+\.?\d*(?:e[−-]?\d+)?|∞)|NaN")


IS_COMPLETE = """() => !document.querySelector(".sheet.waiting, .thumbnail.waiting")
    && !/Fetching the numbers|being made…/.test(document.body.innerText)"""


class Page:
    """A tab with the page in it."""

    def __init__(self, watched_tab: WatchedTab):
        self.watched_tab = watched_tab
        self.tab = watched_tab.tab

    def open(self, **fields: object) -> "Page":
        """Open the page at a place; the fields are those of a link: s the sentence, v the view."""
        self.tab.goto(f"{self.watched_tab.home}#{urlencode(fields)}")
        self.tab.wait_for_selector(".centre .view")
        return self

    def go(self, **fields: object) -> "Page":
        """Go to another place of the trace that is shown."""
        self.tab.evaluate("fragment => { location.hash = fragment }", urlencode(fields))
        return self

    def open_cell(self, name: str, index: Sequence[int]) -> "Page":
        """Open one number of a tensor, and wait until the page has recomputed it."""
        joined_index = ".".join(map(str, index))
        self.go(v="cell", x=name, i=joined_index)
        self.tab.wait_for_selector(f'[data-cell="{name} {joined_index}"] .cell-receipt strong')
        return self

    def press(self, *keys: str) -> "Page":
        for key in keys:
            self.tab.keyboard.press(key)
        return self

    @property
    def link(self) -> Mapping[str, str]:
        """The fields of the address behind its #."""
        return {name: values[0] for name, values in parse_qs(self.tab.url.partition("#")[2]).items()}

    @property
    def view(self) -> str:
        """The name of the view in the middle."""
        return self.tab.get_attribute(".centre .view", "class").split("view-")[1]

    def wait_until(self, function: str, argument: object = None) -> "Page":
        """Wait until a JavaScript function returns true; the policy of the page refuses a bare expression."""
        self.tab.wait_for_function(function, arg=argument)
        return self

    def wait_for_other_question(self, before: Mapping[str, str]) -> "Page":
        """Wait until the trace that is shown follows from another question than that of this link."""
        function = "([w, p]) => { const at = new URLSearchParams(location.hash.slice(1));"
        function += " return at.get('w') !== w || at.get('p') !== p; }"
        return self.wait_until(function, [before.get("w"), before.get("p")])

    def settle(self) -> "Page":
        """Wait until every number in view has arrived and is drawn."""
        self.wait_until(IS_COMPLETE)
        self.tab.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return self

    def text(self, selector: str) -> str:
        return self.tab.inner_text(selector)

    def pictures(self) -> list[str]:
        """Every canvas as a data URL."""
        return self.tab.evaluate("() => [...document.querySelectorAll('canvas')].map(each => each.toDataURL())")

    def sheet(self, label: str | None = None, number: int = 0) -> "Sheet":
        """The matrix with this label, or any; where there are several, the one with this number, -1 for the last."""
        has_label = f':has(.sheet-label:text-is("{label}"))' if label else ""
        return Sheet(self.tab, self.tab.locator(f"figure.sheet{has_label}").nth(number))


class Sheet:
    """A matrix on the screen."""

    def __init__(self, tab: Any, figure: Any):
        self.tab = tab
        self.figure = figure
        self.cell = figure.get_by_role("gridcell")

    def shape(self) -> tuple[int, int]:
        """Rows and columns, as a screen reader gets them."""
        grid = self.figure.get_by_role("grid")
        return int(grid.get_attribute("aria-rowcount")), int(grid.get_attribute("aria-colcount"))

    def pixels(self, cells: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
        """The colours in the middle of these cells, read from the canvas, which is scrolled to each cell."""
        return [tuple(colour) for colour in self.figure.evaluate(READ_PIXELS, [list(cell) for cell in cells])]

    def find_outlines(self, colour: tuple[int, int, int], away: int) -> tuple[set[int], set[int]]:
        """Rows below and columns right of a line of this colour, read at index `away` of the other axis."""
        rows, cols = self.figure.evaluate(READ_BORDERS, [away, *self.shape()])
        above, before = (
            {position for position, colours in enumerate(lines) if list(colour) in colours} for lines in (rows, cols)
        )
        return above, before

    def locate(self, row: int, col: int) -> tuple[float, float]:
        """The middle of a cell in the window."""
        x, y = self.figure.evaluate(LOCATE, [row, col])
        return x, y

    def point_at(self, row: int, col: int, names: list[str]) -> str:
        """Move the pointer over a cell, and return the readout once it names these ends of row and column."""
        self.figure.evaluate("figure => figure.scrollIntoView({block: 'center'})")
        x, y = self.locate(row, col)
        self.tab.mouse.move(x, y)
        self.tab.wait_for_function(READOUT_NAMES, arg=[self.figure.element_handle(), names])
        return self.figure.locator(".sheet-readout").inner_text()


SCROLL_TO_CELL = """
    const frame = figure.querySelector(".sheet-frame"), canvas = figure.querySelector("canvas");
    const focus = figure.querySelector("[role=gridcell]");
    const row0 = Number(focus.parentElement.getAttribute("aria-rowindex")) - 1;
    const col0 = Number(focus.getAttribute("aria-colindex")) - 1;
    const [width, height] = [parseFloat(focus.style.width), parseFloat(focus.style.height)];
    const [left, top] = [parseFloat(focus.style.left) - col0 * width, parseFloat(focus.style.top) - row0 * height];
    const locate = async ([row, col]) => {
        const [x, y] = [left + (col + 0.5) * width, top + (row + 0.5) * height];
        const before = [frame.scrollLeft, frame.scrollTop];
        const [wide, high] = [canvas.clientWidth, canvas.clientHeight];
        const [right, down] = [x - frame.scrollLeft, y - frame.scrollTop];
        if (right > wide - width || right < left + width) frame.scrollLeft = x - wide / 2;
        if (down > high - height || down < top + height) frame.scrollTop = y - high / 2;
        if (before[0] !== frame.scrollLeft || before[1] !== frame.scrollTop)
            await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
        return [x - frame.scrollLeft, y - frame.scrollTop];
    };
"""
READ_PIXELS = f"""async (figure, cells) => {{
    {SCROLL_TO_CELL}
    const ratio = canvas.width / canvas.clientWidth, colours = [];
    const context = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", {{willReadFrequently: true}});
    for (const cell of cells) {{
        const [x, y] = await locate(cell);
        context.drawImage(canvas, 0, 0);
        colours.push([...context.getImageData(Math.floor(x * ratio), Math.floor(y * ratio), 1, 1).data.slice(0, 3)]);
    }}
    return colours;
}}"""
READ_BORDERS = f"""async (figure, [away, rows, cols]) => {{
    {SCROLL_TO_CELL}
    const ratio = canvas.width / canvas.clientWidth;
    const context = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", {{willReadFrequently: true}});
    context.drawImage(canvas, 0, 0);
    const coloursAt = (x, y) => [-1, 0].flatMap((dx) => [-1, 0].map((dy) =>
        [...context.getImageData(Math.round(x * ratio) + dx, Math.round(y * ratio) + dy, 1, 1).data.slice(0, 3)]));
    return [
        Array.from({{length: rows}}, (_, r) => coloursAt(left + (away + 0.5) * width, top + r * height)),
        Array.from({{length: cols}}, (_, c) => coloursAt(left + c * width, top + (away + 0.5) * height)),
    ];
}}"""
LOCATE = f"""async (figure, cell) => {{
    {SCROLL_TO_CELL}
    const [x, y] = await locate(cell);
    const box = canvas.getBoundingClientRect();
    return [box.left + x, box.top + y];
}}"""
READOUT_NAMES = """([figure, names]) => {
    const words = [...figure.querySelectorAll(".sheet-readout b")].map((each) => each.textContent);
    return words.length === names.length && words.every((name, i) => name.endsWith(names[i]));
}"""


def parse_number(text: str) -> np.float32:
    """The one float32 that a number on the page stands for."""
    plain = text.strip().replace("−", "-").replace("∞", "inf")
    return np.float32(float(plain))


def find_numbers(text: str) -> list[str]:
    """Every number in a text, as it is written."""
    return NUMBER.findall(text)


def format_number(value: Any) -> str:
    """Write a float32 in as few digits as distinguish it, as numpy does, with a true minus sign."""
    text = np.format_float_positional(np.float32(value), unique=True, trim="-")
    return text.replace("-", "−")
