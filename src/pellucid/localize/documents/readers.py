"""Reads documents of all formats, which are known by the endings of their names."""

from collections.abc import Callable

from pellucid.localize.documents.android import read_android_texts
from pellucid.localize.documents.catalogue import read_catalogue
from pellucid.localize.documents.document import Document
from pellucid.localize.documents.epub import read_epub
from pellucid.localize.documents.formats import DOCUMENT_FORMATS, document_suffix
from pellucid.localize.documents.html import read_html
from pellucid.localize.documents.json_messages import read_json_messages
from pellucid.localize.documents.markdown import read_markdown
from pellucid.localize.documents.memory import read_memory
from pellucid.localize.documents.opendocument import read_opendocument
from pellucid.localize.documents.plain import read_plain_text
from pellucid.localize.documents.presentation import read_pptx
from pellucid.localize.documents.qt import read_qt_messages
from pellucid.localize.documents.reading import (
    DocumentLimits,
    DocumentReading,
    DocumentTooLarge,
    LanguagePair,
    never_stop,
)
from pellucid.localize.documents.spreadsheet import read_xlsx_document
from pellucid.localize.documents.subtitles import read_subtitles
from pellucid.localize.documents.word import read_docx
from pellucid.localize.documents.xliff import read_xliff_document
from pellucid.localize.documents.yaml_messages import read_yaml_messages

Reader = Callable[[str, bytes, DocumentReading], Document]

_READERS: dict[str, Reader] = {  # one for each ending in DOCUMENT_FORMATS
    ".txt": read_plain_text,
    **dict.fromkeys((".html", ".htm"), read_html),
    **dict.fromkeys((".md", ".markdown", ".mdx"), read_markdown),
    **dict.fromkeys((".json", ".arb"), read_json_messages),
    **dict.fromkeys((".yml", ".yaml"), read_yaml_messages),
    ".xml": read_android_texts,
    ".ts": read_qt_messages,
    **dict.fromkeys((".srt", ".vtt", ".sbv", ".ass", ".ssa"), read_subtitles),
    **dict.fromkeys((".po", ".pot"), read_catalogue),
    **dict.fromkeys((".xliff", ".xlf", ".sdlxliff", ".mqxliff", ".mxliff"), read_xliff_document),
    ".tmx": read_memory,
    **dict.fromkeys((".docx", ".docm", ".dotx"), read_docx),
    **dict.fromkeys((".pptx", ".pptm", ".ppsx", ".potx"), read_pptx),
    **dict.fromkeys((".xlsx", ".xlsm", ".xltx"), read_xlsx_document),
    **dict.fromkeys((".odt", ".ott", ".odp", ".otp", ".ods", ".ots", ".odg"), read_opendocument),
    ".epub": read_epub,
}


def read_document(
    name: str,
    content: bytes,
    languages: LanguagePair | None = None,
    limits: DocumentLimits | None = None,
    go_on: Callable[[], None] = never_stop,
    *,
    with_comments: bool = False,
) -> Document:
    """Take a document apart, by the ending of its name; `languages` are the translation's languages, if known.

    `with_comments` has the comments of people in an office document translated, too.
    `go_on` is called now and then, and may raise an error to stop the reading.

    Raises DocumentTooLarge beyond a limit, and ValueError for a format that
    is not known and for a damaged document.
    """
    reading = DocumentReading(
        languages, limits or DocumentLimits(), with_comments=with_comments, go_on=go_on
    )

    suffix = document_suffix(name)
    if suffix is None:
        known = ", ".join(DOCUMENT_FORMATS)
        raise ValueError(f"{name:.120} is of no known format; those are {known}")

    if len(content) > reading.limits.bytes:
        raise DocumentTooLarge(
            f"{name} has {len(content):,} bytes; {reading.limits.bytes:,} are taken"
        )
    return _READERS[suffix](name, content, reading)
