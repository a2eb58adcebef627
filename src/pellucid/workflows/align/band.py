"""The best path through a band around a rough path: dynamic programming over beads, a row for each source sentence."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pellucid.workflows.align.beads import LONGEST_SIDE, SHAPES, Bead, BeadPriors

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Matrix = NDArray[np.floating]
Codes = NDArray[np.uint8]

_CELLS_AT_ONCE = 2**17  # cells whose evidence is in memory together
_MOST_ROWS_AT_ONCE = 64
# What is kept of each cell in one byte: the kind of its best bead,
# or a gap, and whether its gaps begin here.
_SOURCE_GAP, _TARGET_GAP, _KIND = 14, 15, 15  # a gap of the target has all bits of a kind
_SOURCE_GAP_BEGINS, _TARGET_GAP_BEGINS = 16, 32


@dataclass(frozen=True)
class Band:
    """Cells that a path may go through: in row i, after i source sentences, from low[i] up to high[i] target sentences.

    Both rise from row to row; the first row holds 0, and the
    last row the number of target sentences.
    """

    low: Ints
    high: Ints

    @property
    def cells(self) -> int:
        """How many cells it has, which time and memory grow with."""
        return int((self.high - self.low + 1).sum())

    @classmethod
    def around(cls, path: "Path", margin: int) -> "Band":
        """Return the band of all cells that are at most `margin` rows or columns from a path.

        >>> band = Band.around(Path(np.array([0, 1, 1, 2]), np.array([0, 1, 5, 6])), 1)
        >>> band.low.tolist(), band.high.tolist(), band.cells
        ([0, 0, 1], [5, 6, 6], 19)
        """
        rows, columns = int(path.rows[-1]), int(path.columns[-1])
        first, last = path.column_ranges()
        numbers = np.arange(rows + 1)
        low = np.minimum(first - margin, first[np.maximum(numbers - margin, 0)])
        high = np.maximum(last + margin, last[np.minimum(numbers + margin, rows)])
        return cls.enclose(low, high, columns)

    @classmethod
    def enclose(cls, low: Ints, high: Ints, columns: int) -> "Band":
        """Return the smallest band with these cells and both corners; some may be outside of the columns there are."""
        # Where one row reaches further than the next, the wider
        # one counts: a band never turns back.
        low = np.minimum.accumulate(low[::-1])[::-1]
        high = np.maximum.accumulate(high)
        low[0], high[-1] = 0, columns
        low, high = np.clip(low, 0, columns), np.clip(high, 0, columns)
        # A path can go straight down from each row to the next.
        low[1:] = np.minimum(low[1:], high[:-1])
        return cls(low, high)


@dataclass(frozen=True)
class Path:
    """A path from corner to corner: points (row, column) that never go back."""

    rows: Ints
    columns: Ints

    @classmethod
    def of_beads(cls, beads: Sequence[Bead]) -> "Path":
        rows = [0, *(bead.source.stop for bead in beads)]
        columns = [0, *(bead.target.stop for bead in beads)]
        return cls(np.array(rows), np.array(columns))

    def column_ranges(self) -> tuple[Ints, Ints]:
        """Return the first and the last column of the path in each row, between its points on a straight line."""
        numbers = np.arange(int(self.rows[-1]) + 1)
        first = np.searchsorted(self.rows, numbers, side="left")
        last = np.searchsorted(self.rows, numbers, side="right") - 1
        is_point = self.rows[np.minimum(first, len(self.rows) - 1)] == numbers
        between = np.interp(numbers, self.rows, self.columns)
        low = np.where(
            is_point, self.columns[np.minimum(first, len(self.rows) - 1)], np.floor(between)
        )
        high = np.where(is_point, self.columns[last], np.ceil(between))
        return low.astype(np.int64), high.astype(np.int64)


class Evidence(Protocol):
    """Evidence for beads: how much more likely their sides are as translations than by chance, as logarithms."""

    def weigh(self, first: int, end: int, low: int, high: int) -> list[Matrix]:
        """Return for each of `SHAPES` a matrix: a row for each source sentence from `first` to before `end`.

        Row i - first and column j - low hold the evidence for the bead that ends
        after source sentence i and target sentence j. Where a bead would begin
        before the first sentence, any number may stand.
        """
        ...


class _LastRows:
    """Scores of the best paths to the cells of the last rows, for every column; -inf where a row has no cell."""

    def __init__(self, columns: int):
        # Beads reach back by a few columns, also from the first one.
        self._rows = [np.full(columns + LONGEST_SIDE, -np.inf) for _ in range(LONGEST_SIDE + 1)]
        self._ranges = [(0, 0)] * len(self._rows)
        self._source_gap = np.full(columns + LONGEST_SIDE, -np.inf)
        self._gap_range = (0, 0)

    def slice_row(self, back: int, low: int, high: int) -> Floats:
        """Return the columns from `low` to before `high` of the row that was added `back` rows ago, 1 for the last."""
        return self._rows[-back][low + LONGEST_SIDE : high + LONGEST_SIDE]

    def slice_source_gap(self, low: int, high: int) -> Floats:
        """Return the best scores of paths to the last row that leave its sentence without a partner."""
        return self._source_gap[low + LONGEST_SIDE : high + LONGEST_SIDE]

    def add_row(self, low: int, best: Matrix, source_gap: Matrix) -> None:
        """Add a row whose first cell is in column `low`; the oldest row is forgotten."""
        row, (first, end) = self._rows.pop(0), self._ranges.pop(0)
        row[first:end] = -np.inf
        start = low + LONGEST_SIDE
        span = (start, start + len(best))
        row[span[0] : span[1]] = best
        self._rows.append(row)
        self._ranges.append(span)
        self._source_gap[self._gap_range[0] : self._gap_range[1]] = -np.inf
        self._source_gap[span[0] : span[1]] = source_gap
        self._gap_range = span


def find_best_path(band: Band, evidence: Evidence, priors: BeadPriors) -> list[Bead]:
    """Return the beads of the best path from corner to corner inside a band.

    Gaps are runs: beginning one is rare, and going on is cheap (affine gaps; Gotoh 1982).
    """
    last_rows = _LastRows(int(band.high[-1]) + 1)
    codes = [_begin_path(band, last_rows, priors)]
    steps = priors.gap_goes_on * np.arange(int((band.high - band.low).max()) + 1)
    costs = np.array(priors.shapes)[:, None, None]
    for first, end in _divide_rows(band.low[1:], band.high[1:]):
        # The cells of column j stand after target sentence j - 1; in
        # column 0, before the first, no bead ends.
        low, high = int(band.low[first + 1]), int(band.high[end]) + 1
        scores = np.zeros((len(SHAPES), end - first, high - low))
        matrices = evidence.weigh(first, end, max(low - 1, 0), high - 1)
        scores[:, :, 1 if low == 0 else 0 :] = matrices
        scores += costs
        for row in range(first, end):
            row_low, row_high = int(band.low[row + 1]), int(band.high[row + 1]) + 1
            row_scores = scores[:, row - first, row_low - low : row_high - low]
            codes.append(_add_row(row_low, row_scores, last_rows, priors, steps))

    return _trace_back(band, codes)


def _begin_path(band: Band, last_rows: _LastRows, priors: BeadPriors) -> Codes:
    """Add the row before any source sentence, with target sentences in a gap; return the code of each of its cells."""
    width = int(band.high[0]) + 1
    best = priors.gap_begins + priors.gap_goes_on * (np.arange(width) - 1.0)
    best[0] = 0.0
    last_rows.add_row(0, best, np.full(width, -np.inf))
    codes = np.full(width, _TARGET_GAP, np.uint8)
    codes[1:2] |= _TARGET_GAP_BEGINS
    return codes


def _add_row(
    low: int, scores: Floats, last_rows: _LastRows, priors: BeadPriors, steps: Matrix
) -> Codes:
    """Add a row of cells, given the score of each shape in each of them; return the code of each cell."""
    high = low + scores.shape[1]
    paths = np.empty(scores.shape)
    for kind, (source_side, target_side) in enumerate(SHAPES):
        before = last_rows.slice_row(source_side, low - target_side, high - target_side)
        np.add(before, scores[kind], out=paths[kind])
    codes = paths.argmax(axis=0).astype(np.uint8)
    best = paths.max(axis=0)

    begins = last_rows.slice_row(1, low, high) + priors.gap_begins
    goes_on = last_rows.slice_source_gap(low, high) + priors.gap_goes_on
    source_gap = np.maximum(begins, goes_on)
    codes[source_gap > best] = _SOURCE_GAP
    codes += (begins >= goes_on) * np.uint8(_SOURCE_GAP_BEGINS)
    np.maximum(best, source_gap, out=best)

    # A run of target sentences without a partner begins at the
    # column that is best, its length paid for.
    without_steps = best - steps[: len(best)]
    beginnings = np.maximum.accumulate(without_steps)[:-1]
    target_gap = beginnings + steps[: len(best) - 1] + priors.gap_begins
    codes[1:][target_gap > best[1:]] |= _TARGET_GAP
    codes[1:] += (beginnings == without_steps[:-1]) * np.uint8(_TARGET_GAP_BEGINS)
    np.maximum(best[1:], target_gap, out=best[1:])
    last_rows.add_row(low, best, source_gap)
    return codes


def score_beads(beads: Sequence[Bead], evidence: Evidence) -> Floats:
    """Return the evidence for each bead; for a gap there is none, and it is 0."""
    scores = np.zeros(len(beads))
    places = [place for place, bead in enumerate(beads) if not bead.is_gap]
    position = 0
    while position < len(places):
        # As many beads as end in a square of cells that fits into memory.
        first, low = (
            beads[places[position]].source.stop - 1,
            beads[places[position]].target.stop - 1,
        )
        chosen = []
        while position < len(places):
            bead = beads[places[position]]
            if max(bead.source.stop - first, bead.target.stop - low) > _MOST_ROWS_AT_ONCE:
                break
            chosen.append(places[position])
            position += 1

        last = beads[chosen[-1]]
        matrices = evidence.weigh(first, last.source.stop, low, last.target.stop)
        for place in chosen:
            bead = beads[place]
            matrix = matrices[SHAPES.index(bead.shape)]
            scores[place] = matrix[bead.source.stop - 1 - first, bead.target.stop - 1 - low]

    return scores


def _divide_rows(low: Ints, high: Ints) -> list[tuple[int, int]]:
    """Divide rows, with their first and last columns, into blocks whose cells fit into memory together."""
    blocks: list[tuple[int, int]] = []
    first = 0
    while first < len(low):
        end = first + 1
        while end < len(low) and end - first < _MOST_ROWS_AT_ONCE:
            width = int(high[end] - low[first]) + 1
            if (end + 1 - first) * width > _CELLS_AT_ONCE:
                break
            end += 1

        blocks.append((first, end))
        first = end
    return blocks


def _trace_back(band: Band, codes: Sequence[Codes]) -> list[Bead]:
    """Follow the best path from its end to its beginning."""
    beads: list[Bead] = []
    row, column = len(codes) - 1, int(band.high[-1])
    gap = 0  # the gap that the path is in
    while row > 0 or column > 0:
        code = int(codes[row][column - band.low[row]])
        kind = gap or code & _KIND
        if kind == _SOURCE_GAP:
            beads.append(Bead(range(row - 1, row), range(column, column)))
            gap = 0 if code & _SOURCE_GAP_BEGINS else _SOURCE_GAP
            row -= 1
        elif kind == _TARGET_GAP:
            beads.append(Bead(range(row, row), range(column - 1, column)))
            gap = 0 if code & _TARGET_GAP_BEGINS else _TARGET_GAP
            column -= 1
        else:
            source_side, target_side = SHAPES[kind]
            beads.append(Bead(range(row - source_side, row), range(column - target_side, column)))
            row, column = row - source_side, column - target_side

    return beads[::-1]
