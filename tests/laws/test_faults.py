"""Whichever write, flush or rename a disk refuses, a directory is the old one or the new one, and a message says so."""

import builtins
import hashlib
import io
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from safetensors import SafetensorError
from typer.testing import CliRunner, Result

from pellucid.cli import app, demo
from pellucid.config import to_toml
from pellucid.demo import phrasebook
from pellucid.interop import marian_weights
from pellucid.store import atomic, weights
from pellucid.store.directory import load_bundle, save_bundle
from pellucid.training import checkpoint, shard_writing
from pellucid.training.checkpoint import list_checkpoints
from tests.decode.models import random_model, small_tokenizer
from tests.laws.runs import read_weights, same_weights
from tests.page.traces import built_script
from tests.training.corpora import small_run

__all__ = ["built_script"]

FULL = "No space left on device"


class FailingDisk:
    """Disk that refuses the n-th call that changes a folder: once, or from then on."""

    def __init__(self, patch: pytest.MonkeyPatch, folder: Path, refused: int, lasting: bool):
        self.folder, self.refused, self.lasting, self.calls = str(folder), refused, lasting, 0
        # Where the operating system is called: pathlib, shutil and tempfile come down to these.
        for owner, name in (
            (os, "fsync"), (os, "rename"), (os, "replace"), (os, "mkdir"), (os, "rmdir"), (os, "unlink"),
        ):  # fmt: skip
            patch.setattr(owner, name, self.wrap_call(getattr(os, name)))
        for owner in (io, builtins):
            patch.setattr(owner, "open", self.wrap_open(io.open))
        for module in (weights, checkpoint, marian_weights):
            patch.setattr(module, "save_file", self.wrap_save(module.save_file))

    def count_call(self, *path: object) -> None:
        self.calls += 1
        if self.calls == self.refused or (self.lasting and 0 < self.refused < self.calls):
            raise OSError(28, FULL, *map(str, path))

    def wrap_call(self, call: Callable) -> Callable:
        def checked_call(path, *arguments, **options):
            if isinstance(path, int) or options.get("dir_fd") is not None or str(path).startswith(self.folder):
                self.count_call(*([] if isinstance(path, int) else [path]))  # an open file has no name
            return call(path, *arguments, **options)

        return checked_call

    def wrap_open(self, call: Callable) -> Callable:
        def checked_open(path, mode="r", *arguments, **options):
            if mode in ("r", "rb") or not str(path).startswith(self.folder):
                return call(path, mode, *arguments, **options)
            self.count_call(path)
            file = call(path, mode, *arguments, **options)
            try:
                self.count_call()  # half of the file is there
            except OSError:
                file.close()
                raise
            return file

        return checked_open

    def wrap_save(self, call: Callable) -> Callable:
        def checked_save(tensors, path, **options):
            call(tensors, path, **options)
            try:
                self.count_call()
            except OSError:
                os.truncate(path, os.path.getsize(path) // 2)
                raise SafetensorError(f"Error while serializing: I/O error: {FULL} (os error 28)") from None

        return checked_save


def hash_files(directory: Path) -> dict[str, str] | None:
    """Return the hash of each file of a directory, or None if there is no directory."""
    if not directory.exists():
        return None
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in directory.iterdir()}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two models with the same sizes and other weights."""
    folder = tmp_path_factory.mktemp("models")
    size = small_tokenizer().source_vocabulary
    for seed in (1, 2):
        save_bundle(folder / f"{seed}", random_model(seed, size, size), small_tokenizer(), step=seed)
    return folder / "1", folder / "2"


def export_marian(model: Path, out: Path) -> list[str]:
    return ["export", str(model), str(out), "--to", "marian"]


def export_ctranslate2(model: Path, out: Path) -> list[str]:
    pytest.importorskip("ctranslate2")
    return ["export", str(model), str(out), "--to", "ctranslate2"]


def import_again(model: Path, out: Path) -> list[str]:
    exported = model.parent / f"{model.name}-marian"
    if not exported.exists():
        assert CliRunner().invoke(app, export_marian(model, exported)).exit_code == 0
    return ["import", str(exported), str(out)]


@pytest.mark.parametrize(
    ("command", "existing"),
    [pytest.param(export_marian, True, marks=pytest.mark.slow), (export_ctranslate2, True), (import_again, False)],
)
def test_whichever_write_a_disk_refuses_the_directory_is_the_old_or_the_new_one(models, tmp_path, command, existing):
    out = tmp_path / "deep" / "out"
    first, second = (command(model, out) for model in models)

    def run_command(arguments: list[str]):
        return CliRunner().invoke(app, arguments)

    assert run_command(first).exit_code == 0
    shutil.move(out, tmp_path / "first")
    assert run_command(second).exit_code == 0
    before, after, refused = hash_files(tmp_path / "first") if existing else None, hash_files(out), 0
    for n in range(1, 500):
        shutil.rmtree(out.parent)
        if existing:
            shutil.copytree(tmp_path / "first", out)
        with pytest.MonkeyPatch.context() as patch:
            disk = FailingDisk(patch, out.parent, n, lasting=n % 2 == 0)
            result = run_command(second)
        if disk.calls < n:
            assert result.exit_code == 0
            break
        refused += 1
        assert hash_files(atomic.resolve_directory(out)) in (before, after)
        if result.exit_code == 0:  # only what was replaced could not be removed
            assert hash_files(out) == after
        else:
            assert result.exit_code == 1, result.output
            assert isinstance(result.exception, SystemExit)
            line = result.stderr.splitlines()[-1]
            assert line.startswith(f"pellucid: {out} ")
            assert "no space left on device; " in line
        if out.parent.exists():
            with atomic.atomic_directory(out):  # the next write clears away whatever is beside it
                pass
            assert [path.name for path in out.parent.iterdir()] == ["out"]
        else:
            assert before is None  # the folder above was not left behind either
            out.parent.mkdir()
    assert refused > 10


def run_command(*words: object) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(app, [str(word) for word in words])


def read_refusal(result: Result) -> str:
    """Return the sentence with which a command ended because of the disk, after checking that its exit code is 1."""
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit), result.exception
    line = result.stderr.splitlines()[-1]
    assert line.startswith("pellucid: /")
    assert "no space left on device" in line
    return line


# Files


def html_of_explain(model: Path, file: Path) -> list[object]:
    return ["explain", model, "ab ba", "--target", "ba", "--html", file]


def html_of_compare(model: Path, file: Path) -> list[object]:
    lines = model.parent / "lines.txt"
    lines.write_text(f"ab ba\nba {model.name}\n", encoding="utf-8")
    return ["compare", lines, lines, "--reference", lines, "--html", file]


def alignments(model: Path, file: Path) -> list[object]:
    lines = model.parent / "lines.txt"
    lines.write_text("ab ba\nba\n", encoding="utf-8")
    return ["translate", model, lines, "--beam", 1, "--engine", "torch", "--alignments", file]


def map_of_project(model: Path, file: Path) -> list[object]:
    return ["inspect", "project", model, "--html", file]


def plot_of_attention(model: Path, file: Path) -> list[object]:
    return ["inspect", "attention", model, "ab ba", "--plot", file.with_suffix(".png")]


@pytest.mark.usefixtures("built_script")
@pytest.mark.parametrize(
    ("command", "existing"),
    [
        *((html_of_explain, False), (html_of_compare, True), (alignments, False), (map_of_project, False)),
        pytest.param(plot_of_attention, True, marks=pytest.mark.slow),
    ],
)
def test_whichever_write_a_disk_refuses_a_file_is_the_old_or_the_new_one(models, tmp_path, command, existing):
    folder = tmp_path / "out"
    file = folder / ("out.png" if command is plot_of_attention else "out.html")
    folder.mkdir()
    undisturbed = run_command(*command(models[0], file))
    assert undisturbed.exit_code == 0, undisturbed.output
    end, before, refused = file.read_bytes()[-20:], {}, 0
    if existing:
        before = {file.name: hashlib.sha256(b"old").hexdigest()}
    for n in range(1, 50):
        shutil.rmtree(folder)
        folder.mkdir()
        if existing:
            file.write_bytes(b"old")
        with pytest.MonkeyPatch.context() as patch:
            disk = FailingDisk(patch, folder, n, lasting=n % 2 == 0)
            result = run_command(*command(models[0], file))
        if disk.calls < n:
            assert result.exit_code == 0
            break
        refused += 1
        hashes = hash_files(folder) or {}
        if result.exit_code:
            consequence = "what stood there is as it was" if existing else "nothing was left behind"
            assert (
                read_refusal(result) == f"pellucid: {file} could not be written: no space left on device; {consequence}"
            )
            assert {name: hashes[name] for name in hashes if name == file.name} == before
        else:
            assert file.read_bytes().endswith(end)  # a page says when it was made
        left_over = hashes.keys() - {file.name}
        assert not left_over or n % 2 == 0  # a disk that lets nothing be removed either
    assert refused >= 4


# Runs


def spread_calls(calls: int, count: int, first: int) -> Iterator[int]:
    """Return the numbers of about `count` calls, spread evenly over all; another `first` gives other calls."""
    step = max(1, calls // count)
    return iter(range(1 + first % step, calls + 1, step))


class Training:
    """Run of six updates, once whole and once stopped at its middle, to be disturbed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        lengths = {"steps": 6, "save_every": 2, "evaluate_every": 3, "keep": 2, "dev_sentences": 1, "dev_beam": 1}
        (folder / "small.toml").write_text(to_toml(small_run(folder / "data", train=lengths)), encoding="utf-8")
        assert run_command("train", folder / "small.toml", "--out", folder / "whole").exit_code == 0
        assert run_command("train", folder / "small.toml", "--out", folder / "begun", "--steps", 3).exit_code == 0

    def count_calls(self, command: "Callable[[Training, Path], list[object]]", out: Path) -> int:
        """Return how many calls of a command change the disk."""
        words = command(self, out)
        with pytest.MonkeyPatch.context() as patch:
            disk = FailingDisk(patch, out, 0, lasting=False)
            result = run_command(*words)
        assert result.exit_code == 0, result.output
        shutil.rmtree(out)
        return disk.calls


