"""Shards: encoded pairs on the disk, written in parts, and joined into four files that are mapped into memory.

Each side has one file of token ids (two bytes each for up to 65,536 pieces) and one file of where
each sentence starts in it (eight bytes each). The files are raw numbers, low byte first; the
manifest that the writer puts beside them says what they are.
"""

import json
import os
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from pellucid.data.batching import EncodedPairs, PackedSentences
from pellucid.data.corpus import SkippedPairs

SIDES = ("source", "target")
_ID_TYPES = ("<u2", "<i4")


def write_part(path: Path, encoded: EncodedPairs, skipped: SkippedPairs) -> None:
    """Write encoded pairs, and an account of skipped pairs, to one file, whole or not at all."""
    new = path.with_suffix(".new")
    try:
        with new.open("wb") as file:
            save_part(file, encoded, skipped)
            # On the disk before it gets its name: a run that was killed finds whole parts only.
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def save_part(file: BinaryIO, encoded: EncodedPairs, skipped: SkippedPairs) -> None:
    """Write encoded pairs, and an account of skipped pairs, to an open file."""
    skipped_json = json.dumps({"counts": skipped.counts, "examples": skipped.examples}).encode()
    arrays = {"skipped": np.frombuffer(skipped_json, dtype=np.uint8)}
    for side, sentences in zip(SIDES, (encoded.sources, encoded.targets), strict=True):
        arrays |= {f"{side}.ids": sentences.ids, f"{side}.lengths": sentences.lengths}
    np.savez(file, **arrays)  # pyright: ignore[reportArgumentType]


PartContent = tuple[dict[str, NDArray[np.integer]], SkippedPairs]
"""Ids and lengths of both sides of a part, and the pairs that were skipped."""


def read_part(path: Path) -> PartContent:
    """Read the file of a part; ValueError for a damaged one."""
    with path.open("rb") as file:
        return load_part(file, str(path))


