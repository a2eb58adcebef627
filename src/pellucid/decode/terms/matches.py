"""Terms that were found in a text: where they stand, what must translate them, and who finds them."""

import unicodedata
from dataclasses import dataclass
from typing import Protocol

from pellucid.data.tokenizer import Tokenizer


@dataclass(frozen=True)
class TermSpan:
    """Characters of a `normalize_text`, from start to end.

    They are `protected` if they must stay as they are.
    """

    start: int
    end: int
    protected: bool = False

    def contains(self, other: "TermSpan") -> bool:
        """Return whether the other span lies inside this one."""
        return self.start <= other.start and other.end <= self.end

    def overlaps(self, other: "TermSpan") -> bool:
        """Return whether the spans share a character."""
        return self.start < other.end and other.start < self.end


@dataclass(frozen=True)
class TermMatch:
    """A term found in a source, its span, and its targets.

    The translation must contain one of the targets.
    """

    source: str
    targets: tuple[str, ...]
    span: TermSpan


class Terminology(Protocol):
    """Terms of a user, as a search needs them."""

    def matches(self, text: str) -> list[TermMatch]:
        """Return the terms of one source sentence, in order.

        Their spans count in the `normalize_text` of it.
        """
        ...

    def find_place(self, source: str, target: str) -> str:
        """Return where the pair of a match stands: file and line, or which pair it is."""
        ...

    def refuse_unwritable(self, tokenizer: Tokenizer) -> None:
        """Raise ValueError, naming them, for targets that the model has no pieces for."""
        ...


def normalize_text(text: str) -> str:
    """Return the form in which texts are compared with terms: single spaces, accents composed."""
    return unicodedata.normalize("NFC", " ".join(text.split()))


def protected_span(text: str, start: int, end: int) -> TermSpan:
    """Return the protected span of the characters from start to end, which have no white space at their ends.

    >>> protected_span("  cafe\\u0301  {x}", 9, 12)
    TermSpan(start=5, end=8, protected=True)
    """
    # The bar keeps the spaces before the span, which `normalize_text` would drop at the end of a
    # text.
    first = len(normalize_text(text[:start] + "|")) - 1
    return TermSpan(first, first + len(normalize_text(text[start:end])), protected=True)
