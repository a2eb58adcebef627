"""Promises of every search that is given a prefix or terms, whatever it searches."""

import random
import re

import numpy as np
import pytest
import torch

from pellucid.data.tokenizer import EOS, FORBIDDEN
from pellucid.decode.beam import beam_search
from pellucid.decode.greedy import greedy_search
from pellucid.decode.request import SearchConfig
from pellucid.decode.sample import sample_search
from pellucid.decode.search import forbidden_rule
from pellucid.decode.terms.constrained import constrained_search, prefix_rule
from pellucid.decode.terms.glossary import Terms, term_spellings
from pellucid.decode.terms.required import pieces_needed
from pellucid.decode.terms.word_edges import WordEdges, prefix_pieces
from pellucid.decode.torch_engine import ModelState, model_step, pad_sentences, score_targets
from pellucid.decode.translate import Translator
from tests.decode.models import LINES, random_model, small_tokenizer
from tests.decode.spans import can_place_terms
from tests.decode.tables import Prefixes, limit, random_logits, step_from
from tests.growth import assert_linear_work, count_lines
from tests.laws.test_search import VOCABULARY, every_sentence, same_hypotheses

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


def search_with_terms(step, limits, terms, width, n_best=None, alpha=0.6, **options):
    state = Prefixes(list(range(len(terms))))
    n_best = n_best or width
    return constrained_search(step, state, limits, terms, width=width, n_best=n_best, length_penalty=alpha, **options)


def make_searches(limits, width=3):
    """Return every search by its name, as a function of the step, the state and the rules."""
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
        search = make_searches(limit(2, 5, 11, 7))[method]
        results = search(step_from(random_logits(seed, VOCABULARY)), Prefixes([0, 1, 2, 3]), make_rules(prefixes))
        for prefix, hypotheses in zip(prefixes, results, strict=True):
            assert hypotheses
            assert all(tuple(hypothesis.tokens[: len(prefix)]) == prefix for hypothesis in hypotheses)


@pytest.mark.parametrize("method", ["greedy", "beam", "sample", "constrained"])
def test_an_empty_prefix_changes_nothing(method):
    step = step_from(random_logits(3, VOCABULARY))
    search = make_searches(limit(7, 5))[method]
    free = search(step, Prefixes([0, 1]), [forbidden_rule()])
    assert search(step, Prefixes([0, 1]), make_rules([(), ()])) == free
    assert search(step, Prefixes([0, 1]), make_rules([(), (C, C)]))[0] == free[0]  # nor does that of a neighbour


def make_rules(prefixes):
    return [forbidden_rule(), prefix_rule(prefixes, WordEdges())]


@pytest.mark.parametrize("prefix", [(), (A,), (C, A), (B, B, A, C)])
@pytest.mark.parametrize("seed", range(3))
def test_the_best_sentences_with_a_prefix_are_the_best_of_all_that_begin_with_it(seed, prefix):
    step = step_from(random_logits(seed, VOCABULARY))
    expected = [
        hypothesis
        for hypothesis in every_sentence(seed, 0, 4, 0.6)
        if tuple(hypothesis.tokens[: len(prefix)]) == prefix
    ]
    for method in ("beam", "constrained"):
        [hypotheses] = make_searches(limit(4), EVERYTHING)[method](step, Prefixes([0]), make_rules([prefix]))
        assert same_hypotheses(hypotheses, expected[:EVERYTHING])


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
        rule = prefix_rule(prefixes, WordEdges.from_tokenizer(tokenizer))
        results = make_searches(limits)[method](model_step(model), state, [forbidden_rule(), rule])
    for text, hypotheses in zip(texts, results, strict=True):
        assert hypotheses
        for hypothesis in hypotheses:
            assert tokenizer.decode_target(hypothesis.tokens).startswith(text)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_constrained_search_without_terms_is_beam_search(alpha):
    for seed in range(5):
        step = step_from(random_logits(seed, VOCABULARY))
        for width, n_best in ((1, 1), (3, 2), (5, 5), (11, 1)):
            expected = beam_search(
                step, Prefixes([0, 1, 2]), limit(11, 5, 2), width=width, n_best=n_best, length_penalty=alpha
            )
            results = search_with_terms(step, limit(11, 5, 2), [(), (), ()], width, n_best, alpha)
            assert all(same_hypotheses(a, b) for a, b in zip(results, expected, strict=True))
            assert [hypotheses[0].margin for hypotheses in results] == pytest.approx(
                [hypotheses[0].margin for hypotheses in expected], abs=1e-5
            )


@pytest.mark.parametrize("name", TERMS)
@pytest.mark.parametrize(("prefix", "alpha"), [((), 0.0), ((), 1.0), ((B, C), 0.6)])
def test_a_wide_beam_finds_the_best_sentences_that_have_the_terms(name, prefix, alpha):
    terms = TERMS[name]
    for seed in range(2):
        step = step_from(random_logits(seed, VOCABULARY))
        expected = [
            hypothesis
            for hypothesis in every_sentence(seed, 0, 4, alpha)
            if can_place_terms(hypothesis.tokens, terms) and tuple(hypothesis.tokens[: len(prefix)]) == prefix
        ]
        if pieces_needed(prefix, terms, WordEdges()) > 4:
            assert expected == []
            continue
        assert expected
        [hypotheses] = search_with_terms(step, limit(4), [terms], EVERYTHING, alpha=alpha, rules=make_rules([prefix]))
        assert same_hypotheses(hypotheses, expected[:EVERYTHING])


