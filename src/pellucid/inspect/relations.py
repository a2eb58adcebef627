"""Heads that follow a relation between words: of syntax, or of a translation to its source (Voita et al. 2019, 4.2)."""

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
"""Relations looked at."""

Wanted = Mapping[int, Sequence[int]]
"""For a word that reads, the words that would be right."""


@dataclass(frozen=True)
class FollowedRelation:
    """How often each head of an attention reads what a relation leads to.

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
    """Hits of each head, and how far the right words are."""

    def __init__(self) -> None:
        self.hits: dict[str, Float[Tensor, " H"]] = {}
        self.instances: Counter[str] = Counter()
        self.apart: dict[str, Counter[int]] = {}

    def add(self, name: str, best: Int[Tensor, "H W"], wanted: Wanted) -> None:
        """Count a sentence: `best` is the word that each word reads most."""
        apart = self.apart.setdefault(name, Counter())
        for reader, right in wanted.items():
            hit = torch.isin(best[:, reader], torch.tensor(list(right)))
            self.hits[name] = self.hits.get(name, 0.0) + hit.double()
            self.instances[name] += 1
            apart.update({word - reader for word in right})

    def as_followed(self, relation: str, attention: str) -> FollowedRelation | None:
        """What came of it; None where there was no instance."""
        count = self.instances[relation]
        if not count:
            return None
        offset, most = max(self.apart[relation].items(), key=lambda row: (row[1], -abs(row[0]), row[0]))
        return FollowedRelation(
            relation, attention, (self.hits[relation] / count).tolist(), most / count, offset, count
        )


def follow_syntax(
    model: Transformer, tokenizer: Tokenizer, parsed: Iterable[ParsedSentence]
) -> tuple[list[FollowedRelation], list[str]]:
    """For each relation, in each direction, how often the encoder's heads follow it; and what to know about that.

    Every instance counts for itself: of two adjectives of a noun, a head can follow one. Words are those of the file.
    """
    sentences, rows, strange, long = [], [], 0, 0
    for each in parsed:
        [ids] = tokenizer.encode_source([each.text])
        words = word_of_each_piece(tokenizer.source_pieces(ids[:-1] if ids[-1:] == [EOS] else ids), each.words)
        if words is None:
            strange += 1
        elif len(ids) > model.config.max_positions:
            long += 1
        else:
            sentences.append(each)
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
    nothing = PieceFrequencies.of([], model.config.source_vocabulary)
    device = model.output_embedding.weight.device
    for numbers in batch_numbers({n: len(ids) for n, (ids, _) in enumerate(rows)}, model.config):
        read = make_batch_side([rows[n] for n in numbers], 0, nothing, device)
        record = Record([f"{name}.pattern" for name in counts])
        with inference_only(model):
            model.encode(read.ids, record)
        for name, count in counts.items():
            pattern = pattern_measures.merge_to_words(record[f"{name}.pattern"], read.words, read.words)
            best = pattern_measures.most_read_keys(
                pattern, pattern_measures.view_of_words(read, read, causal=False)
            ).cpu()
            for row, n in zip(best, numbers, strict=True):
                count_syntax(count, row, sentences[n], rows[n])
    found = [
        each
        for relation in NAMES
        for direction in (f"{relation}: dependent to head", f"{relation}: head to dependent")
        for name, count in counts.items()
        if (each := count.as_followed(direction, name)) is not None
    ]
    return found, notes


def count_syntax(count: RelationCounts, best: Int[Tensor, "H W"], parsed: ParsedSentence, row: IdsAndWords) -> None:
    """The instances of one sentence whose words both have a piece of their own."""
    own = set(row[1])
    for each in parsed.relations:
        if each.name in NAMES and {each.dependent, each.head} <= own:
            count.add(f"{each.name}: dependent to head", best, {each.dependent: [each.head]})
            count.add(f"{each.name}: head to dependent", best, {each.head: [each.dependent]})
