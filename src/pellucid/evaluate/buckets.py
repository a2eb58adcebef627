"""Groups of the sentences of a test set: by length, and by how rare their rarest word is."""

import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

BUCKET_ENDS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 100, 200)
"""Lengths in words at which a group may end."""

SMALLEST_BUCKET = 0.1
"""Smallest share of the sentences that a group of lengths has."""

FREQUENCY_ENDS = (0, 9, 99)
"""Last count of each group by occurrences in the training text, except for the last group."""
LONE_WORD_ENDS = (0, 1, 2)
"""Last count of each group by number of lone words, except for the last group."""

Groups = dict[str, list[int]]
"""Names of groups with the indices of their sentences; no group is empty."""


def group_by_length(texts: Sequence[str]) -> Groups:
    """Group texts by their number of words, with a tenth of the texts or more in each group.

    >>> group_by_length(["a b c", "a", "a b c d e f", "a b c d e", "a b c d"])
    {'1': [1], '2-3': [0], '4-5': [3, 4], '6+': [2]}
    """
    lengths = {i: len(text.split()) for i, text in enumerate(texts)}
    return group_by_value(lengths, length_edges(list(lengths.values())), first=min(lengths.values()))


def length_edges(lengths: Sequence[int]) -> list[int]:
    """Return where groups end: the first of `BUCKET_ENDS` that leave neither a group nor the remainder too small."""
    edges: list[int] = []
    for edge in BUCKET_ENDS:
        inside = sum((edges[-1] if edges else -1) < length <= edge for length in lengths)
        beyond = sum(length > edge for length in lengths)
        if min(inside, beyond) >= max(1, SMALLEST_BUCKET * len(lengths)):
            edges.append(edge)
    return edges


def group_by_rarest_word(references: Sequence[str], training: Iterable[str]) -> Groups:
    """Group references by how often their rarest word occurs in the training text.

    >>> group_by_rarest_word(["The cat.", "the dog", "?"], training=["the cat and the cat"])
    {'0': [1], '1-9': [0], 'no word': [2]}
    """
    words = [set(plain_words(reference)) for reference in references]
    reference_words = set().union(*words)
    # Only words of the references: a large training text has many others.
    counts = Counter(word for line in training for word in plain_words(line) if word in reference_words)
    rarest = {i: min(counts[word] for word in sentence) for i, sentence in enumerate(words) if sentence}
    wordless = [i for i, sentence in enumerate(words) if not sentence]
    return {**group_by_value(rarest, FREQUENCY_ENDS, first=0), **({"no word": wordless} if wordless else {})}


def group_by_lone_words(references: Sequence[str]) -> Groups:
    """Group references by how many of their words occur nowhere else in the references.

    >>> group_by_lone_words(["The cat.", "the dog", "a dog", "the dog"])
    {'0': [1, 3], '1': [0, 2]}
    """
    words = [plain_words(reference) for reference in references]
    counts = Counter(word for sentence in words for word in sentence)
    lone = {i: sum(counts[word] == 1 for word in sentence) for i, sentence in enumerate(words)}
    return group_by_value(lone, LONE_WORD_ENDS, first=0)


def group_by_value(values: Mapping[int, int], ends: Sequence[int], first: int) -> Groups:
    """Group indices by their value: from `first` to the first end, from there to the second, and so on."""
    begins = [first, *(end + 1 for end in ends)]
    names = [str(begin) if begin == end else f"{begin}-{end}" for begin, end in zip(begins, ends, strict=False)]
    groups: Groups = {name: [] for name in [*names, f"{begins[-1]}+"]}
    order = list(groups)
    for i, value in values.items():
        groups[order[bisect_left(ends, value)]].append(i)
    return {name: members for name, members in groups.items() if members}


def plain_words(text: str) -> list[str]:
    """Return the words of a text in lower case, without the punctuation around them.

    >>> plain_words("«Don't», said the 3-year-old (twice)...")
    ["don't", 'said', 'the', '3-year-old', 'twice']
    """
    # casefold and not lower: it makes the German sharp s equal to ss.
    return [word for word in map(strip_symbols, text.casefold().split()) if word]


def strip_symbols(word: str) -> str:
    """Remove the punctuation and the symbols around a word."""
    # Unicode's categories P (punctuation) and S (symbols).
    kept_indices = [i for i, character in enumerate(word) if unicodedata.category(character)[0] not in "PS"]
    return word[kept_indices[0] : kept_indices[-1] + 1] if kept_indices else ""
