"""Firefox and WebKit show the same as Chromium: every text of every view, and every head to the last pixel."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser.other_engines import firefox, webkit
from tests.browser.reading import VIEWS

pytestmark = pytest.mark.slow

READ = """
const [view, done] = arguments
location.hash = 'v=' + view
const pause = milliseconds => new Promise(resolve => setTimeout(resolve, milliseconds))
const isDrawn = () => document.querySelector('.centre .view-' + view) && !document.querySelector('.waiting')
    && !document.querySelector('.centre').innerText.includes('Fetching the numbers')
const read = async () => {
    await pause(500)
    for (let tries = 0; tries < 100 && !isDrawn(); tries++) await pause(100)
    await pause(300)
    const heads = [...document.querySelectorAll('.thumbnail canvas, canvas.thumbnail')]
    return {
        text: document.querySelector('.centre').textContent,
        heads: heads.map(head => [...head.getContext('2d').getImageData(0, 0, head.width, head.height).data]),
        sheets: document.querySelectorAll('.centre canvas').length - heads.length,
        overflow: Math.max(0, document.documentElement.scrollWidth - innerWidth),
        missing: document.querySelectorAll('.centre .missing-note').length,
    }
}
read().then(done, error => done({ error: String(error) }))
"""


@pytest.fixture(scope="module")
def address(site: Path, trace: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of an exported file, which is the page without a server."""
    path = tmp_path_factory.mktemp("exported") / "trace.html"
    trace.save_html(path)
    return path.as_uri()


@pytest.fixture(scope="module")
def chromium_views(browser: Any, address: str) -> dict[str, Any]:
    tab = browser.new_page(viewport={"width": 1440, "height": 900})
    tab.goto(address)
    script = f"view => new Promise(done => (function () {{ {READ} }}).call(null, view, done))"
    views = {view: tab.evaluate(script, view) for view in VIEWS}
    tab.close()
    return views


@pytest.mark.parametrize("start", [firefox, webkit])
def test_every_view_is_the_same(start: Callable[[Path], Any], address: str, chromium_views: Any, tmp_path: Path):
    with start(tmp_path) as perform:
        perform("url", {"url": address})
        for view in VIEWS:
            shown = perform("execute/async", {"script": READ, "args": [view]})
            assert shown == chromium_views[view], view
    assert sum(len(shown["heads"]) for shown in chromium_views.values()) >= 16