def new_run(training: Training, out: Path) -> list[object]:
    return ["train", training.folder / "small.toml", "--out", out]


def resumed_run(training: Training, out: Path) -> list[object]:
    shutil.copytree(training.folder / "begun", out)
    return ["train", training.folder / "small.toml", "--out", out, "--resume"]


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Training:
    return Training(tmp_path_factory.mktemp("training"))


def disturb_run(training: Training, command: Callable[[Training, Path], list[object]], out: Path, n: int) -> bool:
    """Let the n-th call fail, and go on with the run; return whether the run has that many calls."""
    words = command(training, out)
    with pytest.MonkeyPatch.context() as patch:
        disk = FailingDisk(patch, out, n, lasting=n % 2 == 0)
        result = run_command(*words)
    if disk.calls < n:
        return False
    for directory in [*list_checkpoints(out), *(out / name for name in ("last", "best", "average"))]:
        if atomic.resolve_directory(directory).exists():
            load_bundle(atomic.resolve_directory(directory))  # whatever stands there is whole
    if result.exit_code:
        line = read_refusal(result)
        assert str(out) in line
        if not (out / "run.toml").exists():
            assert "nothing was left behind" in line
            assert "--resume" not in line
            shutil.rmtree(out, ignore_errors=True)
            words = command(training, out)
        else:
            assert line.endswith(f"Resume with: pellucid train {out}/run.toml --out {out} --resume") or (
                f"{out}/training.png could not be written" in line
            )
            words = ["train", training.folder / "small.toml", "--out", out, "--resume"]
        again = run_command(*words)
        assert again.exit_code == 0, again.output
    assert same_weights(
        read_weights(atomic.resolve_directory(out / "last")), read_weights(training.folder / "whole" / "last")
    )
    assert load_bundle(atomic.resolve_directory(out / "best")).manifest["pairs"]
    assert load_bundle(atomic.resolve_directory(out / "average")).manifest["step"] == 6
    return True


