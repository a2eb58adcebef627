"""A text in capitals, or with a capital on each word, is read as a sentence, and its translation gets the case back."""

import pytest

from pellucid.data.text.casing import (
    capitalise,
    has_capitalised_nouns,
    is_in_capitals,
    is_in_small_letters,
    is_in_title_case,
    recase_capital_words,
    recase_sentence,
    restore_capital_words,
    restore_casing,
)

ENGLISH = {
    word.upper(): word for word in ("the", "dog", "runs", "in", "Berlin", "with", "my", "NATO", "I", "red", "car")
}
GERMAN = {word.upper(): word for word in ("der", "Hund", "läuft", "Straße", "über", "die", "Mann", "Frau")}


@pytest.mark.parametrize(
    "text", ["THE DOG RUNS.", "STOP", "ÜBER DIE STRASSE", "ПРИВЕТ МИР", "OPEN {name} AT www.x.com/a"]
)
def test_texts_in_capitals(text: str):
    assert is_in_capitals(text)


@pytest.mark.parametrize("text", ["The DOG runs", "I", "A 5", "12", "", "A. B.", "犬が走る", "The dog"])
def test_texts_that_are_not_in_capitals(text: str):
    assert not is_in_capitals(text)


@pytest.mark.parametrize(
    "text", ["The Dog Runs", "My Red Car", "Red Car", "A Dog Runs in Berlin with Hope", "The Dog Runs 3 Times"]
)
def test_texts_with_a_capital_on_each_word(text: str):
    assert is_in_title_case(text, ENGLISH)


@pytest.mark.parametrize(
    "text", ["The dog runs", "My Berlin", "John Smith", "The Dog quickly runs", "I", "In NATO", "THE DOG"]
)
def test_texts_without_a_capital_on_each_word(text: str):
    assert not is_in_title_case(text, ENGLISH)


def test_german_nouns_are_no_title():
    assert not is_in_title_case("Der Mann und Frau Hund", GERMAN)
    assert is_in_title_case("Der Hund Läuft Über die Straße", GERMAN)


def test_words_are_read_in_the_case_that_the_training_text_gives_them():
    assert recase_sentence("THE DOG RUNS IN BERLIN.", "capitals", ENGLISH, False) == "The dog runs in Berlin."
    assert (
        recase_sentence("DER HUND LÄUFT ÜBER DIE STRASSE", "capitals", GERMAN, True) == "Der Hund läuft über die Straße"
    )
    assert recase_sentence("MY DOG'S CAR", "capitals", ENGLISH, False) == "My dog's car"
    # An unknown word is a noun in German; in a title it may be a name.
    assert recase_sentence("DER WURSTSALAT", "capitals", GERMAN, True) == "Der Wurstsalat"
    assert recase_sentence("The Dog Karlsruhe Runs", "title", ENGLISH, False) == "The dog Karlsruhe runs"
    assert recase_sentence("NATO RUNS", "capitals", ENGLISH, False) == "NATO runs"


def test_what_is_protected_keeps_its_case():
    text = "SEE {NAME} AT HTTPS://EXAMPLE.COM/A OR https://example.com/B"
    recased = recase_sentence(text, "capitals", ENGLISH, False)
    assert "{NAME}" in recased
    assert "https://example.com/B" in recased
    assert restore_casing("mira {name} en https://example.com/b", "capitals", "es") == (
        "MIRA {name} EN https://example.com/b"
    )


def test_a_translation_gets_the_case_of_its_source_as_its_language_writes_it():
    assert restore_casing("Der Hund läuft.", "capitals", "de") == "DER HUND LÄUFT."
    assert (
        restore_casing("the dog of the king's men in Berlin", "title", "en-GB") == "The Dog of the King's Men in Berlin"
    )
    assert restore_casing("El perro del rey", "title", "es") == "El perro del rey"
    assert restore_casing("El perro del rey", "title", None) == "El perro del rey"
    assert restore_casing("犬", "capitals", "ja") == "犬"


