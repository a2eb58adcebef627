"""A full disk costs a run one save, and never what was saved before."""

import io
import os
import resource
import shutil
from pathlib import Path

import pytest
import torch
import typer
from safetensors.torch import save_file

from pellucid.cli.train import train_and_plot
from pellucid.store import weights
from pellucid.store.directory import load_bundle, save_bundle
from pellucid.training import checkpoint, log, saving
from pellucid.training.beginning import begin_run
from pellucid.training.checkpoint import list_checkpoints, restore_state
from pellucid.training.config import RunConfig
from pellucid.training.distributed import TrainingFailed
from pellucid.training.log import ProgressOutput
from pellucid.training.loop import train_run
from pellucid.training.recovery import load_newest_sound
from pellucid.training.saving import save_checkpoint
from tests.laws.runs import assert_same_end, read_reports, read_weights, same_weights
from tests.training.corpora import small_run

FULL = OSError(28, "No space left on device")


@pytest.fixture(scope="module")
def undisturbed_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of a run that nothing happened to."""
    folder = tmp_path_factory.mktemp("undisturbed")
    return train_run(small_run(folder / "data"), folder / "out").out


@pytest.fixture
def run(tmp_path: Path) -> RunConfig:
    """Settings of a run like the undisturbed one, for a test to carry out."""
    return small_run(tmp_path / "data")


class FullDisk:
    """Disk that is full after `room` writes (opening, writing, forcing to disk, renaming, making a folder).

    Of the file that is being written when it fills up, half is there.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path):
        self.folder, self.writes, self.room = str(folder), 0, 10**9
        for owner, name, is_counted in (
            (os, "fsync", lambda *_: True),
            (os, "rename", self.is_inside),
            (os, "replace", self.is_inside),
            (os, "mkdir", self.is_inside),
        ):
            monkeypatch.setattr(owner, name, self.wrap_call(getattr(owner, name), is_counted))
        monkeypatch.setattr(io, "open", self.wrap_open(io.open))
        for module in (weights, checkpoint):
            monkeypatch.setattr(module, "save_file", self.wrap_save(module.save_file))

    def is_inside(self, path: object, *_: object) -> bool:
        return str(path).startswith(self.folder)

    def count_write(self) -> None:
        self.writes += 1
        if self.writes > self.room:
            raise FULL

    def wrap_call(self, real_call, is_counted):
        def call(*arguments, **options):
            if is_counted(*arguments):
                self.count_write()
            return real_call(*arguments, **options)

        return call

    def wrap_open(self, real_open):
        def call(path, mode="r", *arguments, **options):
            if not self.is_inside(path) or mode in ("r", "rb"):
                return real_open(path, mode, *arguments, **options)
            self.count_write()
            file = real_open(path, mode, *arguments, **options)
            file_write = file.write

            def write(content):
                try:
                    self.count_write()
                except OSError:
                    file_write(content[: len(content) // 2])
                    raise
                return file_write(content)

            return WatchedFile(file, write)

        return call

    def wrap_save(self, real_save):
        def call(tensors, path):
            self.count_write()
            real_save(tensors, path)
            try:
                self.count_write()
            except OSError:
                os.truncate(path, os.path.getsize(path) // 2)
                raise

        return call


class WatchedFile:
    """File whose writes go through another function."""

    def __init__(self, file, write):
        self.file, self.write = file, write

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.file.close()

    def __getattr__(self, name):
        return getattr(self.file, name)


def test_the_last_saved_state_is_whole_whichever_write_finds_the_disk_full(run, tmp_path, monkeypatch):
    out = tmp_path / "out"
    setup, train_state = begin_run(run, out, ProgressOutput())
    train_state.counts.step = 4
    save_checkpoint(setup, train_state)
    save_bundle(out / "best", train_state.model, setup.data.tokenizer, step=4)
    train_state.counts.step = 8
    with torch.no_grad():
        next(train_state.model.parameters()).add_(1.0)
    disk, refused = FullDisk(monkeypatch, out), 0
    for write, directory in (
        (lambda: save_checkpoint(setup, train_state), out / "checkpoints/step-00000008"),
        (lambda: save_bundle(out / "best", train_state.model, setup.data.tokenizer, step=8), out / "best"),
    ):
        for room in range(1000):
            disk.writes, disk.room = 0, room
            try:
                write()
            except OSError:
                refused += 1
            disk.room = 10**9
            newest, loaded = load_newest_sound(list_checkpoints(out), ProgressOutput())
            assert loaded.manifest["step"] in (4, 8)
            assert load_bundle(out / "best").manifest["step"] in (4, 8)
            restore_state(train_state, newest)
            train_state.counts.step = 8
            if disk.writes <= room:
                break
            if directory.name.startswith("step") and directory.exists():
                shutil.rmtree(directory)
        assert load_bundle(directory).manifest["step"] == 8
    assert refused > 20


def test_a_periodic_save_that_fails_is_reported_and_the_next_one_tries_again(
    run, undisturbed_run, tmp_path, monkeypatch, capsys
):
    out = tmp_path / "out"
    real_save, refused = save_bundle, set()

    def save_or_refuse(directory, *arguments, **options):
        if directory.name in ("step-00000004", "best") and directory not in refused:
            refused.add(directory)
            raise FULL
        return real_save(directory, *arguments, **options)

    for module in (checkpoint, saving):
        monkeypatch.setattr(module, "save_bundle", save_or_refuse)
    train_run(run, out)
    messages = capsys.readouterr().err
    for name, megabytes in (("checkpoints/step-00000004", "0.1"), ("best", "0.0")):
        assert (
            f"{out / name} could not be written: no space left on device (it takes about {megabytes} MB, " in messages
        )
    assert messages.count("training continues, and the next save will try again") == 2
    assert same_weights(read_weights(out / "last"), read_weights(undisturbed_run / "last"))
    assert [path.name for path in list_checkpoints(out)] == ["step-00000008", "step-00000012"]


def test_a_last_save_that_fails_ends_the_run_with_exit_code_1_and_can_be_made_up_for(
    run, undisturbed_run, tmp_path, monkeypatch, capsys
):
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        real_save = save_file

        def save_or_refuse(tensors, path):
            if "step-00000012" in str(path):
                raise FULL
            real_save(tensors, path)

        patch.setattr(checkpoint, "save_file", save_or_refuse)
        with pytest.raises(typer.Exit) as ended:
            train_and_plot(run, out, resume=False)
    assert ended.value.exit_code == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"pellucid: {out}/checkpoints/step-00000012 could not be written: no space left on device")
    assert ". The newest checkpoint is step-00000008. Resume with: " in last
    assert last.endswith(f": pellucid train {out}/run.toml --out {out} --resume")
    train_run(run, out, resume=True)
    assert_same_end(undisturbed_run, out)


def test_a_file_size_limit_of_the_system_is_reported_like_a_full_disk(run, tmp_path, capsys):
    """The system's own limit on file sizes is as large as the weights, so the optimiser's numbers do not fit."""
    out = tmp_path / "out"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, before[1]))
    try:
        with pytest.raises(
            TrainingFailed, match=r"step-00000012 could not be written: file too large \(it takes about"
        ):
            train_run(run, out)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert capsys.readouterr().err.count("training continues, and the next save will try again") == 3
    assert not list(out.glob("checkpoints/*"))


def test_reports_that_a_full_disk_refused_are_written_when_there_is_room(
    run, undisturbed_run, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(log, "REPORT_EVERY", 1)
    real_open = io.open

    def open_or_refuse(path, mode="r", *arguments, **options):
        file = real_open(path, mode, *arguments, **options)
        if mode == "r+b" and Path(path).name == "log.jsonl" and len(refusals) < 3:
            refusals.append(path)

            def write(content: bytes) -> None:
                file.write(content[:20])
                file.flush()
                raise FULL

            return WatchedFile(file, write)
        return file

    refusals: list = []
    with monkeypatch.context() as patch:
        train_run(run, tmp_path / "roomy")
        patch.setattr(io, "open", open_or_refuse)
        train_run(run, tmp_path / "tight")
    assert read_reports(tmp_path / "tight") == read_reports(tmp_path / "roomy")
    assert capsys.readouterr().err.count("its reports are kept until they can be written") == 1
