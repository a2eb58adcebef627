"""Stages: each alone, around a search that notes what it is asked and gives prepared answers."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pellucid.data.tokenizer import BOS
from pellucid.decode.line_segments import (
    NOT_FOUND,
    LengthLimits,
    Line,
    SearchResult,
    Segment,
    TranslationTask,
    surround,
)
from pellucid.decode.request import Hypothesis, SearchBounds, SearchConfig
from pellucid.decode.segment_search import SearchSegments
from pellucid.decode.source_reader import SourceReader
from pellucid.decode.stages.contexts import NO_CONTEXT, ReadContexts
from pellucid.decode.stages.prefixes import BeginWithPrefixes
from pellucid.decode.stages.repetition import EMPTIED, NO_REPEAT_NGRAM, SearchAgain
from pellucid.decode.stages.required_texts import RequireTexts
from pellucid.decode.stages.selection import select_stages
from pellucid.decode.stages.splitting import SENTENCE_BY_SENTENCE, SplitLines, list_segments, look_for_markup
from pellucid.decode.stages.tags import RestoreTags
from pellucid.decode.stages.term_placement import PlaceTerms
from pellucid.decode.stages.word_links import LinkWords
from pellucid.decode.translator import Translator
from pellucid.localize.terminology import Terms
from pellucid.localize.translation_memory import TranslationMemory
from tests.decode.models import random_model, small_tokenizer

READER = SourceReader(small_tokenizer())
CONFIG = SearchConfig(beam=1)
BOUNDS = SearchBounds(97, ())
LENGTHS = LengthLimits(60, 97)
TWO = "The ball is blue. Where is the house?"


class NotingSearch:
    """The innermost search: it notes the segments of each call, and translates each by a function of its text."""

    def __init__(self, translate: Callable[[str], str] = str.upper):
        self.translate = translate
        self.calls: list[list[Segment]] = []

    def __call__(self, segments: list[Segment]) -> list[SearchResult]:
        self.calls.append(segments)
        results = []
        for segment in segments:
            text = self.translate(segment.marked.text)
            [ids] = small_tokenizer().encode_target([text])
            hypothesis = Hypothesis(ids[:-1], -1.0, -2.0, "eos", [])
            results.append(SearchResult(segment, [hypothesis], [text]))
        return results


def cut(*lines: Line, config: SearchConfig = CONFIG) -> list[Segment]:
    """Return the segments of lines."""
    looked_at = [look_for_markup(line, READER, config) for line in lines]
    return list_segments(SplitLines(READER, LENGTHS, config).cut(looked_at))


def test_stages_stand_around_a_search_in_order():
    def put_around(left: str, right: str) -> Callable:
        return lambda text, search: f"{left}{search(text)}{right}"

    assert surround(str.upper, [put_around("(", ")"), put_around("[", "]")])("a") == "([A])"
    assert surround(str.upper, [])("a") == "A"


def test_lines_are_split_searched_for_all_at_once_and_joined_in_order():
    search = NotingSearch()
    split = SplitLines(READER, LENGTHS, replace(CONFIG, sentences="split"))
    translations = split([Line(TWO, 1), Line("", 2), Line("Yes.", 3)], search)
    assert [translation.text for translation in translations] == [TWO.upper(), "", "YES."]
    assert [translation.stop for translation in translations] == ["eos", "empty", "eos"]
    assert [translation.score for translation in translations] == [-2.0, 0.0, -1.0]
    [segments] = search.calls
    assert [(s.request.number, s.request.segment) for s in segments] == [(1, 0), (1, 1), (3, 0)]


def test_a_line_that_lost_a_sentence_is_searched_for_again_each_sentence_alone():
    lossy = NotingSearch(lambda text: "YES." if text == TWO else text.upper())
    split = SplitLines(READER, LENGTHS, replace(CONFIG, sentences="keep"))
    [lost] = split([Line(TWO, 1)], lossy)
    assert (lost.text, lost.missing_sentences) == ("YES.", 1)

    learned = SplitLines(ManySentences(small_tokenizer()), LENGTHS, CONFIG)
    [again] = learned([Line(TWO, 1)], lossy)
    assert (again.text, again.missing_sentences) == (TWO.upper(), 0)
    assert again.notes[-1] == SENTENCE_BY_SENTENCE
    assert [len(call) for call in lossy.calls[1:]] == [1, 2]


class ManySentences(SourceReader):
    """The reader of a model that has learned to translate several sentences together."""

    @property
    def sentences_together(self) -> int:
        return 9


def test_a_line_that_is_known_is_not_searched_for_but_one_without_text_stays():
    search = NotingSearch()
    lines = [Line("Yes.", 1, known="Sí."), Line("...", 2, known="puntos"), Line("Yes.", 3)]
    known, empty, searched = SplitLines(READER, LENGTHS, CONFIG)(lines, search)
    assert (known.text, known.stop) == ("Sí.", "memory")
    assert (empty.text, empty.stop) == ("...", "empty")
    assert searched.text == "YES."
    assert [segment.request.number for segment in search.calls[0]] == [3]


def test_a_memory_answers_the_lines_that_it_has_and_shows_similar_ones():
    memory = TranslationMemory([("Yes.", "Sí."), ("The ball is blue.", "La bola es azul.")])
    lines = [Line("Yes.", 1), Line("The ball is red.", 2), Line("Yes.", 3, prefix="S")]
    search = NotingSearch()
    split = SplitLines(READER, LENGTHS, CONFIG)
    translate = surround(search, [memory.make_stage(), split])
    same, similar, with_prefix = translate(lines)
    assert (same.text, same.stop, same.grade) == ("Sí.", "memory", "usable")
    assert similar.text == "THE BALL IS RED."
    assert similar.remembered is not None
    assert similar.remembered.target == "La bola es azul."
    assert (with_prefix.text, with_prefix.remembered) == ("YES.", None)


def test_a_context_stands_before_a_source_where_both_have_room():
    segments = cut(
        Line("Yes.", 1, context="The ball is blue."), Line(TWO, 2), config=replace(CONFIG, sentences="split")
    )
    search = NotingSearch()
    ReadContexts(READER, count=1, longest=60)(segments, search)
    [[first, alone, later]] = search.calls
    assert first.request.source[: first.context][-1] == BOS
    assert first.request.source[first.context :] == segments[0].request.source
    assert [segment.context_text for segment in (first, alone, later)] == ["The ball is blue.", "", "The ball is blue."]

    ReadContexts(READER, count=1, longest=5)(segments, search)
    first, _, later = search.calls[1]
    assert (first.request, first.context_text) == (segments[0].request, "")
    assert first.notes == (NO_CONTEXT,)  # the sentence before was asked for
    assert later.notes == ()


def test_only_the_first_segment_of_a_line_begins_with_its_prefix():
    line = Line("Yes.\tYes.", 1, prefix="La bola")
    search = NotingSearch()
    BeginWithPrefixes(small_tokenizer(), BOUNDS, CONFIG)(cut(line), search)
    first, second = search.calls[0]
    assert small_tokenizer().decode_target(list(first.request.prefix)) == "La bola"
    assert second.request.prefix == ()
    with pytest.raises(ValueError, match="prefixes of too many pieces: line 1 has"):
        BeginWithPrefixes(small_tokenizer(), SearchBounds(2, ()), CONFIG)(cut(line), search)


def test_terms_and_protected_text_are_asked_for_and_notes_say_what_is_not_kept():
    segments = cut(Line("The ball is {name}.", 1))
    search = NotingSearch()
    RequireTexts(small_tokenizer(), Terms.from_pairs({"ball": "bola"}), CONFIG)(segments, search)
    [[segment]] = search.calls
    assert [span.protected for span in segment.term_spans] == [False, True]
    assert len(segment.terms) == 2

    sampling = SearchConfig(method="sample")
    RequireTexts(small_tokenizer(), None, sampling)(segments, search)
    assert search.calls[1][0].notes == ("'{name}' may not be kept: sampling does not look for it",)
    with pytest.raises(ValueError, match="terms need beam or greedy search"):
        RequireTexts(small_tokenizer(), Terms.from_pairs({"ball": "bola"}), sampling)(segments, search)


def test_words_are_linked_where_tags_need_it_and_tags_are_put_back():
    vocabularies = small_tokenizer().source_vocabulary, small_tokenizer().target_vocabulary
    translator = Translator(random_model(3, *vocabularies), small_tokenizer())
    segments = cut(Line("The <b>ball</b> is blue.", 1), Line("Yes.", 2))
    link = LinkWords(lambda: translator.torch, small_tokenizer(), CONFIG)
    with translator.models.inference():
        tagged, plain = surround(NotingSearch(), [RestoreTags(), link])(segments)
    assert tagged.links != []
    assert tagged.tagged[0].replace("<b>", "").replace("</b>", "") == "THE BALL IS BLUE."
    assert tagged.tagged[0].count("<b>") == 1
    assert (plain.links, plain.tagged) == ([], [])


def test_a_translation_that_repeats_itself_is_searched_for_again_under_a_rule():
    class Loop(NotingSearch):
        def __call__(self, segments: list[Segment]) -> list[SearchResult]:
            results = super().__call__(segments)
            for i, segment in enumerate(segments):
                if segment.request.number == 1 and not segment.request.no_repeat:
                    [hypothesis] = results[i].hypotheses
                    results[i] = replace(results[i], hypotheses=[replace(hypothesis, tokens=[7] * 9)])
            return results

    search = Loop()
    search_again = SearchAgain(if_repeated=True, if_empty=True)
    looping, other = search_again(cut(Line("The ball is blue.", 1), Line("Yes.", 2)), search)
    assert [len(call) for call in search.calls] == [2, 1]
    assert search.calls[1][0].request.no_repeat == NO_REPEAT_NGRAM
    assert looping.notes == ("repeated itself; searched again with no 4 pieces twice",)
    assert other.notes == ()


def test_an_empty_translation_is_searched_for_again_under_a_rule_and_by_chance_it_may_stay():
    class Silent(NotingSearch):
        def __call__(self, segments: list[Segment]) -> list[SearchResult]:
            results = super().__call__(segments)
            for i, segment in enumerate(segments):
                if segment.request.number == 1 and not segment.request.not_empty:
                    results[i] = replace(results[i], hypotheses=[Hypothesis([], -1.0, -1.0, "eos", [])], texts=[""])
            return results

    search = Silent()
    silent, other = SearchAgain(if_repeated=True, if_empty=True)(cut(Line("The ball.", 1), Line("Yes.", 2)), search)
    assert [len(call) for call in search.calls] == [2, 1]
    assert (silent.texts, silent.notes) == (["THE BALL."], (EMPTIED,))
    assert (other.texts, other.notes) == (["YES."], ())

    class Loop(Silent):
        """Without a rule it repeats itself, and where it may not, it says nothing."""

        def __call__(self, segments: list[Segment]) -> list[SearchResult]:
            results = super().__call__(segments)
            if not segments[0].request.no_repeat:
                results[0] = replace(results[0], hypotheses=[Hypothesis([7] * 9, -1.0, -1.0, "eos", [])])
            return results

    loop = Loop()
    [filled] = SearchAgain(if_repeated=True, if_empty=True)(cut(Line("The ball.", 1)), loop)
    rules = [(call[0].request.no_repeat, call[0].request.not_empty) for call in loop.calls]
    assert rules == [(0, False), (NO_REPEAT_NGRAM, False), (NO_REPEAT_NGRAM, True)]
    assert filled.texts == ["THE BALL."]

    vocabularies = small_tokenizer().source_vocabulary, small_tokenizer().target_vocabulary
    translator = Translator(random_model(3, *vocabularies), small_tokenizer())
    searches = SearchConfig(), SearchConfig(empty="keep"), SearchConfig(method="sample")
    for config, is_there in zip(searches, (True, False, False), strict=True):
        innermost = SearchSegments(translator.engine, translator.tokenizer, translator.models, config)
        stages = select_stages(translator, TranslationTask([Line("Yes.", 1)], config), innermost)
        assert (SearchAgain(True, True) in stages) is is_there


def test_terms_without_room_are_not_searched_for():
    vocabularies = small_tokenizer().source_vocabulary, small_tokenizer().target_vocabulary
    translator = Translator(random_model(3, *vocabularies), small_tokenizer())
    search = NotingSearch()
    models = lambda: translator.torch, lambda: translator.word_edges
    place = PlaceTerms(*models, small_tokenizer(), SearchBounds(2, ()), CONFIG, search)
    require = RequireTexts(small_tokenizer(), Terms.from_pairs({"ball": "La bola es azul."}), CONFIG)
    no_room, plain = surround(search, [require, place])(cut(Line("The ball is blue.", 1), Line("Yes.", 2)))
    assert no_room.hypotheses == []
    assert "it may have 2; raise max_extra or split the line" in no_room.notes[0]
    assert plain.texts == ["YES."]
    assert [segment.request.number for segment in search.calls[0]] == [2]
    assert NOT_FOUND not in plain.notes


def test_a_call_is_given_only_the_stages_that_it_asks_for():
    vocabularies = small_tokenizer().source_vocabulary, small_tokenizer().target_vocabulary
    translator = Translator(random_model(3, *vocabularies), small_tokenizer())

    def names(text: str, config: SearchConfig = CONFIG, terms: Terms | None = None, **asked: Any) -> list[str]:
        line = look_for_markup(Line(text, 1, **asked), translator.reader, config, terms)
        innermost = SearchSegments(translator.engine, translator.tokenizer, translator.models, config)
        stages = select_stages(translator, TranslationTask([line], config, terms), innermost)
        return [type(stage).__name__ for stage in stages]

    assert names("The ball is blue.") == ["SplitLines", "SearchAgain"]
    assert names("Yes.", replace(CONFIG, repetition="keep", empty="keep")) == ["SplitLines"]
    assert names("Yes.", replace(CONFIG, alignments=True)) == ["SplitLines", "LinkWords", "SearchAgain"]
    assert names("Yes.", prefix="S", context="No.")[:3] == ["SplitLines", "ReadContexts", "BeginWithPrefixes"]
    around_terms = ["SplitLines", "RequireTexts", "SearchAgain", "PlaceTerms"]
    assert names("Yes.", terms=Terms.from_pairs({"a": "b"})) == around_terms
    with_markup = ["SplitLines", "RequireTexts", "RestoreTags", "LinkWords", "SearchAgain", "PlaceTerms"]
    assert names("<b>Yes.</b>") == with_markup
    assert names("<b>Yes.</b>", replace(CONFIG, markup="text")) == ["SplitLines", "SearchAgain"]
