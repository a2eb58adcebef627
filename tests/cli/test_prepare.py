"""`pellucid prepare`: what is killed goes on, what is wrong is said, and nothing half-written stands at the end."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pellucid.atomic import verify_directory
from pellucid.data import shards
from pellucid.train import shard_writing
from tests.train.corpora import write_corpus

SLOWLY = """
import sys, time
from pellucid.train import shard_writing as prepare
prepare.PAIRS_PER_PART = 7
real = prepare.encode_part
def slow(*arguments):
    time.sleep(0.05)
    real(*arguments)
prepare.encode_part = slow
from pellucid.cli import app
app(["prepare", "small.toml", "--out", "shards", "--workers", "2"])
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


def ids(folder: Path) -> list[bytes]:
    return [(folder / f"{side}.{kind}").read_bytes() for side in shards.SIDES for kind in ("ids", "starts")]


def test_the_directory_is_written_to_standard_output_and_holds_only_what_is_whole(call, run_file, tmp_path):
    done = call("prepare", "small.toml", "--out", "shards")
    assert (done.exit_code, done.stdout) == (0, "shards\n"), done.stderr
    assert f'data.shards = "{tmp_path / "shards"}"' in done.stderr
    about = verify_directory(tmp_path / "shards")
    assert about["corpora"][0]["pairs"] == 211
    assert not list(tmp_path.glob("*unfinished*"))
    assert {path.name for path in (tmp_path / "shards").iterdir()} == {"manifest.json", *about["files"]}
    before = (tmp_path / "shards").stat().st_ino
    again = call("prepare", "small.toml", "--out", "shards")
    assert (again.exit_code, again.stderr) == (0, f"{tmp_path / 'shards'} is prepared already\n")
    assert (tmp_path / "shards").stat().st_ino == before


def test_without_out_the_run_says_where_or_its_name_does(call, run_file, tmp_path):
    assert call("prepare", "small.toml").stdout == "runs/small.shards\n"
    done = call("prepare", "small.toml", "--set", "data.shards=here")
    assert done.stdout == f"{tmp_path / 'here'}\n"
    assert ids(tmp_path / "here") == ids(tmp_path / "runs" / "small.shards")


@pytest.mark.parametrize("workers", [1, 3])
def test_any_number_of_threads_writes_the_same(call, run_file, tmp_path, workers, monkeypatch):
    call("prepare", "small.toml", "--out", "one", "--workers", workers)
    monkeypatch.setattr(shard_writing, "PAIRS_PER_PART", 100)
    call("prepare", "small.toml", "--out", "other", "--workers", 2)
    assert ids(tmp_path / "one") == ids(tmp_path / "other")


def test_an_interrupt_waits_until_the_executor_holds_no_lock(call, run_file, tmp_path, monkeypatch):
    """Raised within `submit`, it may leave a lock held that the threads wait for, and the command hangs for ever."""
    real, begun, came_back = ThreadPoolExecutor.submit, [], []

    def interrupted(pool, *arguments):
        begun.append(future := real(pool, *arguments))
        if len(begun) == 4:
            signal.raise_signal(signal.SIGINT)
        came_back.append(future)
        return future

    monkeypatch.setattr(ThreadPoolExecutor, "submit", interrupted)
    done = call("prepare", "small.toml", "--out", "shards", "--workers", 2)
    assert done.exit_code == 130
    assert done.stderr.endswith("pellucid: interrupted\n")
    assert len(came_back) == len(begun) == 4
    assert len(list((tmp_path / "shards.unfinished").glob("parts/0/*.npz"))) == 4
    again = call("prepare", "small.toml", "--out", "shards")
    assert again.exit_code == 0, again.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130), (signal.SIGTERM, -15)])
