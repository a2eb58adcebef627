"""Links between words, learned on the text itself by IBM model 1, and what they say about a pair of sentences."""

import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pellucid.data.text.line_splitting import UNSPACED

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_SPACED_WORD = re.compile(r"\w++|[^\w\s]")
# A word, a punctuation mark, or a character of a script without
# spaces; the first is for texts without these.
_ANY_WORD = re.compile(rf"{UNSPACED.pattern}|(?:(?!{UNSPACED.pattern})\w)++|[^\w\s]")
# Letters of a word that count: the ends of inflected words differ,
# and a small text has each form too rarely.
STEM = 6
# Words of a sentence that are linked: the links of a pair are the product of both lengths.
MOST_WORDS = 40
MOST_LINKS = 2**23  # links to learn from, which take about 150 MB
SLOTS = 23  # binary digits of the number of entries in the table of links: 32 MB of float32
# Rounds of expectation maximisation; with more of them rare words grow sure of a wrong link.
ITERATIONS = 4
DISCOUNT = 0.5  # part of an expected count that is taken off: less than this is coincidence
# Share of words that may come from nowhere, so that one free word does not condemn a pair.
BACKGROUND = 0.1
# Occurrences up to which a word that stands on both sides is
# evidence by itself: a name or a number.
RARE = 20
# Distinct word stems that get an id of their own; later ones share ids by their spelling.
_MOST_STEMS = 2**20
_MOST_REMEMBERED = 2**20  # distinct words whose ids are remembered
_LINKS_AT_ONCE = 2**18  # links of a chunk: its arrays stay in the cache of the processor
# Odd multiplier that spreads keys over the table (Fibonacci hashing; Knuth, volume 3, 6.4).
_MIX = 0x9E3779B97F4A7C15


def list_words(text: str, most: int = MOST_WORDS) -> list[str]:
    """Return the words of a text in lower case, as many as are linked.

    >>> list_words("The translators' 3 cats, 犬猫.")
    ['the', 'translators', "'", '3', 'cats', ',', '犬', '猫', '.']
    """
    word = _SPACED_WORD if text.isascii() or not UNSPACED.search(text) else _ANY_WORD
    return word.findall(text.lower())[:most]


class SentenceWords(Protocol):
    """Words of many sentences, as a `LinkModel` asks for them: at once (`WordIds`), or packed."""

    @property
    def lengths(self) -> NDArray[np.integer]:
        """The number of words of each sentence."""
        ...

    def count_words(self) -> Ints:
        """Return how often each id occurs."""
        ...

    def select(self, sentences: Ints) -> tuple[NDArray[np.int32], Ints, Ints]:
        """Return the ids of these sentences, one after another, and the lengths and the starts among them."""
        ...


@dataclass(frozen=True)
class WordIds:
    """Word ids of many sentences, one after another, with the length and the start of each sentence."""

    ids: NDArray[np.int32]
    lengths: Ints
    starts: Ints

    @classmethod
    def from_lengths(cls, ids: NDArray[np.int32], lengths: Ints) -> "WordIds":
        """Return words that stand one behind the other, so that the starts follow from the lengths."""
        return cls(ids, lengths, np.cumsum(lengths) - lengths)

    def count_words(self) -> Ints:
        """Return how often each id occurs."""
        return np.bincount(self.ids)

    def select(self, sentences: Ints) -> tuple[NDArray[np.int32], Ints, Ints]:
        """Return the ids of these sentences, one after another, and the lengths and the starts among them."""
        lengths = self.lengths[sentences]
        starts = np.cumsum(lengths) - lengths
        places = np.repeat(self.starts[sentences] - starts, lengths) + np.arange(lengths.sum())
        return self.ids[places], lengths, starts


