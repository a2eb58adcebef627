"""Converted models, kept beside the model they were made from under the hash of its content."""

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
from typing import TYPE_CHECKING

from pellucid.atomic import verify_directory
from pellucid.interop.ctranslate2_library import import_ctranslate2
from pellucid.lazy_bundle import LazyBundle

if TYPE_CHECKING:
    from pellucid.bundle import Bundle

_LAYOUT_VERSION = 2
"""Raised when `convert_to_ctranslate2` writes the same model differently, so that what older versions kept is made
anew."""

FORMULAS = Path(__file__).parent.parent / "model"

_ABANDONED_SECONDS = 24 * 3600
"""Seconds after which an unfinished conversion has no process that would finish it."""


def converted_directory(found: "Bundle | LazyBundle", precision: str) -> Path:
    """Where the model stands as CTranslate2 loads it: made now, or kept from before and still what was written.

    The place is `.NAME.ctranslate2` beside the model; where nothing can be written there, the user's cache
    ($XDG_CACHE_HOME/pellucid or ~/.cache/pellucid); where nothing can be written there either, a temporary directory
    that goes when the program ends. Raises ValueError for a model that cannot be converted.
    """
    source = conversion_hash(found)
    for folder in conversion_folders(found.directory.resolve()):
        with suppress(OSError):
            return convert_inside(folder, source, found, precision)
    folder = Path(tempfile.mkdtemp(prefix="pellucid-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return convert_inside(folder, source, found, precision)


def conversion_hash(found: "Bundle | LazyBundle") -> str:
    """SHA-256 of all that decides the result: every file of the model, and what writes it."""
    files = [f"{name} {each['sha256']}" for name, each in sorted(found.manifest["files"].items())]
    # A formula that somebody changed makes another model of the same weights.
    formulas = [hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(FORMULAS.glob("*.py"))]
    return hashlib.sha256(
        " ".join([*files, *formulas, import_ctranslate2().__version__, str(_LAYOUT_VERSION)]).encode()
    ).hexdigest()


def conversion_folders(directory: Path) -> Iterator[Path]:
    """Where conversions of the model in `directory` may be kept, the best place first."""
    yield directory.parent / f".{directory.name}.ctranslate2"
    name = f"{directory.name}-{hashlib.sha256(os.fsencode(directory)).hexdigest()[:12]}.ctranslate2"
    with suppress(RuntimeError):  # not everyone has a home
        yield Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "pellucid" / name


def convert_inside(folder: Path, source: str, found: "Bundle | LazyBundle", precision: str) -> Path:
    """The conversion in this folder; OSError where it is not there and cannot be written.

    Each process writes in a corner of its own and renames: whoever is first, what stands there is whole.
    """
    place = folder / f"{source[:12]}-{precision}"
    if is_sound_conversion(place, source):
        return place
    from pellucid.interop.ctranslate2 import convert_to_ctranslate2  # as `found.model`, it imports torch

    folder.mkdir(parents=True, exist_ok=True)
    corner = Path(tempfile.mkdtemp(prefix="new-", dir=folder))
    try:
        convert_to_ctranslate2(found.model, found.tokenizer, corner / place.name, precision, source=source)
        put_conversion(corner / place.name, place, source, out_of_the_way=corner / "old")
    finally:
        shutil.rmtree(corner, ignore_errors=True)
    remove_older(place, precision)
    return place


def is_sound_conversion(place: Path, source: str) -> bool:
    """Whether a conversion of just this model stands here, every file with the bytes it was written with."""
    try:
        return verify_directory(place).get("source") == source
    except (ValueError, OSError):
        return False


def put_conversion(new: Path, place: Path, source: str, out_of_the_way: Path) -> None:
    """Rename a conversion to its place, unless another process has just put a sound one there."""
    try:
        new.rename(place)
    except OSError:
        if is_sound_conversion(place, source):
            return
        place.rename(out_of_the_way)
        new.rename(place)


def remove_older(place: Path, precision: str) -> None:
    """Remove the conversions to this precision of what the model was before, and what crashes left unfinished."""
    for other in place.parent.iterdir():
        older = other.name != place.name and re.fullmatch(f"[0-9a-f]{{12}}-{precision}", other.name)
        with suppress(OSError):
            if older or (other.name.startswith("new-") and time.time() - other.stat().st_mtime > _ABANDONED_SECONDS):
                shutil.rmtree(other, ignore_errors=True)
