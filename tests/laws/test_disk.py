"""A disk that is full costs a run one save, and never what was saved before."""

import io
import os
import resource
import shutil
from pathlib import Path

import pytest
import torch
import typer

from pellucid import bundle
from pellucid.cli.train import train_and_plot
from pellucid.train import log, loop, state
from pellucid.train.config import RunConfig
from pellucid.train.failures import TrainingFailed
from pellucid.train.log import NoOutput
from pellucid.train.loop import train_run
from tests.laws.runs import assert_same_end, same, timeless, weights
from tests.train.corpora import small_run

FULL = OSError(28, "No space left on device")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing happened to."""
    folder = tmp_path_factory.mktemp("undisturbed")
    return train_run(small_run(folder / "data"), folder / "out").out


@pytest.fixture
def run(tmp_path: Path) -> RunConfig:
    """The same, still to be made."""
    return small_run(tmp_path / "data")


class FullDisk:
    """From its n-th write on (opening, writing, forcing to disk, renaming, making a folder), a disk is full.

    What is being written when it fills up is there by half.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, place: Path):
        self.place, self.writes, self.room = str(place), 0, 10**9
        for owner, name, about in (
            (os, "fsync", lambda *_: True),
            (os, "rename", self.there),
            (os, "replace", self.there),
            (os, "mkdir", self.there),
        ):
            monkeypatch.setattr(owner, name, self.counted(getattr(owner, name), about))
        monkeypatch.setattr(io, "open", self.opened(io.open))
        for module in (bundle, state):
            monkeypatch.setattr(module, "save_file", self.saved(module.save_file))

    def there(self, path: object, *_: object) -> bool:
        return str(path).startswith(self.place)

    def write(self) -> None:
        self.writes += 1
        if self.writes > self.room:
            raise FULL

    def counted(self, real, about):
        def call(*arguments, **more):
            if about(*arguments):
                self.write()
            return real(*arguments, **more)

        return call

    def opened(self, real):
        def call(path, mode="r", *arguments, **more):
            if not self.there(path) or mode in ("r", "rb"):
                return real(path, mode, *arguments, **more)
            self.write()
            file = real(path, mode, *arguments, **more)
            file_write = file.write

            def write(content):
                try:
                    self.write()
                except OSError:
                    file_write(content[: len(content) // 2])
                    raise
                return file_write(content)

            return Proxy(file, write)

        return call

    def saved(self, real):
        def call(tensors, path):
            self.write()
            real(tensors, path)
            try:
                self.write()
            except OSError:
                os.truncate(path, os.path.getsize(path) // 2)
                raise

        return call


class Proxy:
    """A file whose writes are watched."""

    def __init__(self, file, write):
        self.file, self.write = file, write

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.file.close()

    def __getattr__(self, name):
        return getattr(self.file, name)


def test_whichever_write_finds_the_disk_full_the_last_state_is_whole(run, tmp_path, monkeypatch):
    out = tmp_path / "out"
    setup, made = loop.begin_run(run, out, NoOutput())
    made.counts.step = 4
    loop.save_checkpoint(setup, made)
    bundle.save_bundle(out / "best", made.model, setup.tokenizer, step=4)
    made.counts.step = 8
    with torch.no_grad():
        next(made.model.parameters()).add_(1.0)
    disk, refused = FullDisk(monkeypatch, out), 0
    for write, place in (
        (lambda: loop.save_checkpoint(setup, made), out / "checkpoints/step-00000008"),
        (lambda: bundle.save_bundle(out / "best", made.model, setup.tokenizer, step=8), out / "best"),
    ):
        for room in range(1000):
            disk.writes, disk.room = 0, room
            try:
                write()
            except OSError:
                refused += 1
            disk.room = 10**9
            newest, found = loop.load_newest_sound(state.list_checkpoints(out), NoOutput())
            assert found.manifest["step"] in (4, 8)
            assert bundle.load_bundle(out / "best").manifest["step"] in (4, 8)
            state.restore_state(made, newest)
            made.counts.step = 8
            if disk.writes <= room:
                break
            if place.name.startswith("step") and place.exists():
                shutil.rmtree(place)
        assert bundle.load_bundle(place).manifest["step"] == 8
    assert refused > 20


def test_a_periodic_save_that_fails_is_said_and_the_next_one_tries_again(
    run, undisturbed, tmp_path, monkeypatch, capsys
):
    out = tmp_path / "out"
    real, refused = state.bundle.save_bundle, set()

    def full_at_times(directory, *arguments, **more):
        if directory.name in ("step-00000004", "best") and directory not in refused:
            refused.add(directory)
            raise FULL
        return real(directory, *arguments, **more)

    monkeypatch.setattr(state.bundle, "save_bundle", full_at_times)
    train_run(run, out)
    said = capsys.readouterr().err
    for name, megabytes in (("checkpoints/step-00000004", "0.1"), ("best", "0.0")):
        assert f"{out / name} could not be written: no space left on device (it takes about {megabytes} MB, " in said
    assert said.count("training continues, and the next save will try again") == 2
    assert same(weights(out / "last"), weights(undisturbed / "last"))
    assert [place.name for place in state.list_checkpoints(out)] == ["step-00000008", "step-00000012"]


def test_a_last_save_that_fails_ends_the_run_with_exit_code_1_and_can_be_made_up_for(
    run, undisturbed, tmp_path, monkeypatch, capsys
):
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        real = state.save_file

        def full(tensors, path):
            if "step-00000012" in str(path):
                raise FULL
            real(tensors, path)

        patch.setattr(state, "save_file", full)
        with pytest.raises(typer.Exit) as ended:
            train_and_plot(run, out, resume=False)
    assert ended.value.exit_code == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"pellucid: {out}/checkpoints/step-00000012 could not be written: no space left on device")
    assert ". The newest checkpoint is step-00000008. Resume with: " in last
    assert last.endswith(f": pellucid train {out}/run.toml --out {out} --resume")
    train_run(run, out, resume=True)
    assert_same_end(undisturbed, out)


def test_a_limit_of_the_system_itself_is_told_alike(run, tmp_path, capsys):
    """No injection: files may not grow beyond what the weights take, so the optimiser's do not fit."""
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
    run, undisturbed, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(log, "REPORT_EVERY", 1)
    real = io.open

    def full_for_reports(path, mode="r", *arguments, **more):
        file = real(path, mode, *arguments, **more)
        if mode == "r+b" and Path(path).name == "log.jsonl" and len(refusals) < 3:
            refusals.append(path)

            def write(content: bytes) -> None:
                file.write(content[:20])
                file.flush()
                raise FULL

            return Proxy(file, write)
        return file

    refusals: list = []
    with monkeypatch.context() as patch:
        train_run(run, tmp_path / "roomy")
        patch.setattr(io, "open", full_for_reports)
        train_run(run, tmp_path / "tight")
    assert timeless(tmp_path / "tight") == timeless(tmp_path / "roomy")
    assert capsys.readouterr().err.count("its reports are kept until they can be written") == 1
