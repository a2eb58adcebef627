"""Hostile text stays text everywhere: on the page, in its file, and in what it saves."""

from xml.etree import ElementTree

import pytest

from tests.browser.hostile import IMAGE, NAME, PIECE, SENTENCE, TARGET, hostile_model
from tests.browser.installed import require_buildable
from tests.browser.reading import VIEWS, Page
from tests.browser.test_files import download
from tests.browser.watched import watch_tab
from tests.serve.servers import running

FOREIGN_HTML = """() => [...document.querySelectorAll("img, iframe, object, [onerror], [onload], base, form[action]")]
    .map((each) => each.outerHTML)"""


@pytest.fixture(autouse=True)
def _buildable() -> None:
    require_buildable()


@pytest.mark.slow  # tests/page/test_page.py has such a sentence in a few views
def test_a_piece_that_is_markup_is_harmless_on_the_page_and_in_its_file(browser, tmp_path):
    model = hostile_model()
    trace = model.trace(SENTENCE, target=TARGET)
    assert trace.source.text == SENTENCE
    assert IMAGE in trace.source.pieces
    assert PIECE in trace.target.pieces
    with running(model) as port, watch_tab(browser, f"http://127.0.0.1:{port}/") as watched_tab:
        page = Page(watched_tab)
        page.open(s=SENTENCE, y=TARGET, v="map", f="S1", n=2)
        assert PIECE in page.text(".side")
        assert IMAGE in page.text(".side")
        assert NAME in page.text(".topbar")
        assert_no_foreign_elements(page)
        page.go(v="export", x="decoder.0.cross.pattern").wait_until("() => document.querySelector('.view-export')")
        page.sheet("decoder.0.cross.pattern").figure.wait_for()
        drawing = ElementTree.parse(download(page, "button", "SVG", tmp_path)).getroot()
        assert {element.tag.rpartition("}")[2] for element in drawing.iter()} == {"svg", "rect", "line", "text"}
        file = download(page, "link", "HTML: all and the weights", tmp_path)
        assert not set(file.name) & set("<>/\\\"'")
        page.open(s=SENTENCE, v="beam").settle()  # found, not given
        assert page.tab.evaluate(FOREIGN_HTML) == []
    with watch_tab(browser, file.as_uri()) as watched_tab:
        file_page = Page(watched_tab)
        file_page.open(v="tokens")
        assert PIECE in file_page.text(".centre")
        assert file_page.tab.title().startswith(SENTENCE)
        assert_no_foreign_elements(file_page)


def assert_no_foreign_elements(page: Page) -> None:
    """Check that every view, as a table too, holds no element but the page's own."""
    for view in VIEWS:
        fields = {"x": "decoder.0.cross.pattern", "i": "0.1.1"} if view == "cell" else {"a": "decoder.0.cross"}
        page.go(v=view, **fields).wait_until("view => document.querySelector(`.view-${view}`)", view).settle()
        assert page.tab.evaluate(FOREIGN_HTML) == [], view
    page.go(v="head", a="decoder.0.cross", h=1).press("t").settle()
    page.tab.locator(".centre table").first.wait_for()
    assert page.tab.evaluate(FOREIGN_HTML) == []
    page.press("t")