def test_capitals_of_languages_with_rules_of_their_own():
    assert capitalise("diyarbakır", "tr") == "DİYARBAKIR"
    assert capitalise("προϊόν καφές", "el") == "ΠΡΟΪΟΝ ΚΑΦΕΣ"
    assert capitalise("groß", "de") == "GROSS"


def test_a_language_whose_nouns_have_capitals_shows_it():
    assert has_capitalised_nouns([*GERMAN.values()])
    assert not has_capitalised_nouns(["Berlin", *"abcdefgh"])


def test_many_rare_names_are_no_capitalised_nouns():
    """A newspaper names thousands of people and places once each; its commonest words are small all the same."""
    common = [f"w{i}" for i in range(1000)]
    assert not has_capitalised_nouns([*common, *(f"Name{i}" for i in range(5000))])


SHOUTED = {
    word.upper(): word
    for word in ("breaking", "news", "the", "dog", "saw", "us", "it", "in", "Berlin", "NATO", "warning")
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("BREAKING NEWS: it rains.", "Breaking news: it rains."),
        ("He SAW THE DOG.", "He saw the dog."),
        ("He saw THE NATO DOG IN BERLIN.", "He saw the NATO dog in Berlin."),
        ('The sign says: "THE WET DOG".', 'The sign says: "The wet dog".'),
        ("WARNING: it rains.", "Warning: it rains."),
        ("He left. THE DOG saw it.", "He left. The dog saw it."),
        ("It said THE-DOG, THE DOG {THE_DOG} and `THE DOG`.", "It said the-dog, the dog {THE_DOG} and `THE DOG`."),
    ],
)
def test_words_in_capitals_inside_a_sentence_are_read_in_small_letters(text: str, expected: str):
    assert recase_capital_words(text, SHOUTED, capitalise_unknown=False) == expected


@pytest.mark.parametrize(
    "text",
    [
        "The DOG ran.",  # one word, as an acronym has
        "He works in US IT.",  # few letters
        "NATO and the EU met.",
        "The UNHCR WFP BBC met.",  # words that the training text does not have
        "US: it rains.",
        "The dog runs. It's {THE_DOG} and https://A.EXAMPLE/THE-DOG.",
        "A B",
        "",
    ],
)
def test_acronyms_are_no_words_in_capitals(text: str):
    assert recase_capital_words(text, SHOUTED, capitalise_unknown=False) == text


@pytest.mark.parametrize(
    ("translation", "source", "expected"),
    [
        ("Aviso: llueve.", "WARNING: it rains.", "AVISO: llueve."),
        ("Dijo: «el perro».", 'He said: "THE DOG".', "Dijo: «EL PERRO»."),
        ("El perro (el gato) – la casa", "The dog (THE CAT) - the house", "El perro (EL GATO) – la casa"),
        # Nothing says where the words went.
        ("Vio el perro rojo.", "He saw THE RED DOG.", "Vio el perro rojo."),
        ("Dijo: el perro.", 'He said: "THE DOG".', "Dijo: el perro."),
    ],
)
def test_capitals_come_back_where_signs_around_them_say_so(translation: str, source: str, expected: str):
    assert restore_capital_words(translation, source, "es") == expected


def test_a_sentence_in_small_letters_is_read_with_its_capitals():
    assert is_in_small_letters("it's berlin, and i see the dog.")
    assert not is_in_small_letters("open the file")  # as a button has it
    assert recase_sentence("we are in berlin and i see the dog.", "small", ENGLISH, False) == (
        "We are in Berlin and I see the dog."
    )
    # A word that is not known stays; German nouns get their capital where they are known.
    assert recase_sentence("der hund frisst wurstsalat.", "small", GERMAN, True) == "Der Hund frisst wurstsalat."
    assert restore_casing("Llueve.", "small", "es") == "Llueve."
