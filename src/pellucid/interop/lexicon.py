"""Which target pieces translate a source piece: IBM model 1, and from it the shortlist that CTranslate2 reads."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pellucid.data.tokenizer import EOS, Tokenizer

Sentences = Sequence[Sequence[int]]
"""The pieces of each sentence, the end mark last, as `Tokenizer` gives them."""

_LINKS_AT_ONCE = 2**20
"""Links are worked on in chunks of about so many; a chunk takes some 50 bytes for each."""

_UNWRITABLE = frozenset(" \t\r\n")
"""Characters that the text form of a shortlist separates its pieces and lines with."""


@dataclass(frozen=True)
class Lexicon:
    """p(target | source) of every two pieces that stood in one sentence pair, in the order of source, then target."""

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    probability: NDArray[np.float64]


@dataclass(frozen=True)
class Shortlist:
    """Target pieces a translation may be written with: `always`, and those that `by_source` has for a piece of its
    source."""

    always: frozenset[int]
    by_source: dict[int, frozenset[int]]

    def allowed(self, source: Sequence[int]) -> frozenset[int]:
        """All of them for one sentence."""
        return self.always.union(*(self.by_source.get(piece, frozenset()) for piece in source))


@dataclass(frozen=True)
class Coverage:
    """The share of the references' pieces that the shortlist of their sentence has, and its length on average."""

    share: float
    pieces: float


