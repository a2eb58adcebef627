"""A model that is sharded over workers trains as a whole one does, in a part of the memory."""

import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import distributed
from torch.testing._internal.distributed.fake_pg import FakeStore

from pellucid.model import ModelConfig, Transformer
from pellucid.training import update as updating
from pellucid.training.checkpoint import TrainState, list_checkpoints, reset_weights
from pellucid.training.config import OptimConfig, RunConfig
from pellucid.training.distributed import Sharded, Workers, empty_batch, gather_tensor
from pellucid.training.optimizer import make_optimizer
from pellucid.training.update import batch_loss, update_within_memory
from tests.laws.runs import read_reports
from tests.laws.torchrun import collect_results, start_workers, train_alone, train_with_workers, wait_for_file
from tests.training.corpora import small_run

CONFIG = ModelConfig(61, 61, d_model=14, d_ff=22, heads=2, encoder_layers=1, decoder_layers=2, dropout=0.1)


def with_sharding(run: RunConfig, **changes: object) -> RunConfig:
    """Return the run with its model sharded over the workers."""
    return replace(run, train=replace(run.train, shard_model=True, **changes))


def copy_until(step: int, out: Path, copy: Path) -> Path:
    """Copy a run as it was when the checkpoint of this step was the newest."""
    shutil.copytree(out, copy)
    for path in list_checkpoints(copy):
        if int(path.name.removeprefix("step-")) > step:
            shutil.rmtree(path)
    return copy


def assert_same_numbers(first: list[dict], second: list[dict]) -> None:
    """Assert that two runs reported the same within rounding."""
    assert [row["step"] for row in first] == [row["step"] for row in second]
    for key in ("loss", "gradient_norm", "dev_loss", "target_tokens"):
        first_values, second_values = ([row[key] for row in rows if key in row] for rows in (first, second))
        assert first_values == pytest.approx(second_values, rel=1e-5), key


@pytest.fixture(scope="module")
def single_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunConfig, Path]:
    """Run of one worker, with dropout and two batches an update, and its directory."""
    folder = tmp_path_factory.mktemp("alone")
    # A model in parts is trained as it is written: with fused operations dropout would have other masks.
    train = {"accumulate": 2, "batch_tokens": 120, "keep": 1000, "fused": "never"}
    run = small_run(folder / "data", model={"dropout": 0.2, "output_bias": True}, train=train)
    train_alone(run, folder / "out")
    return run, folder / "out"


@pytest.fixture(scope="module")
def killed_run(single_run, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list]:
    """Directory and results of two workers that shared the model of such a run, of which one was killed."""
    out = tmp_path_factory.mktemp("killed") / "out"
    workers = start_workers(with_sharding(single_run[0], steps=100_000), out, 2)
    wait_for_file(out / "checkpoints/step-00000016/manifest.json", workers)
    workers[1].send_signal(signal.SIGKILL)
    return out, collect_results(workers)


def test_two_workers_that_share_a_model_have_the_losses_of_one(single_run, killed_run):
    expected = [row for row in read_reports(single_run[1]) if "model" not in row and row["step"] < 12]
    reports = [row for row in read_reports(killed_run[0]) if row["step"] < 12]
    assert len(reports) == 2
    assert_same_numbers(expected, reports)


def test_a_killed_worker_of_a_sharded_run_is_named(killed_run):
    _, [(code, _, messages), (killed_code, _, _)] = killed_run
    assert (code, killed_code) == (1, -signal.SIGKILL), messages
    assert "2 workers share the pairs of each update, and each keeps its part of the model" in messages
    assert messages.endswith("worker 1 of 2 (counted from 0) is gone, so all stop\n"), messages


def test_a_sharded_run_goes_on_with_one_worker(single_run, killed_run, tmp_path):
    out = copy_until(8, killed_run[0], tmp_path / "out")
    train_alone(with_sharding(single_run[0]), out, resume=True)
    assert_same_numbers(read_reports(single_run[1]), read_reports(out))


@pytest.mark.slow  # an empty batch and the other direction are held here
def test_a_run_of_one_worker_goes_on_sharded_over_two_of_which_one_often_has_no_rows(tmp_path):
    run = small_run(tmp_path / "data", model={"dropout": 0.0}, train={"batch_tokens": 9, "steps": 8})
    train_alone(run, tmp_path / "one")
    out = copy_until(4, tmp_path / "one", tmp_path / "two")
    train_with_workers(2, with_sharding(run), out, "--resume")
    assert_same_numbers(read_reports(tmp_path / "one"), read_reports(out))


@pytest.fixture
def first_of_two() -> Iterator[Workers]:
    """First of two workers, in this process; there is no second."""
    distributed.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    yield Sharded(rank=0, world_size=2)
    distributed.destroy_process_group()


def test_each_of_two_workers_keeps_half_of_weights_gradients_and_adam(first_of_two):
    total = sum(parameter.numel() for parameter in Transformer(CONFIG).parameters())
    model = first_of_two.place_model(Transformer(CONFIG))
    optimizer = make_optimizer(model, OptimConfig())
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    assert sum(parameter.numel() for parameter in model.parameters()) == total
    kinds = {"weight": lambda p: p, "gradient": lambda p: p.grad}
    kinds |= {key: lambda p, key=key: optimizer.state[p][key] for key in ("exp_avg", "exp_avg_sq")}
    for kind, read_tensor in kinds.items():
        local_numbers = sum(read_tensor(parameter).to_local().numel() for parameter in model.parameters())
        assert local_numbers == pytest.approx(total / 2, rel=0.02), kind


def test_going_back_gives_each_worker_its_part_of_the_saved_weights(first_of_two, tmp_path):
    model, saved = first_of_two.place_model(Transformer(CONFIG)), Transformer(CONFIG)
    save_file({}, tmp_path / "training.safetensors")
    reset_weights(TrainState(model, make_optimizer(model, OptimConfig()), stream=None), saved, tmp_path)  # pyright: ignore[reportArgumentType]
    for shard, whole in zip(model.parameters(), saved.parameters(), strict=True):
        assert torch.equal(shard.to_local(), whole.chunk(2)[0])  # pyright: ignore[reportAttributeAccessIssue]


def test_a_batch_that_does_not_fit_stops_a_sharded_run_and_says_what_to_do(first_of_two, monkeypatch):
    def raise_out_of_memory(*_):
        raise torch.OutOfMemoryError

    model = first_of_two.place_model(Transformer(CONFIG))
    monkeypatch.setattr(updating, "batch_loss", raise_out_of_memory)
    with pytest.raises(MemoryError, match="cannot split its batch; resume with more workers"):
        update_within_memory(
            model, make_optimizer(model, OptimConfig()), [empty_batch(1)], 0.1, OptimConfig(), "float32", first_of_two
        )


def test_an_empty_batch_adds_nothing():
    model = Transformer(CONFIG).train()
    loss = batch_loss(model, empty_batch(seed=1), 0.1)
    loss.backward()
    assert loss.item() == 0
    assert not any(
        gather_tensor(parameter.grad).any() for parameter in model.parameters() if parameter.grad is not None
    )
