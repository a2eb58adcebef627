"""Tests of what a notebook shows of traces, accounts and tensors: right numbers, sound markup, nothing that runs."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from pellucid.interpret.trace import Named
from tests.trace.traced import ball, small_traced

HOSTILE = "</td><script>alert(1)</script><b>&'\""


class Reader(HTMLParser):
    """Reads tags and texts, and fails where a tag is not closed in order."""

    def __init__(self):
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def read(markup: str) -> Reader:
    reader = Reader()
    reader.feed(markup)
    reader.close()
    assert reader.open == []
    assert "script" not in reader.tags
    return reader


def test_a_matrix_is_a_table_of_its_numbers_with_the_labels_of_its_axes():
    pattern = ball()["decoder.1.cross.pattern"].at(H=1)
    reader = read(pattern._repr_html_())
    for label in (*pattern.labels["S"], *pattern.labels["T"]):
        assert label in reader.texts
    shown = [text for text in reader.texts if re.fullmatch(r"[\d.e+-]+", text)]
    expected = [f"{value:.3g}" for value in pattern.values.flatten().tolist()]
    assert [text for text in shown if text in expected][-len(expected) :] == expected


def test_a_tensor_of_all_heads_is_a_picture_of_each():
    pattern = ball()["decoder.1.cross.pattern"]
    reader = read(pattern._repr_html_())
    heads, queries, keys = pattern.shape
    assert reader.tags.count("svg") == heads
    assert reader.tags.count("rect") == heads * (queries * keys + 1)
    assert [text for text in reader.texts if text.startswith("H ")] == [f"H {head}" for head in range(heads)]


@pytest.mark.parametrize("shape", [(), (3,), (2, 99), (11, 2, 3), (2, 2, 2, 2)])
def test_tensors_of_every_number_of_axes_are_shown_and_large_ones_say_that_they_are_cut(shape):
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    values.flat[0] = np.nan
    reader = read(Named(HOSTILE, values, tuple("QKEV"[: len(shape)]), {"Q": [HOSTILE] * 2})._repr_html_())
    assert HOSTILE in "".join(reader.texts)
    cut = [text for text in reader.texts if "the first 2 × 40 numbers" in text or "3 more are not drawn" in text]
    assert len(cut) == (shape in ((2, 99), (11, 2, 3)))


def test_an_account_shows_its_largest_parts_and_what_the_others_add():
    account = ball().account(0)
    reader = read(account._repr_html_())
    parts = sorted(account.parts, key=lambda part: -abs(part.value))
    assert len(parts) > 15
    assert [text for text in reader.texts if text in {part.name for part in parts}] == [
        part.name for part in parts[:15]
    ]
    text = " ".join(reader.texts)
    assert f"{account.sum:+.3f}" in text
    assert f"{len(parts) - 15} smaller parts add {sum(part.value for part in parts[15:]):+.3f}" in text


def test_a_trace_shows_its_steps_and_its_last_cross_attention():
    reader = read(ball()._repr_html_())
    for step in ball().steps:
        assert step.chosen.piece in reader.texts
        assert f"{step.chosen.prob:.3f}" in reader.texts
    assert "decoder.2.cross.pattern, averaged over its heads" in reader.texts
    hostile = small_traced().trace("a &lt;b> 'c' \"d", target="<i>x")
    assert "i" not in read(hostile._repr_html_()).tags
    kept = small_traced().trace("?", keep="encoder.0.self.q")
    assert read(kept._repr_html_()).tags.count("table") == 1
