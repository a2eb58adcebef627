"""Whichever write a disk refuses, a changed model, a store of states and mended text are as before or whole."""

import shutil
from pathlib import Path

import pytest

from pellucid.store import atomic
from pellucid.store.directory import add_files, load_bundle, save_bundle
from pellucid.training.loop import train_run
from pellucid.training.state_store import remember_states, store_directory
from tests.cli.test_distill import QUICK
from tests.decode.models import random_model, small_tokenizer
from tests.laws.runs import read_weights, same_weights
from tests.laws.test_faults import FailingDisk, hash_files, read_refusal, run_command
from tests.training.corpora import small_run, write_corpus


def test_a_file_that_is_added_to_a_model_is_there_as_a_whole_or_not_at_all(tmp_path: Path):
    model, folder = tmp_path / "model", tmp_path / "out"
    size = small_tokenizer().source_vocabulary
    save_bundle(model, random_model(1, size, size), small_tokenizer(), step=1)
    shutil.copytree(model, folder / "copy")
    add_files(folder / "copy", {"calibration.json": "{}"})
    before, after, n = hash_files(model), hash_files(folder / "copy"), 0
    for n in range(1, 200):
        shutil.rmtree(folder)
        shutil.copytree(model, folder / "copy")
        with pytest.MonkeyPatch.context() as patch:
            disk = FailingDisk(patch, folder, n, lasting=n % 2 == 0)
            message = str(folder / "copy")
            try:
                add_files(folder / "copy", {"calibration.json": "{}"})
            except OSError as error:
                message = str(error)
                allowed = before, after
            else:
                allowed = (after,)
        if disk.calls < n:
            break
        found = atomic.resolve_directory(folder / "copy")
        assert hash_files(found) in allowed
        assert str(folder / "copy") in message
        load_bundle(found)
    assert n > 10


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_states_that_a_disk_refuses_are_stored_by_the_same_command_given_again(tmp_path: Path, every: int):
    train_run(small_run(tmp_path / "text"), tmp_path / "run")
    model = tmp_path / "run" / "best"
    out, words = store_directory(model), ["remember", tmp_path / "run"]
    remember_states(tmp_path / "run", lambda say: None)
    whole, n = hash_files(out), 0
    for n in range(1, 200, every):
        shutil.rmtree(out)
        with pytest.MonkeyPatch.context() as patch:
            disk = FailingDisk(patch, out.parent, n, lasting=n % 2 == 0)
            result = run_command(*words)
        if disk.calls < n:
            assert result.exit_code == 0
            break
        assert hash_files(atomic.resolve_directory(out)) in (None, whole)
        if result.exit_code:
            assert str(out) in read_refusal(result)
        assert run_command(*words).exit_code == 0
        assert hash_files(out) == whole
    assert n > 10


@pytest.mark.parametrize("existing", [False, True])
def test_mended_text_is_the_old_or_the_new_one(tmp_path: Path, existing: bool):
    names, folder = write_corpus(tmp_path, pairs=60), tmp_path / "out"
    shutil.copyfile(names["source"], names["target"])  # every pair is a copy, which the check takes out
    words = ["check", names["source"], names["target"], "--fix", folder / "mended"]
    folder.mkdir()
    assert run_command(*words).exit_code == 0
    after = hash_files(folder)
    assert after is not None
    before = dict.fromkeys(after, "0" * 64) if existing else {}
    n = 0
    for n in range(1, 100):
        shutil.rmtree(folder)
        folder.mkdir()
        for name in before:
            (folder / name).write_bytes(b"old")
        with pytest.MonkeyPatch.context() as patch:
            disk = FailingDisk(patch, folder, n, lasting=n % 2 == 0)
            result = run_command(*words)
        if disk.calls < n:
            assert result.exit_code == 0
            break
        hashes = hash_files(folder) or {}
        for name in after:
            is_old = (folder / name).read_bytes() == b"old" if name in before else not (folder / name).exists()
            assert is_old or hashes[name] == after[name], name
        if result.exit_code:
            read_refusal(result)
    assert n > 4


@pytest.mark.slow
@pytest.mark.parametrize("lasting", [False, True])
def test_a_student_comes_out_the_same_when_the_command_is_given_again(tmp_path: Path, lasting: bool):
    names, out = write_corpus(tmp_path, pairs=60), tmp_path / "student"
    dev = "--dev-source", names["dev_source"], "--dev-target", names["dev_target"]
    words = ["distill", "--command", "tr a-z A-Z", "--source", names["source"], *dev, "--out", out, "--steps", 4]
    words += ["--no-export", *QUICK]
    assert run_command(*words).exit_code == 0
    whole, n = read_weights(out / "last"), 0
    for n in range(1, 1000, 5):
        shutil.rmtree(out, ignore_errors=True)
        with pytest.MonkeyPatch.context() as patch:
            disk = FailingDisk(patch, out, n, lasting)
            result = run_command(*words)
        if disk.calls < n:
            break
        if result.exit_code:
            read_refusal(result)
        again = run_command(*words)
        assert again.exit_code == 0, again.output
        assert same_weights(read_weights(out / "last"), whole)
    assert n > 20
