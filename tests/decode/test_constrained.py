"""The search for translations with given terms: banks, forcing near the limit, and cases solved by hand."""

import math
import random

import pytest
import torch

from pellucid.data.tokenizer import EOS
from pellucid.decode.search import forbidden_rule
from pellucid.decode.terms.constrained import constrained_search, share_beam
from pellucid.decode.terms.required import RequiredTerms, Term, can_follow_any_piece, pieces_needed
from pellucid.decode.terms.word_edges import EDGE, WordEdges
from tests.decode.spans import can_place_terms
from tests.decode.tables import Prefixes, limit, random_logits, step_from, step_from_table, words

A, B, C = 4, 5, 6


def search_with_terms(step, limits, terms, width=3, n_best=None, alpha=0.0, **options):
    state = Prefixes(list(range(len(terms))))
    n_best = n_best or width
    return constrained_search(step, state, limits, terms, width=width, n_best=n_best, length_penalty=alpha, **options)


def test_the_example_one_can_solve_by_hand():
    step = step_from_table(
        {
            "": {"a": 0.9, "b": 0.1},
            "a": {".": 0.8, "a": 0.1, "b": 0.1},
            "b": {".": 0.9, "a": 0.1},
            "ab": {".": 0.5, "a": 0.5},
        }
    )
    [[best]] = search_with_terms(step, limit(5), [[((B,),)]], n_best=1)
    assert words(best.tokens) == "b"  # .1 x .9 = .09 beats .9 x .1 x .5 = .045
    assert best.log_prob == pytest.approx(torch.tensor(0.09).log().item())
    [[best]] = search_with_terms(step, limit(5), [[((A,),), ((B,),)]], n_best=1)
    assert words(best.tokens) == "ab"  # .045 beats .1 x .1 for "ba"


def test_a_term_the_model_would_never_write_by_itself_is_written():
    even = torch.zeros(7)
    even[C] = -50.0
    for width in (1, 2, 5):
        [hypotheses] = search_with_terms(step_from(lambda *_: even), limit(7), [[((C, C),)]], width=width)
        assert hypotheses
        assert all(can_place_terms(hypothesis.tokens, [((C, C),)]) for hypothesis in hypotheses)


def test_hypotheses_with_a_term_do_not_compete_with_those_without():
    def next_log_probs(_: int, prefix: tuple[int, ...]) -> torch.Tensor:
        shares = [0.9, 0.05, 0.05, 0.0] if C in prefix else [0.0, 0.5, 0.499, 0.001]
        return torch.tensor([0.0, 0.0, 0.0, *shares]).log()

    for width in (1, 2):  # without banks C would be written at the limit only
        [[best]] = search_with_terms(step_from(next_log_probs), limit(11), [[((C,),)]], width=width, n_best=1)
        assert (words(best.tokens), best.stop) == ("c", "eos")


def test_the_margin_says_how_near_another_outcome_came():
    table = {"": {"a": 0.5, "b": 0.3, "c": 0.2}, "a": {"c": 0.06, ".": 0.94}, "b": {"c": 0.1, ".": 0.9}}
    [[best]] = search_with_terms(step_from_table(table), limit(4), [[((C,),)]], width=1)
    assert words(best.tokens) == "c"
    assert best.margin == pytest.approx(math.log(0.5 / 0.3))  # "b" was nearest to staying
    [[best]] = search_with_terms(
        step_from_table({**table, "": {"a": 0.4, "b": 0.4, "c": 0.2}}), limit(4), [[((C,),)]], width=1
    )
    assert best.margin == pytest.approx(0.0)


def test_a_narrow_beam_has_room_for_hypotheses_without_the_term():
    step = step_from_table({"": {"a": 0.9, "b": 0.1}, "a": {"b": 1.0}, "b": {"a": 0.9, ".": 0.1}})
    [[best]] = search_with_terms(step, limit(7), [[((B,),)]], width=1)
    assert words(best.tokens) == "ab"


