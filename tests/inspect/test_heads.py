import numpy as np
import pytest
import torch

from pellucid.interpret.studies import head_studies as study
from pellucid.interpret.studies.importance import Head, kept_counts, list_heads
from pellucid.interpret.studies.pattern_measures import (
    NUMBERS_PER_BATCH,
    batch_numbers,
    encode_study_pairs,
    make_study_batch,
)
from pellucid.interpret.studies.roles import RelationCounts
from tests.decode.models import small_tokenizer
from tests.inspect.studied import SOURCES, TARGETS, small_pairs
from tests.trace.copying import WORDS, copying_model, word_tokenizer
from tests.trace.traced import small_traced


def study_small_model(**options):
    model = small_traced(double=True, **options).bundle.model
    return study.study_patterns(model, small_tokenizer(), small_pairs(model.config), None)


def head_numbers(result: study.HeadStudy) -> list:
    return [
        [head.confidence, head.entropy, head.sink, head.rarest.value, *(share.value for share in head.pieces.values())]
        for head in result.heads
    ]


def test_neighbours_in_a_batch_change_nothing(monkeypatch):
    together = study_small_model()
    monkeypatch.setattr("pellucid.interpret.studies.pattern_measures.NUMBERS_PER_BATCH", 1)
    one_by_one = study_small_model()
    np.testing.assert_allclose(
        *(np.array(head_numbers(result), dtype=float) for result in (together, one_by_one)), rtol=1e-9
    )
    np.testing.assert_allclose(
        *(np.array(result.similarity, dtype=float) for result in (together, one_by_one)), rtol=1e-9, atol=1e-12
    )
    assert together.aligned == one_by_one.aligned


def test_measures_equal_those_of_a_trace():
    model = small_traced(double=True)
    pairs = encode_study_pairs(small_tokenizer(), model.bundle.model.config, SOURCES[:1], TARGETS[:1])
    result = study.study_patterns(model.bundle.model, small_tokenizer(), pairs, None)
    trace = model.trace(SOURCES[0], target=TARGETS[0])
    for measures in result.heads:
        pattern = trace[f"{measures.head.attention}.pattern"].values[measures.head.number]
        encoder, causal = measures.head.attention.startswith("encoder"), measures.head.attention.endswith(".self")
        rows = pattern[:-1] if encoder else pattern[1:]
        real = rows[:, 1:] if causal and not encoder else rows[:, :-1]
        assert measures.confidence == pytest.approx(real.max(axis=1).mean())
        mark = rows[:, 0] if causal and not encoder else rows[:, -1]
        assert measures.sink == pytest.approx(mark.mean())


def test_only_heads_that_read_the_same_are_compared():
    result, config = study_small_model(), small_traced().bundle.model.config
    heads = list_heads(config)
    assert [measures.head for measures in result.heads] == heads
    kind = {head: n for n, name in enumerate(("encoder", "decoder", "cross")) for head in list_heads(config, name)}
    for a, row in zip(heads, result.similarity, strict=True):
        for b, value in zip(heads, row, strict=True):
            assert (value is None) == (kind[a] != kind[b])
            assert value is None or -1e-9 <= value <= 1 + 1e-9
            assert a != b or value == pytest.approx(1.0)


def test_gold_links_are_hit_by_reading_and_writing_rows():
    """Two heads planted: one reads, in each row, the source word of the piece it reads, one of the piece it writes."""
    config = small_traced().bundle.model.config
    pairs = small_pairs(config)
    numbers = list(range(len(pairs)))
    batch = make_study_batch(pairs, numbers, torch.device("cpu"))
    links = [[(i, i) for i in range(min(len(a.split()), len(b.split())))] for a, b in pairs.texts]
    shape = len(numbers), 2, batch.target_in.ids.shape[1], batch.source.ids.shape[1]
    pattern = torch.zeros(shape)
    for head, side in enumerate((batch.target_in, batch.target_out)):
        same = (side.words[:, :, None] == batch.source.words[:, None, :]) & (side.words[:, :, None] >= 0)
        pattern[:, head] = same.float()
    count = RelationCounts()
    study.count_alignment(count, batch, pattern, links)
    reading, writing = (count.as_followed(name, "decoder.0.cross") for name in ("word it reads", "word it writes"))
    assert reading is not None
    assert writing is not None
    assert reading.shares[0] == writing.shares[1] == 1.0
    assert max(reading.shares[1], writing.shares[0]) < 1.0
    assert (reading.baseline, reading.offset) == (1.0, 0)
    assert reading.instances == writing.instances == sum(map(len, links))


def test_the_first_piece_of_each_side_has_position_0():
    pairs = small_pairs(small_traced().bundle.model.config)
    batch = make_study_batch(pairs, [2, 0], torch.device("cpu"))
    for side, sentences in (
        (batch.source, pairs.sources),
        (batch.target_in, pairs.targets),
        (batch.target_out, pairs.targets),
    ):
        for row, real, number in zip(side.ids, side.not_special, (2, 0), strict=True):
            assert side.positions[real].tolist() == list(range(int(real.sum())))
            assert row[real].tolist() == sentences[number][0][:-1]


