import re

import pytest

from pellucid.page.table import table_html

HOSTILE = ["</td></table><script>alert(1)</script>", "<!--", "a & b", '"><img src=x onerror=alert(1)>']


def page(**more) -> str:
    values = [[0.5, 0.25, 0.25, None], [1.0, -2.0, 0.0, float("nan")]]
    return table_html(HOSTILE[:2], HOSTILE, values, title="<b>t</b>", says=["<i>a</i> & b"], sums=True, **more)


def test_every_text_is_escaped():
    made = page(corner="<u>")
    assert not re.search(r"<(script|img|b|i|u|!--)\b", made)
    for text in HOSTILE:
        assert text not in made
    assert "&lt;/td&gt;&lt;/table&gt;&lt;script&gt;" in made
    assert made.count("&lt;b&gt;t&lt;/b&gt;") == 2
    assert "<p>&lt;i&gt;a&lt;/i&gt; &amp; b</p>" in made


def test_it_stands_alone():
    made = page()
    assert "default-src 'none'" in made
    assert not re.search(r"(src|href)=|url\(|@import|https?://", made.replace(HOSTILE[3], "").replace("src=x", ""))


def test_the_numbers_are_there_and_what_cannot_be_is_hatched():
    made = page(digits=2)
    rows = re.findall(r"<tr><th scope=\"row\">.*?</tr>", made)
    assert [re.findall(r">(-?[\d.]+)</td>", row) for row in rows] == [
        ["0.50", "0.25", "0.25", "1.00"],
        ["1.00", "-2.00", "0.00", "-1.00"],
    ]
    assert made.count('<td class="none"></td>') == 2
    assert made.count('class="down"') == 1
    shares = [float(each) for each in re.findall(r"--share:([\d.]+)", made)]
    assert shares == pytest.approx([0.2, 0.1, 0.1, 0.4, 0.8, 0.0])  # of the largest, -2


def test_a_table_of_nothing_is_a_page_too():
    assert "<tbody>" in table_html([], [], [], title="t", says=[])
