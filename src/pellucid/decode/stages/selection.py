"""Says which stages stand around a search: those that its lines and its options ask for, and no other."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pellucid.decode.line_segments import Line, LineStageMaker, SearchStage
from pellucid.decode.request import SearchConfig, continue_always
from pellucid.decode.stages.repetition import SearchEmptyTextsAgain, SearchRepetitionsAgain
from pellucid.decode.stages.splitting import SplitLines

if TYPE_CHECKING:
    from pellucid.decode.terms.matches import Terminology
    from pellucid.decode.translator import Translator


def select_stages(
    translator: "Translator",
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
    if config.provenance:
        from pellucid.decode.stages.provenance import NameOrigins

        plain = replace(config, provenance=False, alignments=False)
        again = partial(translator.translate_lines, config=plain, check_wanted=check_wanted)
        reads_units = translator.memory_mark is not None and translation_memory is not None
        without_terms = partial(again, translation_memory=translation_memory)
        stages.append(NameOrigins(terms, without_terms, partial(again, terms=terms) if reads_units else None))

    if translator.calibration is not None:
        from pellucid.decode.stages.grades import GradeTranslations

        stages.append(GradeTranslations(translator.calibration))

    if translation_memory is not None:
        stages.append(translation_memory.make_stage())

    stages.append(SplitLines(translator.reader, translator.lengths, config, check_wanted))
    stages += select_reading_stages(translator, lines, config, terms, translation_memory)
    stages += select_search_stages(translator, lines, config, terms)
    return stages


def select_reading_stages(
    translator: "Translator",
    lines: Sequence[Line],
    config: SearchConfig,
    terms: "Terminology | None" = None,
    translation_memory: LineStageMaker | None = None,
) -> list[SearchStage]:
    """Return the stages that say what is read for each segment, and what its translation must have."""
    stages: list[SearchStage] = []
    if terms is not None or any(line.has_markup for line in lines):
        from pellucid.decode.stages.required_texts import RequireTexts

        stages.append(RequireTexts(translator.tokenizer, terms, config))

    if terms is not None and translator.term_marks is not None:
        from pellucid.decode.stages.marked_terms import MarkTerms

        marks, longest = translator.term_marks, translator.lengths.longest
        stages.append(MarkTerms(translator.tokenizer, marks, longest))

    if translator.context or any(line.context for line in lines):
        from pellucid.decode.stages.contexts import ReadContexts

        longest = translator.lengths.longest_trained
        stages.append(ReadContexts(translator.reader, translator.context, longest))

    reads_units = translation_memory is not None or any(line.similar for line in lines)
    if translator.memory_mark is not None and reads_units:
        from pellucid.decode.stages.similar_units import ReadSimilarUnits

        mark, longest = translator.memory_mark, translator.lengths.longest
        stages.append(ReadSimilarUnits(translator.tokenizer, mark, longest))

    if any(line.prefix for line in lines):
        from pellucid.decode.stages.prefixes import BeginWithPrefixes

        stages.append(BeginWithPrefixes(translator.tokenizer, translator.bounds, config))
    return stages


def select_search_stages(
    translator: "Translator",
    lines: Sequence[Line],
    config: SearchConfig,
    terms: "Terminology | None" = None,
) -> list[SearchStage]:
    """Return the stages that stand around the search for segments whose source is known."""
    # Some stages run the model themselves. They are given a function, so that torch is loaded only
    # if they need it.
    stages: list[SearchStage] = []
    has_markup = any(line.has_markup for line in lines)
    if has_markup:
        from pellucid.decode.stages.tags import RestoreTags

        stages.append(RestoreTags())

    if has_markup or config.alignments:
        from pellucid.decode.stages.word_links import LinkWords

        stages.append(LinkWords(lambda: translator.torch, translator.tokenizer, config))

    if config.repetition == "retry":
        stages.append(SearchRepetitionsAgain())

    # Who draws by chance may draw nothing.
    if config.empty == "retry" and config.method != "sample":
        stages.append(SearchEmptyTextsAgain())

    if has_markup or terms is not None:
        from pellucid.decode.stages.term_placement import PlaceTerms

        around = translator.tokenizer, translator.bounds, config, translator.reader.target_language
        stages.append(PlaceTerms(lambda: translator.torch, *around))
    return stages
