"""Noise plants what people type into a pair, on the sides where it belongs, and loses no words."""

import re
from random import Random

import pytest

from pellucid.data.text.noise import (
    LETTERS_FOR_AN_ERROR,
    NOISE_KINDS,
    TextPair,
    drop_sentences,
    join_pairs,
    mistype_word,
    plant_capitals,
    plant_copies,
    plant_end_marks,
    plant_lost_accents,
    plant_marks,
    plant_small_letters,
    plant_spellings,
    plant_title_case,
    plant_typing_errors,
    strip_accents,
)
from pellucid.data.text.spelling import spell_plainly
from pellucid.data.text.surroundings import MARK_KINDS, trim_marks

SEEDS = range(60)
PAIR = TextPair("The old man's dog - a big one - sleeps.", "Der Hund des alten Mannes schläft.", "en", "de")
ODD_TEXTS = [
    "",
    " ",
    ".",
    "12",
    "A",
    "你好。",
    "สวัสดี",
    "{name}",
    "🐕",
    "e\u0301",
    "\u00a0",
    "İI",
    "a" * 300,
    "<b>Go</b>!",
]


def edit_distance(first: str, second: str) -> int:
    """Return the number of insertions, deletions, substitutions and swaps of neighbours between two words."""
    table = [[max(i, j) if min(i, j) == 0 else 0 for j in range(len(second) + 1)] for i in range(len(first) + 1)]
    for i in range(1, len(first) + 1):
        for j in range(1, len(second) + 1):
            same = first[i - 1] == second[j - 1]
            table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + (not same))
            if i > 1 and j > 1 and first[i - 2 : i] == second[j - 2 : j][::-1]:
                table[i][j] = min(table[i][j], table[i - 2][j - 2] + 1)
    return table[-1][-1]


@pytest.mark.parametrize("kind", NOISE_KINDS)
def test_the_same_generator_plants_the_same_noise_into_any_text(kind):
    for seed, text in enumerate([PAIR.source, *ODD_TEXTS]):
        pair = TextPair(text, f"{text} {text}", "en", "tr")
        first, second = (NOISE_KINDS[kind](pair, Random(seed)) for _ in range(2))
        assert first == second
        assert (first.source_language, first.target_language) == ("en", "tr")


@pytest.mark.parametrize("kind", ["small_letters", "typing_errors", "lost_accents", "spellings"])
def test_what_a_translation_should_not_show_is_planted_into_the_source_alone(kind):
    assert {NOISE_KINDS[kind](PAIR, Random(seed)).target for seed in SEEDS} == {PAIR.target}


def test_a_typing_error_is_one_step_of_one_letter_and_all_kinds_occur():
    words = [mistype_word("window", Random(seed)) for seed in range(300)]
    assert max(edit_distance("window", word) for word in words) == 1
    # Left out, swapped or replaced, and doubled.
    assert {len(word) for word in words} == {5, 6, 7}
    assert {"widnow", "winow", "winndow"} <= set(words)


def test_a_source_gets_a_typing_error_for_25_letters_and_at_least_one():
    long = TextPair("another " * 25 + "{another}", "")
    for seed in SEEDS:
        noisy = plant_typing_errors(long, Random(seed)).source.split(" ")
        assert noisy[-1] == "{another}"
        assert sum(word != "another" for word in noisy[:-1]) <= 7 * 25 / LETTERS_FOR_AN_ERROR
    assert all(plant_typing_errors(TextPair("Hello.", ""), Random(seed)).source.endswith(".") for seed in SEEDS)
    changed = [plant_typing_errors(TextPair("Hello.", ""), Random(seed)).source != "Hello." for seed in SEEDS]
    # Replacing an l by an l changes nothing.
    assert sum(changed) > 0.8 * len(changed)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Él comió más piñas.", "El comio mas pinas."),
        ("Größe, Straße, Äpfel", "Grosse, Strasse, Apfel"),
        ("łódź, żółw", "lodz, zolw"),
        ("cœur, Ægir, smørrebrød", "coeur, AEgir, smorrebrod"),
        ("Tiếng Việt", "Tieng Viet"),
        ("Καλημέρα σας, ψωμί", "Καλημερα σας, ψωμι"),
        # Marks that are not accents: another letter in Cyrillic, vowels elsewhere, one character in Korean.
        ("мой ёж", "мой ёж"),
        ("हिन्दी, สวัสดี, קָמָץ, 한국어, がぎぐ", "हिन्दी, สวัสดี, קָמָץ, 한국어, がぎぐ"),
    ],
)
def test_accents_are_lost_in_latin_and_greek_and_nothing_elsewhere(text, plain):
    assert strip_accents(text) == plain
    assert plant_lost_accents(TextPair(text, text), Random(1)) == TextPair(plain, text)


