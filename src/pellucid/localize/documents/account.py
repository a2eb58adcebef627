"""The account of a translated document: how many of its texts were translated, and how many stay, by kind."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pellucid.localize.documents.reading import KEPT_KINDS


@dataclass(frozen=True)
class DocumentAccount:
    """Counts of the texts that the reader of a document found, by what became of them."""

    translated: int
    unchanged: int
    """Texts whose translation is the text itself, as is often so for a name."""
    failed: int
    """Texts that could not be translated as asked, and stay in the source language."""
    kept: Mapping[str, int]
    """Texts that were not given to the model, by kind."""


def make_account(
    texts: Sequence[str], translations: Sequence[str], failed: int, kept: Counter[str]
) -> DocumentAccount:
    """Count texts by what became of them; `failed` of them could not be translated, and are their own translations.

    >>> make_account(["Yes.", "Anna", "A."], ["Sí.", "Anna", "A."], 1, Counter({"code": 2, "other": 0}))
    DocumentAccount(translated=1, unchanged=1, failed=1, kept={'code': 2})
    """
    same = sum(text == translation for text, translation in zip(texts, translations, strict=True))
    return DocumentAccount(len(texts) - same, same - failed, failed, dict(+kept))


def describe_account(account: DocumentAccount) -> str:
    """Return an account in a sentence.

    >>> describe_account(DocumentAccount(12, 1, 0, {"without letters": 2, "comments": 1}))
    '12 texts translated, 1 came out as it was; not given to the model: 2 have no letter, 1 is a comment'
    """
    number = account.translated
    parts = [f"{number:,} text{'' if number == 1 else 's'} translated"]
    if account.unchanged:
        as_before = "it was" if account.unchanged == 1 else "they were"
        parts.append(f"{account.unchanged:,} came out as {as_before}")
    if account.failed:
        parts.append(f"{account.failed:,} could not be translated")
    sentence = ", ".join(parts)

    kinds = []
    for kind, number in account.kept.items():
        one, several = KEPT_KINDS[kind]
        kinds.append(f"{number:,} {one if number == 1 else several}")
    return f"{sentence}; not given to the model: {', '.join(kinds)}" if kinds else sentence
