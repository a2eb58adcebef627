"""Translates a document for `pellucid translate`, and says what became of its texts."""

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pellucid.cli.files import json_line, show_progress
from pellucid.cli.translation_grades import sum_up_grades
from pellucid.cli.translation_lines import describe_translation
from pellucid.cli.translation_notes import sum_up_notes
from pellucid.store.atomic import atomic_file

if TYPE_CHECKING:
    from pellucid.api import Model
    from pellucid.decode.translation import Translation
    from pellucid.localize.documents.account import DocumentAccount
    from pellucid.localize.documents.document import Document
    from pellucid.localize.documents.slots import Review

_NAMED_FAILURES = 10  # texts of a document that could not be translated, and are shown


@dataclass(frozen=True)
class TranslatedDocument:
    """A translated document: its bytes, the translations of its texts, and what became of them."""

    document: "Document"
    translations: "Sequence[Translation]"
    content: bytes
    account: "DocumentAccount"


def translate_document(
    model: "Model",
    file: str,
    out: str | None,
    languages: tuple[str, str] | None,
    search: dict[str, Any],
    mark: bool,
    comments: bool,
    json: bool,
) -> None:
    """Translate a document, write it, and say what became of its texts."""
    content = Path(file).read_bytes()
    progress = partial(show_progress, to_file=out is not None)
    translated = translate_content(model, file, content, languages, search, mark, comments, json, progress)
    if out is None:
        sys.stdout.buffer.write(translated.content)
        sys.stdout.buffer.flush()  # what could not be written is told before the account
    else:
        with atomic_file(out) as write:
            write(translated.content)

    if json:
        typer.echo(json_line(_document_object(translated)))
    else:
        say_account(file, translated)


def translate_content(
    model: "Model",
    file: str,
    content: bytes,
    languages: tuple[str, str] | None,
    search: dict[str, Any],
    mark: bool,
    comments: bool,
    json: bool = False,
    progress: "Callable[..., Iterable[Translation]] | None" = None,
) -> TranslatedDocument:
    """Translate the bytes of a document, and say what its notes and grades are, unless `json` has them.

    `progress` passes the translations on, given their number and what they are.
    """
    from pellucid.decode.translation import NotTranslated
    from pellucid.localize.documents.account import make_account
    from pellucid.localize.documents.readers import read_document

    document = read_document(file, content, languages, with_comments=comments)
    shown = model.translate_stream(document.texts, **search)
    if progress is not None:
        shown = progress(shown, len(document.texts), "texts")
    if not json:  # there each text has its notes, and each chapter its grades
        shown = sum_up_grades(sum_up_notes(shown, file, document.texts), file, document.chapters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotTranslated)  # it would give the number of a line
        # A list, as what is said at the end of the translations
        # is only said where they are read to their end.
        translations = list(shown)

    reviews = [make_review(translation) for translation in translations] if mark else []
    written = [translation.text for translation in translations]
    failed = sum(translation.stop == "failed" for translation in translations)
    return TranslatedDocument(
        document,
        translations,
        document.write(written, reviews, languages[1] if languages else None),
        make_account(document.texts, written, failed, document.kept),
    )


def say_account(file: str, translated: TranslatedDocument) -> None:
    """Say which texts of a document could not be translated, and how many there were of each kind."""
    from pellucid.localize.documents.account import describe_account

    _say_failures(file, [text for text in translated.translations if text.stop == "failed"])
    typer.echo(f"pellucid: {file}: {describe_account(translated.account)}", err=True)


def _say_failures(file: str, failed: "Sequence[Translation]") -> None:
    """Say which texts of a document could not be translated, and why."""
    for translation in failed[:_NAMED_FAILURES]:
        reason = "; ".join(translation.notes)
        typer.echo(f"pellucid: {file}: not translated: {translation.text!r:.80}: {reason}", err=True)
    if len(failed) > _NAMED_FAILURES:
        typer.echo(
            f"pellucid: {file}: {len(failed) - _NAMED_FAILURES} more texts are not translated",
            err=True,
        )


def _document_object(translated: TranslatedDocument) -> dict[str, Any]:
    """Return what `--json` writes of a document: its account, the grades of its chapters, and each of its texts."""
    document, translations = translated.document, translated.translations
    chapters = []
    for chapter in document.chapters:
        grades = Counter(translations[place].grade for place in chapter.places)
        counts = {grade or "no grade": number for grade, number in grades.items()}
        chapters.append(
            {
                "title": chapter.title,
                "first": chapter.places[0],
                "texts": len(chapter.places),
                **counts,
            }
        )

    texts = []
    for text, translation in zip(document.texts, translations, strict=True):
        texts.append({"source": text, **describe_translation(translation)})
    return {"account": asdict(translated.account), "chapters": chapters, "texts": texts}


def make_review(translation: "Translation") -> "Review | None":
    """Return what a person should do about a translation, and why.

    None where it is usable or has no grade.
    """
    from pellucid.decode.alarms import ALARMS
    from pellucid.localize.documents.slots import Review

    if translation.grade in (None, "usable"):
        return None
    reasons = [ALARMS[name] for name in translation.alarms]
    if translation.stop == "failed":
        reasons = ["it could not be translated", *translation.notes]
    return Review(translation.grade, "; ".join(reasons or ["the model is not sure of it"]))
