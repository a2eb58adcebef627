"""Both engines find the same: by the rule that decides it, on random models, and on trained ones."""

import gzip
import random
from dataclasses import replace
from itertools import pairwise
from math import inf, isnan
from pathlib import Path

import pytest
import torch

from pellucid import bundle
from pellucid.data.tokenizer import BOS, EOS, PAD, UNK
from pellucid.decode import ctranslate2_engine
from pellucid.decode.beam import beam_search
from pellucid.decode.config import SearchConfig
from pellucid.decode.ctranslate2_engine import CTranslate2Engine, count_processors
from pellucid.decode.ctranslate2_query import CTranslate2Query, rank_like_beam_search
from pellucid.decode.hypothesis import FORBIDDEN, Hypothesis, length_divisor
from pellucid.decode.request import SearchRequest
from pellucid.decode.torch_engine import TorchEngine
from pellucid.interop.ctranslate2 import convert_to_ctranslate2
from pellucid.model import Transformer
from tests.decode.models import model_that_writes, random_model, small_tokenizer
from tests.decode.tables import Prefixes, limit, random_logits, step_from

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


class Counting(TorchEngine):
    """Remembers what it was asked."""

    asked: int = 0

    def search(self, requests, config):
        self.asked += len(requests)
        return super().search(requests, config)


def ending_model(**options) -> Transformer:
    """Most of what it writes comes to an end."""
    model = random_model(1, V, V, d_model=20, heads=5, output_bias=True, **options)
    with torch.no_grad():
        model.get_parameter("output_bias")[EOS] += 12.0
    return model


def engines(
    model: Transformer, directory: Path, forbidden: tuple[int, ...] = (), precision: str = "float32"
) -> tuple[Counting, CTranslate2Engine]:
    convert_to_ctranslate2(model, TOKENIZER, directory, precision)
    fallback = Counting([model], forbidden)
    return fallback, CTranslate2Engine(directory, TOKENIZER, fallback.bounds, lambda: fallback, workers=1)


def requests(seed: int, count: int = 31) -> list[SearchRequest]:
    """Random sentences of up to 11 pieces, an empty one among them."""
    draw = random.Random(seed)
    lengths = [0, *(draw.randrange(1, 12) for _ in range(count - 1))]
    return [SearchRequest([*(draw.randrange(4, V) for _ in range(n)), EOS], i) for i, n in enumerate(lengths, start=1)]


def texts(found: list[list[Hypothesis]]) -> list[list[tuple[list[int], str]]]:
    return [[(each.tokens, each.stop) for each in some] for some in found]


def worst(found: list[list[Hypothesis]], others: list[list[Hypothesis]]) -> float:
    """The largest difference between scores or log-probabilities of the same hypotheses."""
    pairs = [(a, b) for x, y in zip(found, others, strict=True) for a, b in zip(x, y, strict=True)]
    return max(max(abs(a.score - b.score), abs(a.log_prob - b.log_prob)) for a, b in pairs)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"{c.method} {c.beam} {c.n_best} {c.length_penalty}")
@pytest.mark.parametrize(
    "options",
    [
        {"norm": "pre", "positions": "sinusoidal"},
        {"norm": "post", "positions": "rotary", "activation": "swiglu"},
        {"norm": "rms", "positions": "learned"},
    ],
    ids=lambda options: options["positions"],
)
def test_both_engines_find_the_same_on_random_models(options, config, tmp_path: Path):
    fallback, engine = engines(ending_model(**options), tmp_path / "out")
    config = replace(config, max_extra=min(config.max_extra, 17))
    found = engine.search(requests(1), config)
    assert fallback.asked < 20, "most must have been decided by the engine that is tested"
    expected = fallback.search(requests(1), config)
    assert texts(found) == texts(expected)
    assert worst(found, expected) < 1e-4


