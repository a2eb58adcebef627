"""Lines of text in, translations out: encodes, groups by length, searches, and puts everything back in order."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from math import fsum
from typing import Literal

import torch

from pellucid.data.tokenizer import EOS, Tokenizer
from pellucid.decode.config import SearchConfig
from pellucid.decode.engines import Engine, Request, TorchEngine
from pellucid.decode.search import FORBIDDEN, Hypothesis, usable
from pellucid.decode.step import forced
from pellucid.decode.words import Words
from pellucid.model import Transformer


@dataclass(frozen=True)
class Translation:
    """One translation of one line, why it stopped, and what the model thought of each piece.

    `pieces` are all that was written, the end mark too if it was; `piece_log_probs` has one natural logarithm for each
    and `log_prob` is their sum. Only the best of a line has `alternatives`: the other n - 1, best first. `alignment`,
    when asked for, pairs a source word with the word of the translation that was read from it; words are what white
    space separates, from 0. `notes` say what was done that was not plain.
    """

    text: str
    score: float
    log_prob: float
    stop: Literal["eos", "length", "empty"]
    pieces: list[str]
    piece_log_probs: list[float]
    source_pieces: list[str]
    alternatives: list["Translation"] = field(default_factory=list)
    alignment: list[tuple[int, int]] | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Score:
    """What the model thinks of a given translation: a logarithm for each piece and the end mark, and their sum."""

    log_prob: float
    pieces: list[str]
    per_piece: list[float]


class Translator:
    """A model and its tokenizer, ready to translate. It keeps nothing between calls."""

    def __init__(self, model: Transformer, tokenizer: Tokenizer):
        self.model = model
        self.tokenizer = tokenizer
        # One line in, one line out: the byte that would end the line is never written.
        pieces = tokenizer.target_pieces(range(tokenizer.target_vocabulary))
        forbidden = FORBIDDEN + tuple(i for i, piece in enumerate(pieces) if piece == "<0x0A>")
        self.engine: Engine = TorchEngine([model], forbidden, Words.of(tokenizer))

    def translate(
        self,
        lines: Sequence[str],
        config: SearchConfig,
        progress: Callable[[int], None] | None = None,
        first_line: int = 1,
    ) -> list[Translation]:
        """One translation for each line, in their order; a blank line becomes an empty text with stop = "empty".

        `progress` hears how many lines are done. Lines are counted from `first_line`: that number is what an error
        names, and what the draws of sampling depend on together with the seed.
        ValueError, naming the lines, for those with more pieces than the model takes.
        """
        present = [i for i, line in enumerate(lines) if line.strip()]
        sources = dict(zip(present, self.tokenizer.encode_source([lines[i] for i in present]), strict=True))
        self.refuse_long("source", {first_line + i: len(ids) for i, ids in sources.items()})
        results = [Translation("", 0.0, 0.0, "empty", [], [], []) for _ in lines]
        done = len(lines) - len(present)
        with reading(self.model):
            for batch in batches({i: len(ids) for i, ids in sources.items()}, config.batch, config.batch_tokens):
                found = self.engine.search([Request(sources[i], first_line + i) for i in batch], config)
                for i, hypotheses in zip(batch, found, strict=True):
                    results[i] = self.translation(sources[i], hypotheses)
                done += len(batch)
                if progress is not None:
                    progress(done)
        return results

    def translate_stream(self, lines: Iterable[str], config: SearchConfig, block: int = 2048) -> Iterator[Translation]:
        """As `translate`, for any number of lines: reads `block` of them, translates them, hands them on."""
        rest, first_line = iter(lines), 1
        while some := list(islice(rest, block)):
            yield from self.translate(some, config, first_line=first_line)
            first_line += len(some)

    def score(self, sources: Sequence[str], targets: Sequence[str], batch: int) -> list[Score]:
        """The model's log-probability of each target given its source, all positions in one pass, in their order.

        ValueError for unequal numbers of lines, and, naming them, for lines with more pieces than the model takes.
        """
        if len(sources) != len(targets):
            raise ValueError(f"{len(sources)} sources and {len(targets)} targets: each source needs its target")
        read, written = self.tokenizer.encode_source(sources), self.tokenizer.encode_target(targets)
        self.refuse_long("source", dict(enumerate(map(len, read), 1)))
        self.refuse_long("target", dict(enumerate(map(len, written), 1)))
        sizes = {i: max(len(read[i]), len(written[i])) for i in range(len(read))}
        scores: dict[int, Score] = {}
        with reading(self.model):
            # Each position holds logits for the whole vocabulary, hence the small budget.
            for chosen in batches(sizes, batch, tokens=4096):
                per_piece = forced(self.model, [read[i] for i in chosen], [written[i] for i in chosen])
                for i, each in zip(chosen, per_piece, strict=True):
                    scores[i] = Score(usable(fsum(each)), self.tokenizer.target_pieces(written[i]), each)
        return [scores[i] for i in range(len(read))]

    def translation(self, source: list[int], hypotheses: list[Hypothesis]) -> Translation:
        """Ids to text: the best hypothesis, with the others as its alternatives."""
        read = self.tokenizer.source_pieces(source)
        best, *others = (
            Translation(
                self.tokenizer.decode_target(h.tokens),
                h.score,
                h.log_prob,
                h.stop,
                self.tokenizer.target_pieces(h.tokens + [EOS] * (h.stop == "eos")),
                h.log_probs,
                read,
            )
            for h in hypotheses
        )
        return replace(best, alternatives=others)

    def refuse_long(self, side: str, pieces: Mapping[int, int]) -> None:
        """ValueError if a line, by its number, has more pieces than the model takes."""
        limit = self.model.config.max_positions
        long = [f"line {number} has {count}" for number, count in pieces.items() if count > limit]
        if long:
            shown = ", ".join(long[:5]) + (f", and {len(long) - 5} more lines are too long" if len(long) > 5 else "")
            raise ValueError(f"{side}: this model takes {limit} pieces a line, {shown}; split them into sentences")


def batches(lengths: Mapping[int, int], sentences: int, tokens: int) -> Iterator[list[int]]:
    """The keys of `lengths`, longest first: at most so many a batch, and so many pieces with padding, but at least one.

    >>> list(batches({10: 2, 11: 5, 12: 2, 13: 4, 14: 1}, sentences=3, tokens=9))
    [[11], [13, 10], [12, 14]]
    """
    order = sorted(lengths, key=lambda i: -lengths[i])
    at = 0
    while at < len(order):
        count = max(1, min(sentences, tokens // lengths[order[at]]))
        yield order[at : at + count]
        at += count


@contextmanager
def reading(model: Transformer) -> Iterator[None]:
    """No dropout and no gradients; a model that was in training is so again afterwards."""
    training = model.training
    if training:
        model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        if training:
            model.train()