@pytest.mark.article("B25")
def test_heads_that_copy_align_and_matter():
    model, tokenizer = copying_model(), word_tokenizer()
    generator = np.random.default_rng(1)
    lines = [" ".join(generator.permutation(WORDS)[: 3 + n % 4]) for n in range(24)]
    pairs = encode_study_pairs(tokenizer, model.config, lines, lines)
    links = [[(i, i) for i in range(len(line.split()))] for line in lines]
    result = study.study_patterns(model, tokenizer, pairs, links)
    writing = next(followed for followed in result.aligned if followed.relation == "word it writes")
    assert max(writing.shares) > 0.9
    aligning = Head("decoder.0.cross", writing.shares.index(max(writing.shares)))
    importances = study.measure_importance(model, pairs)
    by_head = dict(zip(list_heads(model.config), (change.value for change in importances.ablation), strict=True))
    assert by_head[aligning] > 10 * importances.loss
    assert importances.correlation["gradient"] == pytest.approx(
        study.importance.spearman_correlation(list(by_head.values()), importances.gradient)
    )


def test_curves_share_both_ends():
    model = small_traced().bundle.model
    pairs, heads = small_pairs(model.config), list_heads(model.config)
    importances = study.measure_importance(model, pairs)
    in_order = importances.orders(model.config, "all")
    curves = study.loss_curves(model, pairs, in_order, kept_counts(len(heads), 5), lambda: None)
    assert [curve.order for curve in curves] == ["ablation", "gradient", "random 1"]
    assert {curve.values[0] for curve in curves} == {importances.loss}
    assert len({curve.values[-1] for curve in curves}) == 1
    assert {tuple(curve.kept) for curve in curves} == {tuple(kept_counts(len(heads), 5))}
    one_less = study.loss_curves(model, pairs, in_order, [len(heads) - 1], lambda: None)[0].values[0]
    assert one_less == pytest.approx(importances.loss + min(change.value for change in importances.ablation), abs=1e-9)
    cross_orders = importances.orders(model.config, "cross")
    assert cross_orders["gradient"] == [head for head in in_order["gradient"] if head.attention.endswith(".cross")]


def test_heads_outside_of_an_order_stay():
    model = small_traced().bundle.model
    pairs, cross = small_pairs(model.config), list_heads(model.config, "cross")
    losses = study.loss_curves(model, pairs, {"some": cross}, [len(cross), 0], lambda: None)[0].values
    whole, without = study.importance.pair_losses(model, pairs, [(), cross]).sum(axis=1) / pairs.pieces
    assert losses == pytest.approx([whole, without])


def test_skipped_pairs_are_noted():
    config = small_traced(max_positions=9).bundle.model.config
    pairs = encode_study_pairs(small_tokenizer(), config, ["Yes.", " ", "the " * 20], ["Sí.", "Sí.", "Sí."])
    assert pairs.lines == [0]
    assert pairs.notes == (
        "1 pairs left out: a side is blank, the first in line 2",
        "1 pairs left out: more than 9 pieces, the first in line 3",
    )
    later = encode_study_pairs(small_tokenizer(), config, ["Yes.", " "], ["Sí.", "Sí."], numbers=[4, 6])
    assert later.notes == ("1 pairs left out: a side is blank, the first in line 7",)
    with pytest.raises(ValueError, match="no pair to look at: 1 pairs left out: a side is blank"):
        encode_study_pairs(small_tokenizer(), config, [""], ["Sí."])
    with pytest.raises(ValueError, match="2 sources and 1 targets"):
        encode_study_pairs(small_tokenizer(), config, ["a", "b"], ["a"])


def test_frequencies_come_from_the_named_text():
    config = small_traced().bundle.model.config
    own_pairs = encode_study_pairs(small_tokenizer(), config, ["Yes."], ["Sí."])
    other_pairs = encode_study_pairs(small_tokenizer(), config, ["Yes."], ["Sí."], ["Yes. Yes. Yes."])
    ids = own_pairs.sources[0][0][:-1]
    assert [float(own_pairs.of_sources.counts[i]) for i in ids] == [1.0] * len(ids)
    assert [float(other_pairs.of_sources.counts[i]) for i in ids] == [3.0] * len(ids)
    assert own_pairs.of_sources.counts[3] == 0.0


def test_no_batch_is_larger_than_its_bound():
    config = small_traced().bundle.model.config
    lengths = {n: 1 + (n * 37) % 90 for n in range(700)}
    heads = 8 * 3
    batched = []
    for batch in batch_numbers(lengths, config):
        longest = max(lengths[n] for n in batch)
        assert (
            len(batch) == 1
            or len(batch) * longest * max(heads * longest, config.target_vocabulary) <= NUMBERS_PER_BATCH
        )
        assert len(batch) <= 64
        batched += batch
    assert sorted(batched) == sorted(lengths)
    assert Head("encoder.0.self", 1) < Head("encoder.0.self", 2)
