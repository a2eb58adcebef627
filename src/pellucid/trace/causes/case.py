"""A translation to be judged, and the questions that are put to the model about it."""

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
    """A translation with everything needed to question the model about it.

    `source` and `target` are ids, with EOS if there is one; `unknown` says which source pieces are unknown. `searched`
    is true if a search found the translation, free to write anything; `tree` holds that search's candidates.
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
    def from_trace(cls, trace: "Trace") -> "TranslationCase":
        """Return the case of a trace; ValueError for a trace from disk, which has no model."""
        origin, settings = trace.require_origin(), trace.facts.run.search
        return cls(
            model=origin.bundle.model,
            tokenizer=origin.translator.tokenizer,
            text=trace.source.text,
            source=trace.source.ids,
            unknown=trace.source.unknown,
            translation=trace.target.text,
            target=trace.target.ids,
            # Under edits, or with a given beginning, the search could not write what it would have written.
            searched=not (trace.forced or trace.edits or settings["prefix"]),
            beam=int(settings["beam"]),
            length_penalty=float(settings["length_penalty"]),
            tree=trace.tree,
        )

    @property
    def source_words(self) -> list[range]:
        """Piece ranges of the source words; words are separated by white space."""
        return word_piece_ranges(self.tokenizer.source_pieces(strip_eos(self.source)), self.text)

    @property
    def target_words(self) -> list[range]:
        """Piece ranges of the words of the translation."""
        return word_piece_ranges(self.tokenizer.target_pieces(strip_eos(self.target)), self.translation)

    def log_probs(self, *targets: list[int]) -> list[list[float]]:
        """Return the log-probability of each piece of each target."""
        with inference_only(self.model):
            return score_targets(self.model, [self.source] * len(targets), list(targets))

    def measure_effects(self) -> "ErasureEffects":
        """Measure how the translation depends on each source word and on each of its own pieces."""
        run = self.model, self.source, self.target
        # The last group of each hides a whole side at once. Source groups leave EOS readable.
        all_source, all_target = range(len(strip_eos(self.source))), range(len(self.target))
        source = erase_source(*run, [*self.source_words, all_source])
        prefix = erase_prefix(*run, [*([piece] for piece in all_target), all_target])
        with inference_only(self.model):
            [norms] = piece_alignments(self.model, [self.source], [self.target])
        shares = attention_shares(norms.double().numpy(), self.source_words, self.target_words)
        without_eos = slice(len(strip_eos(self.target)))
        return ErasureEffects(
            source[:-1], prefix[:-1], float(source[-1, without_eos].sum()), float(prefix[-1, without_eos].sum()), shares
        )


@dataclass(frozen=True)
class ErasureEffects:
    """Changes of the log-probability of each written piece when a source word, or an earlier piece, is hidden.

    `whole_source` and `whole_prefix` are the sums of these changes, without that of EOS, when all of a side is hidden
    at once. `attention` has for each word of the translation the share of each source word in what cross-attention
    moved while it was written.
    """

    source: Float[ndarray, "W T"]
    prefix: Float[ndarray, "T T"]
    whole_source: float
    whole_prefix: float
    attention: Float[ndarray, "N W"]


def attention_shares(
    norms: Float[ndarray, "L T S"], source_words: Sequence[range], target_words: Sequence[range]
) -> Float[ndarray, "N W"]:
    """Return the norms as shares of the source words, averaged over layers: a row for each word of the translation.

    As in alignments, the source pieces of a word are added up and its target pieces averaged.
    """
    word_norms = np.zeros((len(norms), len(target_words), len(source_words)))
    for j, target_word in enumerate(target_words):
        for i, source_word in enumerate(source_words):
            if target_word and source_word:  # a word may have no pieces: the mean of none would be NaN
                word_norms[:, j, i] = (
                    norms[:, target_word.start : target_word.stop, source_word.start : source_word.stop].sum(2).mean(1)
                )
    total = word_norms.sum(axis=2, keepdims=True)
    return np.divide(word_norms, total, out=np.zeros_like(word_norms), where=total > 0).mean(axis=0)
