"""A directory, or a file, written whole: complete after any crash, or not there."""

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from math import inf
from pathlib import Path
from typing import Any

MANIFEST = "manifest.json"
FORMAT = 1
_LARGEST_JSON = 2**20
_LONGEST_NAME = 200
_RECOVERY_ADVICE = "restore it from a copy, or use another model of the same run (best, average, last, checkpoints)"


class WriteFailed(OSError):
    """Something could not be written; the message says where, why, and what stands there now."""


def is_failed_write(error: Exception) -> bool:
    """Whether a disk is full or broken, which no other argument of a command would mend."""
    full = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)
    return isinstance(error, WriteFailed) or (isinstance(error, OSError) and error.errno in full)


@contextmanager
def atomic_file(path: str | Path) -> Iterator[Callable[[bytes], None]]:
    """What writes the bytes of a file; afterwards the file stands at `path`, forced to the disk.

    Where anything goes wrong, `path` is what it was. Raises NotWritten where the disk refuses a write, and OSError for
    a place where no file can be.
    """
    path = Path(path)
    new, now = staging_paths(path)[0], "what stood there is as it was" if path.exists() else "nothing was left behind"

    @contextmanager
    def refusals() -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not is_failed_write(error):
                raise OSError(error.errno, error.strerror, str(path)) from error
            raise WriteFailed(f"{path} could not be written: {explain_write_error(error)}; {now}") from error

    with refusals():
        file = new.open("wb")
    try:

        def write(content: bytes) -> None:
            with refusals():
                file.write(content)

        yield write
        with refusals():
            file.flush()
            os.fsync(file.fileno())
            file.close()
            new.replace(path)
    finally:
        with suppress(OSError):
            file.close()
        with suppress(OSError):
            new.unlink(missing_ok=True)


@contextmanager
def atomic_directory(directory: str | Path, **manifest: Any) -> Iterator[Path]:
    """A temporary folder to write files into; afterwards it stands at `directory`, with a manifest.

    Files and folders are forced to the disk before they are renamed, so after a crash `directory` is what it was, or
    what it was to be. Replacing takes two renames; between them `resolve_directory` finds the new one. Raises
    NotWritten where the disk refuses a write: `directory` is then what it was.
    """
    from safetensors import SafetensorError  # neither a ValueError nor an OSError, whatever the disk said

    place, directory = directory, Path(directory).resolve()
    refuse_non_model_directory(directory)
    new, old = staging_paths(directory)
    missing = [folder for folder in directory.parents if not folder.exists()]
    replaces = resolve_directory(directory).exists()
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        if (there := resolve_directory(directory)) != directory:
            there.rename(directory)
        for left_over in (new, old):
            if left_over.exists():
                shutil.rmtree(left_over)
        new.mkdir()
        yield new
        write_manifest(new, manifest)
        replace_directory(new, directory)
    except BaseException as error:
        shutil.rmtree(new, ignore_errors=True)
        for folder in missing:
            with suppress(OSError):
                folder.rmdir()
        if isinstance(error, WriteFailed) or not isinstance(error, OSError | SafetensorError):
            raise
        now = "what stood there is as it was" if replaces else "nothing was left behind"
        if new.exists():
            now = f"the next write removes what is left in {new}"
        raise WriteFailed(f"{place} could not be written: {explain_write_error(error)}; {now}") from error


def replace_directory(new: Path, directory: Path) -> None:
    """Let `new` stand at `directory`; what stood there goes afterwards."""
    _, old = staging_paths(directory)
    if old.exists():
        shutil.rmtree(old)
    replaces = directory.exists()
    if replaces:
        directory.rename(old)
    try:
        new.rename(directory)
    except OSError:
        if replaces:
            old.rename(directory)
        raise
    try:
        force_to_disk(directory.parent)
    except OSError as error:
        # The old one stays until the next write: a power cut may still undo the renames.
        raise WriteFailed(
            f"{directory} was written, but the disk did not confirm it: {explain_write_error(error)}; write it again"
        ) from error
    shutil.rmtree(old, ignore_errors=True)  # what cannot be removed goes with the next write


