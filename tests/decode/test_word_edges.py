"""Edges of words: where words begin and go on, between the pieces of a real vocabulary."""

import pytest

from pellucid.data.tokenizer import EOS
from pellucid.decode.terms.required import WordEdges, edge_positions, joins_word
from tests.decode.models import small_tokenizer


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
