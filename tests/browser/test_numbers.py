"""Every number on the screen is the model's own: read as text and as colour, and compared with numpy's."""

import re
from typing import Any

import numpy as np
import pytest

from tests.browser.colours import tables
from tests.browser.reading import Page, number, written
from tests.browser.small import SENTENCE

CELLS = 100  # in each theme


@pytest.fixture(scope="module")
def colours(tmp_path_factory):
    return tables(tmp_path_factory.mktemp("tables"))


def drawn(trace: Any, seed: int) -> dict[tuple[str, tuple[int, ...]], list[tuple[int, int]]]:
    """Random cells of every kind of tensor, by tensor and what stands before its last two axes."""
    random = np.random.default_rng(seed)
    kinds: dict[str, list[str]] = {}
    for row in trace.manifest()["tensors"]:
        kinds.setdefault(row["op"]["kind"], []).append(row["name"])
    found: dict[tuple[str, tuple[int, ...]], list[tuple[int, int]]] = {}
    sheets = [str(random.choice(names)) for names in kinds.values() for _ in range(2)]
    for number_of, name in enumerate(sheets):
        shape = trace[name].values.shape
        above = tuple(int(random.integers(size)) for size in shape[:-2])
        many = CELLS * (number_of + 1) // len(sheets) - CELLS * number_of // len(sheets)
        cells = [(int(random.integers(shape[-2])), int(random.integers(shape[-1]))) for _ in range(many)]
        found.setdefault((name, above), []).extend(cells)
    assert sum(map(len, found.values())) == CELLS
    return found


def masked(trace: Any, name: str, cell: tuple[int, int]) -> bool:
    """Whether this cell of an attention is one of the future."""
    future = ".self." in name and name.startswith("decoder") and name.endswith(("pattern", "scores", "products"))
    return future and cell[1] > cell[0]


def seen(trace: Any, name: str) -> np.ndarray:
    """The numbers that colours are made for: of scores, those that may be read."""
    values = trace.tensor(name)
    if not name.endswith(".scores"):
        return values
    return values[np.broadcast_to(trace[name.replace("scores", "allowed")].values, values.shape)]


def name_of(trace: Any, dim: str, at: int) -> str:
    """How the page ends the name of a position: with its piece, else with its number."""
    pieces = {"S": trace.source.pieces, "T": trace.inputs.pieces}.get(dim)
    return pieces[at] if pieces else f" {at}"


def show(page: Page, name: str, above: tuple[int, ...]) -> Any:
    """The sheet of a tensor, in the picture from which it can be exported."""
    page.tab.get_by_role("combobox", name="Tensor").select_option(value=name)
    sheet = page.sheet(name)
    sheet.figure.wait_for()
    if above:
        page.tab.get_by_role("combobox", name="Head").select_option(index=above[0])
    page.settled()
    return sheet


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_random_cells_of_every_kind_of_tensor_are_told_and_painted_as_numpy_has_them(page: Page, trace, colours, theme):
    page.tab.emulate_media(color_scheme=theme)
    page.open(s=SENTENCE, v="export")
    far = {}
    for (name, above), cells in drawn(trace, seed=41 if theme == "light" else 43).items():
        whole = trace.tensor(name)[above]
        sheet = show(page, name, above)
        assert sheet.shape() == whole.shape
        shares = name.endswith(("pattern", "allowed"))
        reach = 1.0 if shares else float(np.abs(seen(trace, name)).max())
        table = colours["sequential" if shares else "symmetric", theme == "dark"]
        for cell, colour in zip(cells, sheet.pixels(cells), strict=True):
            dims = zip(trace.dims[name][-2:], cell, strict=True)
            names = [name_of(trace, dim, at) for dim, at in dims if dim != "1"]
            said = sheet.point_at(*cell, names)
            if masked(trace, name, cell):
                assert said.splitlines()[0].endswith("masked"), (name, cell)
                assert colour not in table or name.endswith("allowed")
                continue
            text = said.split()[-1]
            assert text == written(whole[cell]), (name, above, cell)
            assert number(text) == whole[cell]
            least = 0.0 if shares else -reach
            value = least + table[colour] * (reach - least)
            far[name, above, cell] = abs(value - whole[cell]) / (reach - least)
    assert len(far) > 0.8 * CELLS
    assert {cell: distance for cell, distance in far.items() if distance > 1 / 255} == {}


def test_a_cell_of_every_part_is_made_again_on_screen_from_its_inputs(page: Page, trace):
    random = np.random.default_rng(47)
    page.open(s=SENTENCE, v="checks")
    parts: dict[str, list[Any]] = {}
    for row in trace.manifest()["tensors"]:
        parts.setdefault(re.sub(r"\d+", "N", row["name"]), []).append(row)
    assert len(parts) > 30
    for layers in parts.values():
        row = layers[random.integers(len(layers))]
        index = [int(random.integers(size)) for size in row["shape"]]
        if masked(trace, row["name"], (index[-2], index[-1])):
            index[-1] = 0
        page.open_cell(row["name"], index)
        captured, again, verdict = page.tab.locator(".cell-receipt dd").all_inner_texts()
        value = trace.tensor(row["name"])[tuple(index)]
        assert captured == written(value), (row["name"], index)
        size = float(np.abs(trace.tensor(row["name"])).max())
        assert number(again) == pytest.approx(value, rel=1e-4, abs=1e-6 * size), (row["name"], index)
        assert verdict.endswith("✓ OK"), (row["name"], index, verdict)
