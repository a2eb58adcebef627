"""Sum first, divide once: how a batch is cut into parts changes nothing."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from pellucid.data.batching import Batch
from pellucid.model import ModelConfig, Transformer
from pellucid.train.config import OptimConfig
from pellucid.train.update import batch_loss, update

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
    done = update(trained, optimizer, parts, 0.5, c, "float32")
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


def test_a_gradient_that_is_no_number_changes_nothing_and_is_counted():
    trained = model()
    with torch.no_grad():
        trained.get_parameter("encoder.0.ffn.inner.weight")[0, 0] = torch.nan
    before = copy.deepcopy(trained.state_dict())
    optimizer = torch.optim.Adam(trained.parameters())
    done = update(trained, optimizer, [batch()], 0.5, OptimConfig(), "float32")
    assert done.skipped
    assert not optimizer.state
    for name, value in trained.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0, equal_nan=True)


def test_the_loss_of_a_batch_is_that_of_its_pairs_one_by_one():
    one = model()
    alone = sum(batch_loss(one, batch(slice(i, i + 1)), 0.1) for i in range(PAIRS))
    torch.testing.assert_close(batch_loss(one, batch(), 0.1), alone, rtol=1e-12, atol=0)


def test_a_piece_is_predicted_from_the_pieces_before_it_only():
    one, whole = model(), batch()
    changed = batch()
    changed.target_in[:, 4:] = 9
    states = one.decode(whole.target_in, one.encode(whole.source))
    other = one.decode(changed.target_in, one.encode(whole.source))
    assert torch.equal(states[:, :4], other[:, :4])
