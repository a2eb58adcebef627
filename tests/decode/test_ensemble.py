"""Laws of models that translate together."""

from collections.abc import Callable
from itertools import product
from math import exp, log
from pathlib import Path

import pytest
import torch

from pellucid.bundle import Bundle
from pellucid.data.tokenizer import EOS, Tokenizer, TokenizerConfig
from pellucid.decode.beam import beam_search
from pellucid.decode.ensemble import EnsembleState, ensemble_step, mean_log_probs, require_one_vocabulary
from pellucid.decode.greedy import greedy_search
from pellucid.decode.search import Hypothesis, SearchState, Step
from pellucid.decode.step import ModelState, model_step, pad_sentences, score_targets
from pellucid.model import Transformer
from tests.decode.models import LINES, random_model, small_tokenizer
from tests.decode.tables import Prefixes, limit, random_logits, step_from, step_from_table, words

SOURCES = [[4, 7, 9, 3], [5, 3], [11, 8, 4, 12, 3]]
LIMITS = limit(7, 11, 5)


def together(models: list[Transformer]) -> tuple[Step, SearchState]:
    read = pad_sentences(SOURCES, torch.device("cpu"))
    states = [ModelState(model.encode(read)) for model in models]
    return ensemble_step([model_step(model) for model in models]), EnsembleState(states)


def searched(step: Step, state: SearchState, width: int) -> list[list[Hypothesis]]:
    with torch.inference_mode():
        if width == 1:
            return greedy_search(step, state, LIMITS, length_penalty=0.6)
        return beam_search(step, state, LIMITS, width=width, n_best=width, length_penalty=0.6)


def same(left: list[list[Hypothesis]], right: list[list[Hypothesis]]) -> bool:
    pairs = [(a, b) for x, y in zip(left, right, strict=True) for a, b in zip(x, y, strict=True)]
    return all(
        (a.tokens, a.stop) == (b.tokens, b.stop) and a.log_probs == pytest.approx(b.log_probs, abs=1e-5)
        for a, b in pairs
    )


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_model_and_itself_translate_as_the_model(count: int, width: int):
    model = random_model(3, 13, 11, d_model=14)
    step, state = together([model])
    alone = searched(model_step(model), ModelState(model.encode(pad_sentences(SOURCES, torch.device("cpu")))), width)
    assert same(searched(*together([model] * count), width), alone)
    assert same(searched(step, state, width), alone)


def test_the_example_one_can_solve_by_hand():
    """(.5 + .1) / 2 = .3 for b is more than (.4 + .0) / 2 = .2 for c, and less than (.1 + .9) / 2 = .5 for a."""
    one = step_from_table({"": {"a": 0.1, "b": 0.5, "c": 0.4}})
    other = step_from_table({"": {"a": 0.9, "b": 0.1}})
    state = EnsembleState([Prefixes([0]), Prefixes([0])])
    [found] = beam_search(ensemble_step([one, other]), state, limit(2), width=3, n_best=3, length_penalty=0.0)
    assert [words(each.tokens) for each in found] == ["a", "b", "c"]
    assert [exp(each.log_probs[0]) for each in found] == pytest.approx([0.5, 0.3, 0.2])


def test_the_order_of_the_models_changes_nothing():
    models = [random_model(seed, 13, 11) for seed in (1, 2, 3)]
    assert same(searched(*together(models), 4), searched(*together(models[::-1]), 4))


def best_of_all(seeds: list[int], sentence: int, longest: int) -> tuple[list[int], float]:
    """Every sentence of a vocabulary of seven, each piece with the mean of its probabilities."""
    tables = [random_logits(seed, 7) for seed in seeds]
    found = []
    for length in range(1, longest + 1):
        for beginning in product(range(4, 7), repeat=length - 1):
            pieces = (*beginning, EOS)
            each = [
                sum(table(sentence, pieces[:i]).softmax(0)[pieces[i]].item() for table in tables) / len(tables)
                for i in range(length)
            ]
            found.append((sum(map(log, each)), list(beginning)))
    log_prob, tokens = max(found)
    return tokens, log_prob


