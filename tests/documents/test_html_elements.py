"""Elements of pages: how far one reaches, what in it is kept, and the attributes that people read."""

import pytest

from pellucid.localize.documents.html import split_html
from pellucid.localize.documents.readers import read_document
from pellucid.localize.documents.reading import DocumentReading
from pellucid.localize.documents.slots import fill_slots, list_slots
from tests.growth import assert_linear_work

EN_ES = ("en", "es")


def read_texts(html: str) -> list[str]:
    return [slot.text for slot in list_slots(split_html(html, DocumentReading(EN_ES)))]


def write_capitals(html: str, language: str | None = "es") -> str:
    """Return a page with its plain texts in capitals."""
    document = read_document("a.html", html.encode(), EN_ES)
    return document.write([text.upper() for text in document.texts], language=language).decode()


@pytest.mark.parametrize(
    ("html", "texts"),
    [
        ("<div translate=no><p>keep</p><div>keep</div>keep</div>go", ["go"]),
        ("<ul translate='no'><li>keep<ul><li>keep</ul>keep</ul>go", ["go"]),
        ('<span class="a notranslate b">keep<span>keep</span>keep</span> go', ["<0/> go"]),
        ("<p translate=no>keep<p>go", ["go"]),
        ("<p translate=no>keep<div>go</div>", ["go"]),
        ("<ul><li translate=no>keep<li>go</ul>", ["go"]),
        ("<dl><dt translate=no>keep<dd>go</dl>", ["go"]),
        ("<table><tr><td translate=no>keep<td>go<tr><td>too</table>", ["go", "too"]),
        ("<select><option translate=no>keep<option>go</select>", ["go"]),
        ("<img translate=no alt=keep>go<br translate=no>too", ["<0/>go", "too"]),
        ("<div translate='no'/>keep</div>go", ["go"]),
        ("<div translate=no>keep", []),
        ("<div translate=no><p>keep</div>go", ["go"]),
        ("<div><span translate=no>keep</div>go", ["go"]),
        ("<div translate=no></p></span>keep</div>go", ["go"]),
        # A browser opens formatting again that was closed with its paragraph, and ends it at a block.
        ("<p><b translate=no>keep</p><p>keep</b> go</p>", ["<0/></1> go"]),
        ("<b translate=no><p>keep</b>go</p>", ["<0/></1>go"]),
        ("<a translate=no>keep<a>go</a>", ["<0><1/><2>go</2>"]),
        ("<div translate=no>keep <i translate=yes>go</i> keep</div>", ["<0/><1>go</1><2/>"]),
        ("<p>A <b translate=no>keep <i translate=''>go</i></b> b</p>", ["A <0><1/><2>go</2></0> b"]),
        ("<div class=notranslate translate=yes>keep</div>", []),
        ("<p translate=NO>keep</p><p translate=maybe>go</p>", ["go"]),
        (
            "<p>The <em lang=fr>chat</em> <span lang=de>und <b lang=en-GB>go</b></span>.</p>",
            ["The <0/> <1><2/><3>go</3></1>."],
        ),
        ("<p lang=''>go</p><p lang=und>go</p><p lang=x>go</p><p lang=eng>go</p>", ["go"] * 4),
        ("<html lang=de><body lang=de><p>go</p>", ["go"]),
        ("<pre>keep <b>keep</b></pre><pre translate=yes>go</pre>", ["go"]),
        ("<code>keep <code>keep</code> keep</code> go", ["<0/> go"]),
        ("<svg><title>keep</title><g>keep<svg/></g></svg> go", ["<0/> go"]),
        ("<svg><path/><style>keep</svg> go", ["<0/> go"]),
        ("<svg>keep<p>go</p>", ["go"]),
        ("<math><mi>keep</mi></math> go", ["<0/> go"]),
        ("<textarea>keep <b></textarea> go</b>", ["<0/> go</1>"]),
        ("<title>A <b> &amp; more</title>", ["A <b> & more"]),
        ("<script>'<!-- <script> </script>' keep</script>go", ["<0/>go"]),
        ("<script><!-- keep</script>go", ["<0/>go"]),
        ("<style>keep</styles></style >go", ["<0/>go"]),
        ("<xmp>keep <p>keep</xmp>go", ["go"]),
        ("<!-->go", ["<0/>go"]),
        ("<!--->go", ["<0/>go"]),
        ("<!-- keep --!>go", ["<0/>go"]),
        ("<!-- keep > -- > keep -->go", ["<0/>go"]),
        ("<!x 'keep>go", ["<0/>go"]),
        ("<? keep ?>go</ keep>too", ["<0/>go<1/>too"]),
        ("a < b, a <3", ["a < b, a <3"]),
        ("<p title='a > b' class=x>go</p>", ["a > b", "go"]),
        ('<p b"c>go">too</p>', ['go">too']),
    ],
)
def test_an_element_reaches_as_far_as_in_a_browser(html, texts):
    assert read_texts(html) == texts
    parts = split_html(html, DocumentReading(EN_ES))
    assert fill_slots(parts, iter(texts)) == html
    kept = fill_slots(parts, iter([text.replace("go", "GO").replace("too", "TOO") for text in texts]))
    assert kept.replace("GO", "go").replace("TOO", "too").count("keep") == html.count("keep")


