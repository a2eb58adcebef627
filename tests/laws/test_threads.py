"""The number of threads that share an update changes its time, its rounding and its dropout masks, and nothing else."""

import random
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from pellucid.data.batching import EncodedPairs, PackedSentences
from pellucid.data.stream import Stream
from pellucid.model import ModelConfig, Transformer
from pellucid.training import distributed, optimizer, threads, update
from pellucid.training.config import OptimConfig
from pellucid.training.distributed import Replicated
from pellucid.training.update import update_within_memory
from tests.laws.test_update import MEMORY_ERRORS, make_batch, make_model, make_scarce_model

BATCHES = [make_batch(slice(0, 3)), make_batch(slice(3, None))]


def set_positions(monkeypatch: pytest.MonkeyPatch, positions: int) -> None:
    by_way = {"float32": positions, "bfloat16": 2 * positions, "fused": positions + positions // 2}
    monkeypatch.setattr(update, "POSITIONS_PER_THREAD", by_way)


@pytest.fixture(params=[2, 3])
def many_threads(request, monkeypatch):
    """Two or three threads for every update, however small."""
    set_positions(monkeypatch, 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: request.param)
    monkeypatch.setattr(torch, "set_num_threads", lambda threads: None)


def train_model(
    model: Transformer, batches=BATCHES, updates: int = 1, **options
) -> tuple[Transformer, update.UpdateResult]:
    optimizer, c = torch.optim.SGD(model.parameters()), OptimConfig(**options)
    *_, result = [update_within_memory(model, optimizer, batches, 0.5, c, "float32") for _ in range(updates)]
    return model, result


def test_an_update_shared_by_threads_is_the_update_of_one(many_threads, monkeypatch):
    threaded, result = train_model(make_model())
    set_positions(monkeypatch, 10**9)
    single, expected = train_model(make_model())
    assert (result.target_tokens, result.halved, result.left_out) == (expected.target_tokens, 0, ())
    assert result.loss == pytest.approx(expected.loss, rel=1e-12)
    assert result.gradient_norm == pytest.approx(expected.gradient_norm, rel=1e-12)
    for (name, parameter), (_, expected_parameter) in zip(
        threaded.named_parameters(), single.named_parameters(), strict=True
    ):
        torch.testing.assert_close(parameter, expected_parameter, rtol=1e-10, atol=1e-13, msg=name)


def test_with_dropout_the_bits_do_not_depend_on_which_thread_is_first(many_threads, monkeypatch):
    real_loss = update.batch_loss

    def delayed_loss(*arguments):
        time.sleep(0.02 * random.random())
        return real_loss(*arguments)

    monkeypatch.setattr(update, "batch_loss", delayed_loss)
    torch.manual_seed(3)
    start = Transformer(ModelConfig(31, 31, 14, 22, 2, 1, 2, dropout=0.3)).state_dict()
    runs = []
    for _ in range(4):
        model = Transformer(ModelConfig(31, 31, 14, 22, 2, 1, 2, dropout=0.3))
        model.load_state_dict(start)
        runs.append(train_model(model, updates=3))
    assert len({result.loss for _, result in runs}) == 1
    for model, _ in runs[1:]:
        for a, b in zip(runs[0][0].parameters(), model.parameters(), strict=True):
            assert torch.equal(a, b)


def test_each_thread_has_another_seed_for_dropout():
    whole = replace(make_batch(), seed=7)
    assert [threads.thread_rows(whole, i, 3).seed for i in range(3)] == [7, 8, 9]


def test_no_two_threads_of_any_workers_share_a_seed_for_dropout():
    rows = PackedSentences(np.tile(np.arange(4, 12), 40), np.arange(0, 328, 8))
    [batch_spec] = Stream(EncodedPairs(rows, rows), 1000, seed=1).upcoming(1)
    seeds = [
        threads.thread_rows(batch_share, number, 2).seed
        for rank in range(3)
        for batch_share in distributed.worker_batches([batch_spec], Replicated(rank, 3))
        for number in range(2)
    ]
    assert len(set(seeds)) == len(seeds) == 6


def test_the_shares_of_a_batch_are_its_rows_without_needless_padding():
    whole = make_batch()
    shares = [threads.thread_rows(whole, i, 3) for i in range(3)]
    assert sorted(i for share in shares for i in share.indices) == list(range(len(whole.source)))
    assert sum(share.target_tokens for share in shares) == whole.target_tokens
    assert [len(share.source) for share in shares] == [3, 3, 2]
    for share in shares:
        assert (share.target_out != 0).any(dim=0).all()
        assert (share.source != 0).any(dim=0).all()


@pytest.mark.parametrize("where", ["forward", "backward"])
# Which errors are those of memory, test_update.py knows.
@pytest.mark.parametrize(
    "error", [MEMORY_ERRORS[0], *(pytest.param(e, marks=pytest.mark.slow) for e in MEMORY_ERRORS[1:])]
)
def test_a_thread_without_memory_has_the_batch_split_and_the_gradient_stays(many_threads, error, where):
    short, result = train_model(make_scarce_model(room=1, error=error, where=where))
    roomy, expected = train_model(make_scarce_model())
    assert (result.halved > 0, expected.halved) == (True, 0)
    assert result.target_tokens == expected.target_tokens
    assert result.loss == pytest.approx(expected.loss, rel=1e-12)
    for parameter, expected_parameter in zip(short.parameters(), roomy.parameters(), strict=True):
        torch.testing.assert_close(parameter, expected_parameter, rtol=1e-10, atol=1e-13)


def test_an_error_in_a_thread_is_raised(many_threads):
    with pytest.raises(RuntimeError, match="device-side assert"):
        train_model(make_scarce_model(room=0, error=RuntimeError("CUDA error: device-side assert triggered")))


def test_there_are_only_as_many_threads_as_have_enough_work_and_memory(monkeypatch):
    small_model, whole = make_model(), make_batch()  # 8 rows, 88 target positions
    monkeypatch.setattr(torch, "get_num_threads", lambda: 64)
    assert update.count_threads(small_model, [whole], "float32") == 1
    set_positions(monkeypatch, 30)
    assert update.count_threads(small_model, [whole], "float32") == 2
    assert update.count_threads(small_model, [whole], "bfloat16") == 1
    set_positions(monkeypatch, 28)
    for way, expected in (("float32", 3), ("fused", 2), ("bfloat16", 1)):
        assert update.count_threads(small_model, [whole], way) == expected
    set_positions(monkeypatch, 1)
    assert update.count_threads(small_model, [whole], "float32") == 8
    assert update.count_threads(small_model, [whole, make_batch(slice(0, 3))], "float32") == 3
    size = sum(parameter.numel() * parameter.element_size() for parameter in small_model.parameters())
    monkeypatch.setattr(update, "GRADIENT_BYTES", 5 * size)
    assert update.count_threads(small_model, [whole], "float32") == 5
    monkeypatch.setattr(update, "GRADIENT_BYTES", size - 1)
    assert update.count_threads(small_model, [whole], "float32") == 1


def test_a_step_takes_no_more_threads_than_its_size_is_worth(monkeypatch):
    small_model, used = make_model(), [8]
    size = sum(parameter.numel() for parameter in small_model.parameters())
    monkeypatch.setattr(torch, "get_num_threads", lambda: used[-1])
    monkeypatch.setattr(torch, "set_num_threads", used.append)
    monkeypatch.setattr(optimizer, "NUMBERS_PER_THREAD", size + 1)
    train_model(small_model)
    assert used == [8, 1, 8]
    monkeypatch.setattr(optimizer, "NUMBERS_PER_THREAD", size // 3)
    train_model(small_model)
    assert used == [8, 1, 8, 3, 8]
