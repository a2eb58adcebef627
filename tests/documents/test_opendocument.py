"""OpenDocument: what is translated in texts, slides and sheets, what stays, and how both are written."""

import pytest
from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]

from pellucid.localize.documents.readers import read_document
from tests.documents.samples import ODF, make_odt, make_zip, read_zip


def read_body(body: str, kind: str = "text", **more: str):
    """Return the document with this body, and what its body is when it is written."""
    content = make_odt(body, kind, **more)
    document = read_document("a.odt", content, ("en", "es"))
    assert document.write(document.texts) == content

    def write(*translations: str, language: str | None = None) -> str:
        # The last text is that of the header, which every one of these documents has.
        written = read_zip(document.write([*translations, "H."], language=language))["content.xml"]
        etree.fromstring(written.encode())
        return written.partition(f"<office:{kind}>")[2].rpartition(f"</office:{kind}>")[0]

    assert document.texts[-1] == "A header."
    return document, document.texts[:-1], write


def test_spaces_of_a_paragraph_stay_as_many_as_they_were():
    _, texts, write = read_body('<text:p>Name:<text:s text:c="7"/> Tom<text:tab/>and Ann.</text:p>')
    assert texts == ["Name: <0/>Tom\tand Ann."]
    # The space before the others is the model's, and one of eight.
    assert write("Nombre: <0/>Tom\ty Ann.") == ('<text:p>Nombre: <text:s text:c="7"/>Tom<text:tab/>y Ann.</text:p>')


def test_spaces_at_the_beginning_of_a_paragraph_stay_elements():
    _, texts, write = read_body('<text:p><text:s text:c="3"/>A ball.</text:p>')
    assert texts == ["A ball."]
    assert write("Una bola.") == '<text:p><text:s text:c="3"/>Una bola.</text:p>'


def test_several_spaces_in_a_translation_become_elements():
    _, _, write = read_body("<text:p>A ball.</text:p>")
    assert write("Una   bola.\n\tRoja.") == (
        '<text:p>Una <text:s text:c="2"/>bola.<text:line-break/><text:tab/>Roja.</text:p>'
    )


def test_fields_stay_and_those_with_words_are_counted():
    body = (
        "<text:p>On page <text:page-number>3</text:page-number> by <text:author-name>Ann</text:author-name>, see "
        '<text:bookmark-ref text:ref-name="b">the house</text:bookmark-ref>.</text:p>'
    )
    document, texts, write = read_body(body)
    assert texts == ["On page <0/> by <1/>, see <2>the house</2>."]
    assert dict(+document.kept) == {"code": 1}
    assert "<text:author-name>Ann</text:author-name>" in write("En <0/> de <1/>, ve <2>la casa</2>.")


def test_of_a_ruby_its_base_is_translated_and_its_reading_is_dropped_and_counted():
    body = (
        "<text:p>The <text:ruby><text:ruby-base>cat</text:ruby-base><text:ruby-text>neko</text:ruby-text></text:ruby>"
        " is here.</text:p>"
    )
    document, texts, write = read_body(body)
    assert texts == ["The cat is here."]
    assert dict(+document.kept) == {"other": 1}
    assert write("El gato.") == "<text:p>El gato.</text:p>"


def test_pictures_are_described_in_the_language_of_the_translation():
    picture = (
        "<draw:frame><draw:image/><svg:title>A ball</svg:title><svg:desc>It is red &amp; small.</svg:desc></draw:frame>"
    )
    _, texts, write = read_body(f"<text:p>Look: {picture}it is red.</text:p>")
    assert texts == ["Look: <0/>it is red.", "A ball", "It is red & small."]
    written = write("Mira: <0/>es roja.", "Una bola", "Es < grande.")
    assert "<svg:title>Una bola</svg:title><svg:desc>Es &lt; grande.</svg:desc>" in written


def test_comments_and_deleted_text_stay_and_are_counted_unless_comments_are_asked_for():
    changes = "<text:tracked-changes><text:changed-region><text:deletion><text:p>A cat.</text:p></text:deletion>"
    changes += "</text:changed-region></text:tracked-changes>"
    comment = "<office:annotation><text:p>Is it red?</text:p></office:annotation>"
    body = f"{changes}<text:p>A{comment} ball.</text:p>"
    document, texts, _ = read_body(body)
    assert texts == ["A<0/> ball."]
    assert dict(+document.kept) == {"deleted": 1, "comments": 1}
    document = read_document("a.odt", make_odt(body), with_comments=True)
    assert document.texts == ["A<0/> ball.", "Is it red?", "A header."]
    assert dict(+document.kept) == {"deleted": 1}
    assert "¿Roja?" in read_zip(document.write(["Una<0/> bola.", "¿Roja?", "H."]))["content.xml"]