def explain_write_error(error: Exception) -> str:
    """Why something was not written, in words.

    >>> explain_write_error(OSError(28, "No space left on device"))
    'no space left on device'
    >>> explain_write_error(ValueError("Error while serializing: I/O error: No space left on device (os error 28)"))
    'no space left on device'
    """
    if isinstance(error, WriteFailed) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    from_rust = re.search(r"I/O error: (.*?) \(os error", str(error))
    words = from_rust[1] if from_rust else getattr(error, "strerror", None) or str(error) or type(error).__name__
    return words[0].lower() + words[1:]


def staging_paths(directory: Path) -> tuple[Path, Path]:
    """Where a directory is written, and where the one it replaces waits to be removed."""
    return directory.with_name(f".{directory.name}.new"), directory.with_name(f".{directory.name}.old")


def resolve_directory(directory: str | Path) -> Path:
    """Where `directory` is: itself, or, if a crash hit between the two renames of its replacement, the new one."""
    directory = Path(directory)
    if directory.exists():
        return directory
    new, old = staging_paths(directory.resolve())
    if not old.exists():
        return directory
    return new if (new / MANIFEST).exists() else old


def directory_identity(directory: Path) -> tuple[int, ...] | None:
    """What changes when a directory is replaced by another of its name."""
    with suppress(FileNotFoundError):
        found = directory.stat()
        return found.st_dev, found.st_ino, found.st_mtime_ns
    return None


def refuse_non_model_directory(directory: Path) -> None:
    """ValueError for a place where something other than a model stands."""
    if directory.is_dir() and any(directory.iterdir()) and not (directory / MANIFEST).exists():
        raise ValueError(f"{directory} holds other things than a model and is not replaced; choose another place")
    if directory.exists() and not directory.is_dir():
        raise ValueError(f"{directory} is a file; a model needs a directory")


def write_manifest(folder: Path, about: Mapping[str, Any]) -> None:
    """List the files of a folder with their SHA-256, and force them all to the disk."""
    paths = sorted(folder.iterdir())
    manifest = {
        **about,
        "format": FORMAT,
        "files": {path.name: {"bytes": path.stat().st_size, "sha256": file_sha256(path)} for path in paths},
        "versions": {name: installed_version(name) for name in ("pellucid", "torch", "sentencepiece", "safetensors")},
    }
    manifest["sha256"] = manifest_sha256(manifest)
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    for path in paths:
        shutil.copymode(folder / MANIFEST, path)  # safetensors would have its files read by nobody else
    for path in (*paths, folder / MANIFEST, folder):
        force_to_disk(path)


def read_manifest(directory: str | Path) -> dict[str, Any]:
    """What is known of a model directory: its files, the versions that wrote it, and what `save` was told.

    Raises ValueError for a directory without one, or with a damaged one.
    """
    directory = Path(directory)
    path = directory / MANIFEST
    if not path.is_file():
        raise ValueError(explain_no_model(directory))
    manifest = read_json(path)
    if manifest.get("format") != FORMAT:
        raise ValueError(f"{path} is of format {manifest.get('format')!r:.60}, this version reads {FORMAT}")
    if manifest.get("sha256") != manifest_sha256(manifest):
        raise ValueError(f"{path} was changed after it was written; {_RECOVERY_ADVICE}")
    files = manifest.get("files")
    if not isinstance(files, dict) or not all(
        name == Path(name).name
        and name not in ("", "..")
        and "\\" not in name
        and len(name) <= _LONGEST_NAME
        and isinstance(each, dict)
        for name, each in files.items()
    ):
        raise ValueError(f"{path} does not list the files of this directory")
    return manifest


