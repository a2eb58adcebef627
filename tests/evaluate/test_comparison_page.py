"""Page of a comparison: it needs no other file, shows all that is compared, and takes no text for markup."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pellucid.evaluate import comparison_page
from pellucid.evaluate.comparison import compare_translations
from pellucid.evaluate.comparison_page import comparison_as_html, mark_differences
from tests.evaluate.sentences import make_references, mistranslate

HOSTILE = "</script></style><img src=x onerror=alert(1)> \"'& <svg onload=alert(2)>"
LINES = make_references(40, seed=1)
A, B = (mistranslate(LINES, wrong, seed=2) for wrong in (0.6, 0.2))
CSS = Path(comparison_page.__file__).with_name("page.css").read_text(encoding="utf-8")
VOID = {"meta", "line", "circle", "rect"}


class ParsedPage(HTMLParser):
    """Tags and text of a page; an AssertionError where tags are not closed in their order."""

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
    document = ParsedPage(comparison_as_html(comparison))
    for score in comparison.scores.values():
        assert f"{score.a.score:.2f}" in document.text
        assert score.signature in document.text
        assert score.verdict in document.text.replace("\u00a0", " ")
    for change in [*comparison.gained, *comparison.lost]:
        assert f"Line {change.line} " in document.text
        assert change.reference in document.text
    assert len([tag for tag, _ in document.tags if tag == "svg"]) == 4 + sum(
        len(grouping.buckets) for grouping in comparison.groupings.values()
    )


def test_hostile_texts_stay_text():
    lines = [HOSTILE, *LINES]
    comparison = compare_translations(
        [f"{HOSTILE} a", *A], [f"b {HOSTILE}", *B], lines, sources=lines, samples=9, show=99, names=(HOSTILE, HOSTILE)
    )
    document = ParsedPage(comparison_as_html(comparison))
    assert {tag for tag, _ in document.tags} & {"script", "img", "iframe", "a", "link"} == set()
    assert [key for _, attributes in document.tags for key in attributes if key.startswith("on")] == []
    assert document.text.count(HOSTILE) >= 4  # title and both names; the source, the reference


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
def test_differences_are_marked(a: str, b: str, left: str, right: str):
    assert mark_differences(a, b) == (left, right)


def relative_luminance(colour: str) -> float:
    """Return the relative luminance of an sRGB colour, as WCAG 2.2 defines it."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4 for channel in channels]
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
    bright, dim = sorted((relative_luminance(colours[ink]), relative_luminance(colours[paper])), reverse=True)
    assert (bright + 0.05) / (dim + 0.05) >= 4.5
