"""Corpora prepared range by range, without Ray, are the shards of one process; only what is missing is made."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pellucid.config import to_toml
from pellucid.training import shard_writing
from pellucid.training.config import RunConfig, read_run
from pellucid.training.data import read_data
from pellucid.training.range_encoding import RangeEncoder
from tests.cli.conftest import call, refuse  # noqa: F401
from tests.training.corpora import mixed, small_run


@pytest.fixture
def ranges(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Let parts have 37 pairs; return the number of the corpus and the first line of each range that is encoded."""
    encoded: list[tuple[int, int]] = []
    encode = RangeEncoder.encode

    def note_range(self: RangeEncoder, number: int, first_line: int, *lines: Any) -> bytes:
        encoded.append((number, first_line))
        return encode(self, number, first_line, *lines)

    monkeypatch.setattr(shard_writing, "PAIRS_PER_PART", 37)
    monkeypatch.setattr(RangeEncoder, "encode", note_range)
    return encoded


def write_run(folder: Path, **changes: Any) -> RunConfig:
    """Write run.toml: corpora of 89 lines, 67 lines, and 41 pairs in one file, some of them faulty."""
    run = mixed(small_run(folder / "data"), folder / "data")
    for name in ("source.txt", "more/source.txt"):
        lines = (folder / "data" / name).read_text(encoding="utf-8").splitlines()
        lines[40], lines[41], lines[60] = "", " ".join(["six"] * 60), f"{lines[60]}\r"
        (folder / "data" / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    run = replace(run, data=replace(run.data, **changes))
    (folder / "run.toml").write_text(to_toml(run), encoding="utf-8")
    return read_run(folder / "run.toml")


@pytest.fixture
def run(tmp_path: Path) -> RunConfig:
    """Return a run that holds out pairs of its first corpus, and stands in run.toml."""
    return write_run(tmp_path, dev_source=None, dev_target=None, held_out=11)


def with_shards(run: RunConfig, *folders: str) -> RunConfig:
    return replace(run, data=replace(run.data, shards=folders))


def read_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_parts_hold_what_one_process_prepares(call, run_parts, ranges, run, tmp_path):  # noqa: F811
    alone = call("prepare", "run.toml", "--out", "whole")
    words = ("prepare", "run.toml", "--out", "all", "--cluster", "local", "--workers", 2)
    shared = call(*words)
    assert (alone.exit_code, shared.exit_code) == (0, 0), shared.output
    folders = json.loads(shared.stdout)
    assert folders == [str(tmp_path / "all" / number) for number in "123"]
    assert sum(number == 1 for number, _ in ranges) == -(-89 // 37)

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


@pytest.mark.parametrize("changes", [{"dev_source": None, "dev_target": None, "held_out": 11}, {}, {"context": 2}])
def test_each_corpus_has_the_bytes_of_one_process(call, run_parts, ranges, tmp_path, changes):  # noqa: F811
    run = write_run(tmp_path, **changes)
    for side in ("source", "target"):  # a range whose pairs all stand in the dev set
        lines = Path(getattr(run.data.corpora[0], side)).read_text(encoding="utf-8").splitlines(keepends=True)
        if run.data.dev_files:
            Path(f"{tmp_path}/data/dev_{side}.txt").write_text("".join(lines[37:74]), encoding="utf-8")

    assert call("prepare", "run.toml", "--out", "all", "--cluster", "local").exit_code == 0
    for number in "123":
        words = ("--corpora", number, "--tokenizer", "all/tokenizer", "--out", f"alone/{number}")
        assert call("prepare", "run.toml", *words).exit_code == 0
        assert read_files(tmp_path / "all" / number) == read_files(tmp_path / "alone" / number)


def test_only_what_is_missing_is_made(call, run_parts, ranges, run, tmp_path, monkeypatch):  # noqa: F811
    words = ("prepare", "run.toml", "--out", "all", "--cluster", "local")
    prepare_shards = shard_writing.prepare_shards

    def fail_to_join(*arguments: Any) -> None:
        if len(arguments) == 7:
            raise ValueError("the machine is taken away")
        prepare_shards(*arguments)

    monkeypatch.setattr(shard_writing, "prepare_shards", fail_to_join)
    assert call(*words).exit_code == 2
    made = len(ranges)
    assert made == 3 + 2

    # All ranges are there, and are only joined; then the shards are, and nothing is read again.
    monkeypatch.setattr(shard_writing, "prepare_shards", prepare_shards)
    assert call(*words).exit_code == 0
    shards = {number: read_files(tmp_path / "all" / number) for number in "123"}
    assert call(*words).exit_code == 0
    assert len(ranges) == made
    assert not any((tmp_path / "all" / "prepared").glob("*.*"))

    # What was cut is made anew.
    (tmp_path / "all" / "2" / "source.ids").write_bytes(b"")
    assert call(*words).exit_code == 0
    assert ranges[made:] == [(2, 1), (2, 38)]
    assert shards == {number: read_files(tmp_path / "all" / number) for number in "123"}


def test_a_tokenizer_that_is_named_is_taken(call, run_parts, run, tmp_path):  # noqa: F811
    assert call("prepare", "run.toml", "--corpora", "2-3", "--out", "other").exit_code == 0
    words = ("--corpora", "1-2", "--tokenizer", "other", "--out", "all", "--cluster", "local")
    shared = call("prepare", "run.toml", *words)
    assert shared.exit_code == 0, shared.stderr
    assert json.loads(shared.stdout) == [str(tmp_path / "all" / number) for number in "12"]
    assert not (tmp_path / "all" / "tokenizer").exists()
    for number in "12":
        for file in tmp_path.glob("other/tokenizer.*"):
            assert (tmp_path / "all" / number / file.name).read_bytes() == file.read_bytes()


def test_a_folder_of_whole_shards_is_not_made_into_one_of_parts(call, refuse, run):  # noqa: F811
    assert call("prepare", "run.toml", "--out", "whole").exit_code == 0
    sentence = refuse("prepare", "run.toml", "--out", "whole", "--cluster", "local")
    assert "holds shards that one process made; choose another --out" in sentence
    assert "--workers is for --cluster; without it a thread" in refuse("prepare", "run.toml", "--workers", 2)
