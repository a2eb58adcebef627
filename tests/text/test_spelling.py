"""Characters that a model does not know are read as their plain counterparts, and copied words keep their spelling."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.data.text.spelling import plain_counterpart, spell_plainly


def knows_nothing_else(character: str) -> bool:
    return character.isascii()


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("The ball is blue.\u00a0The cat is black.", "The ball is blue. The cat is black."),
        ("12\u202f000 people\u2009here", "12 000 people here"),
        ("one\u3000two\u2003three\u205ffour", "one two three four"),
        ("Don’t say “no” — ‘never’…", "Don't say \"no\" - 'never'..."),
        ("»Ja« and „nein“", '"Ja" and "nein"'),
        ("co\u00adop\u200beration\u2060 is\ufeff good", "cooperation is good"),
        ("\u202bright\u202c to left\u200f", "right to left"),
        ("ＡＢＣ１２３", "ABC123"),
        ("ofﬁce", "office"),
        ("𝐁𝐨𝐥𝐝 text", "Bold text"),
        ("non‑breaking hyphen, 3−2", "non-breaking hyphen, 3-2"),
    ],
)
def test_other_spellings_of_known_characters_are_read_as_those(text: str, plain: str):
    assert spell_plainly(text, knows_nothing_else).text == plain


@pytest.mark.parametrize("text", ["m²", "½", "①", "naïve", "東京", "👩‍🚀", "a\u0301b", "€5", "°C"])
def test_what_has_no_plain_counterpart_stays(text: str):
    assert spell_plainly(text, knows_nothing_else).text == unicodedata.normalize("NFC", text)


def test_a_letter_and_its_accent_are_spelled_as_the_model_knows_them():
    composed, decomposed = "café über", unicodedata.normalize("NFD", "café über")
    assert spell_plainly(decomposed, lambda character: character in "éü").text == composed
    assert spell_plainly(composed, lambda character: character in "\u0301\u0308").text == decomposed
    assert spell_plainly(composed, lambda character: character in "éü").text == composed


def test_what_the_model_knows_stays():
    text = "« Oui »\u00a0: c’est ça\u202f!"
    assert spell_plainly(text, lambda character: True).text == text
    assert spell_plainly(text, lambda character: character != "’").text == text.replace("’", "'")


def test_a_copied_word_gets_its_spelling_back_as_often_as_it_stood_there():
    plain = spell_plainly("Zoe\u0308’s 12\u202f000 “Pellucid”.", lambda character: character in "ë")
    assert plain.text == 'Zoë\'s 12 000 "Pellucid".'
    assert plain.restore('12 000 "Pellucid" von 12 000.') == '12\u202f000 "Pellucid" von 12 000.'
    assert spell_plainly("co\u00adop", knows_nothing_else).restore("Die coop, cooperativa") == (
        "Die co\u00adop, cooperativa"
    )


def test_a_word_of_invisible_characters_alone_stays():
    assert spell_plainly("a \u200b b", knows_nothing_else).text == "a \u200b b"


@settings(derandomize=True, deadline=None)
@given(st.text(max_size=30))
def test_reading_plainly_loses_no_word_and_is_done_once(text: str):
    plain = spell_plainly(text, knows_nothing_else).text
    assert spell_plainly(plain, knows_nothing_else).text == plain
    assert len(plain.split(" ")) >= len(text.split(" "))


def test_a_plain_counterpart_is_plainer():
    # Each counterpart is plain itself, so that one step is enough.
    for code_point in range(0x80, 0x20000):
        counterpart = plain_counterpart(chr(code_point))
        if counterpart is not None:
            assert chr(code_point) not in counterpart
