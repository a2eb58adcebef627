"""The table of formats: what it says of each is what its reader does."""

import pytest

from pellucid.localize.documents.formats import DOCUMENT_FORMATS, FORMATS, document_suffix, list_kept_kinds
from pellucid.localize.documents.readers import read_document
from pellucid.localize.documents.reading import KEPT_KINDS
from tests.documents.samples import (
    SAMPLES,
    make_docx,
    make_epub,
    make_odt,
    make_pptx,
    make_shape,
    make_zip,
    read_zip,
)

BALL = "<w:p><w:r><w:t>A ball.</w:t></w:r></w:p>"
FORMULA = '<m:oMath xmlns:m="urn:m"><m:t>mass</m:t></m:oMath>'
COMMENT = '<w:comment w:id="1"><w:p><w:r><w:t>Is it red?</w:t></w:r></w:p></w:comment>'
READING = "<w:ruby><w:rt><w:r><w:t>re</w:t></w:r></w:rt><w:rubyBase><w:r><w:t>red</w:t></w:r></w:rubyBase></w:ruby>"
UNIT = '<unit id="1"{}><segment><source>A ball.</source>{}</segment></unit>'
XLIFF = '<xliff version="2.0" srcLang="en" trgLang="es"><file id="f">{}</file></xliff>'
UNIT_1 = '<trans-unit id="1"{}><source>A ball.</source>{}</trans-unit>'
XLIFF_1 = (
    '<xliff version="1.2" xmlns:{}><file source-language="en" target-language="es" original="a" datatype="x"><body>{}'
    "</body></file></xliff>"
)
PHRASE = 'm="http://www.memsource.com/mxlf/2.0"'
SECOND_LANGUAGE = '<tuv xml:lang="{}"><seg>A ball.</seg></tuv>'
ICU = "{n, plural, one {a} other {b}"

# A document for each kind of what a format keeps: the one that its sample has not.
EXAMPLES = {
    ("a.html", "protected"): '<p translate="no">Acme</p>',
    ("a.html", "other"): "<textarea>Your name</textarea>",
    ("a.md", "protected"): '<p translate="no">Acme</p>\n',
    ("a.xml", "other"): "<resources><array name='a'><item>Red</item><item>@string/b</item></array></resources>",
    ("a.json", "code"): '{"a": "home.title"}',
    ("a.json", "comments"): '{"_comment": "Of the shop.", "a": "A ball."}',
    ("a.json", "other"): f'{{"a": "{ICU}"}}',
    ("a.yml", "comments"): "en:\n  _comment: Of the shop.\n",
    ("a.yml", "other"): "en:\n  a: |1\n     The ball.\n",
    ("a.srt", "other"): "By Ann\n\n1\n00:00:01,000 --> 00:00:02,000\nYes.\n",
    ("a.odp", "other"): make_odt(
        '<presentation:footer-decl presentation:name="f">A footer</presentation:footer-decl>', "presentation"
    ),
    ("a.vtt", "other"): "WEBVTT\n\n00:01.000 --> 00:02.000\nYes.\n\nNobody sees this.\n",
    ("a.xliff", "other"): XLIFF_1.format("m='m'", UNIT_1.format(' restype="x-gettext-domain-header"', "")),
    ("b.xlf", "translated"): XLIFF.format(UNIT.format("", "<target>Una bola.</target>")),
    ("a.mxliff", "protected"): XLIFF_1.format(PHRASE, UNIT_1.format(' m:locked="true"', "")),
    ("a.docx", "comments"): make_docx(BALL, comments=COMMENT),
    ("a.docx", "other"): make_docx(f"<w:p><w:r>{READING}</w:r></w:p>"),
    ("a.pptx", "code"): make_pptx(make_shape(f"<a:p>{FORMULA}</a:p>")),
    ("a.odt", "code"): make_odt("<text:p>Of <text:author-name>Ann</text:author-name>.</text:p>"),
    ("a.odt", "comments"): make_odt(
        "<text:p>A ball.<office:annotation><text:p>Red?</text:p></office:annotation></text:p>"
    ),
    ("a.odt", "deleted"): make_odt("<text:tracked-changes><text:p>A red one.</text:p></text:tracked-changes>"),
    ("a.odt", "other"): make_odt(
        "<text:p><text:ruby><text:ruby-base>red</text:ruby-base><text:ruby-text>re</text:ruby-text></text:ruby></text:p>"
    ),
    ("a.ods", "named"): make_odt(
        '<table:table><table:table-row><table:table-cell office:value-type="string"><text:p>Red</text:p>'
        '</table:table-cell><table:table-cell table:formula="of:=IF([.A1]=&quot;Red&quot;;1;2)"/></table:table-row>'
        "</table:table>",
        "spreadsheet",
    ),
    ("a.epub", "protected"): make_epub('<p translate="no">Acme</p>'),
    ("a.epub", "code"): make_epub("<pre>let</pre>"),
    ("a.epub", "other"): make_epub("<p><textarea>Your name</textarea></p>"),
}


def read_example(name: str, content: str | bytes):
    return read_document(name, content.encode() if isinstance(content, str) else content, ("en", "es"))


@pytest.mark.parametrize("described", FORMATS, ids=lambda described: described.name)
def test_each_kind_of_text_that_a_format_keeps_is_counted_in_one_of_its_documents(described):
    found = set()
    documents = [(name, content) for name, (content, _) in SAMPLES.items()]
    documents += [(name, content) for (name, _), content in EXAMPLES.items()]
    for name, content in documents:
        if document_suffix(name) in described.media_types:
            found |= set(+read_example(name, content).kept)
    assert set(described.kept) <= found
    assert found <= {*described.kept, "without letters"}


@pytest.mark.parametrize(("name", "kind"), EXAMPLES)
def test_what_an_example_is_for_is_counted_in_it(name, kind):
    assert read_example(name, EXAMPLES[name, kind]).kept[kind] == 1


@pytest.mark.parametrize("name", [name for name in SAMPLES if DOCUMENT_FORMATS[document_suffix(name) or ""].is_xml])
def test_a_character_that_xml_cannot_hold_is_counted_in_every_format_of_xml(name):
    def spoil(text: str) -> str:
        return text.replace("ball", "ba&#x1F;ll").replace("A book", "A bo&#x1F;ok")

    content = SAMPLES[name][0]
    if DOCUMENT_FORMATS[document_suffix(name) or ""].is_text:
        spoilt = spoil(content.decode()).encode()
    else:
        spoilt = make_zip({member: spoil(text) for member, text in read_zip(content).items()})
    assert read_example(name, spoilt).kept["unfit characters"] > 0


def test_the_table_names_known_kinds_and_says_something_of_each():
    for described in FORMATS:
        assert set(described.kept) <= set(KEPT_KINDS)
        assert described.translated
        assert all(described.kept.values())
        assert all(list_kept_kinds(suffix) >= set(described.kept) for suffix in described.media_types)
    assert sum(len(described.media_types) for described in FORMATS) == len(DOCUMENT_FORMATS)
