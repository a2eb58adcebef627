"""The search for translations with given terms: banks, forcing near the limit, and cases solved by hand."""

import math
import random

import pytest
import torch

from pellucid.data.tokenizer import EOS
from pellucid.decode.constrained import constrained_search, share_beam
from pellucid.decode.required_terms import RequiredTerms, Term, can_follow_any_piece, pieces_needed
from pellucid.decode.search import forbidden_rule
from pellucid.decode.word_edges import EDGE, WordEdges
from tests.decode.placed import placed
from tests.decode.tables import Prefixes, limit, random_logits, step_from, step_from_table, words

A, B, C = 4, 5, 6


def search(step, limits, terms, width=3, n_best=None, alpha=0.0, **others):
    state = Prefixes(list(range(len(terms))))
    n_best = n_best or width
    return constrained_search(step, state, limits, terms, width=width, n_best=n_best, length_penalty=alpha, **others)


def test_the_example_one_can_solve_by_hand():
    step = step_from_table(
        {
            "": {"a": 0.9, "b": 0.1},
            "a": {".": 0.8, "a": 0.1, "b": 0.1},
            "b": {".": 0.9, "a": 0.1},
            "ab": {".": 0.5, "a": 0.5},
        }
    )
    [[best]] = search(step, limit(5), [[((B,),)]], n_best=1)
    assert words(best.tokens) == "b"  # .1 x .9 = .09 beats .9 x .1 x .5 = .045
    assert best.log_prob == pytest.approx(torch.tensor(0.09).log().item())
    [[best]] = search(step, limit(5), [[((A,),), ((B,),)]], n_best=1)
    assert words(best.tokens) == "ab"  # .045 beats .1 x .1 for "ba"


def test_a_term_the_model_would_never_write_by_itself_is_written():
    even = torch.zeros(7)
    even[C] = -50.0
    for width in (1, 2, 5):
        [found] = search(step_from(lambda *_: even), limit(7), [[((C, C),)]], width=width)
        assert found
        assert all(placed(each.tokens, [((C, C),)]) for each in found)


def test_what_has_paid_for_a_term_need_not_compete_with_what_has_not():
    def after(_: int, prefix: tuple[int, ...]) -> torch.Tensor:
        ends = [0.9, 0.05, 0.05, 0.0] if C in prefix else [0.0, 0.5, 0.499, 0.001]
        return torch.tensor([0.0, 0.0, 0.0, *ends]).log()

    for width in (1, 2):  # without banks C would be written at the limit only
        [[best]] = search(step_from(after), limit(11), [[((C,),)]], width=width, n_best=1)
        assert (words(best.tokens), best.stop) == ("c", "eos")


def test_how_near_another_outcome_came_is_known():
    table = {"": {"a": 0.5, "b": 0.3, "c": 0.2}, "a": {"c": 0.06, ".": 0.94}, "b": {"c": 0.1, ".": 0.9}}
    [[best]] = search(step_from_table(table), limit(4), [[((C,),)]], width=1)
    assert words(best.tokens) == "c"
    assert best.margin == pytest.approx(math.log(0.5 / 0.3))  # "b" was nearest to staying
    [[best]] = search(step_from_table({**table, "": {"a": 0.4, "b": 0.4, "c": 0.2}}), limit(4), [[((C,),)]], width=1)
    assert best.margin == pytest.approx(0.0)


def test_a_narrow_beam_has_room_for_those_that_have_not_paid():
    step = step_from_table({"": {"a": 0.9, "b": 0.1}, "a": {"b": 1.0}, "b": {"a": 0.9, ".": 0.1}})
    [[best]] = search(step, limit(7), [[((B,),)]], width=1)
    assert words(best.tokens) == "ab"


@pytest.mark.parametrize("room", [3, 4, 5])
def test_near_the_limit_only_what_is_lacking_is_written(room):
    step = step_from_table({text: {"c": 0.999, ".": 0.001} for text in ("", "c", "cc", "ccc")})
    terms = [((A, B),), ((A,),)]
    for width in (1, 4):
        [found] = search(step, limit(room), [terms], width=width, rules=())
        assert all(placed(each.tokens, terms) and len(each.log_probs) <= room for each in found)


def test_terms_that_just_fit_are_cut_with_nothing_missing():
    [found] = search(step_from(random_logits(3, 7)), limit(3), [[((A, B),), ((C,),)]], width=5)
    assert {(words(each.tokens), each.stop) for each in found} == {("abc", "length"), ("cab", "length")}


def test_any_of_its_spellings_satisfies_a_term():
    step = step_from_table({"": {"a": 0.6, "b": 0.3, "c": 0.1}})
    for term, best in ((((B,), (C,)), "b"), (((C,), (B,)), "b"), (((A, A), (C,)), "c")):
        [[found]] = search(step, limit(4), [[term]], n_best=1)
        assert words(found.tokens) == best


def test_a_letter_right_after_a_word_makes_it_another_word():
    # "a" starts a word, "b" goes on with one, "c" is a comma
    parts = WordEdges(
        ends_in_letter=frozenset({A, B}), begins_with_letter=frozenset({B}), without_space_mark=frozenset({B, C, EOS})
    )
    step = step_from_table({"": {"a": 1.0}, "a": {"b": 0.9, ".": 0.1}})
    whole, part = ((EDGE, A, EDGE),), ((A,),)
    assert [words(each[0].tokens) for each in search(step, limit(5, 5), [[whole], [part]], words=parts)] == ["a", "ab"]


def test_only_what_has_every_term_may_end():
    step = step_from_table({"": {".": 0.9, "a": 0.1}, "a": {".": 1.0}})
    for width in (1, 2):
        [[found]] = search(step, limit(5), [[((A,),)]], width=width, n_best=1)
        assert (words(found.tokens), found.stop) == ("a", "eos")


