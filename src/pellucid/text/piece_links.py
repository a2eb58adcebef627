"""Links the words of a source and its translation, and the punctuation around them, for placing tags."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Sequence
from itertools import pairwise

Span = tuple[int, int]
"""The start and end of a piece of text."""

Link = tuple[int, int]
"""The index of a word or piece in the source, and of the one that belongs to it in the target."""

WordSpans = tuple[list[Span], list[Span], list[Span]]
"""The spans of the pieces of a word: its punctuation before, the word itself, its punctuation after."""


def link_pieces(
    source: str, cuts: Collection[int], target: str, alignment: Sequence[Link]
) -> tuple[list[Span], list[Span], list[Link]]:
    """Return the pieces of both texts, and links between their indices, following `alignment`, which links words.

    The source is cut at `cuts` too; a word that is the same in the target is cut in the same way. Punctuation is linked
    to that of the aligned word; otherwise to the same punctuation left over elsewhere; otherwise it goes with its word.
    Without any alignment, words are linked to those that are as far along.

    >>> link_pieces("the white house.", [], "la casa blanca.", [(0, 0), (1, 2), (2, 1)])[2]
    [(0, 0), (2, 1), (1, 2), (3, 3)]
    """
    source_words, target_words = split_words(source, cuts), split_words(target, ())
    aligned: dict[int, list[int]] = defaultdict(list)
    for s, t in sorted(set(alignment)) or proportional_alignment(len(source_words), len(target_words)):
        assert 0 <= s < len(source_words) and 0 <= t < len(target_words)
        aligned[t].append(s)
    numbers = {span: number for number, span in enumerate(flatten_spans(source_words))}
    # k is 0, 1 or 2: the punctuation before a word, the word, the punctuation after it.
    together = [
        (t, k, [(s, k) for s in aligned[t] if source_words[s][k]]) for t in range(len(target_words)) for k in range(3)
    ]
    taken = {part for t, k, parts in together if target_words[t][k] for part in parts}
    spare: dict[tuple[int, str], list[tuple[int, int]]] = defaultdict(list)
    for s, word in reversed([*enumerate(source_words)]):  # backwards, so that pop() takes the first
        for k in (0, 2):
            if word[k] and (s, k) not in taken:
                spare[k, segment_text(source, word[k])].append((s, k))

    pieces: list[Span] = []
    links: list[Link] = []
    for t, k, parts in together:
        if not target_words[t][k]:
            continue
        text = segment_text(target, target_words[t][k])
        if not parts and spare[k, text]:
            parts = [spare[k, text].pop()]
        # Punctuation without a counterpart goes with the nearest piece of each aligned word: the last, or the first.
        segments = [source_words[s][j] for s, j in parts] or [
            source_words[s][1][-1:] if k == 2 else source_words[s][1][:1] for s in aligned[t]
        ]
        # A word that is the same in both texts is cut in the target as it is cut in the source.
        twin = next((segment for segment in segments if segment_text(source, segment) == text), target_words[t][k])
        start = target_words[t][k][0][0] - twin[0][0]
        for i, (first, last) in enumerate(twin):
            for segment in segments:
                links += [(numbers[span], len(pieces)) for span in ([twin[i]] if segment is twin else segment)]
            pieces.append((start + first, start + last))
    return flatten_spans(source_words), pieces, links


def split_words(text: str, cuts: Collection[int]) -> list[WordSpans]:
    """Split a text into words, and each word into pieces, cut at `cuts` too.

    >>> split_words("(H2O). ...", {2, 3})
    [([(0, 1)], [(1, 2), (2, 3), (3, 4)], [(4, 6)]), ([], [(7, 10)], [])]
    """
    words = []
    for match in re.finditer(r"\S++", text):
        letters = [i for i in range(*match.span()) if not unicodedata.category(text[i]).startswith("P")]
        # A word of punctuation alone is a word.
        first, last = (letters[0], letters[-1] + 1) if letters else match.span()
        edges = (match.start(), first, last, match.end())
        before, itself, behind = (
            list(pairwise([start, *(i for i in range(start + 1, end) if i in cuts), end])) if start < end else []
            for start, end in pairwise(edges)
        )
        words.append((before, itself, behind))
    return words


def flatten_spans(words: Sequence[WordSpans]) -> list[Span]:
    """Return the spans of all pieces of words, in order."""
    return [span for word in words for segment in word for span in segment]


def segment_text(text: str, segment: Sequence[Span]) -> str:
    """Return the text of neighbouring pieces."""
    return text[segment[0][0] : segment[-1][1]]


def proportional_alignment(source: int, target: int) -> list[Link]:
    """Make an alignment from the numbers of words alone: each word with the one that is as far along on the other side.

    >>> proportional_alignment(2, 3), proportional_alignment(3, 2)
    ([(0, 0), (1, 1), (1, 2)], [(0, 0), (1, 1), (2, 1)])
    """
    if not source or not target:
        return []
    # From both sides, so that no word of either is without a link; 2n + 1 is the middle of word n in halves.
    links = {((2 * t + 1) * source // (2 * target), t) for t in range(target)}
    return sorted(links | {(s, (2 * s + 1) * target // (2 * source)) for s in range(source)})
