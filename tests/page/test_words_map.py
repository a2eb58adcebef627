"""The map of words and what is known of heads, on a served page, in a file, and of a model with fewer heads."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from pellucid.api import Model
from pellucid.inspect.badges import badges_path
from pellucid.inspect.claims import compare_masking
from pellucid.inspect.embeddings import embedding_table
from pellucid.inspect.projection import project_pca
from tests.browser.colours import tables
from tests.page.studied import SENTENCE, TARGET, Reader, served, studied, study_of
from tests.page.traces import HOSTILE
from tests.serve.servers import running

FEWER = "encoder.0.self:0 decoder.1.cross:1"
EDGE = 24  # pixels that the map leaves free


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Model:
    return studied(tmp_path_factory.mktemp("runs"), fewer_heads=FEWER)


@pytest.fixture(scope="module")
def reader(model) -> Iterator[Reader]:
    with served(model) as found:
        yield found


@pytest.fixture(scope="module")
def alone(model, reader, tmp_path_factory) -> Iterator[Reader]:
    """The same in one file of maps, without a server."""
    file = tmp_path_factory.mktemp("file") / "trace.html"
    model.trace(SENTENCE, target=TARGET).save_html(file)
    with beside(reader, file.as_uri()) as found:
        yield found


@contextmanager
def beside(reader: Reader, home: str) -> Iterator[Reader]:
    """Another tab of the same browser, which complains of nothing."""
    tab, complaints = reader.tab.context.browser.new_page(viewport={"width": 1440, "height": 900}), []
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    yield Reader(tab, home)
    tab.close()
    assert complaints == []


def on_paper(model: Model, side: str, width: float, height: float) -> np.ndarray:
    """Where each piece stands on the canvas, by the formula of the picture and the places of numpy."""
    places = project_pca(embedding_table(model.bundle, side).vectors, 2).places
    spread = np.ptp(places, axis=0)
    scale = min((width - 2 * EDGE) / spread[0], (height - 2 * EDGE) / spread[1])
    middle = (places.max(axis=0) + places.min(axis=0)) / 2
    return np.array([width / 2, height / 2]) + (places - middle) * scale * [1, -1]


def near_shown(reader: Reader) -> list[float]:
    table = reader.tab.get_by_role("table", name="nearest by cosine")
    return [float(each) for each in table.locator("[title]").evaluate_all("all => all.map(each => each.title)")]


def nearest(model: Model, side: str, number: int) -> list[float]:
    vectors = embedding_table(model.bundle, side).vectors
    lengths = np.linalg.norm(vectors, axis=1)
    cosines = np.delete(vectors @ vectors[number] / lengths / lengths[number], number)
    return np.sort(cosines)[::-1][:8].tolist()


def test_the_pointer_finds_each_piece_where_numpy_puts_it_and_a_click_gives_its_neighbours(reader, model):
    reader.open("words")
    canvas = reader.tab.locator(".word-map-canvas canvas")
    box = canvas.bounding_box()
    paper = on_paper(model, "source", box["width"], box["height"])
    apart = np.linalg.norm(paper[:, None] - paper[None], axis=-1) + 1e9 * np.eye(len(paper))
    lonely = np.argsort(-apart.min(axis=1))[:5]
    pieces = model.bundle.tokenizer.source_pieces(range(len(paper)))
    for number in lonely[1:]:
        x, y = paper[number]
        reader.tab.mouse.move(box["x"] + x, box["y"] + y)
        told = f"“{pieces[number].removeprefix('▁') or '▁'}”"
        begins = "told => document.querySelector('.word-map-readout').innerText.startsWith(told)"
        reader.tab.wait_for_function(begins, arg=told)
    loneliest = int(lonely[0])
    reader.tab.mouse.click(box["x"] + paper[loneliest, 0], box["y"] + paper[loneliest, 1])
    reader.tab.get_by_text(f"id {loneliest}", exact=True).wait_for()
    reader.settled()
    assert near_shown(reader) == pytest.approx(nearest(model, "source", loneliest), rel=1e-4)


def test_pieces_of_the_sentence_are_marked_in_the_ink_of_what_is_followed(reader, model):
    reader.open("words")
    colours = reader.tab.locator(".word-map-canvas canvas").evaluate(
        """(canvas, places) => {
            const ratio = canvas.width / canvas.clientWidth;
            const pen = canvas.getContext("2d", {willReadFrequently: true});
            const at = (x, y) => pen.getImageData(Math.round(x * ratio), Math.round(y * ratio), 1, 1).data;
            return places.map(([x, y]) => [...at(x, y).slice(0, 3)]);
        }""",
        on_paper(model, "source", *size_of(reader))[model.trace(SENTENCE, target=TARGET).source.ids].tolist(),
    )
    ink = [0x0B, 0x70, 0x55]
    assert sum(colour == ink for colour in colours) >= len(colours) - 2  # one may lie under another's letters


def size_of(reader: Reader) -> tuple[float, float]:
    box = reader.tab.locator(".word-map-canvas canvas").bounding_box()
    return box["width"], box["height"]


def test_arrows_go_from_piece_to_piece_and_the_place_is_told(reader):
    reader.open("words")
    here = reader.tab.get_by_role("button", name="On the map:")
    here.focus()
    names = [here.get_attribute("aria-label")]
    for key in ("ArrowRight", "ArrowRight", "ArrowUp", "ArrowLeft"):
        reader.tab.keyboard.press(key)
        reader.tab.wait_for_timeout(60)
        names.append(here.get_attribute("aria-label"))
    across = [float(name.split("”, ")[1].split(" across")[0].replace("−", "-")) for name in names]
    assert across[0] < across[1] < across[2]
    assert across[4] < across[3]
    assert len(set(names)) >= 4
    assert reader.view_is("words")


def test_a_piece_is_found_by_its_letters_and_another_table_is_another_map(reader, model):
    reader.open("words")
    reader.tab.get_by_role("textbox", name="Find a piece").fill("is")
    reader.tab.get_by_role("button", name="Show", exact=True).click()
    number = model.bundle.tokenizer.source_pieces(range(307)).index("is")
    reader.tab.get_by_text(f"id {number}", exact=True).wait_for()
    reader.tab.get_by_role("combobox", name="Table").select_option("target")
    reader.settled()
    box = reader.tab.locator(".word-map-canvas canvas").bounding_box()
    here = reader.tab.locator(".word-map-here").bounding_box()
    second = model.trace(SENTENCE, target=TARGET).target.ids[1]
    wanted = on_paper(model, "target", box["width"], box["height"])[second]
    assert [here["x"] + 9 - box["x"], here["y"] + 9 - box["y"]] == pytest.approx(wanted.tolist(), abs=1)


@pytest.mark.article("B25")
def test_the_colour_of_a_head_is_what_its_silence_costs_and_its_mark_is_its_role(reader, model, tmp_path):
    study = study_of(model)
    reach = max(abs(head["silent"]) for head in study["heads"])
    unit = 10.0 ** (np.floor(np.log10(reach)) - 1)
    end = np.ceil(reach / unit - 1e-9) * unit  # the next number with two digits
    colours = tables(tmp_path)["symmetric", False]
    reader.open("map")
    worths = reader.tab.locator(".map-body .head-worth")
    assert worths.count() == len(study["heads"]) == 3 * 5 - 3 - 2
    for worth, head in zip(sorted_by(worths.all(), reader), study["heads"], strict=True):
        assert float(worth.get_attribute("data-silent")) == head["silent"]
        assert worth.inner_text() == ("R" if head["badges"] else "·")
        painted = worth.evaluate("each => getComputedStyle(each).backgroundColor")
        red, green, blue = (int(part) for part in painted[4:-1].split(","))
        share = colours[red, green, blue]
        assert abs((2 * share - 1) * end - head["silent"]) <= 2 * end / 255
    legend = reader.text(".map-body .roles-legend")
    assert "1\u202f031 sentence pairs" in legend
    assert "2.35" in legend


def sorted_by(worths: list[Any], reader: Reader) -> list[Any]:
    """Encoder first, then each layer's self-attention and cross-attention, as the study lists them."""
    labels = [worth.evaluate("each => each.closest('button').getAttribute('aria-label')") for worth in worths]
    order = [
        (not name.startswith("encoder"), name.split(", ")[1], "cross" in name, name.split(", head ")[1])
        for name in labels
    ]
    return [worth for _, worth in sorted(zip(order, worths, strict=True), key=lambda pair: pair[0])]


