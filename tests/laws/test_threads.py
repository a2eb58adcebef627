"""Threads that share an update make of it what one does; their number changes the time and nothing else."""

import random
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from pellucid.data.batching import EncodedPairs, PackedSentences
from pellucid.data.stream import Stream
from pellucid.model import ModelConfig, Transformer
from pellucid.train import distributed, threads, update
from pellucid.train.config import OptimConfig
from pellucid.train.distributed import Workers
from tests.laws.test_update import WORDS, batch, model, scarce

PARTS = [batch(slice(0, 3)), batch(slice(3, None))]


@pytest.fixture(params=[2, 3])
def shared(request, monkeypatch):
    """Each update of more than one thread, however small."""
    monkeypatch.setattr(threads, "POSITIONS_PER_THREAD", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: request.param)


def trained(one: Transformer, parts=PARTS, updates: int = 1, **more) -> tuple[Transformer, update.UpdateResult]:
    optimizer, c = torch.optim.SGD(one.parameters()), OptimConfig(**more)
    *_, last = [update.update_weights(one, optimizer, parts, 0.5, c, "float32") for _ in range(updates)]
    return one, last


@pytest.mark.parametrize("r_drop", [0.0, 5.0])
def test_an_update_shared_by_threads_is_that_of_one(shared, monkeypatch, r_drop):
    together, done = trained(model(), r_drop=r_drop)
    monkeypatch.setattr(threads, "POSITIONS_PER_THREAD", 10**9)
    alone, wanted = trained(model(), r_drop=r_drop)
    assert (done.target_tokens, done.halved, done.left_out) == (wanted.target_tokens, 0, ())
    assert done.loss == pytest.approx(wanted.loss, rel=1e-12)
    assert done.gradient_norm == pytest.approx(wanted.gradient_norm, rel=1e-12)
    for (name, one), (_, other) in zip(together.named_parameters(), alone.named_parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-13, msg=name)


def test_with_dropout_too_the_bits_do_not_depend_on_which_thread_is_first(shared, monkeypatch):
    real = update.batch_loss

    def delayed(*arguments):
        time.sleep(0.02 * random.random())
        return real(*arguments)

    monkeypatch.setattr(update, "batch_loss", delayed)
    torch.manual_seed(3)
    start = Transformer(ModelConfig(31, 31, 14, 22, 2, 1, 2, dropout=0.3)).state_dict()
    found = []
    for _ in range(4):
        one = Transformer(ModelConfig(31, 31, 14, 22, 2, 1, 2, dropout=0.3))
        one.load_state_dict(start)
        found.append(trained(one, updates=3))
    assert len({done.loss for _, done in found}) == 1
    for one, _ in found[1:]:
        for a, b in zip(found[0][0].parameters(), one.parameters(), strict=True):
            assert torch.equal(a, b)


def test_each_thread_drops_other_numbers_out():
    whole = replace(batch(), seed=7)
    assert [threads.thread_rows(whole, i, 3).seed for i in range(3)] == [7, 8, 9]


def test_no_thread_of_any_worker_drops_out_what_another_does():
    rows = PackedSentences(np.tile(np.arange(4, 12), 40), np.arange(0, 328, 8))
    [place] = Stream(EncodedPairs(rows, rows), 1000, seed=1).upcoming(1)
    seeds = [
        threads.thread_rows(part, number, 2).seed
        for rank in range(3)
        for part in distributed.worker_batches([place], Workers(rank, 3))
        for number in range(2)
    ]
    assert len(set(seeds)) == len(seeds) == 6


def test_the_shares_of_a_batch_are_its_rows_without_needless_padding():
    whole = batch()
    shares = [threads.thread_rows(whole, i, 3) for i in range(3)]
    assert sorted(i for each in shares for i in each.indices) == list(range(len(whole.source)))
    assert sum(each.target_tokens for each in shares) == whole.target_tokens
    assert [len(each.source) for each in shares] == [3, 3, 2]
    for each in shares:
        assert (each.target_out != 0).any(dim=0).all()
        assert (each.source != 0).any(dim=0).all()


@pytest.mark.parametrize("where", ["forward", "backward"])
@pytest.mark.parametrize("error", WORDS)
def test_a_thread_without_memory_has_the_batch_split_and_the_gradient_stays(shared, error, where):
    short, done = trained(scarce(room=1, error=error, where=where))
    roomy, wanted = trained(scarce())
    assert (done.halved > 0, wanted.halved) == (True, 0)
    assert done.target_tokens == wanted.target_tokens
    assert done.loss == pytest.approx(wanted.loss, rel=1e-12)
    for one, other in zip(short.parameters(), roomy.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-13)


def test_what_goes_wrong_in_a_thread_is_told(shared):
    with pytest.raises(RuntimeError, match="device-side assert"):
        trained(scarce(room=0, error=RuntimeError("CUDA error: device-side assert triggered")))


def test_as_many_threads_share_as_have_enough_to_do_and_room(monkeypatch):
    one, whole = model(), batch()  # 8 rows, 88 target positions
    monkeypatch.setattr(torch, "get_num_threads", lambda: 64)
    assert threads.count_threads(one, [whole]) == 1
    monkeypatch.setattr(threads, "POSITIONS_PER_THREAD", 30)
    assert threads.count_threads(one, [whole]) == 2
    monkeypatch.setattr(threads, "POSITIONS_PER_THREAD", 1)
    assert threads.count_threads(one, [whole]) == 8
    assert threads.count_threads(one, [whole, batch(slice(0, 3))]) == 3
    size = sum(each.numel() * each.element_size() for each in one.parameters())
    monkeypatch.setattr(threads, "GRADIENT_BYTES", 5 * size)
    assert threads.count_threads(one, [whole]) == 5
    monkeypatch.setattr(threads, "GRADIENT_BYTES", size - 1)
    assert threads.count_threads(one, [whole]) == 1


def test_compiled_layers_are_gone_through_by_one_thread(monkeypatch):
    monkeypatch.setattr(threads, "POSITIONS_PER_THREAD", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    one = model()
    assert threads.count_threads(one, PARTS) == 2
    assert threads.count_threads(update.compile_layers(one, backend="eager"), PARTS) == 1