def test_raised_signs_stay_where_they_are_even_if_a_translation_has_none():
    styles = (
        "<office:automatic-styles><style:style style:name='T1' style:family='text'>"
        "<style:text-properties style:text-position='super 58%'/></style:style></office:automatic-styles>"
    )
    files = read_zip(make_odt('<text:p>One<text:span text:style-name="T1">2</text:span> and more.</text:p>'))
    files["content.xml"] = files["content.xml"].replace("<office:body>", styles + "<office:body>")

    document = read_document("a.odt", make_zip({**files}))
    assert document.texts == ["One<0/> and more.", "A header."]
    written = read_zip(document.write(["Uno y más.", "H."]))["content.xml"]
    assert '<text:span text:style-name="T1">2</text:span>' in written


@pytest.mark.parametrize(
    ("language", "named"),
    [
        ("pt-BR", 'fo:language="pt" fo:country="BR" style:language-asian="zh"'),
        ("es", 'fo:language="es" fo:country="none" style:language-asian="zh"'),
        ("ja", 'fo:language="en" fo:country="US" style:language-asian="ja" style:country-asian="none"'),
    ],
)
def test_the_language_of_text_is_that_of_the_translation(language, named):
    properties = '<style:text-properties fo:language="en" fo:country="US" style:language-asian="zh"/>'
    none = '<style:text-properties fo:language="zxx" fo:country="none"/>'
    style = f"<style:default-style>{properties}</style:default-style><style:style>{none}</style:style>"
    styles = f"<office:document-styles {ODF}><office:styles>{style}</office:styles></office:document-styles>"
    content = make_odt("<text:p>A ball.</text:p>", **{"styles.xml": styles})
    document = read_document("a.odt", content, ("en", language))
    written = read_zip(document.write(["B."], language=language))["styles.xml"]
    assert f"<style:text-properties {named}/>" in written
    assert none in written
    assert read_zip(document.write(["B."]))["styles.xml"] == styles


def test_cells_with_values_and_formulas_stay_and_formulas_are_counted():
    def cell(attributes: str, text: str) -> str:
        return f"<table:table-cell {attributes}><text:p>{text}</text:p></table:table-cell>"

    cells = [
        cell('office:value-type="string"', "A ball"),
        cell("", "A house"),
        cell('office:value-type="date" office:date-value="2020-01-01"', "1 January"),
        cell('office:value-type="string" table:formula="of:=A1"', "A ball"),
        cell('office:value-type="boolean" office:boolean-value="true"', "TRUE"),
    ]
    document, texts, write = read_body(
        f"<table:table><table:table-row>{''.join(cells)}</table:table-row></table:table>", "spreadsheet"
    )
    assert texts == ["A ball", "A house"]
    assert document.kept["code"] == 1
    written = write("Una bola", "Una casa")
    assert "1 January" in written
    assert written.count("A ball") == 1


def test_texts_that_a_formula_compares_with_stay_and_are_counted():
    cells = (
        '<table:table-cell office:value-type="string"><text:p>Red <text:span>ball</text:span></text:p>'
        "</table:table-cell>"
        '<table:table-cell office:value-type="string"><text:p>Blue ball</text:p></table:table-cell>'
        '<table:table-cell table:formula="of:=IF([.A1]=&quot;red ball&quot;;1;2)" office:value-type="float"/>'
    )
    document, texts, write = read_body(
        f"<table:table><table:table-row>{cells}</table:table-row></table:table>", "spreadsheet"
    )
    assert texts == ["Blue ball"]
    assert dict(+document.kept) == {"named": 1, "code": 1}
    assert "Red <text:span>ball" in write("Bola azul")


def test_an_element_of_very_many_spaces_stays_an_element():
    number = "9" * 5000
    _, texts, write = read_body(f'<text:p>A<text:s text:c="{number}"/>ball <text:s text:c="101"/>here.</text:p>')
    assert [len(text) < 30 for text in texts] == [True]
    assert 'text:c="101"' in write(texts[0].replace("ball", "bola"))


