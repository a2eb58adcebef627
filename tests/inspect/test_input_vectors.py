import numpy as np
import pytest

from pellucid.interpret.studies.word_vectors import input_vectors
from tests.trace.traced import small_traced


@pytest.mark.article("A7", "A15", "A16")
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "none"])
@pytest.mark.parametrize("side", ["source", "target"])
def test_inputs_equal_those_of_a_trace(positions: str, side: str):
    model = small_traced(positions=positions)
    text = "The ball is blue"
    stack, position = ("encoder", 0) if side == "source" else ("decoder", 1)
    trace = model.trace("Yes.", target=text) if side == "target" else model.trace(text, target="")
    for word in text.split():
        for vectors in input_vectors(model.bundle, word, side, position):
            assert vectors.input == pytest.approx(trace.values_of(f"{stack}.input")[position], rel=1e-6)
            assert vectors.scaled == pytest.approx(trace.values_of(f"{stack}.embedding")[position], rel=1e-6)
            assert vectors.at == position
            position += 1


def test_vectors_by_hand():
    model = small_traced()
    [vectors, *_] = input_vectors(model.bundle, "the", at=5)
    table = model.bundle.model.get_parameter("source_embedding.weight").detach().numpy()
    assert vectors.row.tolist() == table[vectors.id].tolist()
    assert vectors.scaled == pytest.approx(vectors.row * 12**0.5, rel=1e-6)
    assert vectors.position is not None
    assert vectors.input == pytest.approx(vectors.scaled + vectors.position, rel=1e-6)
    angles = 5 / 10000 ** (np.arange(0, 12, 2) / 12)
    assert vectors.position[0::2] == pytest.approx(np.sin(angles), abs=1e-6)
    assert vectors.position[1::2] == pytest.approx(np.cos(angles), abs=1e-6)


def test_without_added_positions_the_input_is_the_scaled_row():
    [vectors, *_] = input_vectors(small_traced(positions="rotary").bundle, "the", at=5)
    assert vectors.position is None
    assert vectors.input.tolist() == vectors.scaled.tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("the", "output", 0), "side is 'output', it must be source or target"),
        (("", "source", 0), "'' is no word"),
        (("the", "source", 97), "'the' at position 97 ends beyond this model's positions, 0 to 96"),
        (("the", "source", -1), "'the' at position -1"),
    ],
)
def test_unknown_sides_words_and_positions_are_refused(arguments, message: str):
    with pytest.raises(ValueError, match=r".") as raised:
        input_vectors(small_traced().bundle, *arguments)
    assert message in str(raised.value)
