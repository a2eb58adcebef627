"""A link shows what it names, in a tab and on a server that know nothing yet, or says that it cannot."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pellucid.api import load
from pellucid.store.directory import save_bundle
from tests.browser.reading import Page
from tests.browser.small import OTHER, SENTENCE, tokenizer
from tests.browser.watched import watch_tab
from tests.decode.models import random_model
from tests.serve.servers import running

SILENT = {"kind": "silence", "attention": "decoder.2.cross", "head": 1}
HIDDEN = {"kind": "hide", "word": 2}


@pytest.fixture(scope="module")
def other_server(directory: Path) -> Iterator[str]:
    """A server of the same model that has seen no trace."""
    with running(load(directory, engine="auto")) as port:  # as the command loads it
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture(scope="module")
def other_model_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of another model with the same pieces."""
    size = tokenizer().source_vocabulary
    directory = tmp_path_factory.mktemp("runs") / "other" / "best"
    save_bundle(directory, random_model(7, size, size, encoder_layers=1, decoder_layers=1), tokenizer(), step=1)
    with running(load(directory)) as port:
        yield f"http://127.0.0.1:{port}/"


FIND_WRITTEN_PIECES = "all => all.map(each => /writes (.*), probability/.exec(each.ariaLabel)[1])"


def close_to(value: float) -> Any:
    """Compare with a number that is written with two decimals."""
    return pytest.approx(value, abs=0.00501)


def numbers_in(text: str) -> list[float]:
    return [float(number.replace("−", "-")) for number in re.findall(r"[−\d.]+", text)]


def shown_facts(page: Page) -> tuple[str, str, str]:
    """The id of the trace shown, its translation, and its score as it is written.

    A trace that the page computed by itself, as it does once it has checked its engine, has no id.
    """
    return page.link.get("id", ""), page.text(".translation"), page.text(".score")


def without_notes(facts: str) -> str:
    """Take the number of notes away from what is written beside a score."""
    return re.sub(r"\d+ notes?$", "", facts)