def test_headers_and_footers_of_pages_are_no_fields():
    document, texts, _ = read_body("<text:p>A ball.</text:p>")
    assert texts == ["A ball."]
    assert not +document.kept


def test_charts_inside_a_document_are_read():
    chart = f"<office:document-content {ODF}><office:body><office:chart><text:p>Balls by colour</text:p></office:chart>"
    chart += "</office:body></office:document-content>"
    content = make_odt("<text:p>A ball.</text:p>", **{"Object 1/content.xml": chart})
    assert read_document("a.odt", content).texts == ["A ball.", "A header.", "Balls by colour"]


FORM = 'xmlns:form="urn:oasis:names:tc:opendocument:xmlns:form:1.0"'


def test_labels_of_forms_are_translated_and_what_is_typed_or_chosen_is_counted():
    controls = (
        '<form:button form:label="Send it" form:title="A tip" form:name="button"/>'
        '<form:textarea form:current-value="A typed text"><text:p>A typed text</text:p></form:textarea>'
        '<form:text form:value="Your name" form:current-value="12"/><form:text form:value="12"/>'
        '<form:listbox form:title="Colours"><form:option form:label="Red" form:value="r"/></form:listbox>'
        '<form:grid><form:column form:label="A column"><form:text form:title="In it"/></form:column></form:grid>'
        '<form:combobox form:value="Blue"><form:item form:label="Blue"/></form:combobox>'
    )
    body = f"<office:forms {FORM}><form:form>{controls}</form:form></office:forms><text:p>A ball.</text:p>"
    document, texts, write = read_body(body)
    assert texts == ["Send it", "A tip", "Colours", "A column", "In it", "A ball."]
    # The typed text, "Your name", the option "Red" and the box with its items, which is one list.
    assert dict(+document.kept) == {"other": 4}
    written = write('"A" & b', "B", "C", "D", "E", "Una bola.")
    assert 'form:label="&quot;A&quot; &amp; b" form:title="B" form:name="button"' in written
    assert '<form:column form:label="D"><form:text form:title="E"/>' in written
    assert 'form:current-value="A typed text"' in written


def test_tips_of_links_and_messages_beside_cells_are_translated():
    _, texts, write = read_body('<text:p>The <text:a office:title="A tip">ball</text:a> is red.</text:p>')
    assert texts == ["The <0>ball</0> is red.", "A tip"]
    assert '<text:a office:title="Una ayuda">bola</text:a>' in write("La <0>bola</0> es roja.", "Una ayuda")

    help_message = '<table:help-message table:title="Help"><text:p>Type a colour.</text:p></table:help-message>'
    error = '<table:error-message table:title="Wrong" table:message-type="stop"><text:p>None.</text:p>'
    body = (
        f"<table:content-validations><table:content-validation>{help_message}{error}</table:error-message>"
        '</table:content-validation></table:content-validations><table:table table:name="My sheet"/>'
    )
    document, texts, write = read_body(body, "spreadsheet")
    assert texts == ["Help", "Type a colour.", "Wrong", "None."]
    assert dict(+document.kept) == {"other": 1}
    assert '<table:error-message table:title="C" table:message-type="stop"><text:p>D' in write("A", "B", "C", "D")


def test_entries_of_an_index_are_translated_and_texts_of_no_known_kind_are_counted():
    marks = (
        '<text:alphabetical-index-mark text:string-value="A ball" text:key1="Things"/>'
        '<text:toc-mark-start text:id="i1"/>A house<text:toc-mark-end text:id="i1"/>'
        '<text:user-index-mark text:string-value="A cat"/><text:bibliography-mark>(Book)</text:bibliography-mark>'
    )
    template = "<text:index-title-template>Contents</text:index-title-template>"
    document, texts, write = read_body(f"{template}<text:p>See {marks}.</text:p>")
    assert texts == ["Contents", "See <0/><1/>A house<2/><3/><4/>.", "A ball", "Things", "A cat"]
    assert dict(+document.kept) == {"other": 1}
    assert '"B" text:key1="C"' in write("A", texts[1], "B", "C", "D")
    assert "(Book)" in write("A", "Ve <0/><1/>casa<2/><3/><4/>.", "B", "C", "D")
