"""Placing terms: what is forced, what is searched again, and what holds on any model."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from pellucid.data.text.markup import TAG, TaggedText
from pellucid.data.text.protected import list_protected
from pellucid.decode.line_segments import SearchResult, Segment
from pellucid.decode.request import SearchBounds, SearchConfig
from pellucid.decode.search import Hypothesis
from pellucid.decode.segment_search import SearchSegments
from pellucid.decode.source_reader import ReadText
from pellucid.decode.stages.term_placement import SEARCHES_BEFORE_ALL, PlaceTerms, search_with_terms
from pellucid.decode.terms.matches import TermSpan
from pellucid.decode.terms.required import EDGE, WordEdges
from pellucid.decode.terms.term_alignment import TermAlignment, cut_at_terms
from pellucid.decode.torch_engine import SearchRequest
from pellucid.decode.translator import Translator
from pellucid.localize.terminology import Terms
from tests.decode.models import LINES, random_model, small_tokenizer

# The vocabulary of these cases: each letter is a word of one piece. A small letter of the source is translated by
# itself, or by its capital where it is a term, and "~" is a letter that goes on with a word.
WORDS = WordEdges(ends_in_letter=frozenset(map(ord, "abcdefghxyABCDEFGHXY~")), begins_with_letter=frozenset({ord("~")}))


def make_hypothesis(text: str, score: float = -1.0) -> Hypothesis:
    return Hypothesis([*map(ord, text)], score, score, "eos", [])


def make_result(segment: Segment, hypotheses: list[Hypothesis]) -> SearchResult:
    return SearchResult(segment, hypotheses, [spell(hypothesis.tokens) for hypothesis in hypotheses])


class ScriptedSearch:
    """Search with prepared answers, prefixes to translations, that records the prefixes of each call."""

    def __init__(self, answers: dict[str, str | dict[str, float]]):
        self.answers = answers
        self.calls: list[list[str]] = []

    def search(self, segments: list[Segment]) -> list[SearchResult]:
        self.calls.append([spell(segment.request.prefix) for segment in segments])
        answers = [self.make_hypotheses(self.answers[key]) for key in self.calls[-1]]
        return list(map(make_result, segments, answers))

    def make_hypotheses(self, texts: str | dict[str, float]) -> list[Hypothesis]:
        scores = {texts: -1.0} if isinstance(texts, str) else texts
        return [make_hypothesis(text, score) for text, score in scores.items()]


def spell(pieces: Sequence[int]) -> str:
    return "".join("|" if piece == EDGE else chr(piece) for piece in pieces)


def align_by_letter(segments: Sequence[Segment], targets: Sequence[list[int]]) -> list[TermAlignment]:
    """Align a term of the source at n to the n-th small letter, or to its capital where that letter is absent."""
    alignments = []
    for segment, target in zip(segments, targets, strict=True):
        text = spell(target)
        letters = ["abcdefgh"[span.start] for span in segment.term_spans]
        small_letters = [[i for i, character in enumerate(text) if character == letter] for letter in letters]
        capitals = [[i for i, character in enumerate(text) if character == letter.upper()] for letter in letters]
        pairs = zip(small_letters, capitals, strict=True)
        alignments.append(TermAlignment([range(i, i + 1) for i in range(len(text))], [a or b for a, b in pairs]))
    return alignments


def make_segment(terms: str, *, protected: bool = False, edge: bool = False, prefix: str = "") -> Segment:
    """Return a segment of which these letters are terms."""
    edges = (EDGE,) if edge else ()
    required = tuple(((*edges, ord(letter.upper()), *edges),) for letter in terms)
    term_spans = tuple(TermSpan("abcdefgh".index(letter), "abcdefgh".index(letter) + 1, protected) for letter in terms)
    return Segment(
        TaggedText("abcdefgh"),
        ReadText("abcdefgh"),
        SearchRequest([7, 3], 1, tuple(map(ord, prefix))),
        required,
        term_spans,
    )


def texts(results: list[SearchResult]) -> list[list[str]]:
    assert all(len(result.texts) == len(result.hypotheses) for result in results)
    return [result.texts for result in results]


def place_terms(answers: dict[str, str | dict[str, float]], *segments: Segment, word_edges: WordEdges = WORDS):
    """Return the texts found for each segment, and the prefixes of each call of the search."""
    scripted = ScriptedSearch(answers)
    first = scripted.search([*segments])
    return texts(search_with_terms(first, scripted.search, align_by_letter, word_edges)), scripted.calls[:-1]


class PlaceByLetter(PlaceTerms):
    """The stage with another alignment than the model's."""

    def align(self, segments, targets):
        return align_by_letter(segments, targets)


def make_stage(search_beam: ScriptedSearch) -> PlaceTerms:
    """Return the stage with a search that has prepared beams."""
    others = small_tokenizer(), SearchBounds(99, ()), SearchConfig(), search_beam.search
    return PlaceByLetter(no_engine, lambda: WORDS, *others)


