"""Every number on the screen is the model's own: its text and its colour are compared with numpy."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pellucid.api import Model
from pellucid.decode.translator import Translator
from pellucid.model import ModelConfig, Transformer, config, positions
from pellucid.store.directory import Bundle
from tests.browser.colours import read_colour_tables
from tests.browser.reading import Page, format_number, parse_number
from tests.browser.small import SENTENCE, SIZES, tokenizer
from tests.browser.watched import watch_tab

CELLS = 40  # in each theme


@pytest.fixture(scope="module")
def colours(tmp_path_factory):
    return read_colour_tables(tmp_path_factory.mktemp("tables"))


def draw_cells(trace: Any, seed: int) -> dict[tuple[str, tuple[int, ...]], list[tuple[int, int]]]:
    """Draw random cells of every kind of tensor, by tensor and index before its last two axes."""
    rng = np.random.default_rng(seed)
    kinds: dict[str, list[str]] = {}
    for row in trace.manifest()["tensors"]:
        kinds.setdefault(row["op"]["kind"], []).append(row["name"])
    cells_by_slice: dict[tuple[str, tuple[int, ...]], list[tuple[int, int]]] = {}
    sheets = [str(rng.choice(names)) for names in kinds.values()]  # others in the other theme
    for index, name in enumerate(sheets):
        shape = trace[name].values.shape
        above = tuple(int(rng.integers(size)) for size in shape[:-2])
        count = CELLS * (index + 1) // len(sheets) - CELLS * index // len(sheets)
        cells = [(int(rng.integers(shape[-2])), int(rng.integers(shape[-1]))) for _ in range(count)]
        cells_by_slice.setdefault((name, above), []).extend(cells)
    assert sum(map(len, cells_by_slice.values())) == CELLS
    return cells_by_slice


def is_masked(trace: Any, name: str, cell: tuple[int, int]) -> bool:
    """Whether this cell of self-attention lies in the future."""
    future = ".self." in name and name.startswith("decoder") and name.endswith(("pattern", "scores", "products"))
    return future and cell[1] > cell[0]


def coloured_values(trace: Any, name: str) -> np.ndarray:
    """The numbers that set the range of colours: of scores, only those of keys that may be read."""
    values = trace.tensor(name)
    if not name.endswith(".scores"):
        return values
    return values[np.broadcast_to(trace[name.replace("scores", "allowed")].values, values.shape)]


def position_name(trace: Any, dim: str, index: int) -> str:
    """The end of a position's name on the page: its piece if it has one, else its number."""
    pieces = {"S": trace.source.pieces, "T": trace.inputs.pieces}.get(dim)
    return pieces[index] if pieces else f" {index}"


def show_sheet(page: Page, name: str, above: tuple[int, ...]) -> Any:
    """Show the sheet of a tensor in the export view."""
    page.tab.get_by_role("combobox", name="Tensor").select_option(value=name)
    sheet = page.sheet(name)
    sheet.figure.wait_for()
    if above:
        page.tab.get_by_role("combobox", name="Head").select_option(index=above[0])
    page.settle()
    return sheet


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_random_cells_of_every_kind_of_tensor_have_the_text_and_colour_of_numpy(page: Page, trace, colours, theme):
    page.tab.emulate_media(color_scheme=theme)
    page.open(s=SENTENCE, v="export")
    errors = {}
    for (name, above), cells in draw_cells(trace, seed=41 if theme == "light" else 43).items():
        values = trace.tensor(name)[above]
        sheet = show_sheet(page, name, above)
        assert sheet.shape() == values.shape
        shares = name.endswith(("pattern", "allowed"))
        largest = 1.0 if shares else float(np.abs(coloured_values(trace, name)).max())
        table = colours["sequential" if shares else "symmetric", theme == "dark"]
        for cell, colour in zip(cells, sheet.pixels(cells), strict=True):
            dims = zip(trace.dims[name][-2:], cell, strict=True)
            names = [position_name(trace, dim, index) for dim, index in dims if dim != "1"]
            readout = sheet.point_at(*cell, names)
            if is_masked(trace, name, cell):
                assert readout.splitlines()[0].endswith("masked"), (name, cell)
                assert colour not in table or name.endswith("allowed")
                continue
            text = readout.split()[-1]
            assert text == format_number(values[cell]), (name, above, cell)
            assert parse_number(text) == values[cell]
            least = 0.0 if shares else -largest
            value = least + table[colour] * (largest - least)
            errors[name, above, cell] = abs(value - values[cell]) / (largest - least)
    assert len(errors) > 0.8 * CELLS
    assert {cell: distance for cell, distance in errors.items() if distance > 1 / 255} == {}


def assert_cells_are_recomputed(page: Page, trace: Any, names: list[str], seed: int) -> None:
    """Open a random cell of each tensor: it shows the captured number, and one recomputed from its inputs."""
    rng = np.random.default_rng(seed)
    for name in names:
        values = trace.tensor(name)
        index = [int(rng.integers(size)) for size in values.shape]
        if is_masked(trace, name, (index[-2], index[-1])):
            index[-1] = 0
        page.open_cell(name, index)
        captured, recomputed, verdict = page.tab.locator(".cell-receipt dd").all_inner_texts()
        value = values[tuple(index)]
        assert captured == format_number(value), (name, index)
        size = float(np.abs(values).max())
        assert parse_number(recomputed) == pytest.approx(value, rel=1e-4, abs=1e-6 * size), (name, index)
        assert verdict.endswith("✓ OK"), (name, index, verdict)


@pytest.mark.slow  # the next test does so for two tensors, tests/page/test_cells.py for all
def test_a_cell_of_every_part_is_recomputed_on_screen_from_its_inputs(page: Page, trace):
    rng = np.random.default_rng(47)
    page.open(s=SENTENCE, v="checks")
    names_by_part: dict[str, list[str]] = {}
    for row in trace.manifest()["tensors"]:
        names_by_part.setdefault(re.sub(r"\d+", "N", row["name"]), []).append(row["name"])
    assert len(names_by_part) > 30
    assert_cells_are_recomputed(page, trace, [str(rng.choice(names)) for names in names_by_part.values()], seed=47)


def test_the_position_encoding_of_the_contributing_page_is_recomputed_on_screen(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    text = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    [code] = re.findall(r"```python\n(class .*?)```", text, flags=re.DOTALL)
    names = {**vars(positions), "torch": torch}
    exec(code, names)
    monkeypatch.setitem(positions.POSITIONS, "distance", names["Distance"])
    monkeypatch.setitem(config._CHOICES, "positions", (*config._CHOICES["positions"], "distance"))
    torch.manual_seed(1)
    size = tokenizer().source_vocabulary
    choice: Any = "distance"
    untrained = Transformer(ModelConfig(size, size, dropout=0.0, positions=choice, **SIZES)).eval()
    bundle = Bundle(untrained, tokenizer(), {"sha256": "", "files": {}}, tmp_path / "best")
    trace = Model(bundle, Translator(untrained, tokenizer())).trace(SENTENCE, target="la reina")
    trace.save_html(tmp_path / "trace.html", keep="weights")
    with watch_tab(browser, (tmp_path / "trace.html").as_uri()) as tab:
        page = Page(tab).open(v="checks")
        assert_cells_are_recomputed(page, trace, ["encoder.0.self.scores", "decoder.2.self.scores"], seed=53)
        page.go(v="head")
        assert page.settle().pictures()
