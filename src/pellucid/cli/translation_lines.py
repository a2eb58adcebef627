"""Translations as `pellucid translate` writes them: lines of text, as Moses does, or objects of JSON."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import typer

from pellucid.cli.files import json_line

if TYPE_CHECKING:
    from pellucid.decode.translation import Translation

_NAMED_LINES = 20  # lines left to people that are named


def translation_lines(
    translations: "Iterable[Translation]",
    n_best: int = 1,
    json: bool = False,
    first_number: int = 0,
) -> Iterator[str]:
    """Yield a line for each translation, with `json` an object.

    With `n_best` above 1 all of them, as Moses does, which counts lines from 0; the first of these has
    `first_number`.
    """
    for number, translation in enumerate(translations, start=first_number):
        if json:
            alternatives = [describe_translation(alternative) for alternative in translation.alternatives]
            yield json_line({**describe_translation(translation), "alternatives": alternatives})
        elif n_best > 1:
            for candidate in (translation, *translation.alternatives):
                yield f"{number} ||| {candidate.text} ||| {candidate.score:.6f}"
        else:
            yield translation.text


def describe_translation(translation: "Translation") -> dict[str, Any]:
    """Return one translation as `--json` writes it."""
    always = {name: getattr(translation, name) for name in ("text", "score", "stop", "pieces", "notes", "alarms")}
    there_or_not = {
        "alignment": translation.alignment,
        "grade": translation.grade,
        "confidence": translation.confidence,
        "word_confidences": translation.word_confidences,
        "memory": translation.remembered,
        "provenance": describe_origins(translation),
        "missing_sentences": translation.missing_sentences or None,
    }
    return always | {name: value for name, value in there_or_not.items() if value is not None}


def describe_origins(translation: "Translation") -> list[dict[str, str]] | None:
    """Return where each word comes from, without what is not known of it; None where that was not asked for."""
    if translation.provenance is None:
        return None
    described = []
    for origin in translation.provenance:
        described.append({name: value for name, value in asdict(origin).items() if value})
    return described


@dataclass
class LeftToPeople:
    """Which lines are left to people: those below a confidence, and those with an alarm."""

    least: float
    count: int = 0
    left: int = 0
    first: list[int] = field(default_factory=list)
    with_alarm: int = 0

    def take(self, number: int, translation: "Translation") -> "Translation":
        """Return a translation, with an empty text where it is left to people.

        A line that needed no search, such as one that a memory has, stays.
        """
        self.count += 1
        is_below = translation.confidence is not None and translation.confidence < self.least
        if not is_below and not translation.alarms:
            return translation

        self.left += 1
        self.with_alarm += not is_below
        if len(self.first) < _NAMED_LINES:
            self.first.append(number)
        return replace(translation, text="", alternatives=[])

    def add_later(self, later: "LeftToPeople") -> None:
        """Add lines that stand behind these."""
        self.count += later.count
        self.left += later.left
        self.with_alarm += later.with_alarm
        self.first = [*self.first, *later.first][:_NAMED_LINES]

    def describe(self) -> str:
        """Return a line that counts and names them."""
        line = f"{self.left:,} of {self.count:,} lines are left to people, "
        line += f"with a confidence below {self.least:g}"
        if self.with_alarm:
            line += f" or an alarm, which {self.with_alarm:,} of higher confidence have"
        if self.left:
            line += f": {', '.join(map(str, self.first))}"
        return line + ", ..." * (self.left > len(self.first))


def leave_to_people(translations: "Iterable[Translation]", least: float) -> "Iterator[Translation]":
    """Yield the translations, and say at the end which of them are left to people, with an empty text."""
    left = LeftToPeople(least)
    for number, translation in enumerate(translations, start=1):
        yield left.take(number, translation)
    typer.echo(f"pellucid: {left.describe()}", err=True)
