"""Traces that can be run again, edited, drawn and questioned by a page; and how one is made."""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import torch

from pellucid.data.context import join_context
from pellucid.data.text.word_pieces import spell_pieces
from pellucid.data.tokenizer import BOS, Tokenizer, strip_eos
from pellucid.decode.alarms import find_alarms
from pellucid.decode.line_segments import Line, LineStageMaker, Segment
from pellucid.decode.request import SearchConfig
from pellucid.decode.terms.matches import Terminology
from pellucid.decode.translation import WordOrigin
from pellucid.decode.translator import Translator
from pellucid.interpret.trace.attribution import (
    LogitAccount,
    account_for_every_step,
    account_for_logit,
)
from pellucid.interpret.trace.capture import capture_tensors, decoding_steps, rows_to_capture
from pellucid.interpret.trace.checks import check_captured_run
from pellucid.interpret.trace.diagnosis import TranslationVerdict, judge_translation
from pellucid.interpret.trace.doubt import Doubt, find_doubt
from pellucid.interpret.trace.edits import (
    EditList,
    EditSpec,
    Prefix,
    Without,
    check_edits,
    edit_watcher,
    refuse_rows_beyond,
)
from pellucid.interpret.trace.facts import (
    DecoderInputs,
    TraceFacts,
    TraceSide,
    make_side,
    model_facts,
    run_facts,
)
from pellucid.interpret.trace.manifest import build_manifest
from pellucid.interpret.trace.number_checks import CapturedRun, Check
from pellucid.interpret.trace.search_tree import (
    TracedLine,
    choose_segment,
    rescore,
    score_given_translation,
    search_translation,
)
from pellucid.interpret.trace.trace import TraceData
from pellucid.interpret.trace.untrusted import NoArguments, read_strictly
from pellucid.interpret.trace.word_origins import find_word_origins
from pellucid.model import ModelConfig
from pellucid.store.directory import Bundle

_WIDEST_BEAM = 64  # most hypotheses that a page may have kept at each step


class ModelQueries(Protocol):
    """Questions that a page asks about the whole model: verbs as in `VERBS`, and their answers for a file.

    They live above traces (pellucid.interpret.studies.model_queries), so whoever opens a model
    hands them down.
    """

    @property
    def VERBS(self) -> "Mapping[str, tuple[type, Callable[[Trace, Any], dict[str, Any]]]]": ...

    def answers_for_file(self, trace: "Trace") -> dict[str, Any]: ...


