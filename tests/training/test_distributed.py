"""The kinds of workers: what each adds up, holds and says of itself."""

from types import SimpleNamespace

import pytest
import torch
from torch import distributed

from pellucid.model import ModelConfig, Transformer
from pellucid.training.distributed import ALONE, Replicated, Sharded

THREE = {"rank": 1, "world_size": 3}


@pytest.fixture(autouse=True)
def three_equal_workers(monkeypatch):
    """Let each exchange be with two workers that have the same numbers."""

    def all_reduce(tensor, kind=distributed.ReduceOp.SUM, async_op=False):
        if kind == distributed.ReduceOp.SUM:
            tensor *= 3
        return SimpleNamespace(wait=lambda: None) if async_op else None

    monkeypatch.setattr(distributed, "all_reduce", all_reduce)


@pytest.mark.parametrize(("workers", "factor"), [(ALONE, 1), (Replicated(**THREE), 3), (Sharded(**THREE), 3)])
def test_losses_and_counts_are_added_up_over_all_workers(workers, factor):
    loss, counts = workers.sum_numbers(torch.tensor(2.5, dtype=torch.float64), 7, 0, 2)
    assert (loss.item(), counts) == (2.5 * factor, [7 * factor, 0, 2 * factor])


@pytest.mark.parametrize(("workers", "factor"), [(ALONE, 1), (Replicated(**THREE), 3), (Sharded(**THREE), 1)])
def test_gradients_are_added_up_where_nobody_did_it_in_the_backward_pass(workers, factor):
    model = Transformer(ModelConfig(11, 11, 6, 10, 2, 1, 1))
    count = sum(parameter.numel() for parameter in model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 2.0)
    sums = workers.begin_sums(model)
    sums.send_rest()
    gradients = sums.receive()
    assert sum(gradient.sum().item() for gradient in gradients) == 2 * factor * count
    assert all(gradient is parameter.grad for gradient, parameter in zip(gradients, model.parameters(), strict=True))
    assert workers.measure_norm(gradients).item() == pytest.approx(2 * factor * count**0.5)


@pytest.mark.parametrize("workers", [ALONE, Replicated(**THREE)])
def test_a_whole_model_is_gathered_as_it_is(workers):
    model, state = Transformer(ModelConfig(11, 11, 6, 10, 2, 1, 1)), {}
    gathered_model, gathered_state = workers.gather_model(workers.place_model(model), state)
    assert gathered_model is model
    assert gathered_state is state


def test_only_workers_that_share_a_model_go_through_its_layers_together():
    assert [workers.in_lockstep for workers in (ALONE, Replicated(**THREE), Sharded(**THREE))] == [False, False, True]
    assert (ALONE.is_first, Replicated(**THREE).is_first) == (True, False)


def test_workers_say_how_they_share_a_run():
    assert ALONE.describe() == ""
    assert Replicated(**THREE).describe() == "3 workers share the pairs of each update"
    assert Sharded(**THREE).describe() == (
        "3 workers share the pairs of each update, and each keeps its part of the model"
    )
