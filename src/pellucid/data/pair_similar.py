"""Similar pairs while training: some sources are read after the translation of a similar sentence of the same text.

So a model learns to use the similar units of a translation memory (neural fuzzy repair: Bulte and
Tezcan 2019). Which pairs follows from the seed of the epoch and the number of the pair alone, and
which sentence is the most similar one from the text.
"""

from difflib import SequenceMatcher
from itertools import chain
from random import Random

import numpy as np
from numpy.typing import NDArray

from pellucid.data.batching import EncodedPairs, pack_sentences
from pellucid.data.context import read_after_similar
from pellucid.data.pair_noise import draw_uniform, lengthen, sample_evenly
from pellucid.data.tokenizer import Tokenizer, strip_eos

# Share of the tokens that a similar sentence has in common; less teaches to ignore it.
_LEAST_SIMILAR = 0.6
_INDEXED_PAIRS = 200_000  # pairs among which similar ones are looked for, spread evenly
_POSTINGS = 4000  # sentences with a token of the source that are looked at, the rarest tokens first
_CANDIDATES = 8  # sentences that share most tokens, whose similarity is measured
_SAMPLED_PAIRS = 200  # pairs by which it is estimated how many have a similar one
_RENAMED = 0.75  # share of the sources read so whose similar translation has a word that only this pair has, too
_MADE_UP = 0.6  # share of such words that no text has
_MOST_CONTINUED = 3  # tokens behind the first one of a word that is made up
_LEAST_LETTERS = 3  # of such a word
_SIMILAR_SEED = 0x51B1A


