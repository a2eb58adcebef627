"""Benchmark of translation: what its page makes of given rounds, and what one row measures."""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import invariance
from benchmarks.translate_page import FLOAT32, HF, INT8, ROWS, Task, page_lines
from pellucid.data.tokenizer import Tokenizer, TokenizerConfig
from pellucid.model import ModelConfig, Transformer
from pellucid.store.directory import save_bundle

LINES = ["the ball is blue", "the old dog runs", "a bird"]
ROW = Path(__file__).parents[2] / "benchmarks" / "translate_row.py"


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    """Directory of a model that was never trained."""
    config = TokenizerConfig(vocabulary=300)
    tokenizer = Tokenizer.train(LINES, LINES, config, seed=1, max_sentences=10)
    pieces = tokenizer.source_vocabulary
    sizes = ModelConfig(pieces, pieces, d_model=6, d_ff=7, heads=2, encoder_layers=1, decoder_layers=1)
    save_bundle(path := tmp_path_factory.mktemp("run") / "best", Transformer(sizes), tokenizer)
    return path


def test_ratios_are_of_one_round_and_against_the_rival(directory, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["benchmarks.translate"])
    (tmp_path / "lines").write_text("ein Hund\nein Ball\n", encoding="utf-8")
    task = Task(directory, str(tmp_path / "lines"), str(tmp_path / "lines"))
    for row in ROWS:
        speed = {HF: 10, FLOAT32: 50, INT8: 80}.get(row.name, 40)
        measures = {"p50": 1, "p95": 2, "texts": ["ein Hund", "ein Hund"]}
        for drift in (1, 2, 4):  # the machine doubles its speed from round to round
            searches = {
                name: {**measures, "batches": speed * drift, "whole": speed * drift} for name in ("greedy", "beam")
            }
            task.rows.setdefault(row.name, []).append({"ready": 1, "megabytes": 7, **searches})
    task.commands = {FLOAT32: [8.0, 4.0, 2.0], "`pellucid translate`": [4.0, 2.0, 1.0]}
    options = argparse.Namespace(rounds=3, lines=2, batched=2, single=2, long=100, beam=4)
    rows = [line for line in page_lines([task], options, seconds=60) if line.startswith("| ")]
    cells = {line.split(" | ")[0]: line for line in rows}
    greedy = next(line for line in rows if line.startswith("| Pellucid, ctranslate2, int8 |"))
    assert "| 80 (40-160) | 4.00 | 80 (40-160) | 0.50 |" in greedy
    assert "| 50.0% |" not in greedy  # all rows have the same texts
    assert greedy.endswith("| 100.0% |")
    assert cells["| `pellucid translate`"] == "| `pellucid translate` | 2.0 (1.0-4.0) | 50 (25-100) | 2.00 |"


def test_a_row_is_one_line_of_json(directory, tmp_path):
    (tmp_path / "source").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    job = {"engine": "pellucid torch", "model": str(directory), "precision": "float32", "exported": None}
    job |= {"source": str(tmp_path / "source"), "batched": 3, "single": 2, "beam": 4, "batch": 2, "whole": True}
    job["started"] = time.monotonic()
    process = subprocess.run([sys.executable, ROW, json.dumps(job)], check=True, text=True, stdout=subprocess.PIPE)
    [line] = process.stdout.splitlines()
    result = json.loads(line)
    assert set(result) == {"ready", "greedy", "beam", "megabytes"}
    for search in ("greedy", "beam"):
        assert set(result[search]) == {"batches", "whole", "texts", "p50", "p95"}
        assert len(result[search]["texts"]) == 3


def test_one_changed_translation_lowers_the_share_of_equal_ones():
    assert invariance.share_equal([(5, 3), (6, 3), (7, 3)], [(5, 3), (8, 3)]) == 0.5
