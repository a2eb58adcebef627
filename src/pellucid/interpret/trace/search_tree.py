"""The search that a trace shows: the translation with its observed search, and the tree of all its candidates."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import fsum
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.data.text.line_splitting import SplitLine
from pellucid.data.tokenizer import BOS, EOS, PAD
from pellucid.decode.corpus_sources import require_context
from pellucid.decode.line_segments import (
    CutLine,
    Line,
    SearchResult,
    Segment,
    TranslationTask,
    surround,
)
from pellucid.decode.request import SearchConfig, length_divisor, refuse_long_lines, require_finite
from pellucid.decode.search import Hypothesis, SearchState, SearchStep, Step, log_probabilities
from pellucid.decode.segment_search import SearchSegments
from pellucid.decode.stages.selection import select_reading_stages, select_search_stages
from pellucid.decode.stages.splitting import SplitLines, look_for_markup
from pellucid.decode.terms.matches import Terminology
from pellucid.decode.torch_engine import SearchRequest, TorchEngine, score_targets
from pellucid.decode.torch_models import inference_only
from pellucid.decode.translator import Translator
from pellucid.decode.usability import Grade
from pellucid.interpret.trace.edits import EditSpec, Prefix, edit_watcher
from pellucid.interpret.trace.facts import LinePart, SearchTree, TraceSide, TreeNode
from pellucid.model import Memory
from pellucid.model.watch import Watch

_FORMULA = "total / ((5 + pieces) / 6) ^ {}"


@dataclass(frozen=True)
class _TracedTranslation:
    """Ids of a translation, EOS among them where there is one, with the log-probability of each.

    `text` is what a user gets for the line, or for the part of it that was traced; `notes` are
    about its translation, `remarks` about the trace alone.
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
    alarms: tuple[str, ...] = ()
    grade: Grade | None = None


def search_translation(
    translator: Translator,
    cut_line: CutLine,
    config: SearchConfig,
    edits: Sequence[EditSpec],
    source: TraceSide,
    prefix_ids: Sequence[int],
    terms: Terminology | None = None,
) -> _TracedTranslation:
    """Search for the translation of a line of one segment, under the edits if there are any."""
    prefixes = [edit.text for edit in edits if isinstance(edit, Prefix)]
    vocabulary = translator.tokenizer.target_vocabulary
    forbidden = (*translator.torch.forbidden, EOS)
    wrong = [i for i in prefix_ids if not 0 <= i < vocabulary or i in forbidden]
    if wrong:
        instead = "; pass a finished translation as the target" if wrong[0] == EOS else ""
        raise ValueError(
            f"prefix_ids has {wrong[0]}, which no translation begins with; ids are 4 to {vocabulary - 1}{instead}"
        )

    limit = translator.bounds.max_pieces(SearchRequest(source.ids, 1), config)
    if len(prefix_ids) > limit:
        raise ValueError(
            f"prefix_ids has {len(prefix_ids)} pieces, the translation has at most {limit}"
        )

    engine = translator.torch

    # A `Prefix` only starts the search; every other edit
    # changes the run itself, which needs the slower engine.
    if len(prefixes) < len(edits):
        engine = _EditedEngine(engine, edit_watcher(edits, engine.models[0].config, source.words))
    observed = _ObservingEngine(engine, tuple(prefix_ids))
    innermost = SearchSegments(observed, translator.tokenizer, translator.models, config)
    task = TranslationTask([cut_line.line], config, terms)
    search = surround(innermost, select_search_stages(translator, task, innermost))
    with translator.models.inference():
        results = search(list(cut_line.segments))
    split_lines = SplitLines(translator.reader, translator.lengths, config)
    [translation] = split_lines.join([cut_line], results)
    if translation.stop == "failed":
        raise ValueError(f"the sentence is not translated: {'; '.join(translation.notes)}")

    remarks = []
    if translation.missing_sentences and cut_line.is_joined:
        remarks.append(_LOSSY_NOTE)

    search, hypothesis = find_deciding_search(
        observed.searches, translation.pieces, translator.tokenizer.target_pieces
    )
    ids = _written_ids(hypothesis)

    # A prefix that nobody asked for was chosen by the search, to protect terms or placeholders.
    if search.request.prefix and not (prefix_ids or prefixes):
        remarks.append(_PREFIX_NOTE)
    return _TracedTranslation(
        ids,
        translation.text,
        "eos" if ids[-1:] == [EOS] else "length",
        translation.log_prob,
        translation.score,
        translation.piece_log_probs,
        translation.notes,
        remarks,
        build_search_tree(
            replace(search, hypotheses=[hypothesis]),
            config,
            lambda i: translator.tokenizer.target_pieces([i])[0],
        ),
        translation.alarms,
        translation.grade,
    )


