from dataclasses import replace

import numpy as np
import pytest

from pellucid.interpret.studies.word_vectors import Embeddings, embedding_table
from tests.trace.traced import small_traced


def table(seed: int = 1, pieces: int = 41, width: int = 7) -> Embeddings:
    """Random vectors of pieces named a0, a1, ...; a text is cut at blanks."""
    vectors = np.random.default_rng(seed).standard_normal((pieces, width)) + 0.3
    names = [f"a{n}" for n in range(pieces)]
    return Embeddings("source", names, vectors, lambda text: [names.index(word) for word in text.split()])


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """Cosine of two vectors, by hand."""
    return float(sum(x * y for x, y in zip(a, b, strict=True)) / (sum(x * x for x in a) * sum(y * y for y in b)) ** 0.5)


def test_a_word_has_cosine_one_with_itself():
    embeddings = table()
    cosines = embeddings.cosines(embeddings.words(["a3", "a4 a9", "a0"]))
    assert np.diag(cosines) == pytest.approx(1.0, abs=1e-14)
    assert cosines[0, 2] == pytest.approx(cosine(embeddings.vectors[3], embeddings.vectors[0]), rel=1e-12)


def test_a_word_of_several_pieces_is_their_mean():
    embeddings = table()
    word = embeddings.word("a4 a9")
    assert word.pieces == ("a4", "a9")
    assert embeddings.vector(word) == pytest.approx((embeddings.vectors[4] + embeddings.vectors[9]) / 2)


@pytest.mark.article("A8", "C10")
def test_neighbours_equal_brute_force():
    embeddings = table()
    near = embeddings.neighbours(embeddings.vectors[5], 6, without=[5])
    by_hand = sorted((-cosine(embeddings.vectors[5], embeddings.vectors[n]), n) for n in range(41) if n != 5)[:6]
    assert [neighbour.id for neighbour in near] == [n for _, n in by_hand]
    assert [neighbour.cosine for neighbour in near] == pytest.approx([-c for c, _ in by_hand], rel=1e-12)
    assert [neighbour.piece for neighbour in near] == [f"a{n}" for _, n in by_hand]


def test_neighbours_do_not_change_when_the_whole_table_is_turned():
    embeddings = table()
    turn, _ = np.linalg.qr(np.random.default_rng(2).standard_normal((7, 7)))
    turned, stretched = (
        replace(embeddings, vectors=embeddings.vectors @ matrix) for matrix in (turn, np.diag(np.arange(1, 8)))
    )
    for n in range(41):
        before, after = (
            [(neighbour.id, round(neighbour.cosine, 12)) for neighbour in t.neighbours(t.vectors[n], 41)]
            for t in (embeddings, turned)
        )
        assert before == after
    assert any(
        embeddings.neighbours(embeddings.vectors[n], 2)[1].id != stretched.neighbours(stretched.vectors[n], 2)[1].id
        for n in range(41)
    )


def test_chance_is_the_mean_and_the_deviation_of_all_pairs():
    embeddings = table()
    pairs = [cosine(embeddings.vectors[a], embeddings.vectors[b]) for a in range(41) for b in range(41) if a != b]
    chance = embeddings.chance()
    assert chance.mean == pytest.approx(np.mean(pairs), rel=1e-12)
    assert chance.deviation == pytest.approx(np.std(pairs), rel=1e-12)


def test_a_row_of_zeros_is_near_nothing():
    embeddings = table()
    embeddings.vectors[8] = 0.0
    assert np.isfinite(embeddings.chance().mean)
    assert [
        neighbour.cosine for neighbour in embeddings.neighbours(embeddings.vectors[3], 41) if neighbour.id == 8
    ] == [0.0]


@pytest.mark.parametrize("side", ["source", "target", "output"])
def test_each_table_of_a_model_is_its_own(side: str):
    bundle = small_traced(tie="none").bundle
    embeddings = embedding_table(bundle, side)
    weight = bundle.model.get_parameter(f"{side}_embedding.weight").detach().numpy()
    assert embeddings.vectors == pytest.approx(weight)
    assert embeddings.pieces[3] == "</s>"


def test_words_differ_from_pieces():
    embeddings = embedding_table(small_traced().bundle)
    assert embeddings.word("the").pieces == ("▁the",)
    assert embeddings.word("▁the").ids == embeddings.word("the").ids
    assert embeddings.word("</s>").ids == (3,)
    assert len(embeddings.word("zebra").ids) > 1
    assert embeddings.word("<b>").ids[0] != embeddings.word("b").ids[0]


def test_unknown_words_and_sides_are_refused():
    embeddings = embedding_table(small_traced().bundle)
    with pytest.raises(ValueError, match="' ' is no word"):
        embeddings.word(" ")
    with pytest.raises(ValueError, match="0 neighbours were asked for"):
        embeddings.neighbours(embeddings.vectors[3], 0)
    with pytest.raises(ValueError, match="side is 'left', it must be source, target or output"):
        embedding_table(small_traced().bundle, "left")
