from dataclasses import replace

import numpy as np
import pytest

from pellucid.inspect.embeddings import Embeddings, embedding_table
from tests.trace.traced import small_traced


def table(seed: int = 1, pieces: int = 41, width: int = 7) -> Embeddings:
    """Random vectors of pieces named a0, a1, ...; a text is cut at blanks."""
    vectors = np.random.default_rng(seed).standard_normal((pieces, width)) + 0.3
    names = [f"a{n}" for n in range(pieces)]
    return Embeddings("source", names, vectors, lambda text: [names.index(word) for word in text.split()])


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """By hand."""
    return float(sum(x * y for x, y in zip(a, b, strict=True)) / (sum(x * x for x in a) * sum(y * y for y in b)) ** 0.5)


def test_a_word_is_as_similar_to_itself_as_can_be():
    found = table()
    cosines = found.cosines(found.words(["a3", "a4 a9", "a0"]))
    assert np.diag(cosines) == pytest.approx(1.0, abs=1e-14)
    assert cosines[0, 2] == pytest.approx(cosine(found.vectors[3], found.vectors[0]), rel=1e-12)


def test_a_word_of_several_pieces_is_their_mean():
    found = table()
    word = found.word("a4 a9")
    assert word.pieces == ("a4", "a9")
    assert found.vector(word) == pytest.approx((found.vectors[4] + found.vectors[9]) / 2)


@pytest.mark.article("A8", "C10")
def test_neighbours_are_those_of_brute_force():
    found = table()
    near = found.neighbours(found.vectors[5], 6, without=[5])
    by_hand = sorted((-cosine(found.vectors[5], found.vectors[n]), n) for n in range(41) if n != 5)[:6]
    assert [each.id for each in near] == [n for _, n in by_hand]
    assert [each.cosine for each in near] == pytest.approx([-c for c, _ in by_hand], rel=1e-12)
    assert [each.piece for each in near] == [f"a{n}" for _, n in by_hand]


def test_neighbours_do_not_change_when_the_whole_table_is_turned():
    found = table()
    turn, _ = np.linalg.qr(np.random.default_rng(2).standard_normal((7, 7)))
    turned, stretched = (replace(found, vectors=found.vectors @ matrix) for matrix in (turn, np.diag(np.arange(1, 8))))
    for n in range(41):
        before, after = ([(e.id, round(e.cosine, 12)) for e in t.neighbours(t.vectors[n], 41)] for t in (found, turned))
        assert before == after
    assert any(
        found.neighbours(found.vectors[n], 2)[1].id != stretched.neighbours(stretched.vectors[n], 2)[1].id
        for n in range(41)
    )


def test_chance_is_the_mean_and_the_deviation_of_all_pairs():
    found = table()
    pairs = [cosine(found.vectors[a], found.vectors[b]) for a in range(41) for b in range(41) if a != b]
    chance = found.chance()
    assert chance.mean == pytest.approx(np.mean(pairs), rel=1e-12)
    assert chance.deviation == pytest.approx(np.std(pairs), rel=1e-12)


def test_a_row_of_zeros_is_near_nothing():
    found = table()
    found.vectors[8] = 0.0
    assert np.isfinite(found.chance().mean)
    assert [each.cosine for each in found.neighbours(found.vectors[3], 41) if each.id == 8] == [0.0]


@pytest.mark.parametrize("side", ["source", "target", "output"])
def test_each_table_of_a_model_is_its_own(side: str):
    bundle = small_traced(tie="none").bundle
    found = embedding_table(bundle, side)
    weight = bundle.model.get_parameter(f"{side}_embedding.weight").detach().numpy()
    assert found.vectors == pytest.approx(weight)
    assert found.pieces[3] == "</s>"


def test_words_and_pieces_are_told_apart():
    found = embedding_table(small_traced().bundle)
    assert found.word("the").pieces == ("▁the",)
    assert found.word("▁the").ids == found.word("the").ids
    assert found.word("</s>").ids == (3,)
    assert len(found.word("zebra").ids) > 1
    assert found.word("<b>").ids[0] != found.word("b").ids[0]


def test_what_cannot_be_looked_up_is_refused():
    found = embedding_table(small_traced().bundle)
    with pytest.raises(ValueError, match="' ' is no word"):
        found.word(" ")
    with pytest.raises(ValueError, match="0 neighbours were asked for"):
        found.neighbours(found.vectors[3], 0)
    with pytest.raises(ValueError, match="side is 'left', it must be source, target or output"):
        embedding_table(small_traced().bundle, "left")
