"""Promises of every search that is given a prefix or terms, whatever it searches."""

import random
import re

import numpy as np
import pytest
import torch

from pellucid.data.text.markup import TaggedText
from pellucid.data.tokenizer import EOS
from pellucid.decode.beam import beam_search
from pellucid.decode.greedy import greedy_search, sample_search
from pellucid.decode.line_segments import SearchResult, Segment
from pellucid.decode.request import SearchConfig, SearchRequest
from pellucid.decode.search import forbidden_rule
from pellucid.decode.source_reader import ReadText
from pellucid.decode.stages.term_placement import search_with_terms
from pellucid.decode.terms.matches import TermSpan
from pellucid.decode.terms.prefix_rule import prefix_rule
from pellucid.decode.terms.required import WordEdges, pieces_needed, prefix_pieces
from pellucid.decode.terms.term_alignment import TermAlignment
from pellucid.decode.torch_engine import ModelState, model_step, pad_sentences, score_targets
from pellucid.decode.translator import Translator
from pellucid.localize.terminology import Terms
from tests.decode.models import LINES, random_model, small_tokenizer
from tests.decode.spans import can_place_terms
from tests.decode.tables import Prefixes, limit, random_logits, step_from
from tests.growth import assert_linear_work, count_lines
from tests.laws.test_search import VOCABULARY, every_sentence, same_hypotheses
from tests.tolerances import approx_log_prob
from tests.variants import mark_others_slow

A, B, C = 4, 5, 6
EVERYTHING = 113  # a beam as wide as there are candidates: 108 at most


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
    }


@pytest.mark.parametrize("method", ["greedy", "beam", "sample"])
def test_every_translation_begins_with_its_prefix(method):
    prefixes = [(C, C), (B,), (), (A, C, C, B)]  # the first leave first
    for seed in range(5):
        search = make_searches(limit(2, 5, 11, 7))[method]
        results = search(step_from(random_logits(seed, VOCABULARY)), Prefixes([0, 1, 2, 3]), make_rules(prefixes))
        for prefix, hypotheses in zip(prefixes, results, strict=True):
            assert hypotheses
            assert all(tuple(hypothesis.tokens[: len(prefix)]) == prefix for hypothesis in hypotheses)


@pytest.mark.parametrize("method", ["greedy", "beam", "sample"])
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
    [hypotheses] = make_searches(limit(4), EVERYTHING)["beam"](step, Prefixes([0]), make_rules([prefix]))
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


@pytest.mark.parametrize("width", [1, pytest.param(2, marks=pytest.mark.slow), 5])
def test_every_hypothesis_has_every_term(width):
    """Whatever words the alignment says that the sources of the terms are translated by, and however little room."""
    draw = random.Random(width)
    with_alternatives, stops = 0, set()
    for seed in range(40):
        terms = tuple(
            tuple(tuple(draw.choices((A, B, C), k=draw.randint(1, 3))) for _ in range(draw.randint(1, 2)))
            for _ in range(draw.randint(1, 3))
        )
        prefix = tuple(draw.choices((A, B, C), k=draw.randint(0, 2)))
        room = pieces_needed(prefix, terms, WordEdges()) + draw.choice((0, 0, 1, 5))
        step = step_from(random_logits(seed, VOCABULARY))

        def search(segments, step=step, room=room):
            if not segments:
                return []
            prefixes = [segment.request.prefix for segment in segments]
            state, limits = Prefixes([0] * len(segments)), limit(*[room] * len(segments))
            found = make_searches(limits, width)["beam"](step, state, make_rules(prefixes))
            return [
                SearchResult(segment, hypotheses, [""] * len(hypotheses))
                for segment, hypotheses in zip(segments, found, strict=True)
            ]

        def align(segments, targets):
            return [
                TermAlignment(
                    [range(i, i + 1) for i in range(len(target))],
                    [draw.sample(range(len(target)), k=min(len(target), draw.randint(0, 2))) for _ in segment.terms],
                )
                for segment, target in zip(segments, targets, strict=True)
            ]

        spans = tuple(TermSpan(i, i + 1, protected=draw.random() < 0.5) for i in range(len(terms)))
        segment = Segment(TaggedText("abc"), ReadText("abc"), SearchRequest([A, EOS], 1, prefix), terms, spans)
        [result] = search_with_terms(search([segment]), search, align, WordEdges())
        hypotheses = result.hypotheses
        assert 1 <= len(hypotheses) <= width
        with_alternatives += len(hypotheses) > 1
        stops |= {hypothesis.stop for hypothesis in hypotheses}
        for hypothesis in hypotheses:
            assert can_place_terms(hypothesis.tokens, terms)
            assert tuple(hypothesis.tokens[: len(prefix)]) == prefix
            assert len(hypothesis.log_probs) <= room
    assert stops == {"eos", "length"}
    assert with_alternatives > 10 or width == 1


WORDS = {"ball": "bola", "cat": "gato", "dog": "casa", "house": "casa"}
LINES_WITH_TERMS = [*LINES, "The {name} ball is %s blue.", "See https://example.com/a or the cat, cat."]
SHORT = SearchConfig(beam=3, n_best=3, max_extra=20)


def test_neighbours_in_a_batch_change_nothing_in_a_search_for_terms():
    translator, terms = terms_translator(), Terms.from_pairs(WORDS)
    batched = translator.translate(LINES_WITH_TERMS, SHORT, terms=terms)
    for number, line in enumerate(LINES_WITH_TERMS):
        [single] = translator.translate([line], SHORT, first_line=1 + number, terms=terms)
        assert (single.text, single.pieces) == (batched[number].text, batched[number].pieces)
        assert [alternative.text for alternative in single.alternatives] == [
            alternative.text for alternative in batched[number].alternatives
        ]


def test_hypotheses_of_a_model_have_their_terms_as_words_and_the_log_probabilities_of_scoring_them():
    translator = terms_translator()
    [model], tokenizer = translator.models.loaded, translator.tokenizer
    model.double()
    number_of = {piece: number for number, piece in enumerate(tokenizer.target_names)}
    for translation, line in zip(
        translator.translate(LINES_WITH_TERMS, SHORT, terms=Terms.from_pairs(WORDS)), LINES_WITH_TERMS, strict=True
    ):
        required = [WORDS[word] for word in re.findall(r"\w+", line) if word in WORDS]
        for candidate in (translation, *translation.alternatives):
            text = candidate.text.lower()
            for word in required:
                assert len(re.findall(rf"(?<![^\W_]){word}(?![^\W_])", text)) >= required.count(word), text
            [source] = tokenizer.encode_source([line])
            target = [number_of[piece] for piece in candidate.pieces]
            with torch.inference_mode():
                [expected] = score_targets(model, [source], [target])
            assert candidate.piece_log_probs == approx_log_prob(expected)


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


@pytest.mark.parametrize(
    "growing", mark_others_slow({name: name for name in GROWING}, "terms of one sentence", "length of a term")
)
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
