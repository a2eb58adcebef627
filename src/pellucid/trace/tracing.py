"""Makes traces: translates the sentence as usual, then captures one forward pass over it and its translation."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from pellucid.data.tokenizer import BOS
from pellucid.decode.config import SearchConfig
from pellucid.decode.translate import Translator
from pellucid.store.directory import Bundle
from pellucid.trace.capture import capture_tensors, decoding_steps, rows_to_capture
from pellucid.trace.edits import EditSpec, Prefix, check_edits, edit_watcher, refuse_rows_beyond
from pellucid.trace.facts import (
    DecoderInputs,
    TraceFacts,
    TraceSide,
    make_side,
    model_facts,
    run_facts,
    search_settings,
    trace_id,
)
from pellucid.trace.search_tree import only_segment, rescore, score_given_translation, search_translation
from pellucid.trace.trace import ModelQueries, Trace, TraceOrigin


def trace_sentence(
    translator: Translator,
    bundle: Bundle,
    sentence: str,
    *,
    target: str | Sequence[int] | None = None,
    beam: int = 4,
    edits: Sequence[EditSpec] = (),
    prefix_ids: Sequence[int] = (),
    keep: str | Iterable[str] | None = None,
    model_queries: Callable[[], ModelQueries] | None = None,
) -> Trace:
    """Trace the translation of one sentence; a `target`, as text or as ids, is traced instead of searching for one.

    The search begins with the pieces `prefix_ids`; `keep` holds patterns of the names of tensors to capture;
    `model_queries` answers a page's questions about the whole model. Raises ValueError for a sentence, target or edit
    that cannot be traced, and for a trace that would take more memory than is allowed.
    """
    began = time.perf_counter()
    refuse_untraceable_model(translator)
    if target is not None and prefix_ids:
        raise ValueError("target and prefix_ids are both given: a given translation already has its beginning")
    keep = (keep,) if isinstance(keep, str) else None if keep is None else tuple(keep)
    config, model, tokenizer = SearchConfig(beam=beam), bundle.model, translator.tokenizer
    segment = only_segment(translator, sentence, config)
    if prefix_ids and segment.request.terms:
        raise ValueError(
            "prefix_ids cannot be combined with placeholders and addresses that are kept; give the prefix as text"
        )
    ids = segment.request.source
    source = make_side(tokenizer.source_pieces(ids), ids, segment.marked.text, tokenizer.decode_source(ids))
    itemsize = model.output_embedding.weight.element_size()
    # A source that is too long is refused here, before the search, which is the slow part.
    rows_to_capture(model.config, len(source.ids), 1, itemsize, keep)
    edit = edit_watcher(edits, model.config, source.words) if edits else None

    if target is not None:
        translation = score_given_translation(translator, source.ids, target, config)
    else:
        translation = search_translation(translator, sentence, config, edits, source, prefix_ids)
    # The decoder reads its own output shifted right by one position.
    inputs = [BOS, *translation.ids[:-1]]
    refuse_rows_beyond(edits, len(inputs))
    rows = rows_to_capture(model.config, len(source.ids), len(inputs), itemsize, keep)
    tensors, logits = capture_tensors(model, source.ids, inputs, rows, edit)
    # A given target was scored by the model as it is; under edits, the edited pass is what counts.
    if edits and target is not None:
        translation = rescore(translation, logits, config)
    target_pieces, input_pieces = tokenizer.target_pieces(translation.ids), tokenizer.target_pieces(inputs)

    text = tokenizer.decode_target(translation.ids)
    traced_model, settings = (
        model_facts(bundle),
        search_settings(config, target is not None, tokenizer.target_pieces(prefix_ids)),
    )
    run = run_facts(model, settings, time.perf_counter() - began)
    remarks = [
        *translation.remarks,
        *trace_notes(translator, sentence, source, whole=keep is not None or "logits" in tensors),
    ]
    facts = TraceFacts(
        id=trace_id(
            # A target that was searched for follows from the rest; one that was given is part of the question.
            [traced_model.sha256, run.dtype, list(tensors)],
            sentence,
            settings,
            translation.ids if target is not None else [],
            edits,
        ),
        sentence=sentence,
        model=traced_model,
        run=run,
        source=source,
        target=make_side(target_pieces, translation.ids, text, text),
        inputs=DecoderInputs(input_pieces, inputs),
        forced=target is not None,
        stop=translation.stop,
        log_prob=translation.log_prob,
        score=translation.score,
        notes=[*translation.notes, *remarks],
        edits=list(edits),
        steps=decoding_steps(logits, input_pieces, translation.ids, lambda i: tokenizer.target_pieces([i])[0]),
        tree=translation.tree,
        text=translation.text,
        piece_log_probs=translation.log_probs,
        translation_notes=list(translation.notes),
    )
    return Trace(
        facts, model.config, tensors, TraceOrigin(translator, bundle, beam, tuple(prefix_ids), keep, model_queries)
    )


def trace_with_edits(
    before: Trace, origin: TraceOrigin, edits: Iterable[EditSpec | Mapping[str, Any]], keep_target: bool | None
) -> Trace:
    """Trace the sentence of `before` again under other edits (see `Trace.edited`)."""
    edit_specs = check_edits(edits)
    prefix = any(isinstance(edit, Prefix) for edit in edit_specs)
    if keep_target and prefix:
        raise ValueError("a prefix begins another translation; keep_target must be false with it")
    keeping = not prefix if keep_target is None else keep_target
    return trace_sentence(
        origin.translator,
        origin.bundle,
        before.sentence,
        target=before.target.ids if keeping else None,
        beam=origin.beam,
        edits=edit_specs,
        # A kept target has its beginning already, and a `Prefix` among the edits takes the place of these ids.
        prefix_ids=() if keeping or prefix else origin.prefix_ids,
        keep=origin.keep,
        model_queries=origin.model_queries,
    )


def refuse_untraceable_model(translator: Translator) -> None:
    """Raise ValueError for an ensemble, and for a model whose number type hides differences by rounding."""
    if len(translator.models) > 1:
        raise ValueError(f"{len(translator.models)} models translate together; a trace shows one, so load it alone")
    # In bfloat16 or float16 rounding alone would exceed the limits of the checks.
    if translator.torch.dtype not in (torch.float32, torch.float64):
        raise ValueError(
            f"this model computes in {translator.torch.dtype}; load it with precision='float32' to trace it"
        )


def trace_notes(translator: Translator, sentence: str, source: TraceSide, whole: bool) -> list[str]:
    """Return remarks that a reader of the trace should know."""
    notes = []
    if source.text != sentence.strip():
        notes.append("tags and text around the sentence are not read by the model")
    if translator.engine is not translator.torch:
        notes.append("the search was run by torch, which a trace looks into, and not by this model's own engine")
    if not whole:
        notes.append("for a sentence this long only the patterns are captured; ask for more with keep")
    return notes
