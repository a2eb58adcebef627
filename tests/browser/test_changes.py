"""The page shows changes for what they are: a planted number, swapped axes, one weight and all that depends on it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from pellucid.api import Model
from pellucid.decode.translator import Translator
from pellucid.interpret.trace import session
from pellucid.store.directory import Bundle
from tests.browser.installed import require_buildable
from tests.browser.reading import Page
from tests.browser.small import SENTENCE
from tests.browser.watched import watch_tab
from tests.serve.servers import running

PLANTED = 12345.678
Tensors = dict[str, np.ndarray]


@pytest.fixture(autouse=True)
def _buildable() -> None:
    require_buildable()


@contextmanager
def open_page(browser: Any, model: Model) -> Iterator[Page]:
    """Run a server of the model in this process, and open its page."""
    with running(model) as port, watch_tab(browser, f"http://127.0.0.1:{port}/") as watched_tab:
        yield Page(watched_tab)


@pytest.fixture
def mutate_capture(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Tensors], None]], None]:
    """A function that lets another function change the captured tensors before a trace is made of them."""
    capture_tensors = session.capture_tensors

    def mutate(change: Callable[[Tensors], None]) -> None:
        def capture_and_change(*arguments):
            tensors, logits = capture_tensors(*arguments)
            change(tensors)
            return tensors, logits

        monkeypatch.setattr(session, "capture_tensors", capture_and_change)

    return mutate


def recompute_cell(page: Page, name: str, index: tuple[int, ...]) -> tuple[str, str]:
    """Open a cell that the page recomputes; return the captured number and whether the two agree."""
    page.open_cell(name, index)
    captured = page.tab.locator(".cell-receipt dd").first.inner_text()
    return captured, page.text(".cell-receipt strong")


@pytest.mark.slow  # tests/page/test_cards.py plants one, too
def test_a_planted_number_is_shown_and_marked(browser, model, mutate_capture):
    name, index = "encoder.1.ffn.active", (3, 5)

    def plant(tensors: Tensors) -> None:
        tensors[name][index] = PLANTED

    mutate_capture(plant)
    with open_page(browser, model) as page:
        page.open(s=SENTENCE, v="block", a="encoder.1.ffn").settle()
        assert "12345.678" not in page.text(".pellucid")  # only colours as yet
        page.press("t")
        assert "12345.678" in page.text(".centre")
        page.press("t")
        assert recompute_cell(page, name, index) == ("12345.678", "✗ differs")
        assert page.tab.locator(".cell-receipt .receipt-bad").count() == 1
        page.watched_tab.save_picture("planted")
        assert recompute_cell(page, name, (3, 4))[1] == "✓ OK"
        assert recompute_cell(page, name, (2, 5))[1] == "✓ OK"
        assert recompute_cell(page, "encoder.1.ffn.output", (3, 0))[1] == "✗ differs"  # it was made of the real number
        assert recompute_cell(page, "encoder.1.ffn.output", (2, 0))[1] == "✓ OK"
        assert page.text(".footer .bad") == "✗"


@pytest.mark.parametrize(
    "name",
    [
        *("encoder.0.self.pattern", pytest.param("decoder.1.cross.pattern", marks=pytest.mark.slow)),
        pytest.param("decoder.2.cross.scores", marks=pytest.mark.slow),
    ],
)
def test_axes_in_the_wrong_order_are_noticed_by_the_page_itself(browser, model, mutate_capture, name):
    right: Tensors = {}

    def swap(tensors: Tensors) -> None:
        right[name] = tensors[name].copy()
        tensors[name] = np.ascontiguousarray(tensors[name].swapaxes(1, 2)).reshape(tensors[name].shape)

    rng = np.random.default_rng(53)
    with open_page(browser, model) as page:
        mutate_capture(swap)
        page.open(s=SENTENCE, v="checks")
        values = right[name]
        wrong = np.ascontiguousarray(values.swapaxes(1, 2)).reshape(values.shape)
        cells = [cell for cell in np.ndindex(*values.shape) if abs(values[cell] - wrong[cell]) > 0.01]
        for cell in rng.choice(cells, 5, replace=False).tolist():
            captured, says = recompute_cell(page, name, tuple(cell))
            assert float(captured.replace("−", "-")) == pytest.approx(wrong[tuple(cell)])
            assert says == "✗ differs", cell


def test_one_weight_changes_exactly_the_panels_that_depend_on_it(browser, model):
    weight, row, col = "decoder.1.cross.qkv.weight", 80, 7
    changed_weights = deepcopy(model.bundle.model)
    with torch.no_grad():
        changed_weights.get_parameter(weight)[row, col] += 3.0
    changed = replace(
        model,
        bundle=Bundle(changed_weights, model.bundle.tokenizer, model.bundle.manifest, model.bundle.directory),
        translator=Translator(changed_weights, model.bundle.tokenizer),
    )
    target = model.translate([SENTENCE])[0].text
    before, after = (traced_model.trace(SENTENCE, target=target) for traced_model in (model, changed))
    rows = before.manifest()["tensors"]
    expected = tensors_from_weight(rows, weight, row)
    differ = {
        tensor_row["name"]
        for tensor_row in rows
        if not np.array_equal(before.tensor(tensor_row["name"]), after.tensor(tensor_row["name"]))
    }
    assert differ == expected
    assert 20 < len(expected) < len(rows) - 20
    pictures_by_model = []
    for shown_model in (model, changed):
        with open_page(browser, shown_model) as page:
            page.open(s=SENTENCE, y=target, v="map").settle()
            pictures_by_model.append(page.tab.locator("canvas.thumbnail").evaluate_all(NAMED_PICTURES))
    labels = [[label for label, _ in pictures] for pictures in pictures_by_model]
    assert labels[0] == labels[1]
    assert {"memory", "states", "decoder.1.cross.pattern", "encoder.0.self.pattern"} <= set(labels[0])
    changed_pictures = {
        label for (label, first), (_, second) in zip(*pictures_by_model, strict=True) if first != second
    }
    assert changed_pictures == expected & set(labels[0])


NAMED_PICTURES = "all => all.map(each => [each.getAttribute('aria-label'), each.toDataURL()])"


def tensors_from_weight(rows: list[dict[str, Any]], weight: str, row: int) -> set[str]:
    """The tensors computed, directly or through others, with this row of a weight."""
    names: set[str] = set()
    for tensor_row in rows:
        op = tensor_row["op"]
        wide = tensor_row["shape"][0] * tensor_row["shape"][2] if op.get("split") else tensor_row["shape"][-1]
        reads = op["kind"] == "linear" and op["weight"] == weight and op["first"] <= row < op["first"] + wide
        if reads or names & set(op.get("inputs", [])):
            names.add(tensor_row["name"])
    return names