class WordStems(dict[str, int]):
    """Id of each word that was met, by its first letters, the same on both sides."""

    def __init__(self) -> None:
        self._stems: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._stems)

    def __missing__(self, word: str) -> int:
        if super().__len__() > _MOST_REMEMBERED:
            self.clear()
        number = self._number_stem(word[:STEM])
        self[word] = number  # kept, because the same words come again and again
        return number

    def _number_stem(self, stem: str) -> int:
        if len(self._stems) >= _MOST_STEMS and stem not in self._stems:
            return zlib.crc32(stem.encode()) % _MOST_STEMS
        return self._stems.setdefault(stem, len(self._stems))

    @property
    def stems(self) -> list[str]:
        """The first letters of words that have an id of their own, by this id."""
        return list(self._stems)

    def join_stems(self, stems: Sequence[str]) -> NDArray[np.int32]:
        """Return the id here of each stem of a text that stands behind those that were met so far."""
        return np.fromiter(map(self._number_stem, stems), np.int32, count=len(stems))

    def knows_word(self, word: str) -> bool:
        """Whether a word with the same first letters was met."""
        return word[:STEM] in self._stems

    def encode(self, texts: Sequence[str], most: int = MOST_WORDS) -> WordIds:
        """Return the ids of the words of texts, of each text as many as `most`."""
        return self.encode_words([list_words(text, most) for text in texts])

    def encode_words(self, sentences: Sequence[Sequence[str]]) -> WordIds:
        """Return the ids of the words of sentences, which are in lower case."""
        lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
        ids = map(self.__getitem__, chain.from_iterable(sentences))
        joined = np.fromiter(ids, np.int32, count=lengths.sum())
        return WordIds.from_lengths(joined, lengths)


class _PairLinks(NamedTuple):
    """All links of a few pairs: each source word with each target word; the links of a target word are together.

    A position counts the words of one side of all these pairs.
    """

    slots: Ints  # entry of each link in the table
    source_position: Ints
    target_position: Ints
    source_ids: NDArray[np.int32]
    target_ids: NDArray[np.int32]
    source_lengths: Ints
    target_lengths: Ints


