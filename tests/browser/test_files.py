"""Saved files: one HTML file that needs no server, numbers for numpy and for a spreadsheet, and pictures."""

import csv
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from tests.browser.reading import Page, format_number
from tests.browser.small import SENTENCE
from tests.browser.watched import watch_tab

CROSS = "decoder.2.cross"


def download(page: Page, role: str, name: str, into: Path) -> Path:
    """Save the file of a button or link of the export view, which has those for few readers folded."""
    page.tab.locator(".export-body details").evaluate("details => { details.open = true }")
    with page.tab.expect_download() as saving:
        page.tab.get_by_role(role, name=name).click()
    path = into / saving.value.suggested_filename
    saving.value.save_as(path)
    return path


def test_a_file_with_everything_shows_the_same_numbers_without_any_request(page: Page, browser, trace, tmp_path):
    page.open(s=SENTENCE, v="export")
    file = download(page, "link", "HTML: all and the weights", tmp_path)
    with watch_tab(browser, file.as_uri()) as watched_tab:
        file_page = Page(watched_tab)
        file_page.open(v="head", a=CROSS, h=1, t=2, f="S3").settle()
        page.go(v="head", a=CROSS, h=1, t=2, f="S3").settle()
        page.wait_until("() => document.querySelector('.view-head canvas')").settle()
        assert file_page.text(".translation") == page.text(".translation")
        assert file_page.text(".centre") == page.text(".centre")
        assert file_page.pictures() == page.pictures()
        rng = np.random.default_rng(59)
        rows = trace.manifest()["tensors"]
        for number in rng.choice(len(rows), 12, replace=False):
            name, shape = rows[number]["name"], rows[number]["shape"]
            index = [int(rng.integers(size)) for size in shape]
            file_page.open_cell(name, index)
            captured = file_page.tab.locator(".cell-receipt dd").first.inner_text()
            assert captured == format_number(trace.tensor(name)[tuple(index)])
            assert file_page.text(".cell-receipt strong") == "✓ OK"
        for view in ("output", "beam", "debug", "checks"):
            file_page.go(v=view).wait_until("view => document.querySelector(`.view-${view}`)", view).settle()
        file_page.watched_tab.save_picture("file")
        urls = [url.partition("#")[0] for url in file_page.watched_tab.requests]
        assert urls == [file.as_uri()], "it asked for more than itself"


def test_a_file_of_maps_hatches_what_it_does_not_hold(page: Page, browser, trace, tmp_path):
    page.open(s=SENTENCE, v="export")
    file = download(page, "link", "HTML: maps", tmp_path)
    with watch_tab(browser, file.as_uri()) as watched_tab:
        file_page = Page(watched_tab)
        file_page.open(v="head", a=CROSS, h=1).settle()
        missing = file_page.tab.locator(".sheet.missing").all_inner_texts()
        assert len(missing) >= 4
        # Weights of the model were captured in no trace; a page that a server gives fetches them.
        reasons = ("not captured", "are not in this file")
        assert [text for text in missing if not any(reason in text for reason in reasons)] == []
        values = trace[f"{CROSS}.pattern"].values[1]
        sheet = file_page.sheet("pattern")
        names = [trace.inputs.pieces[3], trace.source.pieces[2]]
        assert sheet.point_at(3, 2, names).split("\n")[0].split()[-1] == format_number(values[3, 2])
        file_page.watched_tab.save_picture("file-of-maps")


def test_numbers_and_pictures_of_one_tensor_can_be_saved(page: Page, trace, tmp_path):
    name = f"{CROSS}.pattern"
    page.open(s=SENTENCE, v="export", x=name)
    page.sheet(name).figure.wait_for()
    values = trace.tensor(name)
    with np.load(download(page, "button", "NPZ for numpy", tmp_path)) as arrays:
        np.testing.assert_array_equal(arrays[name], values)
    with np.load(download(page, "button", f"NPZ of all {len(trace.names)} tensors", tmp_path)) as all_arrays:
        assert set(all_arrays) == set(trace.names)
        for tensor_name in trace.names:
            np.testing.assert_array_equal(all_arrays[tensor_name].astype(np.float32), trace.tensor(tensor_name))
    with download(page, "button", "CSV, all numbers", tmp_path).open(encoding="utf-8", newline="") as table:
        rows = list(csv.reader(table))
    np.testing.assert_array_equal(np.array([row[2:] for row in rows[1:]], np.float32).reshape(values.shape), values)
    assert rows[0][2:] == [f"{i} {piece}" for i, piece in enumerate(trace.source.pieces)]
    drawing = ElementTree.parse(download(page, "button", "SVG", tmp_path)).getroot()
    assert drawing.tag.endswith("svg")
    assert len(drawing.findall(".//{*}rect")) > values[0].size
    picture = download(page, "button", "PNG, double resolution", tmp_path).read_bytes()
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    assert int.from_bytes(picture[16:20], "big") > 600


def test_a_file_says_which_words_a_term_brought(browser, model, tmp_path):
    trace = model.trace(SENTENCE, terms={"queen": "cabra"})
    brought = [origin.word for origin in trace.provenance if origin.origin == "term"]
    assert brought
    trace.save_html(tmp_path / "terms.html", keep="maps")
    with watch_tab(browser, (tmp_path / "terms.html").as_uri()) as watched_tab:
        file_page = Page(watched_tab)
        file_page.open(v="output").settle()
        said = file_page.tab.locator(".scrubber .score").all_inner_texts()
        assert [line for line in said if "→" in line] == [f"{word}: term pair 1 (queen → cabra)" for word in brought]
