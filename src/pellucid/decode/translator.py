"""Translates lines of text: ids, the stages around the search, batches by length, the engine, and text again."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from pellucid.data.context import DocumentReader, encode_with_context, join_context, split_context
from pellucid.data.source_profile import SourceProfile
from pellucid.data.tokenizer import FORBIDDEN, Tokenizer
from pellucid.decode.confidence import Calibration
from pellucid.decode.line_segments import (
    NOT_FOUND,
    LengthLimits,
    Line,
    LineStageMaker,
    SearchResult,
    SearchStage,
    Segment,
)
from pellucid.decode.request import (
    BLOCK,
    Engine,
    Hypothesis,
    SearchBounds,
    SearchConfig,
    SearchRequest,
    batch_by_length,
    continue_always,
)
from pellucid.decode.scoring import Score, score_pairs
from pellucid.decode.source_reader import SourceReader
from pellucid.decode.stages.repetition import SearchRepetitionsAgain
from pellucid.decode.stages.splitting import SplitLines, look_for_markup
from pellucid.decode.translation import Translation
from pellucid.store.directory import Bundle

if TYPE_CHECKING:
    from pellucid.decode.terms.matches import Terminology
    from pellucid.decode.torch_engine import TorchEngine
    from pellucid.model import Transformer


class Translator:
    """A model, or several that translate together, and their tokenizer.

    It keeps no state between calls. `trained` is the length in pieces of the longest source the
    model was trained on: a longer sentence is cut where it can be. `profile` says what the sources
    of its training text looked like, `target_language` is the code of the language that it writes;
    both may be unknown. The weights of a `Bundle` are read, and torch is imported, only when
    something needs them: another `engine` than torch may answer most requests without.
    """

    def __init__(
        self,
        model: "Transformer | Bundle",
        tokenizer: Tokenizer,
        *others: "Transformer",
        trained: int | None = None,
        profile: SourceProfile | None = None,
        target_language: str | None = None,
    ):
        self.models_or_bundles = [model, *others]
        self.is_ensemble = bool(others)
        # torch's threads spin while they wait for one another: with more of them it takes four
        # times as long there.
        self.threads: int | None = None
        """Threads for torch beside an engine whose workers keep the processors busy; None leaves torch's own number."""
        self.tokenizer = tokenizer
        self.calibration: Calibration | None = None
        self.base: Translator | None = None
        """The translator of the whole multilingual model, if this translator writes one of its languages."""
        self.context = 0
        """Sentences before a line that the model was trained to read with it."""
        self.profile = profile
        self.target_language = target_language
        self._reader: tuple[tuple[Tokenizer, SourceProfile | None, str | None], SourceReader] | None = None
        # One line in, one line out: the byte that would end the line is never written.
        forbidden = FORBIDDEN + tuple(i for i, piece in enumerate(tokenizer.target_names) if piece == "<0x0A>")
        if tokenizer.target is tokenizer.source:
            forbidden += tuple(tokenizer.languages.values())

        self.bounds = SearchBounds(min(model.config.max_positions for model in self.models_or_bundles), forbidden)
        self.lengths = LengthLimits(min(trained or self.bounds.longest, self.bounds.longest), self.bounds.longest)

    @cached_property
    def models(self) -> "list[Transformer]":
        """The models, with the weights of every lazy bundle read."""
        return [item.model if isinstance(item, Bundle) else item for item in self.models_or_bundles]

    @cached_property
    def torch(self) -> "TorchEngine":
        """Torch engine, which runs the models themselves and can do everything an engine is asked for."""
        if self.base is not None:
            return self.base.torch
        import torch

        from pellucid.decode.torch_engine import TorchEngine

        if self.threads is not None:
            torch.set_num_threads(self.threads)
        return TorchEngine(self.models, self.bounds.forbidden, self.tokenizer)

    @property
    def reader(self) -> SourceReader:
        """Reader that turns texts of users into texts like the ones the model was trained on."""
        key = self.tokenizer, self.profile, self.target_language
        if self._reader is None or self._reader[0] != key:
            self._reader = key, SourceReader(*key)
        return self._reader[1]

    @cached_property
    def engine(self) -> Engine:
        """Engine that searches: torch, unless another one was put in its place."""
        return self.torch

    def into(self, language: str) -> "Translator":
        """Return the translator of a multilingual model for one language to write, with the same engine."""
        translator = copy(self)
        translator.tokenizer, translator.base = self.tokenizer.into(language), self.base or self
        translator.target_language = language
        return translator

    def require_context(self, option: str) -> None:
        """Raise ValueError, which names the option, for a model that was trained without context."""
        if not self.context:
            raise ValueError(
                f"this model was trained on single sentences and reads none before another; leave out {option}, or "
                "train a model with data.context = 1"
            )

    def inference(self) -> AbstractContextManager[None]:
        """Return a context for inference: no dropout and no gradients."""
        # `self.models` would read the weights; a model whose weights are not read is not in
        # training either.
        unloaded = any(isinstance(item, Bundle) and item.is_unloaded for item in self.models_or_bundles)
        return nullcontext() if unloaded else inference_only(*self.models)

    def translate(
        self,
        lines: Sequence[str],
        config: SearchConfig,
        first_line: int = 1,
        *,
        terms: "Terminology | None" = None,
        prefixes: Sequence[str] | None = None,
        contexts: Sequence[str] | None = None,
        translation_memory: LineStageMaker | None = None,
        check_wanted: Callable[[], None] = continue_always,
    ) -> list[Translation]:
        """Return one translation for each line, in order.

        A blank line, or one with nothing to translate, is returned as it is, with stop = "empty";
        so is one without a letter, unless the model `translates_numbers`. A line that cannot be
        translated as asked is returned as it is too, with stop = "failed" and the reason in its
        notes. Lines are counted from `first_line`: that number is what an error names, and what the
        draws of sampling depend on together with the seed. The translation of a line has what
        `terms` ask of it (`search_with_terms` says where), and begins with its text of `prefixes`.
        Each line is read with its text of `contexts`, the sentences before it. A line without
        prefix that is in `translation_memory` is not searched for: it gets that translation, and
        stop = "memory". Raises ValueError, naming the lines, for lines that the model cannot take,
        and for weights that are infinite or NaN. `check_wanted` is called again and again while it
        translates, and stops it by an exception, which is passed on.
        """
        if prefixes is not None and len(prefixes) != len(lines):
            raise ValueError(
                f"{len(lines)} lines and {len(prefixes)} prefixes: each line needs a prefix, which may be empty"
            )

        asked = []
        for i, text in enumerate(lines):
            line = Line(
                text,
                first_line + i,
                "" if prefixes is None else prefixes[i],
                "" if contexts is None else contexts[i],
            )
            asked.append(look_for_markup(line, self.reader, config, terms))

        stages = self.stages_for(asked, config, terms, translation_memory, check_wanted)
        translate = surround(partial(self.search, config=config), stages)
        with self.inference():
            return translate(asked)

    def stages_for(
        self,
        lines: Sequence[Line],
        config: SearchConfig,
        terms: "Terminology | None" = None,
        translation_memory: LineStageMaker | None = None,
        check_wanted: Callable[[], None] = continue_always,
    ) -> list[Callable[..., Any]]:
        """Return the stages that these lines ask for, the outermost first.

        Lines become segments in `SplitLines`: a stage before it is a `LineStage`, one behind it a
        `SearchStage`.
        """
        stages: list[Callable[..., Any]] = []
        if self.calibration is not None:
            from pellucid.decode.stages.grades import GradeTranslations

            stages.append(GradeTranslations(self.calibration))

        if translation_memory is not None:
            stages.append(translation_memory.make_stage())

        stages.append(SplitLines(self.reader, self.lengths, config, check_wanted))
        stages += self.reading_stages_for(lines, config, terms)
        stages += self.search_stages_for(lines, config, terms)
        return stages

    def reading_stages_for(
        self, lines: Sequence[Line], config: SearchConfig, terms: "Terminology | None" = None
    ) -> list[SearchStage]:
        """Return the stages that say what is read for each segment, and what its translation must have."""
        stages: list[SearchStage] = []
        if terms is not None or any(line.has_markup for line in lines):
            from pellucid.decode.stages.required_texts import RequireTexts

            stages.append(RequireTexts(self.tokenizer, terms, config))

        if self.context or any(line.context for line in lines):
            from pellucid.decode.stages.contexts import ReadContexts

            stages.append(ReadContexts(self.reader, self.context, self.lengths.longest_trained))

        if any(line.prefix for line in lines):
            from pellucid.decode.stages.prefixes import BeginWithPrefixes

            stages.append(BeginWithPrefixes(self.tokenizer, self.bounds, config))
        return stages

    def search_stages_for(
        self, lines: Sequence[Line], config: SearchConfig, terms: "Terminology | None" = None
    ) -> list[SearchStage]:
        """Return the stages that stand around the search for segments whose source is known."""
        stages: list[SearchStage] = []
        has_markup = any(line.has_markup for line in lines)
        if has_markup:
            from pellucid.decode.stages.tags import RestoreTags

            stages.append(RestoreTags())

        if has_markup or config.alignments:
            from pellucid.decode.stages.word_links import LinkWords

            stages.append(LinkWords(lambda: self.torch, self.tokenizer, config))

        if config.repetition == "retry":
            stages.append(SearchRepetitionsAgain())

        if has_markup or terms is not None:
            from pellucid.decode.stages.term_placement import PlaceTerms

            stages.append(PlaceTerms(lambda: self.torch, self.tokenizer, self.bounds, config))
        return stages

    def search(self, segments: list[Segment], config: SearchConfig) -> list[SearchResult]:
        """Return the hypotheses that the engine finds for each segment, and their texts: the innermost search."""
        groups = _group_equal_requests([segment.request for segment in segments], config)
        requests = [segments[group[0]].request for group in groups]
        sizes = {n: len(requests[n].source) for n in range(len(groups))}
        batches = list(batch_by_length(sizes, config.batch or self.engine.batch_size, config.batch_tokens))
        batches_of_requests = []
        for batch in batches:
            batches_of_requests.append([requests[n] for n in batch])

        found: dict[int, list[Hypothesis]] = {}
        outputs_of_batches = self.engine.search_all(batches_of_requests, config)
        for batch, outputs in zip(batches, outputs_of_batches, strict=True):
            requests[batch[0]].check_wanted()
            for n, hypotheses in zip(batch, outputs, strict=True):
                found.update(dict.fromkeys(groups[n], hypotheses))
        return self.write_texts(segments, [found[i] for i in range(len(segments))])

    def write_texts(self, segments: Sequence[Segment], found: Sequence[list[Hypothesis]]) -> list[SearchResult]:
        """Return results with the text of every hypothesis, in the case and spelling of the user's text."""
        tokens: list[list[int]] = []
        for hypotheses in found:
            tokens.extend(hypothesis.tokens for hypothesis in hypotheses)

        texts = iter(self.tokenizer.decode_targets(tokens))  # one call decodes all of them

        results = []
        for segment, hypotheses in zip(segments, found, strict=True):
            restored = [segment.read.restore(next(texts)) for _ in hypotheses]
            # A search under a rule that forbids repeats is the second one, and may find nothing.
            notes = () if hypotheses or segment.request.no_repeat else (self.explain_failure(segment),)
            results.append(SearchResult(segment, hypotheses, restored, notes=notes))
        return results

    def explain_failure(self, segment: Segment) -> str:
        """Return why no search found a translation of a segment.

        Raises ValueError for weights that are infinite or NaN.
        """
        # Rules can forbid everything, so an empty result with terms or a prefix says nothing about
        # the weights.
        if segment.terms or segment.request.prefix:
            return NOT_FOUND
        self.refuse_damaged()
        return "the model gives no translation of it a probability"

    def refuse_damaged(self) -> None:
        """Raise ValueError for weights that are infinite or NaN."""
        from pellucid.store.weights import refuse_non_finite

        for model in self.models:
            refuse_non_finite(dict(model.named_parameters()), "the model is damaged: it")

    def translate_sources(self, sources: Sequence[str], config: SearchConfig) -> list[Translation]:
        """Translate the sources of a corpus, each with its context (`join_context`)."""
        pairs = [split_context(source) for source in sources]
        return self.translate([line for _, line in pairs], config, contexts=[context for context, _ in pairs])

    def join_document(self, sentences: Iterable[str]) -> list[str]:
        """Return the source of each sentence of documents in order: with its context where both fit (`join_context`).

        Raises ValueError for a model that was trained without context.
        """
        self.require_context("document (--document)")
        reader = DocumentReader(self.context)
        sources = []
        for sentence in sentences:
            context = reader.take(sentence)
            # A blank line, which is no sentence, has none.
            sources.append(join_context(context, sentence) if sentence.strip() else sentence)

        for i, ids in enumerate(encode_with_context(self.tokenizer, sources)):
            if len(ids) > self.lengths.longest_trained:
                _, sources[i] = split_context(sources[i])
        return sources

    def translate_stream(
        self,
        lines: Iterable[str],
        config: SearchConfig,
        block: int = BLOCK,
        *,
        terms: "Terminology | None" = None,
        prefixes: Iterable[str] | None = None,
        translation_memory: LineStageMaker | None = None,
        document: bool = False,
        first_line: int = 1,
        before: Iterable[str] = (),
    ) -> Iterator[Translation]:
        """Translate any number of lines, `block` of them at a time; otherwise like `translate`.

        The lines of a `document` are read with those before them; a blank line begins another
        document. Lines that begin in the middle of a file are counted from `first_line`, and
        `before` are the lines of the document that stand before them.
        """
        line_iterator = iter(lines)
        prefix_iterator = None if prefixes is None else iter(prefixes)
        reader = DocumentReader(self.context if document else 0)
        for line in before:
            reader.take(line)

        while block_lines := list(islice(line_iterator, block)):
            yield from self.translate(
                block_lines,
                config,
                first_line,
                terms=terms,
                prefixes=None if prefix_iterator is None else list(islice(prefix_iterator, len(block_lines))),
                contexts=list(map(reader.take, block_lines)) if document else None,
                translation_memory=translation_memory,
            )
            first_line += len(block_lines)

    def score(
        self, sources: Sequence[str], targets: Sequence[str], batch: int, *, document: bool = False
    ) -> list[Score]:
        """Return the model's log-probability of each target given its source, as `score_pairs` does."""
        return score_pairs(self, sources, targets, batch, document)


def surround(search: Callable[..., Any], stages: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    """Return a search with stages around it, the outermost first.

    >>> def search_twice(segments, search):
    ...     return search([*segments, *segments])
    >>> surround(len, [search_twice, search_twice])("abc")
    12
    """
    for stage in reversed(stages):
        search = partial(stage, search=search)
    return search


def _group_equal_requests(requests: Sequence[SearchRequest], config: SearchConfig) -> list[list[int]]:
    """Return the indices of requests in groups that are searched for once."""
    # A translation does not depend on what else is in its batch. But sampling draws by line number,
    # so there equal sentences have different translations.
    if config.method == "sample":
        return [[i] for i in range(len(requests))]
    equal: dict[Hashable, list[int]] = {}
    for i, request in enumerate(requests):
        equal.setdefault(request.search_key, []).append(i)
    return list(equal.values())


@contextmanager
def inference_only(*models: "Transformer") -> Iterator[None]:
    """Run the block without dropout and gradients, then put models that were in training mode back into it."""
    import torch

    training = [model for model in models if model.training]
    for model in training:
        model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for model in training:
            model.train()
