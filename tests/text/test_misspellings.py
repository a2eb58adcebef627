"""A misspelled word is read as the known word that it is meant to be, and no other word as anything else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.data.text.misspellings import LONE_WORD, KnownWords, list_slips

WORDS = [
    *(f"w{'abcdefghij'[i % 10]}{'klmnopqrst'[i // 10]}xy" for i in range(100)),
    "language",
    "beautiful",
    "reddish",
    "sprache",
]
KNOWN = KnownWords(WORDS)
letters = st.text("abcde", min_size=1, max_size=8)


@given(letters)
def test_slips_are_the_words_that_two_keys_in_the_wrong_order_or_one_pressed_twice_make(word: str):
    expected: set[str] = set()
    for i in range(len(word)):
        expected.add(word[: i + 1] + word[i:])
        if i:
            if word[i - 1] == word[i]:
                expected.add(word[:i] + word[i + 1 :])
            if i > 1:
                expected.add(word[: i - 1] + word[i] + word[i - 1] + word[i + 1 :])
    assert list_slips(word) == expected - {word}


@given(letters)
def test_a_slip_can_be_taken_back_by_another(word: str):
    for slip in list_slips(word):
        assert word in list_slips(slip)


@pytest.mark.parametrize("slip", ["langauge", "lanugage", "languagee", "llanguage", "languuage", "languag", "lan"])
def test_only_a_slip_inside_a_word_is_mended(slip: str):
    is_slip = slip in list_slips("language")
    assert KNOWN.find_intended(slip) == ("language" if is_slip else None)


@pytest.mark.parametrize(
    ("word", "intended"),
    [
        ("lamguage", "language"),  # another letter, of a long and common word
        ("langage", None),  # too short
        ("beautful", "beautiful"),
        ("langufage", "language"),
        ("zanguage", None),  # its first letter tells words apart
        ("languages", None),  # its last one may be an ending
        ("sprsche", None),  # too short for another letter
        ("redish", "reddish"),
        ("sprahce", "sprache"),
        ("", None),
    ],
)
def test_other_letters_are_mended_in_long_words_alone(word: str, intended: str | None):
    assert KNOWN.find_intended(word) == intended


def test_a_word_that_may_be_two_others_stays():
    assert KnownWords(["stoped", "stoppped"]).find_intended("stopped") is None


def test_words_of_four_letters_are_read_as_very_common_ones_alone():
    common = [f"a{number}" for number in range(299)]
    assert KnownWords([*common, "wiht"]).find_intended("whit") == "wiht"
    assert KnownWords([*common, "other", "wiht"]).find_intended("whit") is None
    assert KnownWords(["teh", "thee"]).find_intended("the") is None


def test_rare_words_are_not_meant_by_another_letter():
    common = [f"a{number}" for number in range(999)]
    assert KnownWords([*common, "language"]).find_intended("lamguage") == "language"
    assert KnownWords([*common, "other", "language"]).find_intended("lamguage") is None
    assert KnownWords([*common, "other", "language"]).find_intended("langauge") == "language"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Say it, then go.", ["Say", "it", "then", "go"]),
        ("Don't use l’été or well-known words", ["use", "or", "words"]),
        ("a.b c:d e/f g@h.i #j k_l m1 n=o", []),
        ("See: this. 'That' \"is\" (so) it!", ["See", "this", "is", "so", "it"]),
        ("größer 東京 слово", ["größer", "東京", "слово"]),
    ],
)
def test_words_are_looked_at_that_are_no_part_of_something_else(text: str, words: list[str]):
    assert LONE_WORD.findall(text) == words
