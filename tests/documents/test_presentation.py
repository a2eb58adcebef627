"""PPTX: which texts of slides, layouts, charts and diagrams are translated, and how they are written."""

import pytest
from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]

from pellucid.localize.documents.readers import read_document
from tests.documents.samples import PPTX, A, P, make_pptx, make_shape, make_zip, read_zip


def read_slide(shapes: str, **more: tuple[str, str]):
    """Return the texts of a presentation with one slide without its title, and what the slide is when written."""
    content = make_pptx(shapes, **more)
    document = read_document("a.pptx", content, ("en", "es"))
    assert document.write(document.texts) == content
    assert document.texts[-1] == "A show"

    def write(*translations: str, language: str | None = None) -> str:
        written = read_zip(document.write([*translations, "T."], language=language))["ppt/slides/slide1.xml"]
        etree.fromstring(written.encode())
        return written.partition("<p:spTree>")[2].rpartition("</p:spTree>")[0]

    return document, document.texts[:-1], write


def make_run(text: str, properties: str = "") -> str:
    return f"<a:r>{properties}<a:t>{text}</a:t></a:r>"


def test_slides_come_in_the_order_in_which_they_are_shown():
    slides = [make_shape(f"<a:p>{make_run(f'Slide {word}.')}</a:p>") for word in "abcdefghijkl"]
    texts = read_document("a.pptx", make_pptx(*slides)).texts
    assert texts == [*(f"Slide {word}." for word in "lkjihgfedcba"), "A show"]


def test_formatting_goes_with_its_words_and_the_language_follows():
    own, bold = '<a:rPr lang="en-US" dirty="0"/>', '<a:rPr lang="en-US" b="1"/>'
    _, texts, write = read_slide(
        make_shape(
            f"<a:p>{make_run('The ', own)}{make_run('red', bold)}{make_run(' ball.', own)}"
            '<a:endParaRPr lang="en-US" sz="12"/></a:p>'
        )
    )
    assert texts == ["The <0>red</0> ball."]
    assert write("La pelota <0>roja</0>.", language="es") == make_shape(
        f"<a:p>{make_run('La pelota ', own)}{make_run('roja', bold)}{make_run('.', own)}"
        '<a:endParaRPr lang="en-US" sz="12"/></a:p>'
    ).replace("en-US", "es")


def test_spelling_marks_make_no_difference_to_formatting():
    runs = make_run("The ", '<a:rPr lang="en-US"/>') + make_run("bal", '<a:rPr lang="en-US" err="1" dirty="0"/>')
    _, texts, _ = read_slide(make_shape(f"<a:p>{runs}</a:p>"))
    assert texts == ["The bal"]


def test_line_ends_in_a_paragraph_are_elements():
    line_end = '<a:br><a:rPr lang="en-US"/></a:br>'
    _, texts, write = read_slide(make_shape(f"<a:p>{make_run('One')}{line_end}{make_run('two')}</a:p>"))
    assert len(texts) == 1
    assert texts[0].replace("<0>", "").replace("</0>", "") == "One\ntwo"
    written = write(texts[0].replace("One", "Uno").replace("two", "dos"))
    assert f"<a:t>Uno</a:t></a:r>{line_end}<a:r><a:t>dos</a:t>" in written


def test_fields_stay_and_those_with_words_are_counted():
    number = '<a:fld type="slidenum"><a:t>3</a:t></a:fld>'
    date = '<a:fld type="datetime1"><a:t>3 May</a:t></a:fld>'
    document, texts, write = read_slide(make_shape(f"<a:p>{make_run('Slide ')}{number}{make_run(' of ')}{date}</a:p>"))
    assert texts == ["Slide <0/> of "]
    assert document.kept["code"] == 1
    assert number + "<a:r><a:t> de " in write("Foto <0/> de ")


def test_raised_signs_stay_where_they_are_even_if_a_translation_has_none():
    sign = make_run("2", '<a:rPr baseline="30000"/>')
    _, texts, write = read_slide(make_shape(f"<a:p>{make_run('One')}{sign}{make_run(' and more')}</a:p>"))
    assert texts == ["One<0/> and more"]
    assert sign in write("Uno y más")


def test_descriptions_of_pictures_are_read_and_names_of_files_are_not():
    pictures = (
        '<p:pic><p:nvPicPr><p:cNvPr id="1" name="Picture 1" descr="Ann &amp; Tom"/></p:nvPicPr></p:pic>'
        '<p:pic><p:nvPicPr><p:cNvPr id="2" name="Picture 2" descr="ball.png"/></p:nvPicPr></p:pic>'
    )
    _, texts, write = read_slide(pictures)
    assert texts == ["Ann & Tom"]
    assert write('"Ann"') == pictures.replace("Ann &amp; Tom", "&quot;Ann&quot;")


CHART = (
    f'<c:chartSpace xmlns:c="c" {A}><c:title><c:tx><c:rich><a:p><a:r><a:t>Balls sold</a:t></a:r></a:p></c:rich></c:tx>'
    "</c:title><c:ser><c:cat><c:strRef><c:f>Sheet1!A1</c:f><c:strCache><c:pt><c:v>Red</c:v></c:pt></c:strCache>"
    "</c:strRef></c:cat><c:val><c:numCache><c:pt><c:v>1</c:v></c:pt></c:numCache></c:val></c:ser></c:chartSpace>"
)


