"""The book as one file: it needs no other file, and its links and pictures are inside."""

import base64
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import book_page

ROOT = Path(__file__).resolve().parent.parent
INDEX = "# First\n\n```{toctree}\npart/one\npart/two\n```\n"
ONE = """\
# One

## Exercise

See [two](two.md), [its exercise](two.md#exercise), [mine](#exercise), <https://example.org> and
{download}`a file <file.txt>`.

![A dot](dot.png)

:::{admonition} Answer
:collapsible: closed
Folded.
:::
"""
TWO = "# Two\n\n## Exercise\n\n`x = 1 & 2`, back to [one](one.md).\n"
DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """Folder of a small book, built as the real one is."""
    folder = tmp_path_factory.mktemp("book")
    source = folder / "docs"
    (source / "part").mkdir(parents=True)
    for name, text in (("index.md", INDEX), ("part/one.md", ONE), ("part/two.md", TWO), ("part/file.txt", "text")):
        (source / name).write_text(text, encoding="utf-8")
    (source / "part" / "dot.png").write_bytes(DOT)
    command = [sys.executable, "-m", "sphinx", "-q", "-c", str(ROOT / "docs"), str(source), str(folder / "html")]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    return folder


def test_the_page_loads_nothing_and_its_links_lead_somewhere(built):
    text = book_page.make_page(built / "html")
    assert book_page.find_problems(text) == []
    assert f"data:image/png;base64,{base64.b64encode(DOT).decode()}" in text
    assert "<script" not in text
    assert "--color-brand-primary" in text  # the style sheets are inside


def test_pages_stand_in_order_and_each_keeps_its_own_anchors(built):
    text = book_page.make_page(built / "html")
    headings = [text.index(f"<h1>{name}<") for name in ("First", "One", "Two")]
    assert headings == sorted(headings)
    assert 'id="part-one--exercise"' in text
    assert 'href="#part-two--exercise"' in text
    assert 'href="#part-one--exercise"' in text
    assert 'href="#part-one"' in text
    assert 'href="https://example.org"' in text
    assert "<details" in text
    assert "1 &amp; 2" in text.replace("</span>", "").replace('<span class="pre">', "")


def test_what_is_outside_the_book_is_no_link(built):
    text = book_page.make_page(built / "html")
    assert "_downloads" not in text
    assert '<span class="pre">file</span>' in text  # its words stay


@pytest.mark.parametrize(
    ("markup", "problem"),
    [
        ('<img src="a.png">', "it loads a.png"),
        ('<link rel="stylesheet" href="https://example.org/a.css">', "it loads https://example.org/a.css"),
        ('<script src="a.js"></script>', "it loads a.js"),
        ("<style>@import 'a.css'; p { background: url(b.png) }</style>", "it loads a.css"),
        ('<p style="background: url(b.png)">', "it loads b.png"),
        ('<a href="#there">x</a>', "#there is linked to and does not exist"),
        ('<p id="a"></p><p id="a"></p>', "a is the id of two elements"),
    ],
)
def test_what_a_page_lacks_is_named(markup, problem):
    assert problem in book_page.find_problems(markup)


def test_a_picture_as_data_and_a_link_to_another_site_are_no_problem():
    assert book_page.find_problems('<img src="data:image/png;base64,AA"><a href="https://example.org">x</a>') == []


def test_the_command_needs_a_built_book(tmp_path, capsys):
    assert book_page.main([str(tmp_path), str(tmp_path / "book.html")]) == 2
    assert "FOLDER FILE" in capsys.readouterr().err


def test_the_command_writes_the_page(built, tmp_path):
    assert book_page.main([str(built / "html"), str(tmp_path / "book.html")]) == 0
    assert (tmp_path / "book.html").read_text(encoding="utf-8") == book_page.make_page(built / "html")
