"""What a learner does: a sentence, the story, in and out again, and from step to step."""

import re

import pytest

from tests.browser.reading import Page, written
from tests.browser.small import OTHER, SENTENCE
from tests.browser.watched import watched

CROSS = "decoder.2.cross"
FOLLOW = (0x0B, 0x70, 0x55)  # on light paper


def test_a_sentence_is_typed_and_translated(page: Page, model):
    page.tab.goto(page.watched.home)
    page.tab.get_by_role("textbox", name="Sentence to translate").wait_for()
    page.press("/")
    page.tab.keyboard.type(SENTENCE)
    page.press("Enter")
    page.tab.wait_for_selector(".translation")
    assert page.text(".translation") == model.translate([SENTENCE])[0].text
    assert page.view == "map"
    page.tab.keyboard.press("Escape")
    page.watched.picture("translated")
    page.tab.fill("#pellucid-sentence", OTHER)
    page.press("Enter")
    again = model.translate([OTHER])[0].text
    page.until("text => document.querySelector('.translation').textContent === text", again)
    sent = [url for url in page.watched.asked if url.startswith(page.watched.home)]
    assert len(sent) == len(page.watched.asked)
    assert not any("queen" in url for url in sent)  # a sentence never stands in an address that a server sees


def test_the_checks_of_the_run_are_all_passed_and_told(page: Page, trace):
    page.open(s=SENTENCE, v="checks")
    checks = trace.checks()
    made = [check for check in checks if check.value is not None]
    assert all(check.passed for check in checks)
    assert f"{len(made)} of {len(made)} passed" in page.text(".footer")
    shown = page.tab.locator(".checks-body tbody tr th").all_inner_texts()
    assert shown == [check.name for check in checks]
    assert page.tab.locator(".check-failed").count() == 0


def test_all_fourteen_stops_of_the_story(page: Page, site, trace):
    page.open(s=SENTENCE, n=1)
    titles, views = [], []
    for stop in range(1, 15):
        panel = page.tab.get_by_role("region", name=f"Story, stop {stop} of 14")
        panel.wait_for()
        page.until("() => document.querySelector('.story-text')?.innerText.trim().length > 20").settled()
        titles.append(panel.locator("h2").inner_text())
        views.append(page.view)
        assert panel.locator("math").count() >= 1, stop
        assert panel.locator(".story-try").inner_text().startswith("Try: "), stop
        assert page.tab.locator(".centre .missing-note").count() == 0, stop
        said = panel.locator(".source-line figcaption").inner_text()
        [(file, line)] = re.findall(r"made in (\S+), line (\d+):", said)
        there = (site / "pellucid" / file).read_text(encoding="utf-8").splitlines()[int(line) - 1]
        assert panel.locator(".source-line code").inner_text() == there.strip()
        page.watched.picture(f"stop-{stop:02}")
        page.press("PageDown")
    assert len(set(titles)) == 14
    assert {"map", "tokens", "cell", "positions", "head", "block", "output", "beam"} == set(views)
    page.press("PageUp")
    page.tab.get_by_role("region", name="Story, stop 13 of 14").wait_for()


def test_every_zoom_level_with_the_keyboard_alone(page: Page, trace):
    page.open(s=SENTENCE, v="map")
    levels = [page.view]
    tab_to(page, r"decoder.* layer 3.*cross-attention.*: open", "button")
    page.press("Enter")
    levels.append(page.view)
    assert page.link["a"] == CROSS
    tab_to(page, r"cross-attention.*head 2 of 4: open", "button")
    page.press("Enter")
    levels.append(page.view)
    assert page.link["h"] == "1"
    page.press("]", "]", "[")
    page.until("() => location.hash.includes('h=2')")
    tab_to(page, r".*", "gridcell", inside="pattern")
    page.press("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight", "Enter")
    page.tab.wait_for_selector(".cell-receipt")
    levels.append(page.view)
    index = [int(i) for i in page.link["i"].split(".")]
    assert page.link["x"] == f"{CROSS}.pattern"
    assert index[0] == 2
    captured = page.tab.locator(".cell-receipt dd").first.inner_text()
    assert captured == written(trace[f"{CROSS}.pattern"].values[tuple(index)])
    page.watched.picture("cell")
    for _ in range(3):
        page.press("Escape")
        page.tab.wait_for_timeout(50)
        levels.append(page.view)
    assert levels == ["map", "block", "head", "cell", "head", "block", "map"]


