"""What a search must do when a prefix or terms are given, whatever it searches."""

import random
import re

import numpy as np
import pytest
import torch

from pellucid.data.tokenizer import EOS
from pellucid.decode.beam import beam_search
from pellucid.decode.constrained import constrained_search
from pellucid.decode.greedy import greedy_search
from pellucid.decode.prefix import prefix_pieces
from pellucid.decode.required_terms import pieces_needed
from pellucid.decode.rules import prefix_rule
from pellucid.decode.sample import sample_search
from pellucid.decode.search import FORBIDDEN, forbidden_rule
from pellucid.decode.step import ModelState, model_step, pad_sentences, score_targets
from pellucid.decode.terms import term_spellings
from pellucid.decode.word_edges import WordEdges
from tests.decode.models import LINES, random_model, small_tokenizer
from tests.decode.spans import can_place_terms as placed
from tests.decode.tables import Prefixes, limit, random_logits, step_from
from tests.laws.test_search import VOCABULARY, every_sentence, same

A, B, C = 4, 5, 6
TERMS = {
    "one": [((A,),)],
    "two": [((A,),), ((C, B),)],
    "overlapping": [((A, B),), ((B, A),)],
    "one in the other": [((A, B),), ((B,),)],
    "the same twice": [((B,),), ((B,),)],
    "two spellings": [((A, A), (B, C))],
    "a spelling that begins another": [((A,), (A, B, A)), ((B, A), (C,))],
}
EVERYTHING = 113  # a beam as wide as there are candidates: 108 at most


def constrained(step, limits, terms, width, n_best=None, alpha=0.6, **others):
    state = Prefixes(list(range(len(terms))))
    n_best = n_best or width
    return constrained_search(step, state, limits, terms, width=width, n_best=n_best, length_penalty=alpha, **others)


def searches(limits, width=3):
    """Every way to search, each a function of the step, the state and the rules."""
    draws = torch.tensor(np.random.default_rng(5).random((len(limits), 2, 17)), dtype=torch.float32)
    return {
        "greedy": lambda step, state, rules: greedy_search(step, state, limits, length_penalty=0.6, rules=rules),
        "beam": lambda step, state, rules: beam_search(
            step, state, limits, width=width, n_best=width, length_penalty=0.6, rules=rules
        ),
        "sample": lambda step, state, rules: sample_search(
            step, state, limits, draws, temperature=1.0, top_k=0, top_p=1.0, length_penalty=0.6, rules=rules
        ),
        "constrained": lambda step, state, rules: constrained_search(
            step, state, limits, [()] * len(limits), width=width, n_best=width, length_penalty=0.6, rules=rules
        ),
    }


@pytest.mark.parametrize("method", ["greedy", "beam", "sample", "constrained"])
def test_every_translation_begins_with_its_prefix(method):
    prefixes = [(C, C), (B,), (), (A, C, C, B)]  # the first leave first
    for seed in range(5):
        search = searches(limit(2, 5, 11, 7))[method]
        found = search(step_from(random_logits(seed, VOCABULARY)), Prefixes([0, 1, 2, 3]), rules(prefixes))
        for prefix, some in zip(prefixes, found, strict=True):
            assert some
            assert all(tuple(each.tokens[: len(prefix)]) == prefix for each in some)


@pytest.mark.parametrize("method", ["greedy", "beam", "sample", "constrained"])
def test_an_empty_prefix_changes_nothing(method):
    step = step_from(random_logits(3, VOCABULARY))
    search = searches(limit(7, 5))[method]
    free = search(step, Prefixes([0, 1]), [forbidden_rule()])
    assert search(step, Prefixes([0, 1]), rules([(), ()])) == free
    assert search(step, Prefixes([0, 1]), rules([(), (C, C)]))[0] == free[0]  # nor does that of a neighbour


def rules(prefixes):
    return [forbidden_rule(), prefix_rule(prefixes, WordEdges())]


@pytest.mark.parametrize("prefix", [(), (A,), (C, A), (B, B, A, C)])
@pytest.mark.parametrize("seed", range(3))
def test_the_best_with_a_prefix_is_the_best_of_all_that_begin_so(seed, prefix):
    step = step_from(random_logits(seed, VOCABULARY))
    every = [each for each in every_sentence(seed, 0, 4, 0.6) if tuple(each.tokens[: len(prefix)]) == prefix]
    for method in ("beam", "constrained"):
        [found] = searches(limit(4), EVERYTHING)[method](step, Prefixes([0]), rules([prefix]))
        assert same(found, every[:EVERYTHING])


