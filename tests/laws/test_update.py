"""Sum first, divide once: how an update is divided into batches changes nothing."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from pellucid.data.batching import Batch
from pellucid.model import ModelConfig, Transformer
from pellucid.training.config import OptimConfig
from pellucid.training.update import batch_loss, update_weights, update_within_memory

ROOT = Path(__file__).parent.parent.parent
PAIRS = 8


def make_model() -> Transformer:
    torch.manual_seed(3)
    return Transformer(ModelConfig(31, 31, 14, 22, 2, 1, 2, dropout=0.0)).double()


def make_batch(rows: slice = slice(None)) -> Batch:
    generator = torch.Generator().manual_seed(5)
    source = torch.randint(4, 31, (PAIRS, 7), generator=generator)
    target = torch.randint(4, 31, (PAIRS, 11), generator=generator)
    for row in range(PAIRS):
        source[row, 7 - row % 3 :] = 0
        target[row, 11 - row :] = 0
    out = target[rows]
    start = torch.full((len(out), 1), 2)
    return Batch(source[rows], torch.cat([start, out[:, :-1]], 1), out, np.arange(PAIRS)[rows], int((out != 0).sum()))


def train_once(batches: list[Batch], c: OptimConfig) -> tuple[Transformer, float]:
    trained = make_model()
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.0)
    result = update_weights(trained, optimizer, batches, 0.5, c, "float32")
    return trained, result.loss


@pytest.mark.parametrize("clip", [1e9, 0.01])
def test_four_small_batches_equal_one_large(clip):
    c = OptimConfig(clip=clip)
    whole, loss = train_once([make_batch()], c)
    # batches of unequal size and unequal numbers of tokens
    accumulated, accumulated_loss = train_once(
        [make_batch(slice(a, b)) for a, b in ((0, 1), (1, 4), (4, 6), (6, 8))], c
    )
    assert loss == pytest.approx(accumulated_loss, rel=1e-12)
    for (name, parameter), (_, other_parameter) in zip(
        whole.named_parameters(), accumulated.named_parameters(), strict=True
    ):
        torch.testing.assert_close(parameter, other_parameter, rtol=1e-9, atol=1e-12, msg=name)


def test_clipping_keeps_the_direction_and_bounds_the_length():
    before = dict(make_model().named_parameters())

    def change(clip):
        trained, _ = train_once([make_batch()], OptimConfig(clip=clip))
        return torch.cat([(parameter - before[name]).flatten() for name, parameter in trained.named_parameters()])

    free, clipped = change(1e9), change(0.01)
    assert clipped.norm().item() == pytest.approx(0.5 * 0.01, rel=1e-4)
    assert nn.functional.cosine_similarity(free, clipped, dim=0).item() == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan])
@pytest.mark.parametrize("name", ["encoder.0.ffn.inner.weight", "decoder.1.cross.qkv.bias"])
def test_a_gradient_that_is_not_finite_changes_nothing_and_is_counted(name, value):
    trained = make_model()
    optimizer = torch.optim.Adam(trained.parameters(), lr=0.1, fused=True)
    assert not update_weights(trained, optimizer, [make_batch()], 0.5, OptimConfig(), "float32").skipped
    before = copy.deepcopy((trained.state_dict(), optimizer.state_dict()["state"]))

    def spoil(gradient):
        gradient = gradient.clone()
        gradient.view(-1)[-1] = value
        return gradient

    handle = trained.get_parameter(name).register_hook(spoil)
    assert update_weights(trained, optimizer, [make_batch()], 0.5, OptimConfig(), "float32").skipped
    assert_equal_states((trained.state_dict(), optimizer.state_dict()["state"]), before)
    assert all(parameter.grad is None for parameter in trained.parameters())
    handle.remove()
    assert not update_weights(trained, optimizer, [make_batch()], 0.5, OptimConfig(), "float32").skipped
    assert not torch.equal(trained.state_dict()[name], before[0][name])


def test_a_weight_that_is_not_a_number_stops_the_update():
    trained = make_model()
    with torch.no_grad():
        trained.get_parameter("encoder.0.ffn.inner.weight")[0, 0] = torch.nan
    before = copy.deepcopy(trained.state_dict())
    optimizer = torch.optim.Adam(trained.parameters())
    assert update_weights(trained, optimizer, [make_batch()], 0.5, OptimConfig(), "float32").skipped
    assert not optimizer.state
    assert_equal_states(trained.state_dict(), before)


def assert_equal_states(first, second):
    torch.testing.assert_close(first, second, rtol=0, atol=0, equal_nan=True)


MEMORY_ERRORS = (
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried"),
    MemoryError(),
)


class ScarceModel(Transformer):
    """Model for which memory runs out on more than `room` pairs, or on one pair with `forbidden` source tokens."""

    room, forbidden, where = 99, 0, "forward"
    error: Exception = MEMORY_ERRORS[0]

    def encode(self, source, *arguments, **options):
        refused = len(source) > self.room or (source.shape[1] == self.forbidden and len(source) == 1)
        if refused and self.where == "forward":
            raise self.error
        memory = super().encode(source, *arguments, **options)
        if refused:
            memory.states.register_hook(self.run_out)  # half of the backward pass is over, and its gradients are there
        return memory

    def run_out(self, gradient):
        raise self.error


def make_scarce_model(**limits) -> ScarceModel:
    torch.manual_seed(3)
    model = ScarceModel(ModelConfig(31, 31, 14, 22, 2, 1, 2, dropout=0.0)).double()
    model.__dict__.update(limits)
    return model


@pytest.mark.parametrize("where", ["forward", "backward"])
@pytest.mark.parametrize("error", MEMORY_ERRORS)
@pytest.mark.parametrize("room", [pytest.param(1, marks=pytest.mark.slow), 3, 7])
def test_a_batch_that_does_not_fit_in_memory_is_split_and_gives_the_same_gradient(room, error, where):
    short, roomy = make_scarce_model(room=room, error=error, where=where), make_scarce_model()
    batches = [make_batch(slice(0, 1)), make_batch(slice(1, None))]
    results = [
        update_within_memory(model, torch.optim.SGD(model.parameters()), batches, 0.5, OptimConfig(), "float32")
        for model in (short, roomy)
    ]
    assert (results[0].halved, results[1].halved) == ({1: 6, 3: 2, 7: 0}[room], 0)
    assert results[0].target_tokens == results[1].target_tokens
    assert results[0].loss == pytest.approx(results[1].loss, rel=1e-12)
    assert results[0].gradient_norm == pytest.approx(results[1].gradient_norm, rel=1e-12)
    for parameter, expected_parameter in zip(short.parameters(), roomy.parameters(), strict=True):
        torch.testing.assert_close(parameter, expected_parameter, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("where", ["forward", "backward"])
def test_a_pair_that_does_not_fit_alone_is_left_out_as_if_it_did_not_exist(where):
    short, roomy = (
        make_scarce_model(room=1, forbidden=6, where=where),
        make_scarce_model(),
    )  # two of the pairs have 6 source pieces
    result = update_within_memory(
        short, torch.optim.SGD(short.parameters()), [make_batch(slice(0, 4))], 0.5, OptimConfig(), "float32"
    )
    batches = [make_batch(slice(0, 1)), make_batch(slice(2, 4))]
    expected = update_within_memory(roomy, torch.optim.SGD(roomy.parameters()), batches, 0.5, OptimConfig(), "float32")
    assert [left_out.indices.tolist() for left_out in result.left_out] == [[1]]
    assert result.target_tokens == expected.target_tokens
    for parameter, expected_parameter in zip(short.parameters(), roomy.parameters(), strict=True):
        torch.testing.assert_close(parameter, expected_parameter, rtol=1e-12, atol=1e-14)


def test_memory_too_small_for_a_single_pair_is_reported_and_other_errors_are_not_taken_for_it():
    short = make_scarce_model(room=0)
    with pytest.raises(MemoryError, match="there is not enough for a single pair"):
        update_within_memory(short, torch.optim.SGD(short.parameters()), [make_batch()], 0.5, OptimConfig(), "float32")
    assert all(parameter.grad is None for parameter in short.parameters())
    short.error = RuntimeError("CUDA error: device-side assert triggered")
    with pytest.raises(RuntimeError, match="device-side assert"):
        update_within_memory(short, torch.optim.SGD(short.parameters()), [make_batch()], 0.5, OptimConfig(), "float32")


def test_the_loss_of_a_batch_is_that_of_its_pairs_one_by_one():
    small_model = make_model()
    expected = sum(batch_loss(small_model, make_batch(slice(i, i + 1)), 0.1) for i in range(PAIRS))
    torch.testing.assert_close(batch_loss(small_model, make_batch(), 0.1), expected, rtol=1e-12, atol=0)


@pytest.mark.article("B29")
def test_a_token_is_predicted_from_the_tokens_before_it_only():
    small_model, whole = make_model(), make_batch()
    changed = make_batch()
    changed.target_in[:, 4:] = 9
    states = small_model.decode(whole.target_in, small_model.encode(whole.source))
    changed_states = small_model.decode(changed.target_in, small_model.encode(whole.source))
    assert torch.equal(states[:, :4], changed_states[:, :4])
