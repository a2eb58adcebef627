"""XLSX: which texts of a workbook are translated, and which stay because something is found by them."""

import pytest
from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]

from pellucid.localize.documents.readers import read_document
from tests.documents.samples import XLSX, S, make_xlsx, make_zip, read_zip


def read_workbook(strings: str, sheet: str = "", **more: tuple[str, str]):
    """Return a workbook, its texts without its title, and a function that writes its files."""
    content = make_xlsx(strings, sheet, **more)
    document = read_document("a.xlsx", content, ("en", "es"))
    assert document.write(document.texts) == content
    assert document.texts[-1] == "A list"

    def write(*translations: str) -> tuple[str, str]:
        files = read_zip(document.write([*translations, "L."]))
        for name in ("xl/sharedStrings.xml", "xl/worksheets/sheet1.xml"):
            etree.fromstring(files[name].encode())
        strings = files["xl/sharedStrings.xml"].partition(f"<sst {S}>")[2].rpartition("</sst>")[0]
        return strings, files["xl/worksheets/sheet1.xml"].partition(f"<worksheet {S}>")[2].rpartition("</worksheet>")[0]

    return document, document.texts[:-1], write


def test_strings_are_translated_with_their_formatting_and_without_how_they_are_pronounced():
    bold = "<rPr><b/></rPr>"
    document, texts, write = read_workbook(
        f"<si><r><t>The </t></r><r>{bold}<t>red</t></r><r><t> ball</t></r><rPh sb='0' eb='1'><t>za</t></rPh></si>"
        "<si><t>A &lt; B &amp; C</t><phoneticPr fontId='1'/></si><si><t>12.5</t></si><si/>"
    )
    assert texts == ["The <0>red</0> ball", "A < B & C"]
    assert document.kept["other"] >= 1
    space = 'xml:space="preserve"'
    assert write("La pelota <0>roja</0>", "A & < B")[0] == (
        f"<si><r><t {space}>La pelota </t></r><r>{bold}<t {space}>roja</t></r></si>"
        f"<si><t {space}>A &amp; &lt; B</t></si><si><t>12.5</t></si><si/>"
    )


def test_characters_that_xlsx_spells_are_read_and_spelled_again():
    _, texts, write = read_workbook("<si><t>One_x000A_two _x005F_x000A_ three</t></si>")
    assert texts == ["One\ntwo _x000A_ three"]
    assert ">Uno\ndos _x005F_x000A_ tres<" in write("Uno\ndos _x000A_ tres")[0]


@pytest.mark.parametrize(
    ("formula", "kept"),
    [
        ('IF(A1="Yes",1,2)', ["Yes"]),
        ('COUNTIF(A:A,"yes ")', ["Yes"]),  # programs take no notice of capitals
        ('"Yes,No"', ["Yes", "No"]),
        ('IF(A1="say ""Yes""",1)', []),
        ("A1+A2", []),
    ],
)
def test_texts_that_a_formula_compares_with_stay_and_are_counted(formula, kept):
    written = formula.replace('"', "&quot;")
    sheet = f"<sheetData><row><c><f>{written}</f><v>1</v></c></row></sheetData>"
    document, texts, write = read_workbook("<si><t>Yes</t></si><si><t>No</t></si><si><t>A ball</t></si>", sheet)
    assert texts == [text for text in ("Yes", "No", "A ball") if text not in kept]
    assert document.kept["named"] == len(kept)
    assert document.kept["code"] == 1
    assert f"<f>{written}</f>" in write(*[f"{text}!" for text in texts])[1]


def test_lists_to_choose_from_stay_as_their_cells_do():
    rule = '<dataValidation prompt="Choose."><formula1>"Red,Blue"</formula1></dataValidation>'
    sheet = f"<dataValidations>{rule}</dataValidations>"
    document, texts, _ = read_workbook("<si><t>Red</t></si><si><t>Green</t></si>", sheet)
    assert texts == ["Green", "Choose."]
    assert document.kept["named"] == 1


def test_headings_of_the_columns_of_tables_stay_as_the_table_knows_them():
    table = f'<table {S}><tableColumns><tableColumn id="1" name="Colour"/></tableColumns></table>'
    document, texts, _ = read_workbook("<si><t>Colour</t></si><si><t>Red</t></si>", table1=("table", table))
    assert texts == ["Red"]
    assert document.kept["named"] == 1


def test_texts_that_a_filter_asks_for_stay():
    sheet = '<sheetData/><autoFilter><filterColumn><filters><filter val="Red"/></filters></filterColumn></autoFilter>'
    assert read_workbook("<si><t>Red</t></si><si><t>Green</t></si>", sheet)[1] == ["Green"]


