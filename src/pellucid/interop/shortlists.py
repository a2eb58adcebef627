"""Lexical shortlists: IBM model 1 learns which target tokens translate a source token, for CTranslate2's vmap."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pellucid.data.tokenizer import EOS, Tokenizer

# Token ids of each sentence, EOS last, as `Tokenizer` gives them.
Sentences = Sequence[Sequence[int]]
_LINKS_AT_ONCE = 2**20  # number of links in a chunk, about; a chunk takes some 50 bytes for each
# Characters that separate pieces and lines in the text form of a shortlist.
_UNWRITABLE = frozenset(" \t\r\n")


@dataclass(frozen=True)
class Lexicon:
    """p(target | source) of every two tokens that stood in one sentence pair, sorted by source, then target."""

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    probability: NDArray[np.float64]


@dataclass(frozen=True)
class Shortlist:
    """Target tokens a translation may contain: all of `always`, and the ones `by_source` has for its source tokens."""

    always: frozenset[int]
    by_source: dict[int, frozenset[int]]

    def allowed_tokens(self, source: Sequence[int]) -> frozenset[int]:
        """Return all target tokens that the translation of a source may contain."""
        return self.always.union(*(self.by_source.get(token, frozenset()) for token in source))


def train_lexicon(
    sources: Sentences, targets: Sentences, iterations: int = 5, most_links: int = 2**25
) -> Lexicon:
    """Train IBM model 1 (Brown et al. 1993, 4.1) on sentence pairs, by expectation maximisation.

    A link is a position of one side with a position of the other. Of a corpus with more than about
    `most_links` only every n-th pair is read.
    """
    pairs, links_in_all = [], 0
    for source, target in zip(sources, targets, strict=True):
        # EOS of a source serves as the empty word, from which comes what no word accounts for; EOS
        # of targets is left out.
        if len(source) > 0 and len(target) > 1:
            pairs.append((source, target[:-1]))
            links_in_all += len(source) * (len(target) - 1)

    # The links are held in memory, hence the bound.
    pairs = pairs[:: max(1, -(-links_in_all // most_links))]
    width = 1 + max((max(t) for _, t in pairs), default=0)

    keys = np.empty(0, dtype=np.int64)
    for links, _ in _link_chunks(pairs, width):
        keys = np.union1d(keys, links)

    # The links are made twice: as 32-bit entries of the table they take half the memory.
    chunks = []
    for links, starts in _link_chunks(pairs, width):
        chunks.append((np.searchsorted(keys, links).astype(np.int32), starts))

    source, target = np.divmod(keys, width)
    probability = np.ones(len(keys))
    for _ in range(iterations):
        counts = np.zeros(len(keys))
        for entries, starts in chunks:
            # A target position is shared out among the source positions it may come from
            # (equation 17).
            shares = probability[entries]
            totals = np.add.reduceat(shares, starts)
            shares /= np.repeat(totals, np.diff(starts, append=len(shares)))
            counts += np.bincount(entries, shares, minlength=len(keys))
        probability = counts / np.bincount(source, counts)[source]
    return Lexicon(source, target, probability)


def _link_chunks(
    pairs: list[tuple[Sequence[int], Sequence[int]]], width: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the links of all pairs in chunks, each link as source token * `width` + target token.

    The links of one target position stand together; the second array has
    the index of each position's first link.

    >>> [(links.tolist(), starts.tolist()) for links, starts in _link_chunks([([5, 6], [1, 2])], width=10)]
    [([51, 61, 52, 62], [0, 2])]
    """
    begin = 0
    while begin < len(pairs):
        end, links = begin, 0
        while end < len(pairs) and (end == begin or links < _LINKS_AT_ONCE):
            links += len(pairs[end][0]) * len(pairs[end][1])
            end += 1

        sources, targets = zip(*pairs[begin:end], strict=True)
        source_lengths, target_lengths = (
            np.array([*map(len, sources)]),
            np.array([*map(len, targets)]),
        )
        source_tokens = np.fromiter(chain.from_iterable(sources), dtype=np.int64)
        target_tokens = np.fromiter(chain.from_iterable(targets), dtype=np.int64)

        # For each target position: how many links it has, where they begin, and where its source
        # sentence begins.
        counts = np.repeat(source_lengths, target_lengths)
        starts = np.cumsum(counts) - counts
        source_starts = np.repeat(np.cumsum(source_lengths) - source_lengths, target_lengths)
        positions = np.arange(counts.sum()) + np.repeat(source_starts - starts, counts)
        yield source_tokens[positions] * width + np.repeat(target_tokens, counts), starts
        begin = end


