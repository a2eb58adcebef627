"""Office documents take steps in proportion to their size, however they are nested: lines are counted, no time."""

from collections.abc import Callable

import pytest

from pellucid.localize.documents.readers import read_document
from tests.documents.samples import (
    make_docx,
    make_epub,
    make_odt,
    make_pptx,
    make_shape,
    make_xlsx,
)
from tests.growth import assert_linear_work

Shape = tuple[str, Callable[[int], bytes]]


def run(text: str, formatting: str = "") -> str:
    return f"<w:r>{formatting}<w:t>{text}</w:t></w:r>"


def mark(kind: str) -> str:
    return f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>'


def nest_boxes(depth: int, inner: str) -> str:
    """Put paragraphs into text boxes in text boxes."""
    begin, end = "<w:p><w:r><w:pict><w:txbxContent>", f"</w:txbxContent></w:pict></w:r>{run('a')}</w:p>"
    return begin * depth + inner + end * depth


def paragraph(*runs: str) -> bytes:
    return make_docx(f"<w:p>{''.join(runs)}</w:p>")


def styles(n: int, next_one: int) -> bytes:
    """Make styles of which each is based on another."""
    chain = (f'<w:style w:styleId="{i}"><w:basedOn w:val="{i + next_one}"/></w:style>' for i in range(n))
    return make_docx(f"<w:p>{run('a')}</w:p>", styles="".join(chain))


def bookmarks(n: int, end: int) -> bytes:
    """Make bookmarks that begin before a word and end behind it, from the first or from the last one on."""
    numbers = range(n)
    starts = [f'<w:bookmarkStart w:id="{i}"/>' for i in numbers]
    ends = [f'<w:bookmarkEnd w:id="{i}"/>' for i in numbers]
    return paragraph(*starts, run("a"), *ends[::end])


SHAPES: dict[str, Shape] = {
    "paragraphs": ("a.docx", lambda n: make_docx(f"<w:p>{run('a')}</w:p>" * n)),
    "runs": ("a.docx", lambda n: paragraph(*[run("a ", f'<w:rPr><w:b w:val="{i % 2}"/></w:rPr>') for i in range(n)])),
    "fields in results of fields": (
        "a.docx",
        lambda n: paragraph((mark("begin") + mark("separate")) * n, run("a"), mark("end") * n),
    ),
    "fields in instructions of fields": (
        "a.docx",
        lambda n: paragraph(mark("begin") * n, run("a"), (mark("separate") + mark("end")) * n),
    ),
    "fields that never end": ("a.docx", lambda n: paragraph(mark("begin") * n, run("a"))),
    "fields one after the other": (
        "a.docx",
        lambda n: paragraph((mark("begin") + mark("separate") + run("a") + mark("end")) * n),
    ),
    "fields of numbers in fields": (
        "a.docx",
        lambda n: paragraph(
            run("a"), '<w:fldSimple w:instr="b">' * (n // 4), run("1") * 50, "</w:fldSimple>" * (n // 4)
        ),
    ),
    "paragraphs in boxes in boxes": ("a.docx", lambda n: make_docx(nest_boxes(40, f"<w:p>{run('a')}</w:p>" * n))),
    "bookmarks": ("a.docx", lambda n: bookmarks(n, 1)),
    "bookmarks around bookmarks": ("a.docx", lambda n: bookmarks(n, -1)),
    "bookmarks of one number": (
        "a.docx",
        lambda n: paragraph('<w:bookmarkStart w:id="1"/>' * n, run("a"), '<w:bookmarkEnd w:id="1"/>' * n),
    ),
    "links": ("a.docx", lambda n: paragraph(f"<w:hyperlink>{run('a')}</w:hyperlink>" * n)),
    "spaces": ("a.docx", lambda n: paragraph(f'<w:r><w:t xml:space="preserve">{"a    " * n}</w:t></w:r>')),
    "styles based on the next": ("a.docx", lambda n: styles(n, 1)),
    "styles based on the last": ("a.docx", lambda n: styles(n, -1)),
    "comments": (
        "a.docx",
        lambda n: make_docx("<w:p/>", comments=f"<w:comment><w:p>{run('a')}</w:p></w:comment>" * n),
    ),
    "spans": ("a.odt", lambda n: make_odt(f"<text:p>{'<text:span>a</text:span> ' * n}</text:p>")),
    "spaces that are elements": ("a.odt", lambda n: make_odt(f"<text:p>a{'<text:s/>' * n}a</text:p>")),
    "notes": (
        "a.odt",
        lambda n: make_odt(
            f"<text:p>a{'<text:note><text:note-body><text:p>b</text:p></text:note-body></text:note>' * n}</text:p>"
        ),
    ),
    "frames in frames": (
        "a.odt",
        lambda n: make_odt(
            "<text:p>a<draw:frame><draw:text-box>" * 60
            + "<text:p>b</text:p>" * n
            + "</draw:text-box></draw:frame></text:p>" * 60
        ),
    ),
    "cells": (
        "a.ods",
        lambda n: make_odt(
            f"<table:table><table:table-row>{'<table:table-cell><text:p>a</text:p></table:table-cell>' * n}"
            "</table:table-row></table:table>",
            "spreadsheet",
        ),
    ),
    "slides": (
        "a.pptx",
        lambda n: make_pptx(*[make_shape("<a:p><a:r><a:t>a</a:t></a:r></a:p>")] * (n // 4)),
    ),
    "groups in groups": (
        "a.pptx",
        lambda n: make_pptx(
            "<p:grpSp>" * 150 + make_shape("<a:p><a:r><a:t>a</a:t></a:r></a:p>") * n + "</p:grpSp>" * 150
        ),
    ),
    "strings": ("a.xlsx", lambda n: make_xlsx("".join(f"<si><t>a {i}</t></si>" for i in range(n)), "")),
    "formulas": (
        "a.xlsx",
        lambda n: make_xlsx("", "".join(f'<c><f>IF(A1="a,{i}",1)</f><v>1</v></c>' for i in range(n))),
    ),
    "places of headers": (
        "a.xlsx",
        lambda n: make_xlsx("", f"<headerFooter><oddHeader>{'&amp;Ca &amp;P' * n}</oddHeader></headerFooter>"),
    ),
    "pages": ("a.epub", lambda n: make_epub(*["<p>a <b>b</b></p>"] * (n // 4))),
    "paragraphs of a page": ("a.epub", lambda n: make_epub("<p>a <b>b</b></p>" * n)),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_document_of_twice_the_size_takes_twice_the_steps(shape):
    name, make = SHAPES[shape]
    contents = {n: make(n) for n in (200, 400)}

    def work(n: int) -> None:
        document = read_document(name, contents[n], ("en", "es"))
        document.write([f"{text} b" for text in document.texts], language="es")

    assert_linear_work(work, 200, "localize/documents")


def test_reading_asks_whether_to_go_on_in_proportion_to_the_size():
    calls = []
    for n in (2000, 4000):
        asked = []
        read_document("a.docx", make_docx(f"<w:p>{run('a')}</w:p>" * n), go_on=lambda asked=asked: asked.append(1))
        calls.append(len(asked))
    assert 3 * n / 1000 <= calls[1] <= 2 * calls[0]
