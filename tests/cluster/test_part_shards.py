"""Corpora prepared one after another, without Ray, are the shards of the whole run; only what is missing is made."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pellucid.config import to_toml
from pellucid.training.config import RunConfig, read_run
from pellucid.training.data import read_data
from tests.cli.conftest import call, refuse  # noqa: F401
from tests.training.corpora import mixed, small_run


@pytest.fixture
def run(tmp_path: Path) -> RunConfig:
    """Return a run on three corpora that holds out pairs of the first, and stands in run.toml."""
    run = mixed(small_run(tmp_path / "data"), tmp_path / "data")
    run = replace(run, data=replace(run.data, dev_source=None, dev_target=None, held_out=11))
    (tmp_path / "run.toml").write_text(to_toml(run), encoding="utf-8")
    return read_run(tmp_path / "run.toml")


def with_shards(run: RunConfig, *folders: str) -> RunConfig:
    return replace(run, data=replace(run.data, shards=folders))


def test_parts_hold_what_one_process_prepares(call, run_parts, run, tmp_path):  # noqa: F811
    alone = call("prepare", "run.toml", "--out", "whole")
    words = ("prepare", "run.toml", "--out", "all", "--cluster", "local", "--workers", 2)
    shared = call(*words)
    assert (alone.exit_code, shared.exit_code) == (0, 0), shared.output
    folders = json.loads(shared.stdout)
    assert folders == [str(tmp_path / "all" / number) for number in "123"]

    parts, whole = read_data(with_shards(run, *folders)), read_data(with_shards(run, str(tmp_path / "whole")))
    assert parts.tokenizer.contents == whole.tokenizer.contents
    assert parts.encoded.corpora == whole.encoded.corpora
    for side in ("sources", "targets"):
        joined, mapped = getattr(parts.encoded, side), getattr(whole.encoded, side)
        assert np.array_equal(joined.ids[:], mapped.ids)
        assert np.array_equal(joined.starts[:], mapped.starts)
    for name in ("fingerprint", "accounts", "languages", "dev_overlap"):
        assert getattr(parts, name) == getattr(whole, name), name
    assert (parts.dev.sources, list(parts.dev.lines)) == (whole.dev.sources, list(whole.dev.lines))

    # Again, only what was cut, or is of another text, is made.
    assert len(run_parts) == 3
    assert call(*words).stdout == shared.stdout
    assert len(run_parts) == 3
    (tmp_path / "all" / "2" / "source.ids").write_bytes(b"")
    assert call(*words).exit_code == 0
    assert len(run_parts) == 4
    assert read_data(with_shards(run, *folders)).fingerprint == whole.fingerprint


def test_a_tokenizer_that_is_named_is_taken(call, run_parts, run, tmp_path):  # noqa: F811
    assert call("prepare", "run.toml", "--corpora", "2-3", "--out", "other").exit_code == 0
    words = ("--corpora", "1-2", "--tokenizer", "other", "--out", "all", "--cluster", "local")
    shared = call("prepare", "run.toml", *words)
    assert shared.exit_code == 0, shared.stderr
    assert len(run_parts) == 2
    assert not (tmp_path / "all" / "tokenizer").exists()
    for number in "12":
        for file in tmp_path.glob("other/tokenizer.*"):
            assert (tmp_path / "all" / number / file.name).read_bytes() == file.read_bytes()


def test_a_folder_of_whole_shards_is_not_made_into_one_of_parts(call, refuse, run):  # noqa: F811
    assert call("prepare", "run.toml", "--out", "whole").exit_code == 0
    sentence = refuse("prepare", "run.toml", "--out", "whole", "--cluster", "local")
    assert "holds shards that one process made; choose another --out" in sentence
    assert "--workers is for --cluster; without it a thread" in refuse("prepare", "run.toml", "--workers", 2)