def test_greedy_texts_are_cut_and_searched_without_repeats_by_both_engines_alike(tmp_path: Path):
    for seed, options in enumerate([{"norm": "pre"}, {"norm": "post", "positions": "rotary"}]):
        model = random_model(seed, V, V, d_model=20, heads=5, output_bias=True, **options)
        fallback, engine = engines(model, tmp_path / str(seed))
        config = SearchConfig(method="greedy", max_extra=9, length_penalty=0.7)
        asked = [replace(each, no_repeat=n % 3) for n, each in enumerate(requests(7, 29))]
        expected = fallback.search(asked, config)
        assert {each.stop for some in expected for each in some} >= {"length"}
        assert texts(expected) != texts(fallback.search([replace(each, no_repeat=0) for each in asked], config))
        fallback.asked = 0
        found = engine.search(asked, config)
        assert fallback.asked <= 1, "only the empty one is not for CTranslate2"
        assert texts(found) == texts(expected)
        assert worst(found, expected) < 1e-4


@pytest.mark.parametrize("beam", [1, 4])
def test_texts_are_the_same_where_no_scores_are_asked_for(beam: int, tmp_path: Path):
    for seed, model in enumerate([ending_model(norm="pre"), random_model(1, V, V, d_model=20, heads=5)]):
        fallback, engine = engines(model, tmp_path / str(seed))
        config = SearchConfig(beam=beam, max_extra=9)
        asked = [replace(each, no_repeat=n % 3 if beam == 1 else 0) for n, each in enumerate(requests(7))]
        expected = engine.search(asked, config)
        fallback.asked = 0
        found = engine.search(asked, replace(config, scores=False))
        assert texts(found) == texts(expected)
        if beam == 1:
            assert fallback.asked <= 1, "only the empty one is not for CTranslate2"
            assert all(isnan(each.score) and isnan(each.log_prob) for some in found[1:] for each in some)


def test_beams_are_cut_and_searched_without_repeats_there_where_the_same_text_is_not_promised(tmp_path: Path):
    model = random_model(1, V, V, d_model=20, heads=5, output_bias=True)
    fallback, engine = engines(model, tmp_path / "out", precision="int8")
    config = SearchConfig(beam=3, max_extra=30)
    asked = [request for request in requests(7) if len(request.source) > 1]
    repeating = [each for [each] in engine.search(asked, config)]
    found = [each for [each] in engine.search([replace(request, no_repeat=2) for request in asked], config)]
    assert fallback.asked == 0
    assert any(map(twice, repeating)), "or nothing is tested"
    assert not any(map(twice, found))
    assert {each.stop for each in found} >= {"length"}
    for request, each in zip(asked, found, strict=True):
        assert len(each.tokens) <= len(request.source) + config.max_extra
        [expected] = fallback.log_probs([request.source], [each.tokens])
        pieces = len(each.tokens) + (each.stop == "eos")
        assert each.log_prob == pytest.approx(sum(expected[:pieces]), rel=0.05)  # rounded weights, the same text
        assert each.score == pytest.approx(each.log_prob / length_divisor(pieces, config.length_penalty))
    assert engine.search(asked, replace(config, n_best=2))
    assert fallback.asked > 0, "of several the others have no such score"


def test_a_beam_without_repeats_is_ranked_with_the_length_penalty_that_was_asked_for(tmp_path: Path):
    fallback, engine = engines(ending_model(), tmp_path / "out", precision="int8")
    asked = [replace(request, no_repeat=2) for request in requests(7) if len(request.source) > 1]
    short, long = (
        [each for [each] in engine.search(asked, SearchConfig(beam=4, length_penalty=alpha, max_extra=30))]
        for alpha in (0.0, 3.0)
    )
    assert fallback.asked == 0
    assert sum(len(each.tokens) for each in short) < sum(len(each.tokens) for each in long)


def twice(found: Hypothesis) -> bool:
    """Whether two pieces in a row stand in it twice."""
    pairs = list(pairwise(found.tokens))
    return len(pairs) > len(set(pairs))