def find_deciding_search(
    searches: "Sequence[ObservedSearch]",
    pieces: list[str],
    target_pieces: Callable[[Sequence[int]], list[str]],
) -> "tuple[ObservedSearch, Hypothesis]":
    """Return the search that found a translation with these pieces, and the hypothesis that it is.

    A line may be searched several times, for instance to place terms; the last search that gave
    these pieces decided. The best of its hypotheses may have lacked a term.
    """
    for search in reversed(searches):
        for hypothesis in search.hypotheses:
            if target_pieces(_written_ids(hypothesis)) == pieces:
                return search, hypothesis
    raise AssertionError("the translation is what one of the searches found")


def _written_ids(hypothesis: Hypothesis) -> list[int]:
    """Return the ids of a hypothesis, EOS among them where it ended."""
    return [*hypothesis.tokens, *[EOS] * (hypothesis.stop == "eos")]


def score_given_translation(
    translator: Translator, source: list[int], target: str | Sequence[int], config: SearchConfig
) -> _TracedTranslation:
    """Score a translation that was given instead of searched for, as `Model.score` does."""
    if isinstance(target, str):
        [ids] = translator.tokenizer.encode_target([target])
    else:
        ids, vocabulary = list(target), translator.tokenizer.target_vocabulary
        if not ids:
            raise ValueError("the target has no pieces; give at least one")
        wrong = [i for i in ids if not 0 <= i < vocabulary or i in (PAD, BOS)]
        if not wrong:
            wrong = [i for i in ids[:-1] if i == EOS]
        if wrong:
            raise ValueError(
                f"the target has the id {wrong[0]}, which cannot stand there; ids are those of the {vocabulary:,} "
                f"pieces of this model, and {EOS} may stand only at the end"
            )

    refuse_long_lines("target", {1: len(ids)}, translator.lengths.longest)
    [model] = translator.models.loaded
    with inference_only(model):
        [log_probs] = score_targets(model, [source], [ids])
    text = target if isinstance(target, str) else translator.tokenizer.decode_target(ids)
    stop = "eos" if ids[-1:] == [EOS] else "length"
    return _with_log_probs(_TracedTranslation(ids, text, stop, 0.0, 0.0, []), log_probs, config)


def rescore(
    translation: _TracedTranslation,
    logits: Tensor,
    config: SearchConfig,
) -> _TracedTranslation:
    """Return the translation with its pieces scored anew by these logits, one row for each piece."""
    log_probs = log_probabilities(logits)
    return _with_log_probs(
        translation,
        [float(row[i]) for row, i in zip(log_probs, translation.ids, strict=True)],
        config,
    )


def _with_log_probs(
    translation: _TracedTranslation, log_probs: list[float], config: SearchConfig
) -> _TracedTranslation:
    """Return the translation with these log-probabilities, their sum, and the score that follows."""
    total = require_finite(fsum(log_probs), "the translation")
    score = total / length_divisor(len(log_probs), config.length_penalty)
    return replace(translation, log_probs=log_probs, log_prob=total, score=score)


