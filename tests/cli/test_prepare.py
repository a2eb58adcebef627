"""`pellucid prepare` resumes after a kill, reports mistakes, and leaves nothing half-written at the end."""

import json
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pellucid import cpu
from pellucid.data import shards
from pellucid.store.atomic import verify_directory
from pellucid.training import shard_writing
from tests.processes import ForkedProcess
from tests.training.corpora import write_corpus

SLOW_PREPARE = """
import sys, time
from pellucid import cpu as processor
processor.count_processors = lambda: 2
from pellucid.training import shard_writing
shard_writing.PAIRS_PER_PART = 7
real = shard_writing.encode_part
def slow(*arguments):
    time.sleep(0.05)
    real(*arguments)
shard_writing.encode_part = slow
from pellucid.cli import app
app(["prepare", "small.toml", "--out", "shards"])
"""


@pytest.fixture
def run_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(shard_writing, "PAIRS_PER_PART", 7)
    data = write_corpus(tmp_path, pairs=211)
    toml = "".join(f"{key} = {Path(value).name!r}\n" for key, value in data.items())
    (tmp_path / "small.toml").write_text(
        f"[data]\n{toml}[tokenizer]\nvocabulary = 290\n[train]\nsteps = 3\n", encoding="utf-8"
    )
    return tmp_path / "small.toml"


def shard_bytes(folder: Path) -> list[bytes]:
    return [(folder / f"{side}.{kind}").read_bytes() for side in shards.SIDES for kind in ("ids", "starts")]


def test_the_directory_is_printed_and_holds_only_finished_files(call, run_file, tmp_path):
    result = call("prepare", "small.toml", "--out", "shards")
    assert (result.exit_code, result.stdout) == (0, "shards\n"), result.stderr
    assert f'data.shards = "{tmp_path / "shards"}"' in result.stderr
    about = verify_directory(tmp_path / "shards")
    assert about["corpora"][0]["pairs"] == 211
    assert not list(tmp_path.glob("*unfinished*"))
    assert {path.name for path in (tmp_path / "shards").iterdir()} == {"manifest.json", *about["files"]}
    before = (tmp_path / "shards").stat().st_ino
    again = call("prepare", "small.toml", "--out", "shards")
    assert (again.exit_code, again.stderr) == (0, f"{tmp_path / 'shards'} is prepared already\n")
    assert (tmp_path / "shards").stat().st_ino == before


def test_without_out_the_directory_comes_from_the_run_or_from_its_name(call, run_file, tmp_path):
    assert call("prepare", "small.toml").stdout == "runs/small.shards\n"
    result = call("prepare", "small.toml", "--set", "data.shards=here")
    assert result.stdout == f"{tmp_path / 'here'}\n"
    assert shard_bytes(tmp_path / "here") == shard_bytes(tmp_path / "runs" / "small.shards")


@pytest.mark.parametrize("workers", [1, 3])
def test_any_number_of_threads_writes_the_same_bytes(call, run_file, tmp_path, workers, monkeypatch):
    monkeypatch.setattr(cpu, "count_processors", lambda: workers)
    call("prepare", "small.toml", "--out", "one")
    monkeypatch.setattr(shard_writing, "PAIRS_PER_PART", 100)
    monkeypatch.setattr(cpu, "count_processors", lambda: 2)
    call("prepare", "small.toml", "--out", "other")
    assert shard_bytes(tmp_path / "one") == shard_bytes(tmp_path / "other")


def test_an_interrupt_waits_until_the_executor_holds_no_lock(call, run_file, tmp_path, monkeypatch):
    """An interrupt raised within `submit` could leave a lock held for which the threads wait for ever."""
    submit, submitted, returned = ThreadPoolExecutor.submit, [], []

    def submit_and_interrupt(pool, *arguments):
        submitted.append(future := submit(pool, *arguments))
        if len(submitted) == 4:
            signal.raise_signal(signal.SIGINT)
        returned.append(future)
        return future

    monkeypatch.setattr(ThreadPoolExecutor, "submit", submit_and_interrupt)
    monkeypatch.setattr(cpu, "count_processors", lambda: 2)
    result = call("prepare", "small.toml", "--out", "shards")
    assert result.exit_code == 130
    assert result.stderr.endswith("pellucid: interrupted\n")
    assert len(returned) == len(submitted) == 4
    assert len(list((tmp_path / "shards.unfinished").glob("parts/0/*.npz"))) == 4
    again = call("prepare", "small.toml", "--out", "shards")
    assert again.exit_code == 0, again.stderr


