"""Faults that show only in the whole corpus: repetitions, leaks, odd lengths, rare spellings, and wrong languages."""

import re
from array import array
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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


class Marks(NamedTuple):
    """The pairs that have a fault, by growing place from 0, and how badly each has it."""

    places: Ints
    degrees: Floats

    @classmethod
    def from_degrees(cls, degrees: Floats) -> "Marks":
        """Return the marks of pairs that have a fault by any degree but 0."""
        places = np.flatnonzero(degrees)
        return cls(places, degrees[places])

    @classmethod
    def join(cls, marks: "Sequence[Marks]") -> "Marks":
        """Return the marks of several blocks, one behind the other."""
        if not marks:
            return cls(np.zeros(0, np.int64), np.zeros(0))
        places, degrees = zip(*marks, strict=True)
        return cls(np.concatenate(places), np.concatenate(degrees))


class RepeatedPairs:
    """Finds repetitions among pairs by four hashes, which take 32 bytes for each pair.

    Pairs with an empty side repeat nothing and are not counted.
    """

    def __init__(self) -> None:
        """Begin without a pair."""
        self._pairs, self._sources = array("q"), array("q")
        self._forms = array("q"), array("q")

    def add(self, hashes: PairHashes, filled: Bools) -> None:
        """Add the pairs of a block that are `filled`, because they have two sides."""
        exact, form = hashes.exact[:, filled], hashes.form[:, filled]
        self._pairs.frombytes(_join_sides(*exact).tobytes())
        for kept, values in zip((self._sources, *self._forms), (exact[0], *form), strict=True):
            kept.frombytes(values.tobytes())

    def find(self, source_lengths: NDArray[np.integer]) -> dict[str, Marks]:
        """Return the marks of duplicates, near-duplicates, boilerplate, and sources with many targets.

        Places count the pairs with two sides, and so do the lengths of their sources. What was kept
        is given up.
        """
        pairs, sources, *forms = map(_as_integers, (self._pairs, self._sources, *self._forms))
        del self._pairs, self._sources, self._forms
        near = _later_of_equals(_join_sides(*forms))
        # A form without letters, as of two different numbers, says nothing.
        letters = (forms[0] != _NO_TEXT) & (forms[1] != _NO_TEXT)
        often = np.maximum(_count_equals(forms[0]), _count_equals(forms[1]))
        del forms
        boilerplate = letters & (often >= BOILERPLATE) & near
        places = np.flatnonzero(boilerplate)
        found = {"boilerplate": Marks(places, often[places].astype(np.float64))}
        del often

        repeated = _later_of_equals(pairs)
        del pairs
        # Every target of a source counts once, however often the pair is repeated.
        first = np.flatnonzero(~repeated)
        targets = _count_equals(sources[first])
        several = targets > 1
        found["many_targets"] = Marks(first[several], targets[several].astype(np.float64))
        del first, targets

        near &= ~repeated & letters
        for name, marked in (("duplicate", repeated), ("near_duplicate", near)):
            places = np.flatnonzero(marked & ~boilerplate)
            found[name] = Marks(places, source_lengths[places].astype(np.float64) + 1.0)
        return found


def _as_integers(values: "array[int]") -> Ints:
    """Return numbers of eight bytes where they are, as numpy's."""
    return np.frombuffer(values, np.int64)


def _join_sides(sources: Ints, targets: Ints) -> Ints:
    """Return one hash for each pair."""
    return sources * np.int64(0x5851F42D4C957F2D) + targets


def _count_equals(values: Ints) -> NDArray[np.int32]:
    """Return of each value how often it occurs."""
    order = np.argsort(values)
    is_first = np.ones(len(values), bool)
    is_first[1:] = values[order[1:]] != values[order[:-1]]
    counts = np.diff(np.append(np.flatnonzero(is_first), len(values))).astype(np.int32)
    often = np.empty(len(values), np.int32)
    often[order] = np.repeat(counts, counts)
    return often


def _later_of_equals(values: Ints) -> Bools:
    """Return whether each value occurred before."""
    order = np.argsort(values, kind="stable")
    later = np.zeros(len(values), bool)
    later[order[1:]] = values[order[1:]] == values[order[:-1]]
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


def find_odd_ratios(lengths: Sequence[NDArray[np.integer]]) -> Marks:
    """Return how many times the usual ratio of lengths a pair has, or the ratio of the usual to its own.

    `lengths` are the characters of both sides of each pair.
    """
    # Ten more: of short sentences one may easily be twice as long.
    distance = np.log((lengths[0] + 10) / (lengths[1] + 10))
    if not len(distance):
        return Marks.from_degrees(distance)
    distance -= np.median(distance)
    np.abs(distance, out=distance)

    # 1.48 times the median distance is the standard deviation of a normal distribution.
    limit = max(ODD_RATIO * 1.48 * float(np.median(distance)), np.log(LEAST_RATIO))
    places = np.flatnonzero((distance > limit) & (lengths[0] > 0) & (lengths[1] > 0))
    return Marks(places, np.exp(distance[places]))


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
