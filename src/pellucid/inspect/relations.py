"""Counts heads that follow a relation between words, of syntax or of a translation to its source.

The method is that of Voita et al. 2019, section 4.2.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.data.tokenizer import EOS, Tokenizer
from pellucid.decode.translate import inference_only
from pellucid.inspect import pattern_measures
from pellucid.inspect.conllu import ParsedSentence, word_of_each_piece
from pellucid.inspect.study_pairs import IdsAndWords, PieceFrequencies, batch_numbers, make_batch_side
from pellucid.model import Transformer
from pellucid.trace.record import Record

NAMES = ("nsubj", "obj", "amod", "advmod")
"""Relations of syntax that are counted."""

RightWords = Mapping[int, Sequence[int]]
"""Words that it would be right to read, for each word that reads."""


@dataclass(frozen=True)
class FollowedRelation:
    """Frequency with which each head of an attention reads the word that a relation leads to.

    `shares` are of the instances, one for each head; `baseline` is what always reading the word `offset` places on
    would reach, with the best offset there is.
    """

    relation: str
    attention: str
    shares: list[float]
    baseline: float
    offset: int
    instances: int


class RelationCounts:
    """Hits of each head, and the distances of the right words."""

    def __init__(self) -> None:
        self.hits: dict[str, Float[Tensor, " H"]] = {}
        self.instances: Counter[str] = Counter()
        self.apart: dict[str, Counter[int]] = {}

    def add(self, name: str, most_read: Int[Tensor, "H W"], right_words: RightWords) -> None:
        """Count a sentence: `most_read` is the word that each word reads most."""
        distances = self.apart.setdefault(name, Counter())
        for reader, targets in right_words.items():
            hit = torch.isin(most_read[:, reader], torch.tensor(list(targets)))
            self.hits[name] = self.hits.get(name, 0.0) + hit.double()
            self.instances[name] += 1
            distances.update({word - reader for word in targets})

    def as_followed(self, relation: str, attention: str) -> FollowedRelation | None:
        """Return how often each head follows a relation; None where there was no instance."""
        count = self.instances[relation]
        if not count:
            return None
        # of equally good offsets the nearest, and of those the one to the right
        offset, baseline_hits = max(self.apart[relation].items(), key=lambda row: (row[1], -abs(row[0]), row[0]))
        return FollowedRelation(
            relation, attention, (self.hits[relation] / count).tolist(), baseline_hits / count, offset, count
        )


def follow_syntax(
    model: Transformer, tokenizer: Tokenizer, parsed: Iterable[ParsedSentence]
) -> tuple[list[FollowedRelation], list[str]]:
    """Count for each relation, in each direction, how often the encoder's heads follow it; also return notes.

    Words are those of the file. Notes say which sentences were left out.
    """
    sentences, rows, strange, long = [], [], 0, 0
    for sentence in parsed:
        [ids] = tokenizer.encode_source([sentence.text])
        words = word_of_each_piece(tokenizer.source_pieces(ids[:-1] if ids[-1:] == [EOS] else ids), sentence.words)
        # the parse is of other words than the pieces spell, so its relations cannot be counted
        if words is None:
            strange += 1
        elif len(ids) > model.config.max_positions:
            long += 1
        else:
            sentences.append(sentence)
            # the end mark belongs to no word
            rows.append((ids, [*words, *[-1] * (len(ids) - len(words))]))
    notes = [
        f"{count:,} parsed sentences left out: {why}"
        for count, why in (
            (strange, "the tokenizer spells other words"),
            (long, f"more than {model.config.max_positions} pieces"),
        )
        if count
    ]
    counts: dict[str, RelationCounts] = {
        f"encoder.{n}.self": RelationCounts() for n in range(model.config.encoder_layers)
    }
    # rarity is not measured here
    nothing = PieceFrequencies.from_sentences([], model.config.source_vocabulary)
    device = model.output_embedding.weight.device
    for numbers in batch_numbers({n: len(ids) for n, (ids, _) in enumerate(rows)}, model.config):
        side = make_batch_side([rows[n] for n in numbers], 0, nothing, device)
        record = Record([f"{name}.pattern" for name in counts])
        with inference_only(model):
            model.encode(side.ids, record)
        for name, count in counts.items():
            pattern = pattern_measures.merge_to_words(record[f"{name}.pattern"], side.words, side.words)
            most_read = pattern_measures.most_read_keys(
                pattern, pattern_measures.view_of_words(side, side, causal=False)
            ).cpu()
            for row, n in zip(most_read, numbers, strict=True):
                count_syntax(count, row, sentences[n], rows[n])
    followed = [
        relation_followed
        for relation in NAMES
        for direction in (f"{relation}: dependent to head", f"{relation}: head to dependent")
        for name, count in counts.items()
        if (relation_followed := count.as_followed(direction, name)) is not None
    ]
    return followed, notes


def count_syntax(
    count: RelationCounts, most_read: Int[Tensor, "H W"], parsed: ParsedSentence, row: IdsAndWords
) -> None:
    """Count the instances of one sentence whose words both have a piece of their own."""
    # every instance counts for itself: of two adjectives of a noun, a head can follow one
    words_with_pieces = set(row[1])
    for relation in parsed.relations:
        if relation.name in NAMES and {relation.dependent, relation.head} <= words_with_pieces:
            count.add(f"{relation.name}: dependent to head", most_read, {relation.dependent: [relation.head]})
            count.add(f"{relation.name}: head to dependent", most_read, {relation.head: [relation.dependent]})
