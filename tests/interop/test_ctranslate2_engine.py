"""Both engines find the same translations: by the rule that decides it, on random models, and on trained ones."""

import gzip
import random
from dataclasses import replace
from itertools import pairwise
from math import inf, isnan
from pathlib import Path

import pytest
import torch

from pellucid.cpu import count_processors
from pellucid.data.tokenizer import BOS, EOS, FORBIDDEN, PAD, UNK
from pellucid.decode.beam import beam_search
from pellucid.decode.request import Hypothesis, SearchConfig, SearchRequest, length_divisor
from pellucid.decode.torch_engine import TorchEngine
from pellucid.interop import ctranslate2_engine
from pellucid.interop.ctranslate2 import convert_to_ctranslate2
from pellucid.interop.ctranslate2_engine import (
    CTranslate2Engine,
    CTranslate2Query,
    rank_like_beam_search,
)
from pellucid.model import Transformer
from pellucid.store.directory import load_bundle, save_bundle
from tests.decode.models import model_that_writes, random_model, small_tokenizer
from tests.decode.tables import Prefixes, limit, random_logits, step_from
from tests.tolerances import relative_rounding

pytest.importorskip("ctranslate2")

TOKENIZER = small_tokenizer()
V = TOKENIZER.source_vocabulary
CONFIGS = [
    SearchConfig(method="greedy"),
    SearchConfig(beam=1, length_penalty=1.0),
    SearchConfig(beam=4),
    SearchConfig(beam=3, length_penalty=0.0, n_best=2),
    SearchConfig(beam=4, length_penalty=1.3, n_best=4),
    SearchConfig(beam=7, n_best=3, max_extra=2),
]


class CountingEngine(TorchEngine):
    """Counts the requests that reach it."""

    request_count: int = 0

    def search(self, requests, config):
        self.request_count += len(requests)
        return super().search(requests, config)


def ending_model(**options) -> Transformer:
    """Return a random model most of whose translations end."""
    model = random_model(1, V, V, d_model=20, heads=5, output_bias=True, **options)
    with torch.no_grad():
        model.get_parameter("output_bias")[EOS] += 12.0
    return model


def make_engines(
    model: Transformer, directory: Path, forbidden: tuple[int, ...] = (), precision: str = "float32"
) -> tuple[CountingEngine, CTranslate2Engine]:
    convert_to_ctranslate2(model, TOKENIZER, directory, precision)
    fallback = CountingEngine([model], forbidden)
    return fallback, CTranslate2Engine(directory, TOKENIZER, fallback.bounds, lambda: fallback, workers=1)


def random_requests(seed: int, count: int = 31) -> list[SearchRequest]:
    """Draw requests for sentences of up to 11 pieces, an empty one among them."""
    draw = random.Random(seed)
    lengths = [0, *(draw.randrange(1, 12) for _ in range(count - 1))]
    return [SearchRequest([*(draw.randrange(4, V) for _ in range(n)), EOS], i) for i, n in enumerate(lengths, start=1)]


def texts(results: list[list[Hypothesis]]) -> list[list[tuple[list[int], str]]]:
    return [[(hypothesis.tokens, hypothesis.stop) for hypothesis in hypotheses] for hypotheses in results]


def largest_error(results: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> float:
    """Return the largest difference between scores or log-probabilities of the same hypotheses, as a share of them."""
    pairs = [
        (first, second)
        for first_hypotheses, second_hypotheses in zip(results, expected, strict=True)
        for first, second in zip(first_hypotheses, second_hypotheses, strict=True)
    ]
    errors = []
    for first, second in pairs:
        errors += [abs(first.score - second.score) / max(1.0, abs(second.score))]
        errors += [abs(first.log_prob - second.log_prob) / max(1.0, abs(second.log_prob))]
    return max(errors)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"{c.method} {c.beam} {c.n_best} {c.length_penalty}")
@pytest.mark.parametrize(
    "options",
    [
        {"norm": "pre", "positions": "sinusoidal"},
        {"norm": "post", "positions": "rotary", "activation": "swiglu"},
        pytest.param({"norm": "rms", "positions": "learned"}, marks=pytest.mark.slow),
    ],
    ids=lambda options: options["positions"],
)
def test_both_engines_find_the_same_on_random_models(options, config, tmp_path: Path):
    fallback, engine = make_engines(ending_model(**options), tmp_path / "out")
    config = replace(config, max_extra=min(config.max_extra, 17))
    results = engine.search(random_requests(1), config)
    assert fallback.request_count < 20, "most must have been decided by the engine that is tested"
    expected = fallback.search(random_requests(1), config)
    assert texts(results) == texts(expected)
    assert largest_error(results, expected) < relative_rounding()


