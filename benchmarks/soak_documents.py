"""Documents of a soak: whole ones of every format and of several sizes, and broken ones."""

import io
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

SIZES = (3, 12, 40, 150)
"""Sentences of the documents; the server translates the largest in pieces, between which others get their turn."""

Writer = Callable[[Sequence[str]], bytes]


@dataclass(frozen=True)
class NamedDocument:
    """A document as it is sent: its name, by which the server knows the format, and its bytes."""

    name: str
    content: bytes


def make_documents(sentences: Sequence[str]) -> list[NamedDocument]:
    """Make documents of every format and size."""
    return [
        NamedDocument(f"a-{size}.{ending}", write([sentences[(i + size) % len(sentences)] for i in range(size)]))
        for size in SIZES
        for ending, write in _WRITERS.items()
    ]


def make_broken_documents(sentence: str) -> list[tuple[int, NamedDocument]]:
    """Make documents that cannot be translated, each with the status that says so."""
    docx, odt = _write_docx([sentence]), _write_odt([sentence])
    return [
        (400, NamedDocument("a.docx", b"no archive")),
        (400, NamedDocument("a.docx", docx[: len(docx) // 2])),
        (400, NamedDocument("a.docx", odt)),
        (400, NamedDocument("a.odt", odt[:-1])),
        (413, NamedDocument("a.odt", _make_zip({"content.xml": "0" * 2**24}))),
        (413, NamedDocument("a.docx", _make_zip({f"{i}.xml": "" for i in range(3000)}))),
        (400, NamedDocument("a.pdf", b"%PDF-1.7")),
        (400, NamedDocument("a.xliff", _write_xliff([sentence])[:-20])),
        (400, NamedDocument("a.tmx", b"<tmx><body><tu><tuv xml:lang='en'><seg>" + b"<hi>" * 20_000)),
        (413, NamedDocument("a.txt", b"a b " * 60_000)),
        (413, NamedDocument("a.html", b"<!--" + b"-" * 8_500_000)),
        (400, NamedDocument("a.srt", b"\xff\xfe\xff")),
    ]


def _write_docx(sentences: Sequence[str]) -> bytes:
    w = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    main = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    body = "".join(f"<w:p><w:r><w:t>{escape(sentence)}</w:t></w:r></w:p>" for sentence in sentences)
    types = "http://schemas.openxmlformats.org/package/2006/content-types"
    return _make_zip(
        {
            "[Content_Types].xml": f'<Types xmlns="{types}"><Override PartName="/word/document.xml" '
            f'ContentType="{main}"/></Types>',
            "word/document.xml": f"<w:document {w}><w:body>{body}</w:body></w:document>",
        }
    )


def _write_odt(sentences: Sequence[str]) -> bytes:
    names = 'xmlns:{0}="urn:oasis:names:tc:opendocument:xmlns:{0}:1.0"'
    body = "".join(f"<text:p>{escape(sentence)}</text:p>" for sentence in sentences)
    content = f"<office:body><office:text>{body}</office:text></office:body>"
    return _make_zip(
        {
            "mimetype": "application/vnd.oasis.opendocument.text",
            "content.xml": f"<office:document-content {names.format('office')} {names.format('text')}>{content}"
            "</office:document-content>",
        }
    )


def _write_xliff(sentences: Sequence[str]) -> bytes:
    units = "".join(
        f'<trans-unit id="{i}"><source>{escape(sentence)}</source></trans-unit>' for i, sentence in enumerate(sentences)
    )
    return (
        '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file original="a" source-language="en" '
        f'datatype="plaintext"><body>{units}</body></file></xliff>'
    ).encode()


def _write_tmx(sentences: Sequence[str]) -> bytes:
    units = "".join(f'<tu><tuv xml:lang="en"><seg>{escape(sentence)}</seg></tuv></tu>' for sentence in sentences)
    return f'<tmx version="1.4"><header srclang="en"/><body>{units}</body></tmx>'.encode()


def _write_po(sentences: Sequence[str]) -> bytes:
    head = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n'
    quoted = (sentence.replace("\\", "\\\\").replace('"', '\\"') for sentence in dict.fromkeys(sentences))
    return (head + "".join(f'\nmsgid "{sentence}"\nmsgstr ""\n' for sentence in quoted)).encode()


def _write_srt(sentences: Sequence[str]) -> bytes:
    lines = (f"{i}\n00:00:{i % 60:02},000 --> 00:00:{i % 60:02},900\n{s}\n" for i, s in enumerate(sentences, start=1))
    return "\n".join(lines).encode()


_WRITERS: dict[str, Writer] = {
    "docx": _write_docx,
    "odt": _write_odt,
    "html": lambda sentences: "".join(f"<p>{escape(s)} <b>{escape(s)}</b></p>\n" for s in sentences).encode(),
    "txt": lambda sentences: "\n".join(sentences).encode("utf-16"),
    "srt": _write_srt,
    "po": _write_po,
    "xliff": _write_xliff,
    "tmx": _write_tmx,
}


def _make_zip(files: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            # With a fixed date, so that the same document is the same bytes.
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return out.getvalue()