def ctranslate2_beam(logits, question: CTranslate2Query) -> list[tuple[list[int], float]]:
    """CTranslate2's beam search on a table, in words of its own: what it returns, pieces and log-probabilities."""
    live: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    ended: list[tuple[tuple[int, ...], float]] = []
    for step in range(1, question.limit + 1):
        candidates = [
            ((*pieces, piece), total + gain)
            for pieces, total in live
            for piece, gain in enumerate(logits(0, pieces).log_softmax(0).tolist())
        ]
        candidates = sorted(candidates, key=lambda each: -each[1])[: 2 * question.width]
        at_limit = step == question.limit
        ended += [each for each in candidates[: question.width] if at_limit or each[0][-1] == EOS]
        live = [each for each in candidates if each[0][-1] != EOS][: question.width]
        if len(ended) >= question.ended:
            break
    order = sorted(ended, key=lambda each: -each[1] / len(each[0]) ** question.exponent)
    return [(list(pieces), total) for pieces, total in order[: question.ended]]


@pytest.mark.parametrize("n_best", [1, 2, 4])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_what_is_called_sure_is_what_beam_search_returns(n_best: int, alpha: float):
    config, sure = SearchConfig(beam=4, n_best=n_best, length_penalty=alpha), 0
    for seed in range(40):
        logits = random_logits(seed, 9)
        question, own_limit = CTranslate2Query.for_config(config, limit=8), (8, 5)[seed % 2]
        answer = ctranslate2_beam(logits, question)
        order = rank_like_beam_search(
            [len(pieces) for pieces, _ in answer],
            [log_prob for _, log_prob in answer],
            [pieces[-1] == EOS for pieces, _ in answer],
            question,
            own_limit,
            config,
        )
        if order is None:
            continue
        sure += 1
        [expected] = beam_search(
            step_from(logits),
            Prefixes([0]),
            limit(own_limit),
            width=4,
            n_best=n_best,
            length_penalty=alpha,
            rules=(),
        )
        assert [answer[i][0][:-1] for i in order] == [each.tokens for each in expected]
    assert sure > 10


def test_what_is_not_sure_by_hand():
    config = SearchConfig(beam=2, length_penalty=1.0)
    question = CTranslate2Query.for_config(config, limit=9)

    def sure(*hypotheses: tuple[int, float, bool], own_limit: int = 9) -> list[int] | None:
        lengths, log_probs, ended = map(list, zip(*hypotheses, strict=True))
        return rank_like_beam_search(lengths, log_probs, ended, question, own_limit, config)

    assert sure((7, -3.0, True), (1, -3.5, True)) == [0]  # -3.0 / 2 beats -3.5; what was dropped has -3.5 / 2 at most
    assert (
        sure((1, -1.0, True), (7, -1.9, True)) is None
    )  # one of 7 pieces that was dropped could have -1.9 / 2 as well
    assert sure((1, -1.0, True), (7, -2.5, True)) == [0]
    assert sure((1, -1.0, True), (7, -2.0001, True)) is None  # too close
    assert sure((7, -3.0, True), (7, -3.00012, True)) == [0]  # of both the rounding is halved, too
    assert sure((7, -3.0, True), (7, -3.00008, True)) is None
    assert sure((7, -3.0, True), (1, -3.5, True), own_limit=6) is None  # the better one is beyond the limit
    assert sure((9, -3.0, False), (9, -3.5, False)) is None
    assert sure((3, -inf, True), (2, -1.0, True)) is None
    assert sure((3, -3e38, True), (2, -1.0, True)) is None
    assert sure((3, float("nan"), True), (2, -1.0, True)) is None


