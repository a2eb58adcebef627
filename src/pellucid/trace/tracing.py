"""How a trace is made: the sentence is translated as ever, then one pass over it and its translation is captured."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from pellucid.bundle import Bundle
from pellucid.data.tokenizer import BOS
from pellucid.decode.config import SearchConfig
from pellucid.decode.translate import Translator
from pellucid.trace.capture import capture_tensors, decoding_steps, rows_to_capture
from pellucid.trace.edits import EditSpec, Prefix, check_edits, edit_watcher, refuse_rows_beyond
from pellucid.trace.facts import DecoderInputs, TraceFacts, TraceSide
from pellucid.trace.observed_search import only_segment
from pellucid.trace.provenance import make_side, model_facts, run_facts, search_settings, trace_id
from pellucid.trace.trace import ModelQueries, Trace, TraceOrigin
from pellucid.trace.traced_translation import rescore, score_given_translation, search_translation


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
    """One translation, looked into. A `target`, as text or as ids, is read instead of searching for one.

    A search begins with the pieces `prefix_ids`; `keep` are patterns of the names of tensors to be captured;
    `model_queries` gives what a page may ask of the whole model. Raises ValueError for a sentence, a target or an edit
    that this cannot be done with, and for more than memory allows.
    """
    began = time.perf_counter()
    refuse_untraceable_model(translator)
    if target is not None and prefix_ids:
        raise ValueError("target and prefix_ids are both given: a translation that is given begins as it does")
    keep = (keep,) if isinstance(keep, str) else None if keep is None else tuple(keep)
    config, model, tokenizer = SearchConfig(beam=beam), bundle.model, translator.tokenizer
    part = only_segment(translator, sentence, config)
    if prefix_ids and part.request.terms:
        raise ValueError("prefix_ids do not go with placeholders and addresses that are kept; give the prefix as text")
    ids = part.request.source
    source = make_side(tokenizer.source_pieces(ids), ids, part.marked.text, tokenizer.decode_source(ids))
    itemsize = model.output_embedding.weight.element_size()
    rows_to_capture(model.config, len(source.ids), 1, itemsize, keep)
    edit = edit_watcher(edits, model.config, source.words) if edits else None

    if target is not None:
        written = score_given_translation(translator, source.ids, target, config)
    else:
        written = search_translation(translator, sentence, config, edits, source, prefix_ids)
    inputs = [BOS, *written.ids[:-1]]
    refuse_rows_beyond(edits, len(inputs))
    rows = rows_to_capture(model.config, len(source.ids), len(inputs), itemsize, keep)
    tensors, logits = capture_tensors(model, source.ids, inputs, rows, edit)
    if edits and target is not None:
        written = rescore(written, logits, config)
    written_pieces, read_pieces = tokenizer.target_pieces(written.ids), tokenizer.target_pieces(inputs)

    text = tokenizer.decode_target(written.ids)
    of, asked = model_facts(bundle), search_settings(config, target is not None, tokenizer.target_pieces(prefix_ids))
    run = run_facts(model, asked, time.perf_counter() - began)
    remarks = [
        *written.remarks,
        *trace_notes(translator, sentence, source, whole=keep is not None or "logits" in tensors),
    ]
    facts = TraceFacts(
        id=trace_id(
            [of.sha256, run.dtype, list(tensors)], sentence, asked, written.ids if target is not None else [], edits
        ),
        sentence=sentence,
        model=of,
        run=run,
        source=source,
        target=make_side(written_pieces, written.ids, text, text),
        inputs=DecoderInputs(read_pieces, inputs),
        forced=target is not None,
        stop=written.stop,
        log_prob=written.log_prob,
        score=written.score,
        notes=[*written.notes, *remarks],
        edits=list(edits),
        steps=decoding_steps(logits, read_pieces, written.ids, lambda i: tokenizer.target_pieces([i])[0]),
        tree=written.tree,
        text=written.text,
        piece_log_probs=written.log_probs,
        translation_notes=list(written.notes),
    )
    return Trace(
        facts, model.config, tensors, TraceOrigin(translator, bundle, beam, tuple(prefix_ids), keep, model_queries)
    )


def trace_with_edits(
    before: Trace, origin: TraceOrigin, edits: Iterable[EditSpec | Mapping[str, Any]], keep_target: bool | None
) -> Trace:
    """The same sentence under other edits: see `Trace.trace_with_edits`."""
    asked = check_edits(edits)
    prefix = any(isinstance(each, Prefix) for each in asked)
    if keep_target and prefix:
        raise ValueError("a prefix begins another translation; keep_target must be false with it")
    keeping = not prefix if keep_target is None else keep_target
    return trace_sentence(
        origin.translator,
        origin.bundle,
        before.sentence,
        target=before.target.ids if keeping else None,
        beam=origin.beam,
        edits=asked,
        prefix_ids=() if keeping or prefix else origin.prefix_ids,
        keep=origin.keep,
        model_queries=origin.model_queries,
    )


def refuse_untraceable_model(translator: Translator) -> None:
    """ValueError for several models, and for one that computes in a type that hides rounding."""
    if len(translator.models) > 1:
        raise ValueError(f"{len(translator.models)} models translate together; a trace shows one, so load it alone")
    if translator.torch.dtype not in (torch.float32, torch.float64):
        raise ValueError(
            f"this model computes in {translator.torch.dtype}; load it with precision='float32' to trace it"
        )


def trace_notes(translator: Translator, sentence: str, source: TraceSide, whole: bool) -> list[str]:
    """What a reader of the trace should know."""
    found = []
    if source.text != sentence.strip():
        found.append("tags and what stands around the sentence are not read by the model")
    if translator.engine is not translator.torch:
        found.append("searched by torch, which is what a trace looks into, not by the engine of this model")
    if not whole:
        found.append("of a sentence this long only the patterns are captured; ask for more with keep")
    return found
