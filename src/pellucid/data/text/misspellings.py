"""Finds the word that a misspelled one is meant to be, among the words that a model has learned.

The slips that are looked for hardly ever lead from one word of a language to another one, or lead
to a very common word: benchmarks/results/noise.md has the counts.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
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


class KnownWords:
    """Words of a training text, among which the one is found that a misspelled word is meant to be."""

    def __init__(self, words: Iterable[str]):
        """Take the words, the commonest first."""
        self._words = dict.fromkeys(words)
        self._common_short_words = frozenset(islice(self._words, _COMMONEST_SHORT))
        # By their first and last letters, which stay in a long word: few are left to be compared.
        self._common_words: dict[tuple[str, str], list[str]] = defaultdict(list)
        for word in islice(self._words, _COMMONEST):
            self._common_words[word[:1], word[-1:]].append(word)

    def find_intended(self, word: str) -> str | None:
        """Return the known word that an unknown one is meant to be; None where there is none, or several.

        Two neighbouring letters may be exchanged, a letter doubled, or one of a pair left out. In a
        long word, one of the commonest may also have another letter, one more or one less. The
        first letter stays; in the last case the last one, too, since it may be an ending.

        >>> known = KnownWords(["language", "police", "tomorrow", "reddish"])
        >>> words = ("langauge", "redish", "tomorroow", "languoge", "polite", "languages")
        >>> [known.find_intended(word) for word in words]
        ['language', 'reddish', 'tomorrow', 'language', None, None]
        """
        if len(word) < _SHORTEST:
            return None
        found = [slip for slip in list_slips(word) if slip in self._words]
        if len(word) < _SHORT:
            found = [slip for slip in found if slip in self._common_short_words]
        elif len(word) >= _LONG and not found:
            common = self._common_words.get((word[0], word[-1]), [])
            found = [other for other in common if _differs_inside(word, other)]
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
