"""Marked terms: what training plants is a function of the data's position, and translation marks in the same way."""

import random

import numpy as np
import pytest

import pellucid
from pellucid.data.batching import EncodedPairs
from pellucid.data.context import count_context
from pellucid.data.corpus import SentencePairs
from pellucid.data.pair_terms import PairTerms
from pellucid.data.stream import Stream, encode_pairs
from pellucid.data.term_marks import find_own_tokens, find_told_tokens
from pellucid.data.term_spans import is_inflected
from pellucid.data.text.markup import TaggedText
from pellucid.data.tokenizer import BOS, EOS, TERM_MARKS, Tokenizer, TokenizerConfig, strip_eos
from pellucid.decode.line_segments import SearchResult, Segment
from pellucid.decode.request import SearchConfig, SearchRequest
from pellucid.decode.search import Hypothesis
from pellucid.decode.source_reader import ReadText
from pellucid.decode.stages.marked_terms import MarkTerms
from pellucid.decode.stages.required_texts import RequireTexts
from pellucid.decode.terms.inflected import accept_forms
from pellucid.decode.terms.required import WordEdges, missing_terms
from pellucid.interpret.trace.search_tree import ObservedSearch, find_deciding_search
from pellucid.localize.terminology import Terms
from pellucid.store.directory import save_bundle
from pellucid.training.config import make_run
from tests.decode.models import random_model

NOUNS = {"dog": "perro", "cat": "gato", "horse": "caballo", "table": "mesa", "window": "ventana", "garden": "jardín"}
COLOURS = {"red": "rojo", "black": "negro", "white": "blanco"}
MOST_PIECES = 90


def make_texts(count: int, seed: int = 1) -> tuple[list[str], list[str]]:
    """Make pairs of plain sentences, with adjectives that have two forms."""
    draw, sources, targets = random.Random(seed), [], []
    for _ in range(count):
        (noun, there), (other, other_there) = draw.sample(sorted(NOUNS.items()), 2)
        colour, colour_there = draw.choice(sorted(COLOURS.items()))
        ending = colour_there[:-1] + "a" if there.endswith("a") else colour_there
        sources.append(f"The {colour} {noun} sees the {other}.")
        targets.append(f"El {there} {ending} ve el {other_there}.")
    return sources, targets


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    options = {"seed": 1, "max_sentences": 1000, "marks": TERM_MARKS}
    return Tokenizer.train(*make_texts(500), TokenizerConfig(vocabulary=380), **options)


@pytest.fixture(scope="module")
def encoded(tokenizer: Tokenizer) -> EncodedPairs:
    return encode_pairs(SentencePairs.from_lists(*make_texts(600), "here"), tokenizer, MOST_PIECES)[0]


@pytest.fixture(scope="module")
def planted(tokenizer, encoded) -> tuple[PairTerms, EncodedPairs]:
    terms, every = PairTerms(encoded, tokenizer, 1.0, MOST_PIECES), np.arange(600)
    return terms, terms.plant(encoded, every, every, seed=7)


def rows_of(pairs: EncodedPairs) -> list[tuple[list[int], list[int]]]:
    return [(pairs.sources[i].tolist(), pairs.targets[i].tolist()) for i in range(len(pairs))]


def test_the_marks_of_a_pair_do_not_depend_on_what_else_is_chosen(encoded, planted):
    terms, whole = planted
    chosen = np.arange(600)[::-7]
    assert rows_of(terms.plant(encoded, chosen, chosen, seed=7)) == [rows_of(whole)[i] for i in chosen]
    assert rows_of(terms.plant(encoded, chosen, chosen, seed=8)) != [rows_of(whole)[i] for i in chosen]


def test_marks_leave_the_source_as_it_is_and_the_target_has_what_they_say(tokenizer, encoded, planted):
    marks, kinds = tokenizer.term_marks, {"as it is": 0, "another form": 0, "another word": 0}
    for (source, target), (own_source, own_target) in zip(rows_of(planted[1]), rows_of(encoded), strict=True):
        assert [source[place] for place in find_own_tokens(source, marks)] == own_source
        written, before = tokenizer.decode_target(target), tokenizer.decode_target(own_target)
        for _, told in find_told_tokens(source, marks):
            text = tokenizer.decode_source(source[told.start : told.stop])
            if text in written:
                kinds["as it is" if text in before else "another word"] += 1
            else:
                words = written.rstrip(".").split()
                spans = [" ".join(words[i : i + len(text.split())]) for i in range(len(words))]
                assert text.capitalize() in written or any(is_inflected(span, text) for span in spans)
                kinds["another form"] += 1
    assert min(kinds.values()) > 20, kinds


