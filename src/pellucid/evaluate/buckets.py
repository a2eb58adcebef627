"""The sentences of a test set in groups: by length, and by how rare their rarest word is."""

import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

BUCKET_ENDS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 100, 200)
"""Where a group of lengths may end."""

SMALLEST_BUCKET = 0.1
"""Share of the sentences that a group of lengths has at least."""

FREQUENCY_ENDS = (0, 9, 99)
LONE_WORD_ENDS = (0, 1, 2)
"""The last count of each group of rare words but the last group."""

Groups = dict[str, list[int]]
"""Names of groups, with the indices of their sentences; no group is empty."""


def group_by_length(texts: Sequence[str]) -> Groups:
    """Groups by the number of words, each with a tenth of the sentences or more.

    >>> group_by_length(["a b c", "a", "a b c d e f", "a b c d e", "a b c d"])
    {'1': [1], '2-3': [0], '4-5': [3, 4], '6+': [2]}
    """
    lengths = {i: len(text.split()) for i, text in enumerate(texts)}
    return group_by_value(lengths, length_edges(list(lengths.values())), first=min(lengths.values()))


def length_edges(lengths: Sequence[int]) -> list[int]:
    """Where groups end: the first readable numbers that leave neither them nor the rest too small."""
    found: list[int] = []
    for edge in BUCKET_ENDS:
        inside = sum((found[-1] if found else -1) < length <= edge for length in lengths)
        rest = sum(length > edge for length in lengths)
        if min(inside, rest) >= max(1, SMALLEST_BUCKET * len(lengths)):
            found.append(edge)
    return found


def group_by_rarest_word(references: Sequence[str], training: Iterable[str]) -> Groups:
    """Groups by how often the rarest word of a reference stands in the training text.

    >>> group_by_rarest_word(["The cat.", "the dog", "?"], training=["the cat and the cat"])
    {'0': [1], '1-9': [0], 'no word': [2]}
    """
    words = [set(plain_words(reference)) for reference in references]
    wanted = set().union(*words)
    counts = Counter(word for line in training for word in plain_words(line) if word in wanted)
    rarest = {i: min(counts[word] for word in each) for i, each in enumerate(words) if each}
    wordless = [i for i, each in enumerate(words) if not each]
    return {**group_by_value(rarest, FREQUENCY_ENDS, first=0), **({"no word": wordless} if wordless else {})}


def group_by_lone_words(references: Sequence[str]) -> Groups:
    """Groups by how many words of a reference stand nowhere else in the references.

    >>> group_by_lone_words(["The cat.", "the dog", "a dog", "the dog"])
    {'0': [1, 3], '1': [0, 2]}
    """
    words = [plain_words(reference) for reference in references]
    counts = Counter(word for each in words for word in each)
    lone = {i: sum(counts[word] == 1 for word in each) for i, each in enumerate(words)}
    return group_by_value(lone, LONE_WORD_ENDS, first=0)


def group_by_value(values: Mapping[int, int], ends: Sequence[int], first: int) -> Groups:
    """Indices by their value: from `first` to the first end, from there to the second, and from the last on."""
    begins = [first, *(end + 1 for end in ends)]
    names = [str(begin) if begin == end else f"{begin}-{end}" for begin, end in zip(begins, ends, strict=False)]
    groups: Groups = {name: [] for name in [*names, f"{begins[-1]}+"]}
    order = list(groups)
    for i, value in values.items():
        groups[order[bisect_left(ends, value)]].append(i)
    return {name: inside for name, inside in groups.items() if inside}


def plain_words(text: str) -> list[str]:
    """The words of a text, in small letters, without the punctuation around them.

    >>> plain_words("«Don't», said the 3-year-old (twice)...")
    ["don't", 'said', 'the', '3-year-old', 'twice']
    """
    return [word for word in map(strip_symbols, text.casefold().split()) if word]


def strip_symbols(word: str) -> str:
    """A word without what stands around it: punctuation and symbols."""
    inside = [i for i, character in enumerate(word) if unicodedata.category(character)[0] not in "PS"]
    return word[inside[0] : inside[-1] + 1] if inside else ""
