"""Sentence pairs of a study of heads in batches, and measures of the patterns on them as sums that are divided once."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pellucid.data.context import count_context, encode_with_context, split_context
from pellucid.data.tokenizer import BOS, EOS, PAD, Tokenizer
from pellucid.decode.request import batch_by_length
from pellucid.decode.torch_engine import pad_sentences
from pellucid.interpret.trace.edits import attention_names
from pellucid.interpret.trace.facts import make_side
from pellucid.model import ModelConfig

NUMBERS_PER_BATCH = 2**25  # most numbers in all the patterns of a batch, or in its logits: 128 MB of either
COMMONEST = 500  # pieces that count as common; a sentence with any other has a rare one (Voita et al. 2019, 4.3)
IdsAndWords = tuple[list[int], list[int]]  # ids of one side of a pair, and the number of the word of each, or -1


@dataclass(frozen=True)
class PieceFrequencies:
    """Counts of the pieces of a vocabulary in a text, and whether each is among the commonest."""

    counts: Float[Tensor, " V"]
    common: Bool[Tensor, " V"]

    @classmethod
    def from_sentences(
        cls,
        sentences: Iterable[Sequence[int]],
        vocabulary: int,
    ) -> "PieceFrequencies":
        """Count the pieces of these sentences, without special tokens."""
        pieces: Counter[int] = Counter()
        for ids in sentences:
            pieces.update(ids)
        for special in (PAD, BOS, EOS):
            pieces.pop(special, None)

        counts, common = torch.zeros(vocabulary), torch.zeros(vocabulary, dtype=torch.bool)
        # equally common pieces are ranked by id, so that the same text always gives the same ranks
        for rank, (i, count) in enumerate(sorted(pieces.items(), key=lambda row: (-row[1], row[0]))):
            counts[i] = count
            common[i] = rank < COMMONEST
        return cls(counts, common)


@dataclass(frozen=True)
class StudyPairs:
    """Sentence pairs as ids, the end token last.

    Pair i stood in line `lines[i]` of the input, counted from 0.
    """

    sources: list[IdsAndWords]
    targets: list[IdsAndWords]
    lines: list[int]
    texts: list[tuple[str, str]]
    of_sources: PieceFrequencies
    of_targets: PieceFrequencies
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def pieces(self) -> int:
        """Number of target pieces, end tokens counted: the divisor of a sum of losses."""
        return sum(len(ids) for ids, _ in self.targets)


@dataclass(frozen=True)
class BatchSide:
    """Positions of one side of a batch: their ids, words (-1 for none) and numbers (0 for the first piece).

    The decoder reads the start token first, at position -1.
    """

    ids: Int[Tensor, "B Q"]
    words: Int[Tensor, "B Q"]
    positions: Int[Tensor, " Q"]
    commonness: PieceFrequencies

    @property
    def not_padding(self) -> Bool[Tensor, "B Q"]:
        return self.ids != PAD

    @property
    def not_special(self) -> Bool[Tensor, "B Q"]:
        """Mask that is true everywhere but at padding and other special tokens."""
        return self.not_padding & (self.ids != BOS) & (self.ids != EOS)


@dataclass(frozen=True)
class StudyBatch:
    """Some of the pairs: the input of the encoder, the input of the decoder, and the pieces expected of it."""

    numbers: list[int]
    source: BatchSide
    target_in: BatchSide
    target_out: BatchSide


def encode_study_pairs(
    tokenizer: Tokenizer,
    config: ModelConfig,
    sources: Sequence[str],
    targets: Sequence[str],
    counted: Iterable[str] | None = None,
    numbers: Sequence[int] | None = None,
) -> StudyPairs:
    """Encode pairs for a study.

    Pairs with a blank side and pairs too long for the model are left out, with a note. A source may
    have its context (`join_context`), whose pieces are of no word. Source pieces are counted in the
    text `counted`, or else, as the target pieces are, in these pairs. `numbers` are the lines that
    the pairs stood in, 0 first, if those are others. Raises ValueError for unequal numbers of sides
    and if no pair is left.
    """
    if len(sources) != len(targets):
        counts = f"{len(sources):,} sources and {len(targets):,} targets"
        raise ValueError(f"{counts}: each source needs its target")

    source_ids = encode_with_context(tokenizer, sources)
    target_ids = tokenizer.encode_target(targets)

    blank: list[int] = []
    long: list[int] = []
    lines: list[int] = []
    for n, (source, target) in enumerate(zip(source_ids, target_ids, strict=True)):
        if min(len(source), len(target)) < 2:  # an end token alone is one id
            blank.append(n)
        elif max(len(source), len(target)) > config.max_positions:
            long.append(n)
        else:
            lines.append(n)

    notes = []
    line_numbers = numbers or range(len(sources))
    too_long = f"more than {config.max_positions} pieces"
    for skipped, why in ((blank, "a side is blank"), (long, too_long)):
        if skipped:
            first = line_numbers[skipped[0]] + 1
            notes.append(f"{len(skipped):,} pairs left out: {why}, the first in line {first}")

    if not lines:
        raise ValueError(f"no pair to look at: {'; '.join(notes) or 'there is none'}")

    source_sides, target_sides = [], []
    for n in lines:
        source_pieces = tokenizer.source_pieces(source_ids[n])
        target_pieces = tokenizer.target_pieces(target_ids[n])
        source_sides.append(_with_word_numbers(source_pieces, source_ids[n], sources[n]))
        target_sides.append(_with_word_numbers(target_pieces, target_ids[n], targets[n]))

    # A list can be counted here; the text of `counted`
    # may be larger than the memory, so it streams.
    counted_sentences = [source_ids[n] for n in lines]
    if counted is not None:
        counted_sentences = _encode_stream(tokenizer, counted)
    return StudyPairs(
        source_sides,
        target_sides,
        lines,
        [(sources[n], targets[n]) for n in lines],
        PieceFrequencies.from_sentences(counted_sentences, config.source_vocabulary),
        PieceFrequencies.from_sentences([target_ids[n] for n in lines], config.target_vocabulary),
        tuple(notes),
    )


def _encode_stream(
    tokenizer: Tokenizer,
    lines: Iterable[str],
    block: int = 10_000,
) -> Iterator[list[int]]:
    """Yield the ids of any number of lines, a block of them in memory at a time."""
    remaining = iter(lines)
    while block_lines := list(islice(remaining, block)):
        yield from tokenizer.encode_source(block_lines)


def _with_word_numbers(pieces: list[str], ids: list[int], text: str) -> IdsAndWords:
    """Return the ids with the number of the word of each."""
    start, text = count_context(ids), split_context(text)[1]
    words = make_side(pieces[start:], ids[start:], text, text).words
    return ids, [-1] * start + [-1 if word is None else word for word in words]


def study_batches(
    pairs: StudyPairs,
    config: ModelConfig,
    device: torch.device,
) -> Iterator[StudyBatch]:
    """Yield all pairs in batches; pairs of like length are together."""
    for numbers in batch_numbers(_pair_lengths(pairs), config):
        yield make_study_batch(pairs, numbers, device)


def count_batches(pairs: StudyPairs, config: ModelConfig) -> int:
    """Count the batches of all pairs."""
    return sum(1 for _ in batch_numbers(_pair_lengths(pairs), config))


def _pair_lengths(pairs: StudyPairs) -> dict[int, int]:
    lengths = {}
    for n, (source, target) in enumerate(zip(pairs.sources, pairs.targets, strict=True)):
        source_ids, target_ids = source[0], target[0]
        lengths[n] = max(len(source_ids), len(target_ids))
    return lengths


def batch_numbers(lengths: Mapping[int, int], config: ModelConfig) -> Iterator[list[int]]:
    """Return the keys of `lengths`, longest first, in batches whose patterns and logits have a bounded size."""
    heads = config.heads * len(attention_names(config))
    # a position has a weight of each head on each position, and a logit of each piece
    numbers = max(heads * max(lengths.values(), default=1), config.target_vocabulary)
    return batch_by_length(lengths, 64, NUMBERS_PER_BATCH // numbers)


def make_study_batch(pairs: StudyPairs, numbers: list[int], device: torch.device) -> StudyBatch:
    """Put these pairs into one rectangle for each side."""
    # teacher forcing: the decoder reads the target one position late
    decoder_inputs = []
    for n in numbers:
        ids, words = pairs.targets[n]
        decoder_inputs.append(([BOS, *ids[:-1]], [-1, *words[:-1]]))

    return StudyBatch(
        numbers,
        _make_batch_side([pairs.sources[n] for n in numbers], 0, pairs.of_sources, device),
        # numbered from -1, so that target_in and target_out give a piece the same position
        _make_batch_side(decoder_inputs, -1, pairs.of_targets, device),
        _make_batch_side([pairs.targets[n] for n in numbers], 0, pairs.of_targets, device),
    )


def _make_batch_side(
    rows: Sequence[IdsAndWords], first: int, commonness: PieceFrequencies, device: torch.device
) -> BatchSide:
    """Make one side of a batch, whose first position is numbered `first`."""
    ids = pad_sentences([ids for ids, _ in rows], device)
    positions = torch.arange(first, first + ids.shape[1], device=device)
    return BatchSide(
        ids,
        pad_sentences([words for _, words in rows], device, -1),
        positions,
        commonness,
    )


def spread_evenly(lines: Sequence[str], limit: int) -> list[int]:
    """Return the numbers of at most `limit` lines, spread evenly; 0 is all.

    >>> spread_evenly("abcdefg", 3)
    [0, 3, 6]
    """
    step = -(-len(lines) // limit) if limit else 1
    return list(range(0, len(lines), max(1, step)))


# Distances from the query to the key: -1 is the neighbour on the left, 0 the query itself.
OFFSETS = tuple(range(-3, 4))


@dataclass(frozen=True)
class QueryView:
    """Queries of a batch that count, the keys each of them may choose, and the positions of both."""

    queries: Bool[Tensor, "B Q"]
    choices: Bool[Tensor, "B Q K"]
    q_positions: Int[Tensor, " Q"]
    k_positions: Int[Tensor, " K"]

    @classmethod
    def of_words(cls, queries: BatchSide, keys: BatchSide, causal: bool) -> "QueryView":
        """Return the view word by word, for a pattern that `merge_to_words` made."""
        # a word whose pieces all begin in another word has no column of its own and does not count
        q = _piece_word_matrix(queries.words).any(dim=1)
        k = _piece_word_matrix(keys.words).any(dim=1)
        q_positions = torch.arange(q.shape[1], device=q.device)
        k_positions = torch.arange(k.shape[1], device=k.device)
        return cls.of_keys(q, k, q_positions, k_positions, causal)

    @classmethod
    def of_keys(
        cls,
        queries: Bool[Tensor, "B Q"],
        keys: Bool[Tensor, "B K"],
        q_positions: Int[Tensor, " Q"],
        k_positions: Int[Tensor, " K"],
        causal: bool,
    ) -> "QueryView":
        """Return the view of these queries and keys.

        If `causal`, only of keys that do not come after the query.
        """
        choices = queries[:, :, None] & keys[:, None, :]
        if causal:
            choices = choices & (k_positions[None, None, :] <= q_positions[None, :, None])
        return cls(queries, choices, q_positions, k_positions)

    def most_read(self, pattern: Float[Tensor, "B H Q K"]) -> Int[Tensor, "B H Q"]:
        """Return the key that each query reads most, of those it may choose."""
        # -1 is below every weight, so that a choice of weight 0 still wins
        return pattern.masked_fill(~self.choices[:, None], -1.0).argmax(dim=-1)


@dataclass
class MeasureSums:
    """For each measure a sum for each head, and the number of queries it is the sum of."""

    totals: dict[str, Float[Tensor, " H"]] = field(default_factory=dict)
    counts: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, values: Float[Tensor, "B H Q"], queries: Bool[Tensor, "B Q"]) -> None:
        """Add the values of a measure at these queries."""
        total = values.double().masked_fill(~queries[:, None, :], 0.0).sum(dim=(0, 2))
        self.totals[name] = self.totals.get(name, 0.0) + total.cpu()
        self.counts[name] = self.counts.get(name, 0.0) + float(queries.sum())

    def means(self, name: str, heads: int) -> list[float | None]:
        """Return the mean of each head; None where there was no query."""
        count = self.counts.get(name, 0.0)
        return [None] * heads if not count else [float(total) / count for total in self.totals[name]]

    def add_attention(
        self,
        pattern: Float[Tensor, "B H Q K"],
        queries: BatchSide,
        keys: BatchSide,
        causal: bool = False,
    ) -> None:
        """Add everything that is measured in one attention of one batch."""
        masks = queries.not_special, keys.not_special  # a query may choose every piece it may read
        view = QueryView.of_keys(*masks, queries.positions, keys.positions, causal)
        # confidence is the largest weight, entropy in nats
        # over all keys, sink the share of the special tokens
        marks = keys.not_padding & ~keys.not_special
        self.add(
            "confidence",
            pattern.masked_fill(~view.choices[:, None], 0.0).amax(dim=-1),
            view.queries,
        )
        self.add("entropy", -torch.special.xlogy(pattern, pattern).sum(dim=-1), view.queries)
        self.add("sink", (pattern * marks[:, None, None, :]).sum(dim=-1), view.queries)
        self._add_offsets(pattern, view, "pieces")
        self._add_rarity(pattern, view, keys)
        by_words = merge_to_words(pattern, queries.words, keys.words)
        self._add_offsets(by_words, QueryView.of_words(queries, keys, causal), "words")

    def _add_offsets(self, pattern: Float[Tensor, "B H Q K"], view: QueryView, name: str) -> None:
        """Add, for each offset d, the share of queries whose largest weight is d positions on.

        Only queries that have a key there and another key to choose are counted.
        """
        offsets = view.k_positions[None, :] - view.q_positions[:, None]
        most_read = view.most_read(pattern)
        has_choice = view.queries & (view.choices.sum(dim=-1) > 1)
        for d in OFFSETS:
            at_d = view.choices & (offsets == d)
            self.add(f"{name}{d:+d}", _look_up(at_d, most_read), has_choice & at_d.any(dim=-1))

    def _add_rarity(
        self,
        pattern: Float[Tensor, "B H Q K"],
        view: QueryView,
        keys: BatchSide,
    ) -> None:
        """Add the share of queries whose largest weight is on the rarest piece, and on one of the two rarest.

        Counted are queries that may choose among several pieces, if the rarest one is outside the
        commonest. Pieces that are equally rare are all of them the rarest. `chance` is what a head
        would reach that chose at random.
        """
        counts = keys.commonness.counts.to(pattern.device)[keys.ids]
        common = keys.commonness.common.to(pattern.device)[keys.ids]
        choice_counts = counts[:, None, :].masked_fill(~view.choices, torch.inf)
        lowest = choice_counts.amin(dim=-1, keepdim=True)
        rarest = view.choices & (choice_counts == lowest)
        second_lowest = choice_counts.masked_fill(rarest, torch.inf).amin(dim=-1, keepdim=True)
        one_rarest = rarest.sum(dim=-1, keepdim=True) == 1

        # several pieces that tie for the rarest already are two or more
        two_rarest = rarest | (view.choices & one_rarest & (choice_counts == second_lowest))
        queries = view.queries & (view.choices.sum(dim=-1) > 1) & (rarest & ~common[:, None, :]).any(dim=-1)
        choices, most_read = view.choices.sum(dim=-1).clamp(min=1), view.most_read(pattern)

        for name, targets in (("rarest", rarest), ("two_rarest", two_rarest)):
            self.add(name, _look_up(targets, most_read), queries)
            p = targets.sum(dim=-1) / choices
            self.add(f"{name}_chance", p[:, None], queries)
            # The queries of a sentence tend to choose alike, so a sentence counts as one draw.
            variance = (p * (1 - p)).masked_fill(~queries, 0.0).sum(dim=1) / queries.sum(dim=1).clamp(min=1)
            self.add(f"{name}_variance", variance[:, None, None], queries.any(dim=1, keepdim=True))

    def standard_error(self, name: str) -> float | None:
        """Return the standard error of a share that is reached by chance.

        None where nothing was counted.
        """
        count = self.counts.get(f"{name}_variance", 0.0)
        return (float(self.totals[f"{name}_variance"][0]) / count / count) ** 0.5 if count else None


def _look_up(targets: Bool[Tensor, "B Q K"], keys: Int[Tensor, "B H Q"]) -> Bool[Tensor, "B H Q"]:
    """Whether the key of each head and query is one of the query's targets."""
    return targets[:, None].expand(-1, keys.shape[1], -1, -1).gather(3, keys[..., None])[..., 0]


