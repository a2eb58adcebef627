"""Forced prefixes: what the rule forbids, and how a text becomes pieces."""

import pytest
import torch

from pellucid.data.tokenizer import EOS, UNK
from pellucid.decode.search import prefix_rule
from pellucid.decode.terms.required import EDGE, NEW_WORD, WordEdges, prefix_pieces, refuse_long_prefixes
from tests.decode.models import small_tokenizer

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
