"""Laws of the alignment error rate: published numbers, and what it must refuse."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.evaluate.alignment import (
    AlignmentRates,
    GoldLinks,
    alignment_rates,
    rates_of_counts,
    read_links,
    require_inside,
)

LINKS = st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=9)


def lines(path: Path) -> list[str]:
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
    """MGIZA and fast_align on the Hansards, as the README of the corpora has them."""
    folder = pellucid_data / "alignments"
    gold = read_links(lines(folder / "hansards_en-fr.en-fr.align.gz"))
    found = read_links(lines(folder / f"hansards_en-fr.{hypothesis}.align.gz"))
    assert (sum(map(len, gold.sure)), sum(map(len, gold.possible))) == (1963, 9164)
    scored = alignment_rates(found.sure, gold)
    assert [round(each or 0.0, 4) for each in (scored.aer, scored.precision, scored.recall)] == [aer, precision, recall]


@pytest.mark.parametrize(
    ("name", "language", "expected"), [("hansards_en-fr", "fr", 0.5325), ("europarl_en-de", "de", 0.6759)]
)
def test_the_floor_is_that_of_one_link_for_each_english_word(
    pellucid_data: Path, name: str, language: str, expected: float
):
    folder = pellucid_data / "alignments"
    gold = read_links(lines(folder / f"{name}.en-{language}.align.gz"))
    english, other = ([text.split(" ") for text in lines(folder / f"{name}.{each}.gz")] for each in ("en", language))
    require_inside(gold, english, other)
    found = [
        {(i, (2 * i + 1) * len(b) // (2 * len(a))) for i in range(len(a))} for a, b in zip(english, other, strict=True)
    ]
    assert alignment_rates(found, gold).aer == pytest.approx(expected, abs=5e-5)


@pytest.mark.article("A35")
def test_the_formula_by_hand():
    """A = {a b c}, S = {a d}, P = {a b d}: 1 - (1 + 2) / (3 + 2)."""
    a, b, c, d = (0, 0), (1, 1), (2, 1), (2, 2)
    assert alignment_rates([{a, b, c}], GoldLinks([{a, d}], [{a, b, d}])) == AlignmentRates(1 - 3 / 5, 2 / 3, 1 / 2, 3)


def test_it_is_not_symmetric():
    few, many = [{(0, 0)}], [{(0, 0), (1, 1), (2, 2)}]
    assert alignment_rates(many, GoldLinks(few, many)).aer == 0.0
    assert alignment_rates(few, GoldLinks(many, many)).aer == pytest.approx(1 - 2 / 4)
    turned = [{(j, i) for i, j in links} for links in [{(0, 1), (1, 1)}]]
    assert alignment_rates(turned, GoldLinks([{(0, 1), (1, 1)}], [{(0, 1), (1, 1)}])).aer == pytest.approx(1 - 2 / 4)


def test_a_sure_link_that_is_not_possible_is_refused():
    gold = GoldLinks([set(), {(0, 0), (1, 2)}], [set(), {(0, 0)}])
    with pytest.raises(ValueError, match="sentence 2: 1-2 is a sure link but not a possible one"):
        alignment_rates([set(), set()], gold)
    with pytest.raises(ValueError, match="links of 1 sentences, gold of 2"):
        alignment_rates([set()], gold)


@settings(derandomize=True, deadline=None)
@given(st.lists(st.tuples(LINKS, LINKS, LINKS), min_size=1, max_size=4))
def test_the_rates_are_sums_over_sentences(several: list):
    found = [a for a, _, _ in several]
    gold = GoldLinks([s for _, s, _ in several], [s | p for _, s, p in several])
    numbered = [
        {(n, *link) for n, some in enumerate(links) for link in some} for links in (found, gold.sure, gold.possible)
    ]
    a, s, p = numbered
    scored = alignment_rates(found, gold)
    assert scored == rates_of_counts(len(a), len(a & s), len(a & p), len(s))
    assert scored.aer == (1 - (len(a & s) + len(a & p)) / (len(a) + len(s)) if a or s else None)
    assert scored.aer is None or 0.0 <= scored.aer <= 1.0


def test_what_nothing_was_counted_for_is_none():
    assert alignment_rates([set()], GoldLinks([set()], [set()])) == AlignmentRates(None, None, None, 0)
    assert alignment_rates([set()], GoldLinks([{(0, 0)}], [{(0, 0)}])) == AlignmentRates(1.0, None, 0.0, 0)


def test_links_are_read_with_sure_ones_possible_too():
    gold = read_links(["0-0 2-1 1p2", "", "10-11"])
    assert gold.sure == [{(0, 0), (2, 1)}, set(), {(10, 11)}]
    assert gold.possible == [{(0, 0), (2, 1), (1, 2)}, set(), {(10, 11)}]


@pytest.mark.parametrize("line", ["0", "0-", "-1-2", "1 - 2", "0:0", "1-2-3", "a-b", "1q2", "٣-1", "1-99999999999"])
def test_what_is_no_link_is_refused_with_its_line(line: str):
    with pytest.raises(ValueError, match=r"^line 2: .* is no link; write 3-4"):
        read_links(["0-0", line])


def test_a_link_beyond_its_sentence_is_refused_with_its_line():
    gold = GoldLinks([{(0, 0)}, {(0, 2)}], [{(0, 0)}, {(0, 2)}])
    with pytest.raises(
        ValueError, match="line 2: link 0-2 is not among 1 source and 2 target words, counted from 0; so"
    ):
        require_inside(gold, [["a"], ["a"]], [["b"], ["b", "c"]], hint="; so")