def test_the_view_of_a_head_tells_its_role_and_what_it_is_worth(reader, model):
    heads = {(head["attention"], head["head"]): head for head in study_of(model)["heads"]}
    reader.open("head", a="decoder.0.cross", h=1)
    told = reader.text(".head-role")
    assert " ".join(f"role: R reads {HOSTILE}".split()) in " ".join(told.split())
    assert reader.tab.locator(".head-role b.mono").get_attribute("title") == str(heads["decoder.0.cross", 1]["silent"])
    assert "on 1\u202f031 pairs" in told
    assert reader.tab.locator(".pellucid img").count() == 0
    reader.tab.keyboard.press("]")
    reader.tab.wait_for_timeout(80)
    assert "none by the rules" in reader.text(".head-role")


def test_there_is_no_picture_of_a_head_that_is_not_there(reader, model):
    reader.open("map")
    config = model.bundle.model.config
    for name, says in (("encoder.0.self", "no heads left here"), ("decoder.1.cross", "2 heads fewer than elsewhere")):
        block = reader.tab.locator(f"[data-block='{name}']")
        assert block.locator(".head-thumb").count() == config.heads_in(name)
        assert block.get_by_role("img", name=says).count() == 1
    assert reader.tab.locator("[data-block='decoder.0.self'] .heads-gone").count() == 0
    assert "up to 3 heads" in reader.text(".map-how")
    for place in ({"view": "head", "a": "encoder.0.self"}, {"view": "block", "a": "encoder.0.self"}):
        reader.open(**place)
        assert "No heads left here" in reader.text(".centre")
        assert "NaN" not in reader.text(".centre")
    reader.open("head", a="decoder.1.cross", h=2)
    assert "head 1 of 1" in reader.text(".centre h2")
    reader.tab.keyboard.press("]")
    reader.tab.wait_for_timeout(80)
    assert "head 1 of 1" in reader.text(".centre h2")
    for view in ("heads", "claims", "align", "output", "export", "compare"):
        assert "NaN" not in reader.open(view).text(".centre"), view


