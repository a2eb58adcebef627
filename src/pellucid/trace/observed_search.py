"""How a sentence is translated for a trace: as ever, with somebody looking, or under changes to the run."""

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
    """What is translated of a sentence. ValueError for a blank one, and one that is translated in several parts."""
    [line] = prepare_lines([sentence], 1, translator.tokenizer, translator.lengths, config, None, None)
    if not line.segments:
        raise ValueError("there is nothing to trace: no part of the line is translated")
    [part, *others] = line.segments
    if others:
        raise ValueError(
            f"the line is translated in {len(line.segments)} parts, and a trace shows one; trace them one at a time"
        )
    return part


@dataclass(frozen=True)
class ObservedTranslation:
    """A translation, the pieces that were written, and the search that decided."""

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
    """What `Translator.translate` gives with this engine, and how it came about."""
    watched = copy(translator)
    watched.engine = observed = ObservingEngine(engine, tuple(prefix_ids))
    [translation] = watched.translate([sentence], config, prefixes=[prefix])
    if translation.stop == "failed":
        raise ValueError(f"the sentence is not translated: {'; '.join(translation.notes)}")
    for search in reversed(observed.searches):
        target = (
            [*search.hypotheses[0].tokens, *[EOS] * (search.hypotheses[0].stop == "eos")] if search.hypotheses else []
        )
        if translator.tokenizer.target_pieces(target) == translation.pieces:
            return ObservedTranslation(translation, target, search)
    raise AssertionError("a translation that no search has found")


class FullPrefixState:
    """What rows have written, all of it; each has the memory of its sentence, and nothing is kept of earlier steps."""

    def __init__(self, memory: Memory):
        self.memory = memory
        self.written: Int[Tensor, "R T"] | None = None

    def select(self, rows: Int[Tensor, " N"], sentences: Int[Tensor, " M"]) -> None:
        self.memory = self.memory.select(rows)
        self.written = None if self.written is None else self.written[rows]


class EditedEngine(TorchEngine):
    """Translates with a watcher that changes the run. Every step reads all that is written again, so that a change of a
    row of a pattern means the same row in every step.
    """

    def __init__(self, engine: TorchEngine, watch: Watch):
        super().__init__(engine.models, engine.forbidden, engine.words)
        self.watch = watch

    def begin_step(self, source: Int[Tensor, "B S"]) -> tuple[Step, SearchState]:
        [model] = self.models
        return full_prefix_step(model, self.watch), FullPrefixState(model.encode(source, self.watch))


def full_prefix_step(model: Transformer, watch: Watch) -> Step:
    """Logits of each row's next piece, with everything before it computed anew."""

    def step(ids: Int[Tensor, " R"], state: FullPrefixState) -> Float[Tensor, "R V"]:
        new = ids[:, None]
        state.written = new if state.written is None else torch.cat([state.written, new], dim=1)
        return model.logits(model.decode(state.written, state.memory, watch=watch)[:, -1:], watch)[:, 0]

    return step