def _piece_word_matrix(words: Int[Tensor, "B Q"]) -> Bool[Tensor, "B Q W"]:
    # at least one column, for a batch of special tokens only
    numbers = torch.arange(max(1, int(words.max()) + 1), device=words.device)
    return words[:, :, None] == numbers


def merge_to_words(
    pattern: Float[Tensor, "B H Q K"], q_words: Int[Tensor, "B Q"], k_words: Int[Tensor, "B K"]
) -> Float[Tensor, "B H U W"]:
    """Return the weight of each word for each word: summed over the pieces read, averaged over the pieces that read."""
    of_q, of_k = (_piece_word_matrix(words).to(pattern.dtype) for words in (q_words, k_words))
    weights_of_words = torch.einsum("bhqk,bkw->bhqw", pattern, of_k)
    return torch.einsum(
        "bhqw,bqu->bhuw",
        weights_of_words,
        of_q / of_q.sum(dim=1, keepdim=True).clamp(min=1.0),
    )


def pattern_similarities(
    patterns: Sequence[Float[Tensor, "B H Q K"]], queries: Bool[Tensor, "B Q"]
) -> Float[Tensor, "N N"]:
    """Return, for all heads of attentions that read the same, the sum over queries of sum_k sqrt(p_k q_k).

    Divided by the queries this is the mean Bhattacharyya coefficient (1943): 1 for heads that read
    alike, 0 for heads that never read the same piece.
    """
    by_head = torch.cat([pattern.transpose(0, 1) for pattern in patterns])
    roots = by_head.clamp(min=0.0).sqrt().masked_fill(~queries[None, :, :, None], 0.0).flatten(1)
    # one product of matrices gives the sum for all pairs of heads
    return (roots @ roots.T).double().cpu()
