import numpy as np
import pytest

from pellucid.interpret.studies.attention_tables import take_product_apart
from tests.trace.traced import ball, small_traced


@pytest.mark.article("B22", "D7")
@pytest.mark.parametrize("name", ["encoder.1.self", "decoder.2.self", "decoder.0.cross"])
def test_a_product_is_cosine_times_lengths_and_a_sum(name: str):
    trace = small_traced(double=True).trace("The ball is blue.", target="La bola es azul.")
    query, key = ("azul", "bola") if name.startswith("decoder") else ("blue", "ball")
    pair = take_product_apart(trace, name, 1, query, "ball" if name.endswith("cross") else key)
    assert pair.product == pytest.approx(pair.cosine * pair.query_norm * pair.key_norm, rel=1e-14)
    assert pair.product == pytest.approx(sum(pair.by_dimension), rel=1e-12)
    assert pair.score == pytest.approx(pair.product / pair.width**0.5, rel=1e-12)
    assert pair.product == pytest.approx(trace.values_of(f"{name}.products")[1, pair.query_place, pair.key_place])
    assert len(pair.by_dimension) == pair.width == 4
    assert -1.0 <= pair.cosine <= 1.0


def test_the_weight_is_the_softmax_of_the_scores_of_its_row():
    trace = small_traced().trace("The ball.", target="", keep="encoder.0.self.*")
    pieces = trace.source.pieces
    names = [f"{piece}:{pieces[: n + 1].count(piece)}" for n, piece in enumerate(pieces)]
    pairs = [take_product_apart(trace, "encoder.0.self", 0, "ball", name) for name in names]
    assert [pair.key_place for pair in pairs] == list(range(len(pieces)))
    scores = np.exp([pair.score for pair in pairs])
    assert [pair.weight for pair in pairs] == pytest.approx(scores / scores.sum(), rel=1e-5)
    assert sorted(pair.rank for pair in pairs) == list(range(1, len(pairs) + 1))
    assert max(pairs, key=lambda pair: pair.score).rank == 1


def test_the_largest_dimensions_come_first_by_sign():
    pair = take_product_apart(ball(), "encoder.0.self", 0, "blue", "ball")
    plus, minus = pair.largest(9, 1), pair.largest(9, -1)
    assert [value for _, value in plus] == sorted((v for v in pair.by_dimension if v > 0), reverse=True)
    assert [value for _, value in minus] == sorted(v for v in pair.by_dimension if v < 0)
    assert all(pair.by_dimension[d] == value for d, value in [*plus, *minus])
    assert len(pair.largest(1, 1)) <= 1


def test_the_first_piece_of_a_word_is_taken():
    trace = small_traced().trace("zebra is blue", target="", keep="encoder.0.self.*")
    pair = take_product_apart(trace, "encoder.0.self", 0, "zebra", "blue")
    pieces = [piece for piece, word in zip(trace.source.pieces, trace.source.words, strict=True) if word == 0]
    assert pair.query_piece == pieces[0]
    note, _ = pair.notes
    assert note.startswith(f"zebra has {len(pieces)} pieces, {' '.join(pieces)}: ")
    second = take_product_apart(trace, "encoder.0.self", 0, pieces[1], "blue")
    assert (second.query_place, len(second.notes)) == (1, 1)


def test_the_future_has_no_score():
    trace = small_traced().trace("Yes.", target="La bola es azul.")
    with pytest.raises(ValueError, match="'La' may not read 'azul': it stands later"):
        take_product_apart(trace, "decoder.0.self", 0, "La", "azul")
    last = take_product_apart(trace, "decoder.0.self", 0, "azul", "La")
    assert last.keys == last.query_place + 1
