import json
import re

import numpy as np
import pytest

from pellucid.interpret.studies.model_queries import (
    MOST_PIECES_IN_FILE,
    VERBS,
    answers_for_file,
    choose_ids,
    cosine_table,
    distinct_table,
    distinct_tables,
    neighbours_by_id,
    word_map,
)
from pellucid.interpret.studies.word_vectors import embedding_table
from pellucid.interpret.trace.session import perform_act
from tests.trace.traced import small_traced

MODEL = small_traced(ends=12.0)
TRACE = MODEL.trace("The ball is blue.", target="La bola es azul.")


def test_the_map_shows_the_two_largest_principal_components():
    answer = word_map(MODEL.bundle, "target")
    table = embedding_table(MODEL.bundle, "target").vectors
    centred = table - table.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    places = np.array(answer["places"]).reshape(-1, 2)
    expected = left[:, :2] * sizes[:2]
    signs = np.sign((places * expected).sum(axis=0))
    np.testing.assert_allclose(places, expected * signs, rtol=1e-4, atol=1e-6)
    assert answer["shares"] == pytest.approx((sizes**2 / (sizes**2).sum())[:2].tolist(), rel=1e-9)
    assert answer["pieces"] == MODEL.bundle.tokenizer.target_pieces(range(len(table)))


def test_part_of_a_map_keeps_its_coordinates():
    whole, part = word_map(MODEL.bundle, "source"), word_map(MODEL.bundle, "source", 17, [200, 3, 250])
    assert part["ids"] == [*range(15), 200, 250]
    for point, number in enumerate(part["ids"]):
        assert part["pieces"][point] == whole["pieces"][number]
        assert part["places"][2 * point : 2 * point + 2] == whole["places"][2 * number : 2 * number + 2]
    assert part["count"] == len(whole["pieces"])
    assert whole["ids"] is None


def test_required_ids_are_listed_first():
    assert choose_ids(100, 5, [99, 2, 400, -1]).tolist() == [0, 1, 2, 3, 99]
    assert choose_ids(3, 5, []).tolist() == [0, 1, 2]


@pytest.mark.parametrize(("tie", "sides"), [("all", 1), ("decoder", 2), ("none", 3)])
def test_only_tables_that_differ_are_sides(tie, sides):
    model = small_traced(tie=tie)
    assert len(distinct_tables(model.bundle)) == sides
    with pytest.raises(ValueError, match="this model has tables for source"):
        distinct_table(model.bundle, "sideways")


def test_neighbours_leave_the_piece_itself_out_and_are_those_of_numpy():
    table = distinct_table(MODEL.bundle, "source")
    near = neighbours_by_id(table, [42, 42, 7])
    assert list(near) == ["42", "7"]
    vectors = table.vectors / np.linalg.norm(table.vectors, axis=1, keepdims=True)
    cosines = vectors @ vectors[42]
    cosines[42] = -2
    assert [neighbour["id"] for neighbour in near["42"]] == np.argsort(-cosines)[:8].tolist()
    assert near["42"][0]["cosine"] == pytest.approx(cosines.max(), rel=1e-4)


def test_cosines_are_symmetric_and_words_without_a_piece_are_named():
    answer = cosine_table(distinct_table(MODEL.bundle, "source"), ["ball", "blue", "ball", ""])
    cosines = np.array(answer["cosines"])
    assert answer["words"] == ["ball", "blue"]
    assert answer["unknown"] == [""]
    np.testing.assert_array_equal(cosines, cosines.T)
    np.testing.assert_allclose(np.diag(cosines), 1.0, atol=1e-5)
    with pytest.raises(ValueError, match="none of these words"):
        cosine_table(distinct_table(MODEL.bundle, "source"), [""])


@pytest.mark.parametrize(
    ("verb", "arguments", "says"),
    [
        ("words", {}, "words.side is missing"),
        ("words", {"side": "all"}, "side is 'all'; this model has tables for source, target, output"),
        ("words", {"side": "source", "n": 1}, "words.n is unknown"),
        ("neighbours", {"side": "source", "piece": -1}, "piece is -1, expected a whole number from 0 to 306"),
        ("neighbours", {"side": "source", "piece": True}, "piece is True"),
        ("similar", {"side": "source", "words": ["a"] * 17}, "list should have at most 16 items"),
        ("similar", {"side": "source", "words": [3]}, "similar.words[0] is 3; it should be a valid string"),
        (
            "analogy",
            {"side": "source", "question": "king"},
            "is not an analogy; it needs words with signs between them, for example: king - man",
        ),
        ("identity", {"sentence": "a\ud800"}, "half of a surrogate pair"),
        ("masking", {"x": 1}, "masking.x is unknown"),
    ],
)
def test_bad_queries_are_refused(verb, arguments, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        perform_act(TRACE, verb, arguments)


def test_every_answer_is_plain_json():
    arguments_of = {
        "words": {"side": "source"},
        "neighbours": {"side": "output", "piece": 5},
        "similar": {"side": "target", "words": ["la", "azul"]},
        "analogy": {"side": "source", "question": "king - man + woman", "expected": "queen"},
        "masking": {},
        "identity": {"sentence": "blue is ball The"},
        "heads": {},
        "training": {},
    }
    assert arguments_of.keys() == VERBS.keys()
    for verb, arguments in arguments_of.items():
        answer = perform_act(TRACE, verb, arguments)
        assert json.loads(json.dumps(answer, allow_nan=False)) == answer, verb


def test_an_expected_word_with_a_piece_of_the_question_is_not_looked_for():
    arguments = {"side": "source", "question": "king - man + woman", "expected": "queen"}
    answer = perform_act(TRACE, "analogy", arguments)
    assert isinstance(answer, dict)
    assert answer["rank"] is None
    assert answer["verdict"].startswith("queen has a piece of the question, so it is not looked for; ")
    distinct = perform_act(TRACE, "analogy", {"side": "source", "question": "<s> - <pad>", "expected": "</s>"})
    assert isinstance(distinct, dict)
    assert 1 <= distinct["rank"] <= distinct["candidates"]
    assert distinct["by_chance"] == distinct["rank"] / distinct["candidates"]


def test_an_analogy_says_its_chance_level():
    answer = perform_act(TRACE, "analogy", {"side": "source", "question": "is - the + ball"})
    assert isinstance(answer, dict)
    assert answer["candidates"] == len(distinct_table(MODEL.bundle, "source").pieces) - len(
        {i for word in ("is", "the", "ball") for i in distinct_table(MODEL.bundle, "source").word(word).ids}
    )
    assert len(answer["answers"]) == 8


def test_a_file_lists_the_neighbours_of_the_sentence():
    maps = answers_for_file(TRACE)["words"]
    assert [table_map["side"] for table_map in maps] == ["source", "target"]
    for table_map, side in zip(maps, (TRACE.source, TRACE.target), strict=True):
        assert set(table_map["near"]) == set(map(str, side.ids))
        listed_ids = set(table_map["ids"] or range(table_map["count"]))
        assert {neighbour["id"] for neighbours in table_map["near"].values() for neighbour in neighbours} <= listed_ids
        assert len(table_map["pieces"]) <= MOST_PIECES_IN_FILE
    assert [similar["words"] for similar in (maps[0]["similar"],)] == [["The", "ball", "is", "blue"]]