def test_greedy_texts_are_cut_and_searched_without_repeats_by_both_engines_alike(tmp_path: Path):
    for seed, options in enumerate([{"norm": "pre"}, {"norm": "post", "positions": "rotary"}]):
        model = random_model(seed, V, V, d_model=20, heads=5, output_bias=True, **options)
        fallback, engine = make_engines(model, tmp_path / str(seed))
        config = SearchConfig(method="greedy", max_extra=9, length_penalty=0.7)
        requests = [replace(request, no_repeat=n % 3) for n, request in enumerate(random_requests(7, 29))]
        expected = fallback.search(requests, config)
        assert {hypothesis.stop for hypotheses in expected for hypothesis in hypotheses} >= {"length"}
        assert texts(expected) != texts(
            fallback.search([replace(request, no_repeat=0) for request in requests], config)
        )
        fallback.request_count = 0
        results = engine.search(requests, config)
        assert fallback.request_count <= 1, "only the empty one is not for CTranslate2"
        assert texts(results) == texts(expected)
        assert largest_error(results, expected) < relative_rounding()


@pytest.mark.parametrize("beam", [1, 4])
def test_texts_are_the_same_without_scores(beam: int, tmp_path: Path):
    for seed, model in enumerate([ending_model(norm="pre"), random_model(1, V, V, d_model=20, heads=5)]):
        fallback, engine = make_engines(model, tmp_path / str(seed))
        config = SearchConfig(beam=beam, max_extra=9)
        requests = [
            replace(request, no_repeat=n % 3 if beam == 1 else 0) for n, request in enumerate(random_requests(7))
        ]
        expected = engine.search(requests, config)
        fallback.request_count = 0
        results = engine.search(requests, replace(config, scores=False))
        assert texts(results) == texts(expected)
        if beam == 1:
            assert fallback.request_count <= 1, "only the empty one is not for CTranslate2"
            assert all(
                isnan(hypothesis.score) and isnan(hypothesis.log_prob)
                for hypotheses in results[1:]
                for hypothesis in hypotheses
            )


def test_ctranslate2_cuts_beams_and_avoids_repeats_where_the_same_text_is_not_promised(tmp_path: Path):
    model = random_model(1, V, V, d_model=20, heads=5, output_bias=True)
    fallback, engine = make_engines(model, tmp_path / "out", precision="int8")
    config = SearchConfig(beam=3, max_extra=30)
    requests = [request for request in random_requests(7) if len(request.source) > 1]
    repeating = [hypothesis for [hypothesis] in engine.search(requests, config)]
    without_repeats = [
        hypothesis for [hypothesis] in engine.search([replace(request, no_repeat=2) for request in requests], config)
    ]
    assert fallback.request_count == 0
    assert any(map(has_repeated_pair, repeating)), "or nothing is tested"
    assert not any(map(has_repeated_pair, without_repeats))
    assert {hypothesis.stop for hypothesis in without_repeats} >= {"length"}
    for request, hypothesis in zip(requests, without_repeats, strict=True):
        assert len(hypothesis.tokens) <= len(request.source) + config.max_extra
        [expected] = fallback.log_probs([request.source], [hypothesis.tokens])
        length = len(hypothesis.tokens) + (hypothesis.stop == "eos")
        assert hypothesis.log_prob == pytest.approx(sum(expected[:length]), rel=0.05)  # rounded weights, the same text
        assert hypothesis.score == pytest.approx(hypothesis.log_prob / length_divisor(length, config.length_penalty))
    assert engine.search(requests, replace(config, n_best=2))
    assert fallback.request_count > 0, "of several the others have no such score"


def test_a_beam_without_repeats_is_ranked_with_the_length_penalty(tmp_path: Path):
    fallback, engine = make_engines(ending_model(), tmp_path / "out", precision="int8")
    requests = [replace(request, no_repeat=2) for request in random_requests(7) if len(request.source) > 1]
    short, long = (
        [
            hypothesis
            for [hypothesis] in engine.search(requests, SearchConfig(beam=4, length_penalty=alpha, max_extra=30))
        ]
        for alpha in (0.0, 3.0)
    )
    assert fallback.request_count == 0
    assert sum(len(hypothesis.tokens) for hypothesis in short) < sum(len(hypothesis.tokens) for hypothesis in long)


