"""Laws of tables, objects and workbooks: a row without a pair is counted with its line, and all others are read."""

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.data.corpus import read_pairs
from pellucid.data.formats import moses, objects, tables, xlsx
from tests.data.test_formats import SENTENCE, archive, law, list_pairs, read, refusal, write_file


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rows")


# Rows without a pair

GOOD = st.tuples(SENTENCE, SENTENCE)
WORD = st.text("abcdé ", min_size=1, max_size=5).map(lambda text: f"x{text}x")
GOOD_ROW = st.tuples(WORD, WORD).map(list)
# What spoils a row of a table: nothing in it, one cell empty, or cells too few or too many.
SPOILED_ROW = st.one_of(
    st.just([]),
    WORD.flatmap(lambda word: st.sampled_from([[word, ""], ["", word], [word], [word, word, word], [word] * 5])),
)
PLANTED = st.tuples(st.lists(GOOD_ROW, min_size=3, max_size=8), st.lists(SPOILED_ROW, max_size=3), st.randoms())


def mix(good: list, spoiled: list, random) -> tuple[list, list[int]]:
    """Return good and spoiled rows in an order of chance, each kind in its own order, and the lines of the good."""
    kinds = [True] * len(good) + [False] * len(spoiled)
    random.shuffle(kinds)
    left, right = iter(good), iter(spoiled)
    return [next(left if kind else right) for kind in kinds], [n for n, kind in enumerate(kinds, start=1) if kind]


@pytest.mark.parametrize("ending", ["tsv", "csv", "xlsx"])
@pytest.mark.parametrize("has_header", [False, True])
@law
@given(planted=PLANTED)
def test_rows_without_a_pair_are_counted_and_all_others_are_read(folder: Path, ending: str, has_header: bool, planted):
    """Exactly the good rows of a table come out, in order and with their lines, wherever others stand."""
    good, spoiled, random = planted
    rows, lines = mix(good, spoiled, random)
    if ending == "xlsx":
        # In a sheet it is known in which column a cell stands, so more cells than two do no harm.
        lines = [line for line, row in enumerate(rows, start=1) if all([*row, "", ""][:2])]
        while not any(rows[-1]):
            rows.pop()  # rows below the last text are none
    if has_header:
        rows, lines = [["source", "target"], *rows], [line + 1 for line in lines]
    if ending == "xlsx":
        path = folder / "m.xlsx"
        write_workbook(path, {"Sheet1": rows})
    else:
        separator = "\t" if ending == "tsv" else ","
        path = write_file(folder / f"m.{ending}", "\n".join(map(separator.join, rows)) + "\n")
    pairs = read(path)
    assert list_pairs(pairs) == [tuple(rows[line - 1][:2]) for line in lines]
    assert list(pairs.lines) == lines
    assert pairs.skipped.counts.total() == len(rows) - len(lines) - has_header


SPOILED_OBJECT = st.sampled_from(
    ["", "null", "{", "[]", '"x"', "7", '{"translation": null}', '{"translation": {"en": null, "de": "x"}}',
     '{"translation": {"en": "x"}}', '{"translation": {"en": 3, "de": "x"}}',
     '{"translation": {"en": "x\\u0000", "de": "y"}}',
     '{"id": 1}']
)  # fmt: skip


@law
@given(good=st.lists(GOOD, min_size=1, max_size=8), spoiled=st.lists(SPOILED_OBJECT, max_size=8), random=st.randoms())
def test_objects_without_a_pair_are_counted_and_all_others_are_read(folder: Path, good, spoiled, random):
    texts = [json.dumps({"id": 5, "translation": {"en": source, "de": target}}) for source, target in good]
    rows, lines = mix(texts, spoiled, random)
    pairs = read(write_file(folder / "m.jsonl", "\n".join(rows)))
    assert (list_pairs(pairs), list(pairs.lines)) == (good, lines)
    assert pairs.skipped.counts.total() == len(rows) - len(lines) - (rows[-1] == "")
    # A file of lines may be called .json, and in an array what is no JSON is the only thing that cannot be skipped.
    assert list_pairs(read(write_file(folder / "lines.json", "\n".join([texts[0], *rows])))) == [good[0], *good]
    values = [row for row in rows if row not in ("", "{")]
    array = read(write_file(folder / "m.json", "[" + " ,\n".join(values) + "\n] \n"))
    assert list_pairs(array) == good
    assert list(array.lines) == [n for n, row in enumerate(values, start=1) if row in texts]
    assert array.skipped.counts.total() == len(values) - len(good)


