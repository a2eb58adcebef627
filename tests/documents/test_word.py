"""DOCX: what is translated in a paragraph, what stays, and how both are written."""

import re

import pytest
from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]

from pellucid.localize.documents.readers import read_document
from tests.documents.samples import PROPERTIES, make_docx, make_zip, read_zip


def run(text: str, formatting: str = "") -> str:
    """Make a run; its formatting is the elements in its properties."""
    properties = f"<w:rPr>{formatting}</w:rPr>" if formatting else ""
    return f'<w:r>{properties}<w:t xml:space="preserve">{text}</w:t></w:r>'


def mark_field(kind: str) -> str:
    """Make a run that begins a field, ends its instruction, or ends the field."""
    return f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>'


def make_field(instruction: str, result: str) -> str:
    """Make a field of several runs."""
    code = f"<w:r><w:instrText>{instruction}</w:instrText></w:r>" if "<" not in instruction else instruction
    return mark_field("begin") + code + mark_field("separate") + result + mark_field("end")


def read_paragraph(content: str, **more: str):
    """Return the document with one paragraph, and the markup of the paragraph when it is written."""
    docx = make_docx(f"<w:p>{content}</w:p>", **more)
    document = read_document("a.docx", docx, ("en", "es"))
    assert document.write(document.texts) == docx

    def write(*translations: str, language: str | None = None) -> str:
        written = read_zip(document.write(translations, language=language))["word/document.xml"]
        etree.fromstring(written.encode())
        return written.partition("<w:body><w:p>")[2].rpartition("</w:p></w:body>")[0]

    return document, write


@pytest.mark.parametrize(
    ("content", "texts", "code"),
    [
        ('<w:fldSimple w:instr=" HYPERLINK x ">' + run("the house") + "</w:fldSimple>", ["See <0>the house</0>."], 1),
        ('<w:fldSimple w:instr=" PAGE ">' + run("12") + "</w:fldSimple>", ["See <0/>."], 1),
        (
            '<w:fldSimple w:instr=" A "><w:fldSimple w:instr=" B ">' + run("one") + "</w:fldSimple>" + run(" two")
            + "</w:fldSimple>",
            ["See <0><1>one</1> two</0>."],
            2,
        ),
        (make_field(" HYPERLINK x ", run("the house")), ["See <0>the house</0>."], 1),
        (make_field(" PAGE ", run("12")), ["See <0/>."], 1),
        (mark_field("begin") + "<w:r><w:instrText>XE a</w:instrText></w:r>" + mark_field("end"), ["See <0/>."], 1),
        # A field in the instruction of another one, whose result is not shown, and one in its result, which is.
        (make_field(make_field(" A ", run("not shown")) + run(""), run("shown")), ["See <0>shown</0>."], 2),
        (make_field(" A ", run("the ") + make_field(" B ", run("red")) + run(" ball")),
         ["See <0>the <1>red</1> ball</0>."], 2),
        # A field that ends in another paragraph stays in its parts.
        (mark_field("begin") + "<w:r><w:instrText> TOC </w:instrText></w:r>" + mark_field("separate") + run("a house"),
         ["See <0/><1/><2/>a house."], 1),
    ],
)  # fmt: skip
def test_the_result_of_a_field_is_translated_if_it_has_words(content, texts, code):
    document, write = read_paragraph(run("See ") + content + run("."))
    assert document.texts == texts
    assert document.kept["code"] == code
    written = write(texts[0].replace("See", "Ve").replace("house", "casa"))
    assert written.count("w:instr") == (run("See ") + content).count("w:instr")
    assert re.findall(r'CharType="(\w+)"', written) == re.findall(r'CharType="(\w+)"', content)


def test_of_a_ruby_its_base_is_translated_and_its_reading_is_dropped_and_counted():
    ruby = (
        "<w:r><w:ruby><w:rubyPr/><w:rt>"
        + run("neko")
        + "</w:rt><w:rubyBase>"
        + run("cat")
        + "</w:rubyBase></w:ruby></w:r>"
    )
    document, write = read_paragraph(run("The ") + ruby + run(" is here."))
    assert document.texts == ["The cat is here."]
    assert document.kept["other"] == 1
    assert write("El gato.") == run("El gato.")


