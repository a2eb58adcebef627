"""Laws of sentence ends: a table of cases by language, where | stands for each end, and what holds for every text."""

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pellucid.data.text.sentences import LETTER_OR_DIGIT, count_sentences, sentence_ends

law = settings(derandomize=True, deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])

PIECES = [
    *"aZ1.?!…;: \t\u00a0\u3000\"'“”„«»()[]-–—*_¿¡。！？」।؟։።語ก\u200b\u200f",
    *(
        "Mr",
        "z",
        "B",
        "etc",
        "The",
        "Le",
        "am",
        "12",
        "II",
        "No",
        "Τι",
        "Inc",
        "😀",
        "ﬁ",
        "\U00010400",
        "e\u0301",
        ". ",
    ),
]
TEXTS = st.lists(st.one_of(st.sampled_from(PIECES), st.characters()), max_size=60).map("".join)


def list_sentences(text: str) -> list[str]:
    return [text[start:end] for start, end in pairwise([0, *sentence_ends(text, 0, len(text))])]


ENGLISH = """
Mr. Finch met Mrs. Lark on Mt. Baldy.| They climbed it.
Capt. Gull, Sgt. Crow and Pfc. Wren served under Gen. Hawk.| All came home.
The U.S. Navy sailed at 6 a.m. sharp.| Nobody waved.
She moved to the U.S.| The winters are mild there.
It closes at 5 p.m.| We should hurry.
Big birds, e.g. Ostriches, i.e. The biggest, cannot fly.
Bring pens, paper, etc.| Tables are there.
He works for Acorn Inc.| She works for Yahoo! Inc. as well.
U. K. Le Guin wrote it.| J. R. R. Tolkien did not.
I am 12.| Max is 13.| The film begins at 2:30.| Popcorn is ready.
Version 2.0 costs 3.50 dollars.| Version 3.1.| Buy it, he said.
See No. 5, Fig. 3 and Vol. II for more.| I said no.| Max left.
On Oct. 7 it rained.| By Nov. we had snow.
Go to www.example.com or https://a.example/B.html?C=D!E now.| Then wait.
“Why?” she asked.| “Because.”| (He smiled.)| [They left.]
Really?!| Yes!!| Well…| Fine.
He said [...] Max and (...) Ann.| So (he thought) it ended (or did it?)| Well.
1. Open the box.| 2. Close the box.| 2.1. Lock it.| B. Shake it.
The sea is blue.|The sky is grey.| Use OS.The and Node.It.Works here.
She left.[1]| He stayed.[12]
Wait . . . what?| Oh.
Red.| 😀 Green.| **Blue.**| _Black._
"""
GERMAN = """
Das gilt z. B. Hunden, d. h. Tieren.| Es gilt z.B. Katzen, bzw. Vögeln.
Am 3. Mai kam er.| Der 2. Weltkrieg endete im 20. Jahrhundert.| Montag, 4. Juni war frei.
Das war beim 1. FC Krähenwinkel (1. Liga).| Gut.
Papst Johannes der XXIII. besuchte ihn.| Im II. Weltkrieg nicht.
Sie ist 12.| Er ist 30.| Das ist alles.
Prof. Dr. Meise, Hr. Fink und Fr. Star kamen.| Sie sangen.
Siehe Nr. 5, Abb. 3, Bd. II und S. 12.| Danke.
Das kostet 5 Mio. Euro, inkl. Steuer.| Schade.
Äpfel, Birnen usw.| Pflaumen nicht.
„Er ging.“| »Sie blieb.«| „Wirklich?“, fragte er.| „Ja!“| – „Nein!“
Ich mag es.| Paris auch.| Er kam um 21 Uhr 30.| Niemand war da.
"""
FRENCH = """
M. Merle et Mme Pie, p. ex. Lundi, viennent.| Mlle. Grive aussi.
« Vraiment\u00a0? »|\u00a0« Oui\u202f! »| Il part.
Est-ce vrai ?| Oui !| Non…| Si.
L'an 50 av. J.-C. fut calme.| C'était en 1999.| Depuis, rien.
Des pommes, des poires, etc.| Paul en veut.
Prenez de la vitamine C.| Vous irez mieux.| Il a 20 ans et pèse 60.| Personne ne le sait.
Je l'ai vu pendant un vol.| Marie dormait.
"""
SPANISH = """
El Sr. Gallo y la Sra. Mora viven aquí.| ¿Dónde?| ¡Aquí!| ¡¿Cómo?!
¿Cómo está Ud.?| Bien, p. ej. Hoy.
Los EE. UU. Ganaron.| Vive en EE.UU.| El clima es bueno.
Llegó a las 2:30.| Pedro no.| Tenía menos de 20.| Sé que es poco.
Pan, vino, etc.| Todos comieron.| Eran más de mil.| Juan los vio.
"""
SLAVIC = """
Např. pes, tzv. Hafík, tj. Azor, byl na str. 5 a v č. 6.| Splněný sen.| Jana spí.
MUDr. Novák a Ing. Dvořák přišli.| JUDr. Malá ne.| Víš co.| Pavel ví.
Це м. Київ, вул. Садова, 5.| Ось т. зв. Хата, ім. Шевченка.| Йому 25-35.| Петро тут.
Он родился в 1941 г.| В школе он учился.| Видел ул. Ленина и т. д.| Потом ушёл.
– Да! – сказал он.| – Нет.| Я сказал им.| Том ушёл.
To np. Kraków, tj. Miasto przy ul. Długiej.| Nie wiem.
"""
OTHERS = """
是。|不是！|“是吗？”|好。|（真的）我不知道……他走了。
彼は「はい。」と言った。|本当?|嘘!|3人来た。|Yahoo!ニュースです。|行く？！|「行く。」|終わり。
वह गया।| वह आया॥| राम कहाँ है?| यहाँ।
هل ذهب؟| نعم.| كان عمره 20 عامًا.| وصل الآن۔| اب۔
הוא הלך.| היא נשארה.\u200f| האמנם?| מצבו אנוּש.| דני הלך.
Ես գնացի։| Նա մնաց։
እሱ ሄደ።| እሷ ቆየች።| ማን ነው፧| እኔ።
သူသွားသည်။| သူမနေသည်။
គាត់ទៅ។| នាងនៅ។
ฉันไป!| เขาอยู่
Τι κάνεις;| Καλά.| Yes; And no.
Hun gik ud.| Tom blev.| Due anni fa.| Tom partì.| Vi ses i maj.| Anna
Il sig. Rossi e l'avv. Neri sono qui.| Bene.| Doç. Kaya geldi.| Sn. Demir gitti.
Dhr. Jansen komt bijv. Maandag.| Goed.
"""

