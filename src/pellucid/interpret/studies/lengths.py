"""Scores of a model on short and on long sentences, also beyond the longest that it was trained on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import fsum

Scorer = Callable[[Sequence[str], Sequence[str]], float]  # scores translations against references, such as chrF


@dataclass(frozen=True)
class MeasuredSentence:
    """Sentence with the pieces of its source, the log-probability of its reference, and the model's translation."""

    pieces: int
    log_prob: float
    target_pieces: int
    translation: str
    reference: str


@dataclass(frozen=True)
class LengthBucket:
    """Scores of the sentences whose source has `first` to `last` pieces.

    `loss` is in nats a target piece, the end token counted. `ratio` is characters written for each
    of the references; `unseen` says whether the model was trained on no source as long, None where
    that is not known.
    """

    first: int
    last: int
    sentences: int
    loss: float
    chrf: float
    ratio: float
    unseen: bool | None


def bucket_by_length(
    sentences: Sequence[MeasuredSentence], chrf: Scorer, longest_seen: int | None = None
) -> list[LengthBucket]:
    """Sort sentences into buckets that end at 4, 8, 16, ... and at the longest source seen.

    A bucket without sentences is left out. Raises ValueError if there is no sentence.
    """
    if not sentences:
        raise ValueError("there is no sentence to measure")
    longest = max(sentence.pieces for sentence in sentences)

    # an edge at the longest seen keeps trained lengths and longer ones out of one bucket
    ends = sorted({*_doubling_edges(longest), longest_seen or longest, longest})
    buckets, first = [], 1

    for last in ends:
        members = [sentence for sentence in sentences if first <= sentence.pieces <= last]
        if members:
            unseen = None if longest_seen is None else first > longest_seen
            buckets.append(_measure_bucket(members, chrf, first, last, unseen))
        first = last + 1
    return buckets


def _measure_bucket(
    members: Sequence[MeasuredSentence], chrf: Scorer, first: int, last: int, unseen: bool | None
) -> LengthBucket:
    """Return the scores of the sentences of one bucket."""
    translations = [sentence.translation for sentence in members]
    references = [sentence.reference for sentence in members]
    # fsum is exact: the order of the sentences changes nothing.
    log_prob = fsum(sentence.log_prob for sentence in members)
    characters = sum(map(len, references))
    return LengthBucket(
        first=first,
        last=last,
        sentences=len(members),
        loss=-log_prob / sum(sentence.target_pieces for sentence in members),
        chrf=chrf(translations, references),
        ratio=sum(map(len, translations)) / max(characters, 1),
        unseen=unseen,
    )


def _doubling_edges(longest: int) -> list[int]:
    """Return 4, 8, 16, ... up to the first that is large enough.

    >>> _doubling_edges(20)
    [4, 8, 16, 32]
    """
    ends = [4]
    while ends[-1] < longest:
        ends.append(2 * ends[-1])
    return ends


def join_lines(lines: Sequence[str], limit: int) -> list[str]:
    """Return the lines, then lines joined by twos, by threes, up to `limit` at a time.

    Incomplete groups are left out.

    >>> join_lines(["a", "b", "c"], limit=2)
    ['a', 'b', 'c', 'a b']
    """
    joined = []
    for count in range(1, limit + 1):
        # The last start leaves room for a whole group.
        for start in range(0, len(lines) - count + 1, count):
            group = lines[start : start + count]
            joined.append(" ".join(line.strip() for line in group))
    return joined
