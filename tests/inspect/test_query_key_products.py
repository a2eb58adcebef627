import numpy as np
import pytest

from pellucid.inspect.query_key_products import query_key_plane, take_product_apart
from tests.trace.traced import ball, small_traced


@pytest.mark.article("B22", "D7")
@pytest.mark.parametrize("name", ["encoder.1.self", "decoder.2.self", "decoder.0.cross"])
def test_a_product_is_cosine_times_lengths_and_the_sum_of_its_dimensions(name: str):
    trace = small_traced(double=True).trace("The ball is blue.", target="La bola es azul.")
    query, key = ("azul", "bola") if name.startswith("decoder") else ("blue", "ball")
    found = take_product_apart(trace, name, 1, query, "ball" if name.endswith("cross") else key)
    assert found.product == pytest.approx(found.cosine * found.query_norm * found.key_norm, rel=1e-14)
    assert found.product == pytest.approx(sum(found.by_dimension), rel=1e-12)
    assert found.score == pytest.approx(found.product / found.width**0.5, rel=1e-12)
    assert found.product == pytest.approx(trace.values_of(f"{name}.products")[1, found.query_place, found.key_place])
    assert len(found.by_dimension) == found.width == 4
    assert -1.0 <= found.cosine <= 1.0


def test_the_weight_is_the_softmax_of_the_scores_of_its_row():
    trace = small_traced().trace("The ball.", target="", keep="encoder.0.self.*")
    pieces = trace.source.pieces
    names = [f"{piece}:{pieces[: n + 1].count(piece)}" for n, piece in enumerate(pieces)]
    every = [take_product_apart(trace, "encoder.0.self", 0, "ball", name) for name in names]
    assert [each.key_place for each in every] == list(range(len(pieces)))
    scores = np.exp([each.score for each in every])
    assert [each.weight for each in every] == pytest.approx(scores / scores.sum(), rel=1e-5)
    assert sorted(each.rank for each in every) == list(range(1, len(every) + 1))
    assert max(every, key=lambda each: each.score).rank == 1


def test_the_largest_dimensions_come_first_by_sign():
    found = take_product_apart(ball(), "encoder.0.self", 0, "blue", "ball")
    plus, minus = found.largest(9, 1), found.largest(9, -1)
    assert [value for _, value in plus] == sorted((v for v in found.by_dimension if v > 0), reverse=True)
    assert [value for _, value in minus] == sorted(v for v in found.by_dimension if v < 0)
    assert all(found.by_dimension[d] == value for d, value in [*plus, *minus])
    assert len(found.largest(1, 1)) <= 1


def test_of_a_word_of_pieces_the_first_is_taken_and_others_can_be_named():
    trace = small_traced().trace("zebra is blue", target="", keep="encoder.0.self.*")
    found = take_product_apart(trace, "encoder.0.self", 0, "zebra", "blue")
    pieces = [piece for piece, word in zip(trace.source.pieces, trace.source.words, strict=True) if word == 0]
    assert found.query_piece == pieces[0]
    note, _ = found.notes
    assert note.startswith(f"zebra has {len(pieces)} pieces, {' '.join(pieces)}: ")
    other = take_product_apart(trace, "encoder.0.self", 0, pieces[1], "blue")
    assert (other.query_place, len(other.notes)) == (1, 1)


def test_the_future_has_no_score():
    trace = small_traced().trace("Yes.", target="La bola es azul.")
    with pytest.raises(ValueError, match="'La' may not read 'azul': it stands later"):
        take_product_apart(trace, "decoder.0.self", 0, "La", "azul")
    last = take_product_apart(trace, "decoder.0.self", 0, "azul", "La")
    assert last.keys == last.query_place + 1


def test_the_plane_keeps_what_two_dimensions_hold():
    trace = ball()
    found = query_key_plane(trace, "encoder.0.self", 1)
    q, k = (trace.values_of(f"encoder.0.self.{name}")[1].astype(np.float64) for name in ("q", "k"))
    total = (q**2).sum() + (k**2).sum()
    assert found.kept == pytest.approx(((found.queries**2).sum() + (found.keys**2).sum()) / total)
    draw = np.random.default_rng(1)  # no other plane keeps more
    for _ in range(50):
        other, _ = np.linalg.qr(draw.standard_normal((q.shape[1], 2)))
        assert ((q @ other) ** 2).sum() + ((k @ other) ** 2).sum() <= found.kept * total + 1e-9


def test_heads_as_wide_as_the_plane_lose_nothing():
    trace = small_traced(d_model=6, heads=3).trace("The ball is blue.", target="", keep="encoder.0.self.*")
    found = query_key_plane(trace, "encoder.0.self", 2)
    products = trace.values_of("encoder.0.self.products")[2]
    assert found.kept == pytest.approx(1.0)
    np.testing.assert_allclose(found.queries @ found.keys.T, products, atol=1e-5)
