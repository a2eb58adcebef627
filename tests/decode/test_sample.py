"""Sampling: how often pieces are drawn, and what a draw depends on."""

import pytest
import torch

from pellucid.decode.greedy import draw_piece, greedy_search, sample_search
from tests.decode.tables import Prefixes, limit, random_logits, step_from

PROBABILITIES = torch.tensor([0.05, 0.4, 0.15, 0.3, 0.1])


def draw_uniform(seed, *shape):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def measure_shares(temperature=1.0, top_k=0, top_p=1.0, draws=20011):
    log_probs = PROBABILITIES.log().expand(draws, -1)
    drawn = draw_piece(log_probs, draw_uniform(1, draws), temperature, top_k, top_p)
    return drawn.bincount(minlength=5) / draws


def sample(step, state, limits, draws, temperature=1.0, top_k=0, top_p=1.0):
    return sample_search(
        step, state, limits, draws, temperature=temperature, top_k=top_k, top_p=top_p, length_penalty=0.6
    )


@pytest.mark.parametrize(
    ("cut", "expected"),
    [
        ({}, PROBABILITIES.tolist()),
        ({"top_k": 2}, [0, 4 / 7, 0, 3 / 7, 0]),
        ({"top_p": 0.7}, [0, 4 / 7, 0, 3 / 7, 0]),
        ({"top_p": 0.71}, [0, 0.4 / 0.85, 0.15 / 0.85, 0.3 / 0.85, 0]),
        ({"top_p": 0.01}, [0, 1, 0, 0, 0]),
        ({"top_k": 3, "top_p": 0.8}, [0, 4 / 7, 0, 3 / 7, 0]),  # .4 + .3 of the .85 that top_k leaves is .82
        ({"temperature": 0.5}, (PROBABILITIES**2 / (PROBABILITIES**2).sum()).tolist()),
        ({"top_k": 99}, PROBABILITIES.tolist()),
    ],
)
def test_pieces_come_as_often_as_they_are_probable(cut, expected):
    shares = measure_shares(**cut).tolist()
    assert shares == pytest.approx(expected, abs=0.015)  # four standard deviations
    assert [share > 0 for share in shares] == [share > 0 for share in expected]


def test_the_largest_draw_never_takes_what_was_cut():
    almost_one = torch.nextafter(torch.tensor([1.0]), torch.tensor([0.0]))
    for top in ({"top_k": 1, "top_p": 1.0}, {"top_k": 0, "top_p": 0.3}):
        for value in (almost_one, torch.tensor([1.0]), torch.tensor([0.0])):
            assert draw_piece(PROBABILITIES.log()[None], value, 1.0, **top).item() == 1


def test_drawing_from_one_piece_is_greedy_search():
    step = step_from(random_logits(1, 7))
    greedy = greedy_search(step, Prefixes([0, 1, 2]), limit(5, 11, 3), length_penalty=0.6)
    for temperature, top_k, top_p in ((1.0, 1, 1.0), (1.0, 0, 1e-6), (1e-4, 0, 1.0)):
        draws = draw_uniform(2, 3, 1, 11)
        assert sample(step, Prefixes([0, 1, 2]), limit(5, 11, 3), draws, temperature, top_k, top_p) == greedy


def test_a_draw_depends_on_its_own_numbers_and_on_no_neighbour():
    step = step_from(random_logits(3, 7))
    draws = draw_uniform(5, 3, 7, 11)
    batched = sample(step, Prefixes([0, 1, 2]), limit(5, 11, 3), draws)
    repeated = sample(step, Prefixes([0, 1, 2]), limit(5, 11, 3), draws.clone())
    one_by_one = [sample(step, Prefixes([i]), limit([5, 11, 3][i]), draws[i : i + 1])[0] for i in range(3)]
    assert batched == repeated == one_by_one
    assert len({tuple(h.tokens) for hypotheses in batched for h in hypotheses}) > 10


def test_the_draws_of_a_sentence_come_best_first():
    step = step_from(random_logits(3, 7))
    for hypotheses in sample(step, Prefixes([0, 1]), limit(5, 7), draw_uniform(7, 2, 13, 7)):
        assert len(hypotheses) == 13
        assert hypotheses == sorted(hypotheses, key=lambda h: (h.stop != "eos", -h.score))


def test_a_sample_keeps_the_log_probabilities_of_the_model():
    logits = random_logits(3, 7)
    [[hypothesis]] = sample(
        step_from(logits), Prefixes([0]), limit(5), draw_uniform(7, 1, 1, 5), temperature=0.3, top_k=2
    )
    pieces = hypothesis.tokens + [3] * (hypothesis.stop == "eos")
    expected = [logits(0, tuple(pieces[:i])).log_softmax(0)[piece].item() for i, piece in enumerate(pieces)]
    assert hypothesis.log_probs == pytest.approx(expected)


def test_special_pieces_are_never_drawn():
    step = step_from(lambda sentence, prefix: torch.tensor([9.0, 9.0, 9.0, -9.0, 0.0, 0.0, 0.0]))
    [hypotheses] = sample(step, Prefixes([0]), limit(11), draw_uniform(1, 1, 17, 11))
    assert {token for h in hypotheses for token in h.tokens} == {4, 5, 6}
