"""The training pairs that taught the model a word, and a correction: in the page as in Python, and in the file."""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pellucid.api import Model, load
from pellucid.decode.confidence import CALIBRATION, Calibration, ConfidenceCurve
from pellucid.interpret.influence.word_influence import InfluentialPair
from pellucid.interpret.studies.training_steps import study_training
from pellucid.serve.app import create_app
from pellucid.serve.corrections import Corrections
from pellucid.serve.settings import Limits
from pellucid.serve.training_text import TrainingText
from pellucid.store.directory import add_files
from pellucid.training.loop import train_run
from pellucid.training.state_store import remember_states
from tests.browser.installed import require_buildable
from tests.browser.reading import Page
from tests.browser.watched import watch_tab
from tests.serve.servers import EN_ES, running_app
from tests.training.corpora import small_run

SENTENCE = "one two six"
PAIRS = """() => [...document.querySelectorAll('.taught')].map(list => [...list.querySelectorAll('li')].map(row => ({
    texts: [...row.querySelectorAll('li > span:not(.row)')].map(text => text.innerText),
    marked: [...row.querySelectorAll('mark')].map(mark => mark.innerText),
    place: row.querySelector('.chip').innerText,
    numbers: [...row.querySelectorAll('.chip .value-shown')].map(value => Number(value.title)),
})))"""


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Return a model that has learned a little, without a store."""
    require_buildable()
    folder = tmp_path_factory.mktemp("taught")
    train = {"steps": 60, "evaluate_every": 60, "save_every": 60}
    train_run(small_run(folder / "text", train=train, tokenizer={"vocabulary": 305}), folder / "run")
    return load(folder / "run" / "best")


@contextmanager
def open_debug(browser: Any, model: Model, corrections: Corrections | None = None) -> Iterator[Page]:
    app = create_app(model, Limits(), languages=EN_ES, corrections=corrections, training_text=TrainingText())
    with running_app(app, Limits()) as port, watch_tab(browser, f"http://127.0.0.1:{port}/") as tab:
        yield Page(tab).open(v="debug", s=SENTENCE)


def describe(pair: InfluentialPair) -> dict[str, Any]:
    """Return what a page shows of a pair."""
    words = pair.target.split()
    return {
        "texts": [pair.source, pair.target],
        "marked": [word for i, word in enumerate(pair.source.split()) if i in pair.source_words]
        + ["end" if pair.word < 0 else words[pair.word]],
        "place": f"{Path(pair.file).name}:{pair.line}",
        "numbers": pytest.approx([pair.state, pair.gradient]),
    }


def test_without_a_store_one_sentence_names_the_command_that_makes_it(browser: Any, learned: Model):
    with open_debug(browser, learned) as page:
        page.tab.get_by_role("button", name="Find the training pairs").click()
        said = page.tab.locator("[aria-label='Who taught it?'] .missing-note").inner_text()
        assert f"`pellucid remember {learned.directory}`" in said


def test_the_pairs_behind_a_word_are_those_of_python(browser: Any, learned: Model):
    remember_states(learned.directory.parent, lambda words: None)
    translation = learned.trace(SENTENCE).target.text
    words = translation.split()
    with open_debug(browser, learned) as page:
        for view in ("debug", "output"):
            page.go(v=view, t=0)
            page.tab.locator("[aria-label='Who taught it?'] select").select_option(words[-1])
            page.tab.get_by_role("button", name="Find the training pairs").click()
            page.tab.wait_for_selector(".taught")
            found = learned.find_influence(SENTENCE, words[-1], pairs=8)
            because, against = page.tab.evaluate(PAIRS)
            assert because == [describe(pair) for pair in found.because]
            assert against == [describe(pair) for pair in found.against]
            shown = page.tab.get_by_label("Who taught it?").inner_text()
            assert f"{found.agreement.both_on_top} of their first {found.agreement.of}" in re.sub(r"\s+", " ", shown)


def test_a_correction_is_stored_and_read_by_the_model(browser: Any, learned: Model, tmp_path: Path):
    corrections = Corrections(tmp_path / "corrections.jsonl")
    with open_debug(browser, learned, corrections) as page:
        box = page.tab.get_by_label("A better translation")
        store = page.tab.get_by_role("button", name="Store the correction")
        store.wait_for()
        assert store.is_disabled()
        box.fill("seis dos uno")
        page.tab.get_by_role("button", name="Before and after").click()
        page.tab.get_by_label("Both translations, step by step").wait_for()
        assert page.tab.title().startswith(SENTENCE)
        store.click()
        page.tab.get_by_text("Stored.").wait_for()
    row = json.loads(corrections.path.read_text(encoding="utf-8"))
    assert (row["source"], row["target"], row["source_language"]) == (SENTENCE, "seis dos uno", "en")


def test_where_corrections_are_not_stored_the_line_for_a_file_is_shown(browser: Any, learned: Model):
    with open_debug(browser, learned) as page:
        page.tab.get_by_label("A better translation").fill("seis dos uno")
        written = learned.translate(SENTENCE).text
        assert page.tab.locator(".correction").text_content() == f"{SENTENCE}\t{written}\tseis dos uno"
        assert page.tab.get_by_role("button", name="Store the correction").count() == 0


def test_the_page_of_training_shows_losses_an_update_and_the_checkpoints_as_python_has_them(
    browser: Any, learned: Model
):
    beside = " ".join(SENTENCE.split()[:2])  # no examples are known, so the sentence's first half
    answer = study_training(learned.trace(SENTENCE), "seis dos uno", beside)
    with open_debug(browser, learned) as page:
        page.tab.get_by_label("A better translation").fill("seis dos uno")
        page.tab.get_by_role("button", name="Before and after").click()
        page.tab.get_by_label("Both translations, step by step").wait_for()
        page.tab.get_by_role("button", name="Training", exact=True).click()
        table = page.tab.get_by_label("Loss of each piece")
        table.locator("tbody tr").nth(len(answer["writes"]) - 1).wait_for()
        losses = [loss for pair in zip(answer["losses"], answer["losses_after"], strict=True) for loss in pair]
        shown = table.locator(".value-shown").evaluate_all("cells => cells.map(cell => Number(cell.title))")
        assert shown == pytest.approx(losses, rel=1e-5)
        batch = page.tab.get_by_label("Two sentences in one batch")
        weights = [weight for pair in zip(*answer["batch"]["weights"], strict=True) for weight in pair]
        shown = batch.locator(".value-shown").evaluate_all("cells => cells.map(cell => Number(cell.title))")
        assert shown == pytest.approx(weights, rel=1e-5)
        assert batch.get_by_text("<pad>").count() == weights.count(0) > 0
        rows = page.tab.locator("[aria-label='Checkpoints'] tbody tr").all_inner_texts()
        expected = [" ".join(state["translation"].split()) for state in answer["checkpoints"]]
        assert [row.split("\t")[1] for row in rows] == expected
        assert rows
        page.tab.set_viewport_size({"width": 390, "height": 844})
        assert page.tab.evaluate("() => document.documentElement.scrollWidth") == 390


@pytest.mark.slow  # web/test/measures.test.ts has the numbers of the curve
def test_each_word_is_as_sure_as_python_says(browser: Any, learned: Model, tmp_path: Path):
    copy = Path(shutil.copytree(learned.directory, tmp_path / "sure"))
    curve = ConfidenceCurve((-2.0, -1.0), (0.12, 0.5, 0.88))
    add_files(copy, {CALIBRATION: Calibration((0.0, 1.0, 0.0, 0.0, 0.0), curve, curve, {}).to_json()})
    calibrated = load(copy, engine="torch")
    expected = calibrated.translate(SENTENCE).word_confidences
    assert expected
    with open_debug(browser, calibrated) as page:
        page.go(v="output", t=0)
        words = page.tab.locator(".sure-word")
        words.first.wait_for()
        assert [float(text.split()[-1]) for text in words.all_inner_texts()] == pytest.approx(expected)
        words.last.click()
        assert int(page.tab.evaluate("new URLSearchParams(location.hash.slice(1)).get('t') ?? 0")) > 0
    with open_debug(browser, learned) as page:
        page.go(v="output", t=0)
        page.tab.get_by_label("Who taught it?").wait_for()
        assert page.tab.locator(".sure-word").count() == 0
