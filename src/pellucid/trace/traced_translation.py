"""The translation a trace is of: found by a search, or given."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import Literal

from torch import Tensor

from pellucid.data.tokenizer import BOS, EOS, PAD
from pellucid.decode.config import SearchConfig
from pellucid.decode.hypothesis import length_divisor, require_finite
from pellucid.decode.line_preparation import refuse_long_lines
from pellucid.decode.search import log_probabilities
from pellucid.decode.step import score_targets
from pellucid.decode.torch_engine import SearchRequest
from pellucid.decode.translate import Translator, inference_only
from pellucid.trace.edits import EditSpec, Prefix, edit_watcher
from pellucid.trace.facts import SearchTree, TraceSide
from pellucid.trace.observed_search import EditedEngine, translate_observed
from pellucid.trace.search_tree import build_search_tree

PREFIX_NOTE = "to keep what must not change, the search that decided was given the pieces up to there"


@dataclass(frozen=True)
class TracedTranslation:
    """The ids, the end mark among them where there is one, and what the model thought of each.

    `text` is the whole line that a user gets; `notes` are those of its translation, `remarks` are for the trace alone.
    """

    ids: list[int]
    text: str
    stop: Literal["eos", "length"]
    log_prob: float
    score: float
    log_probs: list[float]
    notes: tuple[str, ...] = ()
    remarks: Sequence[str] = ()
    tree: SearchTree | None = None


def search_translation(
    translator: Translator,
    sentence: str,
    config: SearchConfig,
    edits: Sequence[EditSpec],
    source: TraceSide,
    prefix_ids: Sequence[int],
) -> TracedTranslation:
    """What the search finds, under the edits if there are any."""
    prefixes = [each.text for each in edits if isinstance(each, Prefix)]
    if len(prefixes) + bool(prefix_ids) > 1:
        raise ValueError("a translation has one beginning; leave out all prefixes but one")
    refuse_unwritable(translator, prefix_ids)
    limit = translator.torch.limit(SearchRequest(source.ids, 1), config)
    if len(prefix_ids) > limit:
        raise ValueError(f"prefix_ids has {len(prefix_ids)} pieces, the translation has at most {limit}")
    engine = translator.torch
    if len(prefixes) < len(edits):
        engine = EditedEngine(engine, edit_watcher(edits, engine.models[0].config, source.words))
    result = translate_observed(translator, engine, sentence, config, "".join(prefixes), prefix_ids)
    made, translation = result.search, result.translation
    return TracedTranslation(
        result.target,
        translation.text,
        "eos" if result.target[-1:] == [EOS] else "length",
        translation.log_prob,
        translation.score,
        translation.piece_log_probs,
        translation.notes,
        [PREFIX_NOTE] if made.request.prefix and not (prefix_ids or prefixes) else [],
        build_search_tree(made, config, lambda i: translator.tokenizer.target_pieces([i])[0]),
    )


def refuse_unwritable(translator: Translator, prefix: Sequence[int]) -> None:
    """ValueError for ids that no translation begins with."""
    most, forbidden = translator.tokenizer.target_vocabulary, (*translator.torch.forbidden, EOS)
    wrong = [i for i in prefix if not 0 <= i < most or i in forbidden]
    if wrong:
        instead = "; a finished translation is given whole, as the target" if wrong[0] == EOS else ""
        raise ValueError(
            f"prefix_ids has {wrong[0]}, which no translation begins with; ids are 4 to {most - 1}{instead}"
        )


def refuse_unreadable(translator: Translator, ids: Sequence[int]) -> None:
    """ValueError for ids that are no translation, finished or not."""
    most = translator.tokenizer.target_vocabulary
    if not ids:
        raise ValueError("the target has no pieces; give one at least")
    wrong = [i for i in ids if not 0 <= i < most or i in (PAD, BOS)] or [i for i in ids[:-1] if i == EOS]
    if wrong:
        raise ValueError(
            f"the target has the id {wrong[0]}, which no translation has there; ids are those of the {most:,} pieces "
            f"of this model, and {EOS} stands at the end or nowhere"
        )


def score_given_translation(
    translator: Translator, source: list[int], target: str | Sequence[int], config: SearchConfig
) -> TracedTranslation:
    """A translation that was not searched for, scored as `Model.score` does."""
    if isinstance(target, str):
        [ids] = translator.tokenizer.encode_target([target])
    else:
        ids = list(target)
        refuse_unreadable(translator, ids)
    refuse_long_lines("target", {1: len(ids)}, translator.lengths.most)
    with inference_only(translator.models[0]):
        [log_probs] = score_targets(translator.models[0], [source], [ids])
    text = target if isinstance(target, str) else translator.tokenizer.decode_target(ids)
    stop = "eos" if ids[-1:] == [EOS] else "length"
    return with_log_probs(TracedTranslation(ids, text, stop, 0.0, 0.0, []), log_probs, config)


def rescore(written: TracedTranslation, logits: Tensor, config: SearchConfig) -> TracedTranslation:
    """The same pieces with what these logits, one row for each, make of them."""
    log_probs = log_probabilities(logits)
    return with_log_probs(written, [float(row[i]) for row, i in zip(log_probs, written.ids, strict=True)], config)


def with_log_probs(written: TracedTranslation, log_probs: list[float], config: SearchConfig) -> TracedTranslation:
    """With these log-probabilities, their sum and the score that follows."""
    total = require_finite(fsum(log_probs), "the translation")
    score = total / length_divisor(len(log_probs), config.length_penalty)
    return replace(written, log_probs=log_probs, log_prob=total, score=score)