@pytest.mark.parametrize(
    ("html", "text", "written"),
    [
        ("The <ruby>cat<rp>(</rp><rt>neko</rt><rp>)</rp></ruby> is here.", "The cat is here.", "THE CAT IS HERE."),
        ("The <ruby>cat<rt>neko</ruby> is here.", "The cat is here.", "THE CAT IS HERE."),
        ("<ruby>a<rp>(<rt>x<rp>)</ruby>b", "ab", "AB"),
        ("The <ruby><b>cat</b><rt><i>neko</i></rt></ruby>.", "The <0>cat</0>.", "THE <b>CAT</b>."),
        ("A <ruby><rb>cat</rb><rtc><rt>x</rt><rt>y</rt></rtc></ruby> b", "A cat b", "A CAT B"),
        ("A <ruby>b<rt>x</rt>c<rt>y</rt></ruby>", "A bc", "A BC"),
        ("A <i translate=no><ruby>b<rt>x</rt></ruby></i>", "A <0/>", "A <i translate=no><ruby>b<rt>x</rt></ruby></i>"),
    ],
)
def test_of_a_ruby_its_base_is_translated_and_its_reading_is_dropped(html: str, text: str, written: str):
    assert read_texts(f"<p>{html}</p>") == [text]
    assert write_capitals(f"<p>{html}</p>", None) == f"<p>{written}</p>"


def test_a_ruby_without_words_and_one_that_is_kept_stay():
    for html in ("<p><ruby>12<rt>juni</rt></ruby></p>", "<p translate=no>A <ruby>b<rt>x</rt></ruby></p>"):
        assert write_capitals(html, None) == html


def test_what_is_kept_is_counted_by_kind_one_for_each_text():
    html = (
        "<p>The <b translate=no>ball</b> and <i class=notranslate>more</i>.</p><div translate=no>One <b>text</b>."
        "<p>Another.</p><p>12</p></div><p lang=fr>Le chat.</p><pre>some\ncode</pre><p>Run <code>x</code>.</p>"
        "<script>var a</script><style>b {}</style><textarea>a value</textarea>"
    )
    reading = DocumentReading(EN_ES)
    split_html(html, reading)
    assert reading.kept == {"protected": 5, "code": 4, "other": 1}


