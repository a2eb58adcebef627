from dataclasses import replace
from math import comb
from typing import Literal

import numpy as np
import pytest

from pellucid.interpret.studies import probing
from pellucid.interpret.studies.attention_tables import attention_table
from pellucid.interpret.studies.probing import (
    Probe,
    binomial_tail,
    chance_of_wish,
    does_as_wished,
    judge_heads,
    read_gallery,
    run_probe,
)
from pellucid.interpret.trace import Trace
from tests.trace.traced import small_traced

CATS = Probe("cats", "The cat and the dog drank.", word="dog", order=(("cat", "drank"), ("and",)))
MODEL = small_traced(max_positions=199)


def make_trace(sentence: str, *, target: str, keep: list[str], sentences: Literal["keep"] = "keep") -> Trace:
    return MODEL.trace(sentence, target=target, keep=keep, sentences=sentences)


def planted_traces(reads: dict[str, float], heads: tuple[int, ...] = (0, 1, 2)):
    """Tracer whose heads read these words from everywhere, in these parts; other heads read the first piece."""

    def make_planted_trace(sentence: str, target: str, keep: list[str], sentences: Literal["keep"] = "keep") -> Trace:
        trace = make_trace(sentence, target=target, keep=keep, sentences=sentences)
        groups = probing.attention_axes(trace, "encoder.0.self")[1].groups
        tensors = {name: np.array(trace.values_of(name)) for name in trace}
        for name, pattern in tensors.items():
            if name.endswith("pattern"):
                pattern[:] = 0.0
                for head in range(len(pattern)):
                    if head not in heads:
                        pattern[head, :, 0] = 1.0
                        continue
                    for group in groups:
                        pattern[head][:, group.positions] = reads.get(group.label, 0.0) / len(group.positions)
        return Trace(replace(trace.facts), trace.config, tensors, trace.origin)

    return make_planted_trace


@pytest.mark.article("A18", "A21", "A26", "B8", "B17", "B18", "B22", "C11", "D8")
def test_planted_attention_is_judged_as_planted():
    result = run_probe(CATS, planted_traces({"cat": 0.4, "drank": 0.5, "and": 0.1}), MODEL.bundle.model.config)
    weights, _ = result.judged
    assert (weights.count, len(weights.heads), weights.mean.wished) == (6, 6, True)
    assert weights.best_head.margin == pytest.approx(0.3)
    assert [result.words[n] for n in result.ordered_words] == ["cat", "drank", "and"]
    assert result.verdict.startswith("this model does in the mean of all heads")
    assert "6 of 6 heads do" in result.verdict
    missed = run_probe(
        CATS, planted_traces({"The": 0.45, "cat": 0.4, "drank": 0.05, "and": 0.1}), MODEL.bundle.model.config
    )
    assert missed.judged[0].count == 0
    assert missed.verdict.startswith("this model does not in the mean of all heads")
    assert "no more than chance explains" in missed.verdict
    assert missed.judged[0].best_head.margin == pytest.approx(-0.05)
    one_head = run_probe(
        CATS, planted_traces({"cat": 0.4, "drank": 0.5, "and": 0.1}, heads=(1,)), MODEL.bundle.model.config
    )
    assert [(head.attention, head.head) for head in one_head.judged[0].heads if head.wished] == [
        ("encoder.0.self", 1),
        ("encoder.1.self", 1),
    ]


def test_even_attention_is_not_as_wished():
    assert not does_as_wished(np.full((1, 1, 5), 0.2), [[0], [1]], [])[0]
    assert not does_as_wished(np.full((1, 2, 5), 0.2), [], [0, 1, 2])[0]


def test_every_rank_must_exceed_the_next():
    ranks = [[0], [1, 2], [3]]
    rows = np.array([[0.5, 0.2, 0.3, 0.1], [0.5, 0.2, 0.3, 0.25], [0.3, 0.2, 0.3, 0.1], [0.1, 0.2, 0.3, 0.5]])
    assert does_as_wished(rows[:, None], ranks, []).tolist() == [True, False, False, False]


@pytest.mark.article("A26", "C30")
def test_words_that_differ_read_different_words():
    shares = np.array([[[0.6, 0.3, 0.1], [0.2, 0.5, 0.3]], [[0.6, 0.3, 0.1], [0.5, 0.3, 0.2]]])
    assert does_as_wished(shares, [], [0, 1, 2]).tolist() == [True, False]
    marked = np.array([[[0.2, 0.1, 0.7], [0.1, 0.2, 0.7]]])  # both read a mark most, which is no word
    assert does_as_wished(marked, [], [0, 1]).tolist() == [True]


def random_rows(sizes: list[int], readers: int, count: int = 20_000, seed: int = 7) -> np.ndarray:
    """Softmax of even noise over pieces, merged: attention that knows nothing, drawn another way than in the code."""
    generator = np.random.default_rng(seed)
    pieces = generator.exponential(size=(count, readers, sum(sizes)))
    pieces /= pieces.sum(axis=-1, keepdims=True)
    ends = np.cumsum(sizes)
    return np.stack([pieces[..., end - size : end].sum(-1) for size, end in zip(sizes, ends, strict=True)], axis=-1)


