"""Translates lines of text: prepares them, batches them by length, searches, and restores their order."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from math import fsum, isfinite
from typing import TYPE_CHECKING, Any, TypeVar

from pellucid.data.context import DocumentReader, encode_with_context, join_context, split_context
from pellucid.data.source_profile import SourceProfile
from pellucid.data.tokenizer import EOS, FORBIDDEN, Tokenizer
from pellucid.decode.confidence import Calibration
from pellucid.decode.prepared_lines import (
    LengthLimits,
    PreparedLine,
    SearchResult,
    Segment,
    Translation,
    assemble_translation,
    prepare_lines,
    refuse_long_lines,
)
from pellucid.decode.repetition import has_repetition
from pellucid.decode.request import (
    Engine,
    Hypothesis,
    SearchBounds,
    SearchConfig,
    SearchRequest,
    continue_always,
    require_finite,
)
from pellucid.decode.source_reader import SourceReader
from pellucid.decode.usability import choose_worst_grade, grade_alarms
from pellucid.store.directory import Bundle

if TYPE_CHECKING:
    from pellucid.decode.terms.terminology import Terms
    from pellucid.decode.torch_engine import TorchEngine
    from pellucid.decode.translation_memory import TranslationMemory
    from pellucid.model import Transformer

Result = TypeVar("Result")


@dataclass(frozen=True)
class Score:
    """Log-probability of a given translation: the sum, and one natural logarithm for each piece, EOS included."""

    log_prob: float
    pieces: list[str]
    per_piece: list[float]


class Translator:
    """A model, or several that translate together, and their tokenizer; it keeps no state between calls.

    `trained` is the length in pieces of the longest source the model was trained on: a longer sentence is cut where it
    can be. `profile` says what the sources of its training text looked like, `target_language` is the code of the
    language that it writes; both may be unknown. The weights of a `Bundle` are read, and torch is imported, only when
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
        # torch's threads spin while they wait for one another: with more of them it takes four times as long there.
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
        # `self.models` would read the weights; a model whose weights are not read is not in training either.
        unloaded = any(isinstance(item, Bundle) and item.is_unloaded for item in self.models_or_bundles)
        return nullcontext() if unloaded else inference_only(*self.models)

    def translate(
        self,
        lines: Sequence[str],
        config: SearchConfig,
        first_line: int = 1,
        *,
        terms: "Terms | None" = None,
        prefixes: Sequence[str] | None = None,
        contexts: Sequence[str] | None = None,
        translation_memory: "TranslationMemory | None" = None,
        check_wanted: Callable[[], None] = continue_always,
    ) -> list[Translation]:
        """Return one translation for each line, in order.

        A blank line, or one with nothing to translate, is returned as it is, with stop = "empty"; so is one without a
        letter, unless the model `translates_numbers`. A line that cannot be translated as asked is returned as it is
        too, with stop = "failed" and the reason in its notes. Lines are counted from `first_line`: that number is what
        an error names, and what the draws of sampling depend on together with the seed. The translation of a line has
        what `terms` ask of it (`search_with_terms` says where), and begins with its text of `prefixes`. Each line is
        read with its text of `contexts`, the sentences before it. A line without prefix that is in `translation_memory`
        is not searched for: it gets that translation, and stop = "memory". Raises ValueError, naming the lines, for
        lines that the model cannot take, and for weights that are infinite or NaN. `check_wanted` is called again and
        again while it translates, and stops it by an exception, which is passed on.
        """
        if prefixes is not None and len(prefixes) != len(lines):
            raise ValueError(
                f"{len(lines)} lines and {len(prefixes)} prefixes: each line needs a prefix, which may be empty"
            )

        def prepare(chosen: Sequence[int], config: SearchConfig) -> list[PreparedLine]:
            """Prepare the chosen lines, with what was asked for each."""
            prepared = prepare_lines(
                [lines[i] for i in chosen],
                [first_line + i for i in chosen],
                self.reader,
                self.lengths,
                config,
                terms,
                None if prefixes is None else [prefixes[i] for i in chosen],
                None if contexts is None else [contexts[i] for i in chosen],
                self.context,
                check_wanted,
            )
            if translation_memory is None:
                return prepared
            return [
                line if prefixes and prefixes[i] else _remember_line(line, translation_memory)
                for i, line in zip(chosen, prepared, strict=True)
            ]

        prepared = prepare(range(len(lines)), config)
        translations = self.translate_prepared(prepared, config)
        if config.sentences != "auto":
            return translations

        # A model may leave out a sentence of those that it translates together.
        lossy = [i for i in range(len(lines)) if translations[i].missing_sentences and prepared[i].is_joined]
        if not lossy:
            return translations
        each_alone = replace(config, sentences="split")
        for i, again in zip(lossy, self.translate_prepared(prepare(lossy, each_alone), each_alone), strict=True):
            # Where both count alike, the translations have no end marks, and alone no sentence can be left out.
            if again.missing_sentences <= translations[i].missing_sentences:
                translations[i] = replace(again, notes=(*again.notes, SENTENCE_BY_SENTENCE))
        return translations

    def translate_prepared(self, prepared: Sequence[PreparedLine], config: SearchConfig) -> list[Translation]:
        """Return the translation of each line that `prepare_lines` made ready."""
        segments = [segment for line in prepared for segment in line.segments]
        with self.inference():
            results = self.search_segments(segments, config)
            results = self.add_alignments(segments, self.add_texts(segments, results), config)
        # The segments of all lines stand in one list: each line takes as many results as it has segments.
        remaining = iter(results)
        return [
            self.add_grade(
                assemble_translation(
                    line, [next(remaining) for _ in line.segments], self.tokenizer, config, self.profile
                )
            )
            for line in prepared
        ]

    def translate_sources(self, sources: Sequence[str], config: SearchConfig) -> list[Translation]:
        """Translate the sources of a corpus, each with its context (`join_context`)."""
        contexts, lines = zip(*map(split_context, sources), strict=True) if sources else ((), ())
        return self.translate(lines, config, contexts=contexts)

    def join_document(self, sentences: Iterable[str]) -> list[str]:
        """Return the source of each sentence of documents in order: with its context where both fit (`join_context`).

        Raises ValueError for a model that was trained without context.
        """
        self.require_context("document (--document)")
        reader = DocumentReader(self.context)
        contexts = [(reader.take(sentence), sentence) for sentence in sentences]
        # A blank line, which is no sentence, has none.
        sources = [join_context(*pair) if pair[1].strip() else pair[1] for pair in contexts]
        lengths = map(len, encode_with_context(self.tokenizer, sources))
        return [
            source if length <= self.lengths.longest_trained else split_context(source)[1]
            for source, length in zip(sources, lengths, strict=True)
        ]

    def add_grade(self, translation: Translation) -> Translation:
        """Return the translation with its grade, and with its confidences where the model was calibrated."""
        if translation.stop == "empty":  # nothing was to be translated
            return translation
        if translation.stop == "memory":  # a person has translated it
            return replace(translation, grade="usable")
        if translation.stop == "failed":  # it is still the line itself
            return replace(translation, grade="redo")

        by_alarms = grade_alarms(translation.alarms) if translation.alarms else None
        if self.calibration is None or not translation.pieces or not isfinite(translation.log_prob):
            return replace(translation, grade=by_alarms) if by_alarms else translation

        numbers = translation.log_prob, len(translation.pieces), len(translation.source_pieces)
        written = translation.text, translation.pieces, translation.piece_log_probs
        quality = self.calibration.quality
        by_quality = None if quality is None else quality.grade_chrf(quality.expect_chrf(*numbers))
        return replace(
            translation,
            grade=choose_worst_grade([by_alarms, by_quality]),
            confidence=self.calibration.confidence_of(*numbers),
            word_confidences=self.calibration.confidences_of_words(*written),
        )

    def search_segments(self, segments: Sequence[Segment], config: SearchConfig) -> list[SearchResult]:
        """Return what was found for each segment, or why nothing was; translations that repeat are searched again."""
        no_room = self.explain_missing_room(segments, config)
        results = [SearchResult([], notes=(reason,)) for reason in no_room]
        fitting = [i for i, reason in enumerate(no_room) if not reason]
        for i, hypotheses in zip(fitting, self.search_once([segments[i] for i in fitting], config), strict=True):
            results[i] = SearchResult(hypotheses) if hypotheses else self.explain_failure(segments[i])
        repeating = [i for i in fitting if _needs_retry(segments[i], results[i].hypotheses, config)]
        # Searched once more, under a rule that forbids repeats.
        requests = [replace(segments[i].request, no_repeat=NO_REPEAT_NGRAM) for i in repeating]
        retried = [replace(segments[i], request=request) for i, request in zip(repeating, requests, strict=True)]
        for i, hypotheses in zip(repeating, self.search_once(retried, config), strict=True):
            # Terms and prefixes may repeat themselves although the rule forbids it, so the second search can fail
            # too; an alarm tells of that.
            if hypotheses and not has_repetition(hypotheses[0].tokens):
                note = f"repeated itself; searched again with no {NO_REPEAT_NGRAM} pieces twice"
                results[i] = SearchResult(hypotheses, notes=(note,))
        return results

    def explain_missing_room(self, segments: Sequence[Segment], config: SearchConfig) -> list[str]:
        """Return for each segment why its terms have no room in a translation, or an empty text where they have.

        Raises ValueError, naming the lines, for prefixes that have no room.
        """
        if not any(segment.request.prefix or segment.terms for segment in segments):
            return [""] * len(segments)
        from pellucid.decode.terms.required import explain_no_room, refuse_long_prefixes

        limits = [self.bounds.max_pieces(segment.request, config) for segment in segments]
        requests = [segment.request for segment in segments]
        refuse_long_prefixes((request.number, request.prefix, n) for request, n in zip(requests, limits, strict=True))
        return [
            explain_no_room(segment.request.prefix, segment.terms, n, self.torch.word_edges) if segment.terms else ""
            for segment, n in zip(segments, limits, strict=True)
        ]

    def explain_failure(self, segment: Segment) -> SearchResult:
        """Return an empty result that says why no search found a translation of a segment.

        Raises ValueError where the reason is weights that are infinite or NaN.
        """
        # Rules can forbid everything, so an empty result with terms or a prefix says nothing about the weights.
        if segment.terms or segment.request.prefix:
            return SearchResult([], notes=("no translation was found that has its terms and begins with its prefix",))
        self.refuse_damaged()
        return SearchResult([], notes=("the model gives no translation of it a probability",))

    def refuse_damaged(self) -> None:
        """Raise ValueError for weights that are infinite or NaN."""
        from pellucid.store.weights import refuse_non_finite

        for model in self.models:
            refuse_non_finite(dict(model.named_parameters()), "the model is damaged: it")

    def search_once(self, segments: Sequence[Segment], config: SearchConfig) -> list[list[Hypothesis]]:
        """Return the hypotheses of each segment."""
        plain = self.search_requests([segment.request for segment in segments if not segment.terms], config)
        with_terms = self.search_with_terms([segment for segment in segments if segment.terms], config)
        plain_iterator, terms_iterator = iter(plain), iter(with_terms)
        return [next(terms_iterator if segment.terms else plain_iterator) for segment in segments]

    def search_requests(self, requests: Sequence[SearchRequest], config: SearchConfig) -> list[list[Hypothesis]]:
        """Return the hypotheses that the engine finds for each request."""
        # Equal requests are searched once: a translation does not depend on what else is in its batch.
        equal: dict[Hashable, list[int]] = {}
        for i, request in enumerate(requests):
            # Sampling draws by line number, so there equal sentences have different translations.
            equal.setdefault(i if config.method == "sample" else request.search_key, []).append(i)
        groups = [*equal.values()]
        sizes = {n: len(requests[group[0]].source) for n, group in enumerate(groups)}
        batches = list(batch_by_length(sizes, config.batch or self.engine.batch_size, config.batch_tokens))
        outputs = self.engine.search_all([[requests[groups[n][0]] for n in batch] for batch in batches], config)
        results: dict[int, list[Hypothesis]] = {}
        for batch, output in zip(batches, outputs, strict=True):
            requests[groups[batch[0]][0]].check_wanted()
            results |= {i: hypotheses for n, hypotheses in zip(batch, output, strict=True) for i in groups[n]}
        return [results[i] for i in range(len(requests))]

    def search_with_terms(self, segments: Sequence[Segment], config: SearchConfig) -> list[list[Hypothesis]]:
        """Return the hypotheses of segments that have terms, with each term where it belongs."""
        if not segments:
            return []
        from pellucid.decode.terms.placement import TermAlignment, align_terms, search_with_terms

        def align(aligned: Sequence[Segment], targets: Sequence[list[int]]) -> list[TermAlignment]:
            pairs = list(zip(aligned, targets, strict=True))
            lengths = [max(len(segment.request.source), len(target) + 1) for segment, target in pairs]
            align_batch = partial(align_terms, self.models[0], self.tokenizer)
            return map_in_batches(align_batch, pairs, lengths, config.batch or self.torch.batch_size)

        search = partial(self.search_requests, config=config)
        return search_with_terms(segments, search, align, self.torch.word_edges)

    def add_texts(self, segments: Sequence[Segment], results: Sequence[SearchResult]) -> list[SearchResult]:
        """Return the results with the text of every hypothesis, in the case and spelling of the user's text."""
        # One call decodes all of them.
        texts = iter(
            self.tokenizer.decode_targets([hypothesis.tokens for result in results for hypothesis in result.hypotheses])
        )
        return [
            replace(result, texts=[segment.read.restore(next(texts)) for _ in result.hypotheses])
            for segment, result in zip(segments, results, strict=True)
        ]

    def add_alignments(
        self, segments: Sequence[Segment], results: Sequence[SearchResult], config: SearchConfig
    ) -> list[SearchResult]:
        """Return the results with word alignments, where they were asked for or tags need them."""
        needed = [config.alignments or bool(segment.marked.tags) for segment in segments]
        if not any(needed):
            return list(results)
        from pellucid.decode.alignment import align_sentences

        sentences = [
            # A hypothesis has no EOS in its tokens; one that was cut off has none at all.
            (segment.request.source, hypothesis.tokens + [EOS] * (hypothesis.stop == "eos"), segment.marked.text, text)
            for segment, result, is_needed in zip(segments, results, needed, strict=True)
            if is_needed
            for hypothesis, text in zip(result.hypotheses, result.texts, strict=True)
        ]
        lengths = [max(len(source), len(target)) for source, target, *_ in sentences]
        align_batch = partial(align_sentences, self.models[0], self.tokenizer)
        links = iter(map_in_batches(align_batch, sentences, lengths, config.batch or self.torch.batch_size))
        return [
            replace(result, links=[next(links) for _ in result.hypotheses]) if is_needed else result
            for result, is_needed in zip(results, needed, strict=True)
        ]

    def translate_stream(
        self,
        lines: Iterable[str],
        config: SearchConfig,
        block: int = 2048,
        *,
        terms: "Terms | None" = None,
        prefixes: Iterable[str] | None = None,
        translation_memory: "TranslationMemory | None" = None,
        document: bool = False,
    ) -> Iterator[Translation]:
        """Translate any number of lines, `block` of them at a time; otherwise like `translate`.

        The lines of a `document` are read with those before them; a blank line begins another document.
        """
        line_iterator = iter(lines)
        prefix_iterator = None if prefixes is None else iter(prefixes)
        reader = DocumentReader(self.context if document else 0)
        first_line = 1
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
        """Return the model's log-probability of each target given its source, all positions in one pass, in order.

        With `document` each source is read with its context (`join_document`). Raises ValueError for unequal numbers of
        lines, and, naming them, for lines with more pieces than the model takes.
        """
        if len(sources) != len(targets):
            raise ValueError(f"{len(sources)} sources and {len(targets)} targets: each source needs its target")
        source_ids = (
            encode_with_context(self.tokenizer, self.join_document(sources))
            if document
            else self.tokenizer.encode_source(sources)
        )
        target_ids = self.tokenizer.encode_target(targets)
        for side, ids in (("source", source_ids), ("target", target_ids)):
            refuse_long_lines(side, dict(enumerate(map(len, ids), 1)), self.lengths.longest)
        pairs = list(zip(source_ids, target_ids, strict=True))
        lengths = [max(len(source), len(target)) for source, target in pairs]
        scores = []
        with self.inference():
            per_piece = map_in_batches(self.torch.log_probs, pairs, lengths, batch or self.torch.batch_size)
            for number, (ids, log_probs) in enumerate(zip(target_ids, per_piece, strict=True), 1):
                log_prob = fsum(log_probs)
                # Damaged weights are the likeliest reason, and the message that helps.
                if not isfinite(log_prob):
                    self.refuse_damaged()
                require_finite(log_prob, f"line {number}")
                scores.append(Score(log_prob, self.tokenizer.target_pieces(ids), log_probs))
        return scores


