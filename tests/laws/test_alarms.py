"""What went wrong in a translation is told wherever it is shown, and what people write is no alarm."""

from pathlib import Path

import pytest

from pellucid.api import Model
from pellucid.data.source_profile import SourceProfile, profile_sources
from pellucid.decode.alarms import ALARMS, count_alarms, find_alarms, find_lost_names
from pellucid.decode.translator import Translator
from pellucid.store.directory import Bundle
from tests.trace.copying import copying_model, word_tokenizer

ENGLISH = profile_sources(
    (sentence, "")
    for sentence in (
        "We saw the dog and the cat in the old garden of a small house.",
        "Yesterday he wanted to buy a new hotel in Berlin with his brother.",
        "They say that the city is as big as the lake, and that people like it.",
        "Perhaps she knows who cares about the mayor of this city.",
        "So we stop here, thank you, please come back to the supreme court.",
    )
)
GERMAN = profile_sources(
    (sentence, "")
    for sentence in (
        "Gestern sah der alte Mann den Hund und die Katze im Garten seines Hauses.",
        "Dann kaufte er das Hotel in der Stadt mit dem Geld von seinem Bruder.",
    )
)


def alarms_of(source: str, translation: str, profile: SourceProfile | None = ENGLISH) -> set[str]:
    return set(find_alarms(source, translation, profile))


@pytest.mark.parametrize(
    ("source", "translation"),
    [
        ("The dog sleeps in the garden.", "The dog sleeps in the garden."),
        ("The dog sleeps in the garden.", "the dog sleeps in the garden!"),
        ("The dog sleeps in the garden.", "Der dog sleeps in the Garten."),
        ("We saw the dog of Mr Miller.", "We saw the dog von Herrn Miller."),
        ("Who cares?", "Who cares?"),
        ("STOP HERE, THE CITY IS BIG.", "STOP HERE, THE CITY IS BIG."),
        ("The Dog And The Cat Of The City", "The Dog And The Cat Of The City"),
        ('He said: "Thank you, the dog knows."', 'Er sagte: "Thank you, the dog knows."'),
        ("Собака спит в саду.", "Собака спит в саду."),
        ("الكلب ينام في الحديقة", "الكلب ينام في الحديقة"),
        ("बच्चे बगीचे में खेलते हैं।", "बच्चे बगीचे में खेलते हैं।"),
        ("我的朋友昨天买了一本新书。", "我的朋友昨天买了一本新书。"),
        ("子供たちは庭で遊んでいます。", "子供たちは庭で遊んでいます。"),
        ("Der alte Mann sah den Hund.", "Der alte Mann saw den Hund."),
    ],
)
def test_text_left_untranslated_is_a_copy(source: str, translation: str):
    assert alarms_of(source, translation, GERMAN if source.startswith("Der") else ENGLISH) == {"copy"}


@pytest.mark.parametrize(
    ("source", "translation"),
    [
        ("Hotel New York", "Hotel New York"),
        ("Grand Hotel Berlin", "Grand Hotel Berlin"),
        ("HOTEL NEW YORK", "HOTEL NEW YORK"),
        ("Volkswagen, Siemens, Bayer und BASF", "Volkswagen, Siemens, Bayer and BASF"),
        ("See https://example.com/the/old/house {name} %s", "Siehe https://example.com/the/old/house {name} %s"),
        ("Call `the old house` and `the new one` now.", "Rufe jetzt `the old house` und `the new one` auf."),
        ("12 + 30 = 42", "12 + 30 = 42"),
        ("A boy in shorts with a skateboard.", "Ein Junge in Shorts mit einem Skateboard."),
        ("La casa de mi madre es muy grande.", "La maison de ma mère est très grande."),
        ("The dog sleeps.", "Der Hund schläft."),
        ("Taxi!", "Taxi!"),
        ("東京大学", "東京大学"),
    ],
)
def test_names_protected_text_and_words_of_both_languages_are_no_copy(source: str, translation: str):
    assert "copy" not in alarms_of(source, translation)


def test_between_close_languages_only_nearly_whole_copies_count():
    """Italian and Spanish share half of these words, and whoever learned to correct a text copies most of it."""
    source, right = "La casa grande è di mio padre e la porta no.", "La casa grande es de mi padre y la porta no."
    assert alarms_of(source, right, SourceProfile(sources=1000, shared=1)) == {"copy"}
    relatives = SourceProfile(sources=1000, shared=50)
    assert not alarms_of(source, right, relatives)
    assert alarms_of(source, source, relatives) == {"copy"}
    assert not alarms_of(source, source, SourceProfile(sources=1000, shared=900))