@pytest.mark.parametrize(
    ("sizes", "ranks"),
    [
        ([1, 1, 1, 1], [[0], [1]]),
        ([1, 1, 1, 1], [[0, 1], [2]]),
        ([1, 1, 1, 1], [[3], [1], [0]]),
        ([3, 3, 1, 2], [[0], [1]]),
        ([3, 1, 1, 2], [[0], [1]]),
        ([1, 3, 2, 1], [[0], [1, 2]]),
        ([1, 1, 1, 1, 1], []),
        ([1, 4, 1, 2, 1], []),
    ],
)
def test_random_attention_is_as_wished_as_often_as_by_chance(sizes: list[int], ranks: list[list[int]]):
    readers = 1 if ranks else 2
    words = list(range(len(sizes)))
    rows = random_rows(sizes, readers)
    chance = chance_of_wish(np.array(sizes), ranks, words, readers, np.ones((readers, len(sizes)), dtype=bool))
    share = does_as_wished(rows, ranks, words).mean()
    assert abs(share - chance) < 4 * (2 * chance * (1 - chance) / len(rows)) ** 0.5
    judged = judge_heads("weights", {"encoder.0.self": rows[:3000]}, ranks, words)
    assert abs(judged.count - 3000 * chance) < 5 * (3000 * chance * (1 - chance)) ** 0.5


def test_chances_by_hand():
    even, readable = np.ones(5, dtype=int), np.ones((1, 5), dtype=bool)
    assert chance_of_wish(even, [[0], [1]], [], 1, readable) == 1 / 2
    assert chance_of_wish(even, [[0, 1], [2]], [], 1, readable) == pytest.approx(1 / 3)
    assert chance_of_wish(even, [[0], [1], [2]], [], 1, readable) == pytest.approx(1 / 6)
    assert chance_of_wish(even, [], [0, 1, 2, 3], 2, np.ones((2, 5), dtype=bool)) == pytest.approx(3 / 4)
    two_to_one = chance_of_wish(np.array([2, 1]), [[0], [1]], [], 1, np.ones((1, 2), dtype=bool))
    assert two_to_one == pytest.approx(3 / 4, abs=0.01)  # a sum of two exponentials is above a third: 1 - 1/4


@pytest.mark.parametrize(("count", "total", "chance"), [(3, 5, 0.2), (0, 4, 0.7), (9, 9, 0.5)])
def test_the_tail_is_the_rest_of_the_binomial(count: int, total: int, chance: float):
    tail = sum(comb(total, n) * chance**n * (1 - chance) ** (total - n) for n in range(count, total + 1))
    assert binomial_tail(count, total, chance) == pytest.approx(tail)


def test_shares_equal_the_attention_tables():
    result = run_probe(CATS, make_trace, MODEL.bundle.model.config)
    trace = MODEL.trace(CATS.sentence, target="")
    for head in result.judged[0].heads:
        attention = attention_table(trace, head.attention, head.head)
        row = attention.rows.index("dog")
        assert head.shares[0] == pytest.approx(attention.values[row].tolist())
    mean = np.mean([head.shares[0] for head in result.judged[0].heads], axis=0)
    assert result.judged[0].mean.shares[0] == pytest.approx(mean.tolist())
    for judged in result.judged:
        assert sum(judged.mean.shares[0]) == pytest.approx(1.0)


def test_norms_by_hand():
    result = run_probe(CATS, make_trace, MODEL.bundle.model.config)
    trace = MODEL.trace(CATS.sentence, target="")
    [head] = [
        candidate
        for candidate in result.judged[1].heads
        if (candidate.attention, candidate.head) == ("encoder.1.self", 2)
    ]
    v = trace.values_of("encoder.1.self.v")[2].astype(np.float64)
    output = trace.parameter("encoder.1.self.output.weight")[:, 8:12].astype(np.float64)
    rows = trace.values_of("encoder.1.self.pattern")[2] * np.linalg.norm(v @ output.T, axis=1)
    groups = probing.attention_axes(trace, "encoder.1.self")[1].groups
    dog = [n for n, group in enumerate(groups) if group.label == "dog"]
    by_word = np.array([rows[list(groups[dog[0]].positions)][:, list(g.positions)].sum(1).mean() for g in groups])
    assert head.shares[0] == pytest.approx((by_word / by_word.sum()).tolist(), rel=1e-5)


@pytest.mark.article("A18", "A21", "A26", "B8", "B17", "B18", "B22", "C11", "C30", "D8")
def test_the_gallery_runs_on_any_model():
    gallery = read_gallery()
    assert {row for probe in gallery for row in probe.article} == {
        *("A18", "A21", "A26", "B8", "B17", "B18", "B22", "C11", "C30", "D8")
    }
    for probe in gallery:
        result = run_probe(probe, make_trace, MODEL.bundle.model.config)
        heads = 9 if probe.where == "cross" else 6
        assert len(result.judged[0].heads) == heads
        assert f" of {heads} heads do, {result.chance * heads:.1f} would by chance" in result.verdict
        assert result.notes  # a vocabulary of 307 pieces cuts some word of each
    assert max(len(probe.sentence) for probe in gallery) < 130


def test_a_word_that_no_piece_covers_is_noted():
    probe = Probe("zoo", "zebra Ü 犬 dog", word="dog", order=(("犬",), ("Ü",)))
    result = run_probe(probe, make_trace, MODEL.bundle.model.config)
    [note] = [note for note in result.notes if "犬" in note]
    assert note == "the vocabulary has no piece for all of 犬: it reads ▁ <0xE7> <0x8A> <0xAC>"


def decoder_probe(word: str, more: str, less: str) -> Probe:
    return Probe("a", "Yes.", "decoder", "La bola es azul.", word=word, order=((more,), (less,)))


def test_a_decoder_reads_no_future():
    result = run_probe(decoder_probe("azul", "bola", "La"), make_trace, MODEL.bundle.model.config)
    assert result.words == ["<s>", "La", "bola", "es", "azul", "."]
    with pytest.raises(ValueError, match="probe 'a': 'bola' cannot read 'azul', which stands later"):
        run_probe(decoder_probe("bola", "azul", "La"), make_trace, MODEL.bundle.model.config)
