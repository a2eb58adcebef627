"""Changes to a trace are computed in the browser if its engine has computed the server's trace alike, and only then."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch

from pellucid.api import Model, load
from pellucid.interpret.trace import Prefix, Silence, Without, model_page
from pellucid.serve.app import create_app
from pellucid.serve.gate import ApiKeys
from pellucid.serve.settings import Limits
from pellucid.store.directory import save_bundle
from tests.browser.installed import require_buildable
from tests.browser.reading import Page
from tests.browser.small import OTHER, SENTENCE, save_trained_model
from tests.browser.test_changes import open_page
from tests.browser.watched import watch_tab
from tests.page.telling import Telling
from tests.page.test_engine_in_chromium import TABLES
from tests.serve.servers import EN_ES, running, running_app

SWITCH = ".without [role=switch]"
HERE, BY_SERVER = "computed in your browser, checked against the server", "computed by the server"
ALIKE = "computed by the server; your browser computes the same"
KEY = "a-key-of-24-characters--"


@pytest.fixture(autouse=True)
def _buildable() -> None:
    require_buildable()


def wait_for_line(page: Page, line: str) -> None:
    """Wait until this is how the page begins to say who computed the trace."""
    function = "line => document.querySelector('.computed-by')?.innerText.startsWith(line)"
    page.wait_until(function, line)


def turn_switch(page: Page, line: str, stop: int = 7) -> str:
    """Turn the switch of a stop of the story on, wait for who computed it, and return the translation without it."""
    page.tab.get_by_role("button", name=f"Stop {stop}:").click()
    page.tab.click(SWITCH)
    page.tab.wait_for_selector(".without-pair")
    wait_for_line(page, line)
    return page.tab.locator(".without-pair b").all_inner_texts()[1]


def list_new_requests(page: Page) -> list[str]:
    """Return the paths that were asked for since the last call."""
    requests = [request.removeprefix(page.watched_tab.home) for request in page.watched_tab.requests]
    page.watched_tab.requests.clear()
    return requests


def test_switches_beginnings_and_candidates_are_computed_here_and_the_sentence_by_the_server(page: Page, trace):
    page.open(s=SENTENCE, n=7).settle()
    wait_for_line(page, ALIKE)
    assert "model" in list_new_requests(page)
    edited = trace.edited(Without("scaling"), keep_target=False)
    assert turn_switch(page, HERE) == edited.target.text
    page.settle()
    assert "id" not in page.link  # the server has no such trace; the rest of the link makes it again
    assert list_new_requests(page) == []

    page.go(v="head", a="decoder.1.cross", h=1, n=7).settle()
    page.press("t")
    page.tab.wait_for_selector(".sheet-table")
    expected = edited["decoder.1.cross.pattern"].values[1]
    tables = [
        np.array([[float(cell.replace("−", "-")) for cell in row] for row in table])
        for table in page.tab.evaluate(TABLES)
    ]
    assert any(table.shape == expected.shape and np.allclose(table, expected, atol=1e-4) for table in tables)
    page.press("t")

    page.tab.click(SWITCH)
    wait_for_line(page, ALIKE)
    assert page.link["id"] == trace.id
    assert page.text(".translation") == trace.target.text

    page.go(v="output", s=SENTENCE).settle()
    beginning = f"{trace.target.text.split()[0]} reina"
    list_new_requests(page)
    page.tab.get_by_label("What if it had written").fill(beginning)
    page.press("Enter")
    wait_for_line(page, HERE)
    assert page.text(".translation") == trace.edited(Prefix(beginning)).target.text
    assert not [path for path in list_new_requests(page) if path == "trace" or path.endswith("/edit")]
    assert page.tab.locator(".problem").count() == 0


@pytest.mark.slow  # test_links.py opens links to changes
def test_a_link_to_what_was_computed_here_opens_as_the_server_computes_it(page: Page, trace):
    page.open(s=SENTENCE, n=7).settle()
    wait_for_line(page, ALIKE)
    text = turn_switch(page, HERE)
    page.tab.wait_for_load_state("networkidle")
    page.tab.reload()
    wait_for_line(page, BY_SERVER)
    assert page.text(".translation") == text
    assert page.tab.locator(".problem").count() == 0
    wait_for_line(page, ALIKE)


def test_what_only_the_server_knows_is_asked_of_its_own_run_of_the_change(page: Page, trace, telling: Telling):
    silence = Silence(telling.encoder.section, telling.encoder.head)
    page.open(s=SENTENCE, n=10).settle()
    wait_for_line(page, ALIKE)
    turn_switch(page, HERE, stop=10)
    page.tab.get_by_role("button", name="export", exact=True).click()
    page.tab.get_by_role("button", name="Let the server compute it too").click()
    wait_for_line(page, ALIKE)
    assert page.link["id"] == trace.edited(silence, keep_target=False).id
    assert page.tab.locator(".downloads a").count() > 0


def test_an_engine_that_computes_other_numbers_is_not_used(browser, model, trace, monkeypatch):
    list_parameters = model_page._list_parameters

    def list_wrong(transformer):
        for name, values in list_parameters(transformer):
            yield name, values + 0.01 if name == "decoder.0.ffn.inner.bias" else values

    monkeypatch.setattr(model_page, "_list_parameters", list_wrong)
    with open_page(browser, model) as page:
        page.open(s=SENTENCE, n=7).settle()
        wait_for_line(page, "computed by the server alone: this browser computes other numbers of decoder.0.ffn.inner")
        edited = trace.edited(Without("scaling"), keep_target=False)
        assert turn_switch(page, BY_SERVER) == edited.target.text
        assert page.link["id"] == edited.id
        wait_for_line(page, "computed by the server alone: this browser computes other numbers of ")


def test_a_model_that_is_too_large_stays_with_the_server_which_says_so(browser, model, trace):
    with (
        running(model, page_bytes=1000) as port,
        watch_tab(browser, f"http://127.0.0.1:{port}/") as watched_tab,
    ):
        page = Page(watched_tab).open(s=SENTENCE, n=7).settle()
        wait_for_line(page, "computed by the server alone: its weights have ")
        assert page.text(".computed-by").endswith("and a browser gets 1 kB at most")
        assert turn_switch(page, BY_SERVER) == trace.edited(Without("scaling"), keep_target=False).target.text


def test_with_a_key_the_browser_sends_it_for_the_model_too(browser, model):
    credentials = {"username": "anna", "password": KEY}
    with (
        running(model, ApiKeys([KEY])) as port,
        watch_tab(browser, f"http://127.0.0.1:{port}/", http_credentials=credentials) as watched_tab,
    ):
        page = Page(watched_tab).open(s=SENTENCE, n=7).settle()
        wait_for_line(page, ALIKE)


@contextmanager
def replaceable(browser: Any, directory: Any) -> Iterator[Page]:
    """Serve the model of a directory, loaded again when it is replaced, and open the page."""
    limits = Limits()
    app = create_app(load(directory), limits, languages=EN_ES, reload=lambda: load(directory))
    with running_app(app, limits) as port, watch_tab(browser, f"http://127.0.0.1:{port}/") as watched_tab:
        yield Page(watched_tab)


def replace_model(directory: Any) -> Model:
    """Put a model with other weights into the place of this one."""
    bundle = load(directory).bundle
    other = deepcopy(bundle.model)
    torch.manual_seed(2)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter += 0.02 * torch.randn_like(parameter)
    save_bundle(directory, other, bundle.tokenizer, step=1)
    return load(directory)


def test_after_a_model_is_replaced_its_numbers_never_meet_those_of_the_old_one(browser, tmp_path):
    directory = save_trained_model(tmp_path / "runs" / "best")
    old = load(directory).trace(SENTENCE)
    with replaceable(browser, directory) as page:
        page.open(s=SENTENCE, n=7).settle()
        wait_for_line(page, ALIKE)
        new_model = replace_model(directory)
        # The trace that is shown is the old model's, and so is every change to it.
        assert turn_switch(page, HERE) == old.edited(Without("scaling"), keep_target=False).target.text
        assert page.link["k"] == old.facts.model.sha256[:12]
        page.tab.fill("#pellucid-sentence", OTHER)
        page.press("Enter")
        page.tab.wait_for_function("text => document.title.startsWith(text)", arg=OTHER)
        wait_for_line(page, ALIKE)
        new = new_model.trace(OTHER)
        assert page.link["k"] == new.facts.model.sha256[:12] != old.facts.model.sha256[:12]
        assert page.text(".translation") == new.target.text
        assert turn_switch(page, HERE) == new.edited(Without("scaling"), keep_target=False).target.text