@pytest.mark.parametrize("command", [pytest.param(new_run, marks=pytest.mark.slow), resumed_run])
def test_whichever_write_a_disk_refuses_a_run_goes_on_from_whole_files_to_the_same_bits(training, tmp_path, command):
    calls = training.count_calls(command, tmp_path / "out")
    assert calls > 60
    for n in spread_calls(calls, 3, first=calls // 2):
        assert disturb_run(training, command, tmp_path / "out", n)
        shutil.rmtree(tmp_path / "out")


@pytest.mark.slow
@pytest.mark.parametrize("command", [new_run, resumed_run])
def test_every_single_write_of_a_run_may_be_refused(training, tmp_path, command):
    n = 0
    for n in range(1, 1000):
        if not disturb_run(training, command, tmp_path / "out", n):
            break
        shutil.rmtree(tmp_path / "out")
    assert n > 60


# Shards


def disturb_prepare(folder: Path, n: int, whole: dict[str, str] | None) -> bool:
    """Let the n-th call of `prepare` fail, and give the command again; return whether it has that many calls."""
    out = folder / "shards" / "out"
    words = ["prepare", folder / "small.toml", "--out", out]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pellucid.cpu.count_processors", lambda: 1)
        disk = FailingDisk(patch, out.parent, n, lasting=n % 2 == 0)
        result = run_command(*words)
    if disk.calls < n:
        return False
    assert hash_files(atomic.resolve_directory(out)) in (None, whole)
    if result.exit_code:
        line = read_refusal(result)
        assert line.startswith(f"pellucid: {out} ")
        if f"{out}.unfinished" not in line:
            assert "nothing was left behind" in line or "the disk did not confirm it" in line
        again = run_command(*words)
        assert again.exit_code == 0, again.output
    assert hash_files(out) == whole
    assert run_command(*words).exit_code == 0
    assert {path.name for path in out.parent.iterdir()} <= {"out", ".out.old", "out.unfinished"}
    return True


@pytest.fixture
def shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, dict[str, str]]:
    """Folder with a run file, and the hashes of its shards."""
    monkeypatch.setattr(shard_writing, "PAIRS_PER_PART", 97)
    (tmp_path / "small.toml").write_text(to_toml(small_run(tmp_path / "data")), encoding="utf-8")
    out = tmp_path / "shards" / "out"
    assert run_command("prepare", tmp_path / "small.toml", "--out", out).exit_code == 0
    whole = hash_files(out)
    assert whole is not None
    shutil.rmtree(out.parent)
    return tmp_path, whole