class LinkModel:
    """Expected counts of links between words, by IBM model 1 (Brown et al. 1993, 4.1) in a hashed table.

    A table without keys is several times as fast as a sorted one. Links that share an entry add up,
    which blurs counts that are nearly zero anyway.
    """

    def __init__(self, sources: SentenceWords, targets: SentenceWords, i: Ints, j: Ints):
        """Learn from source i[n] and target j[n], for each n; of too many links only every `every`-th pair is read."""
        of_sides = [side.count_words() for side in (sources, targets)]
        self.size = max(1, *map(len, of_sides))
        counts = np.zeros(self.size, np.int64)
        for of_side in of_sides:
            counts[: len(of_side)] += of_side
        # A word that occurs once can have no link that another pair confirms.
        self.known = counts > 1
        self.every = max(1, -(-int((sources.lengths[i] * targets.lengths[j]).sum()) // MOST_LINKS))
        self._learn(sources, targets, i[:: self.every], j[:: self.every])

    def link_chunks(
        self, sources: SentenceWords, targets: SentenceWords, i: Ints, j: Ints
    ) -> Iterator[tuple[slice, _PairLinks]]:
        """Yield the links of source i[n] with target j[n] in chunks of consecutive n."""
        ends = np.cumsum(sources.lengths[i] * targets.lengths[j])
        start = 0
        while start < len(i):
            before = ends[start - 1] if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, before + _LINKS_AT_ONCE, side="right")))
            yield slice(start, stop), self._link(sources, targets, i[start:stop], j[start:stop])
            start = stop

    def _link(self, sources: SentenceWords, targets: SentenceWords, i: Ints, j: Ints) -> _PairLinks:
        source_ids, source_lengths, source_starts = sources.select(i)
        target_ids, target_lengths, _ = targets.select(j)
        # A target word has as many links as its source has words.
        counts = np.repeat(source_lengths, target_lengths)
        first_links = np.cumsum(counts) - counts
        shift = np.repeat(source_starts, target_lengths) - first_links
        source_position = np.repeat(shift, counts) + np.arange(counts.sum())
        target_position = np.repeat(np.arange(len(target_ids)), counts)

        # Fibonacci hashing of source id * size + target id, multiplied
        # word by word: it overflows as it should.
        source_keys = source_ids.astype(np.uint64) * np.uint64(self.size * _MIX % 2**64)
        target_keys = target_ids.astype(np.uint64) * np.uint64(_MIX)
        keys = source_keys[source_position] + np.repeat(target_keys, counts)
        slots = (keys >> np.uint64(64 - SLOTS)).astype(np.int64)
        return _PairLinks(
            slots,
            source_position,
            target_position,
            source_ids,
            target_ids,
            source_lengths,
            target_lengths,
        )

    def _learn(self, sources: SentenceWords, targets: SentenceWords, i: Ints, j: Ints) -> None:
        """Set the table, and the expected number of links of each source word and each target word."""
        chunks = []
        for _, links in self.link_chunks(sources, targets, i, j):
            source = links.source_ids[links.source_position]
            target = links.target_ids[links.target_position]
            known = np.flatnonzero(self.known[source] & self.known[target])
            columns = links.slots, source, target, links.target_position
            chunks.append([column[known].astype(np.int32) for column in columns])

        self.table, self.source_counts = np.ones(2**SLOTS, np.float32), np.ones(self.size)
        self.target_counts = np.ones(self.size)
        for _ in range(ITERATIONS):
            counts = np.zeros(2**SLOTS)
            source_counts, target_counts = np.zeros(self.size), np.zeros(self.size)
            for slots, source, target, position in chunks:
                # A target word is shared out among the source words
                # that it may come from (equation 17).
                shares = self.table[slots] / self.source_counts[source]
                shares /= np.bincount(position, shares)[position]
                np.add.at(counts, slots, shares)
                np.add.at(source_counts, source, shares)
                np.add.at(target_counts, target, shares)

            self.table = counts.astype(np.float32)
            self.source_counts, self.target_counts = np.maximum(source_counts, 1e-9), target_counts
        self.total = float(self.target_counts.sum())

    def features(
        self,
        sources: SentenceWords,
        targets: SentenceWords,
        i: Ints,
        j: Ints,
        learned_from: Bools,
    ) -> Floats:
        """Return what speaks for source i[n] and target j[n] being translations, a row of nine numbers for each n.

        `learned_from` says of each pair whether the links were learned from
        it, too: then its own share is taken out.
        """
        rows = np.empty((len(i), 9))
        for chunk, links in self.link_chunks(sources, targets, i, j):
            rows[chunk] = self._measure(links, learned_from[chunk])
        return rows

    def _measure(self, links: _PairLinks, learned_from: Bools) -> Floats:
        used, ratios = self.link_ratios(links, learned_from)
        pairs = np.arange(len(links.source_lengths))
        s, t = np.maximum(links.source_lengths, 1), np.maximum(links.target_lengths, 1)
        columns = []
        both_ways = (
            (links.target_position[used], links.target_lengths, t, s),
            (links.source_position[used], links.source_lengths, s, t),
        )
        for positions, words, length, other in both_ways:
            pair = np.repeat(pairs, words)
            sums = np.bincount(positions, ratios, minlength=len(pair))
            # log of p(word | the other side) / p(word), by model 1 with the background.
            logs = np.log(BACKGROUND + (1 - BACKGROUND) * sums / other[pair])
            evidence = np.bincount(pair, logs, minlength=len(pairs))
            linked = np.bincount(pair, sums > 0, minlength=len(pairs)) / length
            columns += [evidence / length, evidence / np.sqrt(length), linked]

        columns += [
            np.minimum(columns[0], columns[3]),
            np.abs(np.log((s + 3) / (t + 3))),
            np.log(s + t),
        ]
        return np.stack(columns, axis=1)

    def link_ratios(self, links: _PairLinks, learned_from: Bools) -> tuple[Ints, Floats]:
        """Return the links that mean something, and of each p(target word | source word) / p(target word)."""
        counts = self.table[links.slots]
        same = links.source_ids[links.source_position] == np.repeat(
            links.target_ids, np.repeat(links.source_lengths, links.target_lengths)
        )

        # Most links mean nothing, and what follows is for the others only.
        used = np.flatnonzero((counts > DISCOUNT) | same)
        position = links.target_position[used]
        source = links.source_ids[links.source_position[used]]
        target = links.target_ids[position]
        known = self.known[source] & self.known[target]
        counts = np.where(known, counts[used], 0).astype(np.float64)
        s = np.where(known, self.source_counts[source], 1)
        t = np.where(known, self.target_counts[target], 1)

        # What a pair has added to the count itself is its share in the last round.
        shares = counts / s
        own = np.repeat(learned_from, links.target_lengths)[position]
        totals = np.bincount(position, shares, minlength=len(links.target_ids)) + 1e-12
        counts = np.maximum(counts - own * shares / totals[position] - DISCOUNT, 0)
        ratios = counts * self.total / (np.maximum(s - 1, 1) * np.maximum(t - 1, 1))
        rare = same[used] & (np.minimum(s, t) <= RARE)
        # As if three in ten of its occurrences, at least five, stood on both sides.
        least = 0.3 * self.total / np.maximum(np.maximum(s, t), 5)
        return used, np.where(rare, np.maximum(ratios, least), ratios)