def train_lexicon(sources: Sentences, targets: Sentences, iterations: int = 5, most_links: int = 2**25) -> Lexicon:
    """IBM model 1 (Brown et al. 1993, 4.1) of sentence pairs, by expectation maximisation from equal probabilities.

    A link is a position of one side with a position of the other. Of a corpus with more than about `most_links` only
    every n-th pair is read, so that memory is bounded. The end mark of a source serves as the empty word, from which
    comes what no word accounts for; the end marks of targets are left out.
    """
    pairs = [(s, t[:-1]) for s, t in zip(sources, targets, strict=True) if len(s) > 0 and len(t) > 1]
    pairs = pairs[:: max(1, -(-sum(len(s) * len(t) for s, t in pairs) // most_links))]
    width = 1 + max((max(t) for _, t in pairs), default=0)
    keys = np.empty(0, dtype=np.int64)
    for found, _ in link_chunks(pairs, width):
        keys = np.union1d(keys, found)
    chunks = [(np.searchsorted(keys, found).astype(np.int32), starts) for found, starts in link_chunks(pairs, width)]
    source, target = np.divmod(keys, width)
    probability = np.ones(len(keys))
    for _ in range(iterations):
        counts = np.zeros(len(keys))
        for entries, starts in chunks:
            # A target position is shared out among the source positions it may come from (equation 17).
            shares = probability[entries]
            shares /= np.repeat(np.add.reduceat(shares, starts), np.diff(starts, append=len(shares)))
            counts += np.bincount(entries, shares, minlength=len(keys))
        probability = counts / np.bincount(source, counts)[source]
    return Lexicon(source, target, probability)


def link_chunks(
    pairs: list[tuple[Sequence[int], Sequence[int]]], width: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The links of all pairs in chunks, each as source piece * `width` + target piece.

    The links of one target position stand together; the second array says where each position's begin.

    >>> [(found.tolist(), starts.tolist()) for found, starts in link_chunks([([5, 6], [1, 2])], width=10)]
    [([51, 61, 52, 62], [0, 2])]
    """
    at = 0
    while at < len(pairs):
        end, held = at, 0
        while end < len(pairs) and (end == at or held < _LINKS_AT_ONCE):
            held += len(pairs[end][0]) * len(pairs[end][1])
            end += 1
        of_sources = np.array([len(s) for s, _ in pairs[at:end]])
        of_targets = np.array([len(t) for _, t in pairs[at:end]])
        read = np.fromiter(chain.from_iterable(s for s, _ in pairs[at:end]), dtype=np.int64)
        written = np.fromiter(chain.from_iterable(t for _, t in pairs[at:end]), dtype=np.int64)
        # For each target position: how many links it has, where they begin, and where its source sentence begins.
        counts = np.repeat(of_sources, of_targets)
        starts = np.cumsum(counts) - counts
        begins = np.repeat(np.cumsum(of_sources) - of_sources, of_targets)
        positions = np.arange(counts.sum()) + np.repeat(begins - starts, counts)
        yield read[positions] * width + np.repeat(written, counts), starts
        at = end


def make_shortlist(
    table: Lexicon, targets: Sentences, tokenizer: Tokenizer, each: int = 50, always: int = 100
) -> Shortlist:
    """For each source piece its `each` likeliest targets and what spells it; always the `always` most frequent pieces.

    Spelling a piece takes the same piece of the target vocabulary, its characters, or their bytes: a name can be
    copied, whether training showed it or not.
    """
    frequent = Counter(chain.from_iterable(targets)).most_common(always)
    likeliest = likeliest_targets(table, each)
    ids = {piece: i for i, piece in enumerate(tokenizer.target_names)}
    return Shortlist(
        always=likeliest.pop(EOS, frozenset()) | {EOS} | {piece for piece, _ in frequent},
        by_source={
            i: likeliest.get(i, frozenset()) | pieces_that_spell(piece, ids)
            for i, piece in enumerate(tokenizer.source_names)
            if i > EOS
        },
    )


def likeliest_targets(table: Lexicon, each: int) -> dict[int, frozenset[int]]:
    """The likeliest targets of each source piece."""
    order = np.lexsort((table.target, -table.probability, table.source))
    source, first, counts = np.unique(table.source, return_index=True, return_counts=True)
    ends = first + np.minimum(counts, each)
    targets = table.target[order]
    return {
        piece: frozenset(targets[start:end].tolist())
        for piece, start, end in zip(source.tolist(), first.tolist(), ends.tolist(), strict=True)
    }


def pieces_that_spell(piece: str, ids: dict[str, int]) -> set[int]:
    """The target pieces that a source piece can be copied with.

    >>> sorted(pieces_that_spell("▁Zoë",
    ...     {"▁Zoë": 7, "▁": 8, "Z": 9, "o": 10, "<0xC3>": 11, "<0xAB>": 12, "▁Z": 13, "a": 14}))
    [7, 8, 9, 10, 11, 12, 13]
    """
    if is_byte(piece):
        return {i for other, i in ids.items() if is_byte(other)}  # another byte may be right beside this one
    found = {ids[whole] for whole in (piece, piece[:2]) if whole in ids}
    for character in piece:
        if character in ids:
            found.add(ids[character])
        else:
            found |= {ids[byte] for byte in (f"<0x{b:02X}>" for b in character.encode()) if byte in ids}
    return found


def is_byte(piece: str) -> bool:
    """Whether this is one of the 256 pieces that stand for a byte."""
    return len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">")


def measure_coverage(short: Shortlist, sources: Sentences, targets: Sentences) -> Coverage:
    """How much of these references could be written with the shortlist of their source."""
    pieces = found = length = 0
    for source, target in zip(sources, targets, strict=True):
        allowed = short.allowed(source)
        length += len(allowed)
        pieces += len(target)
        found += sum(piece in allowed for piece in target)
    return Coverage(found / max(pieces, 1), length / max(len(sources), 1))


def write_vmap(path: str | Path, short: Shortlist, tokenizer: Tokenizer) -> list[str]:
    """The shortlist as a vmap.txt of CTranslate2; the target pieces that its text form cannot hold are returned.

    A line is a source piece, a tab, and target pieces with spaces between; without a source piece they are always
    offered. A source piece that cannot be written so has its targets offered always.
    """
    read = tokenizer.source_names
    written = tokenizer.target_names
    unnamed = [targets for i, targets in short.by_source.items() if not _UNWRITABLE.isdisjoint(read[i])]
    rows = [("", short.always.union(*unnamed))]
    rows += [(read[i], targets) for i, targets in short.by_source.items() if _UNWRITABLE.isdisjoint(read[i])]
    left_out = {i for _, targets in rows for i in targets if not _UNWRITABLE.isdisjoint(written[i])}
    with Path(path).open("w", encoding="utf-8", newline="\n") as file:
        for piece, targets in rows:
            file.write(f"{piece}\t{' '.join(written[i] for i in sorted(targets - left_out))}\n")
    return [written[i] for i in sorted(left_out)]
