"""A table of numbers as one HTML page holds every number, escapes every text, and needs nothing from elsewhere."""

import re

import pytest

from pellucid.page.figures import table_html

HOSTILE = ["</td></table><script>alert(1)</script>", "<!--", "a & b", '"><img src=x onerror=alert(1)>']


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