def test_a_word_told_in_another_form_is_written_in_the_form_of_what_it_replaces(tokenizer, encoded, planted):
    marks, inflected, alphabet, told_letters = tokenizer.term_marks, 0, set[str](), set[str]()
    words = {word for target in make_texts(600)[1] for word in target.rstrip(".").split()}
    for (source, target), (own_source, own_target) in zip(rows_of(planted[1]), rows_of(encoded), strict=True):
        written, before = (tokenizer.decode_target(side).rstrip(".").split() for side in (target, own_target))
        alphabet.update(*before, tokenizer.decode_source(own_source))
        texts = [tokenizer.decode_source([source[i] for i in told]) for _, told in find_told_tokens(source, marks)]
        told_letters.update(*texts)
        for text in texts if len(texts) == 1 else ():
            if text in " ".join(written).casefold() or len(written) != len(before):
                continue
            for word, replaced in zip(written, before, strict=True):
                if word != replaced and word in words and is_inflected(word, text):
                    inflected += 1
                    assert word[-1] == replaced[-1]
    assert inflected > 8
    # Made-up words have letters that no text of the pairs has.
    assert told_letters - alphabet - {" "}


def test_backwards_the_marks_stand_in_what_is_translated_then(tokenizer, encoded, planted):
    every, marks = np.arange(100), set(tokenizer.term_marks)
    backwards = rows_of(planted[0].plant(encoded, every, every, seed=7, backwards=True))
    assert not any(marks & set(source) for source, _ in backwards)
    assert sum(bool(marks & set(target)) for _, target in backwards) > 80


def test_what_stands_before_a_source_stays_there():
    sources, targets = make_texts(300)
    options = {"seed": 1, "max_sentences": 1000, "languages": ["es", "de"], "marks": TERM_MARKS}
    many = Tokenizer.train(sources, targets, TokenizerConfig(vocabulary=380), **options)
    assert list(many.languages) == ["es", "de"]
    pairs, _ = encode_pairs(SentencePairs.from_lists(sources, targets, "here"), many.into("de"), MOST_PIECES)
    every = np.arange(300)
    for source, _ in rows_of(PairTerms(pairs, many, 1.0, MOST_PIECES).plant(pairs, every, every, seed=1)):
        assert source[: count_context(source)] == [many.languages["de"], BOS]


def test_a_stream_shows_its_share_and_goes_on_with_the_same_marks(tokenizer, encoded):
    terms = PairTerms(encoded, tokenizer, 0.25, MOST_PIECES)
    stream = Stream(encoded, 400, seed=3, terms=terms)
    made = [batch for _ in range(len(stream.order)) for batch in stream.advance().make_batches()]
    marked = sum(int((batch.source == tokenizer.term_marks[0]).any(dim=1).sum()) for batch in made)
    # Four standard deviations of a share of 600 pairs are 0.07.
    assert marked / 600 == pytest.approx(0.25, abs=0.07)
    again = Stream(encoded, 400, 3, 0, 2, terms=terms).advance().make_batches()
    stream = Stream(encoded, 400, seed=3, terms=PairTerms(encoded, tokenizer, 0.25, MOST_PIECES))
    first = [stream.advance().make_batches() for _ in range(3)]
    assert [batch.source.tolist() for batch in first[2]] == [batch.source.tolist() for batch in again]


@pytest.mark.parametrize("text", ["<term> dog </term>", "a<means>b", "▁<term>", "<term>"])
def test_no_text_becomes_a_mark(tokenizer, text):
    ids = tokenizer.encode_source([text])[0] + tokenizer.encode_target([text])[0]
    assert not set(ids) & set(tokenizer.term_marks)
    assert tokenizer.decode_source(tokenizer.encode_source([text])[0]) == text


def make_segment(tokenizer: Tokenizer, text: str, context: int = 0) -> Segment:
    source = [*[BOS] * context, *tokenizer.encode_source([text])[0]]
    request = SearchRequest(source, 1)
    return Segment(TaggedText(text, ()), ReadText(text), request, context=context)


