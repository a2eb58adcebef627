"""Evidence from words: which words are translations of each other is learned from the books (Moore 2002)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pellucid.data.links import RARE, LinkModel, WordIds
from pellucid.workflows.align.band import Evidence, Floats, Ints, Matrix
from pellucid.workflows.align.beads import LONGEST_SIDE, SHAPES, Bead

# Links of words that come together less often than so many times by chance say nothing.
_LEAST_RATIO = 1.5
_NO_LINK = 0.3  # share of the words of a translation that have no link to any word of its source
# Share of the evidence of words that counts, for the words of a sentence depend on each other.
_TRUST = 0.3


class WordLinks:
    """Links between words, each with how many times more often both come together than by chance."""

    def __init__(self, left: Ints, right: Ints, ratios: Matrix, size: int):
        """Take links from word left[n] to word right[n]; the ids of words are below `size`."""
        order = np.argsort(left, kind="stable")
        self.size = size
        self.right, self.ratios = right[order], ratios[order].astype(np.float32)
        self.starts = np.searchsorted(left[order], np.arange(size + 1))
        self.is_linked = np.zeros(size, bool)
        self.is_linked[right] = True

    def turn(self) -> "WordLinks":
        """Return the same links from right to left."""
        left = np.repeat(np.arange(self.size), np.diff(self.starts))
        return WordLinks(self.right, left, self.ratios, self.size)

    def list_links(self, words: Ints) -> tuple[Ints, Ints, NDArray[np.float32]]:
        """Return for each link of these words the place of the word among them, the word linked to, and the ratio."""
        counts = self.starts[words + 1] - self.starts[words]
        places = np.repeat(np.arange(len(words)), counts)
        begins = np.cumsum(counts) - counts
        links = np.arange(len(places)) - np.repeat(begins - self.starts[words], counts)
        return places, self.right[links], self.ratios[links]


def learn_links(sources: WordIds, targets: WordIds, beads: Sequence[Bead]) -> WordLinks:
    """Learn links between words from the beads with one sentence on each side, by IBM model 1.

    A rare word of both books, such as a name or a number, is linked to itself wherever it stands.
    """
    pairs = [bead for bead in beads if bead.shape == (1, 1)]
    i = np.array([bead.source.start for bead in pairs], np.int64)
    j = np.array([bead.target.start for bead in pairs], np.int64)
    model = LinkModel(sources, targets, i, j)
    chunks = [_link_shared_words(sources, targets, model.size)]
    for chunk, links in model.link_chunks(sources, targets, i, j):
        used, ratios = model.link_ratios(links, np.ones(chunk.stop - chunk.start, bool))
        left = links.source_ids[links.source_position[used]].astype(np.int64)
        right = links.target_ids[links.target_position[used]].astype(np.int64)
        is_strong = ratios >= _LEAST_RATIO
        chunks.append((left[is_strong] * model.size + right[is_strong], ratios[is_strong]))

    keys = np.concatenate([chunk_keys for chunk_keys, _ in chunks])
    ratios = np.concatenate([chunk_ratios for _, chunk_ratios in chunks])
    distinct, places = np.unique(keys, return_inverse=True)
    strongest = np.zeros(len(distinct))
    np.maximum.at(strongest, places, ratios)
    return WordLinks(distinct // model.size, distinct % model.size, strongest, model.size)


def _link_shared_words(sources: WordIds, targets: WordIds, size: int) -> tuple[Ints, Floats]:
    """Return the links of rare words of both books to themselves."""
    source_counts = np.bincount(sources.ids, minlength=size)
    target_counts = np.bincount(targets.ids, minlength=size)
    most = np.maximum(source_counts, target_counts)
    words = np.flatnonzero((source_counts > 0) & (target_counts > 0) & (most <= RARE))
    # As if three in ten of its occurrences, at least five, stood on both sides.
    return words * size + words, 0.3 * len(targets.ids) / np.maximum(most[words], 5)


class WordEvidence:
    """How much more likely the words of both sides of a bead are given each other than by chance.

    A word of one side comes from any word of the other side, or from none;
    the evidence is the mean of both directions.
    """

    def __init__(self, sources: WordIds, targets: WordIds, links: WordLinks):
        self._sources, self._targets = sources, targets
        self._links, self._turned_links = links, links.turn()

    def weigh(self, first: int, end: int, low: int, high: int) -> list[Matrix]:
        """Return a matrix for each of `SHAPES`, as `Evidence` says."""
        # Longer beads begin before the first row and column that are asked for.
        before, left = min(first, LONGEST_SIDE - 1), min(low, LONGEST_SIDE - 1)
        rows, columns = range(first - before, end), range(low - left, high)
        forward = _explain_words(self._sources, rows, self._targets, columns, self._links)
        backward = _explain_words(self._targets, columns, self._sources, rows, self._turned_links)

        matrices: list[Matrix] = []
        for source_side, target_side in SHAPES:
            # Words of several sentences add up; what they are explained by was joined already.
            explained = _add_last(forward[source_side], target_side)
            explained = explained + _add_last(backward[target_side], source_side).T
            matrices.append(explained[before:, left:] / 2)
        return matrices


class LinkEvidence:
    """Evidence from lengths and words together."""

    def __init__(self, lengths: Evidence, words: WordEvidence):
        self.lengths, self.words = lengths, words

    def weigh(self, first: int, end: int, low: int, high: int) -> list[Matrix]:
        """Return a matrix for each of `SHAPES`, as `Evidence` says."""
        lengths = self.lengths.weigh(first, end, low, high)
        words = self.words.weigh(first, end, low, high)
        pairs = zip(lengths, words, strict=True)
        return [by_length + _TRUST * by_words for by_length, by_words in pairs]


def _explain_words(
    given: WordIds, rows: range, explained: WordIds, columns: range, links: WordLinks
) -> list[Matrix]:
    """Return how well sentences explain the words of others: a matrix for each number of sentences that are joined.

    The matrix of number n has a row for each of the given sentences, joined with the n - 1 before
    it, and a column for each explained one; the matrix of number 0 is empty.
    """
    words, lengths = _select_range(given, rows)
    others, other_lengths = _select_range(explained, columns)
    local = np.full(links.size, -1)
    vocabulary = np.unique(others)
    vocabulary = vocabulary[links.is_linked[vocabulary]]
    local[vocabulary] = np.arange(len(vocabulary))

    # How strongly each sentence is linked to each word: the sum of the ratios of its own words.
    places, linked, ratios = links.list_links(words)
    columns_of_links = local[linked]
    is_present = columns_of_links >= 0
    row_of_word = np.repeat(np.arange(len(lengths)), lengths)
    cells = row_of_word[places[is_present]] * len(vocabulary) + columns_of_links[is_present]
    strengths = np.bincount(cells, ratios[is_present], minlength=len(lengths) * len(vocabulary))
    strengths = strengths.astype(np.float32).reshape(len(lengths), len(vocabulary))

    # How often each explained sentence has each word.
    column_of_word = np.repeat(np.arange(len(other_lengths)), other_lengths)
    row_of_count = local[others]
    is_known = row_of_count >= 0
    count_cells = row_of_count[is_known] * len(other_lengths) + column_of_word[is_known]
    counts = np.bincount(count_cells, minlength=len(vocabulary) * len(other_lengths))
    counts = counts.astype(np.float32).reshape(len(vocabulary), len(other_lengths))

    matrices: list[Matrix] = [np.zeros((0, 0))]
    for joined in range(1, LONGEST_SIDE + 1):
        sums = _add_last(strengths.T, joined).T
        total = np.maximum(_add_last(lengths[None, :].astype(np.float32), joined)[0], 1)
        logs = np.log(_NO_LINK + (1 - _NO_LINK) * sums / total[:, None])
        matrices.append(logs @ counts)
    return matrices


def _select_range(words: WordIds, sentences: range) -> tuple[Ints, Ints]:
    """Return the words of consecutive sentences, one after another, and how many each sentence has."""
    lengths = words.lengths[sentences.start : sentences.stop]
    begin = int(words.starts[sentences.start])
    return words.ids[begin : begin + int(lengths.sum())].astype(np.int64), lengths


def _add_last(matrix: Matrix, count: int) -> Matrix:
    """Return at each column the sum of the last `count` columns up to it.

    >>> _add_last(np.array([[1.0, 2.0, 3.0]]), 2).tolist()
    [[1.0, 3.0, 5.0]]
    """
    result = matrix.copy()
    for distance in range(1, count):
        result[:, distance:] += matrix[:, :-distance]
    return result
