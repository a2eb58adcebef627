"""Pages that are templates, and pages in an attribute: instructions stay byte for byte, and what is shown is read."""

import pytest

from pellucid.localize.documents.html import split_html
from pellucid.localize.documents.readers import read_document
from pellucid.localize.documents.reading import DocumentReading
from pellucid.localize.documents.slots import fill_slots, list_slots
from tests.growth import assert_linear_work

EN_ES = ("en", "es")


def write_capitals(html: str) -> tuple[list[str], dict[str, int], str]:
    """Return the texts of a page, what is counted of it, and the page with its texts in capitals."""
    document = read_document("a.html", html.encode(), EN_ES)
    assert document.write(document.texts).decode() == html
    written = document.write([text.upper() for text in document.texts], language="es").decode()
    return document.texts, dict(+document.kept), written


@pytest.mark.parametrize(
    ("html", "texts"),
    [
        ("<p>GO <%= user.name %> GO</p>", ["GO <0/> GO"]),
        ('<p>GO<%= n > 3 ? "<b>" : "" %>GO</p>', ["GO<0/>GO"]),
        ("<%-- a %> note --%><p>GO</p>", ["GO"]),
        ('<p><?php echo "a > b"; if ($a > 3) { ?>GO<?php } ?></p>', ["<0/>GO<1/>"]),
        ("<p><?= $a->b ?> GO</p>\n<?php exit; // <p>no words</p>", ["<0/> GO"]),
        ("<p><? if ($a > 3) ?>GO</p>", ["<0/>GO"]),
        ("<p>GO {{ user.name | upper }} GO {{{ raw }}}</p>", ["GO <0/> GO <1/>"]),
        ("{% extends 'a.html' %}<p>{% if a > 3 %}GO{% endif %}</p>", ["<0/>GO<1/>"]),
        ("{# <p>a note</p> #}<p>GO{{!-- <p>a note</p> --}}</p>", ["GO<0/>"]),
        ("<p>GO ${user.name} #{user.name}</p>", ["GO <0/> <1/>"]),
        ("<#if a><p>GO</p></#if><@macro b='c'/>", ["GO"]),
        ("<#if (a.size() > 3) && b == '>'><p>GO</p></#if><#if (a><p>GO</p>", ["GO", "GO"]),
        ("<p>{{ alone }}</p><p title='{{ alone }}'></p>", []),
        ('<a href="<?php echo "a" ?>" title="GO">GO</a>', ["<0>GO</0>", "GO"]),
        ('<p class="<%= a ? "b" : "c" %>" title="GO <%= d %>">GO</p>', ["GO <0/>", "GO"]),
        ("<div <%= attributes > 3 %> title='GO'>GO</div>", ["GO", "GO"]),
        ("<input placeholder={{a}} title=GO>", None),
        ("<{{ tag }} class='a > b'>GO</{{ tag }}>", ["<0>GO</0>"]),
        ("<title>{{ page.title }} | GO</title>", ["<0/> | GO"]),
        ("<head>{% block head %}<title>GO</title>{% endblock %}</head>", ["GO"]),
        ("<pre>{{ kept }} <%= kept %></pre>", []),
        ("<script>let a = `${b}`; let c = {{ d | json }};</script><p>GO</p>", ["GO"]),
        ('<html lang="{{ lang }}"><p lang="<?= $l ?>">GO</p>', ["GO"]),
        ('<meta charset="<?php charset() ?>"><p>GO</p>', ["GO"]),
    ],
)
def test_instructions_of_templates_stay_byte_for_byte(html, texts):
    # The words are in capitals already, so that all that changes would be an instruction.
    found, _, written = write_capitals(html)
    assert written.replace("ES", "es") == html or 'title="GO"' in written
    assert "&lt;" not in written
    if texts is not None:
        assert found == texts


@pytest.mark.parametrize(
    "html", ["<p>use {{ to open</p><p>and }} to close</p>", "<p>a <% b</p>", "<p>50%} {b} $ {c</p>", "<p>{{{{</p>"]
)
def test_signs_of_templates_that_do_not_fit_are_text(html):
    assert write_capitals(html)[2].upper() == html.upper().replace("<%", "&LT;%")


@pytest.mark.parametrize(
    ("value", "texts", "written"),
    [
        ("<p>a <b>c</b></p>", ["a <0>c</0>"], "<p>A <b>C</b></p>"),
        ("&lt;p&gt;a &amp;amp; c&lt;/p&gt;", ["a & c"], "&lt;p&gt;A &amp;amp; C&lt;/p&gt;"),
        ("<img alt=&quot;a&quot;>c", ["<0/>c", "a"], "<img alt=&quot;A&quot;>C"),
        ("<img alt=&#34;a&#34; title=c>", ["a", "c"], "<img alt=&#34;A&#34; title=&#34;C&#34;>"),
        ("plain", ["plain"], "PLAIN"),
        ("<pre>a</pre>", [], "<pre>a</pre>"),
    ],
)
def test_the_page_in_an_attribute_of_a_frame_is_translated(value, texts, written):
    html = f'<iframe src="x" srcdoc="{value}" title="b"></iframe>'
    found, kept, page = write_capitals(html)
    assert found == [*texts, "b"]
    assert page == html.replace(value, written).replace('"b"', '"B"')
    assert kept == ({"code": 1} if "<pre>" in value else {})


def test_a_translation_cannot_end_the_attribute_that_it_stands_in():
    html = "<iframe srcdoc='<p title=\"a\">c</p>'></iframe>"
    parts = split_html(html, DocumentReading(EN_ES))
    assert fill_slots(parts, iter(["\"'<x>", "'&\""])) == (
        '<iframe srcdoc=\'<p title="&amp;quot;&amp;#x27;&amp;lt;x&amp;gt;">&#39;&amp;amp;"</p>\'></iframe>'
    )


@pytest.mark.parametrize(
    "frame",
    [
        '<iframe srcdoc="<p>a &quot;&#34; b</p>"></iframe>',  # a sign that is written in two ways
        '<iframe srcdoc="caf&eacute;"></iframe>',
        "<iframe srcdoc=plain></iframe>",
        "<iframe srcdoc=\"<iframe srcdoc='a frame in a frame'></iframe>\"></iframe>",
    ],
)
def test_pages_in_an_attribute_that_are_not_read_are_counted(frame):
    assert write_capitals(frame) == ([], {"other": 1}, frame)


def test_keywords_of_a_page_are_counted():
    html = '<meta name="keywords" content="ball, house">'
    assert write_capitals(html) == ([], {"other": 1}, html)


GROWING = [
    "<%",
    "<?php ",
    "<?= ",
    "{{",
    "{{ a }}",
    "{% ",
    "{#",
    "${",
    "<#if",
    "<#if (a ",
    '<@a "',
    "<iframe srcdoc='a'>",
    "{{!--",
    "<%--",
]


@pytest.mark.parametrize("unit", GROWING)
def test_twice_the_template_is_twice_the_work(unit):
    def work(size: int) -> None:
        parts = split_html(unit * size, DocumentReading(EN_ES))
        fill_slots(parts, iter([f"{slot.text} x" for slot in list_slots(parts)]), language="es")

    assert_linear_work(work, 60, "documents")