@pytest.mark.parametrize("method", ["greedy", "beam", "sample"])
def test_a_text_begins_with_the_prefix_as_it_was_given(method):
    tokenizer = small_tokenizer()
    model = random_model(5, tokenizer.source_vocabulary, tokenizer.target_vocabulary)
    texts = ["La bola", "La bo", "¿D", "El gato ", "", "x犬", "La "]
    prefixes = [prefix_pieces(tokenizer, text) for text in texts]
    sources = tokenizer.encode_source(LINES)
    with torch.inference_mode():
        state = ModelState(model.encode(pad_sentences(sources, torch.device("cpu"))))
        limits = limit(*[len(prefix) + 3 for prefix in prefixes])
        rule = prefix_rule(prefixes, WordEdges.of(tokenizer))
        found = searches(limits)[method](model_step(model), state, [forbidden_rule(), rule])
    for text, some in zip(texts, found, strict=True):
        assert some
        for each in some:
            assert tokenizer.decode_target(each.tokens).startswith(text)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_without_terms_it_is_beam_search(alpha):
    for seed in range(5):
        step = step_from(random_logits(seed, VOCABULARY))
        for width, n_best in ((1, 1), (3, 2), (5, 5), (11, 1)):
            plain = beam_search(
                step, Prefixes([0, 1, 2]), limit(11, 5, 2), width=width, n_best=n_best, length_penalty=alpha
            )
            found = constrained(step, limit(11, 5, 2), [(), (), ()], width, n_best, alpha)
            assert all(same(a, b) for a, b in zip(found, plain, strict=True))
            assert [each[0].margin for each in found] == pytest.approx([each[0].margin for each in plain], abs=1e-5)


@pytest.mark.parametrize("name", TERMS)
@pytest.mark.parametrize(("prefix", "alpha"), [((), 0.0), ((), 1.0), ((B, C), 0.6)])
def test_a_wide_beam_finds_the_best_sentences_that_have_the_terms(name, prefix, alpha):
    terms = TERMS[name]
    for seed in range(2):
        step = step_from(random_logits(seed, VOCABULARY))
        every = [
            each
            for each in every_sentence(seed, 0, 4, alpha)
            if placed(each.tokens, terms) and tuple(each.tokens[: len(prefix)]) == prefix
        ]
        if pieces_needed(prefix, terms, WordEdges()) > 4:
            assert every == []
            continue
        assert every
        [found] = constrained(step, limit(4), [terms], EVERYTHING, alpha=alpha, rules=rules([prefix]))
        assert same(found, every[:EVERYTHING])


@pytest.mark.parametrize("width", [1, 2, 5])
def test_every_hypothesis_has_every_term(width):
    draw = random.Random(width)
    several, stops = 0, set()
    for seed in range(40):
        terms = [
            tuple(tuple(draw.choices((A, B, C), k=draw.randint(1, 3))) for _ in range(draw.randint(1, 2)))
            for _ in range(draw.randint(0, 3))
        ]
        prefix = tuple(draw.choices((A, B, C), k=draw.randint(0, 2)))
        room = max(1, pieces_needed(prefix, terms, WordEdges())) + draw.choice((0, 0, 1, 5))
        step = step_from(random_logits(seed, VOCABULARY))
        [found] = constrained(step, limit(room), [terms], width, rules=rules([prefix]))
        assert 1 <= len(found) <= width
        several += len(found) > 1
        stops |= {each.stop for each in found}
        for each in found:
            assert placed(each.tokens, terms)
            assert tuple(each.tokens[: len(prefix)]) == prefix
            assert len(each.log_probs) <= room
    assert stops == {"eos", "length"}
    assert several > 20 or width == 1


def test_neighbours_change_nothing():
    step = step_from(random_logits(3, VOCABULARY))
    terms = [*TERMS.values(), []]
    limits = [7, 5, 11, 4, 13, 6, 9, 5]
    together = constrained(step, limit(*limits), terms, 3)
    for i, some in enumerate(together):
        state = Prefixes([i])
        [alone] = constrained_search(step, state, limit(limits[i]), [terms[i]], width=3, n_best=3, length_penalty=0.6)
        assert alone == some


def test_on_a_model_hypotheses_have_their_terms_as_words_and_the_models_own_numbers():
    tokenizer = small_tokenizer()
    model = random_model(5, tokenizer.source_vocabulary, tokenizer.target_vocabulary).double()
    texts = [["bola"], [], ["agua", "leche"], ["casa", "casa"], ["la"], ["gato negro", "gato"], ["é"]]
    terms = [tuple(term_spellings(tokenizer, text, capital=True) for text in some) for some in texts]
    sources = tokenizer.encode_source(LINES)
    parts = WordEdges.of(tokenizer)
    limits = [pieces_needed((), some, parts) + 4 for some in terms]
    newline = tokenizer.target_names.index("<0x0A>")
    with torch.inference_mode():
        found = constrained_search(
            model_step(model),
            ModelState(model.encode(pad_sentences(sources, torch.device("cpu")))),
            limit(*limits),
            terms,
            width=4,
            n_best=4,
            length_penalty=0.6,
            rules=[forbidden_rule((*FORBIDDEN, newline))],
            words=parts,
        )
        pairs = [(source, each) for source, some in zip(sources, found, strict=True) for each in some]
        written = [[*each.tokens, EOS][: len(each.log_probs)] for _, each in pairs]
        scored = score_targets(model, [source for source, _ in pairs], written)
    for (_, each), expected in zip(pairs, scored, strict=True):
        assert each.log_probs == pytest.approx(expected, abs=1e-6)
    for some, hypotheses in zip(texts, found, strict=True):
        assert hypotheses
        for each in hypotheses:
            text = tokenizer.decode_target(each.tokens).lower()
            for term in some:
                assert len(re.findall(rf"(?<![^\W_]){term}(?![^\W_])", text)) >= sum(term in other for other in some), (
                    text
                )
