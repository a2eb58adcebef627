"""Benchmark of training on CUDA devices: it also runs on a CPU, and its pairs have the lengths that it states."""

import argparse
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import train_cuda as cuda
from benchmarks import translate_cuda
from pellucid.data.stream import Stream


def test_the_lengths_of_the_pairs_are_those_it_states():
    encoded = cuda.make_pairs(20_000)
    for side, words in zip((encoded.sources, encoded.targets), cuda.WORDS, strict=True):
        assert side.lengths.mean() == pytest.approx(words * cuda.PIECES_A_WORD, rel=0.05)  # the longest are cut
        assert side.lengths.max() <= cuda.LONGEST
    logs = np.log(encoded.sources.lengths), np.log(encoded.targets.lengths)
    assert np.corrcoef(*logs)[0, 1] > 0.8


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("make", [cuda.make_pellucid_step, cuda.make_plain_step])
def test_every_way_to_train_takes_the_batches_of_the_stream(make):
    torch.manual_seed(0)
    batch = next(Stream(cuda.make_pairs(200), 128, seed=1))
    step = make("tiny", torch.device("cpu"))
    assert step(batch) == batch.target_tokens


def test_all_rows_are_measured_in_turn_and_one_that_fails_leaves_the_others_their_time(monkeypatch):
    calls = []

    def make(name):
        return lambda size, device: lambda batch: calls.append(name) or batch.target_tokens

    def fail(size, device):
        raise RuntimeError("no such compiler")

    monkeypatch.setattr(cuda, "ROWS", {"first": make("first"), "broken": fail, "second": make("second")})
    options = argparse.Namespace(batch_tokens=128, seconds=0)
    results = cuda.measure_rows(list(cuda.ROWS), "tiny", cuda.make_pairs(200), options, torch.device("cpu"))
    assert list(results) == ["first", "broken", "second"]
    assert results["broken"] == "RuntimeError: no such compiler"
    assert calls[2 * cuda.UNTIMED :] == ["first", "second"] * cuda.STRETCHES


def test_a_failed_row_stands_in_the_table_with_its_error():
    encoded = cuda.make_pairs(200)
    measured = cuda.Measured([100.0, 300.0, 200.0], 1.0, 0)
    lines = cuda.table_lines("tiny", {"a": measured, "b": "RuntimeError: no | kernel"}, 1e12, encoded)
    assert sum(line.startswith("| a | 200 (100-300) |") for line in lines) == 1
    assert "| b | failed: RuntimeError: no / kernel | | | | |" in lines


def test_without_a_device_the_benchmark_says_what_is_missing(monkeypatch):
    monkeypatch.setattr("sys.argv", ["cuda"])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="no CUDA device here"):
        cuda.main()


def test_every_way_to_translate_takes_turns_and_is_compared_with_the_first():
    class Echo:
        def __init__(self, translate):
            self.translate_one = translate

        def translate(self, lines, **options):
            return [SimpleNamespace(text=self.translate_one(line)) for line in lines]

    models: Any = {
        ("cpu", "a", "b"): Echo(str.upper),
        ("cuda", "a", "b"): Echo(str.title),
        ("cuda", "a", "c"): Echo(str.upper),
    }
    results = translate_cuda.measure(models, ["a", "bc"])
    assert [len(speeds) for speeds, _ in results.values()] == [translate_cuda.ROUNDS] * 3
    assert [share for _, share in results.values()] == [1.0, 0.5, 1.0]
    assert (
        translate_cuda.write_row(("cuda", "a", "b"), [10.0, 30.0, 20.0], 0.5) == "| cuda | a | b | 20 (10-30) | 50.0% |"
    )


def test_without_a_device_translating_says_what_is_missing(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit):
        translate_cuda.main([])
    assert "no CUDA device here" in capsys.readouterr().err
