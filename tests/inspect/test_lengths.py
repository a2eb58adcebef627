import math

import pytest

from pellucid.interpret.studies.lengths import MeasuredSentence, bucket_by_length, join_lines


def make_sentence(
    pieces: int, log_prob: float = -2.0, translation: str = "ab", reference: str = "abcd"
) -> MeasuredSentence:
    return MeasuredSentence(pieces, log_prob, 4, translation, reference)


@pytest.mark.article("B15")
def test_each_sentence_is_in_the_bucket_of_its_length():
    sizes = [1, 4, 5, 8, 9, 16, 17, 40]
    buckets = bucket_by_length(
        [make_sentence(size) for size in sizes], lambda texts, references: float(len(texts)), longest_seen=10
    )
    assert [(b.first, b.last, b.sentences, b.unseen) for b in buckets] == [
        (1, 4, 2, False),
        (5, 8, 2, False),
        (9, 10, 1, False),
        (11, 16, 1, True),
        (17, 32, 1, True),
        (33, 40, 1, True),
    ]
    assert sum(b.sentences for b in buckets) == len(sizes)
    longest = bucket_by_length([make_sentence(size) for size in sizes], lambda *_: 0.0, longest_seen=17)
    assert [b.unseen for b in longest if b.first == b.last == 17] == [False]


@pytest.mark.article("B15")
def test_losses_are_added_up_and_divided_once():
    short, long = MeasuredSentence(3, -1.0, 2, "a", "abc"), MeasuredSentence(4, -6.5, 8, "abcde", "a")
    [bucket] = bucket_by_length([short, long], lambda texts, references: 7.0)
    assert bucket.loss == pytest.approx(7.5 / 10)
    assert (bucket.chrf, bucket.unseen) == (7.0, None)
    assert math.isclose(bucket.ratio, 6 / 4)


def test_the_score_is_of_the_texts_of_the_bucket():
    scored = []
    bucket_by_length(
        [make_sentence(2, translation="x"), make_sentence(20, translation="y")],
        lambda *texts: scored.append(texts) or 0.0,
    )
    assert scored == [(["x"], ["abcd"]), (["y"], ["abcd"])]


def test_joined_lines_stay_in_order_and_share_no_line():
    lines = ["a ", "b", "c", "d", "e"]
    joined = join_lines(lines, limit=3)
    assert joined == ["a", "b", "c", "d", "e", "a b", "c d", "a b c"]
    assert join_lines(lines, limit=9)[-1] == "a b c d e"


def test_nothing_to_measure_is_refused():
    with pytest.raises(ValueError, match="no sentence to measure"):
        bucket_by_length([], lambda *_: 0.0)
