"""Ids on the disk: written in parts that are whole or not there, joined into four files that are mapped, not read.

Of each side there is a row of ids (two bytes each for up to 65,536 pieces) and where in it each sentence starts (eight
bytes each). The files are raw numbers, low byte first; what they are is told by whoever wrote them beside.
"""

import json
import os
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pellucid.data.batching import EncodedPairs, PackedSentences
from pellucid.data.corpus import SkippedPairs

SIDES = ("source", "target")
ID_TYPES = ("<u2", "<i4")


def write_part(place: Path, encoded: EncodedPairs, skipped: SkippedPairs) -> None:
    """Write pairs and what was left out among them to one file, whole or not at all."""
    said = json.dumps({"counts": skipped.counts, "examples": skipped.examples}).encode()
    arrays = {"skipped": np.frombuffer(said, dtype=np.uint8)}
    for side, sentences in zip(SIDES, (encoded.sources, encoded.targets), strict=True):
        arrays |= {f"{side}.ids": sentences.ids, f"{side}.lengths": sentences.lengths}
    beside = place.with_suffix(".new")
    try:
        with beside.open("wb") as file:
            np.savez(file, **arrays)  # pyright: ignore[reportArgumentType]
            file.flush()
            os.fsync(file.fileno())
        beside.replace(place)
    finally:
        beside.unlink(missing_ok=True)


def read_part(place: Path) -> tuple[dict[str, NDArray[np.integer]], SkippedPairs]:
    """The ids and lengths of both sides, and what was left out; ValueError for a part that is damaged."""
    try:
        with place.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        said = json.loads(arrays.pop("skipped").tobytes())
    except (EOFError, ValueError, KeyError, AttributeError, TypeError, zipfile.BadZipFile) as error:
        raise ValueError(f"{place} is damaged ({error}); remove it and prepare again: only it is made anew") from None
    skipped = SkippedPairs(examples=said["examples"])
    skipped.counts.update(said["counts"])
    return arrays, skipped


def join_parts(parts: Iterable[Path], folder: Path) -> Iterator[tuple[int, SkippedPairs]]:
    """Write the four files from the parts, in their order; yields what each part had: its pairs, and what it left out.

    The files are complete when the last has been asked for.
    """
    ends = dict.fromkeys(SIDES, 0)
    with ExitStack() as stack:
        names = [f"{side}.{kind}" for side in SIDES for kind in ("ids", "starts")]
        files = {name: stack.enter_context((folder / name).open("wb")) for name in names}
        for side in SIDES:
            files[f"{side}.starts"].write(np.zeros(1, dtype="<i8").tobytes())
        for part in parts:
            arrays, skipped = read_part(part)
            for side in SIDES:
                starts = ends[side] + np.cumsum(arrays[f"{side}.lengths"], dtype="<i8")
                files[f"{side}.starts"].write(starts.tobytes())
                files[f"{side}.ids"].write(arrays[f"{side}.ids"].tobytes())
                ends[side] += len(arrays[f"{side}.ids"])
            yield len(arrays["source.lengths"]), skipped


def map_shards(folder: Path, pairs: int, types: dict[str, str]) -> EncodedPairs:
    """The pairs in the four files of a folder; `types` says how the ids of each side are stored.

    Nothing but the lengths is read. Raises ValueError for files that are not of this many pairs.
    """
    sides = []
    for side in SIDES:
        if types.get(side) not in ID_TYPES:
            raise ValueError(f"{folder} stores {side} ids as {types.get(side)!r}; this version reads {ID_TYPES}")
        starts, ids = map_numbers(folder / f"{side}.starts", "<i8"), map_numbers(folder / f"{side}.ids", types[side])
        sentences = PackedSentences(ids, starts)
        if len(starts) != pairs + 1 or starts[0] != 0 or starts[-1] != len(ids) or sentences.lengths.min() < 1:
            raise ValueError(
                f"{folder}/{side}.starts and {side}.ids are not of {pairs:,} pairs: they were cut or changed"
            )
        sides.append(sentences)
    return EncodedPairs(*sides)


def map_numbers(path: Path, kind: str) -> NDArray[Any]:
    """The numbers in a file, mapped into memory and not to be written to."""
    if not path.stat().st_size:
        raise ValueError(f"{path} is empty")
    size = np.dtype(kind).itemsize
    return np.asarray(np.memmap(path, dtype=kind, mode="r", shape=(path.stat().st_size // size,)))
