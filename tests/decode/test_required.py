"""Word edges, terms in a sequence of pieces (compared with every way to place them), and forced prefixes."""

import random
from collections.abc import Callable

import pytest
import torch

from pellucid.data.tokenizer import EOS, UNK
from pellucid.decode.terms.prefix_rule import prefix_rule
from pellucid.decode.terms.required import (
    EDGE,
    NEW_WORD,
    Term,
    WordEdges,
    edge_positions,
    explain_no_room,
    joins_word,
    missing_terms,
    pieces_needed,
    prefix_pieces,
    refuse_long_prefixes,
    shortest_spelling,
)
from tests.decode.models import small_tokenizer
from tests.decode.spans import can_place_terms
from tests.growth import assert_linear_work


@pytest.mark.parametrize(
    ("text", "positions"),
    [
        ("", [0]),
        ("dog", [0, 3]),
        ("a dog's", [0, 1, 2, 5, 6, 7]),
        ("e\u0301te", [0, 4]),  # the accent is part of its letter
        ("C++11", [0, 1, 2, 3, 5]),
        ("犬です", [0, 1, 2, 3]),  # no spaces between words, so a word may end anywhere
    ],
)
def test_edges_are_the_positions_that_are_not_inside_a_word(text, positions):
    assert edge_positions(text) == positions


def test_only_letters_and_digits_join():
    assert all(map(joins_word, "aÄß9я한"))
    assert not any(map(joins_word, " .,-'\"{(▁犬アไ😀"))


def test_pieces_of_a_vocabulary_are_classified():
    tokenizer = small_tokenizer()
    words = WordEdges.from_tokenizer(tokenizer)
    [ids] = tokenizer.encode_target(["blue."])
    pieces = dict(zip(tokenizer.target_pieces(ids), ids, strict=True))
    *word, stop, end = ids
    assert (tokenizer.target_pieces([stop, end]), end) == ([".", "</s>"], EOS)
    assert set(word) <= words.ends_in_letter
    assert not {stop, end} & (words.ends_in_letter | words.begins_with_letter)
    assert {stop, end} <= words.without_space_mark
    assert word[0] not in words.without_space_mark
    assert set(word[1:]) <= words.begins_with_letter & words.without_space_mark, pieces
    everything = tokenizer.target_names
    byte = {number: everything.index(f"<0x{number:02X}>") for number in (0x2C, 0x41, 0xA9)}
    assert byte[0x2C] not in words.ends_in_letter | words.begins_with_letter
    assert {byte[0x41], byte[0xA9]} <= words.ends_in_letter & words.begins_with_letter & words.without_space_mark


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

    # Of these each has a second spelling: the work is linear, and much.
    assert_linear_work(read_text, 20 if growing == "terms that share a spelling" else 50, "/decode/terms/")


INF = torch.inf


def apply_rule(rule, tokens: list[list[int]], sentences: list[int]) -> torch.Tensor:
    log_probs = torch.arange(7.0).repeat(len(sentences), 1)
    rule(log_probs, torch.tensor(tokens, dtype=torch.int64).view(len(sentences), -1), torch.tensor(sentences))
    return log_probs


def test_each_row_follows_the_prefix_of_its_own_sentence():
    rule = prefix_rule([(4, 5), (), (6,)], WordEdges())
    at_start = apply_rule(rule, [[]] * 5, [0, 0, 1, 2, 2])
    for row, piece in enumerate([4, 4, None, 6, 6]):
        expected = [float(i) if piece in (i, None) else -INF for i in range(7)]
        assert at_start[row].tolist() == expected
    after_one_piece = apply_rule(rule, [[4], [1], [6]], [0, 1, 2])
    assert after_one_piece[0].tolist() == [-INF] * 5 + [5.0, -INF]
    assert after_one_piece[1:].tolist() == [list(map(float, range(7)))] * 2


def test_what_another_rule_forbids_stays_forbidden():
    log_probs = torch.full((1, 7), -INF)
    prefix_rule([(4,)], WordEdges())(log_probs, torch.empty(1, 0, dtype=torch.int64), torch.tensor([0]))
    assert log_probs.tolist() == [[-INF] * 7]


def test_a_new_word_is_any_piece_that_starts_one():
    rule = prefix_rule([(4, NEW_WORD), (4,)], WordEdges(without_space_mark=frozenset({0, 1, 2, EOS, 5})))
    assert apply_rule(rule, [[4], [4]], [0, 1]).tolist() == [[-INF] * 4 + [4.0, -INF, 6.0], list(map(float, range(7)))]


def test_an_edge_is_any_piece_that_does_not_go_on_with_the_word():
    rule = prefix_rule(
        [(4, EDGE), (4,)], WordEdges(begins_with_letter=frozenset({2, 5}), without_space_mark=frozenset({2, EOS, 5}))
    )
    expected = [0.0, 1.0, -INF, 3.0, 4.0, -INF, 6.0]
    assert apply_rule(rule, [[4], [4]], [0, 1]).tolist() == [expected, list(map(float, range(7)))]


def test_no_prefix_at_all_forbids_nothing():
    for prefixes in ([()], [(), ()]):
        assert (
            apply_rule(prefix_rule(prefixes, WordEdges()), [[]] * len(prefixes), list(range(len(prefixes))))
            .isfinite()
            .all()
        )


def test_a_text_becomes_the_pieces_it_is_encoded_to_without_the_end_token():
    tokenizer = small_tokenizer()
    for text in ("La bola", "La bo", "¿", "犬 1"):
        ids = prefix_pieces(tokenizer, text)
        assert EOS not in ids
        assert tokenizer.decode_target(ids) == text
        assert prefix_pieces(tokenizer, f"  {text}") == ids
        assert prefix_pieces(tokenizer, f"{text} ") == (*ids, NEW_WORD)
    for blank in ("", " ", "   "):
        assert prefix_pieces(tokenizer, blank) == ()


def test_a_prefix_is_one_line_the_model_can_write(monkeypatch):
    tokenizer = small_tokenizer()
    with pytest.raises(ValueError, match=r"the prefix 'La\\nbola' has a line feed"):
        prefix_pieces(tokenizer, "La\nbola")
    monkeypatch.setattr(type(tokenizer), "encode_target", lambda self, lines: [[UNK, EOS] for _ in lines])
    with pytest.raises(ValueError, match="the prefix '犬' has a character this model cannot write"):
        prefix_pieces(tokenizer, "犬")


def test_prefixes_that_are_too_long_are_named_all_at_once():
    refuse_long_prefixes([(1, (), 1), (2, (4, 5), 2)])
    with pytest.raises(
        ValueError, match=r"line 2 has 3, its translation at most 2; line 9 has 1, .*at most 0; shorten"
    ):
        refuse_long_prefixes([(2, (4, 5, 6), 2), (5, (4,), 3), (9, (4,), 0)])
    with pytest.raises(ValueError, match=r"line 5 has 1, its translation at most 0, and 2 more lines; shorten"):
        refuse_long_prefixes([(line, (4,), 0) for line in range(1, 8)])
