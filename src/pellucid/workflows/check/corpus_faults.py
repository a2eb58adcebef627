"""Faults that show only in the whole corpus: repetitions, leaks, odd lengths, rare spellings, and wrong languages."""

import re
from array import array
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from pellucid.data.links import Bools, Floats, Ints
from pellucid.data.text.bare_text import SHORTEST_LEAK, bare_text
from pellucid.data.text.spelling import LEARNED_SPELLING, describe_character, plain_counterpart

# Pairs with one sentence that make it boilerplate; in Tatoeba a
# sentence has 17 translations at most.
BOILERPLATE = 20
# Spread of the log ratios of lengths, times this, that a pair may differ from the median.
ODD_RATIO = 5.0
# Times the usual ratio that no pair is called odd under, however even the text is.
LEAST_RATIO = 2.2

_DIGITS = re.compile(r"\d+")


class PairHashes(NamedTuple):
    """Hashes of both sides of pairs as they are, bare, and bare without digits (2 x pairs); and lengths (4 x pairs)."""

    exact: Ints
    bare: Ints
    form: Ints
    lengths: Ints  # characters of both sides, and of both bare sides

    @classmethod
    def join(cls, blocks: Sequence["PairHashes"]) -> "PairHashes":
        if not blocks:
            blocks = [hash_pairs([], [])]
        fields = [np.concatenate(parts, axis=1) for parts in zip(*blocks, strict=True)]
        return cls(*fields)


def hash_pairs(*sides: Sequence[str]) -> PairHashes:
    """Return the hashes of a block of sources and their targets."""
    bare = [list(map(bare_text, side)) for side in sides]
    forms: list[list[str]] = []
    for side in bare:
        forms.append([_DIGITS.sub("", text) if _DIGITS.search(text) else text for text in side])

    lengths = np.array([list(map(len, side)) for side in (*sides, *bare)], np.int64)
    return PairHashes(_hash_texts(sides), _hash_texts(bare), _hash_texts(forms), lengths)


def _hash_texts(sides: Sequence[Sequence[str]]) -> Ints:
    return np.stack([hash_texts(side) for side in sides])


def hash_texts(texts: Sequence[str]) -> Ints:
    """Return a hash of each text, the same in every process."""
    digests = bytearray()
    for text in texts:
        digests += blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()

    return np.frombuffer(digests, "<i8").astype(np.int64)


_NO_TEXT = int(hash_texts([""])[0])


def find_repeated_pairs(hashes: PairHashes, filled: Bools) -> dict[str, Floats]:
    """Return how bad the repetition of each pair is: duplicates, near-duplicates, boilerplate, and many targets.

    Pairs that are not `filled`, because a side is empty, repeat nothing and are not counted.
    """
    found = _find_repeated(PairHashes(*(values[:, filled] for values in hashes)))
    all_pairs = {name: np.zeros(len(filled)) for name in found}
    for name, degrees in found.items():
        all_pairs[name][filled] = degrees
    return all_pairs


def _find_repeated(hashes: PairHashes) -> dict[str, Floats]:
    exact, _, form, lengths = hashes
    pairs, forms = _join_sides(exact), _join_sides(form)
    repeated, near = _later_of_equals(pairs), _later_of_equals(forms)
    # A form without letters, as of two different numbers, says nothing.
    letters = (form != _NO_TEXT).all(axis=0)
    often = np.maximum(_count_equals(form[0]), _count_equals(form[1]))
    boilerplate = letters & (often >= BOILERPLATE) & near

    # Every target of a source counts once, however often the pair is repeated.
    first = ~repeated
    targets = np.zeros(len(pairs))
    targets[first] = _count_equals(exact[0][first])
    return {
        "duplicate": np.where(repeated & ~boilerplate, lengths[0] + 1.0, 0),
        "near_duplicate": np.where(near & ~repeated & letters & ~boilerplate, lengths[0] + 1.0, 0),
        "boilerplate": np.where(boilerplate, often, 0).astype(float),
        "many_targets": np.where(targets > 1, targets, 0),
    }


def _join_sides(hashes: Ints) -> Ints:
    """Return one hash for each pair."""
    return hashes[0] * np.int64(0x5851F42D4C957F2D) + hashes[1]