@pytest.mark.parametrize("offset", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_whichever_write_a_disk_refuses_prepare_goes_on_to_the_same_shards(shards, offset):
    folder, whole = shards
    n = 0
    for n in range(1 + 3 * offset, 60, 8):
        if not disturb_prepare(folder, n, whole):
            break
        shutil.rmtree(folder / "shards")
    assert n > 30


@pytest.mark.slow
def test_every_single_write_of_prepare_may_be_refused(shards):
    folder, whole = shards
    n = 0
    for n in range(1, 500):
        if not disturb_prepare(folder, n, whole):
            break
        shutil.rmtree(folder / "shards")
    assert n > 30


# The demo's text


def test_whichever_write_a_disk_refuses_no_half_of_the_demos_text_is_trained_on(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "DEMO_PAIRS", 101)
    real_split = phrasebook.split_phrases
    monkeypatch.setattr(phrasebook, "split_phrases", lambda train: real_split(train, dev=13, test=11))
    demo.write_data(tmp_path / "whole")
    whole, folder = hash_files(tmp_path / "whole"), tmp_path / "data"
    assert whole is not None
    n = 0
    for n in range(1, 200, 3):
        with pytest.MonkeyPatch.context() as patch:
            disk = FailingDisk(patch, folder, n, lasting=n % 2 == 0)
            with suppress(OSError):
                demo.write_data(folder)
        if disk.calls < n:
            break
        assert {
            name: content_hash for name, content_hash in (hash_files(folder) or {}).items() if name in whole
        }.items() <= whole.items()
        demo.write_data(folder)
        assert (hash_files(folder) or {}).items() >= whole.items()
        shutil.rmtree(folder)
    assert n > 20
