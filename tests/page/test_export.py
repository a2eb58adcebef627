"""Others can read the files that the page saves: numpy reads NPZ, the csv module CSV, and an XML parser SVG."""

import csv
import json
import xml.etree.ElementTree as ElementTree
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.page.built import WEB
from tests.page.test_cells import make_trace, run_program, write_trace


@pytest.fixture(scope="module")
def saved_trace(tmp_path_factory) -> tuple:
    """A trace, and the directory into which the code of the page has saved it."""
    script_directory, trace_directory, directory = (
        tmp_path_factory.mktemp(name) for name in ("script", "given", "saved")
    )
    path = script_directory / "exporting.mjs"
    arguments = ["test/export_tensors.ts", "--bundle", "--platform=node", "--format=esm", f"--outfile={path}"]
    run_program(
        str(WEB / "node_modules" / "esbuild" / "bin" / "esbuild"),
        *arguments,
        "--loader:.css=text",
        "--log-level=warning",
    )
    trace = make_trace()
    trace.source.pieces[1] = '=cmd|"x", y'  # a label that a spreadsheet could take for a formula
    write_trace(trace, trace_directory)
    manifest = json.loads((trace_directory / "manifest.json").read_text("utf-8"))
    manifest["axes"]["S"]["labels"] = trace.source.pieces
    (trace_directory / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    run_program("node", str(path), str(trace_directory), str(directory))
    return trace, directory


def test_numpy_reads_every_array_bit_by_bit(saved_trace):
    trace, directory = saved_trace
    with np.load(directory / "all.npz", allow_pickle=False) as arrays:
        assert list(arrays) == trace.names
        for name in trace.names:
            values = trace[name].values
            assert arrays[name].dtype == (np.bool_ if values.dtype == np.bool_ else np.float32)
            np.testing.assert_array_equal(arrays[name], values)


def test_the_zip_is_whole_and_its_arrays_begin_where_numpy_maps_them(saved_trace):
    _, directory = saved_trace
    with zipfile.ZipFile(directory / "all.npz") as archive:
        assert archive.testzip() is None
        data = archive.read(archive.namelist()[0])
    assert (10 + int.from_bytes(data[8:10], "little")) % 64 == 0


def test_a_file_with_one_wrong_bit_is_refused(saved_trace, tmp_path):
    _, directory = saved_trace
    data = bytearray((directory / "all.npz").read_bytes())
    with zipfile.ZipFile(directory / "all.npz") as archive:
        first, second = archive.infolist()[:2]
    data[second.header_offset - 1] ^= 1  # the last of its numbers
    (tmp_path / "broken.npz").write_bytes(data)
    with zipfile.ZipFile(tmp_path / "broken.npz") as archive:
        assert archive.testzip() == first.filename


def test_a_table_has_every_number_under_its_labels(saved_trace):
    trace, directory = saved_trace
    name = "decoder.0.cross.scores"
    header, *rows = read_table(directory / f"{name}.csv")
    values = trace[name].values
    heads, queries, keys = values.shape
    assert header[:2] == ["H", "T"]
    assert header[2:] == [f"{i} {piece}" for i, piece in enumerate(trace.source.pieces)]
    assert len(rows) == heads * queries
    for index, row in enumerate(rows):
        head, query = divmod(index, queries)
        assert row[:2] == [str(head), f"{query} {trace.inputs.pieces[query]}"]
        np.testing.assert_array_equal(np.array(row[2:], np.float32), values[head, query])
    assert len(rows[0]) == 2 + keys


def test_no_cell_of_a_table_begins_like_a_formula(saved_trace):
    trace, directory = saved_trace
    for name in trace.names:
        for row in read_table(directory / f"{name}.csv"):
            for cell in row:
                assert cell[0] not in "=@+\t"
                assert cell[0] != "-" or float(cell) <= 0


def test_every_picture_is_xml_and_shows_the_words(saved_trace):
    trace, directory = saved_trace
    for name in trace.names:
        root = ElementTree.fromstring((directory / f"{name}.svg").read_text("utf-8"))
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
    texts = [
        element.text for element in ElementTree.parse(directory / "decoder.0.cross.pattern.svg").iter() if element.text
    ]
    assert '=cmd|"x", y' in texts


def read_table(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))