def _count_equals(values: Ints) -> Ints:
    """Return of each value how often it occurs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return counts[inverse] if len(values) else np.zeros(0, np.int64)


def _later_of_equals(values: Ints) -> Bools:
    """Return whether each value occurred before."""
    later = np.ones(len(values), bool)
    later[np.unique(values, return_index=True)[1]] = False
    return later


def hash_held_out(sentences: Iterable[str]) -> Ints:
    """Return the hashes of the bare sentences of a test set, without those too short to count."""
    bare = {text for text in map(bare_text, sentences) if len(text) >= SHORTEST_LEAK}
    return hash_texts(list(bare))


def find_leaks(hashes: PairHashes, held_out: Ints) -> Floats:
    """Return 1 or 2 where one or both sides of a pair are a sentence of the test set."""
    return (
        (np.isin(hashes.bare, held_out) & (hashes.lengths[2:] >= SHORTEST_LEAK))
        .sum(axis=0)
        .astype(float)
    )


def find_odd_ratios(hashes: PairHashes) -> Floats:
    """Return how many times the usual ratio of lengths a pair has, or the ratio of the usual to its own."""
    lengths = hashes.lengths
    # Ten more: of short sentences one may easily be twice as long.
    ratios = np.log((lengths[0] + 10) / (lengths[1] + 10))
    if not len(ratios):
        return np.zeros(0)
    distance = np.abs(ratios - np.median(ratios))

    # 1.48 times the median distance is the standard deviation of a normal distribution.
    limit = max(ODD_RATIO * 1.48 * float(np.median(distance)), np.log(LEAST_RATIO))
    empty = (lengths[:2] == 0).any(axis=0)
    return np.where((distance > limit) & ~empty, np.exp(distance), 0)


LEARNED_LINES = 100_000  # lines in which a spelling is learned however large the text is


class RareSpelling(NamedTuple):
    """A character with a plain counterpart that few lines of its side have, and the places of these pairs from 0."""

    side: str  # "source" or "target"
    character: str
    plain: str
    pairs: Ints

    def describe(self) -> str:
        """Return what it is, how often it occurs, and what becomes of it, in words.

        >>> RareSpelling("source", "’", "'", np.array([6, 8])).describe()
        "U+2019 (right single quotation mark) in 2 lines of the source, read as ' when the model translates"
        """
        count = f"{len(self.pairs):,} line{'s' if len(self.pairs) > 1 else ''}"
        where = f"{describe_character(self.character)} in {count} of the {self.side}"
        plain = "a space" if self.plain == " " else self.plain
        if self.side == "source":
            return (
                f"{where}, {f'read as {plain}' if plain else 'left out'} when the model translates"
            )

        spelling = f"the plain spelling is {plain}" if plain else "the plain spelling leaves it out"
        return f"{where}, too few for the model to learn to write it; {spelling}"


# Places in a block of the pairs that hold a character with a plain counterpart, by side and character.
Spellings = dict[tuple[str, str], list[int]]


def find_spellings(sources: Sequence[str], targets: Sequence[str]) -> Spellings:
    """Return the pairs of a block that hold each character with a plain counterpart."""
    found: Spellings = {}
    for side, texts in (("source", sources), ("target", targets)):
        for place, text in enumerate(texts):
            if text.isascii():
                continue
            for character in set(text):
                if plain_counterpart(character) is not None:
                    found.setdefault((side, character), []).append(place)

    return found


class SpellingLines:
    """Places of the pairs that hold each character with a plain counterpart, on each side."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], array[int]] = {}
        self._common = set[tuple[str, str]]()

    def add(self, start: int, spellings: Spellings) -> None:
        """Count the characters of a block of pairs; its first pair has the place `start`."""
        for key, places_in_block in spellings.items():
            if key in self._common:
                continue
            places = self._places.setdefault(key, array("q"))
            places.extend(start + place for place in places_in_block)
            if len(places) >= LEARNED_LINES:
                # A no-break space or a quote may stand in each line of a large text.
                self._common.add(key)
                del self._places[key]

    def find_rare(self, pairs: int) -> list[RareSpelling]:
        """Return the characters that are too rare to be learned from so many pairs, the commonest first."""
        rare: list[RareSpelling] = []
        for (side, character), places in self._places.items():
            if len(places) < LEARNED_SPELLING * pairs:
                plain = plain_counterpart(character) or ""
                rare.append(RareSpelling(side, character, plain, np.array(places, np.int64)))
        return sorted(rare, key=lambda one: (-len(one.pairs), one.side, one.character))


def weigh_rare_spellings(rare: Sequence[RareSpelling], pairs: int) -> Floats:
    """Return how many rare spellings each pair has; the first pair of each spelling counts more than all others."""
    degrees = np.zeros(pairs)
    for spelling in rare:
        degrees[spelling.pairs] += 1
    # So that the examples show each of them, the commonest first.
    first = {int(spelling.pairs[0]): number for number, spelling in reversed([*enumerate(rare)])}
    most = degrees.max(initial=0)
    for pair, number in first.items():
        degrees[pair] = most + len(rare) - number
    return degrees