def test_the_profile_counts_targets_that_share_words_with_their_source():
    pairs = [("la casa grande è mia", "la casa grande es mía"), ("il cane dorme", "el perro duerme")]
    whole = ("questa frase resta così", "questa frase resta così")  # a fault of the text, not a habit of its languages
    assert profile_sources([*pairs, whole]).shared == 1


@pytest.mark.parametrize(
    ("source", "translation"),
    [
        ("The dog sleeps.", ""),
        ("The dog sleeps.", " . "),
        ("Собака спит.", "…"),
        ("犬が寝る。", "。"),
        ("Room 12", "12"),
        ("12", "-"),
    ],
)
def test_a_translation_without_words_is_empty(source: str, translation: str):
    assert "empty" in alarms_of(source, translation)


@pytest.mark.parametrize(("source", "translation"), [("Twelve.", "12."), ("1st", "1."), ("Yes.", "是。"), ("...", "")])
def test_numbers_that_stand_for_words_are_not_empty(source: str, translation: str):
    assert "empty" not in alarms_of(source, translation)


@pytest.mark.parametrize(
    ("source", "translation"),
    [
        ("It was built in 1984.", "Es wurde 1948 gebaut."),
        ("It costs 250 euros.", "Es kostet Euro."),
        ("They have 25 dogs.", "Sie haben 5 Hunde."),
        ("Come at 8.", "Komm um 9."),
        ("There were people.", "Es waren 1500 Leute da."),
        ("هناك ١٢٥ شخصا", "There are 152 people."),
    ],
)
def test_a_number_that_differs_is_told(source: str, translation: str):
    assert alarms_of(source, translation) == {"numbers"}


@pytest.mark.parametrize(
    ("source", "translation"),
    [
        ("It costs 1,250.50 euros.", "Es kostet 1.250,50 Euro."),
        ("We saw 40 000 people.", "Wir sahen 40.000 Leute."),
        ("He is 2 years old.", "Er ist zwei Jahre alt."),
        ("We meet at 2:30.", "Wir treffen uns um halb drei."),
        ("We meet at 5:00 p.m.", "Wir treffen uns um 17 Uhr."),
        ("In the 80s and in 1984.", "In den 1980ern und 1984."),
        ("It costs 500,000.", "Es kostet 500 Tausend."),
        ("1.2 million people", "120万人"),
        ("I paid $200.00.", "Ich zahlte 200 $."),
        ("عددهم ١٢٥", "There are 125."),
    ],
)
def test_a_number_written_otherwise_is_no_alarm(source: str, translation: str):
    assert "numbers" not in alarms_of(source, translation)


@pytest.mark.parametrize(
    ("source", "translation"),
    [
        ("Yesterday we saw Brzezinski in the garden.", "Gestern sahen wir ihn im Garten."),
        ("The mayor of Ouagadougou wanted a house.", "Der Bürgermeister wollte ein Haus."),
        ("We like Paula Kowalczyk, who is old.", "Wir mögen eine alte Frau."),
    ],
)
def test_a_name_of_which_nothing_is_left_is_told(source: str, translation: str):
    assert alarms_of(source, translation) == {"names"}


@pytest.mark.parametrize(
    ("source", "translation", "profile"),
    [
        ("Yesterday we saw Brzezinski.", "Včera jsme viděli Brzezinského.", ENGLISH),  # with an ending
        ("Yesterday we saw Yeltsin.", "Gestern sahen wir Jelzin.", ENGLISH),  # spelled as it is said
        ("Yesterday we saw Zürich.", "Ayer vimos Zurich.", ENGLISH),
        ("Yesterday we saw Brzezinski.", "Вчера мы видели Бжезинского.", ENGLISH),  # another script
        ("Yesterday we saw Brzezinski.", "昨日ブレジンスキーに会った。", ENGLISH),
        ("He wanted to buy it in Berlin.", "Er wollte es in der Stadt kaufen.", ENGLISH),  # the training text had it
        ("We like the Gardeners.", "Wir mögen die Leute.", ENGLISH),  # begins like a small word
        ("They say the Federal Court knows.", "Man sagt, das oberste Gericht wisse es.", ENGLISH),
        ("Gestern sah er den Apfelbaum.", "Yesterday he saw the tree.", GERMAN),  # German nouns have capitals
        ("WE SAW BRZEZINSKI.", "WIR SAHEN IHN.", ENGLISH),
        ("We saw the EU and NATO.", "Vimos la UE y la OTAN.", ENGLISH),
        ("Kowalczyk saw it.", "Er sah es.", ENGLISH),  # the first word has its capital anyway
        ("Yesterday we saw Brzezinski.", "Gestern sahen wir ihn.", None),
    ],
)
def test_a_name_in_another_form_and_what_may_be_no_name_is_no_alarm(
    source: str, translation: str, profile: SourceProfile | None
):
    assert "names" not in alarms_of(source, translation, profile)


