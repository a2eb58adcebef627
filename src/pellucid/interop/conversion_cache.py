"""Cache of converted models, beside the model they were made from and named by the hash of its content."""

import atexit
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pellucid.interop.ctranslate2_library import import_ctranslate2
from pellucid.store.atomic import verify_directory
from pellucid.store.directory import Bundle
from pellucid.store.user_cache import user_cache_folder

# Version of what `convert_to_ctranslate2` writes: raise it when that
# changes, and older conversions are replaced.
_LAYOUT_VERSION = 3

_FORMULAS = Path(__file__).parent.parent / "model"

# Age in seconds after which an unfinished conversion counts as abandoned.
_ABANDONED_SECONDS = 24 * 3600


def converted_directory(bundle: Bundle, precision: str) -> Path:
    """Return the directory of a model converted for CTranslate2: made now, or cached and intact.

    It lies in `.NAME.ctranslate2` beside the model; where nothing can be written there, in the
    user's cache ($XDG_CACHE_HOME/pellucid or ~/.cache/pellucid); where nothing can be written there
    either, in a temporary directory, removed when the program ends. Raises ValueError for a model
    that cannot be converted.
    """
    source = _conversion_hash(bundle)
    for folder in _conversion_folders(bundle.directory.resolve()):
        # A full or read-only disk is no reason to fail: the next folder is tried.
        with suppress(OSError):
            return _convert_inside(folder, source, bundle, precision)

    folder = Path(tempfile.mkdtemp(prefix="pellucid-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return _convert_inside(folder, source, bundle, precision)


def _conversion_hash(bundle: Bundle) -> str:
    """Return the SHA-256 of all that decides the result: every file of the model, and the code that converts it."""
    parts = []
    for name, entry in sorted(bundle.manifest["files"].items()):
        parts.append(f"{name} {entry['sha256']}")

    # A formula that somebody changed makes another model of the same weights.
    for path in sorted(_FORMULAS.glob("*.py")):
        parts.append(hashlib.sha256(path.read_bytes()).hexdigest())

    parts += [import_ctranslate2().__version__, str(_LAYOUT_VERSION)]
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()


def _conversion_folders(directory: Path) -> Iterator[Path]:
    """Yield the folders that may hold conversions of the model in `directory`, the best first."""
    yield directory.parent / f".{directory.name}.ctranslate2"
    # In the shared cache two models may have one name, so the hash of the path tells them apart.
    name = f"{directory.name}-{hashlib.sha256(os.fsencode(directory)).hexdigest()[:12]}.ctranslate2"
    with suppress(RuntimeError):  # not everyone has a home
        yield user_cache_folder() / name


def _convert_inside(folder: Path, source: str, bundle: Bundle, precision: str) -> Path:
    """Return the conversion in this folder, made if need be; OSError where it cannot be written."""
    path = folder / f"{source[:12]}-{precision}"
    if _is_sound_conversion(path, source):
        return path
    # It imports torch, as `bundle.model` does.
    from pellucid.interop.ctranslate2 import convert_to_ctranslate2

    folder.mkdir(parents=True, exist_ok=True)
    # Each process writes in a folder of its own and renames the result:
    # whichever is first, what is there is whole.
    scratch = Path(tempfile.mkdtemp(prefix="new-", dir=folder))
    try:
        new = scratch / path.name
        convert_to_ctranslate2(bundle.model, bundle.tokenizer, new, precision, source=source)
        _put_conversion(new, path, source, out_of_the_way=scratch / "old")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)

    # Conversions to this precision of earlier states of the model go, and unfinished ones that
    # crashes left.
    for other in folder.iterdir():
        older = other.name != path.name and re.fullmatch(f"[0-9a-f]{{12}}-{precision}", other.name)
        with suppress(OSError):
            age = time.time() - other.stat().st_mtime
            if older or (other.name.startswith("new-") and age > _ABANDONED_SECONDS):
                shutil.rmtree(other, ignore_errors=True)
    return path


def _is_sound_conversion(path: Path, source: str) -> bool:
    """Return whether a path holds a conversion of exactly this model, every file with the bytes it was written with."""
    try:
        return verify_directory(path).get("source") == source
    except (ValueError, OSError):
        return False


def _put_conversion(new: Path, path: Path, source: str, out_of_the_way: Path) -> None:
    """Rename a new conversion to its path, unless another process has just put an intact one there."""
    try:
        new.rename(path)
    except OSError:
        if _is_sound_conversion(path, source):
            return
        # A directory cannot be renamed over another that is not empty: the damaged one goes first.
        path.rename(out_of_the_way)
        new.rename(path)