def test_a_rule_that_forbids_what_a_term_needs_leaves_nothing():
    found = search(step_from(random_logits(1, 7)), limit(4, 4), [[((A,),)], []], rules=[forbidden_rule((0, 1, 2, A))])
    assert [bool(some) for some in found] == [False, True]


def test_no_sentences_give_no_hypotheses():
    assert search(step_from(random_logits(1, 7)), torch.empty(0, dtype=torch.int64), []) == []


def test_a_sentence_whose_step_gives_nan_has_no_hypothesis_and_the_others_have():
    def logits(sentence, prefix):
        return torch.full((7,), torch.nan if prefix and sentence == 0 else 0.0)

    nothing, found = search(step_from(logits), limit(3, 3), [[((A,),)], [((A,),)]])
    assert nothing == []
    assert A in found[0].tokens


@pytest.mark.parametrize(
    ("places", "sizes", "given"),
    [(8, [7, 1, 9], [4, 1, 3]), (2, [5, 5, 5], [1, 1, 0]), (9, [2, 0, 3], [2, 0, 3]), (5, [9], [5])],
)
def test_banks_share_the_beam_evenly_and_what_one_cannot_use_goes_to_the_others(places, sizes, given):
    nowhere = len(sizes)
    banks = torch.tensor([[bank for bank, size in enumerate(sizes) for _ in range(size)] + [nowhere] * 2])
    mixed = banks[:, torch.randperm(banks.shape[1], generator=torch.Generator().manual_seed(3))]
    assert share_beam(mixed, limit(places), nowhere).tolist() == [[*given, 0]]


@pytest.mark.parametrize("seed", range(40))
def test_the_tables_find_what_lists_find(seed):
    draw = random.Random(seed)
    size, width = draw.choice([7, 11, 37]), draw.choice([1, 2, 4])
    some = [frozenset(piece for piece in range(4, size) if draw.random() < 0.4) for _ in range(2)]
    parts = (
        WordEdges(ends_in_letter=some[0], begins_with_letter=some[1], without_space_mark=some[1] | {EOS})
        if draw.random() < 0.7
        else WordEdges()
    )
    terms = [random_terms(draw, size, parts) for _ in range(3)]
    limits = [max(1, pieces_needed((), each, parts)) + draw.choice([0, 1, 3, 6]) for each in terms]
    logits = random_logits(seed, size)
    found = search(step_from(logits), limit(*limits), terms, width, alpha=0.6, words=parts)
    for number, hypotheses in enumerate(found):
        expected = with_lists(lambda text, i=number: logits(i, text), limits[number], terms[number], width, parts)
        assert [(each.tokens, each.stop) for each in hypotheses] == [each[:2] for each in expected]
        assert [each.score for each in hypotheses] == pytest.approx([each[2] for each in expected], abs=1e-4)


def random_terms(draw: random.Random, size: int, parts: WordEdges) -> list[Term]:
    """Up to three terms, some of their spellings with edges; each can follow any piece."""
    terms: list[Term] = []
    for _ in range(draw.randint(0, 3)):
        lengths = [draw.randint(1, 3) for _ in range(draw.randint(1, 2))]
        edges = [draw.choice([(), (EDGE,)]) for _ in range(2)]
        term = tuple((*edges[0], *draw.choices(range(4, size), k=length), *edges[1]) for length in lengths)
        terms += [term] if any(can_follow_any_piece(spelling, parts) for spelling in term) else []
    return terms


def with_lists(
    logits, room: int, terms: list[Term], width: int, parts: WordEdges
) -> list[tuple[list[int], str, float]]:
    """The same search for one sentence, hypothesis by hypothesis and place by place."""
    required = RequiredTerms(terms, parts)
    beam = [(0.0, (), required.start)]
    n_best, width = width, width + required.pieces_lacking(required.start)
    ended: list[tuple[list[int], str, float]] = []
    for length in range(1, room + 1):
        banks: dict[int, list] = {}
        for total, text, readings in beam:
            gains = logits(text).float().log_softmax(0).tolist()
            allowed = range(3, len(gains))
            offered = set(sorted(allowed, key=lambda piece: -gains[piece])[: 2 * width + 1])
            offered |= required.next_pieces(readings) if required.pieces_lacking(readings) else set()
            for piece in offered:
                after = required.advance(readings, text[-1] if text else None, piece)
                if required.pieces_lacking(after) <= (0 if piece == EOS else room - length):
                    new = (total + gains[piece], (*text, piece), after)
                    banks.setdefault(required.pieces_lacking(after), []).append(new)
        places, turn = dict.fromkeys(sorted(banks), 0), 0
        while sum(places.values()) < min(width, sum(map(len, banks.values()))):
            bank = sorted(banks)[turn % len(banks)]
            places[bank] += places[bank] < len(banks[bank])
            turn += 1
        beam = []
        for bank, some in banks.items():
            some.sort(key=lambda each: -each[0])
            score = ((5 + length) / 6) ** 0.6
            ended += [([*t[:-1]], "eos", total / score) for total, t, _ in some[: places[bank]] if t[-1] == EOS]
            beam += [each for each in some if each[1][-1] != EOS][: places[bank]]
        beam.sort(key=lambda each: -each[0])
        ended.sort(key=lambda each: -each[2])
        hope = beam[0][0] / ((5 + room) / 6) ** 0.6 if beam else -math.inf
        if len(ended) >= width or (len(ended) >= n_best and ended[n_best - 1][2] >= hope):
            return ended[:n_best]
    return [*ended, *(([*text], "length", total / ((5 + room) / 6) ** 0.6) for total, text, _ in beam)][:n_best]
