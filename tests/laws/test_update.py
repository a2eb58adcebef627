"""Sum first, divide once: how a batch is cut into parts changes nothing."""

import copy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from pellucid.data.batching import Batch
from pellucid.model import ModelConfig, Transformer
from pellucid.train.config import OptimConfig
from pellucid.train.update import batch_loss, update_weights

HOUSE = Path(__file__).parent.parent.parent
PAIRS = 8


def model() -> Transformer:
    torch.manual_seed(3)
    return Transformer(ModelConfig(31, 31, 14, 22, 2, 1, 2, dropout=0.0)).double()


def batch(rows: slice = slice(None)) -> Batch:
    generator = torch.Generator().manual_seed(5)
    source = torch.randint(4, 31, (PAIRS, 7), generator=generator)
    target = torch.randint(4, 31, (PAIRS, 11), generator=generator)
    for row in range(PAIRS):
        source[row, 7 - row % 3 :] = 0
        target[row, 11 - row :] = 0
    out = target[rows]
    start = torch.full((len(out), 1), 2)
    return Batch(source[rows], torch.cat([start, out[:, :-1]], 1), out, np.arange(PAIRS)[rows], int((out != 0).sum()))


def after(parts: list[Batch], c: OptimConfig) -> tuple[Transformer, float]:
    trained = model()
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.0)
    done = update_weights(trained, optimizer, parts, 0.5, c, "float32")
    return trained, done.loss


@pytest.mark.parametrize("clip", [1e9, 0.01])
def test_four_small_batches_equal_one_large(clip):
    c = OptimConfig(clip=clip)
    whole, loss = after([batch()], c)
    # parts of unequal size and unequal numbers of tokens
    parted, same_loss = after([batch(slice(a, b)) for a, b in ((0, 1), (1, 4), (4, 6), (6, 8))], c)
    assert loss == pytest.approx(same_loss, rel=1e-12)
    for (name, one), (_, other) in zip(whole.named_parameters(), parted.named_parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12, msg=name)


def test_clipping_keeps_the_direction_and_bounds_the_length():
    before = dict(model().named_parameters())

    def change(clip):
        trained, _ = after([batch()], OptimConfig(clip=clip))
        return torch.cat([(each - before[name]).flatten() for name, each in trained.named_parameters()])

    free, clipped = change(1e9), change(0.01)
    assert clipped.norm().item() == pytest.approx(0.5 * 0.01, rel=1e-4)
    assert nn.functional.cosine_similarity(free, clipped, dim=0).item() == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan])
@pytest.mark.parametrize("name", ["encoder.0.ffn.inner.weight", "decoder.1.cross.qkv.bias"])
def test_a_gradient_that_is_no_number_changes_nothing_and_is_counted(name, value):
    trained = model()
    optimizer = torch.optim.Adam(trained.parameters(), lr=0.1, fused=True)
    assert not update_weights(trained, optimizer, [batch()], 0.5, OptimConfig(), "float32").skipped
    before = copy.deepcopy((trained.state_dict(), optimizer.state_dict()["state"]))

    def spoiled(gradient):
        gradient = gradient.clone()
        gradient.view(-1)[-1] = value
        return gradient

    handle = trained.get_parameter(name).register_hook(spoiled)
    assert update_weights(trained, optimizer, [batch()], 0.5, OptimConfig(), "float32").skipped
    assert_same((trained.state_dict(), optimizer.state_dict()["state"]), before)
    assert all(parameter.grad is None for parameter in trained.parameters())
    handle.remove()
    assert not update_weights(trained, optimizer, [batch()], 0.5, OptimConfig(), "float32").skipped
    assert not torch.equal(trained.state_dict()[name], before[0][name])


def test_a_weight_that_is_no_number_is_not_trained_on():
    trained = model()
    with torch.no_grad():
        trained.get_parameter("encoder.0.ffn.inner.weight")[0, 0] = torch.nan
    before = copy.deepcopy(trained.state_dict())
    optimizer = torch.optim.Adam(trained.parameters())
    assert update_weights(trained, optimizer, [batch()], 0.5, OptimConfig(), "float32").skipped
    assert not optimizer.state
    assert_same(trained.state_dict(), before)


def assert_same(one, other):
    torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


WORDS = (
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried"),
    MemoryError(),
)


class Scarce(Transformer):
    """A model for which memory runs out when it reads more than `room` pairs, or one with `forbidden` source pieces."""

    room, forbidden, where = 99, 0, "forward"
    error: Exception = WORDS[0]

    def encode(self, source, *arguments, **more):
        refused = len(source) > self.room or (source.shape[1] == self.forbidden and len(source) == 1)
        if refused and self.where == "forward":
            raise self.error
        memory = super().encode(source, *arguments, **more)
        if refused:
            memory.states.register_hook(self.run_out)  # half of the backward pass is over, and its gradients are there
        return memory

    def run_out(self, gradient):
        raise self.error


