"""A map of words as an HTML page holds every word at its point, as text, and needs nothing from elsewhere."""

import json
import re

import numpy as np
import pytest

from pellucid.interpret.page.html_file import scatter_html

LABELS = ["</script><script>alert(1)</script>", "{{title}}", "<!--", "a & b", "▁año\u2028"]


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
