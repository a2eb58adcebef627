"""Atomic writing of files and model directories: after any crash they are complete, or as they were before."""

import errno
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from io import BufferedWriter
from math import inf
from pathlib import Path
from typing import Any

MANIFEST = "manifest.json"
FORMAT = 1
# Limits against a damaged or hostile directory: nothing larger is read into memory or repeated in a
# message.
_LARGEST_JSON = 2**20
_LONGEST_NAME = 200
_MOST_LINKS = 40  # as many links one after another as Linux follows
_RECOVERY_ADVICE = "restore it from a copy, or use another model of the same run (best, average, last, checkpoints)"


class WriteFailed(OSError):
    """An error of writing, whose message says where, why, and what is there now."""


def is_failed_write(error: Exception) -> bool:
    """Whether an error means a full or broken disk, which no other argument of a command would mend."""
    full = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)
    return isinstance(error, WriteFailed) or (isinstance(error, OSError) and error.errno in full)


@contextmanager
def atomic_file(path: str | Path) -> Iterator[Callable[[bytes], None]]:
    """Give a function that writes bytes to a new file, and at the end put that file at `path`, forced to the disk.

    If anything goes wrong, `path` is as it was. A link goes on pointing where it does, and the file
    there is replaced. A device, FIFO or socket, or an open file such as /dev/stdout, is no file to
    replace: it is opened, and gets the bytes as they are written. Raises WriteFailed if the disk
    refuses a write, and OSError for a path where no file can be.
    """
    path = Path(path)

    descriptor, mode = _find_descriptor(path), _read_mode(path)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    is_special = descriptor is not None or not (mode == 0 or stat.S_ISREG(mode))
    with _write_through(path, descriptor, mode) if is_special else _replace_file(path) as write:
        yield write


@contextmanager
def _replace_file(path: Path) -> Iterator[Callable[[bytes], None]]:
    """Give a function that writes a new file, and at the end put that file at `path`, or where that link points to."""
    target, shown = path, str(path)
    if path.is_symlink():
        target = Path(os.path.realpath(path))
        shown = f"{path} (a link to {target})"

    new, _ = staging_paths(target)
    outcome = "what stood there is as it was" if target.exists() else "nothing was left behind"

    with _name_failed_writes(shown, outcome):
        try:
            file = new.open("xb")
        except FileExistsError:
            # A file that a crash left is removed. Another output to this place, under any name for
            # it, loses its own file here and says so at its end: two that wrote into one file would
            # mix.
            new.unlink()
            file = new.open("xb")

    own = os.fstat(file.fileno())
    try:

        def write(content: bytes) -> None:
            with _name_failed_writes(shown, outcome):
                file.write(content)

        yield write
        with _name_failed_writes(shown, outcome):
            # On the disk before it is renamed: otherwise a power cut could leave the new name on an
            # empty file.
            file.flush()
            os.fsync(file.fileno())
            file.close()  # Windows does not rename an open file

        if not _is_same_file(new, own):
            raise WriteFailed(
                f"{shown} was not written: another output went there meanwhile; name them "
                "differently"
            )
        with _name_failed_writes(shown, outcome):
            new.replace(target)
    finally:
        with suppress(OSError):
            file.close()
        if _is_same_file(new, own):
            with suppress(OSError):
                new.unlink()


def _is_same_file(path: Path, status: os.stat_result) -> bool:
    """Whether what stands at a path is the file with this status."""
    try:
        return os.path.samestat(path.stat(), status)
    except OSError:
        return False


@contextmanager
def _write_through(
    path: Path, descriptor: int | None, mode: int
) -> Iterator[Callable[[bytes], None]]:
    """Give a function that writes bytes to what is there already; each write arrives at once."""
    outcome = "what was written before has gone there"
    with _name_failed_writes(str(path), "nothing was written"):
        if descriptor is not None:
            # A copy of the descriptor goes on where the open file stands; opening its path would
            # begin at the start.
            file = os.fdopen(os.dup(descriptor), "wb")
        elif stat.S_ISSOCK(mode):
            file = _connect_socket(path)
        else:
            # Neither made nor cut: some systems refuse that for a FIFO of another user.
            file = os.fdopen(os.open(path, os.O_WRONLY), "wb")

    try:

        def write(content: bytes) -> None:
            with _name_failed_writes(str(path), outcome):
                file.write(content)
                file.flush()

        yield write
    finally:
        with suppress(OSError):
            file.close()