def has_repeated_pair(hypothesis: Hypothesis) -> bool:
    """Whether two pieces in a row stand in the hypothesis twice."""
    pairs = list(pairwise(hypothesis.tokens))
    return len(pairs) > len(set(pairs))


def search_like_ctranslate2(logits, query: CTranslate2Query) -> list[tuple[list[int], float]]:
    """Return the pieces and log-probabilities that CTranslate2's beam search would return, in a few plain lines."""
    live: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    ended: list[tuple[tuple[int, ...], float]] = []
    for step in range(1, query.limit + 1):
        candidates = [
            ((*pieces, piece), total + gain)
            for pieces, total in live
            for piece, gain in enumerate(logits(0, pieces).log_softmax(0).tolist())
        ]
        candidates = sorted(candidates, key=lambda candidate: -candidate[1])[: 2 * query.width]
        at_limit = step == query.limit
        ended += [candidate for candidate in candidates[: query.width] if at_limit or candidate[0][-1] == EOS]
        live = [candidate for candidate in candidates if candidate[0][-1] != EOS][: query.width]
        if len(ended) >= query.ended:
            break
    ranked = sorted(ended, key=lambda candidate: -candidate[1] / len(candidate[0]) ** query.exponent)
    return [(list(pieces), total) for pieces, total in ranked[: query.ended]]


@pytest.mark.parametrize("n_best", [1, pytest.param(2, marks=pytest.mark.slow), 4])
@pytest.mark.parametrize("alpha", [0.0, 0.6, pytest.param(2.0, marks=pytest.mark.slow)])
def test_a_sure_ranking_is_that_of_beam_search(n_best: int, alpha: float):
    config, sure_count = SearchConfig(beam=4, n_best=n_best, length_penalty=alpha), 0
    for seed in range(40):
        logits = random_logits(seed, 9)
        query, own_limit = CTranslate2Query.for_config(config, limit=8), (8, 5)[seed % 2]
        answer = search_like_ctranslate2(logits, query)
        order = rank_like_beam_search(
            [len(pieces) for pieces, _ in answer],
            [log_prob for _, log_prob in answer],
            [pieces[-1] == EOS for pieces, _ in answer],
            query,
            own_limit,
            config,
        )
        if order is None:
            continue
        sure_count += 1
        [expected] = beam_search(
            step_from(logits),
            Prefixes([0]),
            limit(own_limit),
            width=4,
            n_best=n_best,
            length_penalty=alpha,
            rules=(),
        )
        assert [answer[i][0][:-1] for i in order] == [hypothesis.tokens for hypothesis in expected]
    assert sure_count > 10


def test_which_rankings_are_sure_by_hand():
    config = SearchConfig(beam=2, length_penalty=1.0)
    query = CTranslate2Query.for_config(config, limit=9)

    def rank_if_sure(*hypotheses: tuple[int, float, bool], own_limit: int = 9) -> list[int] | None:
        lengths, log_probs, ended = map(list, zip(*hypotheses, strict=True))
        return rank_like_beam_search(lengths, log_probs, ended, query, own_limit, config)

    assert rank_if_sure((7, -3.0, True), (1, -3.5, True)) == [
        0
    ]  # -3.0 / 2 beats -3.5; what was dropped has -3.5 / 2 at most
    # A dropped hypothesis of 7 pieces could have -1.9 / 2 as well.
    assert rank_if_sure((1, -1.0, True), (7, -1.9, True)) is None
    assert rank_if_sure((1, -1.0, True), (7, -2.5, True)) == [0]
    assert rank_if_sure((1, -1.0, True), (7, -2.0001, True)) is None  # too close
    assert rank_if_sure((7, -3.0, True), (7, -3.00012, True)) == [0]  # of both the rounding is halved, too
    assert rank_if_sure((7, -3.0, True), (7, -3.00008, True)) is None
    assert rank_if_sure((7, -3.0, True), (1, -3.5, True), own_limit=6) is None  # the better one is beyond the limit
    assert rank_if_sure((9, -3.0, False), (9, -3.5, False)) is None
    assert rank_if_sure((3, -inf, True), (2, -1.0, True)) is None
    assert rank_if_sure((3, -3e38, True), (2, -1.0, True)) is None
    assert rank_if_sure((3, float("nan"), True), (2, -1.0, True)) is None


