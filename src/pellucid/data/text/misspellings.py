"""Finds the word that a misspelled one is meant to be, among the words that a model has learned.

The slips that are looked for hardly ever lead from one word of a language to another one, or lead
to a very common word: benchmarks/results/noise.md has the counts.
"""

import re
from collections.abc import Mapping
from itertools import islice

# A word of letters alone, not a part of an address, of a name in a program, or of a longer word
# with an apostrophe or a hyphen.
LONE_WORD = re.compile(r"(?<![\w'’.:/@\\#&=~+-])[^\W\d_]++(?![\w'’/@\\#&=~+-]|[.:]\w)")

# The fewest letters of a word that is read as another one, since a short word is near to many
# others. A word of four letters is read as one of the very common words alone.
_SHORTEST, _SHORT = 4, 5
_COMMONEST_SHORT = 300
# Letters from which another slip is looked for, too, and the words that it may lead to.
_LONG, _COMMONEST = 8, 1000


def find_intended(word: str, known: Mapping[str, object]) -> str | None:
    """Return the known word that an unknown one is meant to be; None where there is none, or several.

    The keys of `known` are words, the commonest first. Two neighbouring letters may be exchanged, a
    letter doubled, or one of a pair left out. In a long word, one of the commonest may also have
    another letter, one more or one less. The first letter stays; in the last case the last one,
    too, since it may be an ending.

    >>> known = dict.fromkeys(["language", "police", "tomorrow", "reddish"])
    >>> words = ("langauge", "redish", "tomorroow", "languoge", "polite", "languages")
    >>> [find_intended(word, known) for word in words]
    ['language', 'reddish', 'tomorrow', 'language', None, None]
    """
    if len(word) < _SHORTEST:
        return None
    found = [slip for slip in list_slips(word) if slip in known]
    if len(word) < _SHORT:
        common = set(islice(known, _COMMONEST_SHORT))
        found = [slip for slip in found if slip in common]
    elif len(word) >= _LONG and not found:
        ends = word[:1], word[-1:]
        for other in islice(known, _COMMONEST):
            # The letters at the ends first: comparing all of them takes twenty times as long.
            if (other[:1], other[-1:]) == ends and _differs_inside(word, other):
                found.append(other)
    return found[0] if len(found) == 1 else None


def list_slips(word: str) -> set[str]:
    """Return the words with two letters of this one exchanged, one doubled, or one of a pair left out.

    >>> sorted(list_slips("fall"))
    ['faall', 'fal', 'falll', 'ffall', 'flal']
    """
    slips: set[str] = set()
    for i, letter in enumerate(word):
        before, behind = word[:i], word[i + 1 :]
        slips.add(before + letter + letter + behind)
        if behind.startswith(letter):
            slips.add(before + behind)
        if i > 0 and behind:
            slips.add(before + behind[0] + letter + behind[1:])
    return slips - {word}


def _differs_inside(word: str, other: str) -> bool:
    """Whether two words differ by one letter, which is neither the first nor the last of either.

    >>> [_differs_inside("police", other) for other in ("poljce", "plice", "poolice", "polices", "polio")]
    [True, True, True, False, False]
    """
    longest, shortest = max(len(word), len(other)), min(len(word), len(other))
    if longest - shortest > 1 or word[-1] != other[-1]:
        return False
    before = _count_alike(word, other)
    behind = _count_alike(word[before:][::-1], other[before:][::-1])
    return before > 0 and behind > 0 and before + behind >= longest - 1


def _count_alike(word: str, other: str) -> int:
    """Return with how many letters two words begin alike."""
    for i, (letter, another) in enumerate(zip(word, other, strict=False)):
        if letter != another:
            return i
    return min(len(word), len(other))
