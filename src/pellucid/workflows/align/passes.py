"""Aligns two lists of sentences in passes: first by lengths, then also by the words that the pass before taught."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pellucid.data.links import WordIds, WordStems
from pellucid.workflows.align.band import Band, Bools, Ints, Path, find_best_path, score_beads
from pellucid.workflows.align.beads import Bead, BeadPriors
from pellucid.workflows.align.length_evidence import LengthEvidence
from pellucid.workflows.align.link_evidence import LinkEvidence, WordEvidence, learn_links

_FIRST_MARGIN = 200  # sentences around the diagonal that the first pass looks at
_LATER_MARGIN = 30  # sentences around the path of the pass before, where that is better than chance
_WIDER = 4  # times that the band is widened where no path in it is better than chance
_MOST_CELLS = 80_000_000  # cells of all bands together, up to which a band is widened
# Cells of a widened band up to which words are looked at, which takes ten times as long.
_MOST_WORD_CELLS = 4_000_000
_WINDOW = 30  # beads over which evidence is averaged, to see whether a path is better than chance
_MOST_WORDS = 200  # words of a sentence that are looked at
# Sentences of a side from which their words can tell whether two books belong together.
FEWEST_SENTENCES = 100
# Evidence for each word by which an alignment must be better than one with the book backwards.
LEAST_MARGIN = 0.05

GoOn = Callable[[], object]


@dataclass(frozen=True)
class SentenceAlignment:
    """The beads of two lists of sentences, in their order, and how they were found."""

    beads: list[Bead]
    by_lengths: list[Bead]
    """The beads as the first pass found them."""
    strength: float
    """Evidence of the words that the beads belong together, for each word in them, as a natural logarithm."""
    chance: float | None
    """The strength of an alignment with the targets in reverse order; None where the books are too small to tell."""
    cells: int
    """Cells of the bands of all passes, which time grows with."""

    @property
    def is_chance(self) -> bool:
        """Whether the alignment is hardly better than one of sentences that do not belong together."""
        return self.chance is not None and self.strength < self.chance + LEAST_MARGIN


def align_books(
    sources: Sequence[str], targets: Sequence[str], go_on: GoOn = lambda: None
) -> SentenceAlignment:
    """Align the sentences of two books; `go_on` is called before each pass over them."""
    if not sources or not targets:
        raise ValueError("an alignment needs sentences on both sides")
    words = WordStems()
    texts = _Texts.read(sources, targets, words)
    passes = _Passes(texts, go_on)
    by_lengths = passes.align_by_lengths()
    beads = passes.repair_doubtful(passes.align_by_words(by_lengths))
    beads = passes.align_by_words(beads)
    beads, strength = passes.score(beads)

    chance = None
    if min(len(sources), len(targets)) >= FEWEST_SENTENCES:
        backwards = _Passes(_Texts.read(sources, targets[::-1], words), go_on)
        _, chance = backwards.score(backwards.align_by_words(backwards.align_by_lengths()))
        passes.cells += backwards.cells
    return SentenceAlignment(beads, by_lengths, strength, chance, passes.cells)


@dataclass(frozen=True)
class _Texts:
    """The lengths and the words of the sentences of two books."""

    source_lengths: Ints
    target_lengths: Ints
    source_words: WordIds
    target_words: WordIds

    @classmethod
    def read(cls, sources: Sequence[str], targets: Sequence[str], words: WordStems) -> "_Texts":
        source_words, target_words = (
            words.encode(sources, _MOST_WORDS),
            words.encode(targets, _MOST_WORDS),
        )
        return cls(_measure_lengths(sources), _measure_lengths(targets), source_words, target_words)


def _measure_lengths(texts: Sequence[str]) -> Ints:
    return np.array([max(len(text), 1) for text in texts])


class _Passes:
    """The passes over one pair of books, which count the cells of their bands."""

    def __init__(self, texts: _Texts, go_on: GoOn):
        self.texts = texts
        self.go_on = go_on
        self.cells = 0

    def align_by_lengths(self) -> list[Bead]:
        """Align by lengths alone, in a band around the diagonal."""
        diagonal = draw_diagonal(self.texts.source_lengths, self.texts.target_lengths)
        band = Band.around(diagonal, _FIRST_MARGIN)
        return self._search_by_lengths(band)

    def align_by_words(self, beads: Sequence[Bead]) -> list[Bead]:
        """Align by lengths and by words whose links are learned from an alignment, in a band around that."""
        return self._search_by_words(Band.around(Path.of_beads(beads), _LATER_MARGIN), beads)

    def repair_doubtful(self, beads: list[Bead]) -> list[Bead]:
        """Search wider and wider where the words of an alignment say no more than chance: a chapter may be missing."""
        margin = _LATER_MARGIN
        while True:
            path = Path.of_beads(beads)
            is_doubtful = self._find_doubtful(beads)
            margin *= _WIDER
            band = _widen(path, is_doubtful, margin)
            is_enough = margin // _WIDER >= max(band.high - band.low)
            if not is_doubtful.any() or is_enough or self.cells + band.cells > _MOST_CELLS:
                return beads
            if band.cells > _MOST_WORD_CELLS:
                beads = self._search_by_lengths(band)
                band = Band.around(Path.of_beads(beads), _LATER_MARGIN)
            beads = self._search_by_words(band, beads)

    def score(self, beads: Sequence[Bead]) -> tuple[list[Bead], float]:
        """Return the beads with their scores, and the evidence of all words in them for each word."""
        evidence = self._learn_words(beads).words
        sums = score_beads(beads, evidence)
        counts = self._count_words(beads)
        per_word = sums / np.maximum(counts, 1)
        scored: list[Bead] = []
        for bead, score in zip(beads, per_word, strict=True):
            scored.append(replace(bead, score=float(score)))
        return scored, float(sums.sum() / max(counts.sum(), 1))

    def _search_by_lengths(self, band: Band) -> list[Bead]:
        self._count(band)
        evidence = LengthEvidence(self.texts.source_lengths, self.texts.target_lengths)
        return find_best_path(band, evidence, BeadPriors.estimate())

    def _search_by_words(self, band: Band, beads: Sequence[Bead]) -> list[Bead]:
        self._count(band)
        return find_best_path(band, self._learn_words(beads), BeadPriors.estimate(beads))

    def _learn_words(self, beads: Sequence[Bead]) -> LinkEvidence:
        texts = self.texts
        links = learn_links(texts.source_words, texts.target_words, beads)
        lengths = LengthEvidence(texts.source_lengths, texts.target_lengths, beads)
        return LinkEvidence(lengths, WordEvidence(texts.source_words, texts.target_words, links))

    def _count(self, band: Band) -> None:
        self.cells += band.cells
        self.go_on()

    def _count_words(self, beads: Sequence[Bead]) -> Ints:
        """Return how many words each bead has on both sides; a gap has none that count."""
        source_ends = np.concatenate([[0], np.cumsum(self.texts.source_words.lengths)])
        target_ends = np.concatenate([[0], np.cumsum(self.texts.target_words.lengths)])
        counts = np.zeros(len(beads), np.int64)
        for place, bead in enumerate(beads):
            if not bead.is_gap:
                counts[place] = source_ends[bead.source.stop] - source_ends[bead.source.start]
                counts[place] += target_ends[bead.target.stop] - target_ends[bead.target.start]
        return counts

    def _find_doubtful(self, beads: Sequence[Bead]) -> Bools:
        """Return for each row whether it is near a window of beads whose words speak against it, or near a long gap."""
        scores = score_beads(beads, self._learn_words(beads).words)
        width = min(_WINDOW, len(beads))
        means = np.convolve(scores, np.full(width, 1 / width), mode="valid")
        is_doubtful = np.zeros(len(self.texts.source_lengths) + 1, bool)
        for window in np.flatnonzero(means <= 0).tolist():
            first, last = beads[window], beads[window + width - 1]
            # The rows beside it, too: between two wrong stretches a few may be right by chance.
            begin = max(first.source.start - _WINDOW, 0)
            is_doubtful[begin : last.source.stop + 1 + _WINDOW] = True
        return is_doubtful


def draw_diagonal(sources: Ints, targets: Ints) -> Path:
    """Return the path on which both books are read at the same rate, by their letters."""
    source_shares = np.concatenate([[0], np.cumsum(sources)]) / sources.sum()
    target_shares = np.concatenate([[0], np.cumsum(targets)]) / targets.sum()
    columns = np.interp(source_shares, target_shares, np.arange(len(targets) + 1))
    columns = np.rint(columns).astype(np.int64)
    columns[0], columns[-1] = 0, len(targets)
    return Path(np.arange(len(sources) + 1), columns)


def _widen(path: Path, is_doubtful: Bools, margin: int) -> Band:
    """Return a band around a path that is wide in doubtful rows, and never wider than their whole stretch needs."""
    first, last = path.column_ranges()
    rows = len(is_doubtful)
    low, high = first - _LATER_MARGIN, last + _LATER_MARGIN
    edges = np.flatnonzero(np.diff(np.concatenate([[False], is_doubtful, [False]])))
    for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        begin, stop = max(start - _LATER_MARGIN, 0), min(end + _LATER_MARGIN, rows)
        stretch = slice(begin, stop)
        low[stretch] = np.maximum(first[stretch] - margin, first[begin] - _LATER_MARGIN)
        high[stretch] = np.minimum(last[stretch] + margin, last[stop - 1] + _LATER_MARGIN)
    return Band.enclose(low, high, int(path.columns[-1]))
