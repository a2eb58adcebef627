import numpy as np
import pytest
import torch

from pellucid.inspect import heads as study
from pellucid.inspect.importance import Head, kept_counts, list_heads
from pellucid.inspect.relations import RelationCounts
from pellucid.inspect.study_pairs import NUMBERS_PER_BATCH, batch_numbers, encode_study_pairs, make_study_batch
from tests.decode.models import small_tokenizer
from tests.inspect.studied import SOURCES, TARGETS, small_pairs
from tests.trace.copying import WORDS, copying_model, word_tokenizer
from tests.trace.traced import small_traced


def looked(**options):
    model = small_traced(double=True, **options).bundle.model
    return study.study_patterns(model, small_tokenizer(), small_pairs(model.config), None)


def numbers(found: study.HeadStudy) -> list:
    return [
        [each.confidence, each.entropy, each.sink, each.rarest.value, *(share.value for share in each.pieces.values())]
        for each in found.seen
    ]


def test_neighbours_in_a_batch_change_nothing(monkeypatch):
    together = looked()
    monkeypatch.setattr("pellucid.inspect.study_pairs.NUMBERS_PER_BATCH", 1)
    alone = looked()
    np.testing.assert_allclose(*(np.array(numbers(each), dtype=float) for each in (together, alone)), rtol=1e-9)
    np.testing.assert_allclose(
        *(np.array(each.similarity, dtype=float) for each in (together, alone)), rtol=1e-9, atol=1e-12
    )
    assert together.aligned == alone.aligned


def test_what_is_seen_is_what_a_trace_shows():
    model = small_traced(double=True)
    pairs = encode_study_pairs(small_tokenizer(), model.bundle.model.config, SOURCES[:1], TARGETS[:1])
    found = study.study_patterns(model.bundle.model, small_tokenizer(), pairs, None)
    trace = model.trace(SOURCES[0], target=TARGETS[0])
    for each in found.seen:
        pattern = trace[f"{each.head.attention}.pattern"].values[each.head.number]
        encoder, causal = each.head.attention.startswith("encoder"), each.head.attention.endswith(".self")
        rows = pattern[:-1] if encoder else pattern[1:]
        real = rows[:, 1:] if causal and not encoder else rows[:, :-1]
        assert each.confidence == pytest.approx(real.max(axis=1).mean())
        mark = rows[:, 0] if causal and not encoder else rows[:, -1]
        assert each.sink == pytest.approx(mark.mean())


def test_only_heads_that_read_the_same_are_compared():
    found, config = looked(), small_traced().bundle.model.config
    every = list_heads(config)
    assert [each.head for each in found.seen] == every
    kind = {head: n for n, name in enumerate(("encoder", "decoder", "cross")) for head in list_heads(config, name)}
    for a, row in zip(every, found.similarity, strict=True):
        for b, value in zip(every, row, strict=True):
            assert (value is None) == (kind[a] != kind[b])
            assert value is None or -1e-9 <= value <= 1 + 1e-9
            assert a != b or value == pytest.approx(1.0)


def test_gold_links_are_hit_by_the_row_that_reads_and_the_row_that_writes():
    """Two heads planted: one reads, in each row, the source word of the piece it reads, one of the piece it writes."""
    config = small_traced().bundle.model.config
    pairs = small_pairs(config)
    numbers = list(range(len(pairs)))
    some = make_study_batch(pairs, numbers, torch.device("cpu"))
    links = [[(i, i) for i in range(min(len(a.split()), len(b.split())))] for a, b in pairs.texts]
    shape = len(numbers), 2, some.target_in.ids.shape[1], some.source.ids.shape[1]
    pattern = torch.zeros(shape)
    for head, side in enumerate((some.target_in, some.target_out)):
        same = (side.words[:, :, None] == some.source.words[:, None, :]) & (side.words[:, :, None] >= 0)
        pattern[:, head] = same.float()
    count = RelationCounts()
    study.count_alignment(count, some, pattern, links)
    read, written = (count.as_followed(name, "decoder.0.cross") for name in ("word it reads", "word it writes"))
    assert read is not None
    assert written is not None
    assert read.shares[0] == written.shares[1] == 1.0
    assert max(read.shares[1], written.shares[0]) < 1.0
    assert (read.baseline, read.offset) == (1.0, 0)
    assert read.instances == written.instances == sum(map(len, links))


