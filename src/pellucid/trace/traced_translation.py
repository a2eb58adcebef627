"""The translation that a trace shows: found by a search, or given."""

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

PREFIX_NOTE = "to protect text that must not change, the search that decided was given the pieces before that text"


@dataclass(frozen=True)
class TracedTranslation:
    """Ids of a translation, EOS among them where there is one, with the log-probability of each.

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
    """Search for the translation, under the edits if there are any."""
    prefixes = [edit.text for edit in edits if isinstance(edit, Prefix)]
    if len(prefixes) + bool(prefix_ids) > 1:
        raise ValueError("a translation has one beginning; leave out all prefixes but one")
    refuse_unwritable(translator, prefix_ids)
    limit = translator.torch.limit(SearchRequest(source.ids, 1), config)
    if len(prefix_ids) > limit:
        raise ValueError(f"prefix_ids has {len(prefix_ids)} pieces, the translation has at most {limit}")
    engine = translator.torch
    # A `Prefix` only starts the search; every other edit changes the run itself, which needs the slower engine.
    if len(prefixes) < len(edits):
        engine = EditedEngine(engine, edit_watcher(edits, engine.models[0].config, source.words))
    result = translate_observed(translator, engine, sentence, config, "".join(prefixes), prefix_ids)
    search, translation = result.search, result.translation
    return TracedTranslation(
        result.target,
        translation.text,
        "eos" if result.target[-1:] == [EOS] else "length",
        translation.log_prob,
        translation.score,
        translation.piece_log_probs,
        translation.notes,
        # A prefix that nobody asked for was chosen by the search, to protect terms or placeholders.
        [PREFIX_NOTE] if search.request.prefix and not (prefix_ids or prefixes) else [],
        build_search_tree(search, config, lambda i: translator.tokenizer.target_pieces([i])[0]),
    )


def refuse_unwritable(translator: Translator, prefix: Sequence[int]) -> None:
    """Raise ValueError for ids that no translation begins with."""
    vocabulary, forbidden = translator.tokenizer.target_vocabulary, (*translator.torch.forbidden, EOS)
    wrong = [i for i in prefix if not 0 <= i < vocabulary or i in forbidden]
    if wrong:
        instead = "; pass a finished translation as the target" if wrong[0] == EOS else ""
        raise ValueError(
            f"prefix_ids has {wrong[0]}, which no translation begins with; ids are 4 to {vocabulary - 1}{instead}"
        )


def refuse_unreadable(translator: Translator, ids: Sequence[int]) -> None:
    """Raise ValueError for ids that are no translation, finished or not."""
    vocabulary = translator.tokenizer.target_vocabulary
    if not ids:
        raise ValueError("the target has no pieces; give at least one")
    wrong = [i for i in ids if not 0 <= i < vocabulary or i in (PAD, BOS)] or [i for i in ids[:-1] if i == EOS]
    if wrong:
        raise ValueError(
            f"the target has the id {wrong[0]}, which cannot stand there; ids are those of the {vocabulary:,} pieces "
            f"of this model, and {EOS} may stand only at the end"
        )


def score_given_translation(
    translator: Translator, source: list[int], target: str | Sequence[int], config: SearchConfig
) -> TracedTranslation:
    """Score a translation that was given instead of searched for, as `Model.score` does."""
    if isinstance(target, str):
        [ids] = translator.tokenizer.encode_target([target])
    else:
        ids = list(target)
        refuse_unreadable(translator, ids)
    refuse_long_lines("target", {1: len(ids)}, translator.lengths.longest)
    with inference_only(translator.models[0]):
        [log_probs] = score_targets(translator.models[0], [source], [ids])
    text = target if isinstance(target, str) else translator.tokenizer.decode_target(ids)
    stop = "eos" if ids[-1:] == [EOS] else "length"
    return with_log_probs(TracedTranslation(ids, text, stop, 0.0, 0.0, []), log_probs, config)


def rescore(translation: TracedTranslation, logits: Tensor, config: SearchConfig) -> TracedTranslation:
    """Return the translation with its pieces scored anew by these logits, one row for each piece."""
    log_probs = log_probabilities(logits)
    return with_log_probs(
        translation, [float(row[i]) for row, i in zip(log_probs, translation.ids, strict=True)], config
    )


def with_log_probs(translation: TracedTranslation, log_probs: list[float], config: SearchConfig) -> TracedTranslation:
    """Return the translation with these log-probabilities, their sum, and the score that follows."""
    total = require_finite(fsum(log_probs), "the translation")
    score = total / length_divisor(len(log_probs), config.length_penalty)
    return replace(translation, log_probs=log_probs, log_prob=total, score=score)