def test_pictures_are_described_in_the_language_of_the_translation():
    picture = (
        '<w:r><w:drawing><wp:inline xmlns:wp="x"><wp:docPr id="1" name="Picture 1" descr="A &quot;red&quot; ball" '
        'title="ball.png"/></wp:inline></w:drawing></w:r>'
    )
    document, write = read_paragraph(run("Look: ") + picture + run("it is red."))
    assert document.texts == ["Look: <0/>it is red.", 'A "red" ball']
    written = write("Mira: <0/>es roja.", 'Una "bola" <roja>')
    assert 'descr="Una &quot;bola&quot; &lt;roja&gt;"' in written
    assert 'title="ball.png"' in written  # the name of a file


def test_a_picture_alone_is_described_too():
    document, write = read_paragraph('<w:r><w:pict><v:shape xmlns:v="v" alt="The house"/></w:pict></w:r>')
    assert document.texts == ["The house"]
    assert 'alt="La casa"' in write("La casa")


COMMENTS = '<w:comment w:id="1"><w:p><w:r><w:t>Is it red?</w:t></w:r></w:p></w:comment><w:comment w:id="2"/>'


def test_comments_stay_and_are_counted_unless_they_are_asked_for():
    marked = '<w:commentRangeStart w:id="1"/>' + run("A ball.") + '<w:commentRangeEnd w:id="1"/>'
    document, write = read_paragraph(marked, comments=COMMENTS)
    assert (document.texts, document.kept["comments"]) == (["A ball."], 1)
    assert 'commentRangeStart w:id="1"' in write("Una bola.")
    docx = make_docx(f"<w:p>{marked}</w:p>", comments=COMMENTS)
    document = read_document("a.docx", docx, ("en", "es"), with_comments=True)
    assert (document.texts, document.kept["comments"]) == (["A ball.", "Is it red?"], 0)
    assert "¿Roja?" in read_zip(document.write(["Una bola.", "¿Roja?"]))["word/comments.xml"]


def test_raised_signs_stay_where_they_are_even_if_a_translation_has_none():
    star = run("*", '<w:vertAlign w:val="superscript"/>')
    document, write = read_paragraph(run("One") + star + run(" and two") + star + run("."))
    assert document.texts == ["One<0/> and two<1/>."]
    written = write("Uno y dos.")
    assert written.count(star) == 2
    assert "".join(re.findall(r"<w:t[^>]*>([^<]*)", written)).replace("*", "") == "Uno y dos."


def test_raised_numbers_are_signs_and_raised_letters_are_text():
    up = '<w:vertAlign w:val="superscript"/>'
    document, _ = read_paragraph(run("m") + run("2", up) + run(" on the 4") + run("th", up))
    assert document.texts == ["m<0/> on the 4<1>th</1>"]


def test_a_sign_of_a_font_of_signs_is_no_text():
    sign = '<w:r><w:rPr><w:rFonts w:ascii="Wingdings"/></w:rPr><w:t>J</w:t></w:r>'
    document, write = read_paragraph(run("Good ") + sign + run(" day."))
    assert document.texts == ["Good <0/> day."]
    assert sign in write("Buenos días.")


def test_spaces_that_move_text_stay_as_many_as_they_were():
    document, write = read_paragraph(run("Name:        Tom and Ann  ") + run(" x"))
    assert [re.sub(r"<\d/>", "", text) for text in document.texts] == ["Name: Tom and Ann x"]
    shown = "".join(re.findall(r"<w:t[^>]*>([^<]*)", write(document.texts[0].replace("Name", "Nombre"))))
    assert shown == "Nombre:        Tom and Ann   x"


def test_spaces_around_a_paragraph_stay():
    document, write = read_paragraph(run("    A ball.   "))
    shown = "".join(re.findall(r"<w:t[^>]*>([^<]*)", write(*["Una bola." for _ in document.texts])))
    assert shown.strip(" ") == "Una bola."
    assert len(shown) - len(shown.lstrip(" ")) == 4
    assert len(shown) - len(shown.rstrip(" ")) == 3


def test_white_space_without_the_attribute_that_keeps_it_is_not_text():
    document, _ = read_paragraph("<w:r><w:t>  The\n   ball  </w:t></w:r>" + run(" is red."))
    assert document.texts == ["The ball is red."]


def test_tabs_and_line_ends_need_no_run_of_their_own():
    content = "<w:r><w:t>One</w:t><w:tab/><w:tab/><w:t>two</w:t><w:br/><w:t>three</w:t></w:r>"
    document, write = read_paragraph(content)
    assert document.texts == ["One\t\ttwo\nthree"]
    assert write("Uno\t\tdos\ntres") == (
        '<w:r><w:t xml:space="preserve">Uno</w:t><w:tab/><w:tab/><w:t xml:space="preserve">dos</w:t><w:br/>'
        '<w:t xml:space="preserve">tres</w:t></w:r>'
    )


