"""How good a model is on short and on long sentences, beyond the longest it was trained on too."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import fsum

Scorer = Callable[[Sequence[str], Sequence[str]], float]
"""A score of translations against references, such as chrF."""


@dataclass(frozen=True)
class MeasuredSentence:
    """One sentence: pieces of its source, what its reference costs the model, and what the model wrote instead."""

    pieces: int
    log_prob: float
    target_pieces: int
    translation: str
    reference: str


@dataclass(frozen=True)
class LengthBucket:
    """Sentences whose source has `first` to `last` pieces. `loss` is in nats a target piece, the end mark counted.

    `ratio` is characters written for each of the references; `unseen` says whether the model was trained on no source
    as long, None where that is not known.
    """

    first: int
    last: int
    sentences: int
    loss: float
    chrf: float
    ratio: float
    unseen: bool | None


def bucket_by_length(
    sentences: Sequence[MeasuredSentence], chrf: Scorer, longest_seen: int | None = None, edges: Sequence[int] = ()
) -> list[LengthBucket]:
    """The sentences in buckets that end at `edges` (by default at 4, 8, 16, ... and at the longest source seen).

    A bucket without sentences is left out. ValueError for no sentence.
    """
    if not sentences:
        raise ValueError("there is no sentence to measure")
    most = max(each.pieces for each in sentences)
    seen = [longest_seen] if longest_seen is not None else []
    ends: list[int] = sorted({*(edges or doubling_edges(most)), *seen, most})
    found, first = [], 1
    for last in ends:
        inside = [each for each in sentences if first <= each.pieces <= last]
        if inside:
            unseen = None if longest_seen is None else first > longest_seen
            found.append(measure_bucket(inside, first, last, chrf, unseen))
        first = last + 1
    return found


def measure_bucket(
    inside: Sequence[MeasuredSentence], first: int, last: int, chrf: Scorer, unseen: bool | None
) -> LengthBucket:
    """What all of them together give."""
    written, wanted = ([getattr(each, name) for each in inside] for name in ("translation", "reference"))
    return LengthBucket(
        first=first,
        last=last,
        sentences=len(inside),
        loss=-fsum(each.log_prob for each in inside) / sum(each.target_pieces for each in inside),
        chrf=chrf(written, wanted),
        ratio=sum(map(len, written)) / max(sum(map(len, wanted)), 1),
        unseen=unseen,
    )


def doubling_edges(most: int) -> list[int]:
    """4, 8, 16, ... up to the first that is large enough.

    >>> doubling_edges(20)
    [4, 8, 16, 32]
    """
    ends = [4]
    while ends[-1] < most:
        ends.append(2 * ends[-1])
    return ends


def join_lines(lines: Sequence[str], most: int) -> list[str]:
    """The lines, then those put together by twos, by threes, up to `most` at a time; what is left over is left out.

    >>> join_lines(["a", "b", "c"], most=2)
    ['a', 'b', 'c', 'a b']
    """
    groups: Iterable[list[str]] = (
        list(lines[start : start + count])
        for count in range(1, most + 1)
        for start in range(0, len(lines) - count + 1, count)
    )
    return [" ".join(line.strip() for line in group) for group in groups]
