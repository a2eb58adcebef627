"""Translates a sentence for a trace: as usual but observed, or with edits applied to the run."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.data.tokenizer import EOS
from pellucid.decode.assemble import Translation
from pellucid.decode.config import SearchConfig
from pellucid.decode.line_preparation import Segment, prepare_lines
from pellucid.decode.search import SearchState, Step
from pellucid.decode.torch_engine import TorchEngine
from pellucid.decode.translate import Translator
from pellucid.model import Memory, Transformer
from pellucid.model.watch import Watch
from pellucid.trace.search_tree import ObservedSearch, ObservingEngine


def only_segment(translator: Translator, sentence: str, config: SearchConfig) -> Segment:
    """Return the only segment of a sentence; ValueError for a blank sentence, and for one of several segments."""
    [line] = prepare_lines([sentence], 1, translator.tokenizer, translator.lengths, config, None, None)
    if not line.segments:
        raise ValueError("there is nothing to trace: no part of the line is translated")
    [segment, *more] = line.segments
    if more:
        raise ValueError(
            f"the line is translated in {len(line.segments)} parts, and a trace shows one; trace them one at a time"
        )
    return segment


@dataclass(frozen=True)
class ObservedTranslation:
    """A translation, its token ids, and the search that produced it."""

    translation: Translation
    target: list[int]
    search: ObservedSearch


def translate_observed(
    translator: Translator,
    engine: TorchEngine,
    sentence: str,
    config: SearchConfig,
    prefix: str = "",
    prefix_ids: Sequence[int] = (),
) -> ObservedTranslation:
    """Translate as `Translator.translate` does with this engine, and return the deciding search as well."""
    # A shallow copy shares models and tokenizer, but the caller's translator keeps its own engine.
    observed_translator = copy(translator)
    observed_translator.engine = observed = ObservingEngine(engine, tuple(prefix_ids))
    [translation] = observed_translator.translate([sentence], config, prefixes=[prefix])
    if translation.stop == "failed":
        raise ValueError(f"the sentence is not translated: {'; '.join(translation.notes)}")
    # A line may be searched several times, for instance to place terms; the last search that gave these pieces decided.
    for search in reversed(observed.searches):
        target = (
            [*search.hypotheses[0].tokens, *[EOS] * (search.hypotheses[0].stop == "eos")] if search.hypotheses else []
        )
        if translator.tokenizer.target_pieces(target) == translation.pieces:
            return ObservedTranslation(translation, target, search)
    raise AssertionError("no search gave the pieces of the translation")


class FullPrefixState:
    """All tokens that each row has written, with the memory of its sentence; nothing computed earlier is kept."""

    def __init__(self, memory: Memory):
        self.memory = memory
        self.written: Int[Tensor, "R T"] | None = None

    def select(self, rows: Int[Tensor, " N"], sentences: Int[Tensor, " M"]) -> None:
        self.memory = self.memory.select(rows)
        self.written = None if self.written is None else self.written[rows]


class EditedEngine(TorchEngine):
    """Translates with a watcher that changes the run, reading the whole prefix again in every step."""

    def __init__(self, engine: TorchEngine, watch: Watch):
        super().__init__(engine.models, engine.forbidden, engine.words)
        self.watch = watch

    # Without a cache, row 3 of a pattern is row 3 in every step; with one, each step would show a single row 0.
    def begin_step(self, source: Int[Tensor, "B S"]) -> tuple[Step, SearchState]:
        [model] = self.models
        return full_prefix_step(model, self.watch), FullPrefixState(model.encode(source, self.watch))


def full_prefix_step(model: Transformer, watch: Watch) -> Step:
    """Return the step function that computes each row's next logits from the whole prefix, without a cache."""

    def step(ids: Int[Tensor, " R"], state: FullPrefixState) -> Float[Tensor, "R V"]:
        new = ids[:, None]
        state.written = new if state.written is None else torch.cat([state.written, new], dim=1)
        return model.logits(model.decode(state.written, state.memory, watch=watch)[:, -1:], watch)[:, 0]

    return step
