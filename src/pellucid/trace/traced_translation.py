"""The translation a trace is of: found by a search, or given."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import Literal

from torch import Tensor

from pellucid.data.tokenizer import BOS, EOS, PAD
from pellucid.decode.config import SearchConfig
from pellucid.decode.hypothesis import penalty, usable
from pellucid.decode.line_preparation import refuse_long
from pellucid.decode.search import log_probabilities
from pellucid.decode.step import forced
from pellucid.decode.torch_engine import Request
from pellucid.decode.translate import Translator, reading
from pellucid.trace.edits import EditSpec, Prefix, edit_of
from pellucid.trace.facts import Side, Tree
from pellucid.trace.observed_search import EditedEngine, sought
from pellucid.trace.search_tree import tree_of

GIVEN = "to keep what must not change, the search that decided was given the pieces up to there"


@dataclass(frozen=True)
class Written:
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
    tree: Tree | None = None


def found(
    translator: Translator,
    sentence: str,
    config: SearchConfig,
    edits: Sequence[EditSpec],
    source: Side,
    prefix_ids: Sequence[int],
) -> Written:
    """What the search finds, under the edits if there are any."""
    prefixes = [each.text for each in edits if isinstance(each, Prefix)]
    if len(prefixes) + bool(prefix_ids) > 1:
        raise ValueError("a translation has one beginning; leave out all prefixes but one")
    refuse_unwritable(translator, prefix_ids)
    limit = translator.torch.limit(Request(source.ids, 1), config)
    if len(prefix_ids) > limit:
        raise ValueError(f"prefix_ids has {len(prefix_ids)} pieces, the translation has at most {limit}")
    engine = translator.torch
    if len(prefixes) < len(edits):
        engine = EditedEngine(engine, edit_of(edits, engine.models[0].config, source.words))
    result = sought(translator, engine, sentence, config, "".join(prefixes), prefix_ids)
    made, translation = result.search, result.translation
    return Written(
        result.target,
        translation.text,
        "eos" if result.target[-1:] == [EOS] else "length",
        translation.log_prob,
        translation.score,
        translation.piece_log_probs,
        translation.notes,
        [GIVEN] if made.request.prefix and not (prefix_ids or prefixes) else [],
        tree_of(made, config, lambda i: translator.tokenizer.target_pieces([i])[0]),
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


def given(translator: Translator, source: list[int], target: str | Sequence[int], config: SearchConfig) -> Written:
    """A translation that was not searched for, scored as `Model.score` does."""
    if isinstance(target, str):
        [ids] = translator.tokenizer.encode_target([target])
    else:
        ids = list(target)
        refuse_unreadable(translator, ids)
    refuse_long("target", {1: len(ids)}, translator.lengths.most)
    with reading(translator.models[0]):
        [log_probs] = forced(translator.models[0], [source], [ids])
    text = target if isinstance(target, str) else translator.tokenizer.decode_target(ids)
    stop = "eos" if ids[-1:] == [EOS] else "length"
    return scored(Written(ids, text, stop, 0.0, 0.0, []), log_probs, config)


def rescored(written: Written, logits: Tensor, config: SearchConfig) -> Written:
    """The same pieces with what these logits, one row for each, make of them."""
    log_probs = log_probabilities(logits)
    return scored(written, [float(row[i]) for row, i in zip(log_probs, written.ids, strict=True)], config)


def scored(written: Written, log_probs: list[float], config: SearchConfig) -> Written:
    """With these log-probabilities, their sum and the score that follows."""
    total = usable(fsum(log_probs), "the translation")
    score = total / penalty(len(log_probs), config.length_penalty)
    return replace(written, log_probs=log_probs, log_prob=total, score=score)
