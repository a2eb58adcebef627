"""The account of a translated document: how many of its texts were translated, and how many stay, by kind."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pellucid.documents.reading import KEPT_KINDS


@dataclass(frozen=True)
class DocumentAccount:
    """Counts of the texts of a document. All of them together are its texts: none is skipped without being counted."""

    translated: int
    unchanged: int
    """Texts whose translation is the text itself, as that of a name often is."""
    failed: int
    """Texts that could not be translated as asked, and stay in the source language."""
    kept: Mapping[str, int]
    """Texts that were not given to the model, by kind."""

    def as_table(self) -> dict[str, Any]:
        """Return the account as JSON has it."""
        return asdict(self)


def make_account(texts: Iterable[str], results: Iterable[tuple[str, bool]], kept: Mapping[str, int]) -> DocumentAccount:
    """Count texts by what became of them: `results` has the translation of each, and whether it could be made.

    >>> make_account(["Yes.", "Anna", "A."], [("Sí.", True), ("Anna", True), ("A.", False)], {"code": 2, "other": 0})
    DocumentAccount(translated=1, unchanged=1, failed=1, kept={'code': 2})
    """
    translated = unchanged = failed = 0
    for text, (translation, is_made) in zip(texts, results, strict=True):
        if not is_made:
            failed += 1
        elif translation == text:
            unchanged += 1
        else:
            translated += 1
    return DocumentAccount(translated, unchanged, failed, {kind: number for kind, number in kept.items() if number})


def describe_account(account: DocumentAccount) -> str:
    """Return an account in a sentence.

    >>> describe_account(DocumentAccount(12, 1, 0, {"without letters": 2, "comments": 1}))
    '12 texts translated, 1 came out as it was; not given to the model: 2 have no letter, 1 is a comment'
    """
    number = account.translated
    parts = [f"{number:,} text{'' if number == 1 else 's'} translated"]
    if account.unchanged:
        parts.append(f"{account.unchanged:,} came out as {'it was' if account.unchanged == 1 else 'they were'}")
    if account.failed:
        parts.append(f"{account.failed:,} could not be translated")
    sentence = ", ".join(parts)

    kinds = []
    for kind, number in account.kept.items():
        one, several = KEPT_KINDS[kind]
        kinds.append(f"{number:,} {one if number == 1 else several}")
    return f"{sentence}; not given to the model: {', '.join(kinds)}" if kinds else sentence