@dataclass(frozen=True)
class TracedLine:
    """A line of one segment that a trace reads, which may be `part` of the line that was given."""

    cut_line: CutLine
    part: LinePart | None = None

    @property
    def segment(self) -> Segment:
        """Its only segment."""
        [segment] = self.cut_line.segments
        return segment

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on how the line was read."""
        return self.cut_line.list_notes(self.cut_line.segments)


def choose_segment(
    translator: Translator,
    line: Line,
    config: SearchConfig,
    number: int | None = None,
    prefix: str = "",
    terms: Terminology | None = None,
) -> TracedLine:
    """Return a line of one segment, or the segment of this number (1 first, the default) as a line by itself.

    Raises ValueError for a line without anything to translate, and for a number that none of its
    segments has.
    """
    if line.context:
        require_context(translator, "context")
    cut_line = _read_line(translator, line, config, terms)
    count = len(cut_line.segments)
    if not count:
        raise ValueError("there is nothing to trace: no part of the line is translated")
    if number is not None and not 1 <= number <= count:
        parts = "it is one" if count == 1 else f"they are 1 to {count}"
        raise ValueError(f"segment is {number}, and the line has no such part; {parts}")

    if number is None and count > 1 and config.sentences == "keep":
        raise ValueError(
            f"the line is translated in {count} parts, and a target is that of one; say of which, with segment = 1 to "
            f"{count}"
        )

    chosen = cut_line.segments[(number or 1) - 1]
    if line.context and not chosen.context_text and (number or 1) == 1:
        raise ValueError(
            f"the sentence and its context have more than {translator.lengths.longest_trained} pieces, which the "
            "longest source of training had; shorten the context"
        )

    if count == 1:
        if prefix:
            cut_line = _read_line(translator, replace(line, prefix=prefix), config, terms)
        return TracedLine(cut_line)
    part = LinePart(line.text, list(cut_line.split_line.segments), number or 1, line.context)
    text = part.segments[part.segment - 1]
    if prefix:
        # What it begins may be several sentences, so the segment is read anew, whole.
        whole = replace(config, sentences="keep")
        alone_line = Line(text, 1, prefix, chosen.context_text)
        return TracedLine(_read_line(translator, alone_line, whole, terms), part)

    notes, notes_of_parts = [], set[str]()
    for segment in cut_line.segments:
        notes_of_parts.update(segment.read.notes)
    for note in cut_line.list_notes(cut_line.segments):
        if note in chosen.read.notes or note not in notes_of_parts:
            notes.append(note)
    alone = replace(chosen, notes=tuple(notes))
    alone_line = Line(text, 1, has_markup=cut_line.line.has_markup)
    return TracedLine(CutLine(alone_line, SplitLine((text,), ("", "")), (alone,)), part)


def _read_line(
    translator: Translator, line: Line, config: SearchConfig, terms: Terminology | None
) -> CutLine:
    """Return a line in segments as a search is given them: with contexts, prefix, terms and protected text."""
    line = look_for_markup(line, translator.reader, config, terms)
    [cut_line] = SplitLines(translator.reader, translator.lengths, config, terms=terms).cut([line])
    task = TranslationTask([line], config, terms)
    innermost = SearchSegments(translator.engine, translator.tokenizer, translator.models, config)
    search = surround(innermost, select_search_stages(translator, task, innermost))
    # Which terms a model is told depends on what it writes without them.
    is_told = terms is not None and translator.term_marks is not None
    read: dict[int, Segment] = {}

    def note_segments(segments: list[Segment]) -> list[SearchResult]:
        """Note what is searched for, and search where what is read next depends on that."""
        is_first = not read
        read.update((segment.request.segment, segment) for segment in segments)
        if is_told and is_first:
            return search(segments)
        return [SearchResult(segment, []) for segment in segments]

    read_as_asked = surround(note_segments, select_reading_stages(translator, task))
    with translator.models.inference():
        read_as_asked(list(cut_line.segments))
    return replace(cut_line, segments=tuple(read.values()))


@dataclass
class ObservedSearch:
    """One search for one sentence: its request, the candidates of its steps, and its hypotheses."""

    request: SearchRequest
    steps: list[SearchStep]
    hypotheses: list[Hypothesis]


@dataclass
class _ObservingEngine:
    """An engine that searches for one sentence at a time with another engine, and remembers the steps of each search.

    With a `prefix`, every translation begins with these pieces.
    """

    engine: TorchEngine
    prefix: tuple[int, ...] = ()
    searches: list[ObservedSearch] = field(default_factory=list)
    batch_size: int = 1

    def search(
        self,
        requests: Sequence[SearchRequest],
        config: SearchConfig,
    ) -> list[list[Hypothesis]]:
        for original in requests:
            steps: list[SearchStep] = []
            request = replace(original, prefix=self.prefix) if self.prefix else original
            # One request at a time, so that row 0 of every step is this sentence.
            [hypotheses] = self.engine.search_batch([request], config, steps.append)
            self.searches.append(ObservedSearch(request, steps, hypotheses))
        return [search.hypotheses for search in self.searches[len(self.searches) - len(requests) :]]

    def search_all(self, batches, config):
        return (self.search(batch, config) for batch in batches)


class _EditedEngine(TorchEngine):
    """Translates with a watcher that changes the run, reading the whole prefix again in every step."""

    def __init__(self, engine: TorchEngine, watch: Watch):
        super().__init__(engine.models, engine.forbidden, engine.tokenizer)
        self.watch = watch

    # Without a cache, row 3 of a pattern is row 3 in every
    # step; with one, each step would show a single row 0.
    def begin_step(self, source: Int[Tensor, "B S"]) -> tuple[Step, SearchState]:
        [model] = self.models

        def step(ids: Int[Tensor, " R"], state: _FullPrefixState) -> Float[Tensor, "R V"]:
            new = ids[:, None]
            state.written = new if state.written is None else torch.cat([state.written, new], dim=1)
            states = model.decode(state.written, state.memory, watch=self.watch)
            return model.logits(states[:, -1:], self.watch)[:, 0]

        return step, _FullPrefixState(model.encode(source, self.watch))


class _FullPrefixState:
    """All tokens that each row has written, with the memory of its sentence.

    Nothing computed earlier is kept.
    """

    def __init__(self, memory: Memory):
        self.memory = memory
        self.written: Int[Tensor, "R T"] | None = None

    def select(self, rows: Int[Tensor, " N"], sentences: Int[Tensor, " M"]) -> None:
        self.memory = self.memory.select(rows)
        self.written = None if self.written is None else self.written[rows]


_LOSSY_NOTE = (
    "a sentence is missing from the translation: `translate` then tries each sentence of the text by itself, and a "
    "trace shows them together"
)
_PREFIX_NOTE = "to protect text that must not change, the search that decided was given the pieces before that text"


def build_search_tree(
    search: ObservedSearch,
    config: SearchConfig,
    piece: Callable[[int], str],
) -> SearchTree | None:
    """Build the tree of all candidates from the observed steps.

    None for a search that shows no steps.
    """
    if not search.steps:
        return None
    width = 1 if config.method == "greedy" else config.beam
    nodes: list[TreeNode] = []
    path_log_probs: list[list[float]] = []  # of each node, from the root

    # Ids of the nodes of the last step that were kept; None is the root.
    live: list[int | None] = [None]

    for step, observed in enumerate(search.steps):
        rows = zip(
            observed.parents[0].tolist(),
            observed.tokens[0].tolist(),
            observed.log_probs[0].tolist(),
            observed.totals[0].tolist(),
            observed.kept[0].tolist(),
            observed.finished[0].tolist(),
            strict=True,
        )
        next_live: list[int | None] = []
        for rank, row in enumerate(rows, start=1):
            parent_index, token, log_prob, total, kept, finished = row
            # Impossible candidates may fill the end, and one
            # beyond 2 * width shows only how near it came.
            if total == -float("inf") or rank > 2 * width:
                continue
            parent = live[parent_index]
            log_probs = [*([] if parent is None else path_log_probs[parent]), log_prob]
            fate = "kept" if kept else "finished" if finished else "pruned"
            nodes.append(
                TreeNode(
                    id=len(nodes),
                    parent=parent,
                    step=step,
                    piece=piece(token),
                    piece_id=token,
                    log_prob=log_prob,
                    # Added up anew from the log-probabilities rather than taken from the search.
                    total=fsum(log_probs),
                    score=fsum(log_probs) / length_divisor(len(log_probs), config.length_penalty),
                    rank=rank,
                    fate=fate,
                    best=False,
                )
            )
            path_log_probs.append(log_probs)
            if kept:
                next_live.append(len(nodes) - 1)

        live = next_live

    children = {(node.parent, node.piece_id): node.id for node in nodes}
    best, node_id = set(), None
    for token in _written_ids(search.hypotheses[0]):
        node_id = children[node_id, token]
        best.add(node_id)

    nodes = [replace(node, best=node.id in best) for node in nodes]
    return SearchTree(
        width,
        config.length_penalty,
        _FORMULA.format(config.length_penalty),
        2 * width,
        nodes,
    )
