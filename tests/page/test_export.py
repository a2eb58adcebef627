"""What the page saves is read back by others: NPZ by numpy, CSV by the csv module, SVG by an XML parser."""

import csv
import json
import xml.etree.ElementTree as ElementTree
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.page.built import WEB
from tests.page.test_cells import run, traced, write


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> tuple:
    """A trace, and the directory into which the page's own code has saved it."""
    script, given, into = (tmp_path_factory.mktemp(name) for name in ("script", "given", "saved"))
    path = script / "exporting.mjs"
    words = ["test/export_tensors.ts", "--bundle", "--platform=node", "--format=esm", f"--outfile={path}"]
    run(str(WEB / "node_modules" / "esbuild" / "bin" / "esbuild"), *words, "--loader:.css=text", "--log-level=warning")
    trace = traced()
    trace.source.pieces[1] = '=cmd|"x", y'  # a label that a spreadsheet could take for a formula
    write(trace, given)
    manifest = json.loads((given / "manifest.json").read_text("utf-8"))
    manifest["axes"]["S"]["labels"] = trace.source.pieces
    (given / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    run("node", str(path), str(given), str(into))
    return trace, into


def test_numpy_reads_every_array_bit_by_bit(saved):
    trace, into = saved
    with np.load(into / "all.npz", allow_pickle=False) as arrays:
        assert list(arrays) == trace.names
        for name in trace.names:
            values = trace[name].values
            assert arrays[name].dtype == (np.bool_ if values.dtype == np.bool_ else np.float32)
            np.testing.assert_array_equal(arrays[name], values)


def test_the_zip_is_whole_and_its_arrays_begin_where_numpy_maps_them(saved):
    _, into = saved
    with zipfile.ZipFile(into / "all.npz") as archive:
        assert archive.testzip() is None
        data = archive.read(archive.namelist()[0])
    assert (10 + int.from_bytes(data[8:10], "little")) % 64 == 0


def test_a_file_with_one_wrong_bit_is_refused(saved, tmp_path):
    _, into = saved
    data = bytearray((into / "all.npz").read_bytes())
    with zipfile.ZipFile(into / "all.npz") as archive:
        first, second = archive.infolist()[:2]
    data[second.header_offset - 1] ^= 1  # the last of its numbers
    (tmp_path / "broken.npz").write_bytes(data)
    with zipfile.ZipFile(tmp_path / "broken.npz") as archive:
        assert archive.testzip() == first.filename


def test_a_table_has_every_number_where_its_words_say(saved):
    trace, into = saved
    name = "decoder.0.cross.scores"
    header, *rows = table(into / f"{name}.csv")
    values = trace[name].values
    heads, queries, keys = values.shape
    assert header[:2] == ["H", "T"]
    assert header[2:] == [f"{i} {piece}" for i, piece in enumerate(trace.source.pieces)]
    assert len(rows) == heads * queries
    for place, row in enumerate(rows):
        head, query = divmod(place, queries)
        assert row[:2] == [str(head), f"{query} {trace.inputs.pieces[query]}"]
        np.testing.assert_array_equal(np.array(row[2:], np.float32), values[head, query])
    assert len(rows[0]) == 2 + keys


def test_no_cell_of_a_table_begins_like_a_formula(saved):
    trace, into = saved
    for name in trace.names:
        for row in table(into / f"{name}.csv"):
            for cell in row:
                assert cell[0] not in "=@+\t"
                assert cell[0] != "-" or float(cell) <= 0


def test_every_picture_is_xml_and_shows_the_words(saved):
    trace, into = saved
    for name in trace.names:
        root = ElementTree.fromstring((into / f"{name}.svg").read_text("utf-8"))
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
    texts = [each.text for each in ElementTree.parse(into / "decoder.0.cross.pattern.svg").iter() if each.text]
    assert '=cmd|"x", y' in texts


def table(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))
