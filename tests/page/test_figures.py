"""A table and a map of words as HTML pages hold every number and word, as text, and need nothing from elsewhere."""

import json
import re

import numpy as np
import pytest

from pellucid.page.figures import scatter_html, table_html

HOSTILE = ["</td></table><script>alert(1)</script>", "<!--", "a & b", '"><img src=x onerror=alert(1)>']
LABELS = ["</script><script>alert(1)</script>", "{{title}}", "<!--", "a & b", "▁año\u2028"]


def make_page(**more) -> str:
    values = [[0.5, 0.25, 0.25, None], [1.0, -2.0, 0.0, float("nan")]]
    return table_html(HOSTILE[:2], HOSTILE, values, title="<b>t</b>", says=["<i>a</i> & b"], sums=True, **more)


def test_every_text_is_escaped():
    html = make_page(corner="<u>")
    assert not re.search(r"<(script|img|b|i|u|!--)\b", html)
    for text in HOSTILE:
        assert text not in html
    assert "&lt;/td&gt;&lt;/table&gt;&lt;script&gt;" in html
    assert html.count("&lt;b&gt;t&lt;/b&gt;") == 2
    assert "<p>&lt;i&gt;a&lt;/i&gt; &amp; b</p>" in html


def test_a_table_needs_nothing_from_elsewhere():
    html = make_page()
    assert "default-src 'none'" in html
    assert not re.search(r"(src|href)=|url\(|@import|https?://", html.replace(HOSTILE[3], "").replace("src=x", ""))


def test_every_number_is_shown_and_missing_ones_are_hatched():
    html = make_page(digits=2)
    rows = re.findall(r"<tr><th scope=\"row\">.*?</tr>", html)
    assert [re.findall(r">(-?[\d.]+)</td>", row) for row in rows] == [
        ["0.50", "0.25", "0.25", "1.00"],
        ["1.00", "-2.00", "0.00", "-1.00"],
    ]
    assert html.count('<td class="none"></td>') == 2
    assert html.count('class="down"') == 1
    shares = [float(share) for share in re.findall(r"--share:([\d.]+)", html)]
    assert shares == pytest.approx([0.2, 0.1, 0.1, 0.4, 0.8, 0.0])  # of the largest, -2


def test_an_empty_table_is_a_page_too():
    assert "<tbody>" in table_html([], [], [], title="t", says=[])


@pytest.mark.parametrize("dims", [2, 3])
def test_a_map_holds_each_word_at_its_point(dims: int):
    points = np.random.default_rng(1).standard_normal((5, dims))
    page = scatter_html(points, LABELS, title="<b>map</b>", says="5 & no more")
    [data] = re.findall(r'<script id="data" type="application/json">(.*?)</script>', page)
    map_data = json.loads(data)
    assert map_data["labels"] == LABELS
    assert np.array(map_data["points"]) == pytest.approx(points, rel=1e-6)
    assert page.count("<title>&lt;b&gt;map&lt;/b&gt;</title>") == 1
    assert "5 &amp; no more" in page
    assert page.count("<script") == 2


def test_a_map_needs_nothing_from_elsewhere():
    page = scatter_html(np.zeros((1, 2)), ["a"], title="t", says="s")
    assert "default-src 'none'" in page
    assert not re.search(r"(src|href)=|url\(|import\b|fetch\(|https?://", page)