def test_charts_and_diagrams_are_read():
    files = read_zip(make_pptx(make_shape("")))
    diagram = f'<dgm:dataModel xmlns:dgm="d" {A}><dgm:t><a:p><a:r><a:t>Begin</a:t></a:r></a:p></dgm:t></dgm:dataModel>'
    kind = "application/vnd.openxmlformats-officedocument.drawingml"
    types = f'<Override PartName="/ppt/charts/chart1.xml" ContentType="{kind}.chart+xml"/>'
    types += f'<Override PartName="/ppt/diagrams/data1.xml" ContentType="{kind}.diagramData+xml"/></Types>'
    files["[Content_Types].xml"] = files["[Content_Types].xml"].replace("</Types>", types)
    content = make_zip({**files, "ppt/charts/chart1.xml": CHART, "ppt/diagrams/data1.xml": diagram})
    document = read_document("a.pptx", content)
    assert sorted(document.texts) == ["A show", "Balls sold", "Begin", "Red"]
    answers = {"A show": "T.", "Balls sold": "Pelotas", "Begin": "Empieza", "Red": "Rojo"}
    written = read_zip(document.write([answers[text] for text in document.texts]))["ppt/charts/chart1.xml"]
    assert written == CHART.replace("Balls sold", "Pelotas").replace("Red", "Rojo")


def test_the_workbook_behind_a_chart_stays_and_is_counted():
    files = {**read_zip(PPTX), "ppt/embeddings/sheet1.xlsx": "A workbook"}
    assert read_document("a.pptx", make_zip({**files})).kept["other"] == read_document("a.pptx", PPTX).kept["other"] + 1


def test_places_for_text_on_layouts_stay_unless_their_author_wrote_them():
    def make_layout(place: str) -> tuple[str, str]:
        shape = make_shape(f"<a:p>{make_run('Write here')}</a:p>", place)
        return "slideLayout", f"<p:sldLayout {P} {A}>{shape}</p:sldLayout>"

    assert read_slide("", layout=make_layout('<p:ph type="body"/>'))[1] == []
    assert read_slide("", layout=make_layout('<p:ph type="body" hasCustomPrompt="1"/>'))[1] == ["Write here"]
    assert read_slide("", layout=make_layout(""))[1] == ["Write here"]


def test_comments_stay_and_are_counted_unless_they_are_asked_for():
    assert read_document("a.pptx", PPTX).kept["comments"] == 1
    document = read_document("a.pptx", PPTX, with_comments=True)
    assert document.kept["comments"] == 0
    assert "Is it red?" in document.texts
    answers = ["¿Roja?" if text == "Is it red?" else text for text in document.texts]
    assert "<p:text>¿Roja?</p:text>" in read_zip(document.write(answers))["ppt/comment.xml"]


@pytest.mark.parametrize(
    "kind",
    [
        "vnd.ms-powerpoint.presentation.macroEnabled.main",
        "vnd.openxmlformats-officedocument.presentationml.slideshow.main",
    ],
)
def test_shows_and_presentations_with_macros_are_read_as_presentations(kind):
    files = read_zip(PPTX)
    own = "vnd.openxmlformats-officedocument.presentationml.presentation.main"
    files["[Content_Types].xml"] = files["[Content_Types].xml"].replace(own, kind)
    assert read_document("a.pptm", make_zip({**files})).texts == read_document("a.pptx", PPTX).texts


def test_another_package_is_no_presentation():
    files = read_zip(PPTX)
    files["[Content_Types].xml"] = files["[Content_Types].xml"].replace("presentation.main", "other.main")
    with pytest.raises(ValueError, match="is not a PPTX presentation: no file in it lists its slides"):
        read_document("a.pptx", make_zip({**files}))


def test_tips_of_links_on_shapes_are_translated_and_those_on_words_are_counted():
    shape = '<p:sp><p:nvSpPr><p:cNvPr id="1" name="n"><a:hlinkClick tooltip="A &quot;tip&quot;"/></p:cNvPr></p:nvSpPr>'
    words = '<a:p><a:r><a:rPr><a:hlinkClick tooltip="On words"/></a:rPr><a:t>A ball.</a:t></a:r></a:p>'
    both = '<mc:AlternateContent xmlns:mc="urn:mc"><mc:Choice Requires="x"><a:r><a:t>new</a:t></a:r></mc:Choice>'
    twice = f"<a:p>{both}</mc:AlternateContent></a:p>"
    content = make_pptx(f"{shape}</p:sp>" + make_shape(words) + make_shape(twice))
    document = read_document("a.pptx", content, ("en", "es"))
    assert document.texts == ['A "tip"', "A ball.", "A show"]
    assert document.kept["other"] - read_document("a.pptx", make_pptx(make_shape(""))).kept["other"] == 2
    written = read_zip(document.write(["Una ayuda", "Una bola.", "X"]))["ppt/slides/slide1.xml"]
    assert 'tooltip="Una ayuda"' in written
    assert 'tooltip="On words"' in written


def test_what_stands_on_the_master_of_handouts_is_translated():
    master = "<p:handoutMaster {}><p:cSld><p:spTree>{}</p:spTree></p:cSld></p:handoutMaster>"
    shapes = make_shape("<a:p><a:r><a:t>For you</a:t></a:r></a:p>") + make_shape(
        "<a:p><a:r><a:t>A header</a:t></a:r></a:p>", '<p:ph type="hdr"/>'
    )
    part = ("openxmlformats-officedocument.presentationml.handoutMaster", master.format(f"{P} {A}", shapes))
    content = make_pptx(make_shape("<a:p><a:r><a:t>A ball.</a:t></a:r></a:p>"), handout=part)
    assert read_document("a.pptx", content).texts == ["A ball.", "For you", "A header", "A show"]