@contextmanager
def _name_failed_writes(shown: str, outcome: str) -> Iterator[None]:
    """Put the output's name into errors of writing; a failed write becomes WriteFailed, with its outcome.

    It surrounds the calls that write, and not the block of a
    caller, whose own OSError is not renamed.
    """
    try:
        yield
    except OSError as error:
        reader_left = isinstance(error, BrokenPipeError | ConnectionResetError)
        if not is_failed_write(error) and not reader_left:
            raise OSError(error.errno, error.strerror or str(error), shown) from error
        reason = explain_write_error(error)
        raise WriteFailed(f"{shown} could not be written: {reason}; {outcome}") from error


def _find_descriptor(path: Path) -> int | None:
    """Return the number of the file open in this process that a path names, such as /dev/stdout, or None."""
    for _ in range(_MOST_LINKS):
        place = Path(os.path.realpath(path.parent)) / path.name
        named = re.fullmatch(r"(?:/dev|/proc/(\d+)(?:/task/\d+)?)/fd/(\d+)", str(place))
        if named and int(named[1] or os.getpid()) == os.getpid():
            return int(named[2])
        if not place.is_symlink():
            break
        path = place.parent / os.readlink(place)
    return None


def _read_mode(path: Path) -> int:
    """Return the mode of what a path names, its links followed; 0 if nothing is there."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return 0


def _connect_socket(path: Path) -> BufferedWriter:
    """Return a file that writes to the program that listens at a socket."""
    import socket

    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        return connection.makefile("wb")  # which keeps the connection until it is closed


def require_writable(path: str | Path | None, endings: Sequence[str] = ()) -> None:
    """Raise ValueError, before any work is done, where no file can be written, or none with one of these endings.

    No path asks for no file.
    """
    if path is None:
        return
    path = Path(path)

    if endings and path.suffix not in endings:
        expected = " or ".join(endings)
        raise ValueError(f"{path}: a figure is written to a file that ends in {expected}")

    if path.is_dir():
        raise ValueError(f"{path} cannot be written: it is a folder")
    if path.exists():
        return
    # A link may point to a file that is not there yet.
    folder = Path(os.path.realpath(path)).parent if path.is_symlink() else path.absolute().parent
    if not folder.is_dir():
        reason = f"{path.parent} is not a folder"
        if path.is_symlink():
            reason = f"it is a link to {os.readlink(path)}, and {folder} is not a folder"
        raise ValueError(f"{path} cannot be written: {reason}")


def write_text_whole(path: str | Path, text: str) -> None:
    """Write a text file atomically: after a crash it holds its old text or its new one."""
    with atomic_file(path) as write:
        write(text.encode())


@contextmanager
def atomic_directory(directory: str | Path, **manifest: Any) -> Iterator[Path]:
    """Give a temporary folder to write files into, and at the end put it at `directory`, with a manifest.

    After a crash `directory` is as it was before, or as it was to be. Raises WriteFailed if the
    disk refuses a write: `directory` is then as it was.
    """
    # Neither a ValueError nor an OSError, even for an error of the disk.
    from safetensors import SafetensorError

    # Messages name the directory as the user wrote it.
    display_path, directory = directory, Path(directory).resolve()
    refuse_non_model_directory(directory)

    new, old = staging_paths(directory)
    missing = [folder for folder in directory.parents if not folder.exists()]
    replaces = resolve_directory(directory).exists()
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        # A crash between the two renames of an earlier replacement: finish it first.
        if (current := resolve_directory(directory)) != directory:
            current.rename(directory)
        for left_over in (new, old):
            if left_over.exists():
                shutil.rmtree(left_over)
        new.mkdir()
        yield new
        write_manifest(new, manifest)
        replace_directory(new, directory)
    except BaseException as error:  # an interrupted run, too, leaves nothing behind
        shutil.rmtree(new, ignore_errors=True)

        # The parents that this call made; rmdir refuses one that somebody else has put something
        # into.
        for folder in missing:
            with suppress(OSError):
                folder.rmdir()

        if isinstance(error, WriteFailed) or not isinstance(error, OSError | SafetensorError):
            raise
        outcome = "what stood there is as it was" if replaces else "nothing was left behind"
        if new.exists():
            outcome = f"the next write removes what is left in {new}"
        reason = explain_write_error(error)
        raise WriteFailed(f"{display_path} could not be written: {reason}; {outcome}") from error


def replace_directory(new: Path, directory: Path) -> None:
    """Rename `new` to `directory`, and then remove the directory that was there."""
    _, old = staging_paths(directory)
    if old.exists():
        shutil.rmtree(old)

    replaces = directory.exists()
    # A directory cannot be renamed onto one that is not empty, so it takes two renames. After a
    # crash between them `resolve_directory` finds the new one.
    if replaces:
        directory.rename(old)

    try:
        new.rename(directory)
    except OSError:
        if replaces:
            old.rename(directory)
        raise

    try:
        _force_to_disk(directory.parent)
    except OSError as error:
        # The old one stays until the next write: a power cut may still undo the renames.
        reason = explain_write_error(error)
        raise WriteFailed(
            f"{directory} was written, but the disk did not confirm it: {reason}; write it again"
        ) from error
    shutil.rmtree(old, ignore_errors=True)  # what cannot be removed goes with the next write


def unfinished_folder(out: Path) -> Path:
    """Return the folder that work of several steps is written to until it is complete, beside `out`."""
    return out.with_name(f"{out.name}.unfinished")


@contextmanager
def explain_unfinished_work(out: Path, work: Path | None = None) -> Iterator[None]:
    """Turn an error of writing into WriteFailed, with what is left in `work`, by default the unfinished folder."""

    try:
        yield
    except OSError as error:
        if isinstance(error, WriteFailed) and str(error).startswith(f"{out} "):
            raise  # it already says so
        if not is_failed_write(error):
            raise

        work, remains = work or unfinished_folder(out), "nothing was left behind"
        if work.exists():
            remains = f"what is done so far is in {work}, and the same command goes on with it"
        reason = explain_write_error(error)
        raise WriteFailed(f"{out} could not be written: {reason}; {remains}") from error


def explain_write_error(error: Exception) -> str:
    """Return the reason for a failed write, in words.

    >>> explain_write_error(OSError(28, "No space left on device"))
    'no space left on device'
    >>> explain_write_error(ValueError("Error while serializing: I/O error: No space left on device (os error 28)"))
    'no space left on device'
    """
    if isinstance(error, WriteFailed) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    if isinstance(error, BrokenPipeError | ConnectionResetError):
        return "its reader has stopped"

    # safetensors writes in Rust, and its error is neither an OSError nor has it an errno.
    from_rust = re.search(r"I/O error: (.*?) \(os error", str(error))
    if from_rust:
        words = from_rust[1]
    else:
        words = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return words[0].lower() + words[1:]


def staging_paths(directory: Path) -> tuple[Path, Path]:
    """Return the paths where a directory is written, and where the one it replaces waits to be removed."""
    # Beside it, and so on the same disk: a rename moves nothing.
    name = directory.name
    return directory.with_name(f".{name}.new"), directory.with_name(f".{name}.old")


def resolve_directory(directory: str | Path) -> Path:
    """Return the path where `directory` is now, which differs after a crash while it was being replaced."""
    directory = Path(directory)
    if directory.exists():
        return directory

    new, old = staging_paths(directory.resolve())
    if not old.exists():
        return directory
    # The manifest is written last: with it the new one is complete, without it the old one still
    # counts.
    return new if (new / MANIFEST).exists() else old


def directory_identity(directory: Path) -> tuple[int, ...] | None:
    """Return numbers that change when a directory is replaced by another of the same name; None if there is none."""
    with suppress(FileNotFoundError):
        status = directory.stat()
        return status.st_dev, status.st_ino, status.st_mtime_ns
    return None


def refuse_non_model_directory(directory: Path) -> None:
    """Raise ValueError for a path at which there is something other than a model."""
    if directory.is_dir() and any(directory.iterdir()) and not (directory / MANIFEST).exists():
        raise ValueError(
            f"{directory} holds other things than a model and is not replaced; choose another place"
        )
    if directory.exists() and not directory.is_dir():
        raise ValueError(f"{directory} is a file; a model needs a directory")


def write_manifest(folder: Path, about: Mapping[str, Any], leave_out: str = "") -> None:
    """List the files of a folder, but one, with their SHA-256, and force them all to the disk."""
    paths = sorted(path for path in folder.iterdir() if path.name not in (MANIFEST, leave_out))
    files = {}
    for path in paths:
        files[path.name] = {"bytes": path.stat().st_size, "sha256": file_sha256(path)}

    packages = ("pellucid", "torch", "sentencepiece", "safetensors")
    versions = {name: installed_version(name) for name in packages}
    manifest = {**about, "format": FORMAT, "files": files, "versions": versions}

    manifest["sha256"] = manifest_sha256(manifest)
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")

    for path in paths:
        # Safetensors would have its files read by nobody else.
        shutil.copymode(folder / MANIFEST, path)
    for path in (*paths, folder / MANIFEST, folder):
        _force_to_disk(path)


def read_manifest(directory: str | Path) -> dict[str, Any]:
    """Read the manifest of a model directory: its files, the versions that wrote it, and facts about the model.

    Raises ValueError for a directory without one, or with a damaged one.
    """
    directory = Path(directory)
    path = directory / MANIFEST
    if not path.is_file():
        raise ValueError(explain_no_model(directory))
    manifest = read_json(path)

    if manifest.get("format") != FORMAT:
        raise ValueError(
            f"{path} is of format {manifest.get('format')!r:.60}, this version reads {FORMAT}"
        )

    try:
        digest = manifest_sha256(manifest)
    except RecursionError:  # it is written with less room on the stack than it was read
        raise ValueError(f"{path} nests too deeply, which no manifest does") from None
    if manifest.get("sha256") != digest:
        raise ValueError(f"{path} was changed after it was written; {_RECOVERY_ADVICE}")

    files = manifest.get("files")
    if not isinstance(files, dict) or not all(map(_is_listed_file, files, files.values())):
        raise ValueError(f"{path} does not list the files of this directory")
    return manifest


def _is_listed_file(name: str, entry: Any) -> bool:
    """Whether an entry of a manifest's files is one, and its name names a file in the directory.

    A path that leads out of it does not, on Windows neither.
    """
    is_plain = name == Path(name).name and name not in ("", "..") and "\\" not in name
    return is_plain and len(name) <= _LONGEST_NAME and isinstance(entry, dict)


def verify_directory(
    directory: str | Path, needed: tuple[str, ...] = (), largest: float = inf
) -> dict[str, Any]:
    """Return the manifest, after checking that every file it lists is unchanged; ValueError names those that are not.

    Files of more than `largest` bytes are compared by size only.
    """

    directory = Path(directory)
    manifest = read_manifest(directory)
    missing = [name for name in needed if name not in manifest["files"]]
    problems = [f"{name} is not listed in {MANIFEST}" for name in missing]

    for name, entry in manifest["files"].items():
        path = directory / name
        if not path.is_file():
            problems.append(f"{name:.60} is missing")
        # The size first: it costs nothing, while a hash reads the whole file.
        elif (size := path.stat().st_size) != entry.get("bytes"):
            problems.append(
                f"{name} has {size:,} bytes, not {entry.get('bytes')!r:.30}: it was cut or changed"
            )
        elif size <= largest and file_sha256(path) != entry.get("sha256"):
            problems.append(f"{name} was changed after it was written")

    if problems:
        raise ValueError(f"{directory} is damaged: {join_problems(problems)}; {_RECOVERY_ADVICE}")
    return manifest


def explain_no_model(directory: Path, manifest: Mapping[str, Any] | None = None) -> str:
    """Say what a directory is if it is not a model, as far as one can see, and what to name instead."""
    # It opens archives, which are seldom needed.
    from pellucid.store.foreign_models import explain_foreign_model

    if not directory.exists():
        return f"{directory} does not exist; a model is a directory such as runs/demo/best"
    if not directory.is_dir():
        if foreign := explain_foreign_model(directory):
            return foreign
        return f"{directory} is a file; a model is a directory such as runs/demo/best"

    if manifest is not None:
        return _explain_manifest_kind(directory, manifest)
    # In the order in which somebody is likely to want them.
    for name in ("best", "average", "last"):
        if (directory / name / MANIFEST).exists():
            return f"{directory} is a run, not a model; did you mean {directory / name}?"

    if checkpoints := sorted(directory.glob("step-*/" + MANIFEST)):
        last = checkpoints[-1].parent
        return f"{directory} holds checkpoints, each of them a model; did you mean {last}?"
    if foreign := explain_foreign_model(directory):
        return foreign
    if (directory / "config.json").exists() and any(directory.glob("*.spm")):
        return f"{directory} is a Marian model of Hugging Face; `pellucid import {directory} OUT` makes a model of it"
    return f"{directory} is not a model directory: {MANIFEST} is missing"


def _explain_manifest_kind(directory: Path, manifest: Mapping[str, Any]) -> str:
    """Say what a directory holds if its manifest does not describe a model."""
    exported, files = manifest.get("exported"), manifest["files"]
    original = exported.get("from") if isinstance(exported, dict) else None
    if "model.bin" in files:
        return (
            f"{directory} is an export to CTranslate2 without the tokenizer; name the model it was made of"
            f" ({original!r:.60}), and this directory with --exported {directory}"
        )
    if "source.spm" in files:
        return (
            f"{directory} is an export to Marian; name the model it was made of ({original!r:.60}), or make a model"
            f" of it again: pellucid import {directory} OUT"
        )
    if manifest.get("kind") == "pellucid shards":
        return f"{directory} holds text prepared for training, not a model; a run reads it with data.shards"
    if "trace.json" in files:
        return f"{directory} is a saved trace, not a model, and only Pellucid 0.2 reads it; trace the sentence again"
    return f"{directory} is not a model directory: {MANIFEST} does not list model.safetensors and config.json"


def read_json(path: Path, largest: int = _LARGEST_JSON) -> dict[str, Any]:
    """Read the object in a JSON file of at most `largest` bytes; ValueError for anything else."""
    if (size := path.stat().st_size) > largest:
        raise ValueError(f"{path} has {size:,} bytes; it should have less than {largest:,}")

    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:  # a thousand nested brackets are no ValueError
        raise ValueError(f"{path} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path}: expected an object")
    return value


def manifest_sha256(manifest: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a manifest's content, apart from the field that holds this number."""
    import hashlib

    content = {key: value for key, value in manifest.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    import hashlib

    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@cache  # reading a package's metadata each time took an eighth of a training of seconds
def installed_version(package: str) -> str | None:
    """Return the version of a package, or None if it runs without being installed."""
    from importlib.metadata import PackageNotFoundError, version

    with suppress(PackageNotFoundError):
        return version(package)
    return None


def _force_to_disk(path: Path) -> None:
    """Wait until a file or a directory is on the disk."""
    if path.is_dir() and os.name == "nt":
        return  # Windows opens no directories

    handle = os.open(path, os.O_RDWR if path.is_file() else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def join_problems(problems: list[str], limit: int = 8) -> str:
    """Join problems to one sentence; of more than `limit` only the first, and how many more there are."""
    sentence = "; ".join(problems[:limit])
    if len(problems) > limit:
        sentence += f"; and {len(problems) - limit} more"
    return sentence
