"""Sums up the notes on the translations of a file in a few lines on standard error."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from pellucid.decode.translation import Translation

_NUMBER = re.compile(r"\d+")
_HOLE = "\0"  # stands where a note has a number
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_NAMED = 5  # places, and texts without a piece, that are named
_MOST_NOTES = 20  # different notes that are shown; those on terms may be as many as the terms
_FEWER_SENTENCES = re.compile(r"the translation has \d+ sentences? fewer than the line")


@dataclass
class _Group:
    """Translations with one note: how many, the first of them by number, and the numbers inside the note."""

    count: int = 0
    first: list[int] = field(default_factory=list)
    numbers: list[tuple[int, ...]] = field(default_factory=list)

    def add(self, number: int, inside: tuple[int, ...] = ()) -> None:
        self.count += 1
        if len(self.first) < _NAMED:
            self.first.append(number)
        if not self.numbers:
            self.numbers = [inside, inside]
        lowest, highest = self.numbers
        self.numbers = [tuple(map(min, lowest, inside)), tuple(map(max, highest, inside))]

    def add_later(self, later: "_Group") -> None:
        """Add translations that stand behind these."""
        self.count += later.count
        self.first = [*self.first, *later.first][:_NAMED]
        bounds = [*self.numbers, *later.numbers]
        if bounds:
            by_place = list(zip(*bounds, strict=True))
            self.numbers = [tuple(map(min, by_place)), tuple(map(max, by_place))]

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> "_Group":
        """Return the group that was written as plain values."""
        return cls(values["count"], values["first"], [tuple(bound) for bound in values["numbers"]])


@dataclass
class NoteSummary:
    """Counts of the notes on translations; notes that differ in their numbers only are one."""

    groups: dict[str, _Group] = field(default_factory=dict)
    fewer_sentences: _Group = field(default_factory=_Group)
    sentences: int = 0
    in_bytes: _Group = field(default_factory=_Group)
    texts_in_bytes: dict[str, None] = field(default_factory=dict)
    """The first texts that the vocabulary has no piece for, as an ordered set."""

    def add(self, number: int, translation: "Translation") -> None:
        """Count the notes of one translation, and what its source has in bytes.

        One that failed is told elsewhere.
        """
        if translation.stop == "failed":
            return
        if translation.missing_sentences:
            self.fewer_sentences.add(number)
            self.sentences += translation.missing_sentences

        for note in translation.notes:
            if not _FEWER_SENTENCES.fullmatch(note):
                inside = tuple(map(int, _NUMBER.findall(note)))
                self.groups.setdefault(_NUMBER.sub(_HOLE, note), _Group()).add(number, inside)

        in_bytes = decode_byte_pieces(translation.source_pieces)
        if in_bytes:
            self.in_bytes.add(number)
            for text in in_bytes:
                if len(self.texts_in_bytes) <= _NAMED:
                    self.texts_in_bytes[text] = None

    def add_later(self, later: "NoteSummary") -> None:
        """Add the notes on translations that stand behind these."""
        for note, group in later.groups.items():
            self.groups.setdefault(note, _Group()).add_later(group)
        self.fewer_sentences.add_later(later.fewer_sentences)
        self.sentences += later.sentences
        self.in_bytes.add_later(later.in_bytes)
        for text in later.texts_in_bytes:
            if len(self.texts_in_bytes) <= _NAMED:
                self.texts_in_bytes[text] = None

    def as_values(self) -> dict[str, Any]:
        """Return the counts as plain values, which can be written as JSON."""
        return asdict(self)

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> "NoteSummary":
        """Return the counts that were written as plain values."""
        return cls(
            groups={note: _Group.from_values(group) for note, group in values["groups"].items()},
            fewer_sentences=_Group.from_values(values["fewer_sentences"]),
            sentences=values["sentences"],
            in_bytes=_Group.from_values(values["in_bytes"]),
            texts_in_bytes=dict.fromkeys(values["texts_in_bytes"]),
        )

    def lines(self, name_places: Callable[[Sequence[int], int], str]) -> Iterator[str]:
        """Yield a line for each note.

        `name_places` names the places of some numbers and a count.
        """
        fewer = self.fewer_sentences
        if fewer.count:
            sentences = "1 sentence is" if self.sentences == 1 else f"{self.sentences:,} sentences are"
            yield f"{name_places(fewer.first, fewer.count)}: {sentences} missing in the translation, as it seems"

        shown = list(self.groups.items())[:_MOST_NOTES]
        for note, group in shown:
            yield f"{name_places(group.first, group.count)}: {_fill_numbers(note, group)}"
        if len(self.groups) > len(shown):
            yield f"and {len(self.groups) - len(shown):,} other notes; --json has all of them"
        if self.in_bytes.count:
            texts = [*self.texts_in_bytes]
            listing = " ".join(f"{text:.20}" for text in texts[:_NAMED]) + " ..." * (len(texts) > _NAMED)
            place = name_places(self.in_bytes.first, self.in_bytes.count)
            yield f"{place}: the vocabulary has no piece for this text, and spells it in bytes: {listing}"


def _fill_numbers(note: str, group: _Group) -> str:
    """Put the numbers back into a note: one where all are equal, otherwise the lowest and the highest.

    >>> _fill_numbers(f"split into {_HOLE} parts", _Group(2, [1, 2], [(2,), (5,)]))
    'split into 2 to 5 parts'
    """
    lowest, highest = group.numbers
    texts = iter([f"{a}" if a == b else f"{a} to {b}" for a, b in zip(lowest, highest, strict=True)])
    return re.sub(_HOLE, lambda _: next(texts), note)


def decode_byte_pieces(pieces: Iterable[str]) -> list[str]:
    """Return the texts that pieces of single bytes spell.

    >>> decode_byte_pieces(["▁It", "<0xE2>", "<0x98>", "<0x83>", ".", "<0xC3>", "<0xA9>"])
    ['☃', 'é']
    """
    from pellucid.data.text.spelling import show_character

    texts: list[str] = []
    run = bytearray()
    for piece in [*pieces, ""]:
        if match := _BYTE.fullmatch(piece):
            run.append(int(match[1], 16))
        elif run:
            # A learned vocabulary of words spells the space before a word, U+2581, in bytes, too.
            text = run.decode(errors="ignore").strip("\u2581")
            texts += ["".join(map(show_character, text))] * bool(text)
            run.clear()
    return texts


def sum_up_notes(
    translations: "Iterable[Translation]", file: str, texts: Sequence[str] | None = None
) -> "Iterator[Translation]":
    """Yield the translations, and say at the end what their notes are, and where.

    Places are lines; or, of a document, some of its `texts`.
    """
    summary = NoteSummary()
    for number, translation in enumerate(translations, start=1):
        summary.add(number, translation)
        yield translation
    name = "standard input" if file == "-" else file
    for line in summary.lines(name_lines if texts is None else lambda first, count: name_texts(texts, first, count)):
        typer.echo(f"pellucid: {name}: {line}", err=True)


def name_lines(first: Sequence[int], count: int) -> str:
    """Name lines by the first of them.

    >>> name_lines([3], 1), name_lines([3, 8], 2), name_lines([3, 8], 1202)
    ('line 3', 'lines 3 and 8', 'lines 3, 8 and 1,200 more')
    """
    numbers = [f"{number:,}" for number in first]
    if count == 1:
        return f"line {numbers[0]}"
    last = f"{count - len(numbers):,} more" if count > len(numbers) else numbers.pop()
    return f"lines {', '.join(numbers)} and {last}"


def name_texts(texts: Sequence[str], first: Sequence[int], count: int) -> str:
    """Name texts of a document by their number and the first of them.

    >>> name_texts(["Yes.", "No."], [2], 1)
    "1 text, such as 'No.'"
    """
    example = f"{texts[first[0] - 1]!r:.60}"
    return f"{count:,} text{'s' if count > 1 else ''}, such as {example}"
