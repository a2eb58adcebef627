"""The search for translations with given terms: banks, forcing near the limit, and cases solved by hand."""

import math

import pytest
import torch

from pellucid.data.tokenizer import EOS
from pellucid.decode.constrained import constrained_search, shared
from pellucid.decode.search import never
from pellucid.decode.words import EDGE, Words
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
    parts = Words(open=frozenset({A, B}), going_on=frozenset({B}), unmarked=frozenset({B, C, EOS}))
    step = step_from_table({"": {"a": 1.0}, "a": {"b": 0.9, ".": 0.1}})
    whole, part = ((EDGE, A, EDGE),), ((A,),)
    assert [words(each[0].tokens) for each in search(step, limit(5, 5), [[whole], [part]], words=parts)] == ["a", "ab"]


def test_only_what_has_every_term_may_end():
    step = step_from_table({"": {".": 0.9, "a": 0.1}, "a": {".": 1.0}})
    for width in (1, 2):
        [[found]] = search(step, limit(5), [[((A,),)]], width=width, n_best=1)
        assert (words(found.tokens), found.stop) == ("a", "eos")


def test_a_rule_that_forbids_what_a_term_needs_leaves_nothing():
    found = search(step_from(random_logits(1, 7)), limit(4, 4), [[((A,),)], []], rules=[never((0, 1, 2, A))])
    assert [bool(some) for some in found] == [False, True]


def test_no_sentences_give_no_hypotheses():
    assert search(step_from(random_logits(1, 7)), torch.empty(0, dtype=torch.int64), []) == []


def test_a_step_that_gives_nan_is_refused():
    step = step_from(lambda sentence, prefix: torch.full((7,), torch.nan if prefix else 0.0))
    with pytest.raises(ValueError, match="its weights are damaged"):
        search(step, limit(3), [[((A,),)]])


@pytest.mark.parametrize(
    ("places", "sizes", "given"),
    [(8, [7, 1, 9], [4, 1, 3]), (2, [5, 5, 5], [1, 1, 0]), (9, [2, 0, 3], [2, 0, 3]), (3, [], []), (5, [9], [5])],
)
def test_banks_share_the_beam_evenly_and_what_one_cannot_use_goes_to_the_others(places, sizes, given):
    assert shared(places, sizes) == given
