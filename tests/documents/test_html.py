import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pellucid.localize.documents.html import split_html
from pellucid.localize.documents.reading import DocumentReading
from pellucid.localize.documents.slots import fill_slots, list_slots


def split_texts(html: str) -> list[str]:
    return [slot.text for slot in list_slots(split_html(html, DocumentReading()))]


def translate_to_itself(html: str) -> str:
    """Split HTML and put it together again, each text translated into itself."""
    parts = split_html(html, DocumentReading())
    return fill_slots(parts, iter([slot.text for slot in list_slots(parts)]))


def test_block_tags_separate_texts_and_inline_tags_stay_inside():
    assert split_texts("<p>One <b>two</b>.</p><ul><li>Three<li>four</ul>five<br>six") == [
        "One <0>two</0>.",
        "Three",
        "four",
        "five",
        "six",
    ]


def test_entities_are_read_and_written():
    assert split_texts("Tom &amp; Jerry&nbsp;&eacute; &lt;b&gt;") == ["Tom & Jerry\xa0é <b>"]
    [text] = list_slots(split_html("Tom &amp; Jerry", DocumentReading()))
    assert text.write("Tomás & <b>", {}) == "Tomás &amp; &lt;b&gt;"


@pytest.mark.parametrize(
    "untouched",
    [
        "<!-- a <b>note</b> -->",
        "<!doctype html>",
        "<?xml version='1.0'?>",
        '<script>if (a < b) { c("</p>") }</script>',
        "<style>p > b { }</style>",
        "<pre>a\n  b</pre>",
        "<code>x = 1</code>",
        '<span class="a" translate="no">Pellucid</span>',
        "<i translate=no>Pellucid</i>",
        "<!-- never closed",
        "<script>never closed",
        "<p> </p>\n<img src='a.png' class=\"a > b\">\n",
    ],
)
def test_markup_and_code_are_not_translated(untouched: str):
    assert split_texts(untouched) == []
    assert translate_to_itself(untouched) == untouched


def test_markup_keeps_its_place_in_a_sentence():
    assert split_texts("Run <code>a &lt; b</code> now, <img src=x> or not.") == ["Run <0/> now, <1/> or not."]
    assert translate_to_itself("Run <code>a &lt; b</code> now.") == "Run <code>a &lt; b</code> now."


def test_a_closing_tag_has_the_number_of_its_opening_tag():
    assert split_texts("<i>a <b>b</i> c</b> d</u>") == ["<0>a <1>b</0> c</1> d</2>"]


def test_line_ends_in_a_text_are_spaces():
    assert split_texts("<p>\n  The ball\r\n\t is blue.\n</p>") == ["The ball is blue."]


def test_a_text_cannot_write_tags():
    parts = split_html("a <b>c</b>", DocumentReading())
    assert fill_slots(parts, iter(['<script>alert(1)</script> <0>x</0> <7> "'])) == (
        '&lt;script&gt;alert(1)&lt;/script&gt; <b>x</b> &lt;7&gt; "'
    )


def test_numbers_in_the_text_are_not_taken_for_tags():
    assert translate_to_itself("<b>a</b> &lt;0&gt; &lt;/1&gt;") == "<b>a</b> &lt;0&gt; &lt;/1&gt;"


PARTS = st.sampled_from(
    ["a", " ", "\n", "&", "&amp;", "&lt;", "< ", ">", "<b>", "</b>", "<p>", "</p>", "<0>", "<br/>", "<!--", "-->", '"']
)


@settings(max_examples=100, deadline=None)
@given(st.lists(PARTS, max_size=14).map("".join))
def test_html_translated_into_itself_is_unchanged_and_translated_otherwise_keeps_its_tags(html):
    from html.parser import HTMLParser

    class TagCollector(HTMLParser):
        def __init__(self):
            super().__init__()
            self.tags: list[str] = []

        def handle_starttag(self, tag, attrs):
            self.tags.append(tag)

        def handle_endtag(self, tag):
            self.tags.append("/" + tag)

    assert translate_to_itself(html) == html
    assume("<!-->" not in html)  # an empty comment for browsers, and for some versions of Python one that goes on
    parts = split_html(html, DocumentReading())
    before, after = TagCollector(), TagCollector()
    before.feed(html)
    after.feed(fill_slots(parts, iter([f"{slot.text} x" for slot in list_slots(parts)])))
    assert before.tags == after.tags


def test_many_unclosed_tags_are_split_quickly():
    for part in ("<!--", "<script>", "<a translate=no ", "<b ", "<!", '<b "', "&", "<0>"):
        translate_to_itself(part * 20_000)
