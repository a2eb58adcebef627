"""A translation depends on its own line: not on its neighbours, their order, or how many are translated at a time."""

import random

import pytest
import torch

from pellucid.decode.beam import beam_search
from pellucid.decode.config import SearchConfig
from pellucid.decode.greedy import greedy_search
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


def texts(found: list[list[Hypothesis]]) -> list[list[tuple[int, ...]]]:
    return [[(*each.tokens, each.stop == "eos") for each in some] for some in found]


@pytest.mark.parametrize("search", SEARCHES)
def test_noise_below_the_margin_changes_no_outcome(search):
    flipped = 0
    for seed in range(40):
        sound = random_logits(seed, 11)
        [found] = SEARCHES[search](step_from(sound))
        margin = found[0].margin
        for size in (margin / 25, margin * 25):

            def shaken(sentence, prefix, size=size, sound=sound, seed=seed):
                generator = torch.Generator().manual_seed(hash((seed, prefix)) % 2**31)
                return sound(sentence, prefix) + size * (2 * torch.rand(11, generator=generator) - 1)

            same = texts(SEARCHES[search](step_from(shaken))) == texts([found])
            # Nine pieces, each off by at most 2 sizes with its normaliser: 18/25 of the margin, halved by nothing.
            assert same or size > margin
            flipped += not same
    assert flipped > 5  # larger noise does change outcomes: the margin is no empty promise


def undecided_model() -> Transformer:
    """Every piece has a twin whose logits differ from its own by about as much as rounding does."""
    model = random_model(5, 53, 48, d_model=32, d_ff=64)
    with torch.no_grad():
        table = model.output_embedding.weight
        table[1::2] = table[0::2] + 3e-7 * torch.randn(24, 32, generator=torch.Generator().manual_seed(1))
    return model


@pytest.mark.parametrize(
    "config", [SearchConfig(method="greedy", max_extra=5), SearchConfig(beam=4, max_extra=5)], ids=["greedy", "beam 4"]
)
def test_any_batch_in_any_order_gives_each_sentence_the_same(config):
    model = undecided_model()
    draw = random.Random(1)
    sources = [[*(draw.randrange(4, 53) for _ in range(draw.randrange(1, 14))), 3] for _ in range(24)]
    requests = [SearchRequest(source, number) for number, source in enumerate(sources, start=1)]
    engine = TorchEngine([model], ())
    alone = {each.number: texts(engine.search([each], config)) for each in requests}
    close = sum(some[0].margin < CLOSE_CALL for some in engine.search(requests, config))
    assert close > 5
    for size in (2, 7, 24):
        draw.shuffle(requests)
        batches = [requests[i : i + size] for i in range(0, len(requests), size)]
        for batch, found in zip(batches, engine.search_all(batches, config), strict=True):
            assert [texts([each]) for each in found] == [alone[each.number] for each in batch]


def test_without_the_second_look_neighbours_do_decide():
    model = undecided_model()
    engine, config = TorchEngine([model], ()), SearchConfig(beam=4, max_extra=5)
    draw, differing = random.Random(1), 0
    for _ in range(3):
        sources = [[*(draw.randrange(4, 53) for _ in range(draw.randrange(1, 14))), 3] for _ in range(30)]
        requests = [SearchRequest(source, 1) for source in sources]
        with torch.inference_mode():
            together = texts(engine.search_batch(requests, config))
            alone = [texts(engine.search_batch([each], config))[0] for each in requests]
        differing += sum(a != b for a, b in zip(together, alone, strict=True))
    assert differing > 0


def test_several_threads_give_what_one_gives(monkeypatch):
    model = random_model(5, 53, 47, d_model=32, d_ff=64)
    requests = [SearchRequest([*range(4, 4 + n), 3], n) for n in range(1, 30)]
    batches = [requests[i : i + 5] for i in range(0, 29, 5)]
    engine, config = TorchEngine([model], ()), SearchConfig(beam=3, n_best=2, max_extra=5)
    one = list(engine.search_all(batches, config))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert [texts(found) for found in engine.search_all(batches, config)] == [texts(found) for found in one]