def _remember_line(line: PreparedLine, translation_memory: "TranslationMemory") -> PreparedLine:
    """Return a line with its entry of a translation memory; if that is the same sentence, nothing is left to search."""
    match = translation_memory.find(line.line) if line.segments else None
    if match is None:
        return line
    return replace(line, match=match, segments=() if match.is_exact else line.segments)


def batch_by_length(lengths: Mapping[int, int], sentences: int, tokens: int) -> Iterator[list[int]]:
    """Yield the keys of `lengths` in batches, longest first, of at most `sentences` keys and `tokens` with padding.

    A batch has at least one key, however long.

    >>> list(batch_by_length({10: 2, 11: 5, 12: 2, 13: 4, 14: 1}, sentences=3, tokens=9))
    [[11], [13, 10], [12, 14]]
    """
    order = sorted(lengths, key=lambda i: -lengths[i])
    start = 0
    while start < len(order):
        # The first of a batch is its longest, so every row is padded to that length.
        count = max(1, min(sentences, tokens // lengths[order[start]]))
        yield order[start : start + count]
        start += count


def map_in_batches(
    function: Callable[..., Iterable[Result]], rows: Sequence[tuple[Any, ...]], lengths: Sequence[int], sentences: int
) -> list[Result]:
    """Return a result for each row, in order; the function is given the columns of a batch of rows of like length."""
    results: dict[int, Result] = {}
    # Each position holds numbers for the whole vocabulary, or for all heads: hence the small budget.
    for batch in batch_by_length(dict(enumerate(lengths)), sentences, tokens=4096):
        columns = map(list, zip(*(rows[i] for i in batch), strict=True))
        results.update(zip(batch, function(*columns), strict=True))
    return [results[i] for i in range(len(rows))]


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


SENTENCE_BY_SENTENCE = "translated sentence by sentence: together a sentence was left out"
NO_REPEAT_NGRAM = 4  # no sequence of so many tokens may stand twice in the second search


def _needs_retry(segment: Segment, hypotheses: Sequence[Hypothesis], config: SearchConfig) -> bool:
    """Return whether the best hypothesis repeats itself, its source does not, and the config asks for a retry."""
    return (
        config.repetition == "retry"
        and bool(hypotheses)
        and has_repetition(hypotheses[0].tokens)
        and not has_repetition(segment.request.source)
    )
