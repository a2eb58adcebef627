"""Repetition: found where it is, not found in what people write, and impossible under the rule."""

import gzip
from pathlib import Path

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pellucid.data.tokenizer import EOS, Tokenizer, TokenizerConfig
from pellucid.decode.beam import beam_search
from pellucid.decode.greedy import greedy_search, sample_search
from pellucid.decode.search import apply_rules, forbidden_rule, log_probabilities, no_repeat_rule
from pellucid.decode.stages.repetition import has_repetition
from pellucid.decode.terms.prefix_rule import prefix_rule
from pellucid.decode.terms.required import EDGE, NEW_WORD, WordEdges
from tests.decode.tables import Prefixes, limit, random_logits, step_from

law = settings(derandomize=True, deadline=None, max_examples=100)
slow_law = settings(law, max_examples=25)  # each example makes three searches

BLOCKS = st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=19), st.integers(0, 9))
TOKENS = st.lists(BLOCKS, max_size=4).map(lambda blocks: [i for block, times in blocks for i in block * times])


def repeats_by_definition(tokens: list[int]) -> bool:
    """Whether a block stands 4 times or more in a row, with 8 pieces or more in all: the definition written out."""
    return any(
        tokens[i : i + size * times] == tokens[i : i + size] * times and size * times >= 8
        for size in range(1, 17)
        for times in (4, 5, 6, 7, 8)
        for i in range(len(tokens) - size * times + 1)
    )


def has_repeated_run(tokens: list[int], size: int) -> bool:
    runs = [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]
    return len(set(runs)) < len(runs)


def run_searches(step, sentences: int, longest: int, rules):
    """Yield the hypotheses of each of the three searches."""
    limits, draws = limit(*[longest] * sentences), torch.rand(sentences, 3, longest, generator=torch.manual_seed(1))
    yield greedy_search(step, Prefixes([*range(sentences)]), limits, length_penalty=0.6, rules=rules)
    options = {"length_penalty": 0.6, "rules": rules}
    yield beam_search(step, Prefixes([*range(sentences)]), limits, width=3, n_best=3, **options)
    sampling = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}
    yield sample_search(step, Prefixes([*range(sentences)]), limits, draws, **sampling, **options)


@law
@given(TOKENS)
@example([])
@example([1, 2, 3, 4, 5, 6, 7] * 4)
@example([*range(16)] * 4)
@example([*range(17)] * 5)
def test_repetition_is_found_by_its_definition(tokens: list[int]):
    assert has_repetition(tokens) == repeats_by_definition(tokens)


