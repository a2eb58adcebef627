"""A translation depends on its own line: not on its neighbours, their order, or how many are translated at a time."""

import random
from pathlib import Path

import pytest
import torch

from pellucid.data.tokenizer import EOS, FORBIDDEN
from pellucid.decode.beam import beam_search
from pellucid.decode.greedy import greedy_search
from pellucid.decode.request import SearchConfig, length_divisor
from pellucid.decode.search import Hypothesis
from pellucid.decode.torch_engine import CLOSE_CALL, SearchRequest, TorchEngine
from pellucid.model import Transformer
from tests.decode.models import random_model, small_tokenizer
from tests.decode.tables import Prefixes, limit, random_logits, step_from
from tests.variants import mark_others_slow

SEARCHES = {
    "greedy": lambda step: greedy_search(step, Prefixes([0]), limit(9), length_penalty=0.6),
    "beam": lambda step: beam_search(step, Prefixes([0]), limit(9), width=3, n_best=1, length_penalty=0.6),
    "n_best": lambda step: beam_search(step, Prefixes([0]), limit(9), width=4, n_best=3, length_penalty=1.0),
}


def list_texts(results: list[list[Hypothesis]]) -> list[list[tuple[int, ...]]]:
    return [[(*hypothesis.tokens, hypothesis.stop == "eos") for hypothesis in hypotheses] for hypotheses in results]


@pytest.mark.parametrize("search", ["greedy", pytest.param("beam", marks=pytest.mark.slow), "n_best"])
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
    "config",
    [
        pytest.param(SearchConfig(method="greedy", max_extra=5), marks=pytest.mark.slow, id="greedy"),
        pytest.param(SearchConfig(beam=4, max_extra=5), id="beam 4"),
    ],
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


SHORTLIST_SEARCHES = {
    "greedy": SearchConfig(method="greedy", max_extra=5),
    "greedy without scores": SearchConfig(method="greedy", max_extra=5, scores=False),
    "beam 4": SearchConfig(beam=4, max_extra=5),
    "beam 4 without scores": SearchConfig(beam=4, max_extra=5, scores=False),
    "n_best": SearchConfig(beam=4, n_best=3, max_extra=5),
}


class ShortlistExport:
    """A random model, exported with a shortlist of its own for each source piece, and its engine."""

    def __init__(self, directory: Path, precision: str):
        from pellucid.interop.ctranslate2 import convert_to_ctranslate2
        from pellucid.interop.ctranslate2_engine import CTranslate2Engine
        from pellucid.interop.shortlists import Shortlist, write_vmap

        self.precision, tokenizer = precision, small_tokenizer()
        size = tokenizer.source_vocabulary
        model = random_model(8, size, size, d_model=32, d_ff=64, output_bias=True)
        with torch.no_grad():
            model.get_parameter("output_bias")[EOS] += 3.0  # some texts end, others reach their limit
            # CTranslate2 offers these whatever a shortlist says; a text with one would be torch's, among all pieces.
            model.get_parameter("output_bias")[[*FORBIDDEN]] = -30.0
        draw = random.Random(5)
        by_source = {i: frozenset(draw.sample(range(4, size), 9)) for i in range(4, size)}
        self.shortlist = Shortlist(frozenset({EOS}), by_source)
        write_vmap(directory / "vmap.txt", self.shortlist, tokenizer)
        convert_to_ctranslate2(model, tokenizer, directory / "out", precision, vmap=directory / "vmap.txt")
        self.torch = TorchEngine([model], FORBIDDEN)
        self.engine = CTranslate2Engine(
            directory / "out", tokenizer, self.torch.bounds, lambda: self.torch, shortlist=True, workers=2
        )
        sources = [[*(draw.randrange(4, size) for _ in range(draw.randrange(1, 14))), EOS] for _ in range(40)]
        # One in three may not write two pieces twice, as after a text that runs in a loop.
        self.requests = [SearchRequest(source, n, no_repeat=2 * (n % 3 == 0)) for n, source in enumerate(sources)]