def test_a_killed_command_goes_on_with_what_is_whole(call, run_file, tmp_path, number, code):
    call("prepare", "small.toml", "--out", "undisturbed")
    child = subprocess.Popen([sys.executable, "-c", SLOWLY], cwd=tmp_path, stderr=subprocess.DEVNULL)
    work = tmp_path / "shards.unfinished"
    for _ in range(2400):
        if len(list(work.glob("parts/0/*.npz"))) > 5:
            break
        time.sleep(0.025)
    child.send_signal(number)
    assert child.wait(timeout=60) == code
    assert not (tmp_path / "shards").exists()
    whole = {path: path.stat().st_ino for path in work.glob("parts/0/*.npz")}
    assert 5 < len(whole) < 31
    real, kept = shard_writing.join_shards, {}

    def looking(*arguments):
        kept.update({path: path.stat().st_ino for path in whole})
        return real(*arguments)

    shard_writing.join_shards = looking
    try:
        done = call("prepare", "small.toml", "--out", "shards")
    finally:
        shard_writing.join_shards = real
    assert done.exit_code == 0, done.stderr
    assert f"continuing with {work}" in done.stderr
    assert "learning the vocabulary" not in done.stderr
    assert kept == whole  # none of them was written again
    assert ids(tmp_path / "shards") == ids(tmp_path / "undisturbed")
    assert not work.exists()


def test_other_text_or_settings_begin_anew(call, run_file, tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device", "shards")

    with monkeypatch.context() as patch:
        patch.setattr(shard_writing, "write_part", full)
        done = call("prepare", "small.toml", "--out", "shards")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "no space left on device" in done.stderr
    assert not (tmp_path / "shards").exists()
    again = call("prepare", "small.toml", "--out", "shards", "--set", "data.max_pieces=9")
    assert again.exit_code == 0, again.stderr
    assert "made from other text or settings; beginning anew" in again.stderr
    assert "left out: " in str(verify_directory(tmp_path / "shards")["notes"])


def test_shards_are_replaced_when_the_text_has_changed_and_only_when_the_new_are_whole(
    call, run_file, tmp_path, monkeypatch
):
    call("prepare", "small.toml", "--out", "shards")
    before = ids(tmp_path / "shards")
    with (tmp_path / "source.txt").open("a") as source, (tmp_path / "target.txt").open("a") as target:
        source.write("one six\n")
        target.write("seis uno\n")
    with monkeypatch.context() as patch:
        patch.setattr(shard_writing, "join_shards", lambda *arguments: 1 / 0)
        assert isinstance(call("prepare", "small.toml", "--out", "shards").exception, ZeroDivisionError)
    assert ids(tmp_path / "shards") == before
    assert call("prepare", "small.toml", "--out", "shards").exit_code == 0
    assert verify_directory(tmp_path / "shards")["corpora"][0]["pairs"] == 212


@pytest.mark.parametrize("renamed", [False, True])
def test_a_crash_around_the_last_rename_is_mended(call, run_file, tmp_path, monkeypatch, renamed):
    real = shard_writing.replace_directory

    def crash(*arguments):
        if renamed:
            real(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shard_writing, "replace_directory", crash)
        assert call("prepare", "small.toml", "--out", "shards").exit_code == 130
    assert (tmp_path / "shards").exists() == renamed
    assert (tmp_path / "shards.unfinished").exists()
    done = call("prepare", "small.toml", "--out", "shards")
    assert done.exit_code == 0, done.stderr
    assert "learning" not in done.stderr
    assert verify_directory(tmp_path / "shards")["corpora"][0]["pairs"] == 211
    assert not (tmp_path / "shards.unfinished").exists()


def test_a_damaged_directory_is_prepared_again(call, run_file, tmp_path):
    call("prepare", "small.toml", "--out", "shards")
    before = ids(tmp_path / "shards")
    (tmp_path / "shards" / "source.ids").write_bytes(before[0][::-1])
    assert call("prepare", "small.toml", "--out", "shards").exit_code == 0
    assert ids(tmp_path / "shards") == before


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("source.txt", "one\n", "has 1 lines and"),
        ("source.txt", "one\0\n" * 211, "source.txt:1: a NUL byte"),
        ("source.txt", "\n" * 211, "no sentence pair in"),
        ("dev_source.txt", "one\n", "dev_source.txt has 1 lines"),
        ("small.toml", "[data]\n", "no sentences to train on"),
    ],
)
def test_what_cannot_be_prepared_is_said_in_one_sentence(call, run_file, tmp_path, file, text, said):
    (tmp_path / file).write_text(text, encoding="utf-8")
    done = call("prepare", "small.toml", "--out", "shards")
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr.splitlines()[-1]
    assert not (tmp_path / "shards").exists()


