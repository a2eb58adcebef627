"""Promises of every search, whatever it searches."""

from itertools import product

import pytest
import torch

from pellucid.data.tokenizer import BOS, EOS
from pellucid.decode.beam import beam_search
from pellucid.decode.greedy import greedy_search
from pellucid.decode.request import SearchConfig
from pellucid.decode.search import Hypothesis, forbidden_rule, not_empty_rule
from pellucid.decode.torch_engine import ModelState, model_step, pad_sentences, score_targets
from pellucid.decode.translator import Translator
from tests.decode.models import LINES, random_model, small_tokenizer
from tests.decode.tables import Prefixes, limit, random_logits, step_from, step_from_table, words
from tests.tolerances import approx_log_prob

VOCABULARY = 7  # the four special pieces and three others


def every_sentence(seed: int, sentence: int, longest: int, alpha: float) -> list[Hypothesis]:
    """Return every possible sentence, scored in float64: ended ones first, best first."""
    logits = random_logits(seed, VOCABULARY)
    hypotheses = []
    for length in range(1, longest + 1):
        for beginning in product(range(4, VOCABULARY), repeat=length - 1):
            ends = (EOS,) if length < longest else (EOS, *range(4, VOCABULARY))
            for end in ends:
                pieces = (*beginning, end)
                log_probs = [logits(sentence, pieces[:i]).log_softmax(0)[pieces[i]].item() for i in range(length)]
                log_prob = sum(log_probs)
                tokens, stop = (list(beginning), "eos") if end == EOS else (list(pieces), "length")
                hypotheses.append(Hypothesis(tokens, log_prob / ((5 + length) / 6) ** alpha, log_prob, stop, log_probs))
    return sorted(hypotheses, key=lambda hypothesis: (hypothesis.stop != "eos", -hypothesis.score))


def beam(step, state, limits, width, n_best=None, alpha=0.6, rules=None):
    rules = rules or (forbidden_rule(),)
    options = {"width": width, "n_best": n_best or width, "length_penalty": alpha, "rules": rules}
    return beam_search(step, state, limits, **options)


def same_hypotheses(first: list[Hypothesis], second: list[Hypothesis]) -> bool:
    return [(h.tokens, h.stop) for h in first] == [(h.tokens, h.stop) for h in second] and all(
        a.log_probs == approx_log_prob(b.log_probs) and a.score == approx_log_prob(b.score)
        for a, b in zip(first, second, strict=True)
    )


def test_an_example_solved_by_hand_is_found():
    step = step_from_table({"": {"a": 0.6, "b": 0.4}, "a": {".": 0.5, "a": 0.5}, "b": {".": 0.9, "b": 0.1}})
    [[best, second]] = beam(step, Prefixes([0]), limit(2), width=2, alpha=0.0)
    assert (words(best.tokens), best.stop) == ("b", "eos")
    assert (words(second.tokens), second.stop) == ("a", "eos")
    assert best.score == best.log_prob == pytest.approx(torch.tensor(0.36).log().item())  # .36 beats .30
    assert second.log_prob == pytest.approx(torch.tensor(0.30).log().item())
    [[greedy]] = greedy_search(step, Prefixes([0]), limit(2), length_penalty=0.0)
    assert words(greedy.tokens) == "a"


@pytest.mark.article("D1")
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_a_wide_beam_finds_the_best_sentences(seed, alpha):
    step = step_from(random_logits(seed, VOCABULARY))
    results = beam(step, Prefixes([0, 1]), limit(4, 3), width=113, alpha=alpha)  # 108 candidates at most
    for sentence, longest in enumerate((4, 3)):
        expected = every_sentence(seed, sentence, longest, alpha)
        assert len(results[sentence]) == min(113, len(expected))
        assert same_hypotheses(results[sentence], expected[:113])


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_a_search_that_may_not_be_empty_finds_the_best_sentences_of_those_that_are_not(alpha):
    empty = 0
    for seed in range(5):
        step = step_from(random_logits(seed, VOCABULARY))
        rules = (forbidden_rule(), not_empty_rule([True, False]))
        results = beam(step, Prefixes([0, 1]), limit(4, 3), width=113, alpha=alpha, rules=rules)
        for sentence, longest in enumerate((4, 3)):
            expected = every_sentence(seed, sentence, longest, alpha)
            empty += sum(not hypothesis.tokens for hypothesis in expected)
            if sentence == 0:
                expected = [hypothesis for hypothesis in expected if hypothesis.tokens]
            assert same_hypotheses(results[sentence], expected[:113])
    assert empty == 10


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_asking_for_fewer_hypotheses_changes_none_of_them(alpha):
    for seed in range(7):
        step = step_from(random_logits(seed, VOCABULARY))
        everything = beam(step, Prefixes([0, 1, 2]), limit(11, 13, 5), width=5, alpha=alpha)
        for n_best in (1, 2, 3):
            fewer = beam(step, Prefixes([0, 1, 2]), limit(11, 13, 5), width=5, n_best=n_best, alpha=alpha)
            assert all(same_hypotheses(a, b[:n_best]) for a, b in zip(fewer, everything, strict=True))


def test_a_beam_of_one_is_greedy_search():
    stops = set()
    for seed in range(17):
        step = step_from(random_logits(seed, VOCABULARY))
        greedy = greedy_search(step, Prefixes([0, 1, 2]), limit(7, 3, 11), length_penalty=0.6)
        assert beam(step, Prefixes([0, 1, 2]), limit(7, 3, 11), width=1) == greedy
        stops |= {hypothesis.stop for [hypothesis] in greedy}
    assert stops == {"eos", "length"}


