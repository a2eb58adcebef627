"""Terms in a sequence of pieces: found by going through it once, compared with every way to place them."""

import random
from collections.abc import Callable

import pytest

from pellucid.decode.terms.required import (
    EDGE,
    Term,
    WordEdges,
    explain_no_room,
    missing_terms,
    pieces_needed,
    shortest_spelling,
)
from tests.decode.spans import can_place_terms
from tests.growth import assert_linear_work

A, B, C = 4, 5, 6


@pytest.mark.parametrize(
    ("terms", "text", "expected"),
    [
        ([((A, B),)], [A, B], []),
        ([((A, B),)], [A, A], [0]),
        ([((A, A, B),)], [A, A, A, B], []),
        ([((A,),), ((A,),)], [A, B], [1]),  # a term that is required twice must stand there twice
        ([((A, B),), ((B, C),)], [A, B, C], [1]),  # spans may not overlap: only one of the terms is there
        ([((A, B),), ((B, C),)], [A, B, B, C], []),
        ([((A, B),), ((A,),)], [A, B], [1]),  # a term inside another needs a span of its own
        ([((A, B),), ((A,),)], [A, B, A], []),
        ([((A,),), ((A, B),)], [A, B, A], []),
        ([((A, B), (C,))], [C], []),  # any spelling will do
        ([((A, A),), ((A,),)], [A, A], [1]),  # one of the two readings is complete but for the single one
        ([((A, A),), ((A,),)], [A, A, A], []),
    ],
)
def test_terms_by_hand(terms, text, expected):
    assert missing_terms(text, terms, WordEdges()) == expected


@pytest.mark.parametrize("seed", range(7))
def test_nothing_is_missing_exactly_when_all_terms_can_be_placed(seed):
    draw = random.Random(seed)
    counts = [0, 0]
    for _ in range(300):
        terms = [
            tuple(tuple(draw.choices((A, B, C), k=draw.randint(1, 3))) for _ in range(draw.randint(1, 2)))
            for _ in range(draw.randint(0, 3))
        ]
        text = draw.choices((A, B, C), k=draw.randint(0, 8))
        can_be_placed = can_place_terms(text, terms)
        counts[can_be_placed] += 1
        assert (missing_terms(text, terms, WordEdges()) == []) == can_be_placed, (terms, text)
    assert min(counts) > 30


def test_a_spelling_without_edges_may_be_touched():
    word_edges = WordEdges(
        ends_in_letter=frozenset({4, 5}), begins_with_letter=frozenset({5}), without_space_mark=frozenset({5, 6})
    )
    assert missing_terms([4, 5, 5], [((4, 5), (5,))], word_edges) == []


def test_a_term_that_could_not_always_be_written_is_our_mistake():
    with pytest.raises(AssertionError, match="no spelling of a term can follow any piece"):
        shortest_spelling(((EDGE, 5),), WordEdges(without_space_mark=frozenset({5})))


def test_room_is_what_the_prefix_leaves():
    assert pieces_needed((), (), WordEdges()) == 0
    assert pieces_needed((C, A), [((A, B),), ((C,),)], WordEdges()) == 4  # C is there, and A B stands behind the prefix
    assert pieces_needed((C, A, C), [((A, B), (A, B, C))], WordEdges()) == 5  # the shortest spelling must fit
    assert explain_no_room((C, A), [((A, B),)], 4, WordEdges()) == ""
    assert explain_no_room((), [((A, B),)], 1, WordEdges()).startswith(
        "its 1 terms take 2 pieces, it may have 1; raise max_extra"
    )
    assert "terms after its prefix take 3 pieces" in explain_no_room((C,), [((A, B),)], 2, WordEdges())


def test_many_equal_terms_take_no_time():
    terms = [((A, B), (A,)) for _ in range(23)] + [((B, A), (A, A, A)) for _ in range(23)]
    assert missing_terms([A, B] * 200, terms, WordEdges()) == []
    assert missing_terms([A] * 30, terms, WordEdges())


@pytest.mark.parametrize("seed", range(3))
def test_the_missing_terms_are_those_that_have_no_place_beside_the_earlier_ones(seed):
    draw = random.Random(seed)
    missing = 0
    for _ in range(300):
        terms = [
            tuple(tuple(draw.choices((A, B, C), k=draw.randint(1, 3))) for _ in range(draw.randint(1, 2)))
            for _ in range(draw.randint(0, 3))
        ]
        terms += draw.sample(terms, k=draw.randint(0, min(1, len(terms))))
        text = draw.choices((A, B, C), k=draw.randint(0, 8))
        present: list[Term] = []
        expected = []
        for n, term in enumerate(terms):
            if can_place_terms(text, [*present, term]):
                present.append(term)
            else:
                expected.append(n)
        assert missing_terms(text, terms, WordEdges()) == expected, (terms, text)
        missing += len(expected)
    assert missing > 100


def test_a_term_that_a_letter_touches_is_missing():
    word_edges = WordEdges(
        ends_in_letter=frozenset({4, 5}), begins_with_letter=frozenset({5}), without_space_mark=frozenset({5, 6})
    )
    terms = [((EDGE, 4, EDGE), (EDGE, 5, EDGE))]
    for text, expected in (
        ([4], []), ([4, 6], []), ([4, 4], []), ([4, 5], [0]), ([6, 5], []), ([5], []), ([5, 5], [0]), ([], [0]),
    ):  # fmt: skip
        assert missing_terms(text, terms, word_edges) == expected, text


def list_pairs(count: int) -> list[Term]:
    """Return terms of which each first one may be written as the second one too, as "x" may be written "X"."""
    return [((10 + i,), (1010 + i,)) for i in range(count)] + [((1010 + i,),) for i in range(count)]


GROWING: dict[str, Callable[[int], tuple[list[Term], list[int]]]] = {
    "different terms": lambda n: (
        [((10 + i, 9), (1010 + i,)) for i in range(n)],
        [piece for i in range(n) for piece in (10 + i, 9)],
    ),
    "terms that begin alike": lambda n: (
        [((8, 9, 10 + i),) for i in range(n)],
        [k for i in range(n) for k in (8, 9, 10 + i)],
    ),
    "terms that are not there": lambda n: ([((10 + i,),) for i in range(n)], [9] * n),
    "equal terms": lambda n: ([((8, 9), (8,))] * n, [8, 9] * n),
    "one long term": lambda n: ([(tuple(range(10, 10 + n)),)], [*range(10, 10 + n)]),
    "one long term of one token": lambda n: ([((8,) * n,)], [8] * n),
    "terms that share a spelling": lambda n: (list_pairs(n), [*range(1010, 1010 + n), *range(10, 10 + n)]),
}


@pytest.mark.parametrize("growing", GROWING)
def test_reading_a_text_for_its_terms_is_linear_work(growing):
    def read_text(size: int) -> None:
        terms, text = GROWING[growing](size)
        assert missing_terms(text, terms, WordEdges()) == [] or growing == "terms that are not there"

    assert_linear_work(read_text, 50, "/decode/terms/")
