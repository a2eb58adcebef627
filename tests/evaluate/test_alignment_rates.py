"""Alignment error rates: published numbers, the formula by hand, and the links that are refused."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.evaluate.alignment_rates import (
    AlignmentRates,
    GoldLinks,
    alignment_rates,
    rates_of_counts,
    read_links,
    require_inside,
)

LINKS = st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=9)


def read_lines(path: Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode().split("\n")[:-1]


@pytest.mark.parametrize(
    ("hypothesis", "aer", "precision", "recall"),
    [
        ("hyp_mgiza_grow-diagonal", 0.0584, 0.9773, 0.8961),
        ("hyp_fast_align_grow-diagonal", 0.0952, 0.9205, 0.8839),
    ],
)
def test_the_rates_are_those_of_published_alignments(
    pellucid_data: Path, hypothesis: str, aer: float, precision: float, recall: float
):
    """MGIZA and fast_align on the Hansards have the rates that the README of the corpora gives."""
    folder = pellucid_data / "alignments"
    gold = read_links(read_lines(folder / "hansards_en-fr.en-fr.align.gz"))
    links = read_links(read_lines(folder / f"hansards_en-fr.{hypothesis}.align.gz"))
    assert (sum(map(len, gold.sure)), sum(map(len, gold.possible))) == (1963, 9164)
    rates = alignment_rates(links.sure, gold)
    assert [round(rate or 0.0, 4) for rate in (rates.aer, rates.precision, rates.recall)] == [aer, precision, recall]


@pytest.mark.parametrize(
    ("name", "language", "expected"), [("hansards_en-fr", "fr", 0.5325), ("europarl_en-de", "de", 0.6759)]
)
def test_the_floor_is_that_of_one_link_for_each_english_word(
    pellucid_data: Path, name: str, language: str, expected: float
):
    folder = pellucid_data / "alignments"
    gold = read_links(read_lines(folder / f"{name}.en-{language}.align.gz"))
    english, other = (
        [text.split(" ") for text in read_lines(folder / f"{name}.{code}.gz")] for code in ("en", language)
    )
    require_inside(gold, english, other)
    links = [
        {(i, (2 * i + 1) * len(b) // (2 * len(a))) for i in range(len(a))} for a, b in zip(english, other, strict=True)
    ]
    assert alignment_rates(links, gold).aer == pytest.approx(expected, abs=5e-5)


@pytest.mark.article("A35")
def test_the_alignment_error_rate_by_hand():
    """The rate of A = {a b c}, S = {a d}, P = {a b d} is 1 - (1 + 2) / (3 + 2)."""
    a, b, c, d = (0, 0), (1, 1), (2, 1), (2, 2)
    assert alignment_rates([{a, b, c}], GoldLinks([{a, d}], [{a, b, d}])) == AlignmentRates(1 - 3 / 5, 2 / 3, 1 / 2, 3)


def test_the_error_rate_is_not_symmetric():
    few, many = [{(0, 0)}], [{(0, 0), (1, 1), (2, 2)}]
    assert alignment_rates(many, GoldLinks(few, many)).aer == 0.0
    assert alignment_rates(few, GoldLinks(many, many)).aer == pytest.approx(1 - 2 / 4)
    reversed_links = [{(j, i) for i, j in links} for links in [{(0, 1), (1, 1)}]]
    assert alignment_rates(reversed_links, GoldLinks([{(0, 1), (1, 1)}], [{(0, 1), (1, 1)}])).aer == pytest.approx(
        1 - 2 / 4
    )


def test_a_sure_link_that_is_not_possible_is_refused():
    gold = GoldLinks([set(), {(0, 0), (1, 2)}], [set(), {(0, 0)}])
    with pytest.raises(ValueError, match="sentence 2: 1-2 is a sure link but not a possible one"):
        alignment_rates([set(), set()], gold)
    with pytest.raises(ValueError, match="links of 1 sentences, gold of 2"):
        alignment_rates([set()], gold)


@settings(derandomize=True, deadline=None)
@given(st.lists(st.tuples(LINKS, LINKS, LINKS), min_size=1, max_size=4))
def test_the_rates_are_sums_over_sentences(sentences: list):
    hypotheses = [a for a, _, _ in sentences]
    gold = GoldLinks([s for _, s, _ in sentences], [s | p for _, s, p in sentences])
    numbered = [
        {(n, *link) for n, sentence_links in enumerate(links) for link in sentence_links}
        for links in (hypotheses, gold.sure, gold.possible)
    ]
    a, s, p = numbered
    rates = alignment_rates(hypotheses, gold)
    assert rates == rates_of_counts(len(a), len(a & s), len(a & p), len(s))
    assert rates.aer == (1 - (len(a & s) + len(a & p)) / (len(a) + len(s)) if a or s else None)
    assert rates.aer is None or 0.0 <= rates.aer <= 1.0


def test_a_rate_that_counts_nothing_is_none():
    assert alignment_rates([set()], GoldLinks([set()], [set()])) == AlignmentRates(None, None, None, 0)
    assert alignment_rates([set()], GoldLinks([{(0, 0)}], [{(0, 0)}])) == AlignmentRates(1.0, None, 0.0, 0)


def test_sure_links_are_read_as_possible_links_too():
    gold = read_links(["0-0 2-1 1p2", "", "10-11"])
    assert gold.sure == [{(0, 0), (2, 1)}, set(), {(10, 11)}]
    assert gold.possible == [{(0, 0), (2, 1), (1, 2)}, set(), {(10, 11)}]


@pytest.mark.parametrize("line", ["0", "0-", "-1-2", "1 - 2", "0:0", "1-2-3", "a-b", "1q2", "٣-1", "1-99999999999"])
def test_a_malformed_link_is_refused_with_its_line(line: str):
    with pytest.raises(ValueError, match=r"^line 2: .* is no link; write 3-4"):
        read_links(["0-0", line])


def test_a_link_beyond_its_sentence_is_refused_with_its_line():
    gold = GoldLinks([{(0, 0)}, {(0, 2)}], [{(0, 0)}, {(0, 2)}])
    with pytest.raises(
        ValueError, match="line 2: link 0-2 is not among 1 source and 2 target words, counted from 0; so"
    ):
        require_inside(gold, [["a"], ["a"]], [["b"], ["b", "c"]], hint="; so")
