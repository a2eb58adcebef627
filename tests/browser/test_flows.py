"""Tests of a learner's way through the page: a sentence, the story, in and out of views, and from step to step."""

import re

import numpy as np
import pytest

from tests.browser.reading import Page, format_number
from tests.browser.small import OTHER, SENTENCE
from tests.browser.watched import watch_tab

CROSS = "decoder.2.cross"
FOLLOW = (0x0B, 0x70, 0x55)  # on light paper


def test_a_sentence_is_typed_and_translated(page: Page, model):
    page.tab.goto(page.watched_tab.home)
    page.tab.get_by_role("textbox", name="Sentence to translate").wait_for()
    page.press("/")
    page.tab.keyboard.type(SENTENCE)
    page.press("Enter")
    page.tab.wait_for_selector(".translation")
    assert page.text(".translation") == model.translate([SENTENCE])[0].text
    assert page.view == "map"
    page.tab.keyboard.press("Escape")
    page.watched_tab.save_picture("translated")
    page.tab.fill("#pellucid-sentence", OTHER)
    page.press("Enter")
    translation = model.translate([OTHER])[0].text
    page.wait_until("text => document.querySelector('.translation').textContent === text", translation)
    sent = [url for url in page.watched_tab.requests if url.startswith(page.watched_tab.home)]
    assert len(sent) == len(page.watched_tab.requests)
    assert not any("queen" in url for url in sent)  # a sentence never stands in an address that a server sees


def test_all_checks_of_the_run_are_passed_and_listed(page: Page, trace):
    page.open(s=SENTENCE, v="checks")
    checks = trace.checks()
    performed = [check for check in checks if check.value is not None]
    assert all(check.passed for check in checks)
    page.wait_until(
        "text => document.querySelector('.footer').innerText.includes(text)",
        f"{len(performed)} of {len(performed)} passed",
    )
    names = page.tab.locator(".checks-body tbody tr th").all_inner_texts()
    assert names == [check.name for check in checks]
    assert page.tab.locator(".check-failed").count() == 0


def test_the_story_has_fourteen_complete_stops(page: Page, site, trace):
    page.open(s=SENTENCE, n=1)
    titles, views = [], []
    for stop in range(1, 15):
        panel = page.tab.get_by_role("region", name=f"Story, stop {stop} of 14")
        panel.wait_for()
        page.wait_until("() => document.querySelector('.story-text')?.innerText.trim().length > 20").settle()
        titles.append(panel.locator("h2").inner_text())
        views.append(page.view)
        assert panel.locator("math").count() >= 1, stop
        assert panel.locator(".story-try").inner_text().startswith("Try: "), stop
        assert page.tab.locator(".centre .missing-note").count() == 0, stop
        if stop in (2, 14):  # the tokenizer and the search are no part of the model
            assert panel.locator(".source-line").count() == 0
            page.press("PageDown")
            continue
        caption = panel.locator(".source-line figcaption").inner_text()
        [(file, line)] = re.findall(r"made in (\S+), line (\d+):", caption)
        source_line = (site / "pellucid" / file).read_text(encoding="utf-8").splitlines()[int(line) - 1]
        assert panel.locator(".source-line mark").inner_text() == source_line.strip()
        page.watched_tab.save_picture(f"stop-{stop:02}")
        page.press("PageDown")
    assert len(set(titles)) == 14
    assert {"map", "tokens", "positions", "head", "block", "output", "beam"} == set(views)
    page.press("PageUp")
    page.tab.get_by_role("region", name="Story, stop 13 of 14").wait_for()


def test_every_zoom_level_is_reached_with_the_keyboard_alone(page: Page, trace):
    page.open(s=SENTENCE, v="map")
    levels = [page.view]
    tab_to(page, r"decoder.* layer 3.*cross-attention.*: open", "button")
    page.press("Enter")
    levels.append(page.view)
    assert page.link["a"] == CROSS
    tab_to(page, r"cross-attention.*head 2 .*of 4: open", "button")
    page.press("Enter")
    levels.append(page.view)
    assert page.link["h"] == "1"
    page.press("]", "]", "[")
    page.wait_until("() => location.hash.includes('h=2')")
    tab_to(page, r".*", "gridcell", inside="pattern")
    page.press("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight", "Enter")
    page.tab.wait_for_selector(".cell-receipt")
    levels.append(page.view)
    index = [int(i) for i in page.link["i"].split(".")]
    assert page.link["x"] == f"{CROSS}.pattern"
    assert index[0] == 2
    captured = page.tab.locator(".cell-receipt dd").first.inner_text()
    assert captured == format_number(trace[f"{CROSS}.pattern"].values[tuple(index)])
    page.watched_tab.save_picture("cell")
    for _ in range(3):
        page.press("Escape")
        page.tab.wait_for_timeout(50)
        levels.append(page.view)
    assert levels == ["map", "block", "head", "cell", "head", "block", "map"]