def no_engine() -> Any:
    raise AssertionError("only an alignment by the model needs an engine")


@pytest.mark.parametrize(
    ("beam", "expected"), [({"abc": -1.0, "xBc": -2.0, "yBc": -3.0}, "xBc"), ({"abc": -1.0, "xyc": -2.0}, "aBc")]
)
def test_before_a_term_is_placed_the_other_hypotheses_of_the_beam_are_looked_at(beam: dict[str, float], expected: str):
    first = ScriptedSearch({"": "abc", "aB": "aBc"})
    [result] = make_stage(ScriptedSearch({"": beam}))([make_segment("b")], first.search)
    assert result.texts == [expected]


@pytest.mark.parametrize(("plain", "expected"), [("", "xBc"), ("yBc", "yBc"), ("abc", "xBc")])
def test_what_was_written_without_terms_comes_first_where_it_has_them_in_other_forms(plain: str, expected: str):
    beam = ScriptedSearch({"": {"xBc": -1.0, "yBc": -2.0}})
    segment = replace(make_segment("b"), plain=tuple(map(ord, plain)))
    [result] = make_stage(beam)([segment], beam.search)
    assert result.texts == [expected]


def test_a_translation_that_has_its_terms_stays():
    assert place_terms({"": "xBc"}, make_segment("b")) == ([["xBc"]], [[""]])


def test_a_missing_term_takes_the_place_of_the_word_that_is_aligned_with_its_source():
    assert place_terms({"": "abc", "aB": "aBc"}, make_segment("b")) == ([["aBc"]], [[""], ["aB"]])


def test_a_placeholder_is_put_before_the_word_that_is_aligned_with_it():
    # The word behind it is its neighbour's.
    segment = make_segment("b", protected=True)
    assert place_terms({"": "abc", "aB": "aBbc"}, segment) == ([["aBbc"]], [[""], ["aB"]])


def test_terms_are_forced_one_after_the_other_from_the_left():
    assert place_terms({"": "abc", "A": "Axbc", "AxbC": "AxbC."}, make_segment("ca"))[0] == [["AxbC."]]


def test_the_word_a_term_replaces_is_not_written_behind_it():
    assert place_terms({"": "abc", "aB|": "aBbd", "aBd": "aBde"}, make_segment("b", edge=True))[0] == [["aBde"]]


def test_a_word_that_cannot_be_left_out_is_kept():
    for following in ("b", "b~"):  # nothing follows, or something that would go on with the term
        assert place_terms({"": "abc", "aB": "aB" + following}, make_segment("b"))[0] == [["aB" + following]]


def test_a_term_that_no_word_is_aligned_with_stands_behind_the_term_before_it():
    assert place_terms({"": "acd", "B": "Bacd"}, make_segment("b"))[0] == [["Bacd"]]
    assert place_terms({"": "acd", "A": "Acd", "AB": "ABcd"}, make_segment("ab"))[0] == [["ABcd"]]


def test_terms_that_have_no_room_where_they_belong_begin_the_translation():
    def search_at_most_two(segments: list[Segment]) -> list[SearchResult]:
        written = [(spell(segment.request.prefix) + "xyc")[:2] for segment in segments]
        return [make_result(segment, [make_hypothesis(text)]) for segment, text in zip(segments, written, strict=True)]

    def align_last(segments: Sequence[Segment], targets: Sequence[list[int]]) -> list[TermAlignment]:
        return [TermAlignment([range(i, i + 1) for i in range(len(target))], [[1]]) for target in targets]

    segment = make_segment("b")
    segment = Segment(segment.marked, segment.read, segment.request, ((tuple(map(ord, "BC")),),), segment.term_spans)
    assert texts(search_with_terms(search_at_most_two([segment]), search_at_most_two, align_last, WORDS)) == [["BC"]]


def test_of_several_spellings_the_best_is_taken():
    segment = make_segment("b")
    terms = (((ord("B"),), (ord("X"),), (EDGE, ord("~"), EDGE)),)  # the last cannot stand behind a word
    segment = Segment(segment.marked, segment.read, segment.request, terms, segment.term_spans)
    word_edges = WordEdges(WORDS.ends_in_letter, WORDS.begins_with_letter, WORDS.begins_with_letter)
    for score, expected in ((-2.0, "aXc"), (-1.0, "aBc")):
        answers = {"": "abc", "aB": {"aBc": score}, "aX": {"aXc": -1.5}}
        assert place_terms(answers, segment, word_edges=word_edges)[0] == [[expected]]


def test_words_of_the_prefix_are_not_taken_back():
    assert place_terms({"ab": "abc", "abB": "abBc"}, make_segment("b", prefix="ab"))[0] == [["abBc"]]


