"""The map of words and the roles of heads, on a served page and in a file."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from pellucid.api import Model
from pellucid.interpret.studies.model_queries import compare_masking
from pellucid.interpret.studies.roles import badges_path
from pellucid.interpret.studies.word_vectors import embedding_table, project_pca
from tests.browser.colours import read_colour_tables
from tests.page.studied import SENTENCE, TARGET, Reader, make_studied_model, make_study, open_reader
from tests.page.traces import HOSTILE
from tests.serve.servers import running

EDGE = 24  # pixels that the map leaves free


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Model:
    return make_studied_model(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def reader(model) -> Iterator[Reader]:
    with open_reader(model) as page_reader:
        yield page_reader


@pytest.fixture(scope="module")
def file_reader(model, reader, tmp_path_factory) -> Iterator[Reader]:
    """A reader of the same trace in one file of maps, without a server."""
    file = tmp_path_factory.mktemp("file") / "trace.html"
    model.trace(SENTENCE, target=TARGET).save_html(file, keep="maps")
    with open_another_tab(reader, file.as_uri()) as page_reader:
        yield page_reader


@contextmanager
def open_another_tab(reader: Reader, home: str) -> Iterator[Reader]:
    """Open another tab of the same browser, which must not complain of anything."""
    tab, complaints = reader.tab.context.browser.new_page(viewport={"width": 1440, "height": 900}), []
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    yield Reader(tab, home)
    tab.close()
    assert complaints == []


def positions_on_canvas(model: Model, side: str, width: float, height: float) -> np.ndarray:
    """The position of each piece on the canvas, by the formula of the picture and the coordinates of numpy."""
    places = project_pca(embedding_table(model.bundle, side).vectors, 2).places
    extent = np.ptp(places, axis=0)
    scale = min((width - 2 * EDGE) / extent[0], (height - 2 * EDGE) / extent[1])
    middle = (places.max(axis=0) + places.min(axis=0)) / 2
    return np.array([width / 2, height / 2]) + (places - middle) * scale * [1, -1]


def shown_cosines(reader: Reader) -> list[float]:
    table = reader.tab.get_by_role("table", name="nearest by cosine")
    return [float(cosine) for cosine in table.locator("[title]").evaluate_all("all => all.map(each => each.title)")]


def nearest_cosines(model: Model, side: str, number: int) -> list[float]:
    vectors = embedding_table(model.bundle, side).vectors
    lengths = np.linalg.norm(vectors, axis=1)
    cosines = np.delete(vectors @ vectors[number] / lengths / lengths[number], number)
    return np.sort(cosines)[::-1][:8].tolist()


def test_the_map_has_each_piece_where_numpy_puts_it_and_a_click_gives_its_neighbours(reader, model):
    reader.open("words")
    canvas = reader.tab.locator(".word-map-canvas canvas")
    box = canvas.bounding_box()
    positions = positions_on_canvas(model, "source", box["width"], box["height"])
    distances = np.linalg.norm(positions[:, None] - positions[None], axis=-1) + 1e9 * np.eye(len(positions))
    lonely = np.argsort(-distances.min(axis=1))[:5]
    pieces = model.bundle.tokenizer.source_pieces(range(len(positions)))
    for number in lonely[1:]:
        x, y = positions[number]
        reader.tab.mouse.move(box["x"] + x, box["y"] + y)
        readout = f"“{pieces[number].removeprefix('▁') or '▁'}”"
        condition = "readout => document.querySelector('.word-map-readout').innerText.startsWith(readout)"
        reader.tab.wait_for_function(condition, arg=readout)
    loneliest = int(lonely[0])
    reader.tab.mouse.click(box["x"] + positions[loneliest, 0], box["y"] + positions[loneliest, 1])
    reader.tab.get_by_text(f"id {loneliest}", exact=True).wait_for()
    reader.settle()
    assert shown_cosines(reader) == pytest.approx(nearest_cosines(model, "source", loneliest), rel=1e-4)


def test_pieces_of_the_sentence_are_marked_in_the_colour_of_followed_pieces(reader, model):
    reader.open("words")
    colours = reader.tab.locator(".word-map-canvas canvas").evaluate(
        """(canvas, places) => {
            const ratio = canvas.width / canvas.clientWidth;
            const pen = canvas.getContext("2d", {willReadFrequently: true});
            const at = (x, y) => pen.getImageData(Math.round(x * ratio), Math.round(y * ratio), 1, 1).data;
            return places.map(([x, y]) => [...at(x, y).slice(0, 3)]);
        }""",
        positions_on_canvas(model, "source", *canvas_size(reader))[
            model.trace(SENTENCE, target=TARGET).source.ids
        ].tolist(),
    )
    ink = [0x0B, 0x70, 0x55]
    assert sum(colour == ink for colour in colours) >= len(colours) - 2  # one may lie under another's letters


def canvas_size(reader: Reader) -> tuple[float, float]:
    box = reader.tab.locator(".word-map-canvas canvas").bounding_box()
    return box["width"], box["height"]


def test_arrow_keys_go_from_piece_to_piece_and_name_the_position(reader):
    reader.open("words")
    marker = reader.tab.get_by_role("button", name="On the map:")
    marker.focus()
    names = [marker.get_attribute("aria-label")]
    for key in ("ArrowRight", "ArrowRight", "ArrowUp", "ArrowLeft"):
        reader.tab.keyboard.press(key)
        reader.tab.wait_for_timeout(60)
        names.append(marker.get_attribute("aria-label"))
    across = [float(name.split("”, ")[1].split(" across")[0].replace("−", "-")) for name in names]
    assert across[0] < across[1] < across[2]
    assert across[4] < across[3]
    # Up may find no piece, and left may go back to one that was there before.
    assert len(set(names)) >= 3
    assert reader.shows_view("words")


def test_a_piece_is_found_by_its_letters_and_another_table_is_another_map(reader, model):
    reader.open("words")
    reader.tab.get_by_role("textbox", name="Find a piece").fill("is")
    reader.tab.get_by_role("button", name="Show", exact=True).click()
    number = model.bundle.tokenizer.source_pieces(range(307)).index("is")
    reader.tab.get_by_text(f"id {number}", exact=True).wait_for()
    reader.tab.get_by_role("combobox", name="Table").select_option("target")
    reader.settle()
    box = reader.tab.locator(".word-map-canvas canvas").bounding_box()
    marker = reader.tab.locator(".word-map-here").bounding_box()
    second = model.trace(SENTENCE, target=TARGET).target.ids[1]
    expected = positions_on_canvas(model, "target", box["width"], box["height"])[second]
    assert [marker["x"] + 9 - box["x"], marker["y"] + 9 - box["y"]] == pytest.approx(expected.tolist(), abs=1)


@pytest.mark.article("B25")
def test_the_colour_of_a_head_is_what_its_silence_costs_and_its_mark_is_its_role(reader, model, tmp_path):
    study = make_study(model)
    reach = max(abs(head["silent"]) for head in study["heads"])
    unit = 10.0 ** (np.floor(np.log10(reach)) - 1)
    end = np.ceil(reach / unit - 1e-9) * unit  # the next number with two digits
    colours = read_colour_tables(tmp_path)["symmetric", False]
    reader.open("map")
    worths = reader.tab.locator(".map-body .head-worth")
    assert worths.count() == len(study["heads"]) == 3 * 5
    for worth, head in zip(sort_as_study(worths.all(), reader), study["heads"], strict=True):
        assert float(worth.get_attribute("data-silent")) == head["silent"]
        assert worth.inner_text() == ("R" if head["badges"] else "·")
        painted = worth.evaluate("each => getComputedStyle(each).backgroundColor")
        red, green, blue = (int(channel) for channel in painted[4:-1].split(","))
        share = colours[red, green, blue]
        assert abs((2 * share - 1) * end - head["silent"]) <= 2 * end / 255
    reader.tab.click(".map-how summary")
    legend = reader.text(".map-body .roles-legend")
    assert "1\u202f031 sentence pairs" in legend
    assert "2.35" in legend


def sort_as_study(worths: list[Any], reader: Reader) -> list[Any]:
    """Sort as the study lists the heads: the encoder first, then self- and cross-attention of each layer."""
    labels = [worth.evaluate("each => each.closest('button').getAttribute('aria-label')") for worth in worths]
    order = [
        (not name.startswith("encoder"), name.split(", ")[1], "cross" in name, name.split(", head ")[1])
        for name in labels
    ]
    return [worth for _, worth in sorted(zip(order, worths, strict=True), key=lambda pair: pair[0])]


def test_the_view_of_a_head_shows_its_role_and_what_its_silence_costs(reader, model):
    heads = {(head["attention"], head["head"]): head for head in make_study(model)["heads"]}
    reader.open("head", a="decoder.0.cross", h=1)
    role = reader.text(".head-role")
    assert " ".join(f"role: R reads {HOSTILE}".split()) in " ".join(role.split())
    assert reader.tab.locator(".head-role b.mono").get_attribute("title") == str(heads["decoder.0.cross", 1]["silent"])
    assert "on 1\u202f031 pairs" in role
    assert reader.tab.locator(".pellucid img").count() == 0
    reader.tab.keyboard.press("]")
    reader.tab.wait_for_timeout(80)
    assert "This head has no clear role" in reader.text(".head-role")


@pytest.mark.slow  # test_stories.py tells it, tests/browser/test_flows.py walks it
def test_every_stop_of_the_story_is_told_in_full(reader):
    reader.open("map", n=1)
    for stop in range(1, 15):
        reader.tab.get_by_role("region", name=f"Story, stop {stop} of 14").wait_for()
        reader.tab.wait_for_function("() => document.querySelector('.story-text')?.innerText.trim().length > 20")
        assert "not a number" not in reader.text(".story-text")
        reader.tab.keyboard.press("PageDown")


def test_a_file_shows_the_map_and_the_neighbours_of_its_pieces(file_reader, model):
    file_reader.open("words")
    ids = model.trace(SENTENCE, target=TARGET).source.ids
    assert shown_cosines(file_reader) == pytest.approx(nearest_cosines(model, "source", ids[1]), rel=1e-4)
    file_reader.tab.get_by_role("textbox", name="Find a piece").fill("<pad>")
    file_reader.tab.get_by_role("button", name="Show", exact=True).click()
    missing = "Not in this file; to compute it, run: pellucid serve"
    file_reader.tab.get_by_role("complementary", name="The piece picked").get_by_text(missing).wait_for()
    assert missing in file_reader.text("section[aria-label='Sums of words']")


def test_a_file_of_maps_has_every_card_whose_numbers_need_no_other_sentence(file_reader, model):
    file_reader.open("claims")
    trace = model.trace(SENTENCE, target=TARGET)
    assert file_reader.numbers("inference", "tbody")[1::2] == pytest.approx(
        compare_masking(trace)["unmasked"], rel=1e-4
    )
    assert file_reader.numbers("scaling") == [0.0] * 5
    assert file_reader.tab.locator("[data-card=roles] .missing-note").count() == 0
    assert file_reader.tab.locator("[data-card=width] .missing-note").count() == 0
    says = {name: file_reader.card(name).inner_text() for name in ("analogy", "diagonal", "exponent")}
    missing = "not in this file; to compute it, run: pellucid serve MODEL"
    assert all(missing in text.replace("Not", "not") for text in says.values())
    assert file_reader.tab.locator(".head-worth").count() == 0
    file_reader.open("map")
    assert file_reader.tab.locator(".map-body .head-worth").count() == 3 * 5


def test_a_study_of_other_weights_is_not_shown_and_the_page_says_why(reader, tmp_path):
    model = make_studied_model(tmp_path, tie="all", decoder_layers=1)
    path = badges_path(model.bundle)
    path.write_text(path.read_text().replace('"sha256": "', '"sha256": "0'), encoding="utf-8")
    with running(model) as port, open_another_tab(reader, f"http://127.0.0.1:{port}/") as other_reader:
        other_reader.open("map")
        other_reader.tab.click(".map-how summary")
        assert "was made with other weights than this model has; run: pellucid inspect heads" in other_reader.text(
            ".map-how"
        )
        assert other_reader.tab.locator(".head-worth").count() == 0
        other_reader.open("words")
        assert other_reader.tab.get_by_role("combobox", name="Table").count() == 0