@pytest.mark.parametrize("seeds", [[1, 2], [3, 4, 5], [7, 7, 8]])
def test_a_wide_beam_finds_what_the_models_together_think_best(seeds: list[int]):
    step = ensemble_step([step_from(random_logits(seed, 7)) for seed in seeds])
    state = EnsembleState([Prefixes([0, 1]) for _ in seeds])
    found = beam_search(step, state, limit(4, 3), width=113, n_best=1, length_penalty=0.0)
    for sentence, ([best], longest) in enumerate(zip(found, (4, 3), strict=True)):
        tokens, log_prob = best_of_all(seeds, sentence, longest)
        assert best.tokens == tokens
        assert best.log_prob == pytest.approx(log_prob)


def test_models_of_several_sizes_give_the_mean_of_their_probabilities():
    models = [
        random_model(1, 13, 11, d_model=14),
        random_model(2, 13, 11, d_model=6, decoder_layers=1, norm="post"),
        random_model(3, 13, 11, d_model=12, positions="rotary").double(),
    ]
    found = searched(*together(models), 4)
    ended = [(s, h.tokens + [EOS] * (h.stop == "eos"), h) for s, some in zip(SOURCES, found, strict=True) for h in some]
    assert len(ended) == 12
    with torch.inference_mode():
        scored = [score_targets(model, [s for s, _, _ in ended], [t for _, t, _ in ended]) for model in models]
    for i, (_, _, hypothesis) in enumerate(ended):
        means = [log(sum(map(exp, each)) / 3) for each in zip(*(one[i] for one in scored), strict=True)]
        assert hypothesis.log_probs == pytest.approx(means, abs=1e-5)
        assert mean_log_probs(scored)[i] == pytest.approx(means, abs=1e-9)


def test_models_that_are_each_sure_of_something_else_are_sure_of_neither():
    sure = [torch.full((1, 7), -200.0).index_fill_(1, torch.tensor([piece]), 0.0) for piece in (4, 5)]
    steps: list[Step] = [lambda ids, state, logits=logits: logits for logits in sure]
    state = EnsembleState([Prefixes([0]), Prefixes([0])])
    log_probs = ensemble_step(steps)(torch.tensor([2]), state)[0]
    assert log_probs[4:6].tolist() == pytest.approx([log(0.5)] * 2)
    assert log_probs[6].item() == pytest.approx(-200.0)
    assert mean_log_probs([[[-800.0]], [[-802.0]]])[0][0] == pytest.approx(-800 + log((1 + exp(-2)) / 2))


# ---------------------------------------------------------------- one vocabulary


def bundle(name: str, tokenizer: Tokenizer) -> Bundle:
    sizes = tokenizer.source_vocabulary, tokenizer.target_vocabulary
    return Bundle(random_model(1, *sizes), tokenizer, {}, Path("runs") / name)


def learned(lines: list[str], **settings) -> Tokenizer:
    config = TokenizerConfig(**{"vocabulary": 307, "joint": False, **settings})
    return Tokenizer.train(LINES, lines, config, seed=1, max_sentences=100)


def test_the_same_tokenizer_learned_twice_is_one():
    again = Tokenizer.train(LINES, LINES, small_tokenizer().config, seed=2, max_sentences=100)
    require_one_vocabulary([bundle("a", small_tokenizer()), bundle("b", again)])
    require_one_vocabulary([bundle("a", small_tokenizer())])


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (lambda: learned(LINES[:-1]), r"runs/odd \(target pieces\)"),
        (lambda: learned(LINES, kind="unigram"), r"runs/odd \(source pieces, target pieces\)"),
        (lambda: learned([line.lower() for line in LINES], lowercase=True), r"runs/odd \(.*lowercase True\)"),
    ],
)
def test_the_directory_with_another_tokenizer_is_named(other: Callable[[], Tokenizer], said: str):
    first = learned(LINES)
    some = [bundle("first", first), bundle("good", learned(LINES)), bundle("odd", other())]
    with pytest.raises(ValueError, match=rf"another than runs/first: {said}; train them on the same pairs"):
        require_one_vocabulary(some)


def test_every_directory_with_another_tokenizer_is_named():
    other = learned(LINES, kind="unigram")
    some = [bundle("first", learned(LINES)), bundle("odd", other), bundle("odder", other)]
    with pytest.raises(ValueError, match=r"runs/odd \(.*\); runs/odder \("):
        require_one_vocabulary(some)
