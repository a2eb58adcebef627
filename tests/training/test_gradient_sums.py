"""Gradients that are sent while the backward pass goes on: in one order on all workers, and anew where one fails."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Condition, local
from typing import Any

import pytest
import torch
from torch import Tensor, distributed

from pellucid.data.batching import Batch
from pellucid.model import ModelConfig, Transformer
from pellucid.training import gradient_sums, update
from pellucid.training.config import OptimConfig
from pellucid.training.distributed import ALONE, Replicated
from pellucid.training.gradient_sums import BucketSums
from pellucid.training.update import UpdateResult, update_within_memory
from tests.laws.test_update import MEMORY_ERRORS, make_batch, make_model, make_scarce_model


class Exchange:
    """In place of `distributed.all_reduce`: adds up what threads send, the first of each to the first of the others."""

    def __init__(self, workers: int):
        self.workers, self.sent, self.changed, self.own = workers, list[list[Tensor]](), Condition(), local()
        self.shapes = list[torch.Size]()

    def all_reduce(self, tensor: Tensor, async_op: bool = False) -> Any:
        number = self.own.number = getattr(self.own, "number", -1) + 1
        with self.changed:
            if number == len(self.sent):
                self.sent.append([])
                self.shapes.append(tensor.shape)
            assert tensor.shape == self.shapes[number], "workers send other things, or in another order"
            self.sent[number].append(tensor.clone())
            self.changed.notify_all()
        message = Message(self, number, tensor)
        return message if async_op else message.wait()


class Message:
    """A message that is on its way."""

    def __init__(self, exchange: Exchange, number: int, tensor: Tensor):
        self.exchange, self.number, self.tensor = exchange, number, tensor

    def wait(self) -> None:
        everything = self.exchange.sent[self.number]
        with self.exchange.changed:
            assert self.exchange.changed.wait_for(lambda: len(everything) == self.exchange.workers, timeout=60)
        self.tensor.copy_(torch.stack(everything).sum(dim=0))


@pytest.fixture(autouse=True)
def small_buckets(monkeypatch):
    monkeypatch.setattr(gradient_sums, "_BUCKET", 500)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)


@pytest.fixture
def run_workers(monkeypatch) -> Callable[[list[Transformer], list[list[Batch]]], list[UpdateResult]]:
    def run(models: list[Transformer], batches: list[list[Batch]]) -> list[UpdateResult]:
        """Let each worker update its model with its batches."""
        monkeypatch.setattr(distributed, "all_reduce", Exchange(len(models)).all_reduce)

        def work(rank: int) -> UpdateResult:
            optimizer, workers = torch.optim.SGD(models[rank].parameters()), Replicated(rank, len(models))
            return update_within_memory(
                models[rank], optimizer, batches[rank], 0.5, OptimConfig(), "float32", workers=workers
            )

        with ThreadPoolExecutor(len(models)) as pool:
            return list(pool.map(work, range(len(models))))

    return run


def assert_equal_models(models: list[Transformer], expected: Transformer) -> None:
    for model in models:
        for (name, ours), theirs in zip(model.named_parameters(), expected.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-13, msg=name)


def update_alone(batches: list[Batch]) -> tuple[Transformer, UpdateResult]:
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters())
    return model, update_within_memory(model, optimizer, batches, 0.5, OptimConfig(), "float32", workers=ALONE)


SHARES = [make_batch(slice(0, 3)), make_batch(slice(3, 5)), make_batch(slice(5, None))]


@pytest.mark.parametrize("shares", [[[0], [1], [2]], [[0, 1], [2]], [[0, 1, 2], []]])
def test_workers_make_the_update_of_one_whoever_has_which_batch(run_workers, shares):
    models = [make_model() for _ in shares]
    results = run_workers(models, [[SHARES[i] for i in share] for share in shares])
    expected_model, expected = update_alone(SHARES)
    assert_equal_models(models, expected_model)
    for result in results:
        assert (result.target_tokens, result.is_clean) == (expected.target_tokens, True)
        assert result.loss == pytest.approx(expected.loss, rel=1e-12)


def test_gradients_are_on_their_way_before_the_backward_pass_has_ended(monkeypatch):
    model, counts = make_model(), list[tuple[int, int]]()

    def all_reduce(tensor: Tensor, async_op: bool = False) -> Any:
        counts.append((tensor.numel(), sum(parameter.grad is None for parameter in model.parameters())))
        return Message(Exchange(0), 0, tensor)

    monkeypatch.setattr(distributed, "all_reduce", all_reduce)
    sums = BucketSums(model)
    loss = update.batch_loss(model, make_batch(), 0.1)
    with sums.sending():
        loss.backward()
    sent_meanwhile = len(counts)
    sums.send_rest()
    assert sum(count for count, _ in counts) == sum(parameter.numel() for parameter in model.parameters())
    waiting = [missing for _, missing in counts[:sent_meanwhile]]
    assert waiting == sorted(waiting, reverse=True)
    # When all of the encoder is still missing, most of the decoder is on its way; the embedding is completed last.
    encoder = len(list(model.encoder.parameters()))
    decoder = sum(parameter.numel() for parameter in model.decoder.parameters())
    assert sum(count for count, missing in counts if missing > encoder) > 0.8 * decoder
    assert counts[-1] == (model.source_embedding.weight.numel(), 0)
    sent = len(counts)
    BucketSums(model)
    update.batch_loss(model, make_batch(), 0.1).backward()
    assert len(counts) == sent, "outside of the block nothing is sent"


@pytest.mark.parametrize("where", ["forward", "backward"])
@pytest.mark.parametrize("room", [1, 2])
def test_a_worker_without_memory_has_its_batch_split_and_all_send_anew(run_workers, where, room):
    error = MEMORY_ERRORS[0]
    models = [make_model(), make_scarce_model(room=room, error=error, where=where), make_model()]
    results = run_workers(models, [[batch] for batch in SHARES])
    expected_model, expected = update_alone(SHARES)
    assert_equal_models(models, expected_model)
    for result in results:
        assert (result.target_tokens, result.pairs_left_out) == (expected.target_tokens, 0)
        assert result.halved == {1: 1, 2: 0}[room]
        assert result.loss == pytest.approx(expected.loss, rel=1e-12)


@pytest.mark.parametrize("tie", ["none", "all"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_every_weight_of_every_kind_of_model_has_its_place(tie, positions, norm):
    config = ModelConfig(31, 31, 14, 22, 2, 1, 2, tie=tie, positions=positions, norm=norm, output_bias=True)
    model = Transformer(config)
    ordered = gradient_sums._order_parameters(model)
    assert set(ordered) == set(model.parameters())
    assert len(ordered) == len(list(model.parameters()))