def test_a_followed_piece_is_outlined_in_every_matrix(page: Page, trace):
    page.open(s=SENTENCE, v="head", a="encoder.1.self", h=2).settled()
    side = page.tab.get_by_role("complementary", name="Pieces")
    side.get_by_role("button", name=plain(trace.source.pieces[2])).click()
    page.settled()
    assert page.link["f"] == "S2"
    both = ("products", "scores", "pattern")
    for label in ("q", "k transposed", "v", "head output", *both):
        rows, cols = page.sheet(label).outlined(FOLLOW, away=5)
        assert rows == (set() if label == "k transposed" else {2, 3}), label  # the lines above row 2 and above row 3
        assert cols == ({2, 3} if label in (*both, "k transposed") else set()), label
    page.watched.picture("followed")
    page.go(v="map", f="S2").settled()
    assert page.tab.locator(".piece-chip[aria-pressed=true]").count() == 1
    page.press("Escape").settled()
    assert "f" not in page.link
    assert page.tab.locator(".piece-chip[aria-pressed=true]").count() == 0


def test_the_step_scrubber_goes_through_what_was_read_and_written(page: Page, trace):
    page.open(s=SENTENCE, v="output")
    says = page.tab.locator(".step-says")
    for step in trace.steps:
        said = says.inner_text()
        assert said.startswith(f"step {step.step + 1} of {len(trace.steps)}: reads ")
        assert plain(step.input) in plain(said)
        assert plain(step.chosen.piece) in plain(said)
        assert page.link["t"] == str(step.step)
        page.press(".")
        page.tab.wait_for_timeout(30)
    page.tab.get_by_role("button", name="First step").click()
    assert says.inner_text().startswith("step 1 of")
    page.tab.get_by_role("button", name=re.compile(r"^Step 4: writes")).click()
    assert says.inner_text().startswith("step 4 of")
    page.watched.picture("output")


def test_the_search_goes_on_from_a_node_of_the_beam(page: Page, trace):
    page.open(s=SENTENCE, v="beam")
    page.tab.wait_for_selector(".beam-node")
    shown = {int(node.get_attribute("data-node")): node for node in page.tab.locator(".beam-node").all()}
    pruned = next(node for node in trace.tree.nodes if node.step == 1 and node.fate == "pruned" and node.id in shown)
    shown[pruned.id].click()
    picked = page.tab.get_by_role("region", name="The candidate picked")
    assert f"rank {pruned.rank} of its step, pruned" in picked.inner_text()
    numbers = [float(title) for title in picked.locator("[title]").evaluate_all("all => all.map(each => each.title)")]
    assert numbers == pytest.approx([pruned.log_prob, pruned.total, pruned.score], rel=1e-4, abs=1e-5)
    page.watched.picture("beam")
    before = page.link["id"]
    picked.get_by_role("button", name="Continue the search from here").click()
    page.until("before => !location.hash.includes(before)", before)
    begins = [node.piece for node in (trace.tree.nodes[pruned.parent], pruned)]
    reads = page.tab.locator(".side section").nth(1).locator("li").all_inner_texts()
    assert [plain(text) for text in reads[1:3]] == [plain(piece) for piece in begins]


def test_a_link_shows_the_same_place_to_another_reader(page: Page, browser, trace):
    page.open(s=SENTENCE, v="head", a=CROSS, h=3, t=4, f="S2")
    page.settled()
    with watched(browser, page.watched.home) as found:
        other = Page(found)
        other.tab.goto(page.tab.url)
        other.tab.wait_for_selector(".centre figure.sheet canvas")
        other.settled()
        assert other.tab.url == page.tab.url
        assert other.text(".pellucid") == page.text(".pellucid")
        assert other.pictures() == page.pictures()
        assert len(page.pictures()) > 8


def test_a_link_typed_into_an_open_page_shows_its_own_sentence(page: Page, model):
    page.open(s=SENTENCE, v="beam")
    page.go(s=OTHER, v="output", t=2)
    page.until("text => document.querySelector('.translation').textContent === text", model.translate([OTHER])[0].text)
    assert (page.view, page.link["t"], page.link["s"]) == ("output", "2", OTHER)


def tab_to(page: Page, name: str, role: str, inside: str = "") -> None:
    """Presses Tab until the focus is on what has this role and name, in the sheet of this label where one is given."""
    for _ in range(150):
        page.press("Tab")
        said, label, sheet = page.tab.evaluate(
            """() => {
                const focus = document.activeElement;
                const sheet = focus.closest("figure.sheet")?.querySelector(".sheet-label")?.textContent ?? "";
                const role = focus.getAttribute("role") ?? focus.tagName.toLowerCase();
                return [role, focus.getAttribute("aria-label") ?? focus.innerText, sheet];
            }"""
        )
        if said == role and re.search(name, label, re.DOTALL) and (not inside or sheet == inside):
            return
    raise AssertionError(f"Tab never came to {role} {name!r}")


def plain(piece: str) -> str:
    """A piece without its space mark."""
    return piece.replace("\u2581", "").strip()