@pytest.mark.parametrize(("precision", "promised"), [("float32", True), ("int8", False)])
def test_close_calls_are_searched_again_where_the_same_text_is_promised(tmp_path, monkeypatch, precision, promised):
    model, config = ending_model(), SearchConfig(beam=3, max_extra=20)
    monkeypatch.setattr(ctranslate2_engine, "CLOSE_CALL", 1e9)  # every choice is one
    fallback, engine = make_engines(model, tmp_path / "out", precision=precision)
    results = engine.search(random_requests(3), config)
    assert all(results)
    assert (
        fallback.request_count == 31 if promised else fallback.request_count < 8
    )  # of a few the dropped ones could be better


def test_a_text_that_fills_every_position_has_its_score_too(tmp_path: Path):
    fallback, engine = make_engines(model_that_writes(7, V, V), tmp_path / "out")
    longest, config = fallback.bounds.longest, SearchConfig(method="greedy", max_extra=10**6)
    requests = [SearchRequest([5, EOS], 1), SearchRequest([6, 8, EOS], 2)]
    for batch in (requests, requests[:1]):
        results, expected = engine.search(batch, config), fallback.search(batch, config)
        assert [len(hypothesis.tokens) for [hypothesis] in results] == [longest] * len(batch)
        assert texts(results) == texts(expected)
        assert largest_error(results, expected) < relative_rounding()


def test_forbidden_pieces_are_never_written(tmp_path: Path):
    for number, piece in enumerate((PAD, UNK, BOS, 7)):
        fallback, engine = make_engines(model_that_writes(piece, V, V), tmp_path / str(number), (*FORBIDDEN, 7))
        for config in (SearchConfig(method="greedy"), SearchConfig(beam=3, n_best=2, max_extra=3)):
            results = engine.search(random_requests(2, 5), config)
            assert texts(results) == texts(fallback.search(random_requests(2, 5), config))
            assert not {*FORBIDDEN, 7} & {
                token for hypotheses in results for hypothesis in hypotheses for token in hypothesis.tokens
            }


def test_what_ctranslate2_cannot_do_goes_to_torch(tmp_path: Path):
    fallback, engine = make_engines(random_model(1, V, V), tmp_path / "out")
    requests = [
        SearchRequest([5, 6, EOS], 1, prefix=(9,)),
        SearchRequest([5, 6, EOS], 3, no_repeat=2),
        SearchRequest([EOS], 4),
    ]
    config = SearchConfig(beam=2, max_extra=4)
    expected = fallback.search(requests, config)
    engine.translator = None
    assert texts(engine.search(requests, config)) == texts(expected)
    sampling = SearchConfig(method="sample", n_best=2, max_extra=4)
    assert texts(engine.search(random_requests(3, 4), sampling)) == texts(
        fallback.search(random_requests(3, 4), sampling)
    )
    wide = SearchConfig(beam=V, max_extra=1)
    assert texts(engine.search([SearchRequest([5, EOS], 1)], wide)) == texts(
        fallback.search([SearchRequest([5, EOS], 1)], wide)
    )
    with pytest.raises(ValueError, match="the sequence has 98 pieces, this model takes 97"):
        engine.search([SearchRequest([5] * 97 + [EOS], 1)], config)


def test_batches_come_back_in_order_whichever_is_collected_first(tmp_path: Path):
    _, engine = make_engines(ending_model(), tmp_path / "out")
    config, batches = SearchConfig(beam=2, max_extra=5), [random_requests(seed, 7) for seed in range(3)]
    expected = [texts(engine.search(batch, config)) for batch in batches]
    assert [texts(results) for results in engine.search_all(batches, config)] == expected
    pending = [engine.submit(batch, config) for batch in batches]
    assert [texts(batch.finish()) for batch in reversed(pending)] == expected[::-1]
    assert engine.search([], config) == []
    assert next(engine.search_all([[], batches[0]], config)) == []


def test_only_a_few_batches_are_submitted_ahead(tmp_path: Path, monkeypatch):
    _, engine = make_engines(ending_model(), tmp_path / "out")
    config, batches = SearchConfig(beam=2, max_extra=5), [random_requests(seed, 2) for seed in range(20)]
    expected = [texts(engine.search(batch, config)) for batch in batches]
    submitted, submit = [], engine.submit
    monkeypatch.setattr(engine, "submit", lambda batch, config: [submitted.append(batch), submit(batch, config)][1])
    answers = engine.search_all(batches, config)
    assert texts(next(answers)) == expected[0]
    assert submitted == batches[: ctranslate2_engine.BATCHES_PER_WORKER + 1], "not all"
    assert [texts(results) for results in answers] == expected[1:]


