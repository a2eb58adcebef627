"""Says which stages stand around a search: those that its lines and its options ask for, and no other."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pellucid.decode.line_segments import LineSearch, SearchStage, TranslationTask, surround
from pellucid.decode.segment_search import SearchSegments
from pellucid.decode.stages.repetition import SearchAgain
from pellucid.decode.stages.splitting import SplitLines

if TYPE_CHECKING:
    from pellucid.decode.translator import Translator


def make_line_search(translator: "Translator", task: TranslationTask) -> LineSearch:
    """Return the search for the lines of a task, with all stages that it asks for around it."""
    innermost = SearchSegments(translator.engine, translator.tokenizer, translator.models, task.config)
    return surround(innermost, select_stages(translator, task, innermost))


def select_stages(
    translator: "Translator", task: TranslationTask, innermost: SearchSegments
) -> list[Callable[..., Any]]:
    """Return the stages that a task asks for around the innermost search, the outermost first.

    Lines become segments in `SplitLines`: a stage before it is a `LineStage`, one behind it a
    `SearchStage`.
    """
    stages: list[Callable[..., Any]] = []
    if task.config.provenance:
        from pellucid.decode.stages.provenance import NameOrigins

        reads_units = translator.memory_mark is not None
        stages.append(NameOrigins(task, lambda task: make_line_search(translator, task), reads_units))

    if translator.calibration is not None:
        from pellucid.decode.stages.grades import GradeTranslations

        stages.append(GradeTranslations(translator.calibration))

    if task.translation_memory is not None:
        stages.append(task.translation_memory.make_stage())

    stages.append(SplitLines(translator.reader, translator.lengths, task.config, task.check_wanted, task.terms))
    stages += select_reading_stages(translator, task)
    stages += select_search_stages(translator, task, innermost)
    return stages


def select_reading_stages(translator: "Translator", task: TranslationTask) -> list[SearchStage]:
    """Return the stages that say what is read for each segment, and what its translation must have."""
    stages: list[SearchStage] = []
    if task.terms is not None or task.has_markup:
        from pellucid.decode.stages.required_texts import RequireTexts

        stages.append(RequireTexts(translator.tokenizer, task.terms, task.config))

    if task.terms is not None and translator.term_marks is not None:
        from pellucid.decode.stages.marked_terms import MarkTerms

        marks, longest = translator.term_marks, translator.lengths.longest
        stages.append(MarkTerms(lambda: translator.word_edges, translator.tokenizer, marks, longest))

    if translator.context or any(line.context for line in task.lines):
        from pellucid.decode.stages.contexts import ReadContexts

        longest = translator.lengths.longest_trained
        stages.append(ReadContexts(translator.reader, translator.context, longest))

    reads_units = task.translation_memory is not None or any(line.similar for line in task.lines)
    if translator.memory_mark is not None and reads_units:
        from pellucid.decode.stages.similar_units import ReadSimilarUnits

        mark, longest = translator.memory_mark, translator.lengths.longest
        stages.append(ReadSimilarUnits(translator.tokenizer, mark, longest))

    if any(line.prefix for line in task.lines):
        from pellucid.decode.stages.prefixes import BeginWithPrefixes

        stages.append(BeginWithPrefixes(translator.tokenizer, translator.bounds, task.config))
    return stages


def select_search_stages(
    translator: "Translator", task: TranslationTask, innermost: SearchSegments
) -> list[SearchStage]:
    """Return the stages that stand around the search for segments whose source is known."""
    # Some stages run the model themselves. They are given a function, so that torch is loaded only
    # if they need it.
    stages: list[SearchStage] = []
    config = task.config
    if task.has_markup:
        from pellucid.decode.stages.tags import RestoreTags

        stages.append(RestoreTags())

    if task.has_markup or config.alignments:
        from pellucid.decode.stages.word_links import LinkWords

        stages.append(LinkWords(lambda: translator.torch, translator.tokenizer, config))

    # Who draws by chance may draw nothing.
    searches_empty = config.empty == "retry" and config.method != "sample"
    if config.repetition == "retry" or searches_empty:
        stages.append(SearchAgain(config.repetition == "retry", searches_empty))

    if task.has_markup or task.terms is not None:
        from pellucid.decode.stages.term_placement import PlaceTerms

        around = (
            translator.tokenizer,
            translator.bounds,
            config,
            innermost.whole_beam(),
            translator.reader.target_language,
        )
        stages.append(PlaceTerms(lambda: translator.torch, lambda: translator.word_edges, *around))
    return stages
