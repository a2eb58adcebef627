"""Formats of documents: their endings, and what of each is translated, kept and written anew.

Here nothing is read, so that the formats can be looked up without importing their readers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath


@dataclass(frozen=True)
class DocumentFormat:
    """A format of documents. Its phrases are a row of the table in the book."""

    name: str
    media_types: Mapping[str, str]
    """The media types of its files, by the endings of their names."""
    translated: str
    """What is translated, beside the plain text of its paragraphs."""
    kept: Mapping[str, str]
    """What is not translated and is counted, by kind in `KEPT_KINDS`, beside texts without letters."""
    rewritten: str = ""
    """What is written anew beside the translated texts; all else stays byte for byte."""
    stays: str = ""
    """What stays and is not counted, since no reader of the document takes it for its text."""
    is_text: bool = True
    is_xml: bool = False
    """Whether it is XML; characters that XML cannot hold are then left out and counted."""
    can_be_marked: bool = False
    """Whether a translation can be marked for a person in it."""
    has_comments: bool = False
    """Whether its comments can be translated, too."""


_WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml"
_SLIDES = "application/vnd.openxmlformats-officedocument.presentationml"
_SHEETS = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_OPEN_DOCUMENT = "application/vnd.oasis.opendocument"

FORMATS = (
    DocumentFormat("plain text", {".txt": "text/plain"}, "each line", {}),
    DocumentFormat(
        "web pages",
        {".html": "text/html", ".htm": "text/html"},
        "attributes that people read (`alt`, `title`, `placeholder`, `aria-label`, labels of buttons), the description "
        "of the page, pages in frames (`srcdoc`)",
        {
            "protected": '`translate="no"`, the class `notranslate`, parts in a third language',
            "code": "`pre`, `code`, `kbd`, `samp`, `var`, scripts, styles, SVG, formulas",
            "other": "text that is typed into fields, text for browsers without frames, keywords, and a frame's page "
            "whose signs are written in several ways",
        },
        "the language and its direction; line ends inside a paragraph; references such as `&eacute;` in a translated "
        "text, which become characters",
        "comments, addresses, values of fields, instructions of templates (`{{ name }}`, `{% if %}`, `<%= name %>`, "
        "`<?php ... ?>`, `${name}`)",
    ),
    DocumentFormat(
        "Markdown",
        {".md": "text/markdown", ".markdown": "text/markdown", ".mdx": "text/mdx"},
        "headings, items, cells of tables, footnotes, definitions, texts of abbreviations, titles of notes, tabs and "
        "containers, texts and titles of links and pictures, attributes that people read (`alt`, `title`, `caption`) "
        "in HTML, in components and in tags of templates, blocks of HTML",
        {
            "protected": "what HTML in it marks so, parts in a third language",
            "code": "blocks of code, formulas, code between tags of templates, imports and expressions of MDX",
            "other": "front matter, HTML in quotations, titles of links that are defined apart from their text, texts "
            "of several words in commands of LaTeX and in templates without a name, lists more "
            "than 25 and quotations more than 50 levels deep",
        },
        "line ends inside a paragraph, backslashes in a translated text, marks in the text of a picture",
        "addresses, names of links and pages, code and formulas in the line, attributes, tags of templates, comments",
    ),
    DocumentFormat(
        "messages in JSON",
        {".json": "application/json", ".arb": "application/json"},
        "the texts under the keys, and each form of a plural",
        {
            "code": "names such as `home.title`, addresses, placeholders alone",
            "comments": "descriptions for translators",
            "other": "messages of ICU whose braces do not fit, halves of characters",
        },
        "the language (`@@locale`), and forms of a plural that the language needs",
        "keys, numbers",
    ),
    DocumentFormat(
        "messages in YAML",
        {".yml": "application/yaml", ".yaml": "application/yaml"},
        "the texts under the keys, and each form of a plural",
        {
            "code": "as in JSON",
            "comments": "descriptions under a key such as `_comment`",
            "other": "blocks whose indent is given by a number, messages of ICU whose braces do not fit",
        },
        "the key with the language, forms of a plural that the language needs, and line ends in folded texts",
        "keys, comments, numbers",
    ),
    DocumentFormat(
        "Android's texts",
        {".xml": "text/xml"},
        "`string`, `string-array` and `plurals`",
        {
            "protected": '`translatable="false"`',
            "code": "names of other resources, such as `@string/name`",
            "other": "items of `array`, which are mostly colours, sizes and names",
        },
        "forms of a plural that the language needs, and backslashes and quotation marks in a translated text",
        "comments, names, and what `xliff:g` marks",
        is_xml=True,
    ),
    DocumentFormat(
        "Qt's messages",
        {".ts": "text/vnd.qt.linguist"},
        "messages without a translation; they become `unfinished`",
        {"translated": "messages with a translation", "other": "messages that are no longer used"},
        "the language of the file, and forms of a plural that the language needs",
        "comments",
        is_xml=True,
    ),
    DocumentFormat(
        "subtitles",
        {
            ".srt": "application/x-subrip",
            ".vtt": "text/vtt",
            ".sbv": "text/plain",
            ".ass": "text/x-ssa",
            ".ssa": "text/x-ssa",
        },
        "each subtitle, and what each person says in it",
        {
            "comments": "lines of comment in ASS and SSA",
            "code": "drawings in ASS and SSA",
            "other": "text without times in WebVTT and before the first subtitle in others, which players do not show",
        },
        "the places of line ends inside a subtitle (also `[br]` and `\\N`)",
        "times, positions, tags, styles, notes of WebVTT",
    ),
    DocumentFormat(
        "message catalogues",
        {".po": "text/x-gettext-translation", ".pot": "text/x-gettext-translation"},
        "messages without a translation; they become `fuzzy`",
        {"translated": "messages with a translation", "other": "obsolete messages"},
        "the header of a template: language, encoding, rule of plurals; and forms of a plural that the language needs",
        "comments",
    ),
    DocumentFormat(
        "XLIFF",
        {".xliff": "application/xliff+xml", ".xlf": "application/xliff+xml"},
        "segments without a translation, and texts in codes (`sub`); they ask for a review",
        {
            "translated": "segments with a translation",
            "protected": '`translate="no"`, `mtype="protected"`, locked segments',
            "other": "headers of message catalogues",
        },
        "targets, the states of new segments, and the language of the target",
        "sources, notes, proposals of other programs",
        is_xml=True,
        can_be_marked=True,
    ),
    DocumentFormat(
        "XLIFF of Trados, memoQ and Phrase",
        dict.fromkeys((".sdlxliff", ".mqxliff", ".mxliff"), "application/xliff+xml"),
        "segments without a translation; they are drafts of a machine",
        {
            "translated": "segments with a translation",
            "protected": "locked segments, and what the file marks as not to be translated",
        },
        "targets, and the states of new segments",
        "sources, notes, proposals of other programs",
        is_xml=True,
    ),
    DocumentFormat(
        "translation memories",
        {".tmx": "application/x-tmx+xml"},
        "units without the target language, and texts in codes (`sub`)",
        {"translated": "units with both languages"},
        "a variant for each new translation, which names the program",
        "notes, properties",
        is_xml=True,
    ),
    DocumentFormat(
        "Word",
        {
            ".docx": f"{_WORD}.document",
            ".docm": "application/vnd.ms-word.document.macroEnabled.12",
            ".dotx": f"{_WORD}.template",
        },
        "headers, footers, notes, text boxes, charts, descriptions of pictures, tips of links, results of fields with "
        "words, titles of the document",
        {
            "code": "fields that are computed, such as numbers of pages; formulas",
            "comments": "comments, without `--comments`",
            "deleted": "what was deleted with the change recorded",
            "other": "how signs are pronounced, documents inside the document, keywords, words before numbers of "
            "paragraphs, what is typed or chosen in forms, texts in places that are not known",
        },
        "spaces and tabs where the text has them, the language, and runs of one formatting, which are joined",
        "names of styles and bookmarks, building blocks, macros",
        is_text=False,
        is_xml=True,
        can_be_marked=True,
        has_comments=True,
    ),
    DocumentFormat(
        "PowerPoint",
        {
            ".pptx": f"{_SLIDES}.presentation",
            ".pptm": "application/vnd.ms-powerpoint.presentation.macroEnabled.12",
            ".ppsx": f"{_SLIDES}.slideshow",
            ".potx": f"{_SLIDES}.template",
        },
        "notes, tables, charts, diagrams, descriptions of pictures, tips of links on shapes, titles of the document",
        {
            "code": "fields that are computed, such as numbers of slides; formulas",
            "comments": "comments, without `--comments`",
            "other": "documents inside the document, such as the table behind a chart; keywords, tips of links on "
            "words, and words that are there twice inside a paragraph",
        },
        "as in Word",
        "what layouts ask for (`Click to edit`), names of shapes, macros",
        is_text=False,
        is_xml=True,
        has_comments=True,
    ),
    DocumentFormat(
        "Excel",
        {
            ".xlsx": f"{_SHEETS}.sheet",
            ".xlsm": "application/vnd.ms-excel.sheet.macroEnabled.12",
            ".xltx": f"{_SHEETS}.template",
        },
        "texts in cells, headers and footers, messages beside cells, charts, text boxes, labels of pivot tables",
        {
            "code": "formulas",
            "named": "texts that a formula, a list, a filter or a table's column asks for",
            "comments": "comments, without `--comments`",
            "other": "names of sheets, how signs are pronounced, documents inside the document, keywords, labels of "
            "buttons and boxes in a sheet",
        },
        "as in Word",
        "numbers, dates, names of cells, macros",
        is_text=False,
        is_xml=True,
        has_comments=True,
    ),
    DocumentFormat(
        "OpenDocument",
        {
            ".odt": f"{_OPEN_DOCUMENT}.text",
            ".ott": f"{_OPEN_DOCUMENT}.text-template",
            ".odp": f"{_OPEN_DOCUMENT}.presentation",
            ".otp": f"{_OPEN_DOCUMENT}.presentation-template",
            ".ods": f"{_OPEN_DOCUMENT}.spreadsheet",
            ".ots": f"{_OPEN_DOCUMENT}.spreadsheet-template",
            ".odg": f"{_OPEN_DOCUMENT}.graphics",
        },
        "headers, footers, notes, text boxes, charts, tables, descriptions of pictures, titles of the document, tips "
        "of links, messages beside cells, labels of forms, entries of indexes",
        {
            "code": "fields that are computed, such as numbers of pages; formulas, scripts",
            "named": "texts that a formula or a list asks for",
            "comments": "comments, without `--comments`",
            "deleted": "what was deleted with the change recorded",
            "other": "how signs are pronounced, footers of all slides, documents inside the document, keywords, names "
            "of sheets, words before numbers of paragraphs, what is typed or chosen in forms",
        },
        "as in Word",
        "names of styles and bookmarks, numbers, dates, macros",
        is_text=False,
        is_xml=True,
        has_comments=True,
    ),
    DocumentFormat(
        "electronic books",
        {".epub": "application/epub+zip"},
        "pages, tables of contents, titles and subjects of the book, titles of its places",
        {
            "protected": "as in web pages",
            "code": "as in web pages; pages that are drawings (SVG)",
            "other": "as in web pages; the description, the rights and the series of the book, numbers of printed "
            "pages",
        },
        "as in web pages",
        "names of authors, styles",
        is_text=False,
        is_xml=True,
    ),
)

DOCUMENT_FORMATS: dict[str, DocumentFormat] = {}
for _format in FORMATS:
    DOCUMENT_FORMATS |= dict.fromkeys(_format.media_types, _format)
"""The format of each ending."""

MARKED_FORMATS = tuple(end for end, found in DOCUMENT_FORMATS.items() if found.can_be_marked)
"""Endings of documents in which a translation can be marked for a person."""

COMMENTED_FORMATS = tuple(end for end, found in DOCUMENT_FORMATS.items() if found.has_comments)
"""Endings of documents whose comments can be translated, too."""


def document_suffix(name: str) -> str | None:
    """Return the ending of a name, in small letters, if it is a document's ending.

    >>> document_suffix("Book.DOCX"), document_suffix("book.en")
    ('.docx', None)
    """
    suffix = PurePath(name).suffix.lower()
    return suffix if suffix in DOCUMENT_FORMATS else None


def list_kept_kinds(suffix: str) -> set[str]:
    """Return the kinds in `KEPT_KINDS` of what a document with this ending may hold that is not translated.

    >>> sorted(list_kept_kinds(".ts"))
    ['other', 'translated', 'unfit characters', 'without letters']
    """
    described = DOCUMENT_FORMATS[suffix]
    kinds = {*described.kept, "without letters"}
    return kinds | {"unfit characters"} if described.is_xml else kinds