@pytest.mark.parametrize(
    ("signal_number", "exit_code"),
    [
        *((signal.SIGKILL, -9), pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow)),
        pytest.param(signal.SIGTERM, -15, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, -1, marks=pytest.mark.slow),
    ],
)
def test_a_killed_command_resumes_with_the_finished_blocks(call, run_file, tmp_path, signal_number, exit_code):
    call("prepare", "small.toml", "--out", "undisturbed")
    child = ForkedProcess(folder=tmp_path, program=SLOW_PREPARE)
    work = tmp_path / "shards.unfinished"
    for _ in range(2400):
        if len(list(work.glob("parts/0/*.npz"))) > 5:
            break
        time.sleep(0.025)
    child.send_signal(signal_number)
    child.communicate(timeout=60)
    assert child.returncode == exit_code
    assert not (tmp_path / "shards").exists()
    finished = {path: path.stat().st_ino for path in work.glob("parts/0/*.npz")}
    assert 5 < len(finished) < 31
    join_shards, inodes_at_join = shard_writing.join_shards, {}

    def note_inodes(*arguments):
        inodes_at_join.update({path: path.stat().st_ino for path in finished})
        return join_shards(*arguments)

    shard_writing.join_shards = note_inodes
    try:
        result = call("prepare", "small.toml", "--out", "shards")
    finally:
        shard_writing.join_shards = join_shards
    assert result.exit_code == 0, result.stderr
    assert f"continuing with {work}" in result.stderr
    assert "learning the vocabulary" not in result.stderr
    assert inodes_at_join == finished  # none of them was written again
    assert shard_bytes(tmp_path / "shards") == shard_bytes(tmp_path / "undisturbed")
    assert not work.exists()


def test_changed_text_or_settings_begin_anew(call, run_file, tmp_path, monkeypatch):
    def fail(*arguments):
        raise OSError(28, "No space left on device", "shards")

    with monkeypatch.context() as patch:
        patch.setattr(shard_writing, "write_part", fail)
        result = call("prepare", "small.toml", "--out", "shards")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no space left on device" in result.stderr
    assert not (tmp_path / "shards").exists()
    again = call("prepare", "small.toml", "--out", "shards", "--set", "data.max_pieces=9")
    assert again.exit_code == 0, again.stderr
    assert "made from other text or settings; beginning anew" in again.stderr
    assert "left out: " in str(verify_directory(tmp_path / "shards")["notes"])


def test_shards_of_changed_text_are_replaced_only_once_the_new_ones_are_whole(call, run_file, tmp_path, monkeypatch):
    call("prepare", "small.toml", "--out", "shards")
    before = shard_bytes(tmp_path / "shards")
    with (tmp_path / "source.txt").open("a") as source, (tmp_path / "target.txt").open("a") as target:
        source.write("one six\n")
        target.write("seis uno\n")
    with monkeypatch.context() as patch:
        patch.setattr(shard_writing, "join_shards", lambda *arguments: 1 / 0)
        assert isinstance(call("prepare", "small.toml", "--out", "shards").exception, ZeroDivisionError)
    assert shard_bytes(tmp_path / "shards") == before
    assert call("prepare", "small.toml", "--out", "shards").exit_code == 0
    assert verify_directory(tmp_path / "shards")["corpora"][0]["pairs"] == 212


@pytest.mark.parametrize("renamed", [False, True])
def test_a_crash_around_the_last_rename_is_recovered_from(call, run_file, tmp_path, monkeypatch, renamed):
    replace_directory = shard_writing.replace_directory

    def crash(*arguments):
        if renamed:
            replace_directory(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shard_writing, "replace_directory", crash)
        assert call("prepare", "small.toml", "--out", "shards").exit_code == 130
    assert (tmp_path / "shards").exists() == renamed
    assert (tmp_path / "shards.unfinished").exists()
    result = call("prepare", "small.toml", "--out", "shards")
    assert result.exit_code == 0, result.stderr
    assert "learning" not in result.stderr
    assert verify_directory(tmp_path / "shards")["corpora"][0]["pairs"] == 211
    assert not (tmp_path / "shards.unfinished").exists()


def test_a_damaged_directory_is_prepared_again(call, run_file, tmp_path):
    call("prepare", "small.toml", "--out", "shards")
    before = shard_bytes(tmp_path / "shards")
    (tmp_path / "shards" / "source.ids").write_bytes(before[0][::-1])
    assert call("prepare", "small.toml", "--out", "shards").exit_code == 0
    assert shard_bytes(tmp_path / "shards") == before


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("source.txt", "one\n", "has 1 lines and"),
        ("source.txt", "one\0\n" * 211, "source.txt:1: a NUL byte"),
        ("source.txt", "\n" * 211, "no sentence pair in"),
        ("dev_source.txt", "one\n", "dev_source.txt has 1 lines"),
        ("small.toml", "[data]\n", "no sentences to train on"),
    ],
)
def test_mistakes_are_reported_in_one_sentence(refuse, run_file, tmp_path, file, text, message):
    (tmp_path / file).write_text(text, encoding="utf-8")
    assert message in refuse("prepare", "small.toml", "--out", "shards")
    assert not (tmp_path / "shards").exists()