# Dots after one word are a pause before "I", which says nothing of a new sentence, and before the same word again.
PAUSES = """
Well... I see.| Um… I'm here.| I... I don't know.| The... The dog ran.
He left...| I stayed.| Yes...| She knows.| Well…| Fine.
"""
SMALL_LETTERS = """
it rains.| i stay.| he goes.
hello there.| how are you
the sea is blue.| where is it?| "why?" she asked.| well... i see.
he lives on st. finch street.| bring pens, paper, etc. and so on, e.g. chalk.
approx. value
vgl. str. und so weiter
narozen 5. května 1980
am 3. mai war das.| der hund schläft.
1. open the box.| 2. close it.
he left in 2019.| she stayed!| why?| because.
où est la maison ?| elle est là.| ¿dónde está?| ¡aquí!
τι είναι;| είναι εδώ.| πάμε.
он ушёл.| она осталась, см. стр. и т. д.
He left. she stayed.
我来了。|ok。|iPhone很贵。
"""

CASES = (ENGLISH, GERMAN, FRENCH, SPANISH, SLAVIC, OTHERS, PAUSES, SMALL_LETTERS)


@pytest.mark.parametrize("expected", [line for table in CASES for line in table.strip().split("\n")])
def test_sentences_end_where_a_reader_says(expected: str):
    assert "|".join(list_sentences(expected.replace("|", ""))) == expected


@pytest.mark.parametrize("white", [" ", "  ", "\u00a0", "\u202f", "\u2003", "\u3000", "\t", "\n", "\r\n", " \u200f "])
def test_any_white_space_may_stand_between_sentences(white: str):
    text = white.join(["The sea is blue.", "“Is it?”", "Yes!"])
    assert [sentence.strip(f" {white}") for sentence in list_sentences(text)] == [
        "The sea is blue.",
        "“Is it?”",
        "Yes!",
    ]


@law
@given(TEXTS)
def test_ends_ascend_and_no_text_is_lost(text: str):
    ends = sentence_ends(text, 0, len(text))
    assert ends == sorted(set(ends))
    assert ends[-1] == len(text)
    assert "".join(list_sentences(text)) == text


@law
@given(TEXTS)
def test_every_one_of_several_sentences_has_a_letter_or_a_digit(text: str):
    sentences = list_sentences(text)
    assert len(sentences) == 1 or all(map(LETTER_OR_DIGIT.search, sentences))


@law
@given(TEXTS, TEXTS, TEXTS)
def test_what_stands_around_a_stretch_changes_nothing(before: str, text: str, after: str):
    start = len(before) + 1
    ends = sentence_ends(f"{before}\t{text}\t{after}", start, start + len(text))
    assert [end - start for end in ends] == sentence_ends(text, 0, len(text))


@law
@given(TEXTS)
def test_sentences_are_counted_as_they_are_cut(text: str):
    assert count_sentences(text) == (len(list_sentences(text)) if text.strip() else 0)


def test_a_text_of_white_space_has_no_sentence():
    assert [count_sentences(text) for text in ("", " ", "\u00a0\t\n", "...", "Yes", "Yes. No.")] == [0, 0, 0, 1, 1, 2]


@pytest.mark.parametrize(
    "text",
    [
        "! ¿ ",
        ". ",
        ".",
        "a.",
        "1. ",
        "J. ",
        "“",
        "?“",
        "! ",
        "((",
        "x. (",
        ". -",
        "x.)",
        "[1]",
        "he. ",
        "st. ",
        "i... I ",
        "x.[1",
        "。",
        "z. B. ",
        "! ?",
    ],
)
def test_a_very_long_text_is_searched_in_one_pass(text: str):
    """A search that went back again and again would take minutes here."""
    long = text * 20_000
    assert sentence_ends(long, 0, len(long))[-1] == len(long)
