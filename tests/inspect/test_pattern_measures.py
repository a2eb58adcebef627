from math import log

import pytest
import torch

from pellucid.interpret.studies import pattern_measures
from pellucid.interpret.studies.pattern_measures import OFFSETS, BatchSide, MeasureSums, PieceFrequencies
from pellucid.interpret.studies.roles import QueryShare, positional_badges, rare_word_badges
from tests.inspect.studied import random_pattern, shifted_pattern, source_side, target_side

LENGTHS = [7, 1, 5, 3]


def measure(pattern, queries: BatchSide, keys: BatchSide, causal: bool = False) -> MeasureSums:
    sums = MeasureSums()
    sums.add_attention(pattern, queries, keys, causal)
    return sums


def offset_shares(sums: MeasureSums, name: str) -> list[dict[int, QueryShare]]:
    heads = len(next(iter(sums.totals.values())))
    means = {d: sums.means(f"{name}{d:+d}", heads) for d in OFFSETS}
    return [{d: QueryShare(means[d][h], int(sums.counts[f"{name}{d:+d}"])) for d in OFFSETS} for h in range(heads)]


def badge_marks(sums: MeasureSums) -> list[list[str]]:
    pairs = zip(offset_shares(sums, "pieces"), offset_shares(sums, "words"), strict=True)
    return [[badge.mark for badge in positional_badges({"piece": pieces, "word": words})] for pieces, words in pairs]


def test_attention_to_oneself_is_sure():
    side = source_side(LENGTHS)
    sums = measure(shifted_pattern(side, 0), side, side)
    assert sums.means("confidence", 1) == [1.0]
    assert sums.means("entropy", 1) == [0.0]
    assert sums.means("sink", 1) == [0.0]


def test_even_attention_is_as_sure_as_chance():
    side = source_side([6, 6, 6])
    sums = measure(torch.full((3, 2, 7, 7), 1 / 7), side, side)
    assert sums.means("confidence", 2) == pytest.approx([1 / 7] * 2)
    assert sums.means("entropy", 2) == pytest.approx([log(7)] * 2)
    assert sums.means("sink", 2) == pytest.approx([1 / 7] * 2)


def test_weight_on_the_end_token_is_sink():
    side = source_side(LENGTHS)
    sums = measure(shifted_pattern(side, 99), side, side)
    assert (sums.means("confidence", 1), sums.means("sink", 1)) == ([0.0], [1.0])


@pytest.mark.parametrize("causal", [False, True])
def test_permuted_heads_permute_everything(causal: bool):
    side = target_side(LENGTHS) if causal else source_side(LENGTHS)
    pattern, order = random_pattern(side, side, 5, causal), [3, 0, 4, 1, 2]
    before, after = measure(pattern, side, side, causal), measure(pattern[:, order], side, side, causal)
    assert before.counts == after.counts
    for name, totals in before.totals.items():
        assert torch.equal(totals[order] if len(totals) == 5 else totals, after.totals[name]), name


@pytest.mark.parametrize("offset", OFFSETS)
def test_a_planted_offset_is_found(offset: int):
    side = source_side([11, 13, 12, 14])
    sums = measure(shifted_pattern(side, offset), side, side)
    for name in ("pieces", "words"):
        share_of = {d: share.value for d, share in offset_shares(sums, name)[0].items()}
        assert share_of[offset] == 1.0
        assert max(value for d, value in share_of.items() if d != offset and value is not None) <= 0.2
    assert badge_marks(sums) == [["0" if offset == 0 else f"{offset:+d}"]]


def test_shuffled_keys_are_not_positional():
    side = source_side([11, 13, 12, 14])
    torch.manual_seed(1)
    pattern = torch.cat([shifted_pattern(side, offset) for offset in OFFSETS], dim=1)
    for row, length in zip(pattern, side.not_special.sum(dim=1).tolist(), strict=True):
        for query in range(length):
            row[:, query, :length] = row[:, query, torch.randperm(length)]
    assert badge_marks(measure(pattern, side, side)) == [[]] * len(OFFSETS)