def test_characters_of_two_halves_are_one():
    _, texts, write = read_workbook("<si><t>Hi _xD83D__xDE00_</t></si>")
    assert texts == ["Hi \U0001f600"]
    assert ">Hola \U0001f600<" in write("Hola \U0001f600")[0]


def test_a_text_that_stands_in_a_cell_as_if_a_formula_had_given_it_is_a_text():
    cells = (
        '<c r="A1" t="str"><v>A &amp; B</v></c><c t="str"><f>A1</f><v>A &amp; B</v></c><c r="t" s="str"><v>1</v></c>'
    )
    document, texts, write = read_workbook("", f"<row>{cells}</row>")
    assert texts == ["A & B"]
    assert document.kept["code"] == 1
    assert '<c r="A1" t="str"><v>C &lt;</v></c><c t="str"><f>A1</f><v>A &amp; B</v></c>' in str(write("C <"))
    _, texts, write = read_workbook("", '<row><c t="str"><v>A_xD83D__xDE00_</v></c></row>')
    assert texts == ["A\U0001f600"]
    assert "<v>_x005F_x0041_</v>" in str(write("_x0041_"))


def test_texts_inside_cells_are_translated_and_values_stay():
    cells = '<c t="inlineStr"><is><t>A ball</t></is></c><c t="str"><f>A1</f><v>A ball</v></c><c><v>12</v></c>'
    _, texts, write = read_workbook("", f"<sheetData><row>{cells}</row></sheetData>")
    assert texts == ["A ball"]
    changed = cells.replace("<is><t>A ball", '<is><t xml:space="preserve">Una bola')
    assert write("Una bola")[1] == f"<sheetData><row>{changed}</row></sheetData>"


def test_headers_are_translated_place_by_place_with_their_codes():
    header = "&amp;L&amp;&quot;Arial,Bold&quot;&amp;12{}&amp;CTom &amp;&amp; {}&amp;R{} &amp;P {} &amp;N"
    element = f"<headerFooter><oddHeader>{header}</oddHeader></headerFooter>"
    _, texts, write = read_workbook("", element.format("Our list", "Ann", "Page", "of"))
    assert texts == ["Our list", "Tom & Ann", "Page <0/> of "]
    assert write("Lista", "Tom & Ana", "Hoja <0/> de ")[1] == element.format("Lista", "Ana", "Hoja", "de")


def test_comments_stay_and_are_counted_unless_they_are_asked_for():
    assert read_document("a.xlsx", XLSX).kept["comments"] == 1
    document = read_document("a.xlsx", XLSX, with_comments=True)
    assert "Why?" in document.texts
    assert document.kept["comments"] == 0


def test_another_package_is_no_workbook():
    files = read_zip(XLSX)
    files["[Content_Types].xml"] = files["[Content_Types].xml"].replace("sheet.main", "other.main")
    with pytest.raises(ValueError, match="is not an XLSX workbook: no file in it lists its sheets"):
        read_document("a.xlsx", make_zip({**files}))


def test_labels_of_pivot_tables_are_translated_and_names_of_their_values_and_labels_of_buttons_are_counted():
    pivot = (
        '<pivotTableDefinition name="Pivot1" dataCaption="Values" rowHeaderCaption="Colours &amp; more"><dataFields>'
    )
    pivot += '<dataField name="Sum of balls"/></dataFields></pivotTableDefinition>'
    slicer = '<slicers><slicer name="Colour" cache="Slicer_Colour" caption="The colour"/></slicers>'
    content = make_xlsx(
        "<si><t>The ball.</t></si>",
        "<sheetData/>",
        pivot=("spreadsheetml.pivotTable", pivot),
        slicer=("ms-excel.slicer", slicer),
    )
    # A file of Excel with labels is often no sound XML.
    label = "<v:textbox style='x'><div>Press<br>me</div></v:textbox>"
    files = read_zip(content) | {"xl/drawings/vmlDrawing1.vml": f"<xml>{label}<v:textbox><div></div></v:textbox></xml>"}
    document = read_document("a.xlsx", make_zip({**files}), ("en", "es"))
    assert document.texts == ["The ball.", "Colours & more", "The colour", "A list"]
    assert dict(+document.kept) == {"other": 3, "named": 1}  # the sheet, the button and the keywords have names, too
    written = read_zip(document.write(["La bola.", "B", "C", "D"]))
    assert written["xl/pivot.xml"].endswith(pivot.replace("Colours &amp; more", "B"))
    assert written["xl/slicer.xml"].endswith(slicer.replace("The colour", "C"))