def test_a_file_in_which_hardly_any_row_fits_is_refused_with_its_first_misfit(tmp_path: Path):
    path = write_file(tmp_path / "m.tsv", "source\ttarget\n" + "a\tb\tc\n" * 19 + "a\tb\n" * 2)
    assert refusal(path) == (
        "m.tsv:2: more columns than 2, and so it is in 19 of 21 rows, too many to leave out; expected 2 columns, as "
        "many as line 1 has"
    )
    # One in ten is enough, whatever the others are, and is said.
    path = write_file(path, "source\ttarget\n" + "a\tb\tc\n" * 18 + "a\tb\n" * 2)
    assert str(read(path).skipped).startswith("18 pairs skipped: 18 with more columns than 2 (")
    # A thousand rows are enough to see it.
    path = write_file(path, "source\ttarget\n" + "a\n" * 1000 + "a\tb\n" * 5000)
    assert "m.tsv:2: fewer columns than 2, and so it is in 1,000 of 1,000 rows" in refusal(path)
    message = refusal(write_file(tmp_path / "m.jsonl", json.dumps([{"en": "a", "de": "b"}] * 3, indent=1)))
    assert message.startswith("m.jsonl:1: no valid JSON, and so it is in 14 of 14 rows, too many to leave out; exp")
    assert message.endswith("; a file that is one array is read if its name ends in .json")
    assert len(read(write_file(tmp_path / "x.json", '[{"en": "a", "de": "b"}]'))) == 1
    assert 'expected an array of objects, each {"source": "...", ' in refusal(write_file(tmp_path / "x.json", "[1, 2]"))
    columns = '{"en": {"0": "a", "1": "b"}, "de": {"0": "c"}}'  # as pandas writes a table without orient="records"
    assert "expected an array of objects" in refusal(write_file(tmp_path / "x.json", columns))


def test_the_columns_of_a_table_are_those_of_most_rows_or_of_its_header(tmp_path: Path):
    rows = "one\tuno\ta\ntwo\tdos\nthree\ttres\n"
    pairs = read(write_file(tmp_path / "m.tsv", rows))
    assert (pairs.sources, pairs.skipped.counts) == (["two", "three"], {"more columns than 2": 1})
    # Columns that are chosen by their numbers are there.
    assert list_pairs(read(tmp_path / "m.tsv", "1", "3")) == [("one", "a")]
    # A title and empty rows above the header, as spreadsheets have them.
    table = "Our translations,,\n,,\nid,German,English\n1,Ja,Yes\n2,Nein,No\nid,German,English\n3,,Maybe\n"
    pairs = read(write_file(tmp_path / "m.csv", table), "en", "de")
    assert list_pairs(pairs) == [("Yes", "Ja"), ("No", "Nein")]
    assert pairs.skipped.counts == {"empty source": 2, "the header once more": 1, "empty target": 1}
    assert list(pairs.lines) == [4, 5]


def test_a_cell_may_be_longer_than_the_csv_module_allows_and_a_quote_that_is_open_is_named(tmp_path, monkeypatch):
    long = "word " * 40_000
    path = write_file(tmp_path / "m.csv", f'en,de\n"{long}",x\nYes,Ja\n')
    pairs = read_pairs(path, max_characters=10**6)
    assert [len(source) for source in pairs.sources] == [200_000, 3]
    limit = csv.field_size_limit()
    try:
        csv.field_size_limit(100)
        monkeypatch.setattr(tables, "LONGEST_LINE", 1000)
        message = refusal(write_file(path, 'en,de\nYes,Ja\n"No,Nein\n' + "Yes,Ja\n" * 1000))
    finally:
        csv.field_size_limit(limit)
    assert message == (
        "m.csv:3: a cell of this row has more than 1,000 characters; is there a quote that nothing closes?"
    )


# JSON


