"""Work on one part in a worker's process, and what is told of it: rows, which Ray hands on."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.cluster.parts import Part, Work, read_parts
from pellucid.cluster.progress import PartState
from pellucid.cluster.results import PartRecord, Results
from pellucid.store.atomic import is_failed_write

MOST_TRIES = 10
"""Workers that may be lost over one part, one after another, before it is given up."""


@dataclass(frozen=True)
class PartResult:
    """Result of a part: its bytes, how many lines or texts it has, and what to say about it, in plain values."""

    text: bytes
    count: int
    about: Mapping[str, Any]


WorkOnPart = Callable[[Work, Part], PartResult]


@dataclass(frozen=True)
class Job:
    """Files, what to do with each of their parts, and the folder of the results.

    `start_worker` is called once in each process, and returns the function that does it. `made_by` is the
    fingerprint of all but the files that decides the result.
    """

    works: tuple[Work, ...]
    folder: Path
    start_worker: Callable[[], WorkOnPart]
    made_by: str
    lines_per_part: int
    context: int = 0
    made_in: Path | None = None
    """Folder of files that workers write themselves; `folder` then has their account."""


def read_part_rows(job: Job, row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a row for each part of a file: with its text, or only its count where the result is there.

    A last row says how many parts there are, or why the file cannot be read any further.
    """
    number, work = row["work"], job.works[row["work"]]
    results, parts = Results(job.folder, work.name), 0
    try:
        with results.open() as done:
            for part in read_parts(work, job.lines_per_part, job.context):
                source = part.sha256()
                record = done.find(part.number, source, job.made_by)
                if record is not None:
                    yield _make_row(number, "done", part.number, part.size, record.count)
                else:
                    results.forget_tries(part.number)
                    yield _make_row(number, "new", part.number, part.size) | {
                        "first_line": part.first_line,
                        "texts": list(part.texts),
                        "before": list(part.before),
                        "source": source,
                    }
                parts += 1
    except (ValueError, OSError) as error:
        yield _make_row(number, "unreadable", parts, reason=_describe(error))
    else:
        yield _make_row(number, "end", parts)


def _make_row(
    work: int, state: PartState, number: int, size: int = 0, count: int = 0, reason: str = ""
) -> dict[str, Any]:
    """Return a row; all rows have the same fields, and those behind `reason` are for the worker."""
    return {
        "work": work,
        "state": state,
        "number": number,
        "size": size,
        "count": count,
        "reason": reason,
        "first_line": 0,
        "texts": [],
        "before": [],
        "source": "",
    }


class PartWorker:
    """A process that holds what the work needs, such as a model, and is given one part after another."""

    def __init__(self, job: Job) -> None:
        """Load what the work needs."""
        self.job, self.work_on_part = job, job.start_worker()

    def __call__(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Work on the part in a row, write its result, and return a row about it."""
        number, size = row["number"], row["size"]
        if row["state"] != "new":
            return dict(row)

        try:
            count = self._make_result(row)
        # A fault of ours, too, may be the fault of this part alone: the others go on.
        except Exception as error:
            state = "stopped" if is_failed_write(error) else "failed"
            return _make_row(row["work"], state, number, size, reason=_describe(error))
        return _make_row(row["work"], "new", number, size, count)

    def _make_result(self, row: Mapping[str, Any]) -> int:
        """Write the result of the part in a row, unless it is there; return its number of lines or texts."""
        work = self.job.works[row["work"]]
        results = Results(self.job.folder, work.name)
        # A worker that was given this part before may have been lost when it had written the result.
        written = results.read(row["number"])
        if written is not None and written[0].is_of(row["source"], self.job.made_by):
            return written[0].count

        # Ray gives a part to another worker as often as it loses one, without end.
        if results.count_try(row["number"]) > MOST_TRIES:
            raise ValueError(f"{MOST_TRIES} workers were lost over it; is there too little memory?")

        part = Part(
            number=row["number"],
            first_line=row["first_line"],
            texts=tuple(row["texts"]),
            before=tuple(row["before"]),
            size=row["size"],
        )
        result = self.work_on_part(work, part)
        record = PartRecord(
            number=part.number,
            first_line=part.first_line,
            count=result.count,
            source=row["source"],
            made_by=self.job.made_by,
            text=hashlib.sha256(result.text).hexdigest(),
            size=len(result.text),
            about=result.about,
        )
        results.write(record, result.text)
        return result.count


def _describe(error: Exception) -> str:
    """Return the reason of an error in words; of a fault of ours, its kind, too."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror[0].lower()}{error.strerror[1:]}"
    is_told = isinstance(error, ValueError | OSError) and str(error)
    return str(error) if is_told else repr(error)
