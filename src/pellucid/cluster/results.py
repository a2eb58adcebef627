"""Results of parts in a folder: each a file of its own, which appears whole; joined once all of a file are there."""

import hashlib
import json
import shutil
from array import array
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pellucid.store.atomic import atomic_file

PARTS = "parts"
"""Folder, inside the folder of the results, of what is known about them, and of parts that are not joined yet."""


@dataclass(frozen=True)
class PartRecord:
    """An account of one part's result: what it was made of and by, and what it is."""

    number: int
    first_line: int
    count: int
    """Lines, or texts of a document."""
    source: str
    """SHA-256 of the part (`Part.sha256`)."""
    made_by: str
    """Fingerprint of the model and of all settings that decide the result."""
    text: str
    """SHA-256 of the result."""
    size: int
    """Bytes of the result."""
    about: Mapping[str, Any]
    """What there is to say about the result: notes, counts, lines that failed."""

    def is_of(self, source: str, made_by: str) -> bool:
        """Whether the result was made of this source by this model."""
        return (self.source, self.made_by) == (source, made_by)

    def as_json(self) -> str:
        """Return the record as one line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=False, sort_keys=True)

    @classmethod
    def from_json(cls, line: str | bytes) -> "PartRecord | None":
        """Return the record in a line of JSON; None for a damaged one."""
        with suppress(ValueError, TypeError):
            return cls(**json.loads(line))
        return None


class Results:
    """Results of the parts of one file: `FOLDER/NAME` once all are joined, and `FOLDER/parts/NAME/000017` until then.

    `FOLDER/parts/NAME.jsonl` says of a joined file what made it, and has the record of each part. Every
    one of these files appears whole. A result counts only if its bytes are the ones in its record.
    """

    def __init__(self, folder: Path, name: str) -> None:
        """Name the files; nothing is read or written."""
        self.joined = folder / name
        self.index = folder / PARTS / f"{name}.jsonl"
        self.parts = folder / PARTS / name

    def write(self, record: PartRecord, text: bytes) -> None:
        """Write the result of one part, behind its record."""
        self._make_folder()
        with atomic_file(self._part_path(record.number)) as write:
            write(record.as_json().encode() + b"\n")
            write(text)

        self.forget_tries(record.number)

    def _make_folder(self) -> None:
        self.parts.mkdir(parents=True, exist_ok=True)

    def remove(self, number: int) -> None:
        """Remove a part that is not joined."""
        self._part_path(number).unlink(missing_ok=True)

    def forget(self) -> None:
        """Remove all that is known of the file, and its parts."""
        for path in (self.joined, self.index):
            path.unlink(missing_ok=True)

        shutil.rmtree(self.parts, ignore_errors=True)

    def count_try(self, number: int) -> int:
        """Count one more beginning of the work on a part, and return how many there were."""
        self._make_folder()
        with self._tries_path(number).open("ab") as file:
            file.write(b".")
            return file.tell()

    def forget_tries(self, number: int) -> None:
        """Begin to count anew: who runs the command again may have given workers more memory."""
        self._tries_path(number).unlink(missing_ok=True)

    def read(self, number: int) -> "tuple[PartRecord, bytes] | None":
        """Return a part that is not joined yet; None if it is not there, or not as it was written."""
        try:
            line, _, text = self._part_path(number).read_bytes().partition(b"\n")
        except OSError:
            return None

        record = PartRecord.from_json(line)
        return (record, text) if record is not None and _is_text_of(record, text) else None

    def _part_path(self, number: int) -> Path:
        return self.parts / f"{number:06}"

    def _tries_path(self, number: int) -> Path:
        return self.parts / f"{number:06}.tries"

    @contextmanager
    def open(self) -> "Iterator[OpenResults]":
        """Open the results for reading, joined or not."""
        with ExitStack() as opened:
            try:
                joined = opened.enter_context(self.joined.open("rb"))
                index = opened.enter_context(self.index.open("rb"))
            except OSError:
                yield OpenResults(self)
            else:
                yield OpenResults(self, joined, index)

    def are_joined(self, count: int) -> bool:
        """Whether the joined file is made of so many parts, and no part waits to be joined."""
        if self.parts.exists():
            return False

        with self.open() as results:
            return len(results) == count

    def join(
        self, count: int, identity: Mapping[str, Any], take: Callable[[PartRecord], object]
    ) -> None:
        """Write the results of all parts into one file, with an account, and remove the parts.

        `take` is called with the record of each. Raises ValueError for a result that is not there any more
        as it was written.
        """
        first = json.dumps(dict(identity), ensure_ascii=False, sort_keys=True)
        with ExitStack() as opened:
            results = opened.enter_context(self.open())
            write = opened.enter_context(atomic_file(self.joined))
            write_index = opened.enter_context(atomic_file(self.index))
            write_index(first.encode() + b"\n")
            for number in range(count):
                record, text = results.read(number)
                write(text)
                write_index(record.as_json().encode() + b"\n")
                take(record)

        shutil.rmtree(self.parts, ignore_errors=True)


class OpenResults:
    """Results that are open for reading: in the joined file, or as parts."""

    def __init__(
        self, results: Results, joined: BinaryIO | None = None, index: BinaryIO | None = None
    ) -> None:
        """Find where the record and the text of each part begin in a joined file and its account."""
        self.results, self.joined, self.index = results, joined, index

        # Two numbers a part, for there may be hundreds of thousands.
        self.records, self.texts = array("q"), array("q")
        offset = len(next(index, b"")) if index is not None else 0
        text = 0
        for line in index or ():
            record = PartRecord.from_json(line)
            if record is None or record.number != len(self.records):
                break
            self.records.append(offset)
            self.texts.append(text)
            offset, text = offset + len(line), text + record.size

    def __len__(self) -> int:
        """Return the number of parts in the joined file."""
        return len(self.records)

    def find(self, number: int, source: str, made_by: str) -> PartRecord | None:
        """Return the record of a part's result if it was made of this source by this model, and is intact.

        A part that is not joined and was made otherwise is removed, so that `join` does not take it.
        """
        waiting = self.results.read(number)
        if waiting is not None and waiting[0].is_of(source, made_by):
            return waiting[0]
        self.results.remove(number)

        joined = self._read_joined(number)
        is_fit = joined is not None and joined[0].is_of(source, made_by)
        return joined[0] if joined is not None and is_fit else None

    def read(self, number: int) -> tuple[PartRecord, bytes]:
        """Return the result of a part, the newer one where there are two; ValueError if there is none."""
        found = self.results.read(number) or self._read_joined(number)
        if found is None:
            raise ValueError(
                f"{self.results.parts}: the result of part {number + 1} is missing, or was changed "
                "after it was written; run the same command again, which makes it anew"
            )
        return found

    def _read_joined(self, number: int) -> tuple[PartRecord, bytes] | None:
        """Return a part of the joined file; None where it is not as it was written."""
        if self.joined is None or self.index is None or number >= len(self.records):
            return None

        self.index.seek(self.records[number])
        record = PartRecord.from_json(self.index.readline())
        if record is None:
            return None

        self.joined.seek(self.texts[number])
        text = self.joined.read(record.size)
        return (record, text) if _is_text_of(record, text) else None


def _is_text_of(record: PartRecord, text: bytes) -> bool:
    """Whether a result has the bytes that its record says."""
    return len(text) == record.size and hashlib.sha256(text).hexdigest() == record.text


def fingerprint(identity: Mapping[str, Any]) -> str:
    """Return the SHA-256 of what decides a result, given as plain values."""
    return hashlib.sha256(json.dumps(dict(identity), sort_keys=True).encode()).hexdigest()
