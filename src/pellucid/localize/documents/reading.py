"""One reading of a document: its languages, its limits, and the count of what is not translated."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from pellucid.localize.documents.slots import LETTER

LanguagePair = tuple[str, str]

# Texts of a document that are not translated, by kind: what is said of one, and of several.
KEPT_KINDS = {
    "translated": ("has a translation already", "have a translation already"),
    "protected": ("is marked as not to be translated", "are marked as not to be translated"),
    "code": ("is code, a formula or a script", "are code, formulas or scripts"),
    "named": (
        "is a text by which a formula or a table finds something",
        "are texts by which a formula or a table finds something",
    ),
    "comments": ("is a comment", "are comments"),
    "deleted": ("was deleted with the change recorded", "were deleted with the change recorded"),
    "without letters": ("has no letter", "have no letter"),
    "unfit characters": (
        "is a character that XML cannot hold, which was left out",
        "are characters that XML cannot hold, which were left out",
    ),
    "other": ("is of a kind that is not translated", "are of a kind that is not translated"),
}


@dataclass(frozen=True)
class DocumentLimits:
    """Bounds on a document, so that a small file cannot fill the memory."""

    bytes: int = 2**26
    unpacked: int = 2**28  # bytes of all files in an archive together, and of any one
    members: int = 10_000
    # How many times larger than its compressed form a file in an archive of more than a megabyte may
    # be.
    ratio: int = 200
    texts: int = 200_000
    characters: int = 20_000_000  # characters of all texts to translate together
    elements: int = 1_000_000  # elements of all its XML and HTML together


class DocumentTooLarge(ValueError):
    """Raised for a document beyond a limit."""


def never_stop() -> None:
    """Let a reading go on to its end."""


@dataclass
class DocumentReading:
    """One reading of a document."""

    languages: LanguagePair | None = None  # the translation's languages, if they are known
    limits: DocumentLimits = field(default_factory=DocumentLimits)
    # Texts that are not translated, by kind in `KEPT_KINDS`.
    kept: Counter[str] = field(default_factory=Counter)
    with_comments: bool = False  # whether comments of an office document are translated
    elements: int = 0  # elements of XML and HTML read so far
    go_on: Callable[[], None] = never_stop
    """Called now and then while a document is taken apart; it raises an error where nobody waits any more."""

    def count_text(self, kind: str, text: str) -> None:
        """Count a text of this kind that is not translated; without a letter it is none."""
        self.kept[kind] += LETTER.search(text) is not None

    def count_elements(self, name: str, number: int) -> None:
        """Count elements of a file. Raises DocumentTooLarge where they are more than the limit."""
        self.elements += number
        if self.elements > self.limits.elements:
            raise DocumentTooLarge(f"{name} has more than {self.limits.elements:,} elements")
        self.go_on()