def test_a_followed_piece_is_outlined_in_every_matrix(page: Page, trace):
    page.open(s=SENTENCE, v="head", a="encoder.1.self", h=2).settle()
    side = page.tab.get_by_role("complementary", name="Pieces")
    side.get_by_role("button", name=without_space_mark(trace.source.pieces[2])).click()
    page.settle()
    assert page.link["f"] == "S2"
    map_labels = ("products", "scores", "pattern")
    for label in ("q", "kᵀ", "v", "head output", *map_labels):
        rows, cols = page.sheet(label).find_outlines(FOLLOW, away=5)
        assert rows == (set() if label == "kᵀ" else {2, 3}), label  # the lines above row 2 and above row 3
        assert cols == ({2, 3} if label in ("kᵀ", *map_labels) else set()), label
    page.watched_tab.save_picture("followed")
    page.go(v="map", f="S2").settle()
    assert page.tab.locator(".piece-chip[aria-pressed=true]").count() == 1
    page.press("Escape").settle()
    assert "f" not in page.link
    assert page.tab.locator(".piece-chip[aria-pressed=true]").count() == 0


def test_the_row_of_q_and_the_column_of_k_meet_at_their_product(page: Page, trace):
    page.open(s=SENTENCE, v="head", a="encoder.0.self", h=0, r=3, c=1).settle()
    cells = {"q": (3, 0), "kᵀ": (0, 1), "products": (3, 1), "v": (0, 2), "head output": (3, 2)}
    # The first q is the one that x and W_Q make, further up.
    centres = {label: page.sheet(label, -1).locate(*cell) for label, cell in cells.items()}
    assert centres["q"][1] == pytest.approx(centres["products"][1], abs=0.6)
    assert centres["kᵀ"][0] == pytest.approx(centres["products"][0], abs=0.6)
    assert centres["v"][0] == pytest.approx(centres["head output"][0], abs=0.6)
    for label, figure in (("q", "kᵀ"), ("pattern", "v")):
        left, above = (page.sheet(name, -1).figure.bounding_box() for name in (label, figure))
        assert left["x"] + left["width"] <= above["x"] + 1
        assert above["y"] + above["height"] <= left["y"] + 1


@pytest.mark.article("A27", "B24")
def test_the_heads_stand_side_by_side_and_meet_w_o_at_their_output(page: Page, trace):
    page.open(s=SENTENCE, v="block", a="encoder.0.self").settle()
    heads, positions, width = trace["encoder.0.self.head_output"].values.shape
    side_by_side, w_o = page.sheet("heads side by side"), page.sheet("W_O")
    output = page.sheet("encoder.0.self.output")
    assert side_by_side.shape() == (positions, heads * width)
    assert w_o.shape() == (heads * width, trace.config.d_model)
    assert output.shape() == (positions, trace.config.d_model)
    # A row of the heads and a column of W_O cross at the number that they make.
    assert side_by_side.locate(2, 0)[1] == pytest.approx(output.locate(2, 0)[1], abs=0.6)
    assert w_o.locate(0, 2)[0] == pytest.approx(output.locate(0, 2)[0], abs=0.6)


def test_the_step_scrubber_shows_each_step_with_its_pieces(page: Page, trace):
    page.open(s=SENTENCE, v="output")
    step_text = page.tab.locator(".step-says")
    for step in trace.steps:
        text = step_text.inner_text()
        assert text.startswith(f"step {step.step + 1} of {len(trace.steps)}: reads ")
        assert without_space_mark(step.input) in without_space_mark(text)
        assert without_space_mark(step.chosen.piece) in without_space_mark(text)
        assert page.link["t"] == str(step.step)
        page.press(".")
        page.tab.wait_for_timeout(30)
    page.tab.get_by_role("button", name="First step").click()
    assert step_text.inner_text().startswith("step 1 of")
    page.tab.get_by_role("button", name=re.compile(r"^Step 4: writes")).click()
    assert step_text.inner_text().startswith("step 4 of")
    page.watched_tab.save_picture("output")


def test_the_search_continues_from_a_node_of_the_beam(page: Page, trace):
    page.open(s=SENTENCE, v="beam")
    page.tab.wait_for_selector(".beam-node")
    shown_nodes = {int(node.get_attribute("data-node")): node for node in page.tab.locator(".beam-node").all()}
    pruned = next(
        node for node in trace.tree.nodes if node.step == 1 and node.fate == "pruned" and node.id in shown_nodes
    )
    before = page.link
    shown_nodes[pruned.id].click()
    picked = page.tab.get_by_role("region", name="The candidate picked")
    assert f"rank {pruned.rank} of its step, pruned" in picked.inner_text()
    numbers = [float(title) for title in picked.locator("[title]").evaluate_all("all => all.map(each => each.title)")]
    assert numbers == pytest.approx([pruned.log_prob, pruned.total, pruned.score], rel=1e-4, abs=1e-5)
    page.watched_tab.save_picture("beam")
    page.wait_for_other_question(before)
    before = page.link
    picked.get_by_role("button", name="Continue the search from here").click()
    page.wait_for_other_question(before)
    prefix = [node.piece for node in (trace.tree.nodes[pruned.parent], pruned)]
    inputs = page.tab.locator(".side section").nth(1).locator("li").all_inner_texts()
    assert [without_space_mark(text) for text in inputs[1:3]] == [without_space_mark(piece) for piece in prefix]


