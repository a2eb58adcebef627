"""The numbers on the cards of claims are those that numpy computes for the same run; read from a running server."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pellucid.api import Model
from pellucid.interpret.studies.model_queries import compare_masking, cosine_table, cross_attention_diagonals
from pellucid.interpret.studies.position_tables import compare_with_wrong_table, position_vectors
from pellucid.interpret.studies.word_vectors import embedding_table
from pellucid.interpret.trace.session import Trace
from tests.page.studied import SENTENCE, TARGET, Reader, make_studied_model, make_study, open_reader


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Model:
    return make_studied_model(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def trace(model) -> Trace:
    return model.trace(SENTENCE, target=TARGET)


@pytest.fixture(scope="module")
def reader(model) -> Iterator[Reader]:
    with open_reader(model) as page_reader:
        yield page_reader


@pytest.fixture(autouse=True)
def cards_page(reader) -> None:
    """Open the view of the cards before each test, in the same tab."""
    reader.open("claims")


def softmax(scores: Any) -> np.ndarray:
    powers = np.exp(np.asarray(scores, dtype=np.float64) - np.max(scores, axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


@pytest.mark.article("A36", "X1")
def test_softmax_is_exact_beside_what_the_article_prints_and_of_scores_one_types(reader, trace):
    card = reader.card("softmax")
    rows = card.locator("tbody td:last-child").all_inner_texts()
    assert rows == ["0.005", "0.973", "0.015", "0.007"]
    assert reader.numbers("softmax", "tbody") == pytest.approx([1.67e-5, 0.99965, 3.35e-4, 2.26e-6], rel=3e-3)
    first, second = trace.steps[0].top[:2]
    model_numbers = reader.numbers("softmax")[4:]
    assert model_numbers[:4] == pytest.approx([first.logit, first.prob, second.logit, second.prob], rel=1e-6)
    assert model_numbers[4] == pytest.approx(model_numbers[5], rel=1e-4)
    card.get_by_role("textbox", name="Scores").fill("1, 2.5 −3")
    assert reader.numbers("softmax", "tbody") == pytest.approx(softmax([1, 2.5, -3]).tolist())
    card.get_by_role("textbox", name="Scores").fill("one, two")
    assert "Enter two or more numbers" in card.inner_text()


@pytest.mark.article("A10", "A13", "X2", "X4")
def test_both_exponents_are_those_of_numpy_and_the_models_own_positions_are_the_papers(reader, model):
    wrong = compare_with_wrong_table(512)
    at_three = reader.numbers("exponent")[:6]
    assert at_three[:2] == pytest.approx([wrong.first_right, wrong.first_wrong], rel=1e-9)
    assert at_three[2:5] == [wrong.constant_right, wrong.constant_wrong, 512 - wrong.different]
    assert at_three[5] == pytest.approx(256**0.5)
    card = reader.card("exponent")
    card.get_by_role("combobox", name="width").select_option("12")
    card.get_by_role("slider", name="position").fill("4")
    card.get_by_role("slider", name="dimension").fill("5")
    vectors = position_vectors(model.bundle.model, 30).values
    numbers = reader.numbers("exponent")
    assert numbers[:2] == pytest.approx([vectors[4, 5], np.cos(4 / 10000 ** (2 * 4 / 12))], rel=1e-6)
    assert numbers[5] == pytest.approx(6**0.5)
    assert numbers[-2] <= 1e-6
    assert numbers[-1] == pytest.approx(vectors[4, 5], rel=1e-6)
    assert card.get_by_role("img").count() == 2


@pytest.mark.article("B16")
def test_the_cosine_of_positions_by_their_distance_is_that_of_the_table(reader, model):
    by_distance = position_vectors(model.bundle.model, 97).by_distance()
    assert reader.numbers("nearness") == pytest.approx(
        [by_distance[distance] for distance in (1, 2, 5, 10, 20, 50)], rel=1e-6
    )


@pytest.mark.article("A35", "X14")
def test_the_diagonal_of_this_sentence_and_of_another_order(reader, model, trace):
    card = reader.card("diagonal")
    diagonals = cross_attention_diagonals(trace)
    table = f'[aria-label="Weight on the diagonal: {SENTENCE} → {TARGET}"]'
    assert reader.numbers("diagonal", table) == pytest.approx(
        [value for attention in diagonals["attentions"] for value in attention["written"]], rel=1e-5
    )
    card.get_by_role("textbox", name="Against another order").fill("blue is ball The")
    card.get_by_role("button", name="Measure").click()
    reader.settle()
    card.locator("table").nth(1).wait_for()
    card.get_by_role("combobox").select_option("read")
    other_diagonals = cross_attention_diagonals(model.trace("blue is ball The"))
    expected = [
        value
        for measured in (diagonals, other_diagonals)
        for attention in measured["attentions"]
        for value in attention["read"]
    ]
    assert reader.numbers("diagonal", "table") == pytest.approx(expected, rel=1e-5, abs=1e-9)


@pytest.mark.article("X10", "E7")
def test_shapes_are_those_of_the_captured_tensors(reader, trace):
    heads, rows, width = trace["encoder.0.self.head_output"].values.shape
    shapes = {
        name: reader.card("shapes").locator(f"[data-shape={name}]").inner_text() for name in ("head", "heads", "output")
    }
    assert shapes == {"head": f"{rows} × {width}", "heads": f"{rows} × {heads * width}", "output": f"{rows} × 12"}
    names = reader.card("names").locator("tbody th").all_inner_texts()
    assert names == [f"encoder.0.self.{part}" for part in ("products", "scores", "pattern", "head_output")]


@pytest.mark.article("C14", "X26")
def test_another_divisor_gives_the_softmax_of_the_products_so_divided(reader, trace):
    card = reader.card("width")
    card.get_by_role("combobox", name="Attention").select_option("decoder.1.cross")
    reader.settle()
    card.get_by_role("slider").fill("9")
    products = trace["decoder.1.cross.products"].values.astype(np.float64)
    assert f"d_k is the width of a head: {trace.config.head_width}" in card.inner_text()
    for divisor in (1, 9, 4):
        pattern = softmax(products / divisor**0.5).reshape(-1, products.shape[-1])
        slopes = [np.linalg.norm(np.diag(p) - np.outer(p, p)) for p in pattern]
        numbers = reader.numbers("width", f"[data-divided='{divisor}']")
        assert numbers == pytest.approx([pattern.max(axis=1).mean(), np.mean(slopes)], rel=1e-4)


@pytest.mark.article("B31", "X13", "X22")
def test_the_run_with_kept_keys_beside_the_one_without_a_mask(reader, trace):
    expected = compare_masking(trace)
    differences = np.array(reader.numbers("inference", "tbody")).reshape(-1, 2)
    assert differences[:, 0] == pytest.approx(expected["kept"], abs=1e-5 * expected["size"])
    assert differences[:, 1] == pytest.approx(expected["unmasked"], rel=1e-4)
    assert differences[:, 0].max() < 1e-5 * expected["size"] < differences[:, 1].max()
    assert reader.numbers("inference")[-1] == expected["parted"]


@pytest.mark.article("C26")
def test_infinity_hides_the_same_on_either_side_of_the_division_and_thirty_does_not(reader, trace):
    assert reader.numbers("scaling") == [0.0] * 5
    reader.card("scaling").get_by_role("combobox").select_option(label="−10")
    products = trace["decoder.0.self.products"].values[0].astype(np.float64)
    future, root = np.triu(np.ones(products.shape), 1), trace.config.head_width**0.5
    exact = softmax(np.where(future, -np.inf, products / root))
    before, after = softmax((products - 10 * future) / root), softmax(products / root - 10 * future)
    leaks = [(weights * future).max() for weights in (before, after)]
    errors = [np.abs(weights - exact).max() for weights in (before, after)]
    assert reader.numbers("scaling") == pytest.approx([*leaks, *errors, np.abs(before - after).max()], rel=1e-4)


@pytest.mark.article("B25")
def test_roles_are_counted_and_heads_laid_on_each_other(reader, model, trace):
    study = make_study(model)
    with_role = sum(bool(head["badges"]) for head in study["heads"])
    costs = [head["silent"] for head in study["heads"]]
    expected = [with_role, len(costs) - with_role, max(costs), min(costs), sum(cost <= 0 for cost in costs)]
    assert reader.numbers("roles") == pytest.approx(expected)
    assert "On 1\u202f031 pairs" in reader.card("roles").inner_text()
    reader.card("roles").get_by_role("combobox").select_option("decoder.1.self")
    reader.settle()
    reader.tab.evaluate("document.activeElement.blur()")
    reader.tab.keyboard.press("t")
    cells = reader.card("roles").locator(".sheet-table tbody td").all_inner_texts()
    reader.tab.keyboard.press("t")
    root = np.sqrt(trace["decoder.1.self.pattern"].values.astype(np.float64))
    overlap = np.einsum("hqk,gqk->hg", root, root) / root.shape[1]
    assert [float(cell) for cell in cells] == pytest.approx(overlap.ravel().tolist(), rel=1e-5)


@pytest.mark.article("A8", "B8")
def test_cosines_of_words_are_those_of_the_embedding_matrix(reader, model):
    card = reader.card("similar")
    card.get_by_role("textbox", name="Words").fill("red blue")
    card.get_by_role("button", name="Compare").click()
    reader.settle()
    expected = cosine_table(embedding_table(model.bundle, "source"), ["red", "blue"])
    reader.tab.evaluate("document.activeElement.blur()")
    reader.tab.keyboard.press("t")
    cells = card.locator(".sheet-table tbody td").all_inner_texts()
    reader.tab.keyboard.press("t")
    assert [float(cell.replace("−", "-")) for cell in cells] == pytest.approx(
        np.ravel(expected["cosines"]).tolist(), rel=1e-6
    )
    assert reader.numbers("similar") == pytest.approx([expected["chance"]["mean"], expected["chance"]["deviation"]])


@pytest.mark.article("B11", "X15")
def test_an_analogy_is_answered_with_the_words_of_the_question_left_out_and_included(reader, model):
    card = reader.card("analogy")
    card.get_by_role("textbox", name="Question").fill("▁b - l + e")
    card.get_by_role("textbox", name="expected").fill("")
    card.get_by_role("button", name="Ask").click()
    card.locator("table").first.wait_for()
    table = embedding_table(model.bundle, "source")
    b, plus, minus = (table.vectors[list(table.word(word).ids)].mean(axis=0) for word in ("▁b", "e", "l"))
    directions = [vector / np.linalg.norm(vector) for vector in (b, plus, minus)]
    cosines = table.directions @ (directions[0] + directions[1] - directions[2])
    cosines /= np.linalg.norm(directions[0] + directions[1] - directions[2])
    inputs = {i for word in ("▁b", "l", "e") for i in table.word(word).ids}
    allowed = [i for i in np.argsort(-cosines) if i not in inputs][:8]
    numbers = reader.numbers("analogy", "table")
    assert numbers[:8] == pytest.approx(cosines[allowed].tolist(), rel=1e-4)
    assert numbers[8:] == pytest.approx(np.sort(cosines)[::-1][:8].tolist(), rel=1e-4)


def test_a_wrong_number_that_is_planted_is_shown_and_found(reader, trace):
    """Negative control: a card shows the numbers that arrived, not the ones that should have arrived."""
    right = trace["decoder.1.cross.pattern"].values.astype("<f4")
    wrong = right.copy()
    wrong[0, 1, 1] += 0.25

    def plant(route: Any) -> None:
        answer = route.fetch()
        assert right.tobytes() in answer.body()
        route.fulfill(response=answer, body=answer.body().replace(right.tobytes(), wrong.tobytes()))

    tensors = re.compile(r"/tensors\?.*decoder\.1\.cross\.pattern")
    reader.tab.route(tensors, plant)
    answer = {**compare_masking(trace), "parted": 12345.678}
    reader.tab.route("**/masking", lambda route: route.fulfill(json=answer))
    try:
        reader.tab.goto("about:blank")
        reader.open("claims")
        expected = [
            value for attention in cross_attention_diagonals(trace)["attentions"] for value in attention["written"]
        ]
        numbers = reader.numbers("diagonal", "table")
        rows = min(wrong.shape[1:])
        differ = [i for i, pair in enumerate(zip(numbers, expected, strict=True)) if abs(pair[0] - pair[1]) > 1e-4]
        assert differ == [3]
        assert numbers[3] - expected[3] == pytest.approx(0.25 / rows, rel=1e-3)
        assert reader.numbers("inference")[-1] == 12345.678
    finally:
        reader.tab.unroute(tensors)
        reader.tab.unroute("**/masking")
        reader.tab.goto("about:blank")


def test_a_link_to_a_card_shows_it_and_every_card_has_one(reader):
    cards = reader.tab.locator("[data-card]").evaluate_all("all => all.map(each => each.dataset.card)")
    assert len(cards) == len(set(cards)) == 12
    reader.card("scaling").get_by_role("link").click()
    assert "a=scaling" in reader.tab.url
    reader.tab.goto("about:blank")
    reader.open("claims", a="names")
    box = reader.card("names").bounding_box()
    assert 0 <= box["y"] < 900
    assert reader.tab.locator(".claim-linked").count() == 1


def test_the_letter_a_opens_the_cards_and_w_the_words(reader):
    reader.open("map")
    reader.tab.keyboard.press("a")
    reader.tab.wait_for_selector(".view-claims")
    reader.tab.keyboard.press("w")
    reader.tab.wait_for_selector(".view-words")
