"""Alignment of books: the best path is the best, damage is found, and cells grow with the length of the books."""

import textwrap
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.demo.phrasebook import split_phrases
from pellucid.workflows.align.band import Band, Path, find_best_path, score_beads
from pellucid.workflows.align.beads import SHAPES, Bead, BeadPriors
from pellucid.workflows.align.book import join_broken_lines, read_book
from pellucid.workflows.align.length_evidence import LengthEvidence
from pellucid.workflows.align.passes import FEWEST_SENTENCES, align_books, draw_diagonal
from tests.workflows.damaged_books import damage_books, list_links, measure_f1

PRIORS = BeadPriors.estimate()


class TableEvidence:
    """Evidence from a table of beads: their last source and target sentence and their shape; any other is bad."""

    def __init__(self, table: dict[tuple[int, int, tuple[int, int]], float]):
        self.table = table

    def weigh(self, first, end, low, high):
        matrices = []
        for shape in SHAPES:
            cells = [
                [self.table.get((i, j, shape), -20.0) for j in range(low, high)]  # no cell may be impossible
                for i in range(first, end)
            ]
            matrices.append(np.array(cells).reshape(end - first, high - low))
        return matrices


@cache
def phrases(count: int) -> tuple[list[str], list[str]]:
    """Return sentences of the phrasebook with their translations."""
    pairs = split_phrases(count, dev=0, test=0, seed=3).train
    return [pair.source for pair in pairs], [pair.target for pair in pairs]


def whole_band(rows: int, columns: int) -> Band:
    return Band(np.zeros(rows + 1, np.int64), np.full(rows + 1, columns))


def price_path(beads: list[Bead], table: TableEvidence) -> float:
    """Return the score of a path, gap by gap and bead by bead."""
    total = 0.0
    before = None
    for bead in beads:
        side = None if not bead.is_gap else "source" if bead.source else "target"
        if side is None:
            key = (bead.source.stop - 1, bead.target.stop - 1, bead.shape)
            total += table.table.get(key, -20.0) + PRIORS.shapes[SHAPES.index(bead.shape)]
        else:
            total += PRIORS.gap_goes_on if side == before else PRIORS.gap_begins
        before = side
    return total


def every_path(rows: int, columns: int):
    """Yield every way through a few sentences."""
    if rows == columns == 0:
        yield []
        return
    for source_side, target_side in (*SHAPES, (1, 0), (0, 1)):
        if source_side <= rows and target_side <= columns:
            last = Bead(range(rows - source_side, rows), range(columns - target_side, columns))
            for path in every_path(rows - source_side, columns - target_side):
                yield [*path, last]


def test_a_path_that_can_be_worked_out_by_hand():
    """Source 0 is target 0, source 1 is left out, sources 2 and 3 are target 1, and target 2 is added."""
    evidence = TableEvidence({(0, 0, (1, 1)): 9.0, (3, 1, (2, 1)): 9.0, (2, 1, (1, 1)): 5.0})
    beads = find_best_path(whole_band(4, 3), evidence, PRIORS)
    expected = [
        (range(1), range(1)),
        (range(1, 2), range(1, 1)),
        (range(2, 4), range(1, 2)),
        (range(4, 4), range(2, 3)),
    ]
    assert [(bead.source, bead.target) for bead in beads] == expected
    assert score_beads(beads, evidence).tolist() == [9, 0, 9, 0]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 4))
def test_the_path_is_the_best_of_all(seed, rows, columns):
    generator = np.random.default_rng(seed)
    table = {
        (i, j, shape): float(generator.normal(0, 6)) for i in range(rows) for j in range(columns) for shape in SHAPES
    }
    evidence = TableEvidence(table)
    found = price_path(find_best_path(whole_band(rows, columns), evidence, PRIORS), evidence)
    assert found == pytest.approx(max(price_path(path, evidence) for path in every_path(rows, columns)))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 30), st.integers(1, 90), st.integers(1, 90))
def test_every_sentence_is_in_one_bead_in_order_whatever_the_band(seed, margin, rows, columns):
    generator = np.random.default_rng(seed)
    sources, targets = generator.integers(1, 200, rows), generator.integers(1, 200, columns)
    band = Band.around(draw_diagonal(sources, targets), margin)
    beads = find_best_path(band, LengthEvidence(sources, targets), PRIORS)
    assert [i for bead in beads for i in bead.source] == list(range(rows))
    assert [j for bead in beads for j in bead.target] == list(range(columns))
    assert all(np.diff(band.low) >= 0)
    assert all(np.diff(band.high) >= 0)