def test_the_lost_names_are_listed():
    source = "We saw Brzezinski with Kowalczyk and Paula in Berlin."
    assert find_lost_names(source, "Wir sahen Kowalczyk.", ENGLISH) == ["Brzezinski", "Paula"]


@pytest.mark.parametrize(
    ("source", "translation"),
    [
        ("The dog drank the milk.", "El perro bebió la leche la leche."),
        ("The dog drank the milk.", "El perro perro perro bebió la leche."),
        ("The dog drank it.", "Der Hund Hund trank, Hund trank, Hund trank, Hund trank, Hund trank es."),
        ("He goes home.", "Er geht nach Hause. Er geht nach Hause."),
        ("The dog is here.", "Der Huuuuuuuuuuuund ist hier."),
        ("这本书很好。", "This book is very very very good."),
        ("The book is good.", "这本书很好很好很好很好很好。"),
    ],
)
def test_a_translation_that_says_something_again_and_again_is_told(source: str, translation: str):
    assert alarms_of(source, translation) == {"repeats"}


@pytest.mark.parametrize(
    ("source", "translation"),
    [
        ("It is very, very, very good.", "Es ist sehr, sehr, sehr gut."),
        ("Books, books and more books.", "Bücher, Bücher, Bücher."),
        ("Thank you so much. Thank you.", "Vielen Dank. Vielen Dank."),
        ("Those who like the milk.", "Die, die die Milch mögen."),
        ("No no no no, the dog.", "Nein nein nein nein, der Hund."),
        ("Ha ha ha!", "Ha ha ha!"),
        ("Wait........", "Warte........"),
    ],
)
def test_what_people_write_twice_is_no_alarm(source: str, translation: str):
    assert "repeats" not in alarms_of(source, translation)


def test_a_translation_many_times_as_long_or_as_short_is_told():
    long = "Gestern wollten wir mit dem alten Hund in den großen Garten gehen und die Katze sehen, die dort schlief"
    assert alarms_of("We went away.", long) == alarms_of(long, "Weg.", GERMAN) == {"length"}
    assert not alarms_of("No smoking.", "Das Rauchen ist hier nicht gestattet.")
    assert not alarms_of("The children wanted to play in the old garden.", "孩子们想在老花园里玩。")


def test_a_sentence_that_is_missing_is_told():
    assert alarms_of("It is late. We go home.", "Es ist spät.") == {"sentences"}
    assert alarms_of("It is late. We go home.", "") == {"empty", "sentences"}
    assert not alarms_of("It is late. We go home.", "Es ist spät. Wir gehen heim.")
    assert not alarms_of("It is late. We go home.", "ดึกแล้ว เรากลับบ้าน")  # Thai has no marks at the ends of sentences


def test_alarms_come_in_one_order_and_are_counted():
    source, translation = "We saw 250 of the dogs of this city. They saw us.", "We saw 260 of the dogs of this city."
    assert find_alarms(source, translation, ENGLISH) == ("copy", "numbers", "sentences")
    counts = count_alarms([("copy", "numbers"), (), ("copy",)])
    assert counts == dict.fromkeys(ALARMS, 0) | {"copy": 2, "numbers": 1}


def test_a_model_that_copies_says_so_wherever_it_is_shown():
    """The words are of no language; a model whose training text was copied like that has learned to copy."""
    bundle = Bundle(copying_model(), word_tokenizer(), {}, Path("runs/copy/best"))
    model = Model(bundle, Translator(bundle.model, bundle.tokenizer))
    translation = model.translate("kima lopu tesa runo")
    assert translation.text == "kima lopu tesa runo"
    assert translation.alarms == ("copy",)
    assert ALARMS["copy"] in translation.notes
    trace = model.trace("kima lopu tesa runo")
    assert trace.translation.alarms == ("copy",)
    assert "copy" in [finding.kind for finding in trace.verdict().findings]
    assert not model.translate("kima").alarms

    learned = Translator(bundle.model, bundle.tokenizer, profile=SourceProfile(sources=10, shared=9))
    assert not Model(bundle, learned).translate("kima lopu tesa runo").alarms


def test_alarms_are_those_of_the_text_between_tags_and_of_every_sentence():
    bundle = Bundle(copying_model(), word_tokenizer(), {}, Path("runs/copy/best"))
    model = Model(bundle, Translator(bundle.model, bundle.tokenizer))
    line = '<a href="https://x.org/1250">kima lopu tesa</a>'
    translation = model.translate(line)
    assert translation.text == line
    assert translation.alarms == ("copy",)  # and not "numbers", whatever the tag says
    assert "copy" in model.translate("kima. lopu tesa runo vadi.", sentences="split").alarms