def test_skipped_pairs_are_counted_and_named_as_in_training(call, run_file, tmp_path):
    source = (tmp_path / "source.txt").read_text(encoding="utf-8").split("\n")
    source[6], source[30] = " ", "one " * 700
    (tmp_path / "source.txt").write_text("\n".join(source), encoding="utf-8")
    call("prepare", "small.toml", "--out", "shards")
    [note] = [note for note in verify_directory(tmp_path / "shards")["notes"] if "not trained on" in note]
    assert "2 pairs are not trained on" in note
    assert "source.txt:7 empty source" in note
    assert "source.txt:31 source of more than 2,000 characters" in note


def test_a_corpus_of_pairs_that_are_all_too_long_is_refused(refuse, run_file, tmp_path):
    sentence = refuse("prepare", "small.toml", "--out", "shards", "--set", "data.max_pieces=2")
    assert "no pair is left of 211: 211 pairs skipped" in sentence
    assert not (tmp_path / "shards").exists()


def test_a_file_that_changes_during_the_work_is_named(refuse, run_file, tmp_path, monkeypatch):
    write_parts = shard_writing.write_parts

    def write_parts_and_change_text(*arguments):
        parts = write_parts(*arguments)
        (tmp_path / "target.txt").write_text("other\n" * 211, encoding="utf-8")
        return parts

    monkeypatch.setattr(shard_writing, "write_parts", write_parts_and_change_text)
    sentence = refuse("prepare", "small.toml", "--out", "shards")
    assert "target.txt changed while it was prepared; run the command again" in sentence
    assert not (tmp_path / "shards").exists()


@pytest.mark.parametrize("file_name", ["notes.txt", "manifest.json"])
def test_a_directory_that_holds_something_else_is_not_replaced(refuse, run_file, tmp_path, file_name):
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / file_name).write_text(json.dumps({"kind": "mine"}), encoding="utf-8")
    assert "holds something other than shards and is not replaced" in refuse("prepare", "small.toml", "--out", "shards")
    assert [path.name for path in (tmp_path / "shards").iterdir()] == [file_name]


def test_no_more_blocks_wait_than_there_are_threads(call, run_file, monkeypatch):
    running, most_waiting, lock = [0], [0], threading.Lock()
    pair_blocks, encode_part = shard_writing.pair_blocks, shard_writing.encode_part
    blocks_read, blocks_encoded = [0], [0]

    def count_blocks(*arguments):
        for block in pair_blocks(*arguments):
            blocks_read[0] += 1
            most_waiting[0] = max(most_waiting[0], blocks_read[0] - blocks_encoded[0])
            yield block

    def encode_slowly(*arguments):
        time.sleep(0.005)
        encode_part(*arguments)
        with lock:
            running[0] += 1
            blocks_encoded[0] += 1

    monkeypatch.setattr(shard_writing, "pair_blocks", count_blocks)
    monkeypatch.setattr(shard_writing, "encode_part", encode_slowly)
    monkeypatch.setattr(cpu, "count_processors", lambda: 2)
    assert call("prepare", "small.toml", "--out", "shards").exit_code == 0
    assert blocks_read[0] == 31
    assert most_waiting[0] <= 2 * 2 + 2


def test_training_on_shards_does_not_need_the_text(call, run_file, tmp_path):
    call("prepare", "small.toml", "--out", "shards")
    for name in ("source.txt", "target.txt"):
        (tmp_path / name).rename(tmp_path / f"old.{name}")
    changes = ["model.d_model=6", "model.d_ff=11", "model.heads=2", "model.encoder_layers=1", "model.decoder_layers=1"]
    changes += ["train.dev_sentences=1", "train.dev_beam=1", "train.steps=1", "data.shards=shards"]
    result = call("train", "small.toml", "--out", "out", *(word for change in changes for word in ("--set", change)))
    assert result.exit_code == 0, result.stderr
    assert os.listdir(tmp_path / "out" / "best")


@pytest.mark.parametrize("corpora", ["0", "3-2", "2-4", "two", "1-"])
def test_numbers_that_the_run_does_not_have_are_refused(call, corpora: str, tmp_path: Path):
    lines = [f'[[data.corpus]]\nname = "{name}"\npairs = "{name}.tsv"\n' for name in "abc"]
    (tmp_path / "run.toml").write_text("".join(lines) + "[train]\nsteps = 3\n", encoding="utf-8")
    result = call("prepare", "run.toml", "--out", "shards", "--corpora", corpora)
    assert result.exit_code == 2
    assert f"--corpora is '{corpora}'" in result.stderr
    assert "of the 3 corpora of the run" in result.stderr
    result = call("prepare", "run.toml", "--corpora", "1-2")
    assert "needs a directory of its own: --out" in result.stderr