def test_every_stop_of_the_story_is_told_without_the_heads_that_are_gone(reader):
    reader.open("map", n=1)
    for stop in range(1, 15):
        reader.tab.get_by_role("region", name=f"Story, stop {stop} of 14").wait_for()
        reader.tab.wait_for_function("() => document.querySelector('.story-text')?.innerText.trim().length > 20")
        assert "not a number" not in reader.text(".story-text")
        reader.tab.keyboard.press("PageDown")


def test_a_file_shows_the_map_and_the_neighbours_of_its_own_pieces(alone, model):
    alone.open("words")
    ids = model.trace(SENTENCE, target=TARGET).source.ids
    assert near_shown(alone) == pytest.approx(nearest(model, "source", ids[1]), rel=1e-4)
    alone.tab.get_by_role("textbox", name="Find a piece").fill("<pad>")
    alone.tab.get_by_role("button", name="Show", exact=True).click()
    missing = "Not in this file; to compute it, run: pellucid serve"
    alone.tab.get_by_role("complementary", name="The piece picked").get_by_text(missing).wait_for()
    assert missing in alone.text("section[aria-label='Sums of words']")


def test_a_file_of_maps_has_every_card_whose_numbers_need_no_other_sentence(alone, model):
    alone.open("claims")
    trace = model.trace(SENTENCE, target=TARGET)
    assert alone.numbers("inference", "tbody")[1::2] == pytest.approx(compare_masking(trace)["unmasked"], rel=1e-4)
    assert alone.numbers("scaling") == [0.0] * 5
    assert alone.tab.locator("[data-card=roles] .missing-note").count() == 0
    assert alone.tab.locator("[data-card=width] .missing-note").count() == 0
    says = {name: alone.card(name).inner_text() for name in ("analogy", "diagonal", "exponent")}
    missing = "not in this file; to compute it, run: pellucid serve MODEL"
    assert all(missing in text.replace("Not", "not") for text in says.values())
    assert alone.tab.locator(".head-worth").count() == 0
    alone.open("map")
    assert alone.tab.locator(".map-body .head-worth").count() == 10


def test_a_study_of_other_weights_is_not_shown_and_said_to_be_so(reader, tmp_path):
    model = studied(tmp_path, tie="all", decoder_layers=1)
    place = badges_path(model.bundle)
    place.write_text(place.read_text().replace('"sha256": "', '"sha256": "0'), encoding="utf-8")
    with running(model) as port, beside(reader, f"http://127.0.0.1:{port}/") as other:
        other.open("map")
        assert "was made with other weights than this model has; run: pellucid inspect heads" in other.text(".map-how")
        assert other.tab.locator(".head-worth").count() == 0
        other.open("words")
        assert other.tab.get_by_role("combobox", name="Table").count() == 0
