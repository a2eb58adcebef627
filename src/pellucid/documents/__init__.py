"""Documents taken apart into texts to translate and everything else, and put together again with translations."""

from pathlib import PurePath
from typing import NamedTuple


class _DocumentFormat(NamedTuple):
    """A format: the media type of its files, and whether they are text."""

    media_type: str
    is_text: bool = True


_OPEN_XML = "application/vnd.openxmlformats-officedocument"
_OPEN_DOCUMENT = "application/vnd.oasis.opendocument"

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
    ".docx": _DocumentFormat(f"{_OPEN_XML}.wordprocessingml.document", is_text=False),
    ".docm": _DocumentFormat("application/vnd.ms-word.document.macroEnabled.12", is_text=False),
    ".dotx": _DocumentFormat(f"{_OPEN_XML}.wordprocessingml.template", is_text=False),
    ".pptx": _DocumentFormat(f"{_OPEN_XML}.presentationml.presentation", is_text=False),
    ".pptm": _DocumentFormat("application/vnd.ms-powerpoint.presentation.macroEnabled.12", is_text=False),
    ".ppsx": _DocumentFormat(f"{_OPEN_XML}.presentationml.slideshow", is_text=False),
    ".potx": _DocumentFormat(f"{_OPEN_XML}.presentationml.template", is_text=False),
    ".xlsx": _DocumentFormat(f"{_OPEN_XML}.spreadsheetml.sheet", is_text=False),
    ".xlsm": _DocumentFormat("application/vnd.ms-excel.sheet.macroEnabled.12", is_text=False),
    ".xltx": _DocumentFormat(f"{_OPEN_XML}.spreadsheetml.template", is_text=False),
    ".odt": _DocumentFormat(f"{_OPEN_DOCUMENT}.text", is_text=False),
    ".ott": _DocumentFormat(f"{_OPEN_DOCUMENT}.text-template", is_text=False),
    ".odp": _DocumentFormat(f"{_OPEN_DOCUMENT}.presentation", is_text=False),
    ".otp": _DocumentFormat(f"{_OPEN_DOCUMENT}.presentation-template", is_text=False),
    ".ods": _DocumentFormat(f"{_OPEN_DOCUMENT}.spreadsheet", is_text=False),
    ".ots": _DocumentFormat(f"{_OPEN_DOCUMENT}.spreadsheet-template", is_text=False),
    ".odg": _DocumentFormat(f"{_OPEN_DOCUMENT}.graphics", is_text=False),
    ".epub": _DocumentFormat("application/epub+zip", is_text=False),
}

MARKED_FORMATS = (".docx", ".docm", ".dotx", ".xliff", ".xlf")
"""Those in which a translation can be marked for a person."""

COMMENTED_FORMATS = tuple(
    suffix for suffix, described in DOCUMENT_FORMATS.items() if not described.is_text and suffix != ".epub"
)
"""Those whose comments can be translated, too."""


def document_suffix(name: str) -> str | None:
    """Return the ending of a name, in small letters, if it is that of a document.

    >>> document_suffix("Book.DOCX"), document_suffix("book.en")
    ('.docx', None)
    """
    suffix = PurePath(name).suffix.lower()
    return suffix if suffix in DOCUMENT_FORMATS else None