@pytest.mark.parametrize(("precision", "promised"), [("float32", True), ("int8", False)])
def test_close_calls_are_searched_again_where_the_same_text_is_promised(tmp_path, monkeypatch, precision, promised):
    model, config = ending_model(), SearchConfig(beam=3, max_extra=20)
    monkeypatch.setattr(ctranslate2_engine, "CLOSE_CALL", 1e9)  # every choice is one
    fallback, engine = engines(model, tmp_path / "out", precision=precision)
    found = engine.search(requests(3), config)
    assert all(found)
    assert fallback.asked == 31 if promised else fallback.asked < 8  # of a few the dropped ones could be better


def test_a_text_that_fills_every_position_has_its_score_too(tmp_path: Path):
    fallback, engine = engines(model_that_writes(7, V, V), tmp_path / "out")
    longest, config = fallback.bounds.longest, SearchConfig(method="greedy", max_extra=10**6)
    asked = [SearchRequest([5, EOS], 1), SearchRequest([6, 8, EOS], 2)]
    for some in (asked, asked[:1]):
        found, expected = engine.search(some, config), fallback.search(some, config)
        assert [len(each.tokens) for [each] in found] == [longest] * len(some)
        assert texts(found) == texts(expected)
        assert worst(found, expected) < 1e-3


def test_forbidden_pieces_are_never_written(tmp_path: Path):
    for number, piece in enumerate((PAD, UNK, BOS, 7)):
        fallback, engine = engines(model_that_writes(piece, V, V), tmp_path / str(number), (*FORBIDDEN, 7))
        for config in (SearchConfig(method="greedy"), SearchConfig(beam=3, n_best=2, max_extra=3)):
            found = engine.search(requests(2, 5), config)
            assert texts(found) == texts(fallback.search(requests(2, 5), config))
            assert not {*FORBIDDEN, 7} & {token for some in found for each in some for token in each.tokens}


def test_what_ctranslate2_cannot_do_goes_to_torch(tmp_path: Path):
    fallback, engine = engines(random_model(1, V, V), tmp_path / "out")
    asked = [
        SearchRequest([5, 6, EOS], 1, prefix=(9,)),
        SearchRequest([5, 6, EOS], 2, terms=(((9, 10),),)),
        SearchRequest([5, 6, EOS], 3, no_repeat=2),
        SearchRequest([EOS], 4),
    ]
    config = SearchConfig(beam=2, max_extra=4)
    expected = fallback.search(asked, config)
    engine.translator = None
    assert texts(engine.search(asked, config)) == texts(expected)
    sampling = SearchConfig(method="sample", n_best=2, max_extra=4)
    assert texts(engine.search(requests(3, 4), sampling)) == texts(fallback.search(requests(3, 4), sampling))
    wide = SearchConfig(beam=V, max_extra=1)
    assert texts(engine.search([SearchRequest([5, EOS], 1)], wide)) == texts(
        fallback.search([SearchRequest([5, EOS], 1)], wide)
    )
    with pytest.raises(ValueError, match="the sequence has 98 pieces, this model takes 97"):
        engine.search([SearchRequest([5] * 97 + [EOS], 1)], config)


def test_batches_come_back_in_their_order_whichever_is_asked_for_first(tmp_path: Path):
    _, engine = engines(ending_model(), tmp_path / "out")
    config, batches = SearchConfig(beam=2, max_extra=5), [requests(seed, 7) for seed in range(3)]
    expected = [texts(engine.search(batch, config)) for batch in batches]
    assert [texts(found) for found in engine.search_all(batches, config)] == expected
    waiting = [engine.submit(batch, config) for batch in batches]
    assert [texts(each()) for each in reversed(waiting)] == expected[::-1]
    assert engine.search([], config) == []
    assert next(engine.search_all([[], batches[0]], config)) == []