def load_part(file: BinaryIO, name: str) -> PartContent:
    """Read a part from an open file, which messages call `name`; ValueError for a damaged one."""
    try:
        # Without pickle, a file can hold arrays and nothing that runs.
        with np.load(file, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
        skipped_counts = json.loads(arrays.pop("skipped").tobytes())
    except (EOFError, ValueError, KeyError, AttributeError, TypeError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{name} is damaged ({error}); remove it and prepare again: only it is made anew"
        ) from None
    skipped = SkippedPairs(examples=skipped_counts["examples"])
    skipped.counts.update(skipped_counts["counts"])
    return arrays, skipped


def join_parts(
    parts: Iterable[tuple[int, PartContent]], folder: Path
) -> Iterator[tuple[int, int, SkippedPairs]]:
    """Write the four files from the parts, in order; a part comes with the number of its corpus.

    Yields this number, the number of pairs and the skipped pairs of each.
    The files are complete when the iterator is exhausted.
    """
    ends = dict.fromkeys(SIDES, 0)
    with ExitStack() as stack:
        names = [f"{side}.{kind}" for side in SIDES for kind in ("ids", "starts")]
        files = {name: stack.enter_context((folder / name).open("wb")) for name in names}
        for side in SIDES:
            files[f"{side}.starts"].write(np.zeros(1, dtype="<i8").tobytes())
        for corpus_number, (arrays, skipped) in parts:
            # A part knows lengths only; starts count from the beginning of the joined file.
            for side in SIDES:
                starts = ends[side] + np.cumsum(arrays[f"{side}.lengths"], dtype="<i8")
                files[f"{side}.starts"].write(starts.tobytes())
                files[f"{side}.ids"].write(arrays[f"{side}.ids"].tobytes())
                ends[side] += len(arrays[f"{side}.ids"])
            yield corpus_number, len(arrays["source.lengths"]), skipped


def map_shards(folder: Path, pairs: int, types: dict[str, str]) -> EncodedPairs:
    """Map the four files of a folder as pairs; `types` says how the ids of each side are stored.

    Only the starts are read. Raises ValueError for files that do not hold this many pairs.
    """
    sides = []
    for side in SIDES:
        if types.get(side) not in _ID_TYPES:
            raise ValueError(
                f"{folder} stores {side} ids as {types.get(side)!r}; this version reads {_ID_TYPES}"
            )

        starts = map_numbers(folder / f"{side}.starts", "<i8")
        ids = map_numbers(folder / f"{side}.ids", types[side])
        sentences = PackedSentences(ids, starts)
        spans_all = len(starts) == pairs + 1 and starts[0] == 0 and starts[-1] == len(ids)
        if not spans_all or sentences.length_range[0] < 1:
            raise ValueError(
                f"{folder}/{side}.starts and {side}.ids are not of {pairs:,} pairs: they were cut or changed"
            )
        sides.append(sentences)
    return EncodedPairs(*sides)


def join_mapped_pairs(parts: Sequence[EncodedPairs]) -> EncodedPairs:
    """Return the pairs of several directories of shards, one behind the other; they stay where they are."""
    if len(parts) == 1:
        return parts[0]
    sources = _join_sentences([part.sources for part in parts])
    return EncodedPairs(sources, _join_sentences([part.targets for part in parts]))


def _join_sentences(parts: Sequence[PackedSentences]) -> PackedSentences:
    ids, starts, begins, end = [], [], [], 0
    for part in parts:
        ids.append(part.ids)
        # The first start of each later part is the end of the one before.
        starts.append(part.starts[1:] if starts else part.starts)
        begins.append(end)
        end += len(part.ids)
    joined = JoinedArrays(ids, [0] * len(parts)), JoinedArrays(starts, begins)
    # Sentences ask an array for its length, its type and the numbers at places, which these have.
    return PackedSentences(*cast("tuple[NDArray[Any], NDArray[Any]]", joined))


class JoinedArrays:
    """Several arrays read as one, without a copy of them: the numbers of each, plus a number of its own.

    >>> joined = JoinedArrays([np.array([0, 3]), np.array([1, 5])], plus=[0, 3])
    >>> joined[1:4].tolist(), joined[np.array([3, 0])].tolist(), int(joined[2])
    ([3, 4, 8], [8, 0], 4)
    """

    def __init__(self, arrays: Sequence[NDArray[Any]], plus: Sequence[int]) -> None:
        """Join arrays of one type, which may be mapped from files."""
        self._arrays, self._plus = tuple(arrays), tuple(plus)
        self._ends = np.cumsum([len(array) for array in arrays])
        self.dtype = arrays[0].dtype

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return self._read_slice(*key.indices(len(self)))
        places = np.asarray(key)
        places = np.where(places < 0, places + len(self), places)

        owners = np.searchsorted(self._ends, places, side="right")
        values = np.empty(places.shape, self.dtype)
        for owner in np.unique(owners).tolist():
            is_own = owners == owner
            begin = int(self._ends[owner]) - len(self._arrays[owner])
            values[is_own] = self._arrays[owner][places[is_own] - begin] + self._plus[owner]

        return values[()]

    def _read_slice(self, start: int, stop: int, step: int) -> NDArray[Any]:
        assert step == 1
        parts, begin = [np.empty(0, self.dtype)], 0
        for array, plus, end in zip(self._arrays, self._plus, self._ends.tolist(), strict=True):
            if begin < stop and start < end:
                parts.append(array[max(0, start - begin) : stop - begin] + array.dtype.type(plus))
            begin = end
        return np.concatenate(parts)


def map_numbers(path: Path, dtype: str) -> NDArray[Any]:
    """Map the numbers in a file into memory, read-only."""
    # An empty file cannot be mapped.
    if not path.stat().st_size:
        raise ValueError(f"{path} is empty")
    size = np.dtype(dtype).itemsize
    return np.asarray(np.memmap(path, dtype=dtype, mode="r", shape=(path.stat().st_size // size,)))
