"""The views of the page against a running server: the story by keyboard, accounts, beam, heads, edits and files."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from pellucid.data.tokenizer import EOS
from pellucid.interpret.trace.session import Trace
from tests.page.browser import open_tab
from tests.serve.servers import running
from tests.trace.traced import small_traced

SENTENCE, BEAM = "The ball is blue.", 2
SIZES: dict[str, Any] = {"ends": 12.0, "d_model": 12, "heads": 3, "encoder_layers": 1, "decoder_layers": 2}


@pytest.fixture(scope="module")
def trace() -> Trace:
    return small_traced(**SIZES).trace(SENTENCE, beam=BEAM)


@pytest.fixture(scope="module")
def tab() -> Iterator[Any]:
    with running(small_traced(**SIZES)) as port, open_tab(viewport={"width": 1440, "height": 900}) as tab:
        tab.goto(f"http://127.0.0.1:{port}/")
        tab.set_default_timeout(30000)
        yield tab


@pytest.fixture(autouse=True)
def fresh_tab(tab: Any, trace: Trace) -> None:
    """Bring the tab back to the sentence's own trace, at its first step, without edits or story."""
    if f"id={trace.id}&" not in tab.url:
        tab.fill("#pellucid-sentence", SENTENCE)
        tab.locator(".ask select").select_option(str(BEAM))
        tab.get_by_role("button", name="Translate").click()
        wait_until(tab, lambda: f"id={trace.id}&" in tab.url)
    tab.get_by_role("button", name="Learn", exact=True).click()
    tab.get_by_role("button", name="First step").click()
    tab.evaluate("document.activeElement.blur()")


def go_to(tab: Any, view: str) -> None:
    tab.locator(".tabs").get_by_role("button", name=view, exact=True).click()


def show_tables(tab: Any) -> None:
    """Show tables instead of pictures, whatever a test before this one has left."""
    tab.wait_for_selector(".bars")
    if not tab.locator(".bars-exact").count():
        tab.keyboard.press("t")
    tab.wait_for_selector(".bars-exact")