def test_one_click_on_any_node_of_the_beam_shows_its_trace_and_the_winner_brings_the_translation_back(
    page: Page, trace
):
    page.open(s=SENTENCE, v="beam")
    page.tab.wait_for_selector(".beam-node")
    translation, searched = page.text(".translation"), page.link["id"]
    shown = {int(node.get_attribute("data-node")) for node in page.tab.locator(".beam-node").all()}
    winner = next(node for node in trace.tree.nodes if node.best and node.fate == "finished")
    others = [node for node in trace.tree.nodes if node.fate != "kept" and not node.best and node.id in shown]
    for node in (others[0], next(node for node in others if node.fate == "finished"), others[-1]):
        before = page.link
        page.tab.locator(f"[data-node='{node.id}']").click()
        page.wait_for_other_question(before)
        pieces, step = [], node
        while step is not None:
            pieces.insert(0, step.piece)
            step = None if step.parent is None else trace.tree.nodes[step.parent]
        written = page.tab.locator(".steps button.piece").all_inner_texts()
        assert [without_space_mark(text) for text in written] == [without_space_mark(piece) for piece in pieces]
        assert page.tab.locator(f"[data-node='{node.id}']").get_attribute("aria-pressed") == "true"
        assert page.view == "beam"
    page.tab.locator(f"[data-node='{winner.id}']").click()
    page.wait_until("searched => location.hash.includes(searched)", searched)
    assert page.text(".translation") == translation


def test_a_link_shows_the_same_place_to_another_reader(page: Page, browser, trace):
    page.open(s=SENTENCE, v="head", a=CROSS, h=3, t=4, f="S2")
    page.settle()
    with watch_tab(browser, page.watched_tab.home) as watched_tab:
        other_page = Page(watched_tab)
        other_page.tab.goto(page.tab.url)
        other_page.tab.wait_for_selector(".centre figure.sheet canvas")
        other_page.settle()
        for either in (page, other_page):
            either.wait_until(
                "() => document.querySelector('.computed-by').innerText.startsWith('computed by the server')"
            )
        assert other_page.tab.url == page.tab.url
        assert other_page.text(".pellucid") == page.text(".pellucid")
        assert other_page.pictures() == page.pictures()
        assert len(page.pictures()) > 8


def test_a_link_typed_into_an_open_page_shows_its_own_sentence(page: Page, model):
    page.open(s=SENTENCE, v="beam")
    page.go(s=OTHER, v="output", t=2)
    page.wait_until(
        "text => document.querySelector('.translation').textContent === text", model.translate([OTHER])[0].text
    )
    assert (page.view, page.link["t"], page.link["s"]) == ("output", "2", OTHER)


def tab_to(page: Page, name: str, role: str, inside: str = "") -> None:
    """Press Tab until the focus is on the element with this role and name, in the sheet of this label if any."""
    for _ in range(150):
        page.press("Tab")
        focused_role, label, sheet = page.tab.evaluate(
            """() => {
                const focus = document.activeElement;
                const sheet = focus.closest("figure.sheet")?.querySelector(".sheet-label")?.textContent ?? "";
                const role = focus.getAttribute("role") ?? focus.tagName.toLowerCase();
                return [role, focus.getAttribute("aria-label") ?? focus.innerText, sheet];
            }"""
        )
        if focused_role == role and re.search(name, label, re.DOTALL) and (not inside or sheet == inside):
            return
    raise AssertionError(f"Tab never came to {role} {name!r}")


def without_space_mark(piece: str) -> str:
    """A piece without its space mark."""
    return piece.replace("\u2581", "").strip()


def test_temperature_top_k_and_top_p_redraw_the_bars_at_once(page: Page, trace):
    page.open(s=SENTENCE, v="output", t=1).settle()
    page.press("t")
    logits = trace["logits"].values[1].astype(np.float64)

    def read_bars() -> list[float]:
        cells = page.tab.locator("[data-subject=candidates] td:last-child").all_inner_texts()
        return [float(text.replace("−", "-")) for text in cells]

    def soften(temperature: float) -> np.ndarray:
        raised = np.exp((logits - logits.max()) / temperature)
        return np.sort(raised / raised.sum())[::-1]

    assert read_bars()[:-1] == pytest.approx(soften(1.0)[: len(read_bars()) - 1], rel=1e-4)
    page.tab.get_by_label("Temperature").fill("2")
    assert read_bars()[:-1] == pytest.approx(soften(2.0)[: len(read_bars()) - 1], rel=1e-4)
    page.tab.get_by_label("Top-k").select_option("2")
    likeliest = soften(2.0)[:2] / soften(2.0)[:2].sum()
    assert read_bars() == pytest.approx([*likeliest, *[0.0] * (len(read_bars()) - 2)], abs=1e-4)
    page.tab.get_by_role("button", name="As they are").click()
    assert read_bars()[:-1] == pytest.approx(soften(1.0)[: len(read_bars()) - 1], rel=1e-4)