def test_the_first_piece_of_each_side_has_the_place_0():
    pairs = small_pairs(small_traced().bundle.model.config)
    some = make_study_batch(pairs, [2, 0], torch.device("cpu"))
    for side, sentences in (
        (some.source, pairs.sources),
        (some.target_in, pairs.targets),
        (some.target_out, pairs.targets),
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
    found = study.study_patterns(model, tokenizer, pairs, links)
    written = next(each for each in found.aligned if each.relation == "word it writes")
    assert max(written.shares) > 0.9
    aligning = Head("decoder.0.cross", written.shares.index(max(written.shares)))
    weighed = study.measure_importance(model, pairs)
    by_head = dict(zip(list_heads(model.config), (each.value for each in weighed.ablation), strict=True))
    assert by_head[aligning] > 10 * weighed.loss
    assert weighed.correlation["gradient"] == pytest.approx(
        study.importance.spearman_correlation(list(by_head.values()), weighed.gradient)
    )


def test_curves_begin_at_the_model_and_end_at_the_same_nothing():
    model = small_traced().bundle.model
    pairs, every = small_pairs(model.config), list_heads(model.config)
    weighed = study.measure_importance(model, pairs)
    in_order = weighed.orders(model.config, "all", 2, seed=3)
    found = study.loss_curves(model, pairs, in_order, kept_counts(len(every), 5), lambda: None)
    assert [each.order for each in found] == ["ablation", "gradient", "random 1", "random 2"]
    assert {each.values[0] for each in found} == {weighed.loss}
    assert len({each.values[-1] for each in found}) == 1
    assert {tuple(each.kept) for each in found} == {tuple(kept_counts(len(every), 5))}
    one_less = study.loss_curves(model, pairs, in_order, [len(every) - 1], lambda: None)[0].values[0]
    assert one_less == pytest.approx(weighed.loss + min(each.value for each in weighed.ablation), abs=1e-9)
    some = weighed.orders(model.config, "cross", 1, seed=3)
    assert some["gradient"] == [head for head in in_order["gradient"] if head.attention.endswith(".cross")]


def test_heads_outside_of_an_order_stay():
    model = small_traced().bundle.model
    pairs, cross = small_pairs(model.config), list_heads(model.config, "cross")
    found = study.loss_curves(model, pairs, {"some": cross}, [len(cross), 0], lambda: None)[0].values
    whole, without = study.importance.pair_losses(model, pairs, [(), cross]).sum(axis=1) / pairs.pieces
    assert found == pytest.approx([whole, without])


def test_pairs_that_cannot_be_looked_at_are_told():
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


def test_commonness_is_that_of_the_text_that_is_named():
    config = small_traced().bundle.model.config
    own = encode_study_pairs(small_tokenizer(), config, ["Yes."], ["Sí."])
    other = encode_study_pairs(small_tokenizer(), config, ["Yes."], ["Sí."], ["Yes. Yes. Yes."])
    ids = own.sources[0][0][:-1]
    assert [float(own.of_sources.counts[i]) for i in ids] == [1.0] * len(ids)
    assert [float(other.of_sources.counts[i]) for i in ids] == [3.0] * len(ids)
    assert own.of_sources.counts[3] == 0.0


def test_no_batch_is_larger_than_its_bound():
    config = small_traced().bundle.model.config
    lengths = {n: 1 + (n * 37) % 90 for n in range(700)}
    heads = 8 * 3
    seen = []
    for some in batch_numbers(lengths, config):
        longest = max(lengths[n] for n in some)
        assert (
            len(some) == 1 or len(some) * longest * max(heads * longest, config.target_vocabulary) <= NUMBERS_PER_BATCH
        )
        assert len(some) <= 64
        seen += some
    assert sorted(seen) == sorted(lengths)
    assert Head("encoder.0.self", 1) < Head("encoder.0.self", 2)
