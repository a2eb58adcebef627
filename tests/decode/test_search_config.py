"""Settings of a search: the defaults, and what is refused."""

import numpy as np
import pytest

from pellucid.decode.request import SearchConfig


def test_the_defaults_are_the_papers_but_for_the_length_penalty():
    config = SearchConfig()
    assert (config.method, config.beam, config.length_penalty, config.max_extra) == ("beam", 4, 1.0, 50)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "beams"}, "method is 'beams', it must be beam, greedy or sample"),
        ({"beam": 0, "n_best": 0}, "beam is 0, it must be 1 or more; n_best is 0"),
        ({"n_best": 5}, "n_best is 5, it must be from 1 to 4 with method = 'beam'"),
        ({"n_best": 2, "method": "greedy"}, "n_best is 2, it must be from 1 to 1 with method = 'greedy'"),
        ({"length_penalty": -0.5}, "length_penalty is -0.5, it must be 0 or more"),
        ({"length_penalty": float("nan")}, "length_penalty is nan"),
        ({"temperature": 0.0}, "above 0; for 0 take method = 'greedy'"),
        ({"top_k": -1, "top_p": 0.0}, "top_k is -1, .*; top_p is 0.0, it must be above 0 and at most 1"),
        ({"max_extra": 0}, "max_extra is 0"),
        ({"batch": -1, "batch_tokens": 0}, "batch is -1, .*; batch_tokens is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"beam": "4"}, "^invalid search settings: beam is '4', it must be a whole number$"),
        ({"seed": None, "top_p": "1"}, "top_p is '1', it must be a number; seed is None, it must be a whole number"),
        ({"n_best": True}, "n_best is True, it must be a whole number"),
        ({"batch": 2.5, "alignments": "yes"}, "batch is 2.5, .*; alignments is 'yes', it must be True or False"),
        ({"method": ["beam"]}, "method is ..beam.., it must be beam, greedy or sample"),
    ],
)
def test_invalid_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        SearchConfig(**settings)


@pytest.mark.parametrize("settings", [{"beam": 0}, {"beam": -3, "n_best": 2}])
def test_an_invalid_beam_is_the_only_problem(settings):
    with pytest.raises(
        ValueError, match=f"^invalid search settings: beam is {settings['beam']}, it must be 1 or more$"
    ):
        SearchConfig(**settings)


def test_numbers_of_numpy_are_numbers():
    assert SearchConfig(beam=np.int64(5), length_penalty=np.float32(0.5)) == SearchConfig(beam=5, length_penalty=0.5)  # pyright: ignore[reportArgumentType]
    assert SearchConfig(length_penalty=1).length_penalty == 1


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [("num_beams", "'beam'"), ("beams", "'beam'"), ("nbest", "'n_best'"), ("topk", "'top_k'"), ("Beam", "'beam'")],
)
def test_an_unknown_option_comes_with_the_nearest(name, suggestion):
    with pytest.raises(
        ValueError, match=rf"^unknown option '{name}'; did you mean {suggestion}\? \(known: method, beam, "
    ):
        SearchConfig.from_options({name: 4})


def test_every_unknown_option_is_named():
    with pytest.raises(
        ValueError, match=r"^unknown option 'xyz'; unknown option 'scor'; did you mean 'scores'\? \(kno"
    ):
        SearchConfig.from_options({"xyz": 4, "scor": 1, "beam": 2})


def test_sampling_may_draw_more_than_the_beam_is_wide():
    assert SearchConfig(method="sample", n_best=11).n_best == 11
