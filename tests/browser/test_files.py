"""What is taken away: one HTML file that needs nobody, numbers for numpy and for a spreadsheet, pictures."""

import csv
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from tests.browser.reading import Page, written
from tests.browser.small import SENTENCE
from tests.browser.watched import watched

CROSS = "decoder.2.cross"


def downloaded(page: Page, role: str, name: str, into: Path) -> Path:
    """What a button or link of the export view saves."""
    with page.tab.expect_download() as saving:
        page.tab.get_by_role(role, name=name).click()
    path = into / saving.value.suggested_filename
    saving.value.save_as(path)
    return path


def test_a_file_with_everything_shows_the_same_numbers_without_any_request(page: Page, browser, trace, tmp_path):
    page.open(s=SENTENCE, v="export")
    file = downloaded(page, "link", "HTML: all and the weights", tmp_path)
    with watched(browser, file.as_uri()) as found:
        alone = Page(found)
        alone.open(v="head", a=CROSS, h=1, t=2, f="S3").settled()
        page.go(v="head", a=CROSS, h=1, t=2, f="S3").settled()
        page.until("() => document.querySelector('.view-head canvas')").settled()
        assert alone.text(".translation") == page.text(".translation")
        assert alone.text(".centre") == page.text(".centre")
        assert alone.pictures() == page.pictures()
        random = np.random.default_rng(59)
        rows = trace.manifest()["tensors"]
        for at in random.choice(len(rows), 12, replace=False):
            name, shape = rows[at]["name"], rows[at]["shape"]
            index = [int(random.integers(size)) for size in shape]
            alone.open_cell(name, index)
            captured = alone.tab.locator(".cell-receipt dd").first.inner_text()
            assert captured == written(trace.tensor(name)[tuple(index)])
            assert alone.text(".cell-receipt strong") == "✓ OK"
        for view in ("output", "beam", "debug", "checks"):
            alone.go(v=view).until("view => document.querySelector(`.view-${view}`)", view).settled()
        alone.watched.picture("file")
        asked = [url.partition("#")[0] for url in alone.watched.asked]
        assert asked == [file.as_uri()], "it asked for more than itself"


def test_a_file_of_maps_hatches_what_it_does_not_hold(page: Page, browser, trace, tmp_path):
    page.open(s=SENTENCE, v="export")
    file = downloaded(page, "link", "HTML: maps", tmp_path)
    with watched(browser, file.as_uri()) as found:
        alone = Page(found)
        alone.open(v="head", a=CROSS, h=1).settled()
        missing = alone.tab.locator(".sheet.missing").all_inner_texts()
        assert len(missing) >= 4
        assert all("not captured" in text for text in missing)
        values = trace[f"{CROSS}.pattern"].values[1]
        sheet = alone.sheet("pattern")
        names = [trace.inputs.pieces[3], trace.source.pieces[2]]
        assert sheet.point_at(3, 2, names).split("\n")[0].split()[-1] == written(values[3, 2])
        alone.watched.picture("file-of-maps")


def test_numbers_and_pictures_of_one_tensor(page: Page, trace, tmp_path):
    name = f"{CROSS}.pattern"
    page.open(s=SENTENCE, v="export", x=name)
    page.sheet(name).figure.wait_for()
    values = trace.tensor(name)
    with np.load(downloaded(page, "button", "NPZ for numpy", tmp_path)) as one:
        np.testing.assert_array_equal(one[name], values)
    with np.load(downloaded(page, "button", f"NPZ of all {len(trace.names)} tensors", tmp_path)) as every:
        assert set(every) == set(trace.names)
        for each in trace.names:
            np.testing.assert_array_equal(every[each].astype(np.float32), trace.tensor(each))
    with downloaded(page, "button", "CSV, all numbers", tmp_path).open(encoding="utf-8", newline="") as table:
        rows = list(csv.reader(table))
    np.testing.assert_array_equal(np.array([row[2:] for row in rows[1:]], np.float32).reshape(values.shape), values)
    assert rows[0][2:] == [f"{i} {piece}" for i, piece in enumerate(trace.source.pieces)]
    drawing = ElementTree.parse(downloaded(page, "button", "SVG", tmp_path)).getroot()
    assert drawing.tag.endswith("svg")
    assert len(drawing.findall(".//{*}rect")) > values[0].size
    picture = downloaded(page, "button", "PNG, double resolution", tmp_path).read_bytes()
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    assert int.from_bytes(picture[16:20], "big") > 600