@pytest.mark.parametrize("width", [1, 2, 5])
def test_every_hypothesis_has_every_term(width):
    draw = random.Random(width)
    with_alternatives, stops = 0, set()
    for seed in range(40):
        terms = [
            tuple(tuple(draw.choices((A, B, C), k=draw.randint(1, 3))) for _ in range(draw.randint(1, 2)))
            for _ in range(draw.randint(0, 3))
        ]
        prefix = tuple(draw.choices((A, B, C), k=draw.randint(0, 2)))
        room = max(1, pieces_needed(prefix, terms, WordEdges())) + draw.choice((0, 0, 1, 5))
        step = step_from(random_logits(seed, VOCABULARY))
        [hypotheses] = search_with_terms(step, limit(room), [terms], width, rules=make_rules([prefix]))
        assert 1 <= len(hypotheses) <= width
        with_alternatives += len(hypotheses) > 1
        stops |= {hypothesis.stop for hypothesis in hypotheses}
        for hypothesis in hypotheses:
            assert can_place_terms(hypothesis.tokens, terms)
            assert tuple(hypothesis.tokens[: len(prefix)]) == prefix
            assert len(hypothesis.log_probs) <= room
    assert stops == {"eos", "length"}
    assert with_alternatives > 20 or width == 1


def test_neighbours_in_a_batch_change_nothing_in_constrained_search():
    step = step_from(random_logits(3, VOCABULARY))
    terms = [*TERMS.values(), []]
    limits = [7, 5, 11, 4, 13, 6, 9, 5]
    together = search_with_terms(step, limit(*limits), terms, 3)
    for i, hypotheses in enumerate(together):
        state = Prefixes([i])
        [expected] = constrained_search(
            step, state, limit(limits[i]), [terms[i]], width=3, n_best=3, length_penalty=0.6
        )
        assert expected == hypotheses


def test_hypotheses_of_a_model_have_their_terms_as_words_and_the_log_probabilities_of_scoring_them():
    tokenizer = small_tokenizer()
    model = random_model(5, tokenizer.source_vocabulary, tokenizer.target_vocabulary).double()
    texts = [["bola"], [], ["agua", "leche"], ["casa", "casa"], ["la"], ["gato negro", "gato"], ["é"]]
    terms = [tuple(term_spellings(tokenizer, text, capital=True) for text in words) for words in texts]
    sources = tokenizer.encode_source(LINES)
    edges = WordEdges.from_tokenizer(tokenizer)
    limits = [pieces_needed((), spellings, edges) + 4 for spellings in terms]
    newline = tokenizer.target_names.index("<0x0A>")
    with torch.inference_mode():
        results = constrained_search(
            model_step(model),
            ModelState(model.encode(pad_sentences(sources, torch.device("cpu")))),
            limit(*limits),
            terms,
            width=4,
            n_best=4,
            length_penalty=0.6,
            rules=[forbidden_rule((*FORBIDDEN, newline))],
            words=edges,
        )
        pairs = [
            (source, hypothesis)
            for source, hypotheses in zip(sources, results, strict=True)
            for hypothesis in hypotheses
        ]
        targets = [[*hypothesis.tokens, EOS][: len(hypothesis.log_probs)] for _, hypothesis in pairs]
        scored = score_targets(model, [source for source, _ in pairs], targets)
    for (_, hypothesis), expected in zip(pairs, scored, strict=True):
        assert hypothesis.log_probs == pytest.approx(expected, abs=1e-6)
    for words, hypotheses in zip(texts, results, strict=True):
        assert hypotheses
        for hypothesis in hypotheses:
            text = tokenizer.decode_target(hypothesis.tokens).lower()
            for term in words:
                assert len(re.findall(rf"(?<![^\W_]){term}(?![^\W_])", text)) >= sum(term in word for word in words), (
                    text
                )


def terms_translator() -> Translator:
    tokenizer = small_tokenizer()
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "max_positions": 499}
    return Translator(random_model(5, tokenizer.source_vocabulary, tokenizer.target_vocabulary, **sizes), tokenizer)


GROWING = {
    "terms of one sentence": lambda n: ({f"w{i}": f"{i}" for i in range(n)}, " ".join(f"w{i}" for i in range(n))),
    "one term in each sentence": lambda n: (
        {f"w{i}": f"{i}" for i in range(n)},
        ". ".join(f"w{i} a" for i in range(n)),
    ),
    "a term again and again": lambda n: ({"a": "x"}, " ".join(["a"] * n)),
    "length of a term": lambda n: ({"a": " ".join(["x"] * n)}, " ".join(["a", *["b"] * n])),
}


@pytest.mark.parametrize("growing", GROWING)
def test_twice_the_terms_are_at_most_three_times_the_work(growing):
    translator = terms_translator()

    def translate(size: int) -> None:
        pairs, text = GROWING[growing](size)
        [translation] = translator.translate(
            [text], SearchConfig(beam=2, max_extra=5 * size), terms=Terms.from_pairs(pairs)
        )
        assert translation.stop in ("eos", "length"), translation.notes

    translate(1)  # whatever is made once is made now
    assert_linear_work(translate, 5, "/pellucid/decode/")


def test_terms_that_are_not_in_the_text_are_no_work():
    translator, own = terms_translator(), {"dog": "azul"}

    def count_work(size: int) -> int:
        glossary = Terms.from_pairs({"ball": "bola", **{f"w{i}": "leche" for i in range(size)}})
        glossary.prepare(translator.tokenizer)

        def translate() -> None:
            terms = glossary.with_others(Terms.from_pairs(own))
            translator.translate(["The ball and the dog."], SearchConfig(beam=2, max_extra=5), terms=terms)

        translate()
        return count_lines(translate, "/pellucid/")

    assert count_work(400) == count_work(7)
