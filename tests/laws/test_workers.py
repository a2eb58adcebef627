"""The number of workers that share a run changes its time, and nothing else."""

import json
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from pellucid.config import to_toml
from pellucid.data.batching import EncodedPairs, pack_sentences
from pellucid.data.corpus import SentencePairs
from pellucid.data.stream import Stream
from pellucid.decode.torch_engine import TorchEngine
from pellucid.training.config import RunConfig
from pellucid.training.dev_evaluation import DevSet, evaluate_model
from pellucid.training.distributed import Alone, Replicated, worker_batches
from tests.decode.models import random_model, small_tokenizer
from tests.laws.runs import assert_same_end, read_reports
from tests.laws.torchrun import collect_results, start_workers, train_alone, train_with_workers, wait_for_file
from tests.tolerances import approx_log_prob
from tests.training.corpora import small_run


@pytest.fixture(scope="module")
def single_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunConfig, Path]:
    """Run of one worker, with dropout and two batches an update, and its directory."""
    folder = tmp_path_factory.mktemp("alone")
    run = small_run(folder / "data", model={"dropout": 0.2}, train={"accumulate": 2, "batch_tokens": 120})
    train_alone(run, folder / "out")
    return run, folder / "out"


# Started by Python as torchrun starts them, they import all they need for seconds before.
@pytest.mark.parametrize("as_torchrun", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_two_workers_train_the_same_model_as_one_to_the_bit(single_run, tmp_path, as_torchrun):
    run, out = single_run
    messages = train_with_workers(2, run, tmp_path / "two", as_torchrun=as_torchrun)
    assert "2 workers share the pairs of each update" in messages
    assert_same_end(out, tmp_path / "two")


def test_a_run_that_two_workers_began_goes_on_with_one(single_run, tmp_path):
    run, out = single_run
    workers = start_workers(run, tmp_path / "moved", 2)
    wait_for_file(tmp_path / "moved/checkpoints/step-00000004/manifest.json", workers)
    for worker in workers:
        worker.kill()
    collect_results(workers)
    train_alone(run, tmp_path / "moved", resume=True)
    assert_same_end(out, tmp_path / "moved")


def test_workers_that_resume_where_nothing_was_begun_begin_and_all_learn_of_what_cannot_be_resumed(
    single_run, tmp_path
):
    run, out = single_run
    messages = train_with_workers(2, run, tmp_path / "new", "--resume")
    assert f"Nothing to resume in {tmp_path / 'new'}: a new run begins.\n" in messages
    assert_same_end(out, tmp_path / "new")
    shutil.rmtree(tmp_path / "new/checkpoints")
    first, second = collect_results(start_workers(run, tmp_path / "new", 2, "--resume"))
    assert (first[0], second[0]) == (2, 1)
    assert "holds a finished run" in first[2]
    assert second[2] == "pellucid: worker 0 cannot resume the run, and says why\n"


class Sharing(Alone):
    """One of several workers, who take turns here: it hears what the others said, or is heard."""

    shares: ClassVar[list[str]] = []

    def gather_texts(self, text: str) -> list[str]:
        if len(self.shares) < self.world_size:
            self.shares.append(text)
            raise InterruptedError
        return self.shares


@pytest.mark.parametrize("world_size", [2, 3, 5])
def test_workers_that_share_an_evaluation_find_the_numbers_of_one(world_size, monkeypatch):
    monkeypatch.setattr(TorchEngine, "batch_size", 4)
    monkeypatch.setattr(Sharing, "shares", [])
    tokenizer = small_tokenizer()
    model = random_model(3, tokenizer.source_vocabulary, tokenizer.target_vocabulary, max_positions=40)
    sources = [f"Where is {'the ' * (n % 5)}house?" for n in range(19)]
    pairs = SentencePairs.from_lists(sources, sources[::-1])
    dev = DevSet.from_pairs(pairs, tokenizer, sentences=15, batch_tokens=60, limit=40)
    assert len(dev.batches) > world_size
    expected = evaluate_model(model, dev, 2, "float32")
    for rank in range(world_size):
        with pytest.raises(InterruptedError):
            evaluate_model(model, dev, 2, "float32", Sharing(rank, world_size))
    for rank in range(world_size):
        shared = evaluate_model(model, dev, 2, "float32", Sharing(rank, world_size))
        assert replace(shared, translations=()) == replace(expected, translations=())
        # A search is made again together with others of its share, which rounds its score.
        for line, other in zip(shared.translations, expected.translations, strict=True):
            assert (line.source, line.text) == (other.source, other.text)
            assert line.score == approx_log_prob(other.score)


def test_rows_of_one_batch_shared_by_three_give_the_losses_of_one(tmp_path):
    run = small_run(tmp_path / "data", model={"dropout": 0.0}, train={"steps": 6, "batch_tokens": 97})
    train_alone(run, tmp_path / "one")
    train_with_workers(3, run, tmp_path / "three")
    single_reports, shared_reports = (read_reports(tmp_path / name) for name in ("one", "three"))
    for key in ("loss", "gradient_norm", "dev_loss", "target_tokens"):
        assert [row[key] for row in single_reports if key in row] == pytest.approx(
            [row[key] for row in shared_reports if key in row], rel=1e-5
        )


@pytest.mark.slow  # test_sharded.py kills one of two
def test_a_worker_that_is_killed_stops_the_others_who_name_it(tmp_path):
    run = small_run(tmp_path / "data", train={"steps": 100_000, "evaluate_every": 100_000, "save_every": 10})
    workers = start_workers(run, tmp_path / "out", 3)
    wait_for_file(tmp_path / "out/checkpoints/step-00000010/manifest.json", workers)
    workers[1].send_signal(signal.SIGKILL)
    start = time.monotonic()
    results = collect_results(workers)
    assert time.monotonic() - start < 30
    assert [code for code, _, _ in results] == [1, -signal.SIGKILL, 1], results
    assert results[0][2].endswith("worker 1 of 3 (counted from 0) is gone, so all stop\n"), results[0][2]
    assert "Traceback" not in results[0][2]
    assert " of 3 (counted from 0) " in results[2][2].splitlines()[-1], "it heard of it when the first had stopped"


def test_workers_with_other_data_are_named_before_anything_is_written(tmp_path):
    run = small_run(tmp_path / "data")
    other = small_run(tmp_path / "other")
    source = Path(other.data.source or "")
    source.write_text(source.read_text(encoding="utf-8").replace("one", "six", 1), encoding="utf-8")
    (tmp_path / "other.toml").write_text(to_toml(other), encoding="utf-8")
    results = collect_results(start_workers(run, tmp_path / "out", 2, run_files={1: str(tmp_path / "other.toml")}))
    for code, _, messages in results:
        assert code == 1
        assert "worker 1 of 2 (counted from 0) found another training data than worker 0" in messages
    assert not (tmp_path / "out").exists()


def test_a_signal_to_one_worker_stops_all_and_everything_is_saved(tmp_path):
    run = small_run(tmp_path / "data", train={"steps": 100_000, "evaluate_every": 100_000, "save_every": 100_000})
    workers = start_workers(run, tmp_path / "out", 2)
    log = tmp_path / "out/log.jsonl"
    wait_for_file(log, workers)
    while not log.read_text(encoding="utf-8") and workers[0].poll() is None:
        time.sleep(0.1)  # when an update is reported, all of them listen
    workers[1].send_signal(signal.SIGTERM)
    results = collect_results(workers)
    assert [code for code, _, _ in results] == [143, 143], results
    assert "SIGTERM: stopped after step" in results[0][2]
    [saved] = (tmp_path / "out/checkpoints").iterdir()
    counts = json.loads((saved / "training.json").read_text(encoding="utf-8"))["counts"]
    assert saved.name == f"step-{counts['step']:08d}"


@pytest.mark.parametrize(("world_size", "batches"), [(1, 3), (2, 4), (3, 3), (2, 3), (5, 2), (97, 1)])
def test_the_shares_of_an_update_are_its_pairs_each_once(world_size, batches):
    random = np.random.default_rng(1)
    rows = [random.integers(4, 50, size=n).tolist() for n in random.integers(1, 9, size=211)]
    encoded = EncodedPairs(pack_sentences(rows, np.uint16), pack_sentences(rows[::-1], np.uint16))
    specs = [stream.advance() for stream in [Stream(encoded, 97, seed=5)] for _ in range(batches)]
    shares = [worker_batches(specs, Replicated(rank, world_size)) for rank in range(world_size)]
    indices = [i for batches_of_worker in shares for batch in batches_of_worker for i in batch.indices.tolist()]
    assert sorted(indices) == sorted(i for spec in specs for i in spec.pairs.tolist())
    assert len({batch.seed for batches_of_worker in shares for batch in batches_of_worker}) == sum(map(len, shares)), (
        "each draws its own dropout"
    )
    if batches % world_size == 0:
        whole = {tuple(spec.pairs.tolist()) for spec in specs}
        assert {tuple(batch.indices.tolist()) for batches_of_worker in shares for batch in batches_of_worker} == whole
