"""Text as it comes: a line of several sentences, odd spellings, capitals and marks comes through whole."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import pytest

from pellucid.data.source_profile import SourceProfile, profile_sources
from pellucid.decode.line_segments import LengthLimits, Line, SearchResult, Segment
from pellucid.decode.request import Hypothesis, SearchConfig
from pellucid.decode.source_reader import SourceReader
from pellucid.decode.stages.splitting import SENTENCE_BY_SENTENCE, SplitLines
from pellucid.decode.translator import Translator
from pellucid.demo.phrasebook import generate_phrases
from pellucid.localize.terminology import Terms
from tests.decode.models import model_that_writes, random_model, small_tokenizer

FAST = SearchConfig(method="greedy", max_extra=3)
SENTENCES = ["The ball is blue.", "Where is the house?", "Yes!", "The dog drank the water.", "El gato bebió la leche."]
# A text of one sentence a line, without capitals, marks and odd spellings, that knows these words.
PLAIN_PROFILE = SourceProfile(
    sources=1000,
    sentences=(1000,),
    words=("the", "ball", "is", "blue", "where", "house", "dog", "drank", "water", "Anna"),
)


def make_translator(profile: SourceProfile | None = None, context: int = 0) -> Translator:
    tokenizer = small_tokenizer()
    model = random_model(5, tokenizer.source_vocabulary, tokenizer.target_vocabulary)
    translator = Translator(model, tokenizer, profile=profile)
    translator.context = context
    return translator


@pytest.fixture(scope="module")
def translator() -> Translator:
    return make_translator()


def translate(translator: Translator, lines: Sequence[str], **options) -> list[str]:
    return [translation.text for translation in translator.translate(lines, FAST, **options)]


@pytest.mark.parametrize("space", [" ", "  ", "\u00a0", "\u202f", "\u3000", "\u2009", " \u00a0", "\u00a0\u00a0 "])
@pytest.mark.parametrize("count", [1, 2, *(pytest.param(count, marks=pytest.mark.slow) for count in range(3, 8)), 8])
def test_joined_sentences_are_translated_as_each_by_itself(translator: Translator, count: int, space: str):
    sentences = (SENTENCES * 2)[:count]
    alone = translate(translator, sentences)
    assert translate(translator, [space.join(sentences)]) == [space.join(alone)]


@pytest.mark.parametrize("method", [{"beam": 3}, {"method": "greedy"}, {"beam": 2, "n_best": 2}])
def test_the_score_of_a_line_is_that_of_its_sentences(translator: Translator, method: dict):
    config = SearchConfig(max_extra=3, **method)
    [joined] = translator.translate([" ".join(SENTENCES)], config)
    alone = translator.translate(SENTENCES, config)
    assert joined.pieces == [piece for translation in alone for piece in translation.pieces]
    assert joined.log_prob == pytest.approx(sum(translation.log_prob for translation in alone), rel=1e-5)


def test_tags_around_and_between_sentences_come_out_and_change_no_word(translator: Translator):
    plain = translate(translator, [" ".join(SENTENCES[:2])])
    line = f"<p><b>{SENTENCES[0]}</b> <i>{SENTENCES[1]}</i></p>"
    [tagged] = translate(translator, [line])
    assert [tagged.count(tag) for tag in ("<p>", "<b>", "</b>", "<i>", "</i>", "</p>")] == [1] * 6
    for tag in ("<p>", "<b>", "</b>", "<i>", "</i>", "</p>"):
        tagged = tagged.replace(tag, "")
    assert [tagged] == plain


def test_a_pair_of_marks_around_two_sentences_is_not_given_to_the_model(translator: Translator):
    [marked] = translate(translator, [f"**{SENTENCES[0]} {SENTENCES[1]}**"])
    assert marked.count("**") == 2
    assert [marked.replace("**", "")] == translate(translator, [" ".join(SENTENCES[:2])])


def test_sentences_are_kept_together_where_it_is_asked_for(translator: Translator):
    line = " ".join(SENTENCES[:2])
    [kept] = translator.translate([line], SearchConfig(method="greedy", max_extra=3, sentences="keep"))
    [split] = translator.translate([line], SearchConfig(method="greedy", max_extra=3, sentences="split"))
    assert kept.pieces.count("</s>") <= 1
    assert split.text == " ".join(translate(translator, SENTENCES[:2]))
    with pytest.raises(ValueError, match="sentences is 'both', it must be auto, split or keep"):
        SearchConfig(sentences="both")  # pyright: ignore[reportArgumentType]


def test_a_model_that_learned_pairs_of_sentences_is_given_pairs():
    pairs = [("The ball fell. It broke.", "x")] * 3 + [("The dog ran.", "y")] * 7
    profile = profile_sources(pairs)
    assert (profile.sentences, profile.sentences_together, profile.several_sentences) == ((7, 3), 2, 0.3)
    translator = make_translator(profile)
    keep = SearchConfig(method="greedy", max_extra=3, sentences="keep")
    # "It" begins second sentences, "The" begins first ones.
    line = "The ball fell. It broke. The dog ran. The ball fell. It broke. It ran."
    parts = ["The ball fell. It broke.", "The dog ran.", "The ball fell. It broke.", "It ran."]
    expected = translator.translate(parts, keep)
    [joined] = translator.translate([line], FAST)
    if SENTENCE_BY_SENTENCE not in joined.notes:
        assert joined.text == " ".join(translation.text for translation in expected)


def test_a_sentence_that_is_left_out_is_searched_for_alone_and_otherwise_said():
    tokenizer = small_tokenizer()
    piece = next(i for i, name in enumerate(tokenizer.target_names) if name.strip("▁").isalpha() and name[0] == "▁")
    # It writes one word again and again, so that two sentences of a source become one.
    model = model_that_writes(piece, tokenizer.source_vocabulary, tokenizer.target_vocabulary)
    profile = profile_sources([("The ball fell. It broke.", "x")])
    assert profile.sentences_together == 2
    endless = Translator(model, tokenizer, profile=profile)
    [translation] = endless.translate(["The ball fell. It broke."], SearchConfig(method="greedy", max_extra=1))
    assert SENTENCE_BY_SENTENCE in translation.notes
    # The word has no end mark, so that one sentence runs into the other.
    assert translation.missing_sentences == 1
    [kept] = endless.translate(["The ball. It."], SearchConfig(method="greedy", max_extra=1, sentences="keep"))
    assert kept.missing_sentences == 1
    assert "the translation has 1 sentence fewer than the line" in kept.notes


def test_a_context_model_reads_each_sentence_of_a_line_with_the_one_before():
    with_context = make_translator(context=1)
    [joined] = translate(with_context, [" ".join(SENTENCES[:2])])
    first, second = with_context.translate(SENTENCES[:2], FAST, contexts=["", SENTENCES[0]])
    assert joined == f"{first.text} {second.text}"
    # The line before gives its last sentence.
    [after] = with_context.translate([SENTENCES[1]], FAST, contexts=[f"Yes! {SENTENCES[0]}"])
    assert after.text == second.text


def test_a_prefix_of_two_sentences_begins_the_translation_of_two(translator: Translator):
    prefix = "La bola es azul. ¿Dónde"
    [translation] = translator.translate([" ".join(SENTENCES[:3])], FAST, prefixes=[prefix])
    assert translation.text.startswith(prefix)
    assert translation.text.endswith(translate(translator, SENTENCES[2:3])[0])


@pytest.mark.parametrize(
    ("odd", "plain"),
    [
        ("The\u00a0ball is blue.", "The ball is blue."),
        ("The ball\u202fis\u2009blue.", "The ball is blue."),
        ("The ba\u00adll is bl\u200bue.", "The ball is blue."),
        ("Ｔｈｅ ball is blue．", "The ball is blue."),
        ("¿Do\u0301nde esta\u0301 la casa?", "¿Dónde está la casa?"),
    ],
)
def test_a_spelling_that_the_vocabulary_does_not_have_is_read_as_the_one_it_has(
    translator: Translator, odd: str, plain: str
):
    [ours], [theirs] = translator.translate([odd], FAST), translator.translate([plain], FAST)
    assert ours.pieces == theirs.pieces
    assert ours.source_pieces == theirs.source_pieces


@pytest.mark.parametrize("line", ["THE BALL IS BLUE.", "The Ball Is Blue."])
def test_a_case_that_the_training_text_never_had_is_read_as_a_sentence(line: str):
    learned = make_translator(PLAIN_PROFILE)
    [translation], [plain] = learned.translate([line], FAST), learned.translate(["The ball is blue."], FAST)
    assert translation.pieces == plain.pieces
    assert any("read without" in note for note in translation.notes)
    if line.isupper():
        assert translation.text == plain.text.upper()
    # A model whose training text had such lines is given them as they are.
    for habit in (replace(PLAIN_PROFILE, capitals=100), replace(PLAIN_PROFILE, title_case=100)):
        [kept] = make_translator(habit).translate([line], FAST)
        is_learned = line.isupper() == habit.has_capitals
        assert any("read without" in note for note in kept.notes) != is_learned


def test_small_letters_and_words_in_capitals_are_read_as_the_training_text_writes_them():
    learned = make_translator(replace(PLAIN_PROFILE, small_letters=0))
    [plain] = learned.translate(["The ball is blue."], FAST)
    for line in ("the ball is blue.", "The BALL IS BLUE.", "THE BALL is blue."):
        [translation] = learned.translate([line], FAST)
        assert translation.pieces == plain.pieces
        assert any("small letters" in note or "capital at its beginning" in note for note in translation.notes)
    [two] = learned.translate(["the ball is blue. where is the house?"], FAST)
    assert two.text == " ".join(translate(learned, ["The ball is blue.", "Where is the house?"]))
    # A model of an older version, and one that has learned such sentences, reads them as they are.
    for habit in (PLAIN_PROFILE, replace(PLAIN_PROFILE, small_letters=100)):
        assert make_translator(habit).translate(["the ball is blue."], FAST)[0].pieces != plain.pieces


@pytest.mark.parametrize(
    ("line", "plain", "words"),
    [
        ("The ball is in the hosue.", "The ball is in the house.", [("hosue", "house")]),
        ("The ball is in the hoouse.", "The ball is in the house.", [("hoouse", "house")]),
        ("The ball is in the watter, in the hosue.", "The ball is in the water, in the house.", None),
        ("THE BALL IS IN THE HOSUE.", "The ball is in the house.", [("hosue", "house")]),
        # What may be a name, or begins a sentence and may stand nowhere else, or is no text, stays.
        ("Hosue and water.", "Hosue and water.", []),
        ("hosue and water", "hosue and water", []),
        ("It is blue: hosue and water.", "It is blue: hosue and water.", []),
        ("The Hosue is blue.", "The Hosue is blue.", []),
        ("See {hosue} and www.hosue.com.", "See {hosue} and www.hosue.com.", []),
    ],
)
def test_a_misspelled_word_is_read_as_the_one_that_the_training_text_has(line: str, plain: str, words: list | None):
    learned = make_translator(PLAIN_PROFILE)
    [ours], [theirs] = learned.translate([line], FAST), learned.translate([plain], FAST)
    assert ours.source_pieces == theirs.source_pieces
    assert ours.pieces == theirs.pieces
    for word, intended in words or []:
        assert any(f"“{word}”" in note and f"“{intended}”" in note for note in ours.notes)
    if words == []:
        assert ours.notes == theirs.notes
    # Nobody knows the words of a model without a profile.
    assert make_translator().translate([line], FAST)[0].source_pieces != theirs.source_pieces or line == plain


def test_no_word_of_the_training_text_is_taken_for_a_misspelled_one():
    """Also a word that stands at the beginning of sentences alone, as "There", which is like "three"."""
    sources = [phrase.source for phrase in islice(generate_phrases(3), 3000)]
    profile = profile_sources((source, "") for source in sources)
    assert {"three", "There"} & set(profile.words) == {"three"}
    reader = SourceReader(small_tokenizer(), profile)
    assert [source for source in sources if reader.read(source).misspelled] == []


def test_a_language_that_writes_its_nouns_with_a_capital_has_them_mended():
    nouns = replace(PLAIN_PROFILE, words=("das", "ist", "Haus", "Wasser", "Sprache"))
    read = SourceReader(small_tokenizer(), nouns).read("Das ist die Sparche.")
    assert (read.text, read.misspelled) == ("Das ist die Sprache.", (("Sparche", "Sprache"),))


def test_a_term_of_the_user_is_no_misspelled_word():
    learned = make_translator(PLAIN_PROFILE)
    terms = Terms.from_pairs({"hosue": "Zorplat"})
    [with_term], [without] = (
        learned.translate(["The ball is in the hosue."], FAST, terms=terms),
        learned.translate(["The ball is in the hosue."], replace(FAST, reading="keep")),
    )
    assert with_term.source_pieces == without.source_pieces


def test_words_that_were_mended_keep_their_places():
    learned = make_translator(PLAIN_PROFILE)
    config = SearchConfig(method="greedy", max_extra=3, alignments=True)
    lines = ["The ball is in the watter, in the hosue.", "The ball is in the water, in the house."]
    ours, theirs = learned.translate(lines, config)
    assert ours.alignment == theirs.alignment


def test_sentences_in_small_letters_are_not_missed():
    """The translation of one may begin with a small letter behind another that does not."""

    def search(segments: list[Segment]) -> list[SearchResult]:
        found = [Hypothesis([], 0.0, 0.0, "eos", [0.0])]
        return [SearchResult(segments[0], found, ["Ja."]), SearchResult(segments[1], found, ["wo ist es?"])]

    split = SplitLines(SourceReader(small_tokenizer()), LengthLimits(99, 99), FAST)
    [translation] = split([Line("the ball is blue. where is the house?", 1)], search)
    assert translation.missing_sentences == 0


@pytest.mark.parametrize(
    "line",
    ["12. {}", "- {}", "• {}", '"{}"', "“{}”", "«{}»", "({})", '3) "{}"', "[{}]"],
)
def test_marks_that_the_training_text_never_had_stay_around_the_translation(line: str):
    learned = make_translator(PLAIN_PROFILE)
    [plain] = translate(learned, ["The ball is blue."])
    assert translate(learned, [line.format("The ball is blue.")]) == [line.format(plain)]
    assert translate(learned, [line.format("The ball is blue. Where is the house?")]) == [
        line.format(" ".join(translate(learned, ["The ball is blue.", "Where is the house?"])))
    ]
    # Without a profile nobody knows what the model has learned.
    unknown = make_translator()
    assert unknown.translate([line.format("The ball.")], FAST)[0].source_pieces != ["▁The", "▁ball", "."]


def test_alignments_count_the_words_of_the_whole_line():
    learned = make_translator(PLAIN_PROFILE)
    line = '1. "THE BALL IS BLUE. WHERE IS THE HOUSE?"'
    config = SearchConfig(method="greedy", max_extra=3, alignments=True)
    [translation] = learned.translate([line], config)
    assert translation.alignment
    for source, target in translation.alignment:
        assert 1 <= source < len(line.split())  # word 0 is the number, which no model has read
        assert 1 <= target < len(translation.text.split())


def test_protected_text_keeps_its_case_in_a_line_of_capitals():
    learned = make_translator(PLAIN_PROFILE)
    line = "THE BALL IS {Name} AT https://Example.com/a."
    [text] = translate(learned, [line])
    assert "{Name}" in text
    assert "https://Example.com/a" in text


@pytest.mark.parametrize(
    "line",
    ["THE BALL IS BLUE.", "The Ball Is Blue.", "The hosue is blue.", '"The ball is blue."', "3) (The ball is blue.)"],
)
def test_a_text_is_read_as_it_is_where_nobody_wants_it_adapted(line: str):
    reader = SourceReader(small_tokenizer(), PLAIN_PROFILE)
    for reading, is_same in (("adapt", False), ("keep", True)):
        config = replace(FAST, reading=reading)
        [cut] = SplitLines(reader, LengthLimits(200, 200), config).cut([Line(line, 0)])
        assert ("".join(segment.read.text for segment in cut.segments) == line) is is_same, reading