def test_an_array_is_read_piece_by_piece_and_what_is_no_json_is_named_by_its_line(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(objects, "_CHARACTERS_READ", 3)
    rows = [{"en": f"Number {n}", "x": [n, -2.5e3, {"y": None}], "de": f'"Nümmer" {{{n}}}]\n'} for n in range(40)]
    for text in (json.dumps(rows), json.dumps(rows, indent=1, ensure_ascii=False)):
        for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32"):
            pairs = read(write_file(tmp_path / "m.json", text.encode(encoding)))
            assert pairs.sources == [row["en"] for row in rows]
            assert pairs.targets == [row["de"].strip() for row in rows]
    assert pairs.file_line(1, "source").endswith("m.json (unit 2)")
    path = tmp_path / "m.json"
    one = '{"en": "a", "de": "b"}'
    for text, line, problem in (
        (f"[{one},\n{one}", 2, "an element without an end"),
        (f"[{one},\n{one[:9]}", 2, "Unterminated string"),
        (f"[{one}\n{one}]", 2, "expected a comma or ']'"),
        (f"[{one},\n", 2, "the file ends inside of the array"),
        (f"[{one},\n\n]", 3, "Expecting value"),
        (f"[{one}]\n\n]", 3, "there is something behind the end"),
        (f"[{one}, {'[' * 100_000}", 1, "too many brackets"),
    ):
        assert refusal(write_file(path, text)).startswith(f"m.json:{line}: not JSON: {problem}"), text[:50]
    assert refusal(write_file(path, b'[{"en": "\xff", "de": "b"}]')).startswith("m.json: it is not UTF-8")
    monkeypatch.setattr(objects, "LARGEST_OBJECT", 1000)
    assert "an element of more than 1,000 characters" in refusal(write_file(path, "[" + json.dumps("x" * 5000) + "]"))
    assert refusal(write_file(path, "[]")) == "no sentence pair in m.json: there is no unit in it"


# Workbooks


def write_workbook(
    path: Path,
    sheets: dict[str, list[list[str]]],
    inline: bool = False,
    members: Mapping[str, str] = MappingProxyType({}),
) -> Path:
    """Write a workbook as Excel does: its texts in one list, or each in its cell; and other members as they are."""
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    relations = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    texts: dict[str, int] = {}

    def cell(row: int, column: int, text: str) -> str:
        name = f"{'ABCDEFGH'[column]}{row}"
        if inline:
            return f'<c r="{name}" t="inlineStr"><is><t>{escape(text)}</t></is></c>'
        return f'<c r="{name}" t="s"><v>{texts.setdefault(text, len(texts))}</v></c>'

    files = {}
    for number, rows in enumerate(sheets.values(), start=1):
        body = "".join(
            f'<row r="{row}">'
            + "".join(cell(row, column, text) for column, text in enumerate(cells) if text)
            + "</row>"
            for row, cells in enumerate(rows, start=1)
        )
        files[f"xl/worksheets/sheet{number}.xml"] = (
            f'<worksheet xmlns="{main}"><sheetData>{body}</sheetData></worksheet>'
        )
    items = "".join(f'<sheet name="{name}" r:id="rId{n}"/>' for n, name in enumerate(sheets, start=1))
    files["xl/workbook.xml"] = f'<workbook xmlns="{main}" xmlns:r="{relations}"><sheets>{items}</sheets></workbook>'
    items = "".join(f'<Relationship Id="rId{n}" Target="worksheets/sheet{n}.xml"/>' for n in range(1, len(sheets) + 1))
    files["xl/_rels/workbook.xml.rels"] = f"<Relationships>{items}</Relationships>"
    items = "".join(f'<si><t xml:space="preserve">{escape(text)}</t></si>' for text in texts)
    if not inline:
        files["xl/sharedStrings.xml"] = f'<sst xmlns="{main}">{items}</sst>'
    return archive(path, **(files | dict(members)))


def escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


@pytest.mark.parametrize("inline", [False, True])
def test_the_first_sheet_of_a_workbook_is_a_table(tmp_path: Path, inline: bool):
    rows = [
        ["Glossary", "", ""],
        [],
        ["id", "de", "en"],
        ["1", "Ja & <b>", "Yes"],
        ["2", "", "No"],
        [],
        ["4", "a\nb", "c"],
    ]
    path = write_workbook(tmp_path / "m.xlsx", {"Pairs": rows, "Empty": [[""]], "Notes": [["x"]]}, inline)
    pairs = read(path, "en", "de")
    assert list_pairs(pairs) == [("Yes", "Ja & <b>"), ("c", "a b")]
    assert list(pairs.lines) == [4, 7]
    assert pairs.skipped.counts == {
        "empty source": 3, "empty target": 1, "rows on the sheet 'Notes', of which only the first sheet is read": 1,
    }  # fmt: skip
    assert list_pairs(read(path, "3", "2")) == list_pairs(pairs)
    assert "there is no column 9" in refusal(path, "9", "2")


def test_a_character_that_excel_spells_as_two_halves_is_one(tmp_path: Path):
    cells = "<row><c t='str'><v>a _xD83D__xDE00_</v></c><c t='inlineStr'><is><t>b</t></is></c></row>"
    sheet = f"<worksheet><sheetData>{cells}</sheetData></worksheet>"
    path = write_workbook(tmp_path / "m.xlsx", {"A": []}, members={"xl/worksheets/sheet1.xml": sheet})
    assert list_pairs(read(path)) == [("a \U0001f600", "b")]


def test_cells_of_every_kind_are_read(tmp_path: Path):
    shared = (
        "<sst><si><t>source</t></si><si><t>target</t></si>"
        "<si><r><rPr><b/></rPr><t>Two </t></r><r><t>runs_x000D_\nx</t></r>"
        "<rPh><t>reading</t></rPh></si><si/></sst>"
    )
    sheet = (
        "<worksheet><sheetData><row><c t='s'><v>0</v></c><c t='s'><v>1</v></c></row>"
        "<row><c t='s'><v>2</v></c><c t='str'><f>A2</f><v>formula</v></c></row>"
        "<row><c><v>12.5</v></c><c t='inlineStr'><is><r><t>in</t></r><r><t>line</t></r></is></c></row>"
        "<row><c t='e'><v>#REF!</v></c><c t='s'><v>3</v></c><c t='s'><v>1</v></c></row>"
        "<row r='9'><c r='A9' t='s'><v>1</v></c><c r='AA9' t='s'><v>0</v></c></row>"
        "<row r='10' ht='3'/><row r='11'><c r='B11' s='4'/></row></sheetData></worksheet>"
    )
    parts = {"xl/sharedStrings.xml": shared, "xl/worksheets/sheet1.xml": sheet}
    path = write_workbook(tmp_path / "m.xlsx", {"A": []}, members=parts)
    pairs = read(path)
    assert list_pairs(pairs) == [("Two runs x", "formula"), ("12.5", "inline")]
    assert list(pairs.lines) == [2, 3]
    assert pairs.skipped.examples == [f"{path}:4 empty source", f"{path}:9 empty target"]


def test_a_hostile_workbook_is_refused_with_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "m.xlsx"
    sheets = {"A": [["One", "Eins"], ["Two", "Zwei"]]}
    sheet, relations = "xl/worksheets/sheet1.xml", "xl/_rels/workbook.xml.rels"
    for name, content, problem in (
        (sheet, '<!DOCTYPE x [<!ENTITY a "b">]><worksheet><row/></worksheet>', "declares a type"),
        (sheet, "<worksheet><row><c t='s'><v>99</v></c></row></worksheet>", "a text that is not there"),
        (sheet, "<worksheet><row><c r='ZZZZ1'/></row></worksheet>", "beyond the last column"),
        (sheet, "<worksheet><row>", "not well-formed XML"),
        ("xl/workbook.xml", "<workbook/>", "has no sheet with rows"),
        (relations, "<a><Relationship Id='rId1' Target='worksheets/x.xml'/></a>", "no Excel workbook"),
    ):
        assert problem in refusal(write_workbook(path, sheets, members={name: content})), name
    whole = write_workbook(path, sheets).read_bytes()
    for cut in range(1, len(whole), 37):
        assert refusal(write_file(path, whole[:cut]))
    assert "save the table as CSV (UTF-8)" in refusal(write_file(path, b"\xd0\xcf\x11\xe0 a workbook with a password"))
    monkeypatch.setattr(moses, "LARGEST_UNCHECKED", 1000)
    bomb = "<worksheet>" + " " * 10**6 + "</worksheet>"
    assert "more than 200 times as many" in refusal(
        write_workbook(path, sheets, members={"xl/worksheets/sheet1.xml": bomb})
    )
    monkeypatch.setattr(xlsx, "LARGEST_ROW", 100_000)
    monkeypatch.setattr(moses, "MOST_EXPANSION", 10**6)
    assert "has no <row> within 100,000 bytes" in refusal(
        write_workbook(
            path, sheets, members={"xl/worksheets/sheet1.xml": "<worksheet>" + "<x/>" * 10**5 + "</worksheet>"}
        )
    )


@pytest.mark.parametrize("ending", ["xls", "xlsb", "ods", "numbers"])
def test_other_tables_are_refused_with_what_to_do(tmp_path: Path, ending: str):
    path = write_file(tmp_path / f"m.{ending}", b"PK")
    assert refusal(path).endswith("which is not read; save it as CSV (UTF-8), or as .xlsx")
