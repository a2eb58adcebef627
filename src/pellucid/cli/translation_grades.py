"""Counts the grades of the translations of a file, and names the chapters that need a person first."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from pellucid.decode.translation import Translation
    from pellucid.decode.usability import Grade
    from pellucid.localize.documents.chapters import Chapter

_NAMED_CHAPTERS = 10
_WORK_OF_A_LOOK = 0.5  # work that a text to look at makes, where one to redo makes 1; chapters are sorted by it


def sum_up_grades(
    translations: "Iterable[Translation]", file: str, chapters: "Sequence[Chapter] | None" = None
) -> "Iterator[Translation]":
    """Yield the translations, and say at the end how many have each grade.

    Of a document, in which chapters, too.
    """
    counts: Counter[Grade | None] = Counter()
    grades: list[Grade | None] = []
    for translation in translations:
        if chapters is not None:
            grades.append(translation.grade)
        if translation.stop != "empty":
            counts[translation.grade] += 1
        yield translation

    name = "standard input" if file == "-" else file
    lines = [describe_grades(counts, "line" if chapters is None else "text")]
    lines += describe_chapters(grades, chapters or ())
    for line in filter(None, lines):
        typer.echo(f"pellucid: {name}: {line}", err=True)


def describe_grades(counts: "Mapping[Grade | None, int]", unit: str) -> str:
    """Return a line that counts grades; an empty one where nothing has a grade.

    >>> describe_grades({"usable": 812, "look": 95, "redo": 1}, "line")
    '812 lines usable, 95 to look at, 1 to redo'
    >>> describe_grades({None: 7, "redo": 1}, "line")
    '1 line to redo, 0 to look at, as alarms say; 7 have no grade, which a calibrated model gives (pellucid calibrate)'
    """
    usable, look, redo, ungraded = (counts.get(grade, 0) for grade in ("usable", "look", "redo", None))
    if not usable + look + redo:
        return ""
    if ungraded:
        usable_too = f"{usable:,} usable, " if usable else ""
        by_alarms = f"{usable_too}{_count(redo, unit)} to redo, {look:,} to look at, as alarms say"
        return f"{by_alarms}; {ungraded:,} have no grade, which a calibrated model gives (pellucid calibrate)"
    return f"{_count(usable, unit)} usable, {look:,} to look at, {redo:,} to redo"


def describe_chapters(
    grades: "Sequence[Grade | None]",
    chapters: "Sequence[Chapter]",
) -> "Iterator[str]":
    """Yield a line for each of the chapters that need a person most, the one with the most work for its size first.

    A text to redo is twice the work of one to look at. There is no line for a document of one
    chapter.
    """
    if len(chapters) < 2:
        return
    rows: list[tuple[float, int, str]] = []
    for number, chapter in enumerate(chapters):
        inside = Counter(grades[place] for place in chapter.places)
        redo, look, size = inside["redo"], inside["look"], len(chapter.places)
        if redo or look:
            share = (redo + _WORK_OF_A_LOOK * look) / size
            line = f"  {chapter.title:.60}: of {_count(size, 'text')}, {redo:,} to redo, {look:,} to look at"
            rows.append((-share, number, line))

    rows.sort()
    if rows:
        yield f"{len(rows):,} of {len(chapters):,} chapters need a person, those that need one most first:"
    yield from (line for _, _, line in rows[:_NAMED_CHAPTERS])


def _count(number: int, unit: str) -> str:
    """Return a number with its unit, in the plural where it is not 1."""
    return f"{number:,} {unit}{'' if number == 1 else 's'}"
