"""A translation about to be judged, and what the model answers when it is asked about it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from pellucid.data.tokenizer import Tokenizer
from pellucid.decode.alignment import piece_alignments, strip_eos, word_piece_ranges
from pellucid.decode.step import score_targets
from pellucid.decode.translate import inference_only
from pellucid.model import Transformer
from pellucid.trace.causes.erasure import erase_prefix, erase_source
from pellucid.trace.facts import SearchTree

if TYPE_CHECKING:
    from pellucid.trace.trace import Trace


@dataclass(frozen=True)
class TranslationCase:
    """A translation, and what it takes to ask the model about it.

    `source` and `target` are ids, with the end mark if there is one; `unknown` says which source pieces are. `searched`
    is true of what a search found that was free to write anything; `tree` is what it looked at.
    """

    model: Transformer
    tokenizer: Tokenizer
    text: str
    source: list[int]
    unknown: list[bool]
    translation: str
    target: list[int]
    searched: bool
    beam: int
    length_penalty: float
    tree: SearchTree | None = None

    @classmethod
    def of(cls, trace: "Trace") -> "TranslationCase":
        """That of a trace; ValueError for one from disk, which has no model."""
        origin, asked = trace.require_origin(), trace.facts.run.search
        return cls(
            model=origin.bundle.model,
            tokenizer=origin.translator.tokenizer,
            text=trace.source.text,
            source=trace.source.ids,
            unknown=trace.source.unknown,
            translation=trace.target.text,
            target=trace.target.ids,
            searched=not (trace.forced or trace.edits or asked["prefix"]),
            beam=int(asked["beam"]),
            length_penalty=float(asked["length_penalty"]),
            tree=trace.tree,
        )

    @property
    def source_words(self) -> list[range]:
        """The pieces of each source word; words are what white space separates."""
        return word_piece_ranges(self.tokenizer.source_pieces(strip_eos(self.source)), self.text)

    @property
    def target_words(self) -> list[range]:
        """The pieces of each word of the translation."""
        return word_piece_ranges(self.tokenizer.target_pieces(strip_eos(self.target)), self.translation)

    def log_probs(self, *targets: list[int]) -> list[list[float]]:
        """What the model gives each piece of each target."""
        with inference_only(self.model):
            return score_targets(self.model, [self.source] * len(targets), list(targets))

    def effects(self) -> "ErasureEffects":
        """What the translation rests on."""
        asked = self.model, self.source, self.target
        everything, every = range(len(strip_eos(self.source))), range(len(self.target))
        source = erase_source(*asked, [*self.source_words, everything])
        prefix = erase_prefix(*asked, [*([piece] for piece in every), every])
        with inference_only(self.model):
            [norms] = piece_alignments(self.model, [self.source], [self.target])
        shares = attention_shares(norms.double().numpy(), self.source_words, self.target_words)
        said = slice(len(strip_eos(self.target)))
        return ErasureEffects(
            source[:-1], prefix[:-1], float(source[-1, said].sum()), float(prefix[-1, said].sum()), shares
        )


@dataclass(frozen=True)
class ErasureEffects:
    """How the log-probability of each written piece changes when a source word, or a written piece, is hidden.

    `whole_source` and `whole_prefix` are the sums of these changes, without that of the end mark, when all of a side is
    hidden at once. `attention` has for each word of the translation the share of each source word in what
    cross-attention moved while it was written.
    """

    source: Float[ndarray, "W T"]
    prefix: Float[ndarray, "T T"]
    whole_source: float
    whole_prefix: float
    attention: Float[ndarray, "N W"]


def attention_shares(
    norms: Float[ndarray, "L T S"], source_words: Sequence[range], target_words: Sequence[range]
) -> Float[ndarray, "N W"]:
    """The norms as shares of the source words, the mean of all layers: a row for each word of the translation.

    As in alignments, the source pieces of a word are added up and its target pieces averaged.
    """
    of_words = np.zeros((len(norms), len(target_words), len(source_words)))
    for j, written in enumerate(target_words):
        for i, read in enumerate(source_words):
            if written and read:
                of_words[:, j, i] = norms[:, written.start : written.stop, read.start : read.stop].sum(2).mean(1)
    total = of_words.sum(axis=2, keepdims=True)
    return np.divide(of_words, total, out=np.zeros_like(of_words), where=total > 0).mean(axis=0)