@pytest.mark.parametrize(
    ("language", "lang"),
    [
        ("es", '<w:lang w:val="es" w:bidi="he-IL"/>'),
        ("ja", '<w:lang w:val="en-US" w:bidi="he-IL" w:eastAsia="ja"/>'),
        ("ar", '<w:lang w:val="en-US" w:bidi="ar"/>'),
    ],
)
def test_the_language_of_text_is_that_of_the_translation(language, lang):
    own = '<w:lang w:val="en-US" w:bidi="he-IL"/>'
    styles = f"<w:docDefaults><w:rPrDefault><w:rPr>{own}</w:rPr></w:rPrDefault></w:docDefaults>"
    docx = make_docx(f"<w:p>{run('A ball.', own)}</w:p>", styles=styles)
    document = read_document("a.docx", docx, ("en", language))
    written = read_zip(document.write(["B."], language=language))
    assert lang in written["word/document.xml"]
    assert lang in written["word/styles.xml"]
    assert own in read_zip(document.write(["B."]))["word/styles.xml"]


def test_deleted_and_moved_text_and_formulas_stay_and_are_counted():
    content = (
        run("A ball. ")
        + '<w:del w:id="1"><w:r><w:delText>A red ball.</w:delText></w:r></w:del>'
        + '<w:ins w:id="2">' + run("A house.") + "</w:ins>"
        + '<w:moveFrom w:id="3">' + run("A cat.") + "</w:moveFrom>"
        + '<m:oMath xmlns:m="m"><m:r><m:t>x</m:t></m:r></m:oMath>'
    )  # fmt: skip
    document, _ = read_paragraph(content)
    assert [re.sub(r"</?\d/?>", "", text) for text in document.texts] == ["A ball. A house."]
    assert dict(+document.kept) == {"deleted": 2, "code": 1}


def test_titles_of_tables_controls_and_links_are_read():
    body = (
        '<w:tbl><w:tblPr><w:tblCaption w:val="Balls by colour"/></w:tblPr><w:tr><w:tc><w:p>'
        '<w:sdt><w:sdtPr><w:dropDownList><w:listItem w:displayText="Red ball" w:value="r"/></w:dropDownList></w:sdtPr>'
        "<w:sdtContent>" + run("Choose a ball") + "</w:sdtContent></w:sdt>"
        '<w:hyperlink w:tooltip="To the house">' + run(" here") + "</w:hyperlink></w:p></w:tc></w:tr></w:tbl>"
    )
    docx = make_docx(body)
    document = read_document("a.docx", docx)
    assert sorted(document.texts) == ["<0>Choose a ball</0><1> here</1>", "Balls by colour", "Red ball", "To the house"]
    assert document.write(document.texts) == docx


def test_the_title_of_a_document_is_translated_and_its_author_stays():
    kind = "application/vnd.openxmlformats-package.core-properties+xml"
    types = f'<Override PartName="/docProps/core.xml" ContentType="{kind}"/></Types>'
    files = read_zip(make_docx("<w:p><w:r><w:t>A ball.</w:t></w:r></w:p>"))
    files["[Content_Types].xml"] = files["[Content_Types].xml"].replace("</Types>", types)
    docx = make_zip({**files, "docProps/core.xml": PROPERTIES.format(title="The ball")})
    document = read_document("a.docx", docx)
    assert document.texts == ["A ball.", "The ball"]
    written = read_zip(document.write(["Una bola.", "La bola"], language="es"))["docProps/core.xml"]
    assert "<dc:title>La bola</dc:title>" in written
    assert "<dc:creator>Ann</dc:creator>" in written
    assert "<dc:language>es</dc:language>" in written
    assert document.kept["other"] == 1  # its description


@pytest.mark.parametrize("kind", ["document.macroEnabled", "template", "template.macroEnabledTemplate"])
def test_templates_and_documents_with_macros_are_read_as_documents(kind):
    files = read_zip(make_docx("<w:p><w:r><w:t>A ball.</w:t></w:r></w:p>"))
    files["[Content_Types].xml"] = files["[Content_Types].xml"].replace(".document.main+xml", f".{kind}.main+xml")
    assert read_document("a.docm", make_zip({**files})).texts == ["A ball."]


