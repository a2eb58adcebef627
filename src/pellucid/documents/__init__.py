"""Documents taken apart into texts to translate and everything else, and put together again with translations."""

from pathlib import PurePath
from typing import NamedTuple


class _DocumentFormat(NamedTuple):
    """A format: the media type of its files, and whether they are text."""

    media_type: str
    is_text: bool = True


# Formats of documents by the endings of their names; here, where they can be looked up without importing the readers.
DOCUMENT_FORMATS = {
    ".txt": _DocumentFormat("text/plain"),
    **dict.fromkeys((".html", ".htm"), _DocumentFormat("text/html")),
    **dict.fromkeys((".md", ".markdown"), _DocumentFormat("text/markdown")),
    **dict.fromkeys((".json", ".arb"), _DocumentFormat("application/json")),
    **dict.fromkeys((".yml", ".yaml"), _DocumentFormat("application/yaml")),
    ".xml": _DocumentFormat("text/xml"),
    ".ts": _DocumentFormat("text/vnd.qt.linguist"),
    ".srt": _DocumentFormat("application/x-subrip"),
    ".vtt": _DocumentFormat("text/vtt"),
    ".sbv": _DocumentFormat("text/plain"),
    **dict.fromkeys((".ass", ".ssa"), _DocumentFormat("text/x-ssa")),
    **dict.fromkeys((".po", ".pot"), _DocumentFormat("text/x-gettext-translation")),
    **dict.fromkeys((".xliff", ".xlf"), _DocumentFormat("application/xliff+xml")),
    **dict.fromkeys((".sdlxliff", ".mqxliff", ".mxliff"), _DocumentFormat("application/xliff+xml")),
    ".tmx": _DocumentFormat("application/x-tmx+xml"),
    ".docx": _DocumentFormat("application/vnd.openxmlformats-officedocument.wordprocessingml.document", is_text=False),
    ".odt": _DocumentFormat("application/vnd.oasis.opendocument.text", is_text=False),
}

MARKED_FORMATS = (".docx", ".xliff", ".xlf")  # those in which a translation can be marked for a person


def document_suffix(name: str) -> str | None:
    """Return the ending of a name, in small letters, if it is that of a document.

    >>> document_suffix("Book.DOCX"), document_suffix("book.en")
    ('.docx', None)
    """
    suffix = PurePath(name).suffix.lower()
    return suffix if suffix in DOCUMENT_FORMATS else None
