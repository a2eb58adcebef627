"""Noise while training: some pairs of each batch are shown as careless people would have typed them.

Which pairs, and how, follows from the seed of the epoch and the number of the pair alone, so that a
resumed run shows the same, and so does any number of workers.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import islice
from random import Random
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from pellucid.data.batching import EncodedPairs, pack_sentences
from pellucid.data.context import count_context
from pellucid.data.piece_splits import PieceSplitter
from pellucid.data.text.noise import (
    NOISE_KINDS,
    TextPair,
    drop_sentences,
    join_pairs,
    plant_capitals,
    plant_title_case,
)
from pellucid.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer

_LINES_AT_ONCE = 2**16  # pairs whose kind of noise is drawn at a time
_SAMPLED_PAIRS = 100  # pairs by which the length of noisy ones is estimated


@dataclass(frozen=True)
class NoiseConfig:
    """Shares of the training pairs that are shown with noise, each pair with one kind, and the part of the run."""

    capitals: Annotated[float, "share of the pairs that are shown in capitals, on both sides"] = 0.0
    title_case: Annotated[
        float,
        "share with a capital on each word of the source, and a title as the target language writes it",
    ] = 0.0
    small_letters: Annotated[float, "share with a source in small letters"] = 0.0
    end_marks: Annotated[float, "share without the end mark, or with several, on both sides"] = 0.0
    typing_errors: Annotated[
        float,
        "share with typing errors in the source, one for 25 letters",
    ] = 0.0
    lost_accents: Annotated[float, "share with a source without accents"] = 0.0
    spellings: Annotated[
        float,
        "share with other quotation marks, apostrophes, dashes and spaces in the source",
    ] = 0.0
    marks: Annotated[
        float,
        "share with a number or a bullet before both sides, or quotation marks or brackets around them",
    ] = 0.0
    copies: Annotated[
        float,
        "share with an address, a code, a placeholder or an emoji before or behind both sides",
    ] = 0.0
    sentences: Annotated[
        float,
        "share joined with the next pair of the file; or, where a pair has several sentences, with one of them alone",
    ] = 0.0
    pieces: Annotated[
        float,
        "share with a quarter of the pieces of the source cut in two, as misspelled words are",
    ] = 0.0
    from_: Annotated[float, "share of the run that is over when the noise begins"] = 0.0
    until: Annotated[float, "share of the run that is over when the noise ends"] = 1.0

    def __post_init__(self) -> None:
        problems = [
            f"{name} is {share:g}, it must be from 0 to 1"
            for name, share in {**self.shares, "from": self.from_, "until": self.until}.items()
            if not 0 <= share <= 1
        ]
        if not problems and sum(self.shares.values()) > 1:
            problems.append(
                f"the shares add up to {sum(self.shares.values()):g}; each pair has one kind of noise, so that they "
                "can be 1 together at most"
            )
        if not problems and self.from_ >= self.until:
            problems.append(
                f"from is {self.from_:g} and until is {self.until:g}; noise must begin before it ends"
            )
        if problems:
            raise ValueError("data.noise: " + "; ".join(problems))

    @property
    def shares(self) -> dict[str, float]:
        """Share of the pairs that each kind of noise is planted into."""
        names = [setting.name for setting in fields(self) if setting.name not in ("from_", "until")]
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class PairNoise:
    """Plants noise into encoded pairs: reads their ids as text, and encodes the noisy text."""

    config: NoiseConfig
    tokenizer: Tokenizer
    max_pieces: int  # a pair that noise would make longer is shown as it is
    source_language: str | None = None
    target_language: str | None = None

    def plant(
        self,
        encoded: EncodedPairs,
        indices: NDArray[np.integer],
        seed: int,
        backwards: bool = False,
    ) -> EncodedPairs:
        """Return the chosen pairs, in their order, some of them with noise.

        Each pair has a random generator of its own, so that its noise does not depend on what else
        is chosen. With `backwards`, the targets are what will be translated: they get the errors
        that only a source has.
        """
        rows = [[side[i].tolist() for i in indices] for side in (encoded.sources, encoded.targets)]
        names = [*self.config.shares]
        noisy = {}
        for row, number in enumerate(self._draw_numbers(indices, seed).tolist()):
            if number == len(names):
                continue
            index = int(indices[row])
            random = Random((seed << 64) + index)
            if names[number] == "pieces":
                read = rows[1 if backwards else 0]
                pieces = self._splitter.split(read[row], random)
                if len(pieces) <= self.max_pieces:
                    read[row] = pieces
                continue
            pair = self._plant_one(encoded, index, names[number], random, backwards)
            if pair is not None:
                noisy[row] = pair
        sources = self.tokenizer.encode_source_text([pair.source for pair in noisy.values()])
        targets = self.tokenizer.encode_target([pair.target for pair in noisy.values()])
        for row, source, target in zip(noisy, sources, targets, strict=True):
            # A language to write, or a context, stays in front of the noisy sentence.
            source = rows[0][row][: count_context(rows[0][row])] + source
            if max(len(source), len(target)) <= self.max_pieces:
                rows[0][row], rows[1][row] = source, target
        sides = [
            pack_sentences(side_rows, side.ids.dtype.type)
            for side_rows, side in zip(rows, (encoded.sources, encoded.targets), strict=True)
        ]
        return EncodedPairs(sides[0], sides[1])

    def expect_lengths(
        self,
        encoded: EncodedPairs,
        indices: NDArray[np.integer],
        ratios: NDArray[np.float64],
        seed: int,
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return about how many tokens `plant` gives the sides of these pairs, so that batches can be made of them.

        `ratios` come from `measure_ratios`.
        """
        sides = encoded.sources, encoded.targets
        expected = np.stack([side.lengths_of(indices) for side in sides])
        names = [*self.config.shares]
        for first in range(0, len(indices), _LINES_AT_ONCE):
            rows = slice(first, first + _LINES_AT_ONCE)
            block = indices[rows]
            numbers = self._draw_numbers(block, seed)
            noisy = expected[:, rows] * ratios[:, numbers]

            places = np.flatnonzero(numbers == names.index("sentences"))
            neighbours = _find_neighbours(encoded, block[places])
            places, neighbours = places[neighbours >= 0], neighbours[neighbours >= 0]
            # Two sentences, and one end.
            for lengths, side in zip(noisy, sides, strict=True):
                lengths[places] = side.lengths_of(block[places]) + side.lengths_of(neighbours) - 1
            is_short = noisy.max(axis=0) <= self.max_pieces
            expected[:, rows][:, is_short] = np.rint(noisy[:, is_short])
        return expected[0], expected[1]

    def measure_ratios(self, encoded: EncodedPairs) -> NDArray[np.float64]:
        """Return how many times longer each kind of noise makes the two sides, from some pairs; 1 without noise."""
        names = [*self.config.shares]
        sample = sample_evenly(len(encoded), _SAMPLED_PAIRS)
        before = [int(side.lengths_of(sample).sum()) for side in (encoded.sources, encoded.targets)]
        ratios = np.ones((2, len(names) + 1))
        for number, name in enumerate(names):
            if name != "sentences" and self.config.shares[name]:
                only_this = replace(self, config=NoiseConfig(**{name: 1.0}))
                planted = only_this.plant(encoded, sample, seed=0)
                after = planted.sources.lengths.sum(), planted.targets.lengths.sum()
                ratios[:, number] = [now / then for now, then in zip(after, before, strict=True)]
        return ratios

    def _draw_numbers(self, indices: NDArray[np.integer], seed: int) -> NDArray[np.intp]:
        """Draw the number of the kind of noise of each pair, in the order of the shares; behind the last for none."""
        ends = np.cumsum([*self.config.shares.values()])
        return np.searchsorted(ends, draw_uniform(indices, seed), side="right")

    def _plant_one(
        self, encoded: EncodedPairs, index: int, kind: str, random: Random, backwards: bool
    ) -> TextPair | None:
        """Return one pair with noise, or None where it stays as it is."""
        pair = self._read_pair(encoded, index)
        if pair is None:
            return None
        if kind == "sentences":
            noisy = drop_sentences(pair, random)
            [neighbour] = _find_neighbours(encoded, np.array([index])).tolist()
            following = None
            if noisy == pair and neighbour >= 0:
                following = self._read_pair(encoded, neighbour)
            if following is not None:
                noisy = join_pairs(pair, following)
        else:
            noisy = NOISE_KINDS[kind](pair.exchange() if backwards else pair, random)
            noisy = noisy.exchange() if backwards else noisy
        # An empty side would teach to leave everything out.
        return noisy if noisy != pair and noisy.source and noisy.target else None

    def _read_pair(self, encoded: EncodedPairs, index: int) -> TextPair | None:
        """Return the text of a pair, without what stands before its source; None where a part of it is unknown."""
        source, target = encoded.sources[index].tolist(), encoded.targets[index].tolist()
        if UNK in source or UNK in target:
            return None
        written = self._languages.get(source[0], self.target_language)
        text = self.tokenizer.decode_source(source[count_context(source) :])
        return TextPair(text, self.tokenizer.decode_target(target), self.source_language, written)

    @cached_property
    def _splitter(self) -> PieceSplitter:
        # Of the source's pieces: a target is read only where both sides have one vocabulary.
        kept = {PAD, UNK, BOS, EOS, *self.tokenizer.marks}
        return PieceSplitter(self.tokenizer.source_names, kept)

    @cached_property
    def _languages(self) -> dict[int, str]:
        """Languages that a multilingual model writes, by the ids of their pieces."""
        return {number: language for language, number in self.tokenizer.languages.items()}


