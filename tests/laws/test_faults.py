"""Whichever write, flush or rename a disk refuses, a directory is what it was or what it was to be, and a sentence says
so."""

import builtins
import hashlib
import io
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors import SafetensorError
from typer.testing import CliRunner

from pellucid import bundle, sealed
from pellucid.cli import app
from pellucid.interop import marian_weights
from pellucid.trace import saved as traces
from pellucid.train import state
from tests.decode.models import random_model, small_tokenizer

FULL = "No space left on device"


class FailingDisk:
    """Refuses the n-th call that changes the disk below a place: once, or from then on."""

    def __init__(self, patch: pytest.MonkeyPatch, place: Path, refused: int, lasting: bool):
        self.place, self.refused, self.lasting, self.calls = str(place), refused, lasting, 0
        # Where the operating system is called: pathlib, shutil and tempfile come down to these.
        for owner, name in (
            (os, "fsync"), (os, "rename"), (os, "replace"), (os, "mkdir"), (os, "rmdir"), (os, "unlink"),
        ):  # fmt: skip
            patch.setattr(owner, name, self.watched(getattr(os, name)))
        for owner in (io, builtins):
            patch.setattr(owner, "open", self.opened(io.open))
        for module in (bundle, state, marian_weights, traces):
            patch.setattr(module, "save_file", self.saved(module.save_file))

    def check(self) -> None:
        self.calls += 1
        if self.calls == self.refused or (self.lasting and 0 < self.refused < self.calls):
            raise OSError(28, FULL)

    def watched(self, call: Callable) -> Callable:
        def watched(path, *arguments, **more):
            if isinstance(path, int) or more.get("dir_fd") is not None or str(path).startswith(self.place):
                self.check()
            return call(path, *arguments, **more)

        return watched

    def opened(self, call: Callable) -> Callable:
        def opened(path, mode="r", *arguments, **more):
            if mode in ("r", "rb") or not str(path).startswith(self.place):
                return call(path, mode, *arguments, **more)
            self.check()
            file = call(path, mode, *arguments, **more)
            try:
                self.check()  # half of the file is there
            except OSError:
                file.close()
                raise
            return file

        return opened

    def saved(self, call: Callable) -> Callable:
        def saved(tensors, path, **more):
            call(tensors, path, **more)
            try:
                self.check()
            except OSError:
                os.truncate(path, os.path.getsize(path) // 2)
                raise SafetensorError(f"Error while serializing: I/O error: {FULL} (os error 28)") from None

        return saved


def contents(directory: Path) -> dict[str, str] | None:
    """The files of a directory with the hash of each; None where there is none."""
    if not directory.exists():
        return None
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in directory.iterdir()}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two models with the same sizes and other weights."""
    folder = tmp_path_factory.mktemp("models")
    size = small_tokenizer().source_vocabulary
    for seed in (1, 2):
        bundle.save(folder / f"{seed}", random_model(seed, size, size), small_tokenizer(), step=seed)
    return folder / "1", folder / "2"


def export_marian(model: Path, out: Path) -> list[str]:
    return ["export", str(model), str(out), "--to", "marian"]


def export_ctranslate2(model: Path, out: Path) -> list[str]:
    pytest.importorskip("ctranslate2")
    return ["export", str(model), str(out), "--to", "ctranslate2"]


def import_again(model: Path, out: Path) -> list[str]:
    place = model.parent / f"{model.name}-marian"
    if not place.exists():
        assert CliRunner().invoke(app, export_marian(model, place)).exit_code == 0
    return ["import", str(place), str(out)]


@pytest.mark.parametrize("existing", [False, True])
@pytest.mark.parametrize("command", [export_marian, export_ctranslate2, import_again])
def test_whichever_write_a_disk_refuses_the_directory_is_old_or_new(models, tmp_path, command, existing):
    out = tmp_path / "deep" / "out"
    first, second = (command(model, out) for model in models)

    def run(arguments: list[str]):
        return CliRunner().invoke(app, arguments)

    assert run(first).exit_code == 0
    shutil.move(out, tmp_path / "first")
    assert run(second).exit_code == 0
    before, after, refused = contents(tmp_path / "first") if existing else None, contents(out), 0
    for n in range(1, 500):
        shutil.rmtree(out.parent)
        if existing:
            shutil.copytree(tmp_path / "first", out)
        with pytest.MonkeyPatch.context() as patch:
            disk = FailingDisk(patch, out.parent, n, lasting=n % 2 == 0)
            result = run(second)
        if disk.calls < n:
            assert result.exit_code == 0
            break
        refused += 1
        assert contents(sealed.whole(out)) in (before, after)
        if result.exit_code == 0:  # only what was replaced could not be removed
            assert contents(out) == after
        else:
            assert result.exit_code == 1, result.output
            assert isinstance(result.exception, SystemExit)
            line = result.stderr.splitlines()[-1]
            assert line.startswith(f"pellucid: {out} ")
            assert "no space left on device; " in line
        if out.parent.exists():
            with sealed.written_whole(out):  # the next write clears away whatever is beside it
                pass
            assert [path.name for path in out.parent.iterdir()] == ["out"]
        else:
            assert before is None  # the folder above was not left behind either
            out.parent.mkdir()
    assert refused > 10
