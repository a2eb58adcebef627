"""Results that are files which a worker writes where they belong: what is kept is an account."""

import json
from collections.abc import Sequence
from pathlib import Path

from pellucid.cluster.parts import Work
from pellucid.cluster.results import Results
from pellucid.store.atomic import file_sha256


def describe_files(paths: Sequence[Path]) -> bytes:
    """Return size and SHA-256 of files as JSON, which stands for them as the result of a part."""
    files: dict[str, dict[str, object]] = {}
    for path in paths:
        files[str(path)] = {"bytes": path.stat().st_size, "sha256": file_sha256(path)}

    return json.dumps(files, ensure_ascii=False).encode() + b"\n"


def forget_changed_files(folder: Path, works: Sequence[Work]) -> None:
    """Forget the results whose files are not there any more as they were written, so that they are made anew."""
    for work in works:
        results = Results(folder, work.name)
        try:
            account = results.joined.read_bytes()
        except OSError:
            continue  # it waits to be joined, or was never made

        try:
            is_same = describe_files(list(map(Path, json.loads(account)))) == account
        except (OSError, ValueError, TypeError):
            is_same = False

        if not is_same:
            results.forget()