@dataclass(frozen=True)
class Drawing:
    """A translation that is drawn by chance, piece by piece.

    The settings mean the same as in `SearchConfig`.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1


@dataclass(frozen=True)
class TraceOrigin:
    """Everything a trace was made with, enough to make another one.

    The search keeps `beam` hypotheses, or with a `drawing` draws one, and begins with the pieces
    `prefix_ids`; `keep` holds patterns of the names of tensors to capture; `model_queries` answers
    a page's questions about the whole model. `markup` says what becomes of tags and addresses, and
    `sentences` of several sentences, as in `SearchConfig`; `context` is the sentence before, and
    `terms` are to stand in the translation. `similar` is the translation of a similar sentence,
    which the model reads first, of the `translation_memory`. With `other_engine`, users get their
    translations from another engine than torch; the `translator` is then one with torch alone.
    """

    translator: Translator
    bundle: Bundle
    beam: int = 4
    prefix_ids: tuple[int, ...] = ()
    keep: tuple[str, ...] | None = None
    model_queries: Callable[[], ModelQueries] | None = None
    drawing: Drawing | None = None
    markup: Literal["keep", "text"] = "keep"
    context: str = ""
    sentences: Literal["auto", "split", "keep"] = "auto"
    terms: Terminology | None = None
    similar: str = ""
    translation_memory: LineStageMaker | None = None
    other_engine: bool = False


class Trace(TraceData):
    """One traced translation: `trace["decoder.3.cross.pattern"]` is a captured tensor, without the batch axis.

    The names are listed in the glossary. The arrays cannot be written to.
    """

    def __init__(
        self,
        facts: TraceFacts,
        config: ModelConfig,
        tensors: Mapping[str, np.ndarray],
        origin: TraceOrigin,
    ):
        super().__init__(facts, config, tensors, origin.bundle)
        self.origin = origin

    def manifest(self, checked: bool = True) -> dict[str, Any]:
        """Return what the page draws from: the `Manifest` of web/src/types.ts, ready for JSON.

        With `checked` off it comes in a third of the time, and None stands in the place of the
        checks.
        """
        if checked:
            checks = [check.as_json() for check in self.checks()]
            return {**self._kept_manifest, "checks": checks}
        # Not kept: a server has many traces, and of each the JSON of this.
        return self._make_manifest()

    def checks(self) -> list[Check]:
        """Return the checks of whether the numbers hold together, each with its measurement."""
        return self._checks

    def account(
        self,
        step: int,
        piece: int | None = None,
        other: int | None = None,
    ) -> LogitAccount:
        """Account for the logit of a piece (by default the one written), or for its difference to another's."""
        return account_for_logit(self, step, piece, other)

    @cached_property
    def doubt(self) -> Doubt | None:
        """The word that the model was least sure of, and what it would have been; None where it was sure of all."""
        return find_doubt(self)

    @cached_property
    def provenance(self) -> tuple[WordOrigin, ...] | None:
        """Where each word comes from; None without terms and a memory, and where it is not known."""
        origin = self.origin
        if origin.prefix_ids or origin.drawing is not None:
            return None
        config = _make_search_config(origin, is_given=False)
        asked = origin.terms, origin.translation_memory
        return find_word_origins(origin.translator, self.facts, config, *asked)

    def verdict(self, reference: str | None = None) -> TranslationVerdict:
        """Judge why the translation may be bad; each reason comes with its numbers."""
        return judge_translation(self, reference)

    def answers(self) -> dict[str, Any]:
        """Answer ahead what a page may ask of this trace, for a file.

        Questions without an answer are left out.
        """
        answers: dict[str, Any] = {}
        with suppress(ValueError):  # tensors that were not captured
            answers["accounts"] = account_for_every_step(self)
        with suppress(ValueError):  # a run that was edited
            answers["verdict"] = self.verdict().as_json()
        return answers

    def model_answers(self) -> dict[str, Any]:
        """Answer ahead what a page may ask of the model: its words, claims tested by another run, its heads."""
        queries = self.model_queries
        return queries.answers_for_file(self) if queries is not None else {}

    @property
    def model_queries(self) -> ModelQueries | None:
        """Answers to questions about the whole model.

        None unless whoever opened the model handed them down.
        """
        return self.origin.model_queries() if self.origin.model_queries is not None else None

    def again(
        self,
        sentence: str,
        *,
        target: str | Sequence[int] | None = None,
        beam: int | None = None,
        prefix_ids: Sequence[int] = (),
        edits: Iterable[EditSpec | Mapping[str, Any]] = (),
        drawing: Drawing | None = None,
        context: str | None = None,
        segment: int | None = None,
    ) -> "Trace":
        """Trace another sentence, or this one differently, with the same model: see `Model.trace`.

        Without a `context`, this sentence keeps its own, and another has none.
        """
        width = self.origin.beam if beam is None else beam
        if context is None and self.facts.part is not None and sentence == self.facts.part.line:
            context = self.facts.part.context
        elif context is None:
            context = self.facts.context if sentence == self.sentence else ""

        origin = replace(
            self.origin,
            beam=width,
            prefix_ids=tuple(prefix_ids),
            drawing=drawing,
            context=context,
        )
        return trace_sentence(origin, sentence, target, edits, segment)

    def edited(
        self,
        *edits: EditSpec | Mapping[str, Any],
        keep_target: bool | None = None,
    ) -> "Trace":
        """Trace this sentence again with just these edits, in place of the edits of this trace.

        An edit is a `Silence`, `Pattern`, `Hide` or `Prefix`, or a mapping with the same fields and
        a "kind". With `keep_target`, the default unless there is a `Prefix`, the same translation
        is traced; without it, one is searched for under the edits. Raises ValueError for an edit
        that does not fit this model or sentence.
        """
        origin, edit_specs = self.origin, check_edits(edits)
        prefix = any(isinstance(edit, Prefix) for edit in edit_specs)
        if keep_target and prefix:
            raise ValueError(
                "a prefix begins another translation; keep_target must be false with it"
            )

        keeping = not prefix if keep_target is None else keep_target
        if keeping or prefix:
            # A kept target has its beginning already, and a `Prefix` among the edits takes the
            # place of these ids.
            origin = replace(origin, prefix_ids=())

        target, part = self.target.ids if keeping else None, self.facts.part
        if part is not None:
            return trace_sentence(origin, part.line, target, edit_specs, part.segment)
        return trace_sentence(origin, self.sentence, target, edit_specs)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the steps, and what the last cross-attention reads.

        `show` opens the page.
        """
        from pellucid.interpret.page.notebook import numbers_table, texts_table

        rows = []
        for step in self.steps:
            likeliest = ", ".join(f"{other.piece} {other.prob:.3f}" for other in step.top[:3])
            chosen = step.chosen
            rows.append(
                (str(step.step + 1), step.input, chosen.piece, f"{chosen.prob:.3f}", likeliest)
            )

        title = f"{self.source.text} → {self.target.text} (log-probability {self.log_prob:.3f})"
        heads = ["step", "reads", "writes", "probability", "the likeliest"]
        steps = texts_table(title, heads, rows)

        name = f"decoder.{self.config.decoder_layers - 1}.cross.pattern"
        if name not in self:
            return steps
        weights = self[name].values.mean(axis=0)
        pieces = self.inputs.pieces, self.source.pieces
        return steps + numbers_table(f"{name}, averaged over its heads", *pieces, weights)

    def show(self) -> Any:
        """Return the page as a widget or frame for a notebook."""
        from pellucid.interpret.page.widget import show_in_notebook

        return show_in_notebook(self, act=perform_act)

    def save_html(self, path: str | Path, keep: str | None = None) -> int:
        """Write the page as one file that needs no network and return its bytes.

        `keep` is maps, float16, float32 or weights; by default float16, and maps where that would
        take more than 3 MB.
        """
        from pellucid.interpret.page.html_file import save_html

        return save_html(self, path, keep)

    @cached_property
    def _kept_manifest(self) -> dict[str, Any]:
        return self._make_manifest()

    def _make_manifest(self) -> dict[str, Any]:
        manifest = build_manifest(self)
        manifest["doubt"] = None if self.doubt is None else asdict(self.doubt)
        if self.provenance is not None:
            manifest["provenance"] = [asdict(origin) for origin in self.provenance]
        calibration = self.origin.translator.calibration
        if calibration is not None and calibration.words is not None:
            manifest["word_curve"] = asdict(calibration.words)
        return manifest

    @cached_property
    def _checks(self) -> list[Check]:
        return check_captured_run(CapturedRun.from_trace(self))


def trace_sentence(
    origin: TraceOrigin,
    sentence: str,
    target: str | Sequence[int] | None = None,
    edits: Iterable[EditSpec | Mapping[str, Any]] = (),
    segment: int | None = None,
) -> Trace:
    """Trace the translation of one sentence.

    A `target`, as text or as ids, is traced instead of searching for one. Of a line that is
    translated in several segments, the one of this number is traced, 1 first and the default; with
    a target and without a number, the line is read whole. Raises ValueError for a sentence, target
    or edit that cannot be traced, and for a trace that would take more memory than is allowed.
    """
    began = time.perf_counter()
    translator, model, prefix_ids = origin.translator, origin.bundle.model, origin.prefix_ids
    tokenizer, edits = translator.tokenizer, check_edits(edits)
    is_given = target is not None
    _refuse_untraceable_model(translator)
    beginning = _beginning_of_search(is_given, edits, prefix_ids)

    # What is read: the line, or the part of it that is traced.
    config = _make_search_config(origin, is_given)
    # A pair that is given is read as it is; only a
    # search would split a line, or trace a part of it.
    reading = config
    if is_given and segment is None:
        reading = replace(config, too_long="refuse", sentences="keep")
    asked = Line(sentence, 1, context=origin.context, similar=origin.similar)
    line = choose_segment(translator, asked, reading, segment, beginning, origin.terms)
    part, read = line.part, line.segment
    context = origin.context
    if part is not None:
        sentence = part.segments[part.segment - 1]
        context = read.context_text if part.segment > 1 else context

    if prefix_ids and read.terms:
        raise ValueError(
            "prefix_ids cannot be combined with terms, placeholders and addresses that are kept; give the prefix as "
            "text"
        )

    ids = read.request.source
    source = _make_source_side(tokenizer, read)

    # Refused before the search, which is the slow part: a source that is too long, and edits that
    # do not fit.
    itemsize = model.output_embedding.weight.element_size()
    rows_to_capture(model.config, len(ids), 1, itemsize, origin.keep)
    edit = edit_watcher(edits, model.config, source.words) if edits else None
    if not is_given and Without("mask") in edits:
        raise ValueError(
            "a search has no later pieces that the mask could hide; trace a given target without the mask"
        )

    # What is written.
    if target is not None:
        translation = score_given_translation(translator, ids, target, config)
    else:
        translation = search_translation(
            translator,
            line.cut_line,
            config,
            edits,
            source,
            prefix_ids,
            origin.terms,
        )

    # The decoder reads its own output shifted right by one position.
    inputs = [BOS, *translation.ids[:-1]]
    refuse_rows_beyond(edits, len(inputs))

    # What is computed.
    rows = rows_to_capture(model.config, len(ids), len(inputs), itemsize, origin.keep)
    tensors, logits = capture_tensors(model, ids, inputs, rows, edit)

    # A given target was scored by the model as it is; under edits, the edited pass is what counts.
    if edits and is_given:
        translation = rescore(translation, logits, config)

    # What is known of all this.
    traced_model = model_facts(origin.bundle)
    seconds = time.perf_counter() - began
    prefix_pieces = tokenizer.target_pieces(prefix_ids)
    run = run_facts(model, config, is_given, prefix_pieces, seconds)
    input_pieces, text = tokenizer.target_pieces(inputs), tokenizer.decode_target(translation.ids)
    whole = origin.keep is not None or "logits" in tensors
    remarks = [*translation.remarks, *_trace_notes(origin, line, whole)]
    alarms = translation.alarms

    # A search says these itself.
    if is_given:
        alarms = find_alarms(line.segment.marked.text, translation.text, translator.profile)
        remarks = [*line.notes, *remarks]

    facts = TraceFacts(
        id="",
        sentence=sentence,
        context=context,
        part=part,
        model=traced_model,
        run=run,
        source=source,
        target=make_side(tokenizer.target_pieces(translation.ids), translation.ids, text, text),
        inputs=DecoderInputs(input_pieces, inputs),
        forced=is_given,
        stop=translation.stop,
        log_prob=translation.log_prob,
        score=translation.score,
        notes=[*translation.notes, *remarks],
        edits=edits,
        steps=decoding_steps(
            logits,
            input_pieces,
            translation.ids,
            lambda i: tokenizer.target_pieces([i])[0],
        ),
        tree=translation.tree,
        text=translation.text,
        piece_log_probs=translation.log_probs,
        translation_notes=list(translation.notes),
        alarms=list(alarms),
        grade=translation.grade,
    )
    facts = replace(
        facts,
        id=_identify_trace(facts, list(tensors), origin.terms is not None or bool(origin.similar)),
    )
    return Trace(facts, model.config, tensors, origin)


def _beginning_of_search(
    is_given: bool,
    edits: Sequence[EditSpec],
    prefix_ids: Sequence[int],
) -> str:
    """Return the text that the edits begin a translation with; nothing for one that is given.

    Raises ValueError for a translation with two beginnings.
    """
    if is_given and prefix_ids:
        raise ValueError(
            "target and prefix_ids are both given: a given translation already has its beginning"
        )

    prefixes = [edit.text for edit in edits if isinstance(edit, Prefix)]
    if not is_given and len(prefixes) + bool(prefix_ids) > 1:
        raise ValueError("a translation has one beginning; leave out all prefixes but one")
    return "" if is_given else "".join(prefixes)


def _make_search_config(origin: TraceOrigin, is_given: bool) -> SearchConfig:
    """Return the settings of the search.

    A target that is given is neither searched for nor drawn.
    """
    settings: dict[str, Any] = {"beam": origin.beam, "sentences": origin.sentences}
    if not is_given:
        settings["markup"] = origin.markup
        if origin.drawing is not None:
            settings |= {"method": "sample", **asdict(origin.drawing)}
    return SearchConfig(**settings)


def _make_source_side(tokenizer: Tokenizer, read: Segment) -> TraceSide:
    """Return the source as the encoder reads it, with the context or the language before it."""
    ids, pieces = read.request.source, tokenizer.source_pieces(read.request.source)
    spelled = pieces
    text, normalised = read.read.text, tokenizer.decode_source(ids[read.context :])
    marks = tokenizer.term_marks
    if marks is not None and marks[0] in ids:
        # The marks are words of their own, and so are the translations between them.
        spelled: list[str] = []
        for i, piece in zip(ids, pieces, strict=True):
            spelled.append(f"▁{piece}" if i in marks else piece)
        text = normalised = spell_pieces(spelled[read.context : len(strip_eos(ids))])

    # A multilingual model without context has one piece here: the language to write.
    language_pieces = tokenizer.source_pieces(ids[: read.context][:-1])
    before = read.context_text or " ".join(language_pieces)
    if before:
        start = f"{before} {tokenizer.source_names[BOS]}"
        text, normalised = f"{start} {text}", f"{start} {normalised}"
    return make_side(pieces, ids, text, normalised, spelled)


def _identify_trace(facts: TraceFacts, tensors: Sequence[str], reads_more: bool) -> str:
    """Return a name for the trace: equal for equal questions to equal models."""
    part = facts.part
    question = [
        [facts.model.sha256, facts.run.dtype, tensors],
        join_context(facts.context, facts.sentence),
        facts.run.search,
        # A target that was searched for follows from the
        # rest; one that was given is part of the question.
        facts.target.ids if facts.forced else [],
        [asdict(edit) for edit in facts.edits],
    ]
    if reads_more:  # than the line: terms, or a similar translation
        question.append(facts.source.ids)
    if part is not None:
        question.insert(2, [part.line, part.segment, part.context])
    return hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()[:12]


def _refuse_untraceable_model(translator: Translator) -> None:
    """Raise ValueError for an ensemble, and for a model whose number type hides differences by rounding."""
    if translator.models.is_ensemble:
        count = len(translator.models.loaded)
        raise ValueError(f"{count} models translate together; a trace shows one, so load it alone")
    # In bfloat16 or float16 rounding alone would exceed the limits of the checks.
    if translator.torch.dtype not in (torch.float32, torch.float64):
        raise ValueError(
            f"this model computes in {translator.torch.dtype}; load it with precision='float32' to trace it"
        )


def _trace_notes(origin: TraceOrigin, line: TracedLine, whole: bool) -> list[str]:
    """Return remarks that a reader of the trace should know."""
    notes, segment = [], line.segment
    if line.part is not None:
        notes.append(
            f"the line is translated in {len(line.part.segments)} parts; this is part {line.part.segment}"
        )

    pieces, longest = len(segment.request.source), origin.translator.lengths.longest_trained
    if pieces > longest:
        notes.append(
            f"the sentence has {pieces} pieces, the longest source of training had {longest}"
        )

    if segment.read.text != segment.marked.text:
        why = ", because its training text has few of the characters that were written"
        if segment.read.notes:
            why = ""
        notes.append(f"the model reads “{segment.read.text}”{why}")

    if segment.marked.text != line.cut_line.line.text.strip():
        notes.append("tags and text around the sentence are not read by the model")
    if origin.other_engine:
        notes.append(
            "PyTorch made this translation, so that every number could be kept; CTranslate2, which "
            "`pellucid translate` uses, writes the same text"
        )

    if not whole:
        notes.append(
            "for a sentence this long only the patterns are captured; ask for more with keep"
        )
    return notes


# Verbs that a page may apply to a trace. Their arguments
# come from outside: `perform_act` reads them strictly.


def perform_act(trace: Trace, verb: str, arguments: object) -> dict[str, Any] | Trace:
    """Return what a verb of `Acts` (web/src/types.ts) gives: a table that is ready for JSON, or a new trace.

    Raises ValueError, saying what is wrong, for arguments that the verb does not take or this trace
    cannot serve.
    """
    queries = trace.model_queries
    verbs = {**VERBS, **(queries.VERBS if queries is not None else {})}
    if verb not in verbs:
        raise ValueError(f"{verb!r:.40} is not something a trace can do; it can {', '.join(verbs)}")

    kind, perform = verbs[verb]
    try:
        return perform(trace, read_strictly(kind, arguments, verb))
    except KeyError as error:  # a tensor that was not captured
        raise ValueError(f"{verb}: {error.args[0]}") from None


@dataclass(frozen=True)
class _AccountArguments:
    """The piece whose logit is accounted for, and the piece it is compared with."""

    step: int
    piece: int
    other: int | None = None


@dataclass(frozen=True)
class _VerdictArguments:
    """A better translation."""

    reference: str | None = None


@dataclass(frozen=True)
class _TraceArguments:
    """A sentence to trace, with its translation or the beginning of one."""

    sentence: str
    target: str | None = None
    target_ids: list[int] | None = None
    prefix_ids: list[int] | None = None
    beam: int | None = None
    edits: EditList | None = None
    drawing: Drawing | None = None
    context: str = ""
    segment: int | None = None


@dataclass(frozen=True)
class _EditArguments:
    """Edits of the run, and whether the same translation is traced under them."""

    edits: EditList
    keep_target: bool


def _trace_again(trace: Trace, arguments: _TraceArguments) -> Trace:
    """Trace another sentence with the same model."""
    if arguments.beam is not None and not 1 <= arguments.beam <= _WIDEST_BEAM:
        raise ValueError(
            f"beam is {arguments.beam}, expected a whole number from 1 to {_WIDEST_BEAM}"
        )

    return trace.again(
        arguments.sentence,
        target=choose_target(arguments.target, arguments.target_ids or None),
        beam=arguments.beam,
        prefix_ids=arguments.prefix_ids or (),
        edits=arguments.edits or (),
        drawing=arguments.drawing,
        context=arguments.context,
        segment=arguments.segment,
    )


def choose_target(text: str | None, ids: Sequence[int] | None) -> str | Sequence[int] | None:
    """Return the target, given as text or as ids; ValueError where it is given as both."""
    if text is not None and ids is not None:
        raise ValueError("target and target_ids are both given; a trace is of one translation")
    return text if ids is None else ids


VERBS: dict[str, tuple[type, Callable[[Trace, Any], dict[str, Any] | Trace]]] = {
    "account": (
        _AccountArguments,
        lambda trace, a: trace.account(a.step, a.piece, a.other).as_json(),
    ),
    "checks": (
        NoArguments,
        lambda trace, a: {"checks": [check.as_json() for check in trace.checks()]},
    ),
    "verdict": (_VerdictArguments, lambda trace, a: trace.verdict(a.reference).as_json()),
    "trace": (_TraceArguments, _trace_again),
    "edit": (_EditArguments, lambda trace, a: trace.edited(*a.edits, keep_target=a.keep_target)),
}
