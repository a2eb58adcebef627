"""The fast decoder and the readable one are the same decoder."""

import pytest
import torch

from pellucid.decode.step import ModelState, model_step, pad_sentences
from pellucid.decode.stepper import Stepper
from pellucid.decode.torch_engine import TorchEngine
from pellucid.model.positions import Positions
from tests.decode.models import random_model

SOURCES = [[5, 7, 9, 11, 6, 3], [8, 3], [4, 4, 10, 3]]

OPTIONS = [
    {},
    {"norm": "post"},
    {"norm": "rms"},
    {"positions": "learned"},
    {"positions": "rotary", "d_model": 8},
    {"positions": "none"},
    {"activation": "gelu"},
    {"activation": "swiglu"},
    {"d_model": 28, "heads": 7, "decoder_layers": 1},
]


def walk(model, choices, dtype=torch.float32):
    """Logits of both decoders along the same steps: (ids, rows, sentences) each, rows and sentences kept afterwards."""
    fast = Stepper(model)
    with torch.inference_mode():
        source = pad_sentences(SOURCES, torch.device("cpu"))
        kept, steps = ModelState(model.encode(source)), fast.begin(source)
        readable = model_step(model)
        for ids, rows, sentences in choices:
            yield readable(torch.tensor(ids), kept), fast(torch.tensor(ids), steps)
            for state in (kept, steps):
                state.select(torch.tensor(rows), torch.tensor(sentences))


BEAMS_CHANGING_PLACES_AND_SENTENCES_LEAVING = [
    ([2, 2, 2], [0, 0, 1, 1, 2, 2], [0, 1, 2]),  # one hypothesis each becomes two
    ([4, 5, 6, 7, 8, 9], [1, 0, 3, 3, 4, 5], [0, 1, 2]),  # they change places; one is taken twice, one dropped
    ([9, 8, 7, 6, 5, 4], [1, 1, 5, 4], [0, 2]),  # the middle sentence leaves
    ([4, 5, 6, 7], [3, 2], [1]),
    ([10, 11], [0, 1], [0]),
    ([4, 4], [1, 0], [0]),
]
GREEDY = [([2, 2, 2], [0, 1, 2], [0, 1, 2]), ([5, 6, 7], [0, 2], [0, 2]), ([4, 4], [1], [1]), ([9], [0], [0])]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("choices", [BEAMS_CHANGING_PLACES_AND_SENTENCES_LEAVING, GREEDY], ids=["beams", "greedy"])
def test_the_fast_step_gives_what_the_model_gives(options, choices):
    model = random_model(3, 13, 17, **options).double()  # where rounding is no excuse
    for readable, fast in walk(model, choices):
        assert torch.allclose(readable, fast, rtol=0, atol=1e-11)


@pytest.mark.parametrize("choices", [BEAMS_CHANGING_PLACES_AND_SENTENCES_LEAVING, GREEDY], ids=["beams", "greedy"])
def test_so_it_does_in_single_precision_with_packed_matrices(choices):
    model = random_model(3, 13, 17, d_model=256, d_ff=1024)
    for readable, fast in walk(model, choices):
        assert torch.allclose(readable, fast, rtol=0, atol=1e-4)


def test_there_is_room_for_more_steps_than_were_foreseen():
    model = random_model(1, 13, 17).double()
    choices = [([4 + at % 7] * 6, [0, 1, 3, 2, 5, 4], [0, 1, 2]) for at in range(61)]
    choices = [([2, 2, 2], [0, 0, 1, 1, 2, 2], [0, 1, 2]), *choices]
    for readable, fast in walk(model, choices):
        assert torch.allclose(readable, fast, rtol=0, atol=1e-11)


def test_a_model_whose_weights_change_is_packed_again():
    model = random_model(1, 13, 17, d_model=64)
    stepper = Stepper(model)
    assert not stepper.stale
    with torch.no_grad():
        model.output_embedding.weight.mul_(1.5)
    assert stepper.stale
    stepper = Stepper(model)
    model.decoder_norm = torch.nn.LayerNorm(64)
    assert stepper.stale


def test_positions_that_add_to_the_scores_take_the_readable_step():
    model = random_model(1, 13, 17)

    class Biased(Positions):
        def bias(self, q_positions, k_positions):
            return torch.zeros(1, 2, len(q_positions), len(k_positions))

    assert isinstance(TorchEngine([model], ()).begin_step(torch.tensor([[5, 3]]))[0], Stepper)
    model.target_positions = Biased()
    step, state = TorchEngine([model], ()).begin_step(torch.tensor([[5, 3]]))
    assert not isinstance(step, Stepper)
    assert isinstance(state, ModelState)
