"""Reference of a model: lines with the translations and scores it gave when it was saved."""

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import TypeVar

Line = TypeVar("Line")

# File of a model directory that holds its reference, a line of JSON each.
REFERENCE_FILE = "reference.jsonl"
REFERENCE_LINES = 200  # most lines of a reference
# Largest difference of two equal scores, in nats: far above rounding, far below notice.
TOLERANCE = 1e-3

_LARGEST_FILE = 2**22


@dataclass(frozen=True)
class ReferenceLine:
    """A line with its translation and the score of it: its log-probability over the length penalty."""

    source: str
    text: str
    score: float
    language: str | None = None  # of a multilingual model: the language that it was to write

    def row(self) -> dict[str, str | float]:
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class _ChangedLine:
    """A line of a reference, numbered from 1, that is translated otherwise now, or with another score."""

    number: int
    source: str
    expected: str
    text: str
    expected_score: float
    score: float


@dataclass(frozen=True)
class Verification:
    """Comparison of a reference with what the model writes now."""

    lines: int
    changed: tuple[_ChangedLine, ...]
    other_texts: int  # lines, among those that changed, whose text is another
    largest_difference: float  # largest difference of the scores of a text that came out the same
    tolerance: float

    @property
    def passed(self) -> bool:
        return not self.changed


def choose_reference(lines: Iterable[ReferenceLine]) -> list[ReferenceLine]:
    """Choose at most REFERENCE_LINES of the lines, evenly, without those that could not be translated."""
    return spread_lines([line for line in lines if isfinite(line.score)])


def spread_lines(lines: list[Line]) -> list[Line]:
    """Return at most REFERENCE_LINES of some lines, spread evenly over them."""
    return lines[:: max(1, -(-len(lines) // REFERENCE_LINES))]


def encode_reference(lines: Iterable[ReferenceLine]) -> str:
    """Return the text of a reference, a line of JSON each."""
    return "".join(json.dumps(line.row(), ensure_ascii=False) + "\n" for line in lines)


def read_reference(path: Path) -> list[ReferenceLine]:
    """Read a reference; ValueError, naming the line, for a file that is not a reference."""
    if path.stat().st_size > _LARGEST_FILE:
        raise ValueError(
            f"{path} has {path.stat().st_size:,} bytes; a reference has at most {_LARGEST_FILE:,}"
        )

    lines = []
    # Not by splitlines: a translation may hold other characters that end a line for it.
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n")[:-1], start=1):
        row = None
        with suppress(ValueError, TypeError, RecursionError):
            row = ReferenceLine(**json.loads(line))
        texts = () if row is None else (row.source, row.text, row.language or "")
        if row is None or not (
            all(isinstance(text, str) for text in texts) and type(row.score) is float
        ):
            raise ValueError(
                f'{path}:{number} is not {{"source", "text", "score"}} with two texts and a number'
            )
        lines.append(row)

    return lines


def compare_reference(
    reference: Sequence[ReferenceLine],
    texts: Sequence[str],
    scores: Sequence[float],
    tolerance: float = TOLERANCE,
) -> Verification:
    """Compare what a model writes now, line by line, with its reference.

    Raises ValueError for a tolerance below 0.
    """
    if not tolerance >= 0:
        raise ValueError(f"tolerance is {tolerance}, it must be 0 or more")

    changed, differences, other_texts = [], [], 0
    rows = zip(reference, texts, scores, strict=True)
    for number, (line, text, score) in enumerate(rows, start=1):
        difference = abs(score - line.score)
        if text == line.text:
            differences.append(difference)
        else:
            other_texts += 1
        # Not ">": a score that is not a number is no equal one.
        if text != line.text or not difference <= tolerance:
            changed.append(_ChangedLine(number, line.source, line.text, text, line.score, score))

    largest_difference = max(differences, default=0.0)
    return Verification(len(reference), tuple(changed), other_texts, largest_difference, tolerance)
