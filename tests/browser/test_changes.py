"""What was changed is seen: a number that was planted, axes in the wrong order, one weight and all that hangs on it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from pellucid.api import Model
from pellucid.decode.translate import Translator
from pellucid.trace import tracing
from tests.browser.installed import require_buildable
from tests.browser.reading import Page
from tests.browser.small import SENTENCE
from tests.browser.watched import watched
from tests.serve.servers import running

PLANTED = 12345.678
Tensors = dict[str, np.ndarray]


@pytest.fixture(autouse=True)
def _built() -> None:
    require_buildable()


@contextmanager
def shown(browser: Any, model: Model) -> Iterator[Page]:
    """The page of a server in this process."""
    with running(model) as port, watched(browser, f"http://127.0.0.1:{port}/") as found:
        yield Page(found)


@pytest.fixture
def mutated(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Tensors], None]], None]:
    """Lets a function change what a trace has captured, before anything is told of it."""
    real = tracing.capture_tensors

    def mutate(change: Callable[[Tensors], None]) -> None:
        def changed(*given):
            tensors, logits = real(*given)
            change(tensors)
            return tensors, logits

        monkeypatch.setattr(tracing, "capture_tensors", changed)

    return mutate


def verdict(page: Page, name: str, index: tuple[int, ...]) -> tuple[str, str]:
    """What the page says of a cell that it makes again: the captured number, and whether they agree."""
    page.open_cell(name, index)
    captured = page.tab.locator(".cell-receipt dd").first.inner_text()
    return captured, page.text(".cell-receipt strong")


def test_a_number_that_was_planted_is_found_on_screen_and_marked(browser, model, mutated):
    name, at = "encoder.1.ffn.active", (3, 5)

    def plant(tensors: Tensors) -> None:
        tensors[name][at] = PLANTED

    mutated(plant)
    with shown(browser, model) as page:
        page.open(s=SENTENCE, v="block", a="encoder.1.ffn").settled()
        assert "12345.678" not in page.text(".pellucid")  # only colours as yet
        page.press("t")
        assert "12345.678" in page.text(".centre")
        page.press("t")
        assert verdict(page, name, at) == ("12345.678", "✗ differs")
        assert page.tab.locator(".cell-receipt .receipt-bad").count() == 1
        page.watched.picture("planted")
        assert verdict(page, name, (3, 4))[1] == "✓ OK"
        assert verdict(page, name, (2, 5))[1] == "✓ OK"
        assert verdict(page, "encoder.1.ffn.output", (3, 0))[1] == "✗ differs"  # it was made of the real number
        assert verdict(page, "encoder.1.ffn.output", (2, 0))[1] == "✓ OK"
        assert page.text(".footer .bad") == "✗"


@pytest.mark.parametrize("name", ["encoder.0.self.pattern", "decoder.1.cross.pattern", "decoder.2.cross.scores"])
def test_axes_in_the_wrong_order_are_caught_by_the_page_itself(browser, model, mutated, name):
    right: Tensors = {}

    def swap(tensors: Tensors) -> None:
        right[name] = tensors[name].copy()
        tensors[name] = np.ascontiguousarray(tensors[name].swapaxes(1, 2)).reshape(tensors[name].shape)

    random = np.random.default_rng(53)
    with shown(browser, model) as page:
        mutated(swap)
        page.open(s=SENTENCE, v="checks")
        values = right[name]
        wrong = np.ascontiguousarray(values.swapaxes(1, 2)).reshape(values.shape)
        cells = [cell for cell in np.ndindex(*values.shape) if abs(values[cell] - wrong[cell]) > 0.01]
        for cell in random.choice(cells, 5, replace=False).tolist():
            captured, says = verdict(page, name, tuple(cell))
            assert float(captured.replace("−", "-")) == pytest.approx(wrong[tuple(cell)])
            assert says == "✗ differs", cell


def test_one_weight_changes_exactly_the_panels_that_depend_on_it(browser, model):
    weight, row, col = "decoder.1.cross.qkv.weight", 80, 7
    other = deepcopy(model.bundle.model)
    with torch.no_grad():
        other.get_parameter(weight)[row, col] += 3.0
    changed = replace(
        model, lazy_bundle=replace(model.bundle, model=other), translator=Translator(other, model.bundle.tokenizer)
    )
    target = model.translate([SENTENCE])[0].text
    before, after = (each.trace(SENTENCE, target=target) for each in (model, changed))
    rows = before.manifest()["tensors"]
    depends = reached(rows, weight, row)
    differ = {
        each["name"] for each in rows if not np.array_equal(before.tensor(each["name"]), after.tensor(each["name"]))
    }
    assert differ == depends
    assert 20 < len(depends) < len(rows) - 20
    drawn = []
    for each in (model, changed):
        with shown(browser, each) as page:
            page.open(s=SENTENCE, y=target, v="map").settled()
            drawn.append(page.tab.locator("canvas.thumbnail").evaluate_all(NAMED_PICTURES))
    labels = [[label for label, _ in pictures] for pictures in drawn]
    assert labels[0] == labels[1]
    assert {"memory", "states", "decoder.1.cross.pattern", "encoder.0.self.pattern"} <= set(labels[0])
    seen = {label for (label, one), (_, two) in zip(*drawn, strict=True) if one != two}
    assert seen == depends & set(labels[0])


NAMED_PICTURES = "all => all.map(each => [each.getAttribute('aria-label'), each.toDataURL()])"


def reached(rows: list[dict[str, Any]], weight: str, row: int) -> set[str]:
    """The tensors that are made, at whatever remove, with this row of a weight."""
    found: set[str] = set()
    for each in rows:
        op = each["op"]
        wide = each["shape"][0] * each["shape"][2] if op.get("split") else each["shape"][-1]
        reads = op["kind"] == "linear" and op["weight"] == weight and op["first"] <= row < op["first"] + wide
        if reads or found & set(op.get("inputs", [])):
            found.add(each["name"])
    return found