def make_choice(choice: str, fallback: str) -> str:
    """Make a part of a paragraph, or of a run, that is there for programs that can show it and for others."""
    return (
        '<mc:AlternateContent xmlns:mc="urn:mc"><mc:Choice Requires="w99">'
        f"{choice}</mc:Choice><mc:Fallback>{fallback}</mc:Fallback></mc:AlternateContent>"
    )


def test_what_is_there_twice_in_a_paragraph_is_translated_in_both_places():
    both = run("the ") + run("red", "<w:b/>") + run(" ball")
    document, write = read_paragraph(run("See ") + make_choice(both, both) + run("."))
    assert document.texts == ["See <0/>.", "the <0>red</0> ball", "the <0>red</0> ball"]
    translated = run("la bola ") + run("roja", "<w:b/>")
    written = write("Ve <0/>.", "la bola <0>roja</0>", "la bola <0>roja</0>")
    assert written == run("Ve ") + make_choice(translated, translated) + run(".")
    assert not +document.kept


def test_what_is_there_twice_in_a_run_keeps_the_formatting_of_the_run():
    def make_run(choice: str, fallback: str) -> str:
        return f"<w:r><w:rPr><w:b/></w:rPr>{make_choice(choice, fallback)}</w:r>"

    document, write = read_paragraph(make_run("<w:t>A ball</w:t><w:tab/><w:t>here</w:t>", "<w:t>A ball.</w:t>"))
    assert document.texts == ["A ball\there", "A ball."]
    keep = '<w:t xml:space="preserve">'
    assert write("Una bola\taquí", "Una bola.") == make_run(
        f"{keep}Una bola</w:t><w:tab/>{keep}aquí</w:t>", f"{keep}Una bola.</w:t>"
    )


def test_only_words_are_translated_of_what_is_there_twice():
    link = '<w:hyperlink w:tooltip="A tip">' + run("a house") + "</w:hyperlink>"
    document, _ = read_paragraph(run("See ") + make_choice(link, "") + make_choice(run("12"), "<w:r><w:x/></w:r>"))
    assert document.texts == ["See ", "a house", "A tip"]


def test_words_in_a_place_that_is_not_known_are_counted_once_for_each_paragraph():
    document, write = read_paragraph(run("A ball.") + "<w:new>" + run("not ") + run("read") + "</w:new>" + run(" Yes."))
    assert document.texts == ["A ball.<0/> Yes."]
    assert dict(+document.kept) == {"other": 1}
    assert "<w:new>" in write("Una bola.<0/> Sí.")
    document, _ = read_paragraph("<w:r><w:sdt><w:sdtContent><w:t>In a run</w:t></w:sdtContent></w:sdt></w:r>")
    assert dict(+document.kept) == {"other": 1}


def test_texts_of_forms_that_stay_are_counted():
    box = (
        '<w:sdt><w:sdtPr><w:alias w:val="Colour"/><w:dropDownList><w:listItem w:displayText="Red" w:value="r"/>'
        '<w:listItem w:value="Blue"/></w:dropDownList></w:sdtPr><w:sdtContent>' + run("Red") + "</w:sdtContent></w:sdt>"
    )
    document, _ = read_paragraph(box)
    assert document.texts == ["Red", "Red"]
    assert dict(+document.kept) == {"other": 2}
    typed = '<w:ffData><w:textInput><w:default w:val="Your name"/></w:textInput></w:ffData>'
    checked = '<w:ffData><w:checkBox><w:default w:val="true"/></w:checkBox></w:ffData>'
    fields = "".join(f'<w:r><w:fldChar w:fldCharType="begin">{data}</w:fldChar></w:r>' for data in (typed, checked))
    document, _ = read_paragraph(fields + run("A ball."))
    assert dict(+document.kept) == {"code": 2, "other": 1}


def test_words_before_numbers_of_paragraphs_are_counted():
    levels = (
        '<w:lvl><w:numFmt w:val="decimal"/><w:lvlText w:val="Chapter %1"/></w:lvl>'
        '<w:lvl><w:numFmt w:val="bullet"/><w:lvlText w:val="o"/></w:lvl><w:lvl><w:lvlText w:val="%1."/></w:lvl>'
    )
    document, _ = read_paragraph(run("A ball."), numbering=f"<w:abstractNum>{levels}</w:abstractNum>")
    assert dict(+document.kept) == {"other": 1}
