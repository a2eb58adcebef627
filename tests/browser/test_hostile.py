"""Text stays text, wherever it stands: on the page, in the file, in what is saved."""

from xml.etree import ElementTree

import pytest

from tests.browser.hostile import IMAGE, NAME, PIECE, SENTENCE, TARGET, hostile_model
from tests.browser.installed import require_buildable
from tests.browser.reading import VIEWS, Page
from tests.browser.test_files import downloaded
from tests.browser.watched import watched
from tests.serve.servers import running

STRANGERS = """() => [...document.querySelectorAll("img, iframe, object, [onerror], [onload], base, form[action]")]
    .map((each) => each.outerHTML)"""


@pytest.fixture(autouse=True)
def _built() -> None:
    require_buildable()


def test_a_piece_that_is_markup_is_harmless_on_the_page_and_in_its_file(browser, tmp_path):
    model = hostile_model()
    trace = model.trace(SENTENCE, target=TARGET)
    assert trace.source.text == SENTENCE
    assert IMAGE in trace.source.pieces
    assert PIECE in trace.target.pieces
    with running(model) as port, watched(browser, f"http://127.0.0.1:{port}/") as found:
        page = Page(found)
        page.open(s=SENTENCE, y=TARGET, v="map", f="S1", n=2)
        assert PIECE in page.text(".side")
        assert IMAGE in page.text(".side")
        assert NAME in page.text(".topbar")
        looked_at(page)
        page.go(v="export", x="decoder.0.cross.pattern").until("() => document.querySelector('.view-export')")
        page.sheet("decoder.0.cross.pattern").figure.wait_for()
        drawing = ElementTree.parse(downloaded(page, "button", "SVG", tmp_path)).getroot()
        assert {each.tag.rpartition("}")[2] for each in drawing.iter()} == {"svg", "rect", "line", "text"}
        file = downloaded(page, "link", "HTML: all and the weights", tmp_path)
        assert not set(file.name) & set("<>/\\\"'")
        page.open(s=SENTENCE, v="beam").settled()  # found, not given
        assert page.tab.evaluate(STRANGERS) == []
    with watched(browser, file.as_uri()) as found:
        alone = Page(found)
        alone.open(v="tokens")
        assert PIECE in alone.text(".centre")
        assert alone.tab.title().startswith(SENTENCE)
        looked_at(alone)


def looked_at(page: Page) -> None:
    """Every picture, as a table too, holds no element but the page's own."""
    for view in VIEWS:
        place = {"x": "decoder.0.cross.pattern", "i": "0.1.1"} if view == "cell" else {"a": "decoder.0.cross"}
        page.go(v=view, **place).until("view => document.querySelector(`.view-${view}`)", view).settled()
        assert page.tab.evaluate(STRANGERS) == [], view
    page.go(v="head", a="decoder.0.cross", h=1).press("t").settled()
    page.tab.locator(".centre table").first.wait_for()
    assert page.tab.evaluate(STRANGERS) == []
    page.press("t")
