import numpy as np
import pytest

from pellucid.inspect.input_vectors import input_vectors
from tests.trace.traced import small_traced


@pytest.mark.article("A7", "A15", "A16")
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "none"])
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_word_at_its_place_is_what_the_first_layer_reads(positions: str, side: str):
    model = small_traced(positions=positions)
    text = "The ball is blue"
    stack, place = ("encoder", 0) if side == "source" else ("decoder", 1)
    trace = model.trace("Yes.", target=text) if side == "target" else model.trace(text, target="")
    for word in text.split():
        for each in input_vectors(model.bundle, word, side, place):
            assert each.input == pytest.approx(trace.values_of(f"{stack}.input")[place], rel=1e-6)
            assert each.scaled == pytest.approx(trace.values_of(f"{stack}.embedding")[place], rel=1e-6)
            assert each.at == place
            place += 1


def test_scaled_is_the_row_times_the_root_and_the_input_adds_the_position():
    model = small_traced()
    [found, *_] = input_vectors(model.bundle, "the", at=5)
    table = model.bundle.model.get_parameter("source_embedding.weight").detach().numpy()
    assert found.row.tolist() == table[found.id].tolist()
    assert found.scaled == pytest.approx(found.row * 12**0.5, rel=1e-6)
    assert found.position is not None
    assert found.input == pytest.approx(found.scaled + found.position, rel=1e-6)
    angles = 5 / 10000 ** (np.arange(0, 12, 2) / 12)
    assert found.position[0::2] == pytest.approx(np.sin(angles), abs=1e-6)
    assert found.position[1::2] == pytest.approx(np.cos(angles), abs=1e-6)


def test_without_added_positions_the_input_is_the_scaled_row():
    [found, *_] = input_vectors(small_traced(positions="rotary").bundle, "the", at=5)
    assert found.position is None
    assert found.input.tolist() == found.scaled.tolist()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (("the", "output", 0), "side is 'output', it must be source or target"),
        (("", "source", 0), "'' is no word"),
        (("the", "source", 97), "'the' at position 97 ends beyond this model's positions, 0 to 96"),
        (("the", "source", -1), "'the' at position -1"),
    ],
)
def test_what_there_is_not_is_told(asked, message: str):
    with pytest.raises(ValueError, match=r".") as raised:
        input_vectors(small_traced().bundle, *asked)
    assert message in str(raised.value)