@pytest.mark.parametrize("room", [3, 4, 5])
def test_near_the_limit_only_missing_terms_are_written(room):
    step = step_from_table({text: {"c": 0.999, ".": 0.001} for text in ("", "c", "cc", "ccc")})
    terms = [((A, B),), ((A,),)]
    for width in (1, 4):
        [hypotheses] = search_with_terms(step, limit(room), [terms], width=width, rules=())
        assert all(
            can_place_terms(hypothesis.tokens, terms) and len(hypothesis.log_probs) <= room for hypothesis in hypotheses
        )


def test_terms_that_just_fit_are_cut_with_nothing_missing():
    [hypotheses] = search_with_terms(step_from(random_logits(3, 7)), limit(3), [[((A, B),), ((C,),)]], width=5)
    assert {(words(hypothesis.tokens), hypothesis.stop) for hypothesis in hypotheses} == {
        ("abc", "length"),
        ("cab", "length"),
    }


def test_any_of_its_spellings_satisfies_a_term():
    step = step_from_table({"": {"a": 0.6, "b": 0.3, "c": 0.1}})
    for term, expected in ((((B,), (C,)), "b"), (((C,), (B,)), "b"), (((A, A), (C,)), "c")):
        [[hypothesis]] = search_with_terms(step, limit(4), [[term]], n_best=1)
        assert words(hypothesis.tokens) == expected


def test_a_letter_right_after_a_word_makes_it_another_word():
    # "a" starts a word, "b" goes on with one, "c" is a comma
    word_edges = WordEdges(
        ends_in_letter=frozenset({A, B}), begins_with_letter=frozenset({B}), without_space_mark=frozenset({B, C, EOS})
    )
    step = step_from_table({"": {"a": 1.0}, "a": {"b": 0.9, ".": 0.1}})
    edged, unedged = ((EDGE, A, EDGE),), ((A,),)
    assert [
        words(hypotheses[0].tokens)
        for hypotheses in search_with_terms(step, limit(5, 5), [[edged], [unedged]], words=word_edges)
    ] == ["a", "ab"]


def test_only_hypotheses_with_every_term_may_end():
    step = step_from_table({"": {".": 0.9, "a": 0.1}, "a": {".": 1.0}})
    for width in (1, 2):
        [[hypothesis]] = search_with_terms(step, limit(5), [[((A,),)]], width=width, n_best=1)
        assert (words(hypothesis.tokens), hypothesis.stop) == ("a", "eos")


def test_a_rule_that_forbids_what_a_term_needs_leaves_nothing():
    results = search_with_terms(
        step_from(random_logits(1, 7)), limit(4, 4), [[((A,),)], []], rules=[forbidden_rule((0, 1, 2, A))]
    )
    assert [bool(hypotheses) for hypotheses in results] == [False, True]


def test_no_sentences_give_no_hypotheses():
    assert search_with_terms(step_from(random_logits(1, 7)), torch.empty(0, dtype=torch.int64), []) == []


def test_a_sentence_whose_step_gives_nan_has_no_hypothesis_and_the_others_have():
    def logits(sentence, prefix):
        return torch.full((7,), torch.nan if prefix and sentence == 0 else 0.0)

    nothing, hypotheses = search_with_terms(step_from(logits), limit(3, 3), [[((A,),)], [((A,),)]])
    assert nothing == []
    assert A in hypotheses[0].tokens


@pytest.mark.parametrize(
    ("width", "sizes", "shares"),
    [(8, [7, 1, 9], [4, 1, 3]), (2, [5, 5, 5], [1, 1, 0]), (9, [2, 0, 3], [2, 0, 3]), (5, [9], [5])],
)
def test_banks_share_the_beam_evenly_and_unused_places_go_to_other_banks(width, sizes, shares):
    no_bank = len(sizes)
    banks = torch.tensor([[bank for bank, size in enumerate(sizes) for _ in range(size)] + [no_bank] * 2])
    shuffled = banks[:, torch.randperm(banks.shape[1], generator=torch.Generator().manual_seed(3))]
    assert share_beam(shuffled, limit(width), no_bank).tolist() == [[*shares, 0]]