def post(page: Page, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Post a request to the server, and return its answer."""
    answer = page.tab.request.post(f"{page.watched_tab.home}{path}", data=body)
    assert answer.ok, answer.text()
    return answer.json()


def post_requests(page: Page) -> dict[str, dict[str, Any]]:
    """Make traces of every kind on this server, by the name of the kind."""
    plain_trace = post(page, "trace", {"sentence": SENTENCE})
    ids = plain_trace["target"]["ids"]
    node = next(node for node in plain_trace["tree"]["nodes"] if node["step"] == 0 and not node["best"])
    requests = {
        "a sentence": {},
        "tags around": {"sentence": f"<b>{SENTENCE}</b>"},
        "a translation that was given": {"target": "La reina bebe."},
        "changes and the same translation": {"edits": [HIDDEN], "target_ids": ids},
        "a beginning as text": {"edits": [{"kind": "prefix", "text": "Mi"}]},
        "everything": {"edits": [SILENT], "prefix_ids": [node["piece_id"]], "beam": 2},
    }
    traces = {
        name: post(page, "trace", {"sentence": SENTENCE, **more_fields}) for name, more_fields in requests.items()
    }
    assert len({trace["id"] for trace in traces.values()}) == len(requests)
    return traces


# "Everything" has changes, a beginning and a beam; a given translation and tags are stored in other fields.
@pytest.mark.parametrize(
    "kinds",
    [
        ["tags around", "a translation that was given", "everything"],
        pytest.param(["a sentence", "changes and the same translation", "a beginning as text"], marks=pytest.mark.slow),
    ],
)
def test_a_link_of_every_kind_shows_the_same_on_a_new_server(browser: Any, page: Page, other_server: str, kinds):
    page.tab.goto(page.watched_tab.home)
    traces = post_requests(page)
    for name in kinds:
        trace = traces[name]
        page.tab.goto("about:blank")
        page.tab.goto(f"{page.watched_tab.home}#v=output&id={trace['id']}")
        page.tab.wait_for_selector(".translation")
        expected, fragment = shown_facts(page), page.tab.url.partition("#")[2]
        assert expected[:2] == (trace["id"], trace["target"]["text"]), name
        with watch_tab(browser, other_server) as tab:
            fresh = Page(tab)
            fresh.tab.goto(f"{other_server}#{fragment}")
            fresh.tab.wait_for_selector(".translation")
            assert shown_facts(fresh) == expected, name
            assert fresh.tab.get_by_role("alert").count() == 0, name
            assert fresh.tab.url.partition("#")[2] == fragment, name
            assert fresh.tab.input_value("#pellucid-sentence") == trace["sentence"]
            assert fresh.tab.input_value(".beam-width select") == str(trace["run"]["search"]["beam"])
            not_found = "the server responded with a status of 404"  # what a browser says of a trace that is made again
            tab.complaints[:] = [complaint for complaint in tab.complaints if not_found not in complaint]


def test_an_edit_made_on_the_page_is_part_of_its_link(browser: Any, page: Page, other_server: str):
    page.open(s=SENTENCE, v="debug")
    before = page.text(".translation")
    changes = page.tab.get_by_role("region", name="Change the run")
    changes.get_by_label("Hide the word").select_option("2")
    changes.get_by_role("button", name="Add").first.click()
    changes.get_by_role("checkbox").uncheck()
    changes.get_by_role("button", name="Run with this change").click()
    page.wait_until("before => document.querySelector('.translation').textContent !== before", before)
    fragment = page.tab.url.partition("#")[2]
    with watch_tab(browser, other_server) as tab:
        fresh = Page(tab)
        fresh.tab.goto(f"{other_server}#{fragment}")
        fresh.tab.wait_for_selector(".translation")
        # Which of the two pages computes by itself already is a matter of time. Without the ids, then, and without the
        # server's note that its search was run by torch.
        shown, expected = ([*map(without_notes, shown_facts(one)[1:])] for one in (fresh, page))
        assert shown == expected
        tab.complaints.clear()  # that the trace is not there yet
    page.tab.go_back()
    page.wait_until("before => document.querySelector('.translation').textContent === before", before)


@pytest.mark.parametrize(
    "more_fields", [pytest.param({}, marks=pytest.mark.slow), {"edits": [SILENT], "target_ids": [41, 43, 3]}]
)
def test_a_link_of_another_model_is_refused_with_a_sentence(
    browser: Any, page: Page, other_model_server: str, more_fields
):
    page.tab.goto(page.watched_tab.home)
    trace = post(page, "trace", {"sentence": SENTENCE, **more_fields})
    page.tab.goto("about:blank")
    page.tab.goto(f"{page.watched_tab.home}#id={trace['id']}")
    page.tab.wait_for_selector(".translation")
    fragment = page.tab.url.partition("#")[2]
    with watch_tab(browser, other_model_server) as tab:
        fresh = Page(tab)
        fresh.tab.goto(f"{other_model_server}#{fragment}")
        alert = fresh.tab.get_by_role("alert")
        fresh.wait_until("() => document.querySelector('[role=alert]')?.innerText.includes('another model')")
        assert trace["model"]["sha256"][:12] in alert.inner_text()
        assert "other/best" in alert.inner_text()
        assert fresh.tab.locator(".translation").count() == 0
        tab.complaints.clear()  # the browser's own words for both refusals
        fresh.tab.get_by_role("button", name="Translate").click()  # the sentence stands in the box
        fresh.tab.wait_for_selector(".translation")
        assert fresh.tab.get_by_role("alert").count() == 0


def test_a_link_that_was_cut_off_or_changed_says_so(page: Page):
    page.tab.goto(f"{page.watched_tab.home}#s={SENTENCE}&e=%5B%7B%22kind")
    assert "its list of edits cannot be read" in page.tab.get_by_role("alert").inner_text()
    assert page.tab.locator(".translation").count() == 0
    page.open(s=SENTENCE)
    page.tab.wait_for_selector(".translation")
    link = dict(page.link)
    page.go(**{**link, "s": OTHER})
    page.wait_until("() => document.querySelector('[role=alert]')?.innerText.includes('names another run')")
    assert page.link["s"] == OTHER
    page.wait_until("text => document.querySelector('#pellucid-sentence').value === text", OTHER)


@pytest.mark.slow  # so does web/test/state.test.ts
def test_a_file_says_that_a_link_is_of_another_translation(browser: Any, model, tmp_path: Path):
    files = [tmp_path / "one.html", tmp_path / "other.html"]
    for file, sentence in zip(files, (SENTENCE, OTHER), strict=True):
        model.trace(sentence).save_html(file)
    with watch_tab(browser, files[0].as_uri()) as tab:
        tab.tab.goto(f"{files[0].as_uri()}#v=output")
        tab.tab.wait_for_selector(".centre .view")
        fragment = tab.tab.url.partition("#")[2]
        assert tab.tab.get_by_role("alert").count() == 0
    with watch_tab(browser, files[1].as_uri()) as tab:
        tab.tab.goto(f"{files[1].as_uri()}#{fragment}")
        tab.tab.wait_for_selector(".centre .view")
        assert f"another translation than this file, which holds “{OTHER}”" in tab.tab.inner_text("[role=alert]")


def test_the_title_of_the_tab_names_the_sentence_and_the_model(page: Page, model):
    page.tab.goto(page.watched_tab.home)
    assert page.tab.title() == "Pellucid"
    page.open(s=SENTENCE)
    assert page.tab.title() == f"{SENTENCE} · small/best · Pellucid"
    page.tab.fill("#pellucid-sentence", OTHER)
    page.press("Enter")
    page.wait_until("title => document.title === title", f"{OTHER} · small/best · Pellucid")


@pytest.mark.slow  # test_flows.py opens some nodes of a beam
def test_every_hypothesis_of_the_beam_opens_as_its_own_trace(page: Page, model):
    page.open(s=SENTENCE, b=2, v="beam")
    tree = model.trace(SENTENCE, beam=2).tree
    slider = page.tab.get_by_role("slider")
    slider.fill(slider.get_attribute("max"))
    searched = page.link["id"]
    winner = next(node for node in tree.nodes if node.best and node.fate == "finished")
    assert {node.fate for node in tree.nodes} == {"kept", "pruned", "finished"}
    for node in tree.nodes:
        path = [node]
        while path[0].parent is not None:
            path.insert(0, tree.nodes[path[0].parent])
        page.tab.locator(f'[data-node="{node.id}"]').click()
        if node.id == winner.id:
            page.wait_until("searched => location.hash.includes(searched)", searched)
        else:
            ids = ".".join(str(ancestor.piece_id) for ancestor in path)
            page.wait_until("ids => new URLSearchParams(location.hash.slice(1)).get('w') === ids", ids)
        assert page.tab.get_by_role("alert").count() == 0
        assert page.tab.evaluate("() => document.activeElement.dataset.node") == str(node.id)
        steps = page.tab.locator(".step-line [aria-label^=Step]").evaluate_all(FIND_WRITTEN_PIECES)
        assert steps == [ancestor.piece for ancestor in path]
        log_prob, score = numbers_in(page.text(".score"))[:2]
        assert (log_prob, score) == (close_to(node.total), close_to(node.score))