def test_the_hypotheses_of_a_sentence_are_distinct_and_sorted():
    for seed in range(7):
        step = step_from(random_logits(seed, VOCABULARY))
        for hypotheses in beam(step, Prefixes([0, 1, 2]), limit(5, 7, 11), width=5):
            assert len({tuple(h.tokens) for h in hypotheses}) == len(hypotheses) == 5
            assert hypotheses == sorted(hypotheses, key=lambda h: (h.stop != "eos", -h.score))
            assert all(h.log_prob == pytest.approx(sum(h.log_probs)) for h in hypotheses)
            assert all(len(h.log_probs) == len(h.tokens) + (h.stop == "eos") for h in hypotheses)


def test_sentences_that_end_early_change_no_other_in_a_table():
    step = step_from(random_logits(3, VOCABULARY))
    limits = [7, 2, 13, 1, 5, 11]
    for search in (
        lambda state, limits: greedy_search(step, state, limits, length_penalty=0.6),
        lambda state, limits: beam(step, state, limits, width=3),
    ):
        together = search(Prefixes(list(range(6))), limit(*limits))
        expected = [search(Prefixes([i]), limit(limits[i]))[0] for i in range(6)]
        assert all(same_hypotheses(a, b) for a, b in zip(together, expected, strict=True))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_sentences_that_end_early_change_no_other_in_a_model(dtype, positions):
    model = random_model(5, 13, 11, d_model=12, positions=positions).to(dtype)
    sources = [torch.randint(4, 13, (1, length)) for length in (5, 2, 7, 3, 5, 1)]
    together = torch.zeros(6, 7, dtype=torch.int64)
    for row, source in zip(together, sources, strict=True):
        row[: source.shape[1]] = source[0]
    limits = limit(11, 5, 17, 3, 7, 13)

    def search(source, limits, width):
        return beam(model_step(model), ModelState(model.encode(source)), limits, width)

    lengths = set()
    with torch.inference_mode():
        for width in (1, 4):
            results = search(together, limits, width)
            for i, source in enumerate(sources):
                assert same_hypotheses(results[i], search(source, limits[i : i + 1], width)[0])
                lengths |= {len(h.log_probs) for h in results[i]}
    assert len(lengths) > 5


@pytest.mark.parametrize("norm", ["pre", "post", "rms"])
def test_searching_with_a_cache_equals_searching_without(norm):
    model = random_model(7, 13, 11, d_model=14, norm=norm).double()
    source = torch.tensor([[4, 7, 9, 3, 0], [5, 3, 0, 0, 0], [11, 8, 4, 12, 3]])

    def whole(sentence: int, prefix: tuple[int, ...]) -> torch.Tensor:
        target = torch.tensor([[BOS, *prefix]])
        return model(source[sentence : sentence + 1], target)[0, -1]

    with torch.inference_mode():
        cached = beam(model_step(model), ModelState(model.encode(source)), limit(7, 11, 5), width=3)
        full = beam(step_from(whole), Prefixes([0, 1, 2]), limit(7, 11, 5), width=3)
    assert all(same_hypotheses(a, b) for a, b in zip(cached, full, strict=True))


def test_a_hypothesis_has_the_log_probabilities_that_scoring_it_gives():
    model = random_model(2, 13, 11, d_model=14)
    sources = [[4, 7, 9, 3], [5, 3], [11, 8, 4, 12, 3]]
    with torch.inference_mode():
        state = ModelState(model.encode(pad_sentences(sources, torch.device("cpu"))))
        results = beam(model_step(model), state, limit(7, 11, 5), width=5)
        pairs = [
            (source, h)
            for source, hypotheses in zip(sources, results, strict=True)
            for h in hypotheses
            if h.stop == "eos"
        ]
        scored = score_targets(model, [source for source, _ in pairs], [[*h.tokens, EOS] for _, h in pairs])
    assert len(pairs) > 10
    for (_, hypothesis), log_probs in zip(pairs, scored, strict=True):
        assert log_probs == approx_log_prob(hypothesis.log_probs)


def test_any_batch_gives_the_same_translations_in_the_same_order():
    tokenizer = small_tokenizer()
    model = random_model(11, tokenizer.source_vocabulary, tokenizer.target_vocabulary, decoder_layers=1).double()
    translator = Translator(model, tokenizer)
    lines = ["x", *LINES[3:], "", "Yes.", "  ", "the the"]
    for method in ({"beam": 3, "n_best": 2}, {"method": "greedy"}, {"method": "sample", "n_best": 2}):
        config = {"max_extra": 5, **method}
        expected = translator.translate(lines, SearchConfig(batch=1, **config))
        assert [t.stop == "empty" for t in expected] == [not line.strip() for line in lines]
        for batch, batch_tokens in ((2, 10**6), (7, 29)):
            translations = translator.translate(lines, SearchConfig(batch=batch, batch_tokens=batch_tokens, **config))
            assert [t.text for t in translations] == [t.text for t in expected]
            assert [t.score for t in translations] == pytest.approx([t.score for t in expected])
        streamed = list(translator.translate_stream(iter(lines), SearchConfig(**config), block=5))
        assert [t.text for t in streamed] == [t.text for t in expected]