class SimilarPairs:
    """Puts the translation of a similar sentence before sources, as `read_after_similar` does in translation."""

    def __init__(self, encoded: EncodedPairs, tokenizer: Tokenizer, share: float, max_pieces: int):
        """Index the tokens of these pairs; a source that would have more than `max_pieces` is shown as it is."""
        assert tokenizer.memory_mark is not None
        self.encoded, self.mark = encoded, tokenizer.memory_mark
        self.share, self.max_pieces = share, max_pieces
        self.indexed = sample_evenly(len(encoded), _INDEXED_PAIRS)
        lengths = encoded.sources.lengths_of(self.indexed)
        rows = [encoded.sources[i] for i in self.indexed.tolist()]
        tokens = np.fromiter(chain.from_iterable(rows), np.int64, count=int(lengths.sum()))
        # Each token once a sentence, sorted by token: the sentences of token t are
        # postings[starts[t]:starts[t + 1]].
        width = len(self.indexed)
        keys = np.unique(tokens * width + np.repeat(np.arange(width), lengths))
        token_of_key, self.postings = np.divmod(keys, width)
        self.starts = np.searchsorted(token_of_key, np.arange(tokenizer.source_vocabulary + 1))
        names = tokenizer.target_names
        begins, continues = [], []
        for i, name in enumerate(names):
            if name[:1] == "▁" and name[1:].isalpha():
                begins.append(i)
            elif name.isalpha():
                continues.append(i)
        # In their order, to draw from.
        self.first_tokens, self.further_tokens = begins, continues
        self.begins_word, self.continues_word = frozenset(begins), frozenset(continues)
        self.letters = [len(name.strip("▁")) for name in names]
        self.growth = self._measure_growth()

    def plant(
        self,
        encoded: EncodedPairs,
        rows: NDArray[np.integer],
        numbers: NDArray[np.integer],
        seed: int,
    ) -> EncodedPairs:
        """Return these rows of the pairs, in their order, some of them after a similar translation."""
        sources = [encoded.sources[i].tolist() for i in rows]
        targets = [encoded.targets[i].tolist() for i in rows]
        for row in np.flatnonzero(self._draw(numbers, seed)).tolist():
            similar = self.find_similar(int(numbers[row]))
            if similar is not None:
                told, target = strip_eos(self.encoded.targets[similar].tolist()), targets[row]
                random = Random((seed << 64) + int(numbers[row]) + _SIMILAR_SEED)
                if random.random() < _RENAMED:
                    told, target = self._rename_word(told, target, random)
                source = read_after_similar(sources[row], told, self.mark)
                if max(len(source), len(target)) <= self.max_pieces:
                    sources[row], targets[row] = source, target
        return EncodedPairs(
            pack_sentences(sources, encoded.sources.ids.dtype.type),
            pack_sentences(targets, encoded.targets.ids.dtype.type),
        )

    def expect_lengths(
        self, source_lengths: NDArray[np.int32], numbers: NDArray[np.integer], seed: int
    ) -> NDArray[np.int32]:
        """Return about how many tokens the sources of these pairs have, so that batches can be made of them."""
        chosen = self._draw(numbers, seed)
        return lengthen(source_lengths, chosen, self.growth, self.max_pieces)

    def find_similar(self, number: int) -> int | None:
        """Return the pair with the most similar source that is not the same; None where none is similar enough."""
        own = self.encoded.sources[number]
        tokens = np.unique(own).astype(np.int64)
        counts = self.starts[tokens + 1] - self.starts[tokens]
        found: list[NDArray[np.int64]] = []
        visited = 0
        for i in np.argsort(counts, kind="stable").tolist():
            visited += int(counts[i])
            if visited > _POSTINGS and found:
                break
            start, end = self.starts[tokens[i]], self.starts[tokens[i] + 1]
            found.append(self.postings[start:end][:_POSTINGS])
        sentences, shared = np.unique(np.concatenate(found), return_counts=True)
        # The most shared tokens first; of equal ones, the first in the text.
        order = np.lexsort((sentences, -shared))[: _CANDIDATES + 1]
        source, best = own.tolist(), (_LEAST_SIMILAR, -1)
        matcher = SequenceMatcher(None, autojunk=False)
        matcher.set_seq2(source)
        for candidate in self.indexed[sentences[order]].tolist():
            other = self.encoded.sources[candidate].tolist()
            if candidate == number or other == source:
                continue
            matcher.set_seq1(other)
            if matcher.real_quick_ratio() >= best[0] and (ratio := matcher.ratio()) > best[0]:
                best = ratio, candidate
        return None if best[1] < 0 else best[1]

    def _rename_word(
        self, told: list[int], target: list[int], random: Random
    ) -> tuple[list[int], list[int]]:
        """Return a similar translation and the target with another word in the place of one that both have.

        A model that knows the usual word learns so to write the one that the memory has. The other
        word comes from any target, or is made up of the first token of a word and some that
        continue words.
        """
        words = self._list_words(told)
        common = sorted(set(words).intersection(self._list_words(target)))
        other = self._list_words(self.encoded.targets[random.randrange(len(self.encoded))].tolist())
        # Text without spaces, such as Chinese, may have no token that begins a word.
        if random.random() < _MADE_UP and self.first_tokens and self.further_tokens:
            continued = random.choices(self.further_tokens, k=random.randint(1, _MOST_CONTINUED))
            other = [(random.choice(self.first_tokens), *continued)]
        if not common or not other:
            return told, target
        old, new = random.choice(common), random.choice(other)
        return _replace_tokens(told, old, new), _replace_tokens(target, old, new)

    def _list_words(self, tokens: list[int]) -> list[tuple[int, ...]]:
        """Return the words of a target that have some letters and no other signs, as tokens."""
        words: list[tuple[int, ...]] = []
        word: list[int] = []
        for token in [*tokens, -1]:
            if word and token in self.continues_word:
                word.append(token)
                continue
            if sum(self.letters[i] for i in word) >= _LEAST_LETTERS:
                words.append(tuple(word))
            word = [token] if token in self.begins_word else []
        return words

    def _measure_growth(self) -> float:
        """Return how many times longer a source is with a similar translation, from some pairs."""
        sample = sample_evenly(len(self.encoded), _SAMPLED_PAIRS)
        before = after = 0
        for number in sample.tolist():
            length, similar = len(self.encoded.sources[number]), self.find_similar(number)
            before += length
            after += length + (0 if similar is None else len(self.encoded.targets[similar]) + 1)
        return after / before

    def _draw(self, numbers: NDArray[np.integer], seed: int) -> NDArray[np.bool_]:
        """Draw which pairs are read after a similar one, if they have one."""
        return draw_uniform(numbers, seed ^ _SIMILAR_SEED) < self.share


def _replace_tokens(tokens: list[int], old: tuple[int, ...], new: tuple[int, ...]) -> list[int]:
    """Return tokens with others in the place of each stretch that is the same as `old`.

    >>> _replace_tokens([1, 2, 3, 1, 2], (1, 2), (7,))
    [7, 3, 7]
    """
    replaced: list[int] = []
    place = 0
    while place < len(tokens):
        is_there = tuple(tokens[place : place + len(old)]) == old
        replaced += new if is_there else tokens[place : place + 1]
        place += len(old) if is_there else 1
    return replaced