def test_lines_that_are_left_out_are_counted_and_named_as_training_does(call, run_file, tmp_path):
    source = (tmp_path / "source.txt").read_text(encoding="utf-8").split("\n")
    source[6], source[30] = " ", "one " * 700
    (tmp_path / "source.txt").write_text("\n".join(source), encoding="utf-8")
    call("prepare", "small.toml", "--out", "shards")
    [note] = [note for note in verify_directory(tmp_path / "shards")["notes"] if "training data" in note]
    assert "2 pairs skipped" in note
    assert "source.txt:7 empty source" in note
    assert "source.txt:31 source of more than 2,000 characters" in note


def test_a_corpus_of_pairs_that_are_all_too_long_is_refused(call, run_file, tmp_path):
    done = call("prepare", "small.toml", "--out", "shards", "--set", "data.max_pieces=2")
    assert done.exit_code == 2
    assert "no pair is left of 211: 211 pairs skipped" in done.stderr
    assert not (tmp_path / "shards").exists()


def test_a_file_that_changes_meanwhile_is_named(call, run_file, tmp_path, monkeypatch):
    real = shard_writing.write_parts

    def meddled(*arguments):
        found = real(*arguments)
        (tmp_path / "target.txt").write_text("other\n" * 211, encoding="utf-8")
        return found

    monkeypatch.setattr(shard_writing, "write_parts", meddled)
    done = call("prepare", "small.toml", "--out", "shards")
    assert done.exit_code == 2
    assert "target.txt changed while it was prepared; run the command again" in done.stderr
    assert not (tmp_path / "shards").exists()


@pytest.mark.parametrize("there", ["notes.txt", "manifest.json"])
def test_other_things_are_not_replaced(call, run_file, tmp_path, there):
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / there).write_text(json.dumps({"kind": "mine"}), encoding="utf-8")
    done = call("prepare", "small.toml", "--out", "shards")
    assert done.exit_code == 2
    assert "holds something other than shards and is not replaced" in done.stderr
    assert [path.name for path in (tmp_path / "shards").iterdir()] == [there]


def test_no_more_blocks_wait_than_there_are_threads(call, run_file, monkeypatch):
    running, most, lock = [0], [0], threading.Lock()
    real_blocks, real_cut = shard_writing.pair_blocks, shard_writing.encode_part
    made, done = [0], [0]

    def counting(*arguments):
        for block in real_blocks(*arguments):
            made[0] += 1
            most[0] = max(most[0], made[0] - done[0])
            yield block

    def cut(*arguments):
        time.sleep(0.005)
        real_cut(*arguments)
        with lock:
            running[0] += 1
            done[0] += 1

    monkeypatch.setattr(shard_writing, "pair_blocks", counting)
    monkeypatch.setattr(shard_writing, "encode_part", cut)
    assert call("prepare", "small.toml", "--out", "shards", "--workers", 2).exit_code == 0
    assert made[0] == 31
    assert most[0] <= 2 * 2 + 2


def test_the_text_may_lie_elsewhere_when_a_run_trains(call, run_file, tmp_path):
    call("prepare", "small.toml", "--out", "shards")
    for name in ("source.txt", "target.txt"):
        (tmp_path / name).rename(tmp_path / f"old.{name}")
    sets = ["model.d_model=6", "model.d_ff=11", "model.heads=2", "model.encoder_layers=1", "model.decoder_layers=1"]
    sets += ["train.dev_sentences=1", "train.dev_beam=1", "train.steps=1", "data.shards=shards"]
    done = call("train", "small.toml", "--out", "out", *(word for each in sets for word in ("--set", each)))
    assert done.exit_code == 0, done.stderr
    assert os.listdir(tmp_path / "out" / "best")