def scarce(**limits) -> Scarce:
    torch.manual_seed(3)
    made = Scarce(ModelConfig(31, 31, 14, 22, 2, 1, 2, dropout=0.0)).double()
    made.__dict__.update(limits)
    return made


@pytest.mark.parametrize("where", ["forward", "backward"])
@pytest.mark.parametrize("error", WORDS)
@pytest.mark.parametrize("room", [1, 3, 7])
def test_a_batch_that_does_not_fit_in_memory_is_split_and_gives_the_same_gradient(room, error, where):
    short, roomy = scarce(room=room, error=error, where=where), scarce()
    parts = [batch(slice(0, 1)), batch(slice(1, None))]
    done = [
        update_weights(each, torch.optim.SGD(each.parameters()), parts, 0.5, OptimConfig(), "float32")
        for each in (short, roomy)
    ]
    assert (done[0].halved, done[1].halved) == ({1: 6, 3: 2, 7: 0}[room], 0)
    assert done[0].target_tokens == done[1].target_tokens
    assert done[0].loss == pytest.approx(done[1].loss, rel=1e-12)
    assert done[0].gradient_norm == pytest.approx(done[1].gradient_norm, rel=1e-12)
    for one, other in zip(short.parameters(), roomy.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("where", ["forward", "backward"])
def test_a_pair_that_does_not_fit_alone_is_as_if_it_were_not_there(where):
    short, roomy = scarce(room=1, forbidden=6, where=where), scarce()  # two of the pairs have 6 source pieces
    done = update_weights(
        short, torch.optim.SGD(short.parameters()), [batch(slice(0, 4))], 0.5, OptimConfig(), "float32"
    )
    without = [batch(slice(0, 1)), batch(slice(2, 4))]
    wanted = update_weights(roomy, torch.optim.SGD(roomy.parameters()), without, 0.5, OptimConfig(), "float32")
    assert [each.indices.tolist() for each in done.left_out] == [[1]]
    assert done.target_tokens == wanted.target_tokens
    for one, other in zip(short.parameters(), roomy.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)


def test_memory_that_suffices_for_nothing_is_said_and_other_errors_are_not_taken_for_it():
    short = scarce(room=0)
    with pytest.raises(MemoryError, match="there is not enough for a single pair"):
        update_weights(short, torch.optim.SGD(short.parameters()), [batch()], 0.5, OptimConfig(), "float32")
    assert all(parameter.grad is None for parameter in short.parameters())
    short.error = RuntimeError("CUDA error: device-side assert triggered")
    with pytest.raises(RuntimeError, match="device-side assert"):
        update_weights(short, torch.optim.SGD(short.parameters()), [batch()], 0.5, OptimConfig(), "float32")


def test_the_loss_of_a_batch_is_that_of_its_pairs_one_by_one():
    one = model()
    alone = sum(batch_loss(one, batch(slice(i, i + 1)), 0.1) for i in range(PAIRS))
    torch.testing.assert_close(batch_loss(one, batch(), 0.1), alone, rtol=1e-12, atol=0)


@pytest.mark.article("B29")
def test_a_piece_is_predicted_from_the_pieces_before_it_only():
    one, whole = model(), batch()
    changed = batch()
    changed.target_in[:, 4:] = 9
    states = one.decode(whole.target_in, one.encode(whole.source))
    other = one.decode(changed.target_in, one.encode(whole.source))
    assert torch.equal(states[:, :4], other[:, :4])


COMPILED = """
import torch
from pellucid.train.update import batch_loss, compile_layers
from tests.laws.test_update import batch, model

plain, fused = model(), compile_layers(model(), backend="aot_eager")
for rows in (slice(None), slice(0, 3)):
    losses = [batch_loss(one, batch(rows), 0.1) for one in (plain, fused)]
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-12, atol=0)
    for loss in losses:
        loss.backward()
for (name, one), (_, other) in zip(plain.named_parameters(), fused.named_parameters(), strict=True):
    torch.testing.assert_close(one.grad, other.grad, rtol=1e-10, atol=1e-14, msg=name)
assert plain.state_dict().keys() == fused.state_dict().keys()
assert torch._dynamo.utils.counters["frames"]["ok"]
"""


def test_compiled_layers_give_the_same_loss_and_gradient():
    """torch.compile's tracing and its own backward pass, without the code it would make of them: that takes minutes.

    In a process of its own, because the checks of shapes that tests install cannot be traced.
    """
    done = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True, cwd=HOUSE, check=False)
    assert done.returncode == 0, done.stderr


def test_a_pair_that_goes_through_twice_has_the_loss_of_one_where_nothing_is_dropped():
    losses = [batch_loss(model(), batch(), 0.1, r_drop=r_drop) for r_drop in (0.0, 5.0)]
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-12, atol=0)