def test_only_pieces_of_the_shortlist_are_written(tmp_path: Path):
    model = random_model(4, V, V)
    listed = TOKENIZER.target_pieces([EOS, *range(260, 275)])
    (tmp_path / "vmap.txt").write_text("\t" + " ".join(listed) + "\n", encoding="utf-8")
    convert_to_ctranslate2(model, TOKENIZER, tmp_path / "out", "float32", vmap=tmp_path / "vmap.txt")
    fallback = TorchEngine([model], ())
    config = SearchConfig(method="greedy", max_extra=20)
    short = CTranslate2Engine(tmp_path / "out", TOKENIZER, fallback.bounds, lambda: fallback, shortlist=True, workers=1)
    full = CTranslate2Engine(tmp_path / "out", TOKENIZER, fallback.bounds, lambda: fallback, workers=1)
    query, shorter = CTranslate2Query.for_config(config, 20), CTranslate2Query.for_config(config, 20, shortlist=True)
    sources = [request.source for request in random_requests(5) if len(request.source) > 1]
    written_pieces = {
        piece for answer in short.begin_batch(sources, shorter, 0) for piece in answer.result().hypotheses[0]
    }
    always_offered = {"<unk>", "<s>"}  # CTranslate2 offers these whatever the list says; they are forbidden here
    assert len(written_pieces - always_offered) > 2
    assert written_pieces <= always_offered.union(listed)
    assert (
        not {piece for answer in full.begin_batch(sources, query, 0) for piece in answer.result().hypotheses[0]}
        <= written_pieces
    )


def test_a_model_directory_becomes_an_engine_and_its_conversions_are_kept(tmp_path: Path):
    save_bundle(tmp_path / "model", random_model(1, V, V), TOKENIZER)
    loaded = load_bundle(tmp_path / "model")
    fallback = TorchEngine([loaded.model], FORBIDDEN)
    for precision in ("float32", "bfloat16", "int8"):
        engine = CTranslate2Engine.for_bundle(loaded, fallback.bounds, lambda: fallback, precision, workers=1)
        assert len(engine.search(random_requests(6, 5), SearchConfig(beam=2, max_extra=3))) == 5
    assert len(list((tmp_path / ".model.ctranslate2").iterdir())) == 3
    with pytest.raises(ValueError, match="precision is 'int3'"):
        CTranslate2Engine.for_bundle(loaded, fallback.bounds, lambda: fallback, "int3")


def test_a_directory_that_does_not_load_is_refused(tmp_path: Path):
    _, engine = make_engines(random_model(1, V, V), tmp_path / "out")
    model = tmp_path / "out" / "model.bin"
    model.write_bytes(model.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"CTranslate2 cannot load .*out"):
        CTranslate2Engine(tmp_path / "out", TOKENIZER, engine.bounds, engine.fallback)
    with pytest.raises(ValueError, match="does not exist"):
        CTranslate2Engine(tmp_path / "absent", TOKENIZER, engine.bounds, engine.fallback)


def test_there_is_a_worker_for_each_processor():
    assert count_processors() >= 1


TRAINED = Path(__file__).parents[2] / "runs" / "multi30k" / "best"


@pytest.mark.slow
@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"{c.method} {c.beam} {c.n_best} {c.length_penalty}")
def test_both_engines_find_the_same_on_a_thousand_sentences(config, pellucid_data: Path, tmp_path: Path):
    if not TRAINED.exists():
        pytest.skip(f"no trained model in {TRAINED}")
    loaded = load_bundle(TRAINED)
    with gzip.open(pellucid_data / "multi30k" / "test_2016_flickr.en.gz", "rt", encoding="utf-8") as lines:
        sources = loaded.tokenizer.encode_source([line.strip() for line in lines])
    requests = sorted(
        (SearchRequest(ids, i) for i, ids in enumerate(sources, start=1)), key=lambda request: -len(request.source)
    )
    batches = [requests[i : i + 64] for i in range(0, len(requests), 64)]
    convert_to_ctranslate2(loaded.model, loaded.tokenizer, tmp_path / "out", "float32")
    fallback = CountingEngine([loaded.model], FORBIDDEN)
    engine = CTranslate2Engine(tmp_path / "out", loaded.tokenizer, fallback.bounds, lambda: fallback)
    ours = [hypotheses for results in engine.search_all(batches, config) for hypotheses in results]
    assert len(ours) == 1000
    assert fallback.request_count < 100 or config.max_extra < 50
    expected = [hypotheses for results in fallback.search_all(batches, config) for hypotheses in results]
    assert texts(ours) == texts(expected)
    assert largest_error(ours, expected) < relative_rounding()
