"""Translates a document for `pellucid translate`, and says what became of its texts."""

import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
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
    from pellucid.decode.translation import NotTranslated
    from pellucid.localize.documents.account import describe_account, make_account
    from pellucid.localize.documents.readers import read_document

    document = read_document(file, Path(file).read_bytes(), languages, with_comments=comments)
    shown = show_progress(
        model.translate_stream(document.texts, **search),
        len(document.texts),
        "texts",
        to_file=out is not None,
    )
    if not json:  # there each text has its notes, and each chapter its grades
        shown = sum_up_grades(sum_up_notes(shown, file, document.texts), file, document.chapters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotTranslated)  # it would give the number of a line
        # A list, as what is said at the end of the translations
        # is only said where they are read to their end.
        translations = list(shown)

    reviews = [make_review(translation) for translation in translations] if mark else []
    written = [translation.text for translation in translations]
    content = document.write(written, reviews, languages[1] if languages else None)
    if out is None:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()  # what could not be written is told before the account
    else:
        with atomic_file(out) as write:
            write(content)

    failed = [translation for translation in translations if translation.stop == "failed"]
    account = make_account(document.texts, written, len(failed), document.kept)
    if json:
        typer.echo(json_line(_document_object(document, translations, account)))
        return

    _say_failures(file, failed)
    typer.echo(f"pellucid: {file}: {describe_account(account)}", err=True)


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


def _document_object(
    document: "Document", translations: "Sequence[Translation]", account: "DocumentAccount"
) -> dict[str, Any]:
    """Return what `--json` writes of a document: its account, the grades of its chapters, and each of its texts."""
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
    return {"account": asdict(account), "chapters": chapters, "texts": texts}


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