def test_capitals_are_those_of_each_language_and_leave_placeholders_alone():
    pair = TextPair("Find {city} in İzmir: ıssız, iyi.", "Η Αθήνα είναι η {city}.", "tr", "el")
    assert plant_capitals(pair, Random(1)) == TextPair(
        "FİND {city} İN İZMİR: ISSIZ, İYİ.", "Η ΑΘΗΝΑ ΕΙΝΑΙ Η {city}.", "tr", "el"
    )


def test_a_title_has_a_capital_on_each_word_and_its_translation_the_habit_of_its_language():
    english = TextPair("Der Mann isst einen Apfel.", "The man eats an apple from the tree.", "de", "en")
    assert plant_title_case(english, Random(1)).source == "Der Mann Isst Einen Apfel."
    assert plant_title_case(english, Random(1)).target == "The Man Eats an Apple from the Tree."
    titled = plant_title_case(PAIR, Random(1))
    assert (titled.source, titled.target) == ("The Old Man's Dog - A Big One - Sleeps.", PAIR.target)


def test_a_source_in_small_letters_keeps_its_translation():
    assert plant_small_letters(PAIR, Random(1)).source == PAIR.source.lower()


def test_an_end_mark_is_left_out_or_repeated_on_both_sides_alike():
    ends = {plant_end_marks(TextPair("Who?", "¿Quién?"), Random(seed)) for seed in SEEDS}
    assert {(pair.source, pair.target) for pair in ends} == {
        (f"Who{'?' * times}", f"¿Quién{'?' * times}") for times in (0, 2, 3)
    }
    for source, target in [("Who", "¿Quién?"), ("Wait...", "Warte..."), ("好", "Good.")]:
        assert {plant_end_marks(TextPair(source, target), Random(seed)) for seed in SEEDS} == {TextPair(source, target)}


def test_another_spelling_is_read_as_the_plain_one():
    plain = '"It\'s a well-known rule" - he said...'
    spelled = {plant_spellings(TextPair(plain, ""), Random(seed)).source for seed in SEEDS}
    assert len(spelled) > 5
    assert plain not in spelled
    assert {spell_plainly(text, str.isascii).text for text in spelled} == {plain}


def test_marks_stand_around_both_sides_and_can_be_taken_off_again():
    kinds = set()
    for seed in SEEDS:
        noisy = plant_marks(TextPair("The dog sleeps.", "Der Hund schläft."), Random(seed))
        sides = [slice(*trim_marks(text, 0, len(text), frozenset(MARK_KINDS))) for text in (noisy.source, noisy.target)]
        assert (noisy.source[sides[0]], noisy.target[sides[1]]) == ("The dog sleeps.", "Der Hund schläft.")
        kinds.add(re.sub(r"\d+", "0", noisy.source.partition("The")[0]))
    assert len(kinds) > 10


def test_something_to_copy_stands_at_the_same_end_of_both_sides():
    for seed in SEEDS:
        noisy = plant_copies(TextPair("Go!", "Los jetzt!"), Random(seed))
        assert noisy.source.replace("Go!", "") == noisy.target.replace("Los jetzt!", "") != ""


def test_pairs_are_joined_with_a_space_where_their_script_has_spaces():
    joined = join_pairs(TextPair("早。", "Early."), TextPair("走吧。", "Let's go."))
    assert (joined.source, joined.target) == ("早。走吧。", "Early. Let's go.")


def test_one_sentence_stands_alone_only_where_both_sides_have_as_many():
    pair = TextPair("I see. You go! He stays.", "Ich sehe. Du gehst! Er bleibt.")
    alone = {drop_sentences(pair, Random(seed)) for seed in SEEDS}
    assert alone == {
        TextPair("I see.", "Ich sehe."),
        TextPair("You go!", "Du gehst!"),
        TextPair("He stays.", "Er bleibt."),
    }
    for other in (TextPair("I see. You go!", "Ich sehe, du gehst!"), TextPair("I see.", "Ich sehe.")):
        assert drop_sentences(other, Random(1)) == other
