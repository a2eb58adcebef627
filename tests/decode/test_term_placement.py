"""Terms in their places: what is forced, what is tried again, and what holds on any model."""

from collections import Counter
from collections.abc import Sequence

import pytest

from pellucid.decode.config import SearchConfig
from pellucid.decode.line_preparation import Segment
from pellucid.decode.search import Hypothesis
from pellucid.decode.term_placement import (
    SEARCHES_BEFORE_ALL,
    SHORT_TERMS,
    TermAlignment,
    cut_at_terms,
    search_with_terms,
)
from pellucid.decode.terms import Terms, TermSpan
from pellucid.decode.torch_engine import SearchRequest
from pellucid.decode.translate import Translator
from pellucid.decode.word_edges import EDGE, WordEdges
from pellucid.text.markup import TAG, TaggedText
from pellucid.text.markup import list_protected as kept_of
from tests.decode.models import LINES, random_model, small_tokenizer

# The vocabulary of these cases: each letter is a word of one piece. The source of a small letter is written as it, the
# term that translates it is its capital, and "~" is a letter that goes on with a word.
WORDS = WordEdges(ends_in_letter=frozenset(map(ord, "abcdefghxyABCDEFGHXY~")), begins_with_letter=frozenset({ord("~")}))


def hypothesis(text: str, score: float = -1.0) -> Hypothesis:
    return Hypothesis([*map(ord, text)], score, score, "eos", [])


class Writes:
    """Searches that are written down: (prefix, terms) to translations, and what was asked in which call."""

    def __init__(self, found: dict[tuple[str, str], str | dict[str, float]]):
        self.found = found
        self.calls: list[list[tuple[str, str]]] = []

    def search(self, requests: Sequence[SearchRequest]) -> list[list[Hypothesis]]:
        self.calls.append([(shown(each.prefix), "".join(shown(term[0]) for term in each.terms)) for each in requests])
        return [self.answer(self.found[asked]) for asked in self.calls[-1]]

    def answer(self, texts: str | dict[str, float]) -> list[Hypothesis]:
        some = {texts: -1.0} if isinstance(texts, str) else texts
        return [hypothesis(text, score) for text, score in some.items()]


def shown(pieces: Sequence[int]) -> str:
    return "".join("|" if piece == EDGE else chr(piece) for piece in pieces)


def align(parts: Sequence[Segment], targets: Sequence[list[int]]) -> list[TermAlignment]:
    """A term of the source at n is written as the n-th small letter, or as its capital where that is not there."""
    found = []
    for part, target in zip(parts, targets, strict=True):
        text = shown(target)
        letters = ["abcdefgh"[place.start] for place in part.term_spans]
        of_terms = [[i for i, each in enumerate(text) if each == letter] for letter in letters]
        alone = [[i for i, each in enumerate(text) if each == letter.upper()] for letter in letters]
        pairs = zip(of_terms, alone, strict=True)
        found.append(TermAlignment([range(i, i + 1) for i in range(len(text))], [a or b for a, b in pairs]))
    return found


def part(terms: str, *, kept: bool = False, edge: bool = False, prefix: str = "") -> Segment:
    """A sentence whose letters at these places are terms."""
    sides = (EDGE,) if edge else ()
    asked = tuple(((*sides, ord(letter.upper()), *sides),) for letter in terms)
    places = tuple(TermSpan("abcdefgh".index(letter), "abcdefgh".index(letter) + 1, kept) for letter in terms)
    return Segment(TaggedText("abcdefgh"), SearchRequest([7, 3], 1, tuple(map(ord, prefix)), asked), places)


def texts(found: list[list[Hypothesis]]) -> list[list[str]]:
    return [[shown(each.tokens) for each in some] for some in found]


def test_what_stands_where_its_source_is_aligned_to_stays():
    writes = Writes({("", "B"): "xBc"})
    assert texts(search_with_terms([part("b")], writes.search, align, WORDS)) == [["xBc"]]
    assert [call for call in writes.calls if call] == [[("", "B")]]


def test_what_stands_elsewhere_is_forced_into_its_place():
    writes = Writes({("", "B"): "abc.B", ("", ""): "abc", ("aB", ""): "aBc"})
    assert texts(search_with_terms([part("b")], writes.search, align, WORDS)) == [["aBc"]]


