"""Writes that fail."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from pellucid.atomic import WriteFailed, explain_write_error


@contextmanager
def explain_failed_write(path: Path, size: int) -> Iterator[None]:
    """Turn any error of writing `path`, which takes about `size` bytes, into WriteFailed with the free space."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise WriteFailed(
            f"{path} could not be written: {explain_write_error(error)} "
            f"(it takes about {size / 1e6:,.1f} MB, {free_disk_bytes(path) / 1e6:,.1f} MB are free there)"
        ) from None


def free_disk_bytes(path: Path) -> int:
    """Return the free bytes of the disk that `path` is to be written to."""
    # The path itself may not be there yet; the nearest folder that is lies on the same disk.
    return shutil.disk_usage(next(folder for folder in path.resolve().parents if folder.is_dir())).free