@pytest.mark.parametrize("context", [0, 1])
def test_translation_marks_the_words_of_a_term_and_leaves_protected_text_alone(tokenizer, context):
    seen: list[Segment] = []

    def search(segments: list[Segment]) -> list[SearchResult]:
        seen.extend(segments)
        return [SearchResult(segment, []) for segment in segments]

    def make_stage(longest: int) -> MarkTerms:
        return MarkTerms(lambda: WordEdges.from_tokenizer(tokenizer), tokenizer, tokenizer.term_marks, longest)

    text = "The  black dog sees {x} e\u0301."
    terms = Terms.from_pairs([("black dog", "Zorplat"), ("e\u0301", "y")])
    require = RequireTexts(tokenizer, terms, SearchConfig())
    require([make_segment(tokenizer, text, context)], lambda segments: make_stage(90)(segments, search))
    first, source = (segment.request.source for segment in seen)
    assert first == make_segment(tokenizer, text, context).request.source
    assert source[-1] == EOS
    told = [
        (tokenizer.decode_source([source[i] for i in term]), tokenizer.decode_source([source[i] for i in translation]))
        for term, translation in find_told_tokens(source, tokenizer.term_marks)
    ]
    assert told == [("black dog", "Zorplat"), ("e\u0301", "y")]
    assert [source[i] for i in find_own_tokens(source, tokenizer.term_marks)] == (
        make_segment(tokenizer, text, context).request.source
    )
    require([make_segment(tokenizer, text, context)], lambda segments: make_stage(5)(segments, search))
    assert seen[-1].request.source == make_segment(tokenizer, text, context).request.source


def test_a_translation_that_has_its_terms_stays_and_only_missing_ones_are_told(tokenizer):
    calls: list[list[Segment]] = []
    written = {"The red dog.": "El perro rojo.", "The red cat.": "El gato negro."}

    def search(segments: list[Segment]) -> list[SearchResult]:
        calls.append(segments)
        results = []
        for segment in segments:
            text = written[segment.marked.text]
            tokens = strip_eos(tokenizer.encode_target([text])[0])
            results.append(SearchResult(segment, [Hypothesis(tokens, -1.0, -1.0, "eos", [])], [text]))
        return results

    terms = Terms.from_pairs([("red", "rojo"), ("dog", "perro"), ("cat", "gato")])
    require = RequireTexts(tokenizer, terms, SearchConfig())
    mark = MarkTerms(lambda: WordEdges.from_tokenizer(tokenizer), tokenizer, tokenizer.term_marks, 90)
    segments = [make_segment(tokenizer, text) for text in written]
    results = require(segments, lambda required: mark(required, search))
    assert [[segment.marked.text for segment in call] for call in calls] == [[*written], ["The red cat."]]
    assert not any(segment.terms for segment in calls[0])
    [told] = calls[1]
    terms_told = find_told_tokens(told.request.source, tokenizer.term_marks)
    assert [tokenizer.decode_source([told.request.source[i] for i in term]) for term, _ in terms_told] == ["red"]
    assert tokenizer.decode_target(told.plain) == "El gato negro."
    assert [len(result.segment.terms) for result in results] == [2, 2]


def test_lines_without_a_term_are_searched_once_and_ask_for_no_model(tokenizer):
    calls: list[list[Segment]] = []

    def search(segments: list[Segment]) -> list[SearchResult]:
        calls.append(segments)
        return [SearchResult(segment, []) for segment in segments]

    def find_word_edges() -> WordEdges:
        raise AssertionError("no line has a term")

    mark = MarkTerms(find_word_edges, tokenizer, tokenizer.term_marks, 90)
    segments = [make_segment(tokenizer, "The red dog."), make_segment(tokenizer, "The red cat.")]
    mark(segments, search)
    assert calls == [segments]