@pytest.mark.parametrize(
    ("html", "written"),
    [
        ('<img alt="a &amp; b">', '<img alt="A &amp; B">'),
        ("<img alt=cat src=cat.png>", '<img alt="CAT" src=cat.png>'),
        ("<img ALT = 'it&#39;s' >", "<img ALT = 'IT&#x27;S' >"),
        ('<img alt="" title=" a ">', '<img alt="" title=" A ">'),
        ('<input placeholder="a" value="a" type="text">', '<input placeholder="A" value="a" type="text">'),
        ('<input type="Submit" value="a"><input type="hidden" value="a">', None),
        ('<input value="a"><option label="b" value="c">', '<input value="a"><option label="B" value="c">'),
        ('<table summary="a"><th abbr="b">', '<table summary="A"><th abbr="B">'),
        ('<track label="a" kind="b">', '<track label="A" kind="b">'),
        ('<div aria-label="a" aria-labelledby="b" aria-description="c" id="d" class="e" data-title="f">', None),
        ('<div aria-valuetext="a" aria-roledescription="b" aria-valuenow="c"></div>', None),
        ('<meta name="Description" content="a"><meta property="og:title" content="b">', None),
        ('<meta name="twitter:card" content="summary"><meta name="viewport" content="a">', "same"),
        ('<meta name="twitter:title" content="a"><meta name="keywords" content="b">', None),
        ('<link rel="alternate stylesheet" title="a"><style title="a"></style>', "same"),
        ('<p translate=no title="a"><img alt="b"></p><p lang="fr" title="c"></p>', "same"),
        ('<code title="a">x</code><svg aria-label="b"></svg>', '<code title="A">x</code><svg aria-label="B"></svg>'),
        ('<textarea placeholder="a">b</textarea>', '<textarea placeholder="A">b</textarea>'),
        ('<img alt="a" alt="b">', '<img alt="A" alt="b">'),
        ('<img alt="never closed', "same"),
    ],
)
def test_attributes_that_people_read_or_hear_are_translated_and_others_stay(html, written):
    expected = {
        '<input type="Submit" value="a"><input type="hidden" value="a">': (
            '<input type="Submit" value="A"><input type="hidden" value="a">'
        ),
        '<div aria-label="a" aria-labelledby="b" aria-description="c" id="d" class="e" data-title="f">': (
            '<div aria-label="A" aria-labelledby="b" aria-description="C" id="d" class="e" data-title="f">'
        ),
        '<div aria-valuetext="a" aria-roledescription="b" aria-valuenow="c"></div>': (
            '<div aria-valuetext="A" aria-roledescription="B" aria-valuenow="c"></div>'
        ),
        '<meta name="Description" content="a"><meta property="og:title" content="b">': (
            '<meta name="Description" content="A"><meta property="og:title" content="B">'
        ),
        '<meta name="twitter:title" content="a"><meta name="keywords" content="b">': (
            '<meta name="twitter:title" content="A"><meta name="keywords" content="b">'
        ),
    }
    assert write_capitals(html) == (html if written == "same" else written or expected[html])


def test_an_attribute_inside_a_sentence_is_a_text_of_its_own():
    html = '<p>The <img alt="red" src=x> ball <a title="more" href=x>here</a>.</p>'
    assert read_texts(html) == ["The <0/> ball <1>here</1>.", "red", "more"]
    parts = split_html(html, DocumentReading(EN_ES))
    written = fill_slots(parts, iter(["<1>Aquí</1> la <0/> bola.", 'la "roja"', "más"]))
    assert written == '<p><a title="más" href=x>Aquí</a> la <img alt="la &quot;roja&quot;" src=x> bola.</p>'


