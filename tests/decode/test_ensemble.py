"""Laws of models that translate together."""

from collections.abc import Callable
from itertools import product
from math import exp, log
from pathlib import Path

import pytest
import torch

from pellucid.data.tokenizer import EOS, Tokenizer, TokenizerConfig
from pellucid.decode.beam import beam_search
from pellucid.decode.greedy import greedy_search
from pellucid.decode.search import Hypothesis, SearchState, Step
from pellucid.decode.torch_engine import (
    EnsembleState,
    ModelState,
    ensemble_step,
    mean_log_probs,
    model_step,
    pad_sentences,
    require_one_vocabulary,
    score_targets,
)
from pellucid.model import Transformer
from pellucid.store.directory import Bundle
from tests.decode.models import LINES, random_model, small_tokenizer
from tests.decode.tables import Prefixes, limit, random_logits, step_from, step_from_table, words
from tests.tolerances import approx_log_prob

SOURCES = [[4, 7, 9, 3], [5, 3], [11, 8, 4, 12, 3]]
LIMITS = limit(7, 11, 5)


def make_ensemble(models: list[Transformer]) -> tuple[Step, SearchState]:
    source_ids = pad_sentences(SOURCES, torch.device("cpu"))
    states = [ModelState(model.encode(source_ids)) for model in models]
    return ensemble_step([model_step(model) for model in models]), EnsembleState(states)


def run_search(step: Step, state: SearchState, width: int) -> list[list[Hypothesis]]:
    with torch.inference_mode():
        if width == 1:
            return greedy_search(step, state, LIMITS, length_penalty=0.6)
        return beam_search(step, state, LIMITS, width=width, n_best=width, length_penalty=0.6)


def same_hypotheses(first: list[list[Hypothesis]], second: list[list[Hypothesis]]) -> bool:
    pairs = [(a, b) for x, y in zip(first, second, strict=True) for a, b in zip(x, y, strict=True)]
    return all(
        (a.tokens, a.stop) == (b.tokens, b.stop) and a.log_probs == approx_log_prob(b.log_probs) for a, b in pairs
    )


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_model_repeated_translates_as_the_model(count: int, width: int):
    model = random_model(3, 13, 11, d_model=14)
    step, state = make_ensemble([model])
    expected = run_search(
        model_step(model), ModelState(model.encode(pad_sentences(SOURCES, torch.device("cpu")))), width
    )
    assert same_hypotheses(run_search(*make_ensemble([model] * count), width), expected)
    assert same_hypotheses(run_search(step, state, width), expected)


def test_the_example_one_can_solve_by_hand():
    """(.5 + .1) / 2 = .3 for b is more than (.4 + .0) / 2 = .2 for c, and less than (.1 + .9) / 2 = .5 for a."""
    first_step = step_from_table({"": {"a": 0.1, "b": 0.5, "c": 0.4}})
    second_step = step_from_table({"": {"a": 0.9, "b": 0.1}})
    state = EnsembleState([Prefixes([0]), Prefixes([0])])
    [hypotheses] = beam_search(
        ensemble_step([first_step, second_step]), state, limit(2), width=3, n_best=3, length_penalty=0.0
    )
    assert [words(hypothesis.tokens) for hypothesis in hypotheses] == ["a", "b", "c"]
    assert [exp(hypothesis.log_probs[0]) for hypothesis in hypotheses] == pytest.approx([0.5, 0.3, 0.2])


def test_the_order_of_the_models_changes_nothing():
    models = [random_model(seed, 13, 11) for seed in (1, 2, 3)]
    assert same_hypotheses(run_search(*make_ensemble(models), 4), run_search(*make_ensemble(models[::-1]), 4))


def find_best_sentence(seeds: list[int], sentence: int, longest: int) -> tuple[list[int], float]:
    """Search every sentence of a vocabulary of seven, each piece with the mean of its probabilities."""
    tables = [random_logits(seed, 7) for seed in seeds]
    candidates = []
    for length in range(1, longest + 1):
        for beginning in product(range(4, 7), repeat=length - 1):
            pieces = (*beginning, EOS)
            probabilities = [
                sum(table(sentence, pieces[:i]).softmax(0)[pieces[i]].item() for table in tables) / len(tables)
                for i in range(length)
            ]
            candidates.append((sum(map(log, probabilities)), list(beginning)))
    log_prob, tokens = max(candidates)
    return tokens, log_prob