def wait_until(tab: Any, condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    # polled from outside, because the policy of the page lets no test put a condition into it
    for _ in range(160):
        if condition():
            return
        tab.wait_for_timeout(50)
    raise AssertionError("it never came about")


def parse_number(text: str) -> float:
    return float(text.replace("−", "-").replace("\u202f", ""))


@pytest.mark.slow  # so does tests/browser/test_flows.py
def test_the_story_is_walked_by_keyboard_and_every_stop_moves_the_picture(tab: Any):
    if tab.locator(".story-panel").count() == 0:
        tab.get_by_role("button", name="Tell the story").click()
    tab.locator(".story-stops button[aria-label^='Stop 1:']").click()
    tab.evaluate("document.activeElement.blur()")
    titles, views = [], []
    for stop in range(1, 15):
        tab.wait_for_selector(f".story-panel[aria-label='Story, stop {stop} of 14']")
        wait_until(tab, lambda: len(tab.inner_text(".story-text").strip()) > 20)
        titles.append(tab.inner_text(".story-panel h2"))
        # The address follows the picture, which may take a frame or two.
        tab.wait_for_timeout(100)
        views.append(tab.evaluate("new URLSearchParams(location.hash.slice(1)).get('v')"))
        assert tab.locator(".story-panel math").count() >= 1
        if stop not in (2, 14):  # the tokenizer and the search are no part of the model
            assert ".py, line" in tab.inner_text(".story-panel .source-line figcaption")
        assert len(tab.inner_text("main.centre")) > 20
        tab.keyboard.press("PageDown")
    assert len(set(titles)) == 14
    assert {"map", "tokens", "positions", "head", "block", "output", "beam"} <= set(views)
    tab.get_by_role("button", name="Leave").click()
    assert tab.locator(".story-panel").count() == 0


def test_values_are_hidden_by_the_space_bar_when_presenting(tab: Any):
    tab.get_by_role("button", name="Teach", exact=True).click()
    go_to(tab, "Output")
    tab.evaluate("document.activeElement.blur()")
    tab.keyboard.press(" ")
    tab.wait_for_selector(".bars .value-hidden")
    assert tab.locator(".bars .value-shown, .bars .bars-bar").count() == 0
    tab.keyboard.press(" ")
    tab.wait_for_selector(".bars .value-shown")
    assert tab.locator(".bars .value-hidden").count() == 0


def test_the_account_shown_is_that_of_the_trace(tab: Any, trace: Trace):
    go_to(tab, "Output")
    show_tables(tab)
    tab.wait_for_selector(".bars-exact.bars-signed")
    account = trace.account(0)
    rows = tab.locator("section[aria-label='What adds to the logit'] table").first.locator("tr").all()
    numbers = [parse_number(row.locator("td").last.inner_text()) for row in rows]
    groups = list(dict.fromkeys(part.group for part in account.parts))
    expected = [sum(part.value for part in account.parts if part.group == group) for group in groups]
    np.testing.assert_allclose(sorted(numbers), sorted(expected), rtol=1e-9, atol=1e-12)
    assert sum(numbers) == pytest.approx(account.logit, rel=1e-4)
    tab.keyboard.press("t")


def test_the_probabilities_of_the_candidates_and_the_others_add_up_to_one(tab: Any, trace: Trace):
    go_to(tab, "Output")
    show_tables(tab)
    rows = tab.locator("section[aria-label='What could come next'] tr td:last-child").all_inner_texts()
    numbers = [parse_number(text) for text in rows]
    logits = trace["logits"].values[0].astype(np.float64)
    probabilities = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    np.testing.assert_allclose(numbers[:-1], np.sort(probabilities)[::-1][: len(numbers) - 1], rtol=1e-5)
    assert sum(numbers) == pytest.approx(1.0, abs=1e-6)
    tab.keyboard.press("t")


def test_every_candidate_is_a_node_and_the_search_continues_from_a_pruned_one(tab: Any, trace: Trace):
    assert trace.tree is not None
    go_to(tab, "Beam")
    tab.locator(".beam-body input[type=range]").fill("4")
    nodes = len(trace.tree.nodes)
    wait_until(tab, lambda: tab.locator(".beam-node").count() == nodes)
    for fate in ("kept", "pruned", "finished"):
        expected = sum(node.fate == fate for node in trace.tree.nodes)
        assert tab.locator(f".beam-node.beam-{fate}").count() == expected
    first_pieces = [node for node in trace.tree.nodes if node.parent is None and node.piece_id != EOS]
    pruned = next(node for node in first_pieces if node.fate == "pruned")
    tab.locator(f"[data-node='{pruned.id}']").click()
    tab.get_by_role("button", name="Continue the search from here").click()
    first = tab.locator(".scrubber .piece").nth(1)
    wait_until(tab, lambda: first.inner_text().startswith(pruned.piece))
    go_to(tab, "Compare")
    assert tab.locator("section[aria-label='Before and after'] tbody tr").count() >= len(trace.steps)


def test_entropy_and_largest_weight_of_every_head_are_those_of_numpy(tab: Any, trace: Trace):
    go_to(tab, "Heads")
    names = [name for name in trace.names if name.endswith(".pattern")]
    wait_until(tab, lambda: tab.locator(".heads-measured .value-shown").count() == 2 * 3 * len(names))
    numbers = [parse_number(text) for text in tab.locator(".heads-measured .value-shown").all_inner_texts()]
    expected = []
    for name in names:
        for weights in trace[name].values:
            logs = np.log(weights, out=np.zeros_like(weights), where=weights > 0)
            expected += [weights.max(axis=1).mean(), -(weights * logs).sum(axis=1).mean()]
    np.testing.assert_allclose(numbers, expected, atol=0.0051)


def test_hiding_a_word_shows_both_runs_side_by_side(tab: Any, trace: Trace):
    go_to(tab, "Debug")
    tab.get_by_label("Hide the word").select_option("1")
    tab.locator("section[aria-label='Change the run']").get_by_role("button", name="Add", exact=True).first.click()
    tab.get_by_role("button", name="Run with this change").click()
    rows = tab.locator("section[aria-label='Before and after'] tbody tr")
    rows.first.wait_for()
    numbers = [parse_number(text) for text in rows.locator("td:last-child").all_inner_texts()]
    hidden = trace.edited({"kind": "hide", "word": 1}, keep_target=True)
    expected = [
        after.chosen.log_prob - before.chosen.log_prob for before, after in zip(trace.steps, hidden.steps, strict=True)
    ]
    np.testing.assert_allclose(numbers, expected, atol=0.0051)
    tab.get_by_role("button", name="Undo all changes").click()
    tab.wait_for_selector("text=Run with these changes")


def test_a_tensor_is_saved_as_numpy_reads_it(tab: Any, trace: Trace, tmp_path):
    go_to(tab, "Export")
    tab.locator("section[aria-label='One tensor'] select").first.select_option("decoder.1.cross.pattern")
    with tab.expect_download() as download:
        tab.get_by_role("button", name="NPZ for numpy").click()
    download.value.save_as(tmp_path / "one.npz")
    with np.load(tmp_path / "one.npz", allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["decoder.1.cross.pattern"], trace.tensor("decoder.1.cross.pattern"))
    with tab.expect_download() as download:
        tab.get_by_role("button", name="PNG").click()
    download.value.save_as(tmp_path / "one.png")
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")