@pytest.mark.parametrize("size", range(1, 17))
def test_a_block_is_noticed_wherever_it_begins_and_ends(size: int):
    block, times = [*range(100, 100 + size)], max(4, -(-8 // size))
    for before in range(3):
        for after in range(3):
            around = [*range(before)], [*range(50, 50 + after)]
            assert has_repetition(around[0] + block * times + around[1])
            assert not has_repetition(around[0] + block * (times - 1) + around[1])


def test_text_that_people_wrote_has_no_repetition(pellucid_data: Path):
    def read_lines(name: str) -> list[str]:
        with gzip.open(pellucid_data / f"{name}.gz", "rt", encoding="utf-8", newline="\n") as file:
            return file.read().split("\n")[:-1]

    names = [*(f"wmt_news/newstest20{year:02}.es" for year in range(8, 14)), "tatoeba_en-es/valid.es"]
    texts = {name: read_lines(name) for name in [*names, "multi30k/val.de", "multi30k/test_2016_flickr.de"]}
    config = TokenizerConfig(vocabulary=4003)
    training_lines = [line for lines in texts.values() for line in lines[:500]]
    tokenizer = Tokenizer.train(training_lines, training_lines, config, seed=1, max_sentences=10_000)
    assert sum(map(len, texts.values())) > 19_000
    for lines in texts.values():
        assert [
            line for line, ids in zip(lines, tokenizer.encode_target(lines), strict=True) if has_repetition(ids)
        ] == []
    # Manuals write tables and 999999999: there the sources do so too.
    sources, targets = (read_lines(f"pydocs_en-es/test.{side}") for side in ("en", "es"))
    pairs = zip(tokenizer.encode_source(sources), tokenizer.encode_target(targets), strict=True)
    assert not any(has_repetition(target) and not has_repetition(source) for source, target in pairs)


@law
@given(st.integers(0, 10**6), st.integers(0, 13), st.lists(st.integers(0, 4), min_size=3, max_size=3))
def test_the_rule_forbids_pieces_that_would_repeat_a_run(seed: int, length: int, sizes: list[int]):
    generator = torch.Generator().manual_seed(seed)
    beginnings = torch.randint(0, 3, (5, length), generator=generator)
    sentences = torch.tensor([0, 0, 1, 2, 2])
    before = torch.randn(5, 4, generator=generator)
    before[:, 3] = -torch.inf  # pieces that other rules forbade stay forbidden
    after = before.clone()
    no_repeat_rule(sizes)(after, beginnings, sentences)
    for row in range(5):
        size, tokens = sizes[sentences[row]], beginnings[row].tolist()
        # Runs that end with the new piece; the others are no matter of this piece.
        new_runs = {piece: tuple([*tokens, piece][-size:]) for piece in range(4)}
        runs = {tuple(tokens[i : i + size]) for i in range(length - size + 1)} if size else set()
        for piece in range(4):
            expected = -torch.inf if size and new_runs[piece] in runs else before[row, piece].item()
            assert after[row, piece].item() == expected


def test_a_search_under_the_rule_never_repeats_a_run():
    sizes, repeats_without_rule = [1, 2, 3, 0, 2, 4], 0
    for seed in range(7):
        step = step_from(random_logits(seed, 7))
        for results_with_rule, results_without_rule in zip(
            run_searches(step, 6, 17, (forbidden_rule(), no_repeat_rule(sizes))),
            run_searches(step, 6, 17, (forbidden_rule(),)),
            strict=True,
        ):
            for size, with_rule, without_rule in zip(sizes, results_with_rule, results_without_rule, strict=True):
                assert with_rule
                if size == 0:
                    assert with_rule == without_rule
                else:
                    assert not any(has_repeated_run(hypothesis.tokens, size) for hypothesis in with_rule)
                    repeats_without_rule += any(
                        has_repeated_run(hypothesis.tokens, size) for hypothesis in without_rule
                    )
    assert repeats_without_rule > 20


PREFIXES = st.lists(st.integers(4, 6), max_size=12).map(tuple)
MARKS = st.sampled_from([(), (EDGE,), (NEW_WORD,)])


@slow_law
@given(st.integers(0, 99), st.lists(st.tuples(PREFIXES, MARKS, st.integers(0, 4)), min_size=1, max_size=4))
@example(0, [((4, 5, 4, 5, 4, 5), (), 2), ((), (), 1)])
@example(0, [((4, 4), (NEW_WORD,), 1)])
def test_a_prefix_and_the_rule_together_always_leave_a_piece(seed: int, cases):
    prefixes, sizes = [prefix + mark for prefix, mark, _ in cases], [size for *_, size in cases]
    word_edges = WordEdges(begins_with_letter=frozenset({5}), without_space_mark=frozenset({EOS, 5, 6}))
    rules = (forbidden_rule(), prefix_rule(prefixes, word_edges), no_repeat_rule(sizes, prefixes))
    step = step_from(random_logits(seed, 7))
    for results in run_searches(step, len(cases), 17, rules):
        for (prefix, *_), hypotheses in zip(cases, results, strict=True):
            assert hypotheses
            for hypothesis in hypotheses:
                assert tuple(hypothesis.tokens[: len(prefix)]) == prefix
                assert min(hypothesis.log_probs) > -torch.inf


@law
@given(st.integers(0, 99), PREFIXES, MARKS, st.integers(1, 4), st.lists(st.integers(4, 6), max_size=9))
def test_every_step_has_an_allowed_piece(seed: int, prefix, mark, size: int, continuation: list[int]):
    forced = prefix + mark
    text = [*prefix, *continuation]
    rules = (forbidden_rule(), prefix_rule([forced], WordEdges()), no_repeat_rule([size], [forced]))
    for length in range(len(text) + 1):
        row = torch.tensor([text[:length]], dtype=torch.int64).view(1, length)
        logits = torch.randn(1, 7, generator=torch.Generator().manual_seed(seed))
        log_probs = apply_rules(logits, rules, row, torch.tensor([0]))[0]
        assert log_probs.max() > -torch.inf
        if length < len(prefix):
            assert log_probs[prefix[length]] == log_probabilities(logits)[0, prefix[length]]
        if length >= len(forced):
            assert log_probs[EOS] > -torch.inf  # it may end


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_wide_beam_under_the_rule_finds_the_best_that_obey_it(size: int):
    for seed in range(3):
        step, options = step_from(random_logits(seed, 7)), {"width": 131, "n_best": 131, "length_penalty": 0.6}
        [every_hypothesis] = beam_search(step, Prefixes([0]), limit(4), rules=(forbidden_rule(),), **options)
        assert len(every_hypothesis) == 1 + 3 + 9 + 27 + 81
        [hypotheses] = beam_search(
            step, Prefixes([0]), limit(4), rules=(forbidden_rule(), no_repeat_rule([size])), **options
        )
        obeying = [hypothesis for hypothesis in every_hypothesis if not has_repeated_run(hypothesis.tokens, size)]
        assert [(h.tokens, h.score) for h in hypotheses] == [(h.tokens, h.score) for h in obeying]
        assert 0 < len(obeying) < len(every_hypothesis)


def test_rules_of_up_to_six_pieces_let_no_repetition_pass():
    for size in range(1, 7):
        for block in ([1], [1, 2], [1, 2, 3], [*range(16)]):
            assert has_repeated_run(block * 8, size)