def test_few_queries_earn_no_badge():
    side = source_side([5])
    assert badge_marks(measure(shifted_pattern(side, -1), side, side)) == [[]]


def test_merging_to_words_by_hand():
    pattern = torch.tensor([[[[0.2, 0.3, 0.5], [0.6, 0.0, 0.4], [0.1, 0.1, 0.8]]]])
    words = pattern_measures.merge_to_words(pattern, torch.tensor([[0, 0, 1]]), torch.tensor([[0, 1, 1]]))
    torch.testing.assert_close(words, torch.tensor([[[[0.4, 0.6], [0.1, 0.9]]]]))


def test_positions_of_words_are_not_those_of_pieces():
    """Two pieces a word: a head that reads the piece before reads its own word half the time."""
    side = source_side([12, 14, 16])
    words = torch.where(side.words >= 0, side.words // 2, side.words)
    side = BatchSide(side.ids, words, side.positions, side.commonness)
    pieces, by_words = (
        offset_shares(measure(shifted_pattern(side, -2), side, side), name)[0] for name in ("pieces", "words")
    )
    assert (pieces[-2].value, by_words[-1].value) == (1.0, 1.0)


def test_the_rarest_pieces_are_found():
    side = source_side([11, 13, 12, 14])
    rarest_first = side.commonness.counts[side.ids].masked_fill(~side.not_special, torch.inf).sort(dim=1).indices
    pattern = torch.zeros(4, 2, side.ids.shape[1], side.ids.shape[1])
    for row, order in zip(pattern, rarest_first, strict=True):
        row[0, :, order[0]] = 1.0
        row[1, :, order[1]] = 1.0
    sums = measure(pattern, side, side)
    assert sums.means("rarest", 2) == [1.0, 0.0]
    assert sums.means("two_rarest", 2) == [1.0, 1.0]
    chance = [sums.means(f"{name}_chance", 1)[0] for name in ("rarest", "two_rarest")]
    assert chance == pytest.approx([4 / 50, 8 / 50])
    error = sums.standard_error("two_rarest")
    for share in (1.0, 0.0):
        assert [
            badge.mark for badge in rare_word_badges(QueryShare(share, 50), QueryShare(1.0, 50), chance[1], error)
        ] == ["R"]


def test_random_attention_reads_rare_pieces_as_often_as_by_chance():
    side = source_side([3 + n % 11 for n in range(60)])
    sums = measure(random_pattern(side, side, 7), side, side)
    for name in ("rarest", "two_rarest"):
        chance, error = sums.means(f"{name}_chance", 1)[0], sums.standard_error(name)
        assert chance is not None
        assert error is not None
        for share in sums.means(name, 7):
            assert share is not None
            assert abs(share - chance) < 3 * error
            assert rare_word_badges(QueryShare(share, 99), QueryShare(share, 99), chance, error) == []


@pytest.mark.parametrize(
    ("share", "queries", "chance", "error", "marks"),
    [
        (0.60, 99, 0.30, 0.01, ["R"]),
        (0.60, 99, 0.45, 0.01, []),  # 15 points above chance
        (0.60, 99, 0.30, 0.11, []),  # less than 3 standard errors
        (0.49, 99, 0.10, 0.01, []),  # less than half
        (0.60, 29, 0.30, 0.01, []),  # too few
        (None, 0, None, None, []),
    ],
)
def test_rare_heads_are_far_above_chance(share, queries, chance, error, marks: list[str]):
    assert [
        badge.mark for badge in rare_word_badges(QueryShare(0.3, queries), QueryShare(share, queries), chance, error)
    ] == marks


def test_common_pieces_do_not_count_and_equally_rare_pieces_all_do():
    side = source_side([5])
    common = torch.ones(101, dtype=torch.bool)
    assert (
        measure(shifted_pattern(side, 0), side, with_frequencies(side, torch.ones(101), common)).counts["rarest"] == 0
    )
    sums = measure(shifted_pattern(side, 0), side, with_frequencies(side, torch.ones(101), ~common))
    assert (sums.means("rarest", 1), sums.means("rarest_chance", 1)) == ([1.0], [1.0])


def test_two_equally_rare_pieces_are_both_the_rarest():
    side = source_side([3])
    counts = torch.full((101,), 9.0)
    counts[side.ids[0, :2]] = 1.0
    pattern = torch.cat([shifted_pattern(side, 99)] * 3, dim=1)
    for key in range(3):
        pattern[:, key, :3, key] = 2.0
    sums = measure(pattern, side, with_frequencies(side, counts, torch.zeros(101, dtype=torch.bool)))
    for name in ("rarest", "two_rarest"):
        assert sums.means(name, 3) == [1.0, 1.0, 0.0]
        assert sums.means(f"{name}_chance", 1) == pytest.approx([2 / 3])


def with_frequencies(side: BatchSide, counts, common) -> BatchSide:
    return BatchSide(side.ids, side.words, side.positions, PieceFrequencies(counts, common))


@pytest.mark.article("B25")
@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_every_measure_equals_a_loop(kind: str):
    """Against loops over single numbers."""
    queries, keys = {
        "encoder": (source_side(LENGTHS),) * 2,
        "decoder": (target_side(LENGTHS),) * 2,
        "cross": (target_side([2, 4, 6, 1]), source_side(LENGTHS)),
    }[kind]
    causal = kind == "decoder"
    pattern = random_pattern(queries, keys, 2, causal)
    sums = measure(pattern, queries, keys, causal)
    for head in range(2):
        rows: dict[str, list[float]] = {}
        for b in range(4):
            real = [k for k, is_piece in enumerate(keys.not_special[b].tolist()) if is_piece]
            for q, counts in enumerate(queries.not_special[b].tolist()):
                if not counts:
                    continue
                weights = pattern[b, head, q].tolist()
                readable = [k for k in real if not causal or k <= q]
                most_read = max(readable, key=lambda k: weights[k])
                rows.setdefault("confidence", []).append(weights[most_read])
                rows.setdefault("entropy", []).append(-sum(w * log(w) for w in weights if w))
                mark = 0 if causal else len(real)
                rows.setdefault("sink", []).append(weights[mark])
                offsets = {k: int(keys.positions[k] - queries.positions[q]) for k in readable}
                for d in OFFSETS:
                    if len(readable) > 1 and d in offsets.values():
                        rows.setdefault(f"pieces{d:+d}", []).append(offsets[most_read] == d)
                        rows.setdefault(f"words{d:+d}", []).append(offsets[most_read] == d)
                if len(readable) > 1:
                    order = sorted(readable, key=lambda k: int(keys.ids[b, k]))
                    rows.setdefault("rarest", []).append(most_read == order[0])
                    rows.setdefault("two_rarest", []).append(most_read in order[:2])
                    rows.setdefault("rarest_chance", []).append(1 / len(readable))
                    rows.setdefault("two_rarest_chance", []).append(2 / len(readable))
        for name, values in rows.items():
            assert sums.counts[name] == len(values), name
            totals = sums.totals[name]
            assert float(totals[head if len(totals) > 1 else 0]) == pytest.approx(sum(values)), name
        assert {name for name, count in sums.counts.items() if count} == {
            *rows,
            "rarest_variance",
            "two_rarest_variance",
        }


def test_heads_that_read_alike_are_alike():
    side = source_side([6, 4])
    same, other = random_pattern(side, side, 1), shifted_pattern(side, 1)
    similarities = pattern_measures.pattern_similarities(
        [torch.cat([same, same], dim=1), torch.cat([other, shifted_pattern(side, 2)], dim=1)], side.not_special
    )
    similarities = similarities / 10
    torch.testing.assert_close(similarities.diagonal(), torch.ones(4, dtype=torch.float64))
    torch.testing.assert_close(similarities, similarities.T)
    assert similarities[0, 1] == pytest.approx(1.0)
    by_hand = (same * other).sqrt().sum(dim=-1)[:, 0][side.not_special].mean()
    assert similarities[0, 2] == pytest.approx(float(by_hand))
    # the two shifts meet at the end token alone, from the last piece of each sentence
    assert similarities[2, 3] == pytest.approx(2 / 10)
