"""Which piece of a translation goes with which piece of its source: words, and the punctuation around them."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Sequence
from itertools import pairwise

Span = tuple[int, int]
"""Where a piece of text begins and ends."""

Link = tuple[int, int]
"""The number of something in the source, and of what goes with it in the target."""

WordSpans = tuple[list[Span], list[Span], list[Span]]
"""Where the pieces of a word lie: of the punctuation before it, of itself, and of the punctuation behind it."""


def link_pieces(
    source: str, cuts: Collection[int], target: str, alignment: Sequence[Link]
) -> tuple[list[Span], list[Span], list[Link]]:
    """The pieces of both texts, and pairs of their numbers: pieces that go together as `alignment` says of the words.

    The source is cut at `cuts` too; a word that is the same in the target is cut like it. Punctuation goes with that of
    the aligned word; else with the same that is left over elsewhere; else where its word goes. Where nothing is
    aligned, words go with those as far along.

    >>> link_pieces("the white house.", [], "la casa blanca.", [(0, 0), (1, 2), (2, 1)])[2]
    [(0, 0), (2, 1), (1, 2), (3, 3)]
    """
    read, said = split_words(source, cuts), split_words(target, ())
    aligned: dict[int, list[int]] = defaultdict(list)
    for s, t in sorted(set(alignment)) or proportional_alignment(len(read), len(said)):
        assert 0 <= s < len(read) and 0 <= t < len(said)
        aligned[t].append(s)
    numbers = {span: number for number, span in enumerate(flatten_spans(read))}
    together = [(t, k, [(s, k) for s in aligned[t] if read[s][k]]) for t in range(len(said)) for k in range(3)]
    taken = {place for t, k, places in together if said[t][k] for place in places}
    spare: dict[tuple[int, str], list[tuple[int, int]]] = defaultdict(list)
    for s, word in reversed([*enumerate(read)]):
        for k in (0, 2):
            if word[k] and (s, k) not in taken:
                spare[k, segment_text(source, word[k])].append((s, k))

    pieces: list[Span] = []
    links: list[Link] = []
    for t, k, places in together:
        if not said[t][k]:
            continue
        text = segment_text(target, said[t][k])
        if not places and spare[k, text]:
            places = [spare[k, text].pop()]
        segments = [read[s][j] for s, j in places] or [
            read[s][1][-1:] if k == 2 else read[s][1][:1] for s in aligned[t]
        ]
        twin = next((some for some in segments if segment_text(source, some) == text), said[t][k])
        start = said[t][k][0][0] - twin[0][0]
        for i, (first, last) in enumerate(twin):
            for some in segments:
                links += [(numbers[span], len(pieces)) for span in ([twin[i]] if some is twin else some)]
            pieces.append((start + first, start + last))
    return flatten_spans(read), pieces, links


def split_words(text: str, cuts: Collection[int]) -> list[WordSpans]:
    """The words of a text in pieces, cut where `cuts` says too.

    >>> split_words("(H2O). ...", {2, 3})
    [([(0, 1)], [(1, 2), (2, 3), (3, 4)], [(4, 6)]), ([], [(7, 10)], [])]
    """
    found = []
    for match in re.finditer(r"\S++", text):
        letters = [i for i in range(*match.span()) if not unicodedata.category(text[i]).startswith("P")]
        first, last = (letters[0], letters[-1] + 1) if letters else match.span()
        edges = (match.start(), first, last, match.end())
        before, itself, behind = (
            list(pairwise([start, *(i for i in range(start + 1, end) if i in cuts), end])) if start < end else []
            for start, end in pairwise(edges)
        )
        found.append((before, itself, behind))
    return found


def flatten_spans(some: Sequence[WordSpans]) -> list[Span]:
    """All pieces in their order."""
    return [span for word in some for segment in word for span in segment]


def segment_text(text: str, segment: Sequence[Span]) -> str:
    """The text of neighbouring pieces."""
    return text[segment[0][0] : segment[-1][1]]


def proportional_alignment(source: int, target: int) -> list[Link]:
    """An alignment where there is none: every word of both sides with the one as far along on the other.

    >>> proportional_alignment(2, 3), proportional_alignment(3, 2)
    ([(0, 0), (1, 1), (1, 2)], [(0, 0), (1, 1), (2, 1)])
    """
    if not source or not target:
        return []
    there = {((2 * t + 1) * source // (2 * target), t) for t in range(target)}
    return sorted(there | {(s, (2 * s + 1) * target // (2 * source)) for s in range(source)})