def test_what_is_asked_for_between_two_batches_comes_before_the_last(tmp_path: Path, monkeypatch):
    _, engine = engines(ending_model(), tmp_path / "out")
    config, batches = SearchConfig(beam=2, max_extra=5), [requests(seed, 2) for seed in range(20)]
    expected = [texts(engine.search(batch, config)) for batch in batches]
    begun, submit = [], engine.submit
    monkeypatch.setattr(engine, "submit", lambda batch, config: [begun.append(batch), submit(batch, config)][1])
    found = engine.search_all(batches, config)
    assert begun == batches[: ctranslate2_engine.BATCHES_PER_WORKER], "before anything is waited for, and not all"
    assert texts(next(found)) == expected[0]
    assert begun == batches[: ctranslate2_engine.BATCHES_PER_WORKER + 1]
    assert [texts(some) for some in found] == expected[1:]


def test_a_shortlist_is_what_may_be_written(tmp_path: Path):
    model = random_model(4, V, V)
    offered = TOKENIZER.target_pieces([EOS, *range(260, 275)])
    (tmp_path / "vmap.txt").write_text("\t" + " ".join(offered) + "\n", encoding="utf-8")
    convert_to_ctranslate2(model, TOKENIZER, tmp_path / "out", "float32", vmap=tmp_path / "vmap.txt")
    fallback = TorchEngine([model], ())
    config = SearchConfig(method="greedy", max_extra=20)
    short = CTranslate2Engine(tmp_path / "out", TOKENIZER, fallback.bounds, lambda: fallback, shortlist=True, workers=1)
    full = CTranslate2Engine(tmp_path / "out", TOKENIZER, fallback.bounds, lambda: fallback, workers=1)
    question = CTranslate2Query.for_config(config, 20)
    sources = [request.source for request in requests(5) if len(request.source) > 1]
    written = {piece for each in short.begin_batch(sources, question, 0) for piece in each.result().hypotheses[0]}
    always = {"<unk>", "<s>"}  # CTranslate2 offers these whatever the list says; they are forbidden here
    assert len(written - always) > 2
    assert written <= always.union(offered)
    assert (
        not {piece for each in full.begin_batch(sources, question, 0) for piece in each.result().hypotheses[0]}
        <= written
    )


def test_a_model_directory_becomes_an_engine_and_is_kept(tmp_path: Path):
    bundle.save_bundle(tmp_path / "model", random_model(1, V, V), TOKENIZER)
    found = bundle.load_bundle(tmp_path / "model")
    fallback = TorchEngine([found.model], FORBIDDEN)
    for precision in ("float32", "bfloat16", "int8"):
        engine = CTranslate2Engine.for_bundle(found, fallback.bounds, lambda: fallback, precision, workers=1)
        assert len(engine.search(requests(6, 5), SearchConfig(beam=2, max_extra=3))) == 5
    assert len(list((tmp_path / ".model.ctranslate2").iterdir())) == 3
    with pytest.raises(ValueError, match="precision is 'int3'"):
        CTranslate2Engine.for_bundle(found, fallback.bounds, lambda: fallback, "int3")


def test_a_directory_that_does_not_load_is_refused(tmp_path: Path):
    _, engine = engines(random_model(1, V, V), tmp_path / "out")
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
    found = bundle.load_bundle(TRAINED)
    with gzip.open(pellucid_data / "multi30k" / "test_2016_flickr.en.gz", "rt", encoding="utf-8") as lines:
        sources = found.tokenizer.encode_source([line.strip() for line in lines])
    asked = sorted(
        (SearchRequest(ids, i) for i, ids in enumerate(sources, start=1)), key=lambda each: -len(each.source)
    )
    batches = [asked[i : i + 64] for i in range(0, len(asked), 64)]
    convert_to_ctranslate2(found.model, found.tokenizer, tmp_path / "out", "float32")
    fallback = Counting([found.model], FORBIDDEN)
    engine = CTranslate2Engine(tmp_path / "out", found.tokenizer, fallback.bounds, lambda: fallback)
    ours = [each for some in engine.search_all(batches, config) for each in some]
    assert len(ours) == 1000
    assert fallback.asked < 100 or config.max_extra < 50
    expected = [each for some in fallback.search_all(batches, config) for each in some]
    assert texts(ours) == texts(expected)
    assert worst(ours, expected) < 1e-4