def test_alternatives_without_the_terms_are_left_out():
    assert place_terms({"": {"aBc": -1.0, "abc": -2.0, "cB": -3.0}}, make_segment("b"))[0] == [["aBc", "cB"]]


def test_sentences_are_searched_together_and_each_gets_its_own():
    segments = make_segment("b"), make_segment("c"), make_segment("d", protected=True)
    found, calls = place_terms({"": "abcd", "aB": "aBcd", "abC": "abCd", "abcD": "abcD"}, *segments)
    assert found == [["aBcd"], ["abCd"], ["abcD"]]
    assert len(calls) == 2
    assert place_terms({}) == ([], [])


@pytest.mark.parametrize(
    ("count", "line"),
    [
        *((3, "{{n}} "), (11, "{{n}} "), (7, "the {{a{}}} ball, ")),
        pytest.param(7, "https://x.y/{} is <b>{{n}}</b>. ", marks=pytest.mark.slow),
    ],
)
def test_however_many_terms_a_line_has_it_takes_a_few_searches(monkeypatch, count: int, line: str):
    tokenizer = small_tokenizer()
    vocabularies = tokenizer.source_vocabulary, tokenizer.target_vocabulary
    translator = Translator(
        random_model(5, *vocabularies, max_positions=997, encoder_layers=1, decoder_layers=1), tokenizer
    )
    batches: list[list[Segment]] = []
    search = SearchSegments.__call__

    def record_segments(self, segments):
        batches.append(segments)
        return search(self, segments)

    monkeypatch.setattr(SearchSegments, "__call__", record_segments)
    terms = Terms.from_pairs([("ball", "bola nueva")])
    [translation] = translator.translate(
        ["".join(line.format(n) for n in range(count))],
        SearchConfig(beam=1, repetition="keep", max_extra=120),
        terms=terms,
    )
    text = TAG.sub("", translation.text).lower()
    assert all(text.count(required) >= times for required, times in required_texts(line, count).items())
    assert len([batch for batch in batches if batch]) <= SEARCHES_BEFORE_ALL + 3


def required_texts(line: str, count: int) -> Counter[str]:
    """Return the texts that the translation of so many of these lines must have, and how often."""
    text = "".join(line.format(n) for n in range(count))
    return Counter(list_protected(text)) + Counter({"bola nueva": text.count("ball")})


def test_terms_are_words_of_their_own_for_the_alignment():
    term_spans = (TermSpan(2, 5), TermSpan(10, 16, protected=True))
    text, numbers = cut_at_terms(
        Segment(
            TaggedText("A  dog's. ({name})"), ReadText("A  dog's. ({name})"), SearchRequest([7, 3], 1), (), term_spans
        )
    )
    assert (text.split(), numbers) == (["A", "dog", "'s.", "(", "{name}", ")"], [range(1, 2), range(4, 5)])
    text, numbers = cut_at_terms(
        Segment(TaggedText("我有一只狗。"), ReadText("我有一只狗。"), SearchRequest([7, 3], 1), (), (TermSpan(4, 5),))
    )
    assert (text.split(), numbers) == (["我有一只", "狗", "。"], [range(1, 2)])
    _, numbers = cut_at_terms(
        Segment(TaggedText("to New York"), ReadText("to New York"), SearchRequest([7, 3], 1), (), (TermSpan(3, 11),))
    )
    assert numbers == [range(1, 3)]


@pytest.fixture(scope="module")
def translator() -> Translator:
    tokenizer = small_tokenizer()
    return Translator(random_model(5, tokenizer.source_vocabulary, tokenizer.target_vocabulary), tokenizer)


TERMS = Terms.from_pairs([("ball", "bola"), ("cat", "gato"), ("dog", "casa"), ("house", "casa"), ("house", "la casa")])
LINES_WITH_TERMS = [*LINES, "The {name} ball is %s blue.", "See https://example.com/a or the cat, cat."]
SHORT = SearchConfig(beam=3, n_best=3, max_extra=20)


def test_every_alternative_has_every_term_and_placeholder(translator):
    for line, translation in zip(
        LINES_WITH_TERMS, translator.translate(LINES_WITH_TERMS, SHORT, terms=TERMS), strict=True
    ):
        for candidate in (translation, *translation.alternatives):
            for match in TERMS.matches(line):
                assert any(target in candidate.text.lower() for target in match.targets), (line, candidate.text)
            for placeholder in ("{name}", "%s", "https://example.com/a"):
                assert candidate.text.count(placeholder) >= line.count(placeholder)


def test_a_term_inside_a_placeholder_is_not_asked_for(translator):
    bola = Terms.from_pairs([("ball", "bola"), ("{cat}", "{gato}")])
    inside, around = translator.translate(["{ball}", "{cat}"], SHORT, terms=bola)
    assert "{ball}" in inside.text
    assert "bola" not in inside.text.lower()
    assert "{gato}" in around.text