def test_what_stands_beside_the_word_it_translates_is_forced_too():
    writes = Writes({("", "B"): "aBbc", ("", ""): "abc", ("aB", ""): "aBc"})

    def both(parts, targets):
        return [
            TermAlignment(each.words, [[i for i, piece in enumerate(target) if chr(piece) in "Bb"]])
            for each, target in zip(align(parts, targets), targets, strict=True)
        ]

    assert texts(search_with_terms([part("b")], writes.search, both, WORDS)) == [["aBc"]]


def test_a_placeholder_is_put_in_its_place_from_the_start():
    writes = Writes({("", ""): "abc", ("aB", ""): "aBbc"})
    found = search_with_terms([part("b", kept=True)], writes.search, align, WORDS)
    assert texts(found) == [["aBbc"]]  # and the word behind it is its neighbour's
    assert [call for call in writes.calls if call] == [[("", "")], [("aB", "")]]


def test_terms_are_forced_one_after_the_other_from_the_left():
    writes = Writes({("", "CA"): "abAC", ("", ""): "abc", ("A", ""): "Axbc", ("AxbC", ""): "AxbC."})
    assert texts(search_with_terms([part("ca")], writes.search, align, WORDS)) == [["AxbC."]]


def test_the_word_a_term_replaces_is_not_written_behind_it():
    writes = Writes({("", "|B|"): "abcB", ("", ""): "abc", ("aB|", ""): "aBbd", ("aBd", ""): "aBde"})
    assert texts(search_with_terms([part("b", edge=True)], writes.search, align, WORDS)) == [["aBde"]]


def test_what_cannot_be_left_out_is_kept():
    for behind in ("b", "b~"):  # nothing follows, or something that would go on with the term
        writes = Writes({("", "B"): "abcB", ("", ""): "abc", ("aB", ""): "aB" + behind})
        assert texts(search_with_terms([part("b")], writes.search, align, WORDS)) == [["aB" + behind]]


def test_where_nothing_is_aligned_the_search_for_terms_has_the_last_word():
    for kept in (False, True):
        writes = Writes({("", "B"): "acB", ("", ""): "ac"})

        def nowhere(parts, targets):
            return [TermAlignment(each.words, [[]]) for each in align(parts, targets)]

        assert texts(search_with_terms([part("b", kept=kept)], writes.search, nowhere, WORDS)) == [["acB"]]


def test_of_several_spellings_the_best_is_taken():
    several = part("b")
    terms = (((ord("B"),), (ord("X"),), (EDGE, ord("~"), EDGE)),)  # the last cannot stand behind a word
    several = Segment(several.marked, SearchRequest([7, 3], 1, terms=terms), several.term_spans)
    marked = WordEdges(WORDS.ends_in_letter, WORDS.begins_with_letter, WORDS.begins_with_letter)
    writes = Writes({("", "B"): "abcB", ("", ""): "abc", ("aB", ""): {"aBc": -2.0}, ("aX", ""): {"aXc": -1.5}})
    assert texts(search_with_terms([several], writes.search, align, marked)) == [["aXc"]]
    writes.found["aB", ""] = {"aBc": -1.0}
    assert texts(search_with_terms([several], writes.search, align, marked)) == [["aBc"]]


def test_what_the_prefix_gives_is_not_taken_back():
    writes = Writes({("ab", "B"): "abcB", ("ab", ""): "abc", ("abB", ""): "abBc"})
    assert texts(search_with_terms([part("b", prefix="ab")], writes.search, align, WORDS)) == [["abBc"]]


def test_alternatives_without_the_terms_are_left_out():
    writes = Writes({("", ""): "abc", ("aB", ""): "x"})
    writes.found["", ""] = {"aBc": -1.0, "abc": -2.0, "cB": -3.0}
    assert texts(search_with_terms([part("b", kept=True)], writes.search, align, WORDS)) == [["aBc", "cB"]]


def test_sentences_are_searched_together_and_each_gets_its_own():
    writes = Writes({
        ("", "B"): "abcB", ("", "C"): "abC", ("", "D"): "D", ("", ""): "abcd", ("aB", ""): "aBcd", ("abcD", ""): "abcD",
    })  # fmt: skip
    parts = [part("b"), part("c"), part("d", kept=True)]
    assert texts(search_with_terms(parts, writes.search, align, WORDS)) == [["aBcd"], ["abC"], ["abcD"]]
    assert len([call for call in writes.calls if call]) == 3
    assert search_with_terms([], writes.search, align, WORDS) == []