@pytest.mark.parametrize(
    ("html", "language", "written"),
    [
        ('<html lang="en">', "es", '<html lang="es">'),
        ("<html lang=en-US xml:lang='EN'>", "es-MX", "<html lang=es-MX xml:lang='es-MX'>"),
        ('<html lang="eng">', "es", '<html lang="es">'),
        ('<html lang="de">', "es", '<html lang="de">'),
        ('<html lang="en">', None, '<html lang="en">'),
        ("<html>", "es", "<html>"),
        ('<html lang="en">', "ar", '<html dir="rtl" lang="ar">'),
        ('<html lang="en" dir="ltr">', "he", '<html lang="he" dir="rtl">'),
        ('<html lang="en" dir="auto">', "fa", '<html lang="fa" dir="auto">'),
        ('<html lang="en" dir=rtl>', "es", '<html lang="es" dir=ltr>'),
        ('<html lang="en">', "ur-Latn", '<html lang="ur-Latn">'),
        ('<p lang="en">a <b lang="es">b</b></p>', "es", '<p lang="es">a <b lang="es">b</b></p>'),
        ('<p translate="no" lang="en">a</p>', "es", '<p translate="no" lang="en">a</p>'),
        ('<a hreflang="en" href="en">1</a>', "es", '<a hreflang="en" href="en">1</a>'),
        (
            '<meta http-equiv="Content-Language" content="en">',
            "es",
            '<meta http-equiv="Content-Language" content="es">',
        ),
        ('<meta property="og:locale" content="en_US">', "pt-BR", '<meta property="og:locale" content="pt_BR">'),
        (
            "<meta property=og:locale:alternate content=en_US>",
            "es",
            "<meta property=og:locale:alternate content=en_US>",
        ),
    ],
)
def test_a_page_names_the_language_of_its_translation(html, language, written):
    document = read_document("a.html", html.encode(), EN_ES)
    assert document.write(document.texts, language=language).decode() == written


def test_a_page_whose_language_nobody_names_says_it_itself():
    document = read_document("a.html", b'<html lang="de"><p lang="de">Ja.</p><p lang="en">No.</p>')
    assert document.texts == ["Ja."]
    written = document.write(["Yes."], language="fr")
    assert written == b'<html lang="fr"><p lang="fr">Yes.</p><p lang="en">No.</p>'


def test_line_ends_stay_beside_their_tags_and_about_where_they_stood_among_the_words():
    html = "<p>\n The <a>ball</a>\n  <a>is</a>\n and\n<b>blue</b>\n   or red and\n green.\n</p>"
    document = read_document("a.html", html.encode(), EN_ES)
    [text] = document.texts
    assert text == "The <0>ball</0> <1>is</1> and <2>blue</2> or red and green."
    written = document.write([text.replace("a", "A")])
    assert written.decode() == html.replace(" a", " A").replace("ball", "bAll")
    moved = document.write(["<2>azul</2> <1>es</1> la <0>bola</0>."]).decode()
    assert " ".join(moved.split()) == "<p> <b>azul</b> <a>es</a> la <a>bola</a>. </p>"


GROWING = [
    "<div translate=no>", "<b translate=no>", "</b>", "<p><button><div></p>", "<li>", "<!--", "<script><!--", "<title>",
    "<a b=", "<a b='", "<a ", "<", "</", "<svg>", "<svg><p>", "<table><tr><td>", "<i class=notranslate><td>",
    "<img alt='x y'>", "<p lang=fr>x", "<option>x", "<ruby><rt>", "<code>x</code> ", "</p>", "<![CDATA[", "x\n<b>y</b>",
    "<b translate=no><i translate=yes></b>", "<font><p><span></font>", "<b><div translate=no>",
    "<span translate=no>a<b translate=yes>c</b></span>", "a\n",
]  # fmt: skip
PAIRS = [
    ("<div translate=no>", "</div>"),
    ("<b translate=no><div translate=no>", "</b>"),
    ("<b><i translate=no>", "</b>"),
    ("<span translate=no>a<i translate=yes>b", "</i></span>"),
    ("<b translate=no>", "<p>x</p>"),
    ("<i>", "<div></i>"),
]


@pytest.mark.parametrize(("first", "second"), [(unit, "") for unit in GROWING] + PAIRS)
def test_twice_the_page_is_twice_the_work(first, second):
    def work(size: int) -> None:
        parts = split_html(first * size + second * size, DocumentReading(EN_ES))
        fill_slots(parts, iter([f"{slot.text} x" for slot in list_slots(parts)]), language="es")

    assert_linear_work(work, 60, "documents")