@pytest.mark.parametrize("seed", range(40))
def test_search_with_tables_equals_search_with_lists(seed):
    draw = random.Random(seed)
    size, width = draw.choice([7, 11, 37]), draw.choice([1, 2, 4])
    letter_pieces = [frozenset(piece for piece in range(4, size) if draw.random() < 0.4) for _ in range(2)]
    word_edges = (
        WordEdges(
            ends_in_letter=letter_pieces[0],
            begins_with_letter=letter_pieces[1],
            without_space_mark=letter_pieces[1] | {EOS},
        )
        if draw.random() < 0.7
        else WordEdges()
    )
    terms = [random_terms(draw, size, word_edges) for _ in range(3)]
    limits = [
        max(1, pieces_needed((), sentence_terms, word_edges)) + draw.choice([0, 1, 3, 6]) for sentence_terms in terms
    ]
    logits = random_logits(seed, size)
    results = search_with_terms(step_from(logits), limit(*limits), terms, width, alpha=0.6, words=word_edges)
    for sentence, hypotheses in enumerate(results):
        expected = search_with_lists(
            lambda text, i=sentence: logits(i, text), limits[sentence], terms[sentence], width, word_edges
        )
        assert [(hypothesis.tokens, hypothesis.stop) for hypothesis in hypotheses] == [row[:2] for row in expected]
        assert [hypothesis.score for hypothesis in hypotheses] == pytest.approx([row[2] for row in expected], abs=1e-4)


def random_terms(draw: random.Random, size: int, word_edges: WordEdges) -> list[Term]:
    """Draw up to three terms, some of their spellings with edges; each can follow any piece."""
    terms: list[Term] = []
    for _ in range(draw.randint(0, 3)):
        lengths = [draw.randint(1, 3) for _ in range(draw.randint(1, 2))]
        edges = [draw.choice([(), (EDGE,)]) for _ in range(2)]
        term = tuple((*edges[0], *draw.choices(range(4, size), k=length), *edges[1]) for length in lengths)
        terms += [term] if any(can_follow_any_piece(spelling, word_edges) for spelling in term) else []
    return terms


def search_with_lists(
    logits, room: int, terms: list[Term], width: int, word_edges: WordEdges
) -> list[tuple[list[int], str, float]]:
    """Search one sentence as `constrained_search` does, but hypothesis by hypothesis and position by position."""
    required = RequiredTerms(terms, word_edges)
    beam = [(0.0, (), required.start)]
    n_best, width = width, width + required.pieces_lacking(required.start)
    ended: list[tuple[list[int], str, float]] = []
    for length in range(1, room + 1):
        banks: dict[int, list] = {}
        for total, text, readings in beam:
            gains = logits(text).float().log_softmax(0).tolist()
            allowed = range(3, len(gains))
            candidates = set(sorted(allowed, key=lambda piece: -gains[piece])[: 2 * width + 1])
            candidates |= required.next_pieces(readings) if required.pieces_lacking(readings) else set()
            for piece in candidates:
                next_readings = required.advance(readings, text[-1] if text else None, piece)
                if required.pieces_lacking(next_readings) <= (0 if piece == EOS else room - length):
                    hypothesis = (total + gains[piece], (*text, piece), next_readings)
                    banks.setdefault(required.pieces_lacking(next_readings), []).append(hypothesis)
        shares, turn = dict.fromkeys(sorted(banks), 0), 0
        while sum(shares.values()) < min(width, sum(map(len, banks.values()))):
            bank = sorted(banks)[turn % len(banks)]
            shares[bank] += shares[bank] < len(banks[bank])
            turn += 1
        beam = []
        for bank, hypotheses in banks.items():
            hypotheses.sort(key=lambda hypothesis: -hypothesis[0])
            score = ((5 + length) / 6) ** 0.6
            ended += [([*t[:-1]], "eos", total / score) for total, t, _ in hypotheses[: shares[bank]] if t[-1] == EOS]
            beam += [hypothesis for hypothesis in hypotheses if hypothesis[1][-1] != EOS][: shares[bank]]
        beam.sort(key=lambda hypothesis: -hypothesis[0])
        ended.sort(key=lambda result: -result[2])
        best_possible = beam[0][0] / ((5 + room) / 6) ** 0.6 if beam else -math.inf
        if len(ended) >= width or (len(ended) >= n_best and ended[n_best - 1][2] >= best_possible):
            return ended[:n_best]
    return [*ended, *(([*text], "length", total / ((5 + room) / 6) ** 0.6) for total, text, _ in beam)][:n_best]