@pytest.mark.parametrize("count", [3, 11])
@pytest.mark.parametrize("line", ["{{n}} ", "the {{a{}}} ball, ", "https://x.y/{} is <b>{{n}}</b>. "])
def test_however_many_terms_a_line_has_it_takes_a_few_searches(monkeypatch, count: int, line: str):
    tokenizer = small_tokenizer()
    vocabularies = tokenizer.source_vocabulary, tokenizer.target_vocabulary
    translator = Translator(
        random_model(5, *vocabularies, max_positions=997, encoder_layers=1, decoder_layers=1), tokenizer
    )
    searched: list[Sequence[SearchRequest]] = []
    hypotheses = Translator.search_requests

    def counted(self, requests, config):
        searched.append(requests)
        return hypotheses(self, requests, config)

    monkeypatch.setattr(Translator, "search_requests", counted)
    terms = Terms.from_pairs([("ball", "bola nueva")])
    [found] = translator.translate(
        ["".join(line.format(n) for n in range(count))],
        SearchConfig(beam=1, repetition="keep", max_extra=120),
        terms=terms,
    )
    text = TAG.sub("", found.text).lower()
    assert all(text.count(each) >= times for each, times in kept_in(line, count).items())
    assert len([some for some in searched if some]) <= SEARCHES_BEFORE_ALL + 3
    assert all(sum(len(term[0]) for term in each.terms) <= SHORT_TERMS for some in searched for each in some)


def kept_in(line: str, count: int) -> Counter[str]:
    """What must stand in the translation of so many of these, and how often."""
    text = "".join(line.format(n) for n in range(count))
    return Counter(kept_of(text)) + Counter({"bola nueva": text.count("ball")})


def test_terms_are_words_of_their_own_for_the_alignment():
    places = (TermSpan(2, 5), TermSpan(10, 16, protected=True))
    text, numbers = cut_at_terms(Segment(TaggedText("A  dog's. ({name})"), SearchRequest([7, 3], 1), places))
    assert (text.split(), numbers) == (["A", "dog", "'s.", "(", "{name}", ")"], [range(1, 2), range(4, 5)])
    text, numbers = cut_at_terms(Segment(TaggedText("我有一只狗。"), SearchRequest([7, 3], 1), (TermSpan(4, 5),)))
    assert (text.split(), numbers) == (["我有一只", "狗", "。"], [range(1, 2)])
    _, numbers = cut_at_terms(Segment(TaggedText("to New York"), SearchRequest([7, 3], 1), (TermSpan(3, 11),)))
    assert numbers == [range(1, 3)]


@pytest.fixture(scope="module")
def translator() -> Translator:
    tokenizer = small_tokenizer()
    return Translator(random_model(5, tokenizer.source_vocabulary, tokenizer.target_vocabulary), tokenizer)


TERMS = Terms.from_pairs([("ball", "bola"), ("cat", "gato"), ("dog", "casa"), ("house", "casa"), ("house", "la casa")])
ASKED = [*LINES, "The {name} ball is %s blue.", "See https://example.com/a or the cat, cat."]
SHORT = SearchConfig(beam=3, n_best=3, max_extra=20)


def test_every_alternative_has_every_term_and_placeholder(translator):
    for line, found in zip(ASKED, translator.translate(ASKED, SHORT, terms=TERMS), strict=True):
        for each in (found, *found.alternatives):
            for match in TERMS.matches(line):
                assert any(target in each.text.lower() for target in match.targets), (line, each.text)
            for kept in ("{name}", "%s", "https://example.com/a"):
                assert each.text.count(kept) >= line.count(kept)


def test_neighbours_change_nothing(translator):
    together = translator.translate(ASKED, SHORT, terms=TERMS)
    for number, line in enumerate(ASKED):
        [alone] = translator.translate([line], SHORT, first_line=1 + number, terms=TERMS)
        assert (alone.text, alone.pieces) == (together[number].text, together[number].pieces)
        assert [each.text for each in alone.alternatives] == [each.text for each in together[number].alternatives]


def test_progress_hears_of_every_line_once(translator):
    heard: list[int] = []
    translator.translate(ASKED, SHORT, heard.append, terms=TERMS)
    assert heard == list(range(1, len(ASKED) + 1))


def test_a_term_inside_a_placeholder_is_not_asked_for(translator):
    bola = Terms.from_pairs([("ball", "bola"), ("{cat}", "{gato}")])
    inside, around = translator.translate(["{ball}", "{cat}"], SHORT, terms=bola)
    assert "{ball}" in inside.text
    assert "bola" not in inside.text.lower()
    assert "{gato}" in around.text