@pytest.mark.parametrize("seeds", [[1, 2], [3, 4, 5], [7, 7, 8]])
def test_a_wide_beam_finds_the_best_sentence_of_the_ensemble(seeds: list[int]):
    step = ensemble_step([step_from(random_logits(seed, 7)) for seed in seeds])
    state = EnsembleState([Prefixes([0, 1]) for _ in seeds])
    results = beam_search(step, state, limit(4, 3), width=113, n_best=1, length_penalty=0.0)
    for sentence, ([best], longest) in enumerate(zip(results, (4, 3), strict=True)):
        tokens, log_prob = find_best_sentence(seeds, sentence, longest)
        assert best.tokens == tokens
        assert best.log_prob == pytest.approx(log_prob)


def test_models_of_several_sizes_give_the_mean_of_their_probabilities():
    models = [
        random_model(1, 13, 11, d_model=14),
        random_model(2, 13, 11, d_model=6, decoder_layers=1, norm="post"),
        random_model(3, 13, 11, d_model=12, positions="rotary").double(),
    ]
    results = run_search(*make_ensemble(models), 4)
    ended = [
        (s, h.tokens + [EOS] * (h.stop == "eos"), h)
        for s, hypotheses in zip(SOURCES, results, strict=True)
        for h in hypotheses
    ]
    assert len(ended) == 12
    with torch.inference_mode():
        scores_of_models = [
            score_targets(model, [s for s, _, _ in ended], [t for _, t, _ in ended]) for model in models
        ]
    for i, (_, _, hypothesis) in enumerate(ended):
        means = [
            log(sum(map(exp, log_probs)) / 3)
            for log_probs in zip(*(scores[i] for scores in scores_of_models), strict=True)
        ]
        assert hypothesis.log_probs == approx_log_prob(means)
        assert mean_log_probs(scores_of_models)[i] == approx_log_prob(means, torch.float64)


def test_two_pieces_that_one_model_each_is_sure_of_have_half_the_probability():
    sure_logits = [torch.full((1, 7), -200.0).index_fill_(1, torch.tensor([piece]), 0.0) for piece in (4, 5)]
    steps: list[Step] = [lambda ids, state, logits=logits: logits for logits in sure_logits]
    state = EnsembleState([Prefixes([0]), Prefixes([0])])
    log_probs = ensemble_step(steps)(torch.tensor([2]), state)[0]
    assert log_probs[4:6].tolist() == pytest.approx([log(0.5)] * 2)
    assert log_probs[6].item() == pytest.approx(-200.0)
    assert mean_log_probs([[[-800.0]], [[-802.0]]])[0][0] == pytest.approx(-800 + log((1 + exp(-2)) / 2))


# ---------------------------------------------------------------- one vocabulary


def make_bundle(name: str, tokenizer: Tokenizer) -> Bundle:
    sizes = tokenizer.source_vocabulary, tokenizer.target_vocabulary
    return Bundle(random_model(1, *sizes), tokenizer, {}, Path("runs") / name)


def train_tokenizer(lines: list[str], **settings) -> Tokenizer:
    config = TokenizerConfig(**{"vocabulary": 307, "joint": False, **settings})
    return Tokenizer.train(LINES, lines, config, seed=1, max_sentences=100)


def test_the_same_tokenizer_learned_twice_counts_as_one():
    learned_again = Tokenizer.train(LINES, LINES, small_tokenizer().config, seed=2, max_sentences=100)
    require_one_vocabulary([make_bundle("a", small_tokenizer()), make_bundle("b", learned_again)])
    require_one_vocabulary([make_bundle("a", small_tokenizer())])


@pytest.mark.parametrize(
    ("make_tokenizer", "problem"),
    [
        (lambda: train_tokenizer(LINES[:-1]), r"runs/odd \(target pieces\)"),
        (lambda: train_tokenizer(LINES, kind="unigram"), r"runs/odd \(source pieces, target pieces\)"),
        (lambda: train_tokenizer([line.lower() for line in LINES], lowercase=True), r"runs/odd \(.*lowercase True\)"),
    ],
)
def test_the_directory_with_another_tokenizer_is_named(make_tokenizer: Callable[[], Tokenizer], problem: str):
    tokenizer = train_tokenizer(LINES)
    bundles = [
        make_bundle("first", tokenizer),
        make_bundle("good", train_tokenizer(LINES)),
        make_bundle("odd", make_tokenizer()),
    ]
    with pytest.raises(ValueError, match=rf"another than runs/first: {problem}; train them on the same pairs"):
        require_one_vocabulary(bundles)


def test_every_directory_with_another_tokenizer_is_named():
    tokenizer = train_tokenizer(LINES, kind="unigram")
    bundles = [
        make_bundle("first", train_tokenizer(LINES)),
        make_bundle("odd", tokenizer),
        make_bundle("odder", tokenizer),
    ]
    with pytest.raises(ValueError, match=r"runs/odd \(.*\); runs/odder \("):
        require_one_vocabulary(bundles)