def vary_case(
    lines: Iterable[str], config: NoiseConfig, seed: int, language: str | None, is_source: bool
) -> Iterator[str]:
    """Yield the lines of one side of a training text, some in capitals or as titles, to learn a vocabulary from.

    Other noise needs no pieces of its own. A vocabulary without any would spell capitals out.
    """
    shares = np.array([config.capitals, config.capitals + config.title_case])
    lines, first = iter(lines), 0
    while block := list(islice(lines, _LINES_AT_ONCE)):
        draws = draw_uniform(np.arange(first, first + len(block)), seed)
        kinds = np.searchsorted(shares, draws, side="right")
        for line, kind in zip(block, kinds.tolist(), strict=True):
            # The function of a kind changes both sides; the other one is empty here.
            plant = (plant_capitals, plant_title_case, None)[kind]
            pair = TextPair(line, "", language) if is_source else TextPair("", line, None, language)
            planted = pair if plant is None else plant(pair, Random(0))
            yield planted.source if is_source else planted.target
        first += len(block)


def _find_neighbours(encoded: EncodedPairs, indices: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the pair that stands behind each pair in its corpus, or before the last; -1 for a corpus of one pair."""
    sizes = np.array([share.pairs for share in encoded.corpora] or [len(encoded)])
    ends = np.cumsum(sizes)
    corpora = np.searchsorted(ends, indices, side="right")
    neighbours = np.where(indices + 1 < ends[corpora], indices + 1, indices - 1)
    return np.where(sizes[corpora] > 1, neighbours, -1)


def sample_evenly(count: int, most: int) -> NDArray[np.int64]:
    """Return at most so many of the numbers below `count`, spread evenly, in their order.

    >>> sample_evenly(3, 5).tolist(), sample_evenly(100, 4).tolist()
    ([0, 1, 2], [0, 33, 66, 99])
    """
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))


def lengthen(
    lengths: NDArray[np.int32], chosen: NDArray[np.bool_], factor: float, most: int
) -> NDArray[np.int32]:
    """Return lengths, the chosen ones times a factor and rounded; none is made shorter, or longer than `most`.

    >>> lengthen(np.array([10, 10, 40], np.int32), np.array([True, False, True]), 1.5, most=50).tolist()
    [15, 10, 50]
    """
    longer = np.minimum(np.rint(lengths * factor), most).astype(np.int32)
    return np.where(chosen, np.maximum(longer, lengths), lengths)


def draw_uniform(indices: NDArray[np.integer], seed: int) -> NDArray[np.float64]:
    """Draw a number from 0 to 1 for each index, which depends on the seed and on that index alone."""
    # SplitMix64 (Steele, Lea and Flood, 2014): a generator for each index would take too long.
    mixed = indices.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(11)) / 2.0**53
