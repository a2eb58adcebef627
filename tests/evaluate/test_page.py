"""The page stands alone, shows what is compared, and takes no text for markup."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pellucid.evaluate import page
from pellucid.evaluate.compare import compare_translations
from pellucid.evaluate.page import comparison_as_html, mark_differences
from tests.evaluate.sentences import references, translated

HOSTILE = "</script></style><img src=x onerror=alert(1)> \"'& <svg onload=alert(2)>"
LINES = references(40, seed=1)
A, B = (translated(LINES, wrong, seed=2) for wrong in (0.6, 0.2))
CSS = Path(page.__file__).with_name("page.css").read_text(encoding="utf-8")
VOID = {"meta", "line", "circle", "rect"}


class Page(HTMLParser):
    """The tags and the text of a page; an AssertionError where tags are not closed in their order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_every_tag_is_closed_and_every_number_is_there():
    comparison = compare_translations(A, B, LINES, sources=LINES, samples=97, show=3)
    read = Page(comparison_as_html(comparison))
    for score in comparison.scores.values():
        assert f"{score.a.score:.2f}" in read.text
        assert score.signature in read.text
        assert score.verdict in read.text.replace("\u00a0", " ")
    for each in [*comparison.gained, *comparison.lost]:
        assert f"Line {each.line} " in read.text
        assert each.reference in read.text
    assert len([tag for tag, _ in read.tags if tag == "svg"]) == 4 + sum(
        len(grouping.buckets) for grouping in comparison.groupings.values()
    )


def test_texts_of_others_stay_text():
    lines = [HOSTILE, *LINES]
    comparison = compare_translations(
        [f"{HOSTILE} a", *A], [f"b {HOSTILE}", *B], lines, sources=lines, samples=9, show=99, names=(HOSTILE, HOSTILE)
    )
    read = Page(comparison_as_html(comparison))
    assert {tag for tag, _ in read.tags} & {"script", "img", "iframe", "a", "link"} == set()
    assert [key for _, attributes in read.tags for key in attributes if key.startswith("on")] == []
    assert read.text.count(HOSTILE) >= 4  # title and both names; the source, the reference


def test_nothing_is_fetched():
    html = comparison_as_html(compare_translations(A, B, LINES, samples=9))
    assert re.findall(r"https?:|//|@import|url\(|src=|href=", html) == []
    assert "default-src 'none'" in html


@pytest.mark.parametrize(
    ("a", "b", "left", "right"),
    [
        ("a dog runs", "a dog runs", "a dog runs", "a dog runs"),
        ("a big dog", "a dog", "a <del>big</del> dog", "a dog"),
        ("x", "", "<del>x</del>", "<em>empty</em>"),
        ("x <y>", "v w", "<del>x &lt;y&gt;</del>", "<ins>v w</ins>"),
        ("x " * 501, "y", "x " * 501, "y"),  # too long to be compared
    ],
)
def test_what_differs_is_marked(a: str, b: str, left: str, right: str):
    assert mark_differences(a, b) == (left, right)


def luminance(colour: str) -> float:
    """WCAG 2.2: relative luminance of an sRGB colour."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    ("ink", "paper"),
    [
        *((ink, paper) for ink in ("ink", "soft", "a", "b") for paper in ("paper", "card")),
        ("ink", "a-tint"),
        ("ink", "b-tint"),
    ],
)
def test_every_text_has_the_contrast_wcag_aa_asks_for(theme: str, ink: str, paper: str):
    light, dark = (dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block)) for block in CSS.split("@media")[:2])
    colours = {"light": light, "dark": dark}[theme]
    bright, dim = sorted((luminance(colours[ink]), luminance(colours[paper])), reverse=True)
    assert (bright + 0.05) / (dim + 0.05) >= 4.5