def make_shortlist(
    table: Lexicon, targets: Sentences, tokenizer: Tokenizer, per_token: int = 50, always: int = 100
) -> Shortlist:
    """Make a shortlist of the `per_token` likeliest targets of each source token, and the tokens that spell it.

    The `always` most frequent target tokens are in the shortlist of every sentence.
    """
    frequent = Counter(chain.from_iterable(targets)).most_common(always)
    likeliest = likeliest_targets(table, per_token)
    offered_always = likeliest.pop(EOS, frozenset()) | {EOS} | {token for token, _ in frequent}

    ids = {piece: i for i, piece in enumerate(tokenizer.target_names)}
    by_source = {}
    for i, piece in enumerate(tokenizer.source_names):
        if i > EOS:
            # With the tokens that spell it a name can be copied, whether training showed it or not.
            by_source[i] = likeliest.get(i, frozenset()) | _pieces_that_spell(piece, ids)
    return Shortlist(offered_always, by_source)


def likeliest_targets(table: Lexicon, count: int) -> dict[int, frozenset[int]]:
    """Return the `count` likeliest targets of each source token."""
    order = np.lexsort((table.target, -table.probability, table.source))
    source, first, counts = np.unique(table.source, return_index=True, return_counts=True)
    ends = first + np.minimum(counts, count)
    targets = table.target[order]
    likeliest = {}
    for token, start, end in zip(source.tolist(), first.tolist(), ends.tolist(), strict=True):
        likeliest[token] = frozenset(targets[start:end].tolist())
    return likeliest


def _pieces_that_spell(piece: str, ids: dict[str, int]) -> set[int]:
    """Return the target tokens that can copy a source piece: the same piece, its characters, or their bytes.

    >>> sorted(_pieces_that_spell("▁Zoë",
    ...     {"▁Zoë": 7, "▁": 8, "Z": 9, "o": 10, "<0xC3>": 11, "<0xAB>": 12, "▁Z": 13, "a": 14}))
    [7, 8, 9, 10, 11, 12, 13]
    """
    if _is_byte(piece):
        # Another byte may be right beside this one.
        return {i for other, i in ids.items() if _is_byte(other)}

    # The first two characters: the word-start mark is often one piece with the letter behind it.
    tokens = {ids[start] for start in (piece, piece[:2]) if start in ids}
    for character in piece:
        if character in ids:
            tokens.add(ids[character])
            continue
        for byte in character.encode():
            if f"<0x{byte:02X}>" in ids:
                tokens.add(ids[f"<0x{byte:02X}>"])
    return tokens


def _is_byte(piece: str) -> bool:
    """Return whether a piece is one of the 256 that stand for a byte."""
    return len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">")


def measure_coverage(
    short: Shortlist, sources: Sentences, targets: Sentences
) -> tuple[float, float]:
    """Return the share of the references' tokens in the shortlist of their sentence, and its average length."""

    tokens = covered = length = 0
    for source, target in zip(sources, targets, strict=True):
        allowed = short.allowed_tokens(source)
        length += len(allowed)
        tokens += len(target)
        covered += sum(token in allowed for token in target)
    return covered / max(tokens, 1), length / max(len(sources), 1)


def write_vmap(path: str | Path, short: Shortlist, tokenizer: Tokenizer) -> list[str]:
    """Write the shortlist as a vmap.txt of CTranslate2, and return the target pieces that its text form cannot hold.

    A line is a source piece, a tab, and target pieces with spaces between; the target pieces of the
    line without a source piece are always offered.
    """
    source_names = tokenizer.source_names
    target_names = tokenizer.target_names
    always, rows = short.always, list[tuple[str, frozenset[int]]]()
    for i, targets in short.by_source.items():
        if _UNWRITABLE.isdisjoint(source_names[i]):
            rows.append((source_names[i], targets))
        else:
            # A source piece that cannot be written has its targets offered always.
            always |= targets

    rows.insert(0, ("", always))
    left_out = set()
    for _, targets in rows:
        left_out |= {i for i in targets if not _UNWRITABLE.isdisjoint(target_names[i])}

    with Path(path).open("w", encoding="utf-8", newline="\n") as file:
        for piece, targets in rows:
            offered = " ".join(target_names[i] for i in sorted(targets - left_out))
            file.write(f"{piece}\t{offered}\n")
    return [target_names[i] for i in sorted(left_out)]


class OfferedPieces:
    """The target pieces that the shortlist of a `vmap.txt` offers to a source."""

    def __init__(self, rows: dict[str, str]):
        """Keep the rows: the target pieces of each source piece, with spaces between them."""
        # A row is split when it is first needed: a text has some hundred of the thousands of source
        # pieces.
        self.pieces_for = cache(
            lambda source_piece: frozenset(rows.get(source_piece, "").split(" "))
        )
        # CTranslate2 adds the special pieces to every list.
        self.always = self.pieces_for("") | {"<unk>", "<s>", "</s>"}

    def include(self, text: Sequence[str], source: Sequence[str]) -> bool:
        """Return whether every piece of a text is offered to this source."""
        missing = frozenset(text) - self.always
        for source_piece in source:
            if not missing:
                break
            missing -= self.pieces_for(source_piece)
        return not missing


def read_vmap(path: str | Path) -> OfferedPieces:
    """Read a shortlist that `write_vmap` wrote."""
    text = Path(path).read_text(encoding="utf-8")
    return OfferedPieces(dict(line.split("\t", 1) for line in text.split("\n") if line))
