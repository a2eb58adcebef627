"""Tests of the switches of the story, drawn translations and typed beginnings: each shows what Python computes."""

import pytest

from pellucid.interpret.trace import Drawing, Hide, Prefix, Silence, Without
from pellucid.interpret.trace.session import Trace
from tests.browser.reading import Page
from tests.browser.small import SENTENCE
from tests.browser.watched import watch_tab
from tests.page.telling import Telling

SWITCH = ".without [role=switch]"


def list_stops(trace: Trace, telling: Telling) -> dict[int, Without | Silence | Hide]:
    """What each stop with a switch leaves out."""
    word = trace.source.words[telling.piece]
    assert word is not None
    return {
        4: Without("positions"),
        7: Without("scaling"),
        8: Without("mask"),
        10: Silence(telling.encoder.section, telling.encoder.head),
        11: Without("residual"),
        12: Hide(word),
    }


CHANGE_TEMPERATURE = """value => {
    const slider = document.querySelector('.drawing input');
    slider.value = value;
    slider.dispatchEvent(new Event('input', { bubbles: true }));
}"""


@pytest.mark.slow  # test_computed_here.py turns the switch of one stop
def test_a_stop_can_be_seen_without_what_it_explains_and_the_story_goes_on_with_the_model_as_it_is(
    page: Page, trace, telling
):
    page.open(s=SENTENCE, n=1).settle()
    for stop, edit in list_stops(trace, telling).items():
        page.tab.get_by_role("button", name=f"Stop {stop}:").click()
        page.settle()
        page.wait_until("() => !document.querySelector('.busy:not(:empty)') && !location.hash.includes('&e=')")
        page.tab.click(SWITCH)
        page.tab.wait_for_selector(".without-pair")
        page.settle()
        edited = trace.edited(edit, keep_target=edit == Without("mask"))
        texts = page.tab.locator(".without-pair b").all_inner_texts()
        assert texts[0] == trace.target.text
        # Without the residual, pieces in another order have the same probability but for rounding.
        assert texts[1] == (edited.target.text or "an empty translation") or edit == Without("residual"), stop
        assert page.tab.locator(".without-pair canvas").count() == 2
        before, after = page.tab.locator(".without-pair canvas").evaluate_all(
            "all => all.map(canvas => canvas.toDataURL())"
        )
        assert (before == after) is False, stop
        page.watched_tab.save_picture(f"without-{stop}")
    page.tab.click(SWITCH)
    page.wait_until("() => !location.hash.includes('&e=')")
    assert page.text(".translation") == trace.target.text


def test_without_scaling_the_story_does_not_claim_a_division(page: Page):
    page.open(s=SENTENCE, n=6).press("PageDown").settle()
    assert "= " in page.text(".story-text")
    page.tab.click(SWITCH)
    page.wait_until("() => document.querySelector('.story-text').innerText.includes('nothing is divided')")


def test_a_file_says_that_a_switch_needs_the_server(browser, trace, tmp_path):
    trace.save_html(tmp_path / "trace.html", "maps")
    with watch_tab(browser, (tmp_path / "trace.html").as_uri()) as watched_tab:
        page = Page(watched_tab).open(n=7)
        assert page.tab.locator(SWITCH).count() == 0
        [sentence] = [line for line in page.text(".story-panel").splitlines() if "without the division" in line]
        assert sentence.endswith("open the model with “pellucid serve”.")


def test_a_translation_is_drawn_with_the_settings_shown_and_a_link_to_it_draws_the_same(page: Page, model, trace):
    page.open(s=SENTENCE, v="output", t=1).settle()
    page.tab.evaluate(CHANGE_TEMPERATURE, 1.7)
    page.tab.get_by_role("button", name="Draw a translation").click()
    page.tab.wait_for_selector(".drawn-translation b")
    drawn = model.trace(SENTENCE, drawing=Drawing(temperature=1.7, seed=2))
    assert page.tab.locator(".drawn-translation b").all_inner_texts() == [
        drawn.target.text or "an empty translation",
        trace.target.text,
    ]
    assert page.link["d"] == '{"temperature":1.7,"top_k":0,"top_p":1,"seed":2}'
    address = page.tab.url
    page.tab.get_by_role("button", name="back to it").click()
    page.wait_until("text => document.querySelector('.translation').innerText === text", trace.target.text)
    page.tab.wait_for_load_state("networkidle")
    page.tab.goto("about:blank")
    page.tab.goto(address.replace(f"id={drawn.id}&", ""))
    page.tab.wait_for_selector(".translation")
    assert page.text(".translation") == (drawn.target.text or "an empty translation")


@pytest.mark.parametrize("view", ["beam", pytest.param("output", marks=pytest.mark.slow)])
def test_another_beginning_is_typed_and_its_trace_opens(page: Page, trace, view):
    page.open(s=SENTENCE, v=view, t=2).settle()
    field = page.tab.get_by_label("What if it had written")
    assert trace.target.text.startswith(field.input_value().strip())
    beginning = f"{trace.target.text.split()[0]} reina"
    field.fill(beginning)
    page.press("Enter")
    edited = trace.edited(Prefix(beginning))
    page.wait_until("text => document.querySelector('.translation').innerText === text", edited.target.text)
    assert edited.target.text.startswith(beginning)
    assert page.view == view
    assert len(edited.tree.nodes) > 0