def verify_directory(directory: str | Path, needed: tuple[str, ...] = (), largest: float = inf) -> dict[str, Any]:
    """The manifest, once every file it lists is there with the bytes it had; ValueError names those that are not.

    Of files of more than `largest` bytes only the size is compared.
    """
    directory = Path(directory)
    manifest = read_manifest(directory)
    problems = [f"{name} is not listed in {MANIFEST}" for name in needed if name not in manifest["files"]]
    for name, written in manifest["files"].items():
        path = directory / name
        if not path.is_file():
            problems.append(f"{name:.60} is missing")
        elif (size := path.stat().st_size) != written.get("bytes"):
            problems.append(f"{name} has {size:,} bytes, not {written.get('bytes')!r:.30}: it was cut or changed")
        elif size <= largest and file_sha256(path) != written.get("sha256"):
            problems.append(f"{name} was changed after it was written")
    if problems:
        raise ValueError(f"{directory} is damaged: {join_problems(problems)}; {_RECOVERY_ADVICE}")
    return manifest


def explain_no_model(directory: Path, manifest: Mapping[str, Any] | None = None) -> str:
    """What a directory that is not a model is instead, as far as can be told, and what to give in its place."""
    if not directory.exists():
        return f"{directory} does not exist; a model is a directory such as runs/demo/best"
    if not directory.is_dir():
        return f"{directory} is a file; a model is a directory such as runs/demo/best"
    if manifest is not None:
        return explain_manifest_kind(directory, manifest)
    inside = [name for name in ("best", "average", "last") if (directory / name / MANIFEST).exists()]
    if inside:
        return f"{directory} is a run, not a model; did you mean {directory / inside[0]}?"
    if checkpoints := sorted(directory.glob("step-*/" + MANIFEST)):
        return f"{directory} holds checkpoints, each of them a model; did you mean {checkpoints[-1].parent}?"
    if (directory / "model.bin").exists():
        return f"{directory} is a model of CTranslate2 that pellucid did not export; it knows nothing of its tokenizer"
    if (directory / "config.json").exists() and any(directory.glob("*.spm")):
        return f"{directory} is a Marian model of Hugging Face; `pellucid import {directory} OUT` makes a model of it"
    return f"{directory} is not a model directory: {MANIFEST} is missing"


def explain_manifest_kind(directory: Path, manifest: Mapping[str, Any]) -> str:
    """What a directory whose manifest is not that of a model holds."""
    exported, files = manifest.get("exported"), manifest["files"]
    made_of = exported.get("from") if isinstance(exported, dict) else None
    if "model.bin" in files:
        return (
            f"{directory} is an export to CTranslate2 without the tokenizer; name the model it was made of"
            f" ({made_of!r:.60}), and this directory with --exported {directory}"
        )
    if "source.spm" in files:
        return (
            f"{directory} is an export to Marian; name the model it was made of ({made_of!r:.60}), or make a model"
            f" of it again: pellucid import {directory} OUT"
        )
    if manifest.get("kind") == "pellucid shards":
        return f"{directory} holds text prepared for training, not a model; a run reads it with data.shards"
    if "trace.json" in files:
        return f"{directory} is a saved trace, not a model; pellucid.trace.load reads it"
    return f"{directory} is not a model directory: {MANIFEST} does not list model.safetensors and config.json"


def read_json(path: Path, largest: int = _LARGEST_JSON) -> dict[str, Any]:
    """The object in a JSON file of at most `largest` bytes; ValueError for anything else."""
    if path.stat().st_size > largest:
        raise ValueError(f"{path} has {path.stat().st_size:,} bytes; it should have less than {largest:,}")
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path}: expected an object")
    return found


def manifest_sha256(manifest: Mapping[str, Any]) -> str:
    """SHA-256 of what a manifest says, apart from this number."""
    said = {key: value for key, value in manifest.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def file_sha256(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def installed_version(package: str) -> str | None:
    """The version of a package, or None for one that runs without having been installed."""
    with suppress(PackageNotFoundError):
        return version(package)
    return None


def force_to_disk(path: Path) -> None:
    """Return once a file or a directory is on the disk."""
    if path.is_dir() and os.name == "nt":
        return  # Windows opens no directories
    handle = os.open(path, os.O_RDWR if path.is_file() else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def join_problems(problems: list[str], most: int = 8) -> str:
    """The problems as one sentence, the first of many."""
    return "; ".join(problems[:most]) + (f"; and {len(problems) - most} more" if len(problems) > most else "")
