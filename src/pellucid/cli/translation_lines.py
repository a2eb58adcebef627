"""Translations as `pellucid translate` writes them: lines of text, as Moses does, or objects of JSON."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from pellucid.cli.files import json_line

if TYPE_CHECKING:
    from pellucid.decode.translation import Translation


def translation_lines(
    translations: "Iterable[Translation]",
    n_best: int = 1,
    json: bool = False,
) -> Iterator[str]:
    """Yield a line for each translation, with `json` an object.

    With `n_best` above 1 all of them, as Moses does.
    """
    for number, translation in enumerate(translations):
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
        "missing_sentences": translation.missing_sentences or None,
    }
    return always | {name: value for name, value in there_or_not.items() if value is not None}


def leave_to_people(translations: "Iterable[Translation]", least: float) -> "Iterator[Translation]":
    """Yield the translations, with an empty text for those left to people, and say at the end which lines these are.

    Left to people are translations below a confidence, and all translations with an alarm. A line
    that needed no search, such as one that a memory has, stays.
    """
    left, with_alarm, count = list[int](), 0, 0
    for count, translation in enumerate(translations, start=1):
        is_below = translation.confidence is not None and translation.confidence < least
        if is_below or translation.alarms:
            left.append(count)
            with_alarm += not is_below
            translation = replace(translation, text="", alternatives=[])
        yield translation

    numbers = ", ".join(map(str, left[:20])) + (", ..." if len(left) > 20 else "")
    alarms = f" or an alarm, which {with_alarm:,} of higher confidence have" if with_alarm else ""
    below = f"with a confidence below {least:g}{alarms}" + (f": {numbers}" if left else "")
    typer.echo(f"pellucid: {len(left):,} of {count:,} lines are left to people, {below}", err=True)
