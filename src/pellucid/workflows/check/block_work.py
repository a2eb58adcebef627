"""Faults, languages and scores of a block of pairs by itself, found in this process or in others."""

import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pellucid.data.links import Floats, Ints, WordIds, WordStems
from pellucid.workflows.check import corpus_faults
from pellucid.workflows.check.evidence import BlockScores, OtherSources, ScorePairs, score_block
from pellucid.workflows.check.language_model import LanguageModel
from pellucid.workflows.check.pair_faults import PAIR_CHECKS, has_empty_side

Rows = Iterable[tuple[int, str, str]]  # line number, source and target of every pair
# Pairs that are held as text at a time, as many as a model scores together
# (`pellucid.decode.request.BLOCK`).
BLOCK = 2048


class BlockWork(Protocol):
    """Goes through the blocks of a corpus, in order, and says of each what is asked."""

    @property
    def has_model(self) -> bool:
        """Whether it can score pairs."""
        ...

    def find_faults(self) -> "Iterator[BlockFaults]":
        """Yield what single pairs show, and what is needed to compare pairs."""
        ...

    def find_wrong_languages(self, language: LanguageModel) -> Iterator[Floats]:
        """Yield how strange the stranger side of each pair is for its language."""
        ...

    def score_pairs(self, pairs: int, others: OtherSources) -> Iterator[BlockScores]:
        """Yield the scores of a model for so many pairs, and for shuffled ones."""
        ...


class WorkHere:
    """The work on blocks in this process: `read` begins to read the corpus, and `score` scores pairs by a model."""

    def __init__(self, read: Callable[[], Rows], score: ScorePairs | None = None) -> None:
        """Nothing is read yet."""
        self.read, self.score = read, score

    @property
    def has_model(self) -> bool:
        """Whether it can score pairs."""
        return self.score is not None

    def find_faults(self) -> "Iterator[BlockFaults]":
        """Yield what single pairs show, and what is needed to compare pairs."""
        for _, sources, targets in read_blocks(self.read()):
            yield find_block_faults(sources, targets)

    def find_wrong_languages(self, language: LanguageModel) -> Iterator[Floats]:
        """Yield how strange the stranger side of each pair is for its language."""
        for _, sources, targets in read_blocks(self.read()):
            yield language.find_wrong_languages(sources, targets)

    def score_pairs(self, pairs: int, others: OtherSources) -> Iterator[BlockScores]:
        """Yield the scores of a model for so many pairs, and for shuffled ones."""
        assert self.score
        for start, sources, targets in read_blocks(self.read()):
            yield score_block(start, sources, targets, pairs, others, self.score)


def read_blocks(rows: Rows) -> Iterator[tuple[int, list[str], list[str]]]:
    """Yield the number of pairs before a block, and the sources and targets of its pairs."""
    rows, start = iter(rows), 0
    while block := list(islice(rows, BLOCK)):
        yield start, [source for _, source, _ in block], [target for _, _, target in block]
        start += len(block)


@dataclass(frozen=True)
class BlockFaults:
    """Faults of the pairs of a block by themselves, and what is needed to compare them with pairs of other blocks.

    Places count from the first pair of the block.
    """

    marks: dict[str, tuple[Ints, Floats]]
    """Of each fault of a single pair: the places that have it, and how badly."""
    hashes: corpus_faults.PairHashes
    stems: list[str]
    """The first letters of words, in the order in which they are met in pair after pair."""
    words: tuple[WordIds, WordIds]
    """The words of each side, as places in `stems`."""
    spellings: corpus_faults.Spellings

    def as_bytes(self) -> bytes:
        """Return all of it as bytes, which `from_bytes` reads."""
        arrays: dict[str, NDArray[Any]] = dict(self.hashes._asdict())
        for name, (places, degrees) in self.marks.items():
            arrays |= {f"{name}.places": places, f"{name}.degrees": degrees}
        for side, words in zip(("source", "target"), self.words, strict=True):
            arrays |= {f"{side}.ids": words.ids, f"{side}.lengths": words.lengths}

        spellings = [[*key, places] for key, places in self.spellings.items()]
        texts = json.dumps([self.stems, spellings]).encode()
        return pack_arrays({**arrays, "texts": np.frombuffer(texts, np.uint8)})

    @classmethod
    def from_bytes(cls, content: bytes) -> "BlockFaults":
        """Read what `as_bytes` wrote."""
        arrays = unpack_arrays(content)
        stems, spellings = json.loads(arrays["texts"].tobytes())

        marks: dict[str, tuple[Ints, Floats]] = {}
        for name in PAIR_CHECKS:
            if f"{name}.places" in arrays:
                marks[name] = arrays[f"{name}.places"], arrays[f"{name}.degrees"]

        words: list[WordIds] = []
        for side in ("source", "target"):
            words.append(WordIds.from_lengths(arrays[f"{side}.ids"], arrays[f"{side}.lengths"]))

        return cls(
            marks=marks,
            hashes=corpus_faults.PairHashes(
                *(arrays[name] for name in corpus_faults.PairHashes._fields)
            ),
            stems=stems,
            words=(words[0], words[1]),
            spellings={(side, character): places for side, character, places in spellings},
        )


def find_block_faults(sources: Sequence[str], targets: Sequence[str]) -> BlockFaults:
    """Return what the pairs of a block show, and what is needed to compare them with others."""
    empty = list(map(has_empty_side, sources, targets))
    marks: dict[str, tuple[Ints, Floats]] = {}
    for name, check in PAIR_CHECKS.items():
        degrees = np.array(list(map(check, sources, targets)), np.float64)
        if name != "empty":
            degrees[empty] = 0

        places = np.flatnonzero(degrees)
        if len(places):
            marks[name] = places, degrees[places]

    # Pair by pair, so that the order of the words does not depend on where blocks begin.
    vocabulary = WordStems()
    words = vocabulary.encode(list(chain.from_iterable(zip(sources, targets, strict=True))))
    sides: list[WordIds] = []
    for side in (0, 1):
        sides.append(WordIds(*words.select(np.arange(side, 2 * len(sources), 2))))

    return BlockFaults(
        marks=marks,
        hashes=corpus_faults.hash_pairs(sources, targets),
        stems=vocabulary.stems,
        words=(sides[0], sides[1]),
        spellings=corpus_faults.find_spellings(sources, targets),
    )


def pack_arrays(arrays: dict[str, NDArray[Any]]) -> bytes:
    """Return arrays with their names as bytes (NumPy's .npz)."""
    content = io.BytesIO()

    np.savez(content, **arrays)  # pyright: ignore[reportArgumentType]
    return content.getvalue()


def unpack_arrays(content: bytes) -> dict[str, NDArray[Any]]:
    """Read what `pack_arrays` wrote."""
    # Without pickle, it can hold arrays and nothing that runs.
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}
