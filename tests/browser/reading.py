"""What a user sees and does on the page, in words: translate, go somewhere, press keys, read numbers and pixels."""

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, urlencode

import numpy as np

from tests.browser.watched import Watched

VIEWS = (
    *("map", "block", "head", "cell", "tokens", "positions", "words", "output", "beam", "heads", "align", "compare"),
    *("claims", "debug", "checks", "export"),
)
"""Every picture there is, by its name in a link."""

NUMBER = re.compile(r"[−-]?(?:\d+\.?\d*(?:e[−-]?\d+)?|∞)|NaN")


class Page:
    """A tab with the page in it."""

    def __init__(self, watched: Watched):
        self.watched = watched
        self.tab = watched.tab

    def open(self, **place: object) -> "Page":
        """Opens the page at a place; the names are those of a link: s the sentence, v the picture."""
        self.tab.goto(f"{self.watched.home}#{urlencode(place)}")
        self.tab.wait_for_selector(".centre .view")
        return self

    def go(self, **place: object) -> "Page":
        """Goes to another place of the trace that is shown."""
        self.tab.evaluate("fragment => { location.hash = fragment }", urlencode(place))
        return self

    def open_cell(self, name: str, index: Sequence[int]) -> "Page":
        """Opens one number of a tensor, and waits until the page has made it again."""
        place = ".".join(map(str, index))
        self.go(v="cell", x=name, i=place)
        self.tab.wait_for_selector(f'[data-cell="{name} {place}"] .cell-receipt strong')
        return self

    def press(self, *keys: str) -> "Page":
        for key in keys:
            self.tab.keyboard.press(key)
        return self

    @property
    def link(self) -> Mapping[str, str]:
        """The parts of the address behind its #."""
        return {name: values[0] for name, values in parse_qs(self.tab.url.partition("#")[2]).items()}

    @property
    def view(self) -> str:
        """The name of the picture in the middle."""
        return self.tab.get_attribute(".centre .view", "class").split("view-")[1]

    def until(self, function: str, given: object = None) -> "Page":
        """Waits until a JavaScript function gives true. (A bare expression would be refused by the page's policy.)"""
        self.tab.wait_for_function(function, arg=given)
        return self

    def settled(self) -> "Page":
        """Waits until every number that is looked at has come and is drawn."""
        self.until("() => !document.querySelector('.sheet.waiting, .thumbnail.waiting')")
        self.until("() => !document.querySelector('.centre')?.innerText.includes('Fetching the numbers')")
        self.tab.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return self

    def text(self, selector: str) -> str:
        return self.tab.inner_text(selector)

    def pictures(self) -> list[str]:
        """Every canvas as it is painted."""
        return self.tab.evaluate("() => [...document.querySelectorAll('canvas')].map(each => each.toDataURL())")

    def sheet(self, label: str | None = None) -> "Sheet":
        """The matrix with this label, or the first."""
        named = f':has(.sheet-label:text-is("{label}"))' if label else ""
        return Sheet(self.tab, self.tab.locator(f"figure.sheet{named}").first)


class Sheet:
    """A matrix on the screen."""

    def __init__(self, tab: Any, figure: Any):
        self.tab = tab
        self.figure = figure
        self.cell = figure.get_by_role("gridcell")

    def shape(self) -> tuple[int, int]:
        """Rows and columns, as a screen reader is told."""
        grid = self.figure.get_by_role("grid")
        return int(grid.get_attribute("aria-rowcount")), int(grid.get_attribute("aria-colcount"))

    def pixels(self, cells: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
        """The colours in the middle of these cells, read from the canvas, scrolled to each."""
        return [tuple(colour) for colour in self.figure.evaluate(READ_PIXELS, [list(cell) for cell in cells])]

    def outlined(self, ink: tuple[int, int, int], away: int) -> tuple[set[int], set[int]]:
        """Rows with a line of this colour above them, and columns with one before them, seen `away` in the other."""
        rows, cols = self.figure.evaluate(READ_BORDERS, [away, *self.shape()])
        above, before = ({at for at, seen in enumerate(lines) if list(ink) in seen} for lines in (rows, cols))
        return above, before

    def point_at(self, row: int, col: int, names: list[str]) -> str:
        """Moves the pointer over a cell; what the readout says once it names row and column, or the one there is."""
        x, y = self.figure.evaluate(POINT_OF, [row, col])
        self.tab.mouse.move(x, y)
        self.tab.wait_for_function(NAMED, arg=[self.figure.element_handle(), names])
        return self.figure.locator(".sheet-readout").inner_text()


PLACE = """
    const frame = figure.querySelector(".sheet-frame"), canvas = figure.querySelector("canvas");
    const focus = figure.querySelector("[role=gridcell]");
    const row0 = Number(focus.parentElement.getAttribute("aria-rowindex")) - 1;
    const col0 = Number(focus.getAttribute("aria-colindex")) - 1;
    const [width, height] = [parseFloat(focus.style.width), parseFloat(focus.style.height)];
    const [left, top] = [parseFloat(focus.style.left) - col0 * width, parseFloat(focus.style.top) - row0 * height];
    const place = async ([row, col]) => {
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
    {PLACE}
    const ratio = canvas.width / canvas.clientWidth, found = [];
    const context = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", {{willReadFrequently: true}});
    for (const cell of cells) {{
        const [x, y] = await place(cell);
        context.drawImage(canvas, 0, 0);
        found.push([...context.getImageData(Math.floor(x * ratio), Math.floor(y * ratio), 1, 1).data.slice(0, 3)]);
    }}
    return found;
}}"""
READ_BORDERS = f"""async (figure, [away, rows, cols]) => {{
    {PLACE}
    const ratio = canvas.width / canvas.clientWidth;
    const context = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", {{willReadFrequently: true}});
    context.drawImage(canvas, 0, 0);
    const seen = (x, y) => [-1, 0].flatMap((dx) => [-1, 0].map((dy) =>
        [...context.getImageData(Math.round(x * ratio) + dx, Math.round(y * ratio) + dy, 1, 1).data.slice(0, 3)]));
    return [
        Array.from({{length: rows}}, (_, r) => seen(left + (away + 0.5) * width, top + r * height)),
        Array.from({{length: cols}}, (_, c) => seen(left + c * width, top + (away + 0.5) * height)),
    ];
}}"""
POINT_OF = f"""async (figure, cell) => {{
    {PLACE}
    figure.scrollIntoView({{block: "center"}});
    const [x, y] = await place(cell);
    const box = canvas.getBoundingClientRect();
    return [box.left + x, box.top + y];
}}"""
NAMED = """([figure, names]) => {
    const said = [...figure.querySelectorAll(".sheet-readout b")].map((each) => each.textContent);
    return said.length === names.length && said.every((name, i) => name.endsWith(names[i]));
}"""


def number(text: str) -> np.float32:
    """The one float32 that a number on the page stands for."""
    plain = text.strip().replace("−", "-").replace("∞", "inf")
    return np.float32(float(plain))


def numbers(text: str) -> list[str]:
    """Every number in a text, as it is written."""
    return NUMBER.findall(text)


def written(value: Any) -> str:
    """A float32 in as few digits as tell it from every other one, as numpy finds them, with a true minus sign."""
    plain = np.format_float_positional(np.float32(value), unique=True, trim="-")
    return plain.replace("-", "−")