def test_an_inflected_form_counts_once_and_another_word_does_not(tokenizer):
    edges, terms = WordEdges.from_tokenizer(tokenizer), Terms.from_pairs([("red", "rojo")])
    seen: list[Segment] = []
    require = RequireTexts(tokenizer, terms, SearchConfig())
    require([make_segment(tokenizer, "The red dog sees the red cat.")], lambda segments: seen.extend(segments) or [])
    [segment] = seen

    def count_missing(text: str, language: str | None = None) -> int:
        tokens = strip_eos(tokenizer.encode_target([text])[0])
        return len(missing_terms(tokens, accept_forms(segment, tokens, tokenizer, edges, language).terms, edges))

    assert count_missing("El perro rojo ve el gato roja.") == 0
    assert count_missing("La mesa rojas ve la ventana roja.") == 0
    assert count_missing("El perro rojo ve el gato.") == 1
    assert count_missing("El perro negro ve el gato roncado.") == 2

    # A name keeps its form, in languages that write nouns small.
    require = RequireTexts(tokenizer, Terms.from_pairs([("red", "Haus")]), SearchConfig())
    require([make_segment(tokenizer, "The red dog sees the red cat.")], lambda segments: seen.extend(segments) or [])
    segment = seen[1]
    assert count_missing("Hauses Haus") == 1
    assert count_missing("Hauses Haus", "de") == 0

    # An accent may come and go with an ending.
    require = RequireTexts(tokenizer, Terms.from_pairs([("red", "marrón")]), SearchConfig())
    require([make_segment(tokenizer, "The red dog sees the red cat.")], lambda segments: seen.extend(segments) or [])
    segment = seen[2]
    assert count_missing("El perro marrón ve los gatos marrones.") == 0


def test_a_share_that_cannot_be_is_refused():
    data = {"source": "a", "target": "b"}
    with pytest.raises(ValueError, match=r"data\.terms"):
        make_run({"data": {**data, "terms": 1.5}, "train": {"steps": 1}})
    with pytest.raises(ValueError, match=r"needs tokenizer\.joint = true"):
        make_run({"data": {**data, "terms": 0.1}, "tokenizer": {"joint": False}, "train": {"steps": 1}})


@pytest.fixture(scope="module")
def directories(tokenizer, tmp_path_factory):
    """Save one random model twice, once as a model that was trained with terms."""
    folder = tmp_path_factory.mktemp("models")
    model = random_model(5, tokenizer.source_vocabulary, tokenizer.target_vocabulary)
    save_bundle(folder / "told", model, tokenizer, terms=0.2)
    save_bundle(folder / "plain", model, tokenizer)
    return folder / "told", folder / "plain"


def test_a_model_reads_terms_in_the_source_if_its_manifest_says_so(directories, tokenizer):
    sources = {}
    for directory in directories:
        model = pellucid.load(directory, engine="torch")
        trace = model.trace("The red dog sees.", terms={"red": "rojo"}, target="El perro.")
        sources[directory.name] = trace.source
    told, plain = sources["told"], sources["plain"]
    assert plain.text == "The red dog sees."
    assert told.text == "The <term> red <means> rojo </term> dog sees."
    own = find_own_tokens(told.ids, tokenizer.term_marks)
    assert [told.ids[place] for place in own] == plain.ids
    # Each mark is a word of its own, and so is the translation.
    assert [told.words[place] for place, piece in enumerate(told.pieces) if piece in TERM_MARKS] == [1, 3, 5]


def test_a_trace_shows_the_hypothesis_that_was_taken_because_it_has_the_terms(tokenizer):
    texts = ["El perro negro.", "El perro rojo.", "El gato."]
    hypotheses = []
    for text in texts:
        hypotheses.append(Hypothesis(strip_eos(tokenizer.encode_target([text])[0]), -1.0, -1.0, "eos", []))
    request = SearchRequest([EOS], 1)
    first, beam = ObservedSearch(request, [], hypotheses[:1]), ObservedSearch(request, [], hypotheses)
    for text, hypothesis, search in zip(texts, hypotheses, (first, beam, beam), strict=True):
        pieces = tokenizer.target_pieces(tokenizer.encode_target([text])[0])
        assert find_deciding_search([beam, first], pieces, tokenizer.target_pieces) == (search, hypothesis)


def test_other_engines_read_the_marks_as_torch_does(directories):
    lines = ["The red dog sees the cat.", "A window <term> dog"]
    options = {"terms": {"dog": "Zorplat", "window": "ventana"}, "max_extra": 9}
    texts = [
        [translation.text for translation in pellucid.load(directories[0], engine=engine).translate(lines, **options)]
        for engine in ("torch", "ctranslate2")
    ]
    assert texts[0] == texts[1]
    assert all("Zorplat" in text for text in texts[0])
