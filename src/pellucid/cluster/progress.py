"""Counts what is done of the files of a job while it runs, and how much is left."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from pellucid.cluster.parts import Work

PartState = Literal["new", "done", "failed", "stopped", "end", "unreadable"]


@dataclass(frozen=True)
class PartOutcome:
    """News of one file of a job.

    A part is "new" (made now), was "done" before, has "failed", or could not be written, so that all is
    "stopped". "end" says that the file has `number` parts, and "unreadable" that it cannot be read to its
    end. `size` is the number of bytes of the file that are done with it, and `count` of lines or texts.
    """

    work: int
    state: PartState
    number: int
    size: int = 0
    count: int = 0
    reason: str = ""

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "PartOutcome":
        """Return what a row of Ray's tells."""
        return cls(**{setting.name: row[setting.name] for setting in fields(cls)})


@dataclass
class FileProgress:
    """One file of a job: how many parts it has, which of them are done, and what went wrong."""

    work: Work
    done: set[int] = field(default_factory=set)
    parts: int | None = None
    """The number of its parts; None until it has been read to its end."""
    problems: list[str] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether there is a result for each part."""
        return len(self.done) == self.parts


class JobProgress:
    """Counts what is done of a job, how fast, and how long the rest takes."""

    def __init__(self, works: Sequence[Work], clock: Callable[[], float] = time.monotonic) -> None:
        """Begin to count, and to measure the time."""
        self.files = [FileProgress(work) for work in works]
        self.total = sum(work.size for work in works)
        self.clock, self.began = clock, clock()
        self.bytes_made = self.bytes_before = 0
        self.count_made = self.count_before = 0

    def add(self, outcome: PartOutcome) -> FileProgress:
        """Take in what became known, and return what is known of its file now."""
        file = self.files[outcome.work]
        if outcome.state == "new":
            file.done.add(outcome.number)
            self.count_made += outcome.count
            self.bytes_made += outcome.size
        elif outcome.state == "done":
            file.done.add(outcome.number)
            self.count_before += outcome.count
            self.bytes_before += outcome.size
        elif outcome.state == "end":
            file.parts = outcome.number
        elif outcome.state == "unreadable":
            file.problems.append(outcome.reason)
        else:
            file.problems.append(f"part {outcome.number + 1}: {outcome.reason}")

        return file

    def start_clock(self) -> None:
        """Begin to measure the time anew."""
        self.began = self.clock()

    @property
    def rate(self) -> float:
        """Lines or texts a second, of those made now."""
        return self.count_made / max(self.clock() - self.began, 1e-9)

    def describe(self) -> str:
        """Return a line that says what is done, how fast, and how long the rest takes at that speed."""
        done = self.bytes_made + self.bytes_before
        share = 100 * done / max(self.total, 1)
        count = self.count_made + self.count_before
        line = f"{count:,} done, {share:.0f} % of the text, {self.rate:,.0f} a second"
        if not self.bytes_made:
            return line

        seconds = (self.total - done) * (self.clock() - self.began) / self.bytes_made
        return f"{line}, about {describe_seconds(seconds)} left"


def describe_seconds(seconds: float) -> str:
    """Return a length of time in one or two units.

    >>> describe_seconds(42.4), describe_seconds(600), describe_seconds(40 * 3600 + 120)
    ('42 s', '10 min', '40 h 2 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"

    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
