"""A translation depends on its own line: not on its neighbours, their order, or how many are translated at a time."""

import random

import pytest
import torch

from pellucid.decode.beam import beam_search
from pellucid.decode.greedy import greedy_search
from pellucid.decode.request import SearchConfig
from pellucid.decode.search import Hypothesis
from pellucid.decode.torch_engine import CLOSE_CALL, SearchRequest, TorchEngine
from pellucid.model import Transformer
from tests.decode.models import random_model
from tests.decode.tables import Prefixes, limit, random_logits, step_from

SEARCHES = {
    "greedy": lambda step: greedy_search(step, Prefixes([0]), limit(9), length_penalty=0.6),
    "beam": lambda step: beam_search(step, Prefixes([0]), limit(9), width=3, n_best=1, length_penalty=0.6),
    "n_best": lambda step: beam_search(step, Prefixes([0]), limit(9), width=4, n_best=3, length_penalty=1.0),
}


def list_texts(results: list[list[Hypothesis]]) -> list[list[tuple[int, ...]]]:
    return [[(*hypothesis.tokens, hypothesis.stop == "eos") for hypothesis in hypotheses] for hypotheses in results]


@pytest.mark.parametrize("search", SEARCHES)
def test_noise_below_the_margin_changes_no_outcome(search):
    flipped = 0
    for seed in range(40):
        logits = random_logits(seed, 11)
        [hypotheses] = SEARCHES[search](step_from(logits))
        margin = hypotheses[0].margin
        for size in (margin / 25, margin * 25):

            def noisy_logits(sentence, prefix, size=size, logits=logits, seed=seed):
                generator = torch.Generator().manual_seed(hash((seed, prefix)) % 2**31)
                return logits(sentence, prefix) + size * (2 * torch.rand(11, generator=generator) - 1)

            unchanged = list_texts(SEARCHES[search](step_from(noisy_logits))) == list_texts([hypotheses])
            # Nine pieces, each off by at most 2 sizes with its normaliser: 18/25 of the margin, halved by nothing.
            assert unchanged or size > margin
            flipped += not unchanged
    assert flipped > 5  # larger noise does change outcomes: the margin is no empty promise


def make_undecided_model() -> Transformer:
    """Return a model in which every token has a twin, whose logits differ by about as much as rounding does."""
    model = random_model(5, 53, 48, d_model=32, d_ff=64)
    with torch.no_grad():
        table = model.output_embedding.weight
        table[1::2] = table[0::2] + 3e-7 * torch.randn(24, 32, generator=torch.Generator().manual_seed(1))
    return model


@pytest.mark.parametrize(
    "config", [SearchConfig(method="greedy", max_extra=5), SearchConfig(beam=4, max_extra=5)], ids=["greedy", "beam 4"]
)
def test_any_batch_in_any_order_gives_each_sentence_the_same_translations(config):
    model = make_undecided_model()
    draw = random.Random(1)
    sources = [[*(draw.randrange(4, 53) for _ in range(draw.randrange(1, 14))), 3] for _ in range(17)]
    requests = [SearchRequest(source, number) for number, source in enumerate(sources, start=1)]
    engine = TorchEngine([model], ())
    expected = {request.number: list_texts(engine.search([request], config)) for request in requests}
    close = sum(hypotheses[0].margin < CLOSE_CALL for hypotheses in engine.search(requests, config))
    assert close > 3
    for size in (2, 7, 17):
        draw.shuffle(requests)
        batches = [requests[i : i + size] for i in range(0, len(requests), size)]
        for batch, results in zip(batches, engine.search_all(batches, config), strict=True):
            assert [list_texts([hypotheses]) for hypotheses in results] == [
                expected[request.number] for request in batch
            ]


def test_without_the_second_search_of_close_calls_neighbours_change_translations():
    model = make_undecided_model()
    engine, config = TorchEngine([model], ()), SearchConfig(beam=4, max_extra=5)
    draw, differing = random.Random(1), 0
    for _ in range(3):
        sources = [[*(draw.randrange(4, 53) for _ in range(draw.randrange(1, 14))), 3] for _ in range(30)]
        requests = [SearchRequest(source, 1) for source in sources]
        with torch.inference_mode():
            together = list_texts(engine.search_batch(requests, config))
            separate = [list_texts(engine.search_batch([request], config))[0] for request in requests]
        differing += sum(a != b for a, b in zip(together, separate, strict=True))
        if differing:
            break
    assert differing > 0


def test_several_threads_give_the_translations_of_one(monkeypatch):
    model = random_model(5, 53, 47, d_model=32, d_ff=64)
    requests = [SearchRequest([*range(4, 4 + n), 3], n) for n in range(1, 30)]
    batches = [requests[i : i + 5] for i in range(0, 29, 5)]
    engine, config = TorchEngine([model], ()), SearchConfig(beam=3, n_best=2, max_extra=5)
    expected = list(engine.search_all(batches, config))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert [list_texts(results) for results in engine.search_all(batches, config)] == [
        list_texts(results) for results in expected
    ]
