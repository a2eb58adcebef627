"""Pictures of the page show their values as colours, and are painted at once, not cell by cell."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.browser.watched import launch_chromium
from tests.page.browser import open_tab
from tests.page.built import WEB, environment_with_node

SCALES = [
    {"kind": kind, "least": least, "largest": largest, "dark": dark}
    for kind, least, largest in (("sequential", 0.0, 1.0), ("symmetric", -3.7, 3.7))
    for dark in (False, True)
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser, because starting it takes as long as a test."""
    with launch_chromium() as chromium_browser:
        yield chromium_browser


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The script web/test/browser_pictures.ts, bundled for a browser."""
    script = tmp_path_factory.mktemp("harness") / "browser.js"
    esbuild = ["node", "node_modules/esbuild/bin/esbuild", "test/browser_pictures.ts", "--bundle", "--format=iife"]
    result = subprocess.run(
        [*esbuild, f"--outfile={script}", "--log-level=error"],
        cwd=WEB,
        env=environment_with_node(),
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return script


@pytest.mark.slow  # so does tests/browser/test_numbers.py
def test_values_are_read_back_from_pixels_within_a_255th_of_the_range(harness: Path, browser: Any):
    rng = np.random.default_rng(17)
    with open_tab(browser) as tab:
        tab.add_script_tag(path=str(harness))
        for scale in SCALES:
            span = scale["largest"] - scale["least"]
            values = rng.uniform(scale["least"], scale["largest"], size=(11, 13))
            for read_back in (
                call_harness(tab, "sheetReadBack", values.ravel().tolist(), 11, 13, scale, 1),
                call_harness(tab, "sheetReadBack", values.ravel().tolist(), 11, 13, scale, 2),
                call_harness(tab, "thumbnailReadBack", values.ravel().tolist(), 11, 13, scale),
            ):
                assert np.abs(np.array(read_back, dtype=float).reshape(11, 13) - values).max() <= span / 255
            transposed = call_harness(tab, "sheetReadBack", values.T.ravel().tolist(), 13, 11, scale, 1)
            assert np.abs(np.array(transposed, dtype=float).reshape(11, 13) - values).max() > span / 10  # axes matter


def test_a_larger_map_takes_no_more_calls_of_the_canvas_than_a_small_one(harness: Path, browser: Any):
    # A call for each cell made the page wait where many heads are shown at once.
    with open_tab(browser) as tab:
        tab.add_script_tag(path=str(harness))
        small, large = (call_harness(tab, "countPaintingCalls", side) for side in (4, 40))
        assert 0 < large == small


def call_harness(tab: Any, name: str, *arguments: Any) -> Any:
    """Call a function of the harness in the tab, and return its result."""
    return tab.evaluate(f"args => {name}(...args)", list(arguments))