@pytest.fixture(scope="module", params=["float32", "int8"])
def shortlist_export(request, tmp_path_factory) -> ShortlistExport:
    pytest.importorskip("ctranslate2")
    return ShortlistExport(tmp_path_factory.mktemp("export"), request.param)


# Greedy is the way without a beam, and n_best compares the most texts of a sentence.
@pytest.mark.parametrize("config", mark_others_slow(SHORTLIST_SEARCHES, "greedy", "n_best"))
def test_any_batch_of_an_export_with_a_shortlist_gives_each_sentence_the_same_translations(shortlist_export, config):
    engine, requests = shortlist_export.engine, list(shortlist_export.requests)
    expected = {request.number: list_texts(engine.search([request], config)) for request in requests}
    assert len({str(texts) for texts in expected.values()}) > 20
    draw = random.Random(2)
    for size in (2, 7, 40):
        draw.shuffle(requests)
        batches = [requests[i : i + size] for i in range(0, len(requests), size)]
        for batch, results in zip(batches, engine.search_all(batches, config), strict=True):
            assert [list_texts([hypotheses]) for hypotheses in results] == [
                expected[request.number] for request in batch
            ]


@pytest.mark.parametrize("name", [name for name in SHORTLIST_SEARCHES if name != "n_best"])
def test_a_text_has_only_pieces_that_the_shortlist_offers_to_its_own_sentence(shortlist_export, name):
    results = shortlist_export.engine.search(shortlist_export.requests, SHORTLIST_SEARCHES[name])
    for request, [hypothesis] in zip(shortlist_export.requests, results, strict=True):
        assert set(hypothesis.tokens) <= shortlist_export.shortlist.allowed_tokens(request.source)


@pytest.mark.parametrize("name", ["greedy", "beam 4"])
def test_scores_of_an_export_with_a_shortlist_are_those_of_the_model_among_all_pieces(shortlist_export, name):
    engine, requests = shortlist_export.engine, shortlist_export.requests
    results = engine.search(requests, SHORTLIST_SEARCHES[name])
    # Among the pieces of a shortlist alone, a third of all, each piece is likelier by about 1 than among all.
    tolerance = 1e-3 if shortlist_export.precision == "float32" else 0.3
    for request, [hypothesis] in zip(requests, results, strict=True):
        written = [*hypothesis.tokens, *[EOS] * (hypothesis.stop == "eos")]
        [expected] = shortlist_export.torch.log_probs([request.source], [written])
        assert hypothesis.log_prob == pytest.approx(sum(expected[: len(written)]), abs=tolerance * len(written))
        assert hypothesis.score == hypothesis.log_prob / length_divisor(len(written), 1.0)


@pytest.mark.parametrize(
    "config", [SHORTLIST_SEARCHES["beam 4"], SHORTLIST_SEARCHES["greedy"]], ids=["beam 4", "greedy"]
)
def test_texts_that_do_not_end_depend_on_no_neighbours_limit(shortlist_export, config, monkeypatch):
    engine, requests = shortlist_export.engine, shortlist_export.requests
    monkeypatch.setattr(engine, "offered", None)  # among all pieces
    together = list_texts(engine.search(requests, config))
    assert together == [list_texts(engine.search([request], config))[0] for request in requests]
    assert sum(not texts[0][-1] for texts in together) > 3, "or no text reached its limit"


def test_ctranslate2_itself_lets_the_neighbours_of_a_sentence_change_its_translation(shortlist_export):
    from pellucid.interop.ctranslate2_engine import CTranslate2Query

    engine, sources = shortlist_export.engine, [request.source for request in shortlist_export.requests]
    query = CTranslate2Query.for_config(SearchConfig(method="greedy", scores=False), 12, shortlist=True)
    together = [answer.result().hypotheses for answer in engine.begin_batch(sources, query, 0)]
    separate = [engine.begin_batch([source], query, 0)[0].result().hypotheses for source in sources]
    assert together != separate