def test_a_band_follows_the_jump_of_a_path():
    path = Path.of_beads([Bead(range(1), range(1)), Bead(range(1, 1), range(1, 50)), Bead(range(1, 2), range(50, 51))])
    band = Band.around(path, 2)
    assert (band.low[1], band.high[1]) == (0, 51)


@pytest.mark.parametrize(("share", "least"), [(0.05, 0.97), (0.2, 0.9)])
def test_joined_split_and_dropped_sentences_are_found(share, least):
    sources, targets = phrases(600)
    books = damage_books(sources, targets, share, seed=1)
    alignment = align_books(books.sources, books.targets)
    by_lengths = measure_f1(list_links(alignment.by_lengths), books.links)
    assert measure_f1(list_links(alignment.beads), books.links) > max(least, by_lengths)
    assert not alignment.is_chance


@pytest.mark.parametrize(("share", "least"), [(0.05, 0.97), (0.2, 0.9)])
def test_damage_of_real_text_is_found(share, least, pellucid_data):
    from pellucid.data.lines import read_lines

    texts = [list(read_lines(pellucid_data / "wmt_news" / f"newstest2012.{code}.gz"))[:500] for code in ("en", "es")]
    books = damage_books(texts[0], texts[1], share, seed=1)
    assert measure_f1(list_links(align_books(books.sources, books.targets).beads), books.links) > least


@settings(max_examples=3, deadline=None)
@given(st.lists(st.integers(0, 298), max_size=12, unique=True), st.sampled_from(["source", "target"]))
def test_any_few_sentences_may_be_joined(places, side):
    sources, targets = phrases(300)
    sides = {"source": list(sources), "target": list(targets)}
    joined = [place for place in sorted(places) if place + 1 not in places]
    for place in reversed(joined):
        sides[side][place : place + 2] = [" ".join(sides[side][place : place + 2])]
    beads = align_books(sides["source"], sides["target"]).beads
    wanted = (1, 2) if side == "source" else (2, 1)
    found = sum(bead.shape == wanted for bead in beads)
    assert found >= 0.8 * len(joined)


@pytest.mark.parametrize(("side", "place"), [("target", 0), ("source", 200), ("target", 400)])
def test_a_whole_chapter_may_be_missing(side, place):
    sources, targets = phrases(700)
    kept = {"source": [*sources[:400]], "target": [*targets[:400]]}
    chapter = {"source": sources[400:], "target": targets[400:]}[side]
    kept[side][place:place] = chapter
    alignment = align_books(kept["source"], kept["target"])
    gold = set()
    for number in range(400):
        shifted = number + len(chapter) if number >= place else number
        gold.add((shifted, number) if side == "source" else (number, shifted))
    assert measure_f1(list_links(alignment.beads), gold) > 0.98


def test_cells_grow_with_the_books_and_not_with_their_square():
    cells = []
    for count in (300, 600, 1200):
        books = damage_books(*phrases(count), 0.05, seed=2)
        cells.append(align_books(books.sources, books.targets).cells)
    assert all(after < 2.6 * before for before, after in pairwise(cells))
    assert cells[-1] < 1200 * 1000


def test_books_that_do_not_belong_together_are_no_better_than_backwards():
    sources, targets = phrases(900)
    alignment = align_books(sources[:400], targets[450:850])
    assert alignment.is_chance
    assert alignment.strength == pytest.approx(alignment.chance, abs=0.05)


def test_of_small_books_it_is_not_told_whether_they_belong_together():
    sources, targets = phrases(FEWEST_SENTENCES - 1)
    alignment = align_books(sources, targets)
    assert alignment.chance is None
    assert not alignment.is_chance


def test_one_sentence_for_one():
    assert [(bead.source, bead.target) for bead in align_books(["It rains."], ["Llueve."]).beads] == [
        (range(1), range(1))
    ]


def test_sentences_have_the_numbers_of_the_lines_they_begin_in():
    text = "It rains and rains, and the river rises day by day again. We all stay here at home. " * 12
    lines = textwrap.wrap(text, 40)
    book = read_book(["CHAPTER ONE", "", *lines, "", "* * *", "", "The end."])
    assert book.width == 40
    assert book.without_letters == 1
    assert (book.sentences[0].text, book.sentences[-1].place) == ("CHAPTER ONE", len(lines) + 6)
    for sentence in book.sentences[1:-1]:
        assert sentence.text.split()[0] in lines[sentence.place - 3]
        assert sentence.text.endswith(("again.", "home."))


def test_an_indented_line_begins_a_paragraph():
    texts = [paragraph.text for paragraph in join_broken_lines(["One is", "long.", "  Two is", "too.", "", "Three."])]
    assert texts == ["One is long.", "Two is too.", "Three."]
