"""The sentences of the phrasebook: noun phrases, clauses and whole patterns, drawn at random and built in both languages at once."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from pellucid.data.phrasebook.chunk import Chunk, Frame, together, weave, word
from pellucid.data.phrasebook.lexicon import (
    COLOURS,
    MEN,
    NUMBERS,
    PROFESSIONS,
    WOMEN,
    Adjective,
    Noun,
    Verb,
    actions,
    adjective_forms,
    adjectives_of,
    comings,
    conjugate,
    fitting,
    giving,
    journeys,
    moves,
    nouns_of,
    of_the_living,
    states,
)

I, YOU, IT, WE, THEY = range(5)
T = TypeVar("T")


class Subject(NamedTuple):
    """A noun phrase or pronoun: its words, its person on each side, and what later words must agree with."""

    chunk: Chunk  # a pronoun has no Spanish words: the verb tells the person
    english: int
    spanish: int
    feminine: bool
    pronoun: str
    noun: Noun | None = None
    attribute: Adjective | None = None

    @property
    def form(self) -> int:
        """Which of niño, niña, niños, niñas."""
        return self.feminine + 2 * (self.spanish >= WE)

    @property
    def neutral(self) -> bool:
        """True of a pronoun that hides its gender: only adjectives that hide theirs may follow."""
        return not self.chunk.spanish and self.pronoun in ("I", "you", "we", "they")


# ---------------------------------------------------------------- words in every form they are used in

_DETERMINERS = {  # English singular and plural; niño, niña, niños, niñas
    "the": ("the", "the", "el la los las"),
    "a": ("a", "", "un una - -"),
    "this": ("this", "these", "este esta estos estas"),
    "that": ("that", "those", "ese esa esos esas"),
    "my": ("my", "my", "mi mi mis mis"),
    "your": ("your", "your", "tu tu tus tus"),
    "his": ("his", "his", "su su sus sus"),
    "her": ("her", "her", "su su sus sus"),
    "our": ("our", "our", "nuestro nuestra nuestros nuestras"),
    "their": ("their", "their", "su su sus sus"),
    "some": ("", "some", "- - algunos algunas"),
    "several": ("", "several", "- - varios varias"),
    "many": ("", "many", "- - muchos muchas"),
    "": ("", "", "- - - -"),
}
_THE = ["el", "la", "los", "las"]
_ALL = [Frame(f"all1 the2 | {every}1 {the}2")() for every, the in zip(adjective_forms("todo"), _THE, strict=True)]
_NUMBERS = {english: [word(english, spanish)] * 4 for english, spanish in map(str.split, NUMBERS.split(", "))}
_DETERMINER = {
    (name, plural): [word(english[plural], spanish.replace("-", "")) for spanish in forms.split()]
    for name, (*english, forms) in _DETERMINERS.items()
    for plural in (False, True)
} | {(name, True): forms for name, forms in ({"all": _ALL} | _NUMBERS).items()}

_POSSESSIVES = ("my", "your", "his", "her", "our", "their")
_POINTING = ("the",) * 14 + ("this", "this", "that", "that", *_POSSESSIVES)
_KIN = ("the", *_POSSESSIVES, *_POSSESSIVES)
_COUNTED = ("some", "several", "many", *_NUMBERS)
_COUNTING = ("some", "several", "several", "many", "all", *_NUMBERS)

_ADJECTIVE = {
    adjective: [word(adjective.english, form) for form in adjective.forms]
    for group in fitting.values()
    for adjective in group
}
_ATTRIBUTES = {group: [a for a in adjectives if a.copula != "tener"] for group, adjectives in fitting.items()}
_REASONS = {group: [a for a in adjectives if a.english not in of_the_living] for group, adjectives in fitting.items()}
_GRADED = {group: [a for a in adjectives if a.graded and a.copula == "ser"] for group, adjectives in fitting.items()}
_NEUTRAL = [a for a in fitting["people"] if a.forms[0] == a.forms[1]]
_ANIMAL_FEELINGS = [a for a in fitting["animals"] if a.copula != "ser"]
_FEELINGS = [a for a in fitting["people"] if a.copula != "ser"]
_NOUN = {
    noun: [word(noun.english[n] or "", noun.spanish[n]) for n in (0, 1)] for group in nouns_of.values() for noun in group
}
_EVERYBODY = (*MEN, *WOMEN)
_NAMES = {name: (word(name, name), name in WOMEN) for name in (*MEN, *WOMEN)}
_LIVING = nouns_of["people"] + nouns_of["kin"]


def _verbs(infinitives: str) -> list[Verb]:
    return [verb for infinitive in infinitives.split() for verb in actions if verb.infinitive == infinitive]


_ANIMAL_VERBS = _verbs("comer beber beber ver encontrar buscar mirar")
_ANIMAL_MOVES = [verb for verb in moves if verb.base in ("run", "sleep", "play", "rest", "swim")]
_MOVES = moves + journeys
_ORDERS = _verbs("comer beber comprar vender buscar mirar limpiar lavar pintar dibujar escribir leer escuchar abrir "
                 "cerrar reparar esconder llevar traer preparar ayudar visitar llamar tocar mandar")  # fmt: skip
_WHATS = _verbs("comer beber comprar vender ver encontrar perder escribir leer pintar preparar romper")
_THING_VERBS = _verbs("comprar comprar vender comer beber perder lavar limpiar pintar leer escribir reparar llevar traer "
                      "preparar recibir mandar esconder romper")  # fmt: skip
_FIRST_VERBS = _verbs("comprar comprar comprar recibir traer lavar preparar limpiar reparar leer escribir abrir")
_SECOND_VERBS = _verbs("vender comer beber esconder perder romper lavar limpiar mandar llevar leer pintar cerrar cantar escuchar")
_PEOPLE_VERBS = _verbs("ver encontrar ayudar visitar llamar buscar escuchar mirar")
_KIND_VERBS = _verbs("ayudar ayudar visitar llamar buscar escuchar")
_LIKED_VERBS = _verbs("comer beber leer escribir cantar tocar visitar ayudar dibujar pintar comprar escuchar")
_ERRANDS = _verbs("comprar comprar comprar comprar comprar ver vender")
_GIVE = giving[0]
_BUY = _ERRANDS[0]

_EDIBLE = frozenset(("fruit", "food", "staples", "drinks", "pure"))
_BARE = _EDIBLE | {"texts", "household", "small", "clothes", "dishes"}  # apples, milk: with no determiner at all
_FOODS = [noun for group in ("fruit", "food", "food", "staples") for noun in nouns_of[group]] + 3 * [nouns_of["food"][0]]
_FURNITURE = nouns_of["household"][-1]
_WARES = [
    noun
    for group in "fruit food staples drinks pure texts small clothes dishes household instruments furniture".split()
    for noun in nouns_of[group]
] + 8 * [_FURNITURE]
_THEN = {
    group: [verb for verb in _SECOND_VERBS if any(noun.group == group for noun in verb.objects)] for group in nouns_of
}
_GIVEABLE = frozenset(("small", "clothes", "fruit", "food", "texts", "dishes", "instruments"))
_GIFTS = [noun for group in ("fruit", "food", "staples", "texts", "small", "clothes", "drinks") for noun in nouns_of[group]]
_LIKED = ("fruit", "food", "staples", "drinks", "animals", "texts", "songs", "clothes", "vehicles", "places", "small")
_COLOURED = ("small", "small", "ball", "clothes", "vehicles", "furniture", "animals", "fruit", "heavens", "openings")
_DESCRIBED = (
    "animals animals fruit food staples drinks pure instruments texts songs furniture household openings containers dishes "
    "small small small ball vehicles clothes clothes places outdoors rooms waters heavens heavens nature nature"
).split()
_PRICED = adjectives_of["price"] + adjectives_of["price"] + adjectives_of["opinion"]
_PROFESSIONS = [entry.split() for entry in PROFESSIONS.split(", ")]

_UNOWNED = dict.fromkeys(("pure", "ball", "waters", "nature", "outdoors"), frozenset(_DETERMINERS) - {*_POSSESSIVES} | {*_NUMBERS})
_UNOWNED["heavens"] = frozenset(("the",))
_SINGULAR = frozenset(("the", "a", "this", "that", "", *_POSSESSIVES))
_PEOPLE = ("the",) * 10 + ("a", "a", "this", "that")
_WHERE = ("the",) * 12 + ("this", "that")
_WARE = ("a", "the", "some", "several", *_NUMBERS)
_THANKED = ("the",) * 4 + ("this", "a", "your", "your")

_MIX = ("past",) * 11 + ("present",) * 3 + ("future",) * 2 + ("progressive", "progressive", "going", "was -ing", "can", "must", "want")
_BEING = ("present",) * 5 + ("past",) * 4 + ("future",)
_SIMPLE = frozenset(("past", "present", "future"))
_MODAL = frozenset(("can", "must", "want"))
_HELPERS = {"can": "poder", "must": "deber"}
_CONTRACTED = {"do": "don't", "does": "doesn't", "did": "didn't", "will": "won't"}

_AM = {"present": ("am", "are", "is", "are", "are"), "past": ("was", "were", "was", "were", "were")}
_TENSES = {infinitive: conjugate(infinitive)[0] for infinitive in "ser estar tener ir poder deber saber oler parecer".split()}
_TENSES["querer"] = conjugate("querer", "quier")[0]
_STATE = {  # states are told in the imperfect
    infinitive: tenses | {"past": tenses["imperfect"]} for infinitive, tenses in _TENSES.items() if infinitive != "ir"
}

# ---------------------------------------------------------------- adverbs, prepositions, set expressions


def _glosses(table: str) -> list[Chunk]:
    return [Frame(entry.replace("=", "|"))() for entry in table.split(", ")]


_DAYS = ", on1 Monday2 = el1 lunes2, on1 Thursday2 = el1 jueves2, on1 Friday2 = el1 viernes2, today1 = hoy1"
_PAST = _glosses(
    "yesterday1 = ayer1, last1 night1 = anoche1, last1 week2 = la semana2 pasada1, this1 morning2 = esta1 mañana2, "
    "last1 year2 = el año2 pasado1, two2 days3 ago1 = hace1 dos2 días3, three2 weeks3 ago1 = hace1 tres2 semanas3" + _DAYS
)
_FUTURE = _glosses("tomorrow1 = mañana1, next1 week2 = la próxima1 semana2, tonight1 = esta1 noche1, soon1 = pronto1" + _DAYS)
_NOW = _glosses("now1 = ahora1, at1 this2 moment3 = en1 este2 momento3")
_HABIT = _glosses(
    "every1 day2 = todos1 los días2, every1 week2 = todas1 las semanas2, every1 morning2 = todas1 las mañanas2, "
    "in1 the2 afternoon3 = por1 la2 tarde3, at1 night2 = por1 la noche2"
)
_TIMES = {
    "past": _PAST, "present": _HABIT, "future": _FUTURE, "going": _FUTURE, "progressive": _NOW, "was -ing": _PAST,
    "can": _FUTURE, "must": _FUTURE, "want": _FUTURE,
}  # fmt: skip
_OFTEN = _glosses("always1 = siempre1, never1 = nunca1, often1 = a1 menudo1, sometimes1 = a1 veces1")
_VERY, _TOO, _SO = (word(*pair) for pair in (("very", "muy"), ("too", "demasiado"), ("so", "tan")))
_SAVOURS = _glosses("amazing1 = increíble1, horrible1 = horrible1, strange1 = raro1, good1 = bien1, bad1 = mal1, "
                    "delicious1 = delicioso1, amazing1 = increíble1")  # fmt: skip
_SENSES = (("taste", "tastes", "tasted", "saber"), ("taste", "tastes", "tasted", "saber"), ("smell", "smells", "smelled", "oler"))
_IN, _ON = Frame("in1 {place} | en1 {place}"), Frame("on1 {place} | sobre1 {place}")
_TO = Frame("to1 {place} | a1 {place}")
_BESIDE = [Frame(pattern) for pattern in (
    "under1 {place} | debajo1 de1 {place}", "behind1 {place} | detrás1 de1 {place}",
    "near1 {place} | cerca1 de1 {place}", "next1 to1 {place} | al1 lado1 de1 {place}",
    "in1 front1 of1 {place} | delante1 de1 {place}",
)]  # fmt: skip
_PERSONAL_A = Frame("{who} | a {who}")
_AND = Frame("{a} and1 {b} | {a} y1 {b}")
_AND_I = Frame("{a} and1 I2 | {a} y1 yo2")
_BECAUSE = Frame("{a} because1 {b} | {a} porque1 {b}")
_WHEN = Frame("{a} when1 {b} | {a} cuando1 {b}")
_JOINTS = [_AND, _AND, Frame("{a} ,1 but2 {b} | {a} ,1 pero2 {b}")]
_STOP = Frame("{a} .1 | {a} .1")
_ASK = Frame("{a} ?1 | ¿1 {a} ?1")
_EXCLAIM = Frame("{a} !1 | ¡1 {a} !1")
_NEXT = Frame("{a} .1 {b} .2 | {a} .1 {b} .2")

_WANTS_TO_BE = Frame("{who} wants1 to2 be2 a {trade} | {who} quiere1 ser2 {trade}")
_WHILE = Frame("{a} while1 {b} | {a} mientras1 {b}")
_THAN = Frame("{quality} than1 {other} | {quality} que1 {other}")
_AS = Frame("as1 {quality} as2 {other} | tan1 {quality} como2 {other}")
_MORE, _MOST = word("more", "más"), word("most", "más")
_OF = Frame("{whole} in1 {place} | {whole} de1 {place}")
_WHO_DID = Frame("{who} who1 {does} | {who} que1 {does}")
_THAT_DID = Frame("{who} that1 {does} | {who} que1 {does}")
_YEARS = Frame("{number} years1 old1 | {number} años1")
_A_TRADE = Frame("a {trade} | {trade}")
_WHAT_A = Frame("what1 a {quality} {thing} | qué1 {thing} tan {quality}")
_GIVE_TO = Frame("{gift} to1 {receiver} | {gift} a1 {receiver}")
_GIVE_HIM = Frame("{receiver} {gift} | {gift} a {receiver}")
_PLEASE = [Frame(pattern) for pattern in (
    "{act} .1 | {act} .1", "{act} ,1 please2 .3 | {act} ,1 por2 favor2 .3", "please1 ,2 {act} .3 | por1 favor1 ,2 {act} .3",
    "{name} ,1 {act} .2 | {name} ,1 {act} .2", "{act} ,1 {name} .2 | {act} ,1 {name} .2",
)]  # fmt: skip
_YES = Frame("{question} yes1 ,2 {reply} .3 | {question} sí1 ,2 {reply} .3")
_NO = Frame("{question} no1 ,2 {reply} .3 | {question} no1 ,2 {reply} .3")
_THERE = {
    ("present", False): Frame("there1 is1 {thing} {spot} | hay1 {thing} {spot}"),
    ("present", True): Frame("there1 are1 {thing} {spot} | hay1 {thing} {spot}"),
    ("past", False): Frame("there1 was1 {thing} {spot} | había1 {thing} {spot}"),
    ("past", True): Frame("there1 were1 {thing} {spot} | había1 {thing} {spot}"),
}
_WHAT, _HOW_MUCH = word("what", "qué"), adjective_forms("cuánto")
_QUESTION_WORDS = [word(*pair) for pair in (("when", "cuándo"), ("why", "por qué"), ("where", "dónde"))]
_WHERE_IS, _COLOUR = word("where", "dónde"), Frame("what1 color2 {be} | de1 qué1 color2 {be}")

_THANKS = Frame("thank1 you1 for2 {gift} | gracias1 por2 {gift}")
_VOCATIVE = Frame("{a} ,1 {name} | {a} ,1 {name}")
_QUOTED = Frame("“1 {a} ,2 ”3 | «1 {a} »3 ,2")
_QUOTED_TO = Frame("“1 {a} ,4 {name} ,2 ”3 | «1 {a} ,4 {name} »3 ,2")
_SAID_COLON = {
    many: Frame(f"{{who}} smiled1 and2 said3 :4 “5 {{a}} .6 ”7 | {{who}} {smiled}1 y2 {said}3 :4 «5 {{a}} »7 .6")
    for many, smiled, said in ((False, "sonrió", "dijo"), (True, "sonrieron", "dijeron"))
}

_WELCOME = word("you are welcome", "de nada")
_GREETINGS = _glosses(
    "good1 morning2 = buenos1 días2, good1 night2 = buenas1 noches2, good1 afternoon2 = buenas1 tardes2, hello1 = hola1, "
    "goodbye1 = adiós1, see1 you1 tomorrow2 = hasta1 mañana2, see1 you1 soon2 = hasta1 pronto2, thank1 you1 = gracias1, "
    "thank1 you1 very2 much2 = muchas2 gracias1, happy1 birthday2 = feliz1 cumpleaños2"
)
_ADDRESSES = _glosses("sir1 = señor1, madam1 = señora1, my1 friend2 = amigo2 mío1")
_SAYINGS = (("said", "dijo", "dijeron"), ("said", "dijo", "dijeron"), ("answered", "respondió", "respondieron"),
            ("whispered", "susurró", "susurraron"))  # fmt: skip

_I, _YOU, _HE, _SHE, _WE, _THEY = (
    Subject(Chunk([text], [], []), person, person, text == "she", text)
    for text, person in (("I", I), ("you", YOU), ("he", IT), ("she", IT), ("we", WE), ("they", THEY))
)
_PRONOUNS = (_I, _YOU, _HE, _SHE, _WE, _THEY)
_EXCHANGES = ((_YOU, _I), (_YOU, _I), (_HE, _HE), (_SHE, _SHE), (_THEY, _THEY), (_I, _YOU))
_WHO = Subject(word("who", "quién"), IT, IT, False, "he")
_LO = ("lo", "la", "los", "las")
_ME = (("me", "me"), ("you", "te"), ("us", "nos"), ("him", "le"), ("her", "le"), ("them", "les"))
_MYSELF = {"I": "me", "you": "you", "we": "us", "they": "them"}
_PLEASED = {"I": "me", "you": "te", "he": "le", "she": "le", "we": "nos", "they": "les"}


def _kind(adjective: Adjective) -> str:
    return "colour" if adjective.group in COLOURS else adjective.group


def _bound(antecedent: Subject) -> Subject:
    """The pronoun that stands for the antecedent and agrees with it."""
    return antecedent._replace(chunk=Chunk([antecedent.pronoun], [], []))


def _silent(subject: Subject) -> Subject:
    """The same subject, not said again: ... and bought; ... y compró."""
    return subject._replace(chunk=Chunk([], [], []))



class Grammar:
    """Draws sentences from a random generator; what a method is not told, it invents."""

    def __init__(self, generator: random.Random):
        self.random = generator.random
        self.patterns = [getattr(self, name) for name, weight in PATTERNS.items() for _ in range(weight)]

    def sentence(self) -> Chunk:
        """One line, with its punctuation."""
        return self.pick(self.patterns)()

    def pick(self, options: Sequence[T]) -> T:
        return options[int(self.random() * len(options))]

    def chance(self, probability: float) -> bool:
        return self.random() < probability

    # ------------------------------------------------------------ noun phrases

    def thing(self, noun: Noun, determiners: Sequence[str] = _POINTING, adjective: float = 0.3, plural: float = 0.35) -> Subject:
        """A noun with a determiner and sometimes an adjective: the adjective changes sides, all three agree."""
        many = noun.english[1] is not None and self.chance(plural)
        form = noun.feminine + 2 * (many or noun.plural_only)
        determiner = self.pick(determiners)
        if noun.group in _UNOWNED and determiner not in _UNOWNED[noun.group]:
            determiner = "the"
        elif many:
            determiner = "the" if determiner == "a" else determiner
        elif determiner not in _SINGULAR or (determiner == "a" and not noun.counted):
            determiner = "the"
        elif not determiner and noun.counted:
            determiner = "a"
        parts = [_NOUN[noun][many]]
        if determiner:
            article = _DETERMINER[determiner, many][0 if noun.takes_el and determiner == "the" else form]
            parts.insert(0, article)
        attribute = self.pick(_ATTRIBUTES[noun.group]) if self.chance(adjective) else None
        if attribute:
            adjective_word = _ADJECTIVE[attribute][form]
            chunk = weave((*parts[:-1], adjective_word, parts[-1]), (*parts, adjective_word))
        else:
            chunk = together(*parts)
        person = THEY if many else IT
        living = noun.group in ("people", "kin")
        pronoun = "they" if many else ("she" if noun.feminine else "he") if living else "it"
        return Subject(chunk, person, THEY if form > 1 else IT, noun.feminine, pronoun, noun, attribute)

    def name(self) -> Subject:
        chunk, feminine = _NAMES[self.pick(_EVERYBODY)]
        return Subject(chunk, IT, IT, feminine, "she" if feminine else "he")

    def names(self) -> Subject:
        first, second = self.name(), self.name()
        while second.chunk is first.chunk:
            second = self.name()
        pair = _AND(a=first.chunk, b=second.chunk)
        return Subject(pair, THEY, THEY, first.feminine and second.feminine, "they")

    def person(self, plural: float = 0.3) -> Subject:
        """Somebody with a name, an office or a place in the family."""
        chance = self.random()
        if chance < 0.3:
            return self.name()
        if chance < 0.3 + 0.5 * plural:
            return self.names()
        noun = self.pick(_LIVING)
        return self.thing(noun, _KIN if noun.group == "kin" else _PEOPLE, adjective=0.25, plural=plural)

    def somebody(self) -> Subject:
        """A person, or a pronoun, who does something."""
        chance = self.random()
        if chance < 0.7:
            return self.person()
        if chance < 0.74:
            return Subject(_AND_I(a=_NAMES[self.pick(MEN)][0]), WE, WE, False, "we")
        return self.pick(_PRONOUNS)

    def object(self, verb: Verb, subject: Subject, plain: bool = False, only: Sequence[Noun] = ()) -> Subject:
        """What the verb is done to; `plain` after a negation or in a question: no 'some', 'several' or 'many'."""
        animal = subject.noun is not None and subject.noun.group == "animals"
        nouns = only or (nouns_of["pure"] if animal and verb.infinitive == "beber" else verb.objects)
        noun = self.pick(nouns)
        if noun.group == "kin":
            return self.thing(noun, _KIN)
        chance = self.random()
        if noun.group in ("people", "animals", "songs"):
            chance = chance * 0.8 + 0.2
        if chance < 0.15:
            return self.thing(noun, ("",), adjective=0.15, plural=1.0) if noun.group in _BARE else self.thing(noun)
        if chance < 0.4 and not plain:
            return self.thing(noun, _COUNTING, plural=1.0)
        if chance < 0.65:
            return self.thing(noun, ("a",), plural=0.0)
        return self.thing(noun)

    def place(self, groups: str = "places places outdoors rooms", adjective: float = 0.12) -> Subject:
        noun = self.pick(nouns_of[self.pick(groups.split())])
        return self.thing(noun, _WHERE, adjective, plural=0.0)

    def where(self) -> Chunk:
        """Where a person or an animal does something."""
        return (_IN if self.chance(0.8) else self.pick(_BESIDE))(place=self.place().chunk)

    # ------------------------------------------------------------ clauses

    def clause(
        self,
        subject: Subject,
        verb: Verb,
        tense: str,
        rest: Chunk | None = None,
        *,
        negative: bool = False,
        question: bool = False,
        clitic: tuple[str, str] | None = None,
        adverb: Chunk | None = None,
        verb_first: bool = False,
    ) -> Chunk:
        """Subject, verb and the rest. Marks: 1 the conjugated verb, 2 the verb that follows it, 3 not, 4 to, 5 it."""
        english, spanish = subject.english, subject.spanish
        mark = "1" if tense in ("past", "present", "future") else "2"
        helped = negative or question
        if mark == "1":
            helper = "did" if tense == "past" else "will" if tense == "future" else "does" if english == IT else "do"
            helped = helped or tense == "future"
            plain = verb.past if tense == "past" else verb.third if english == IT else verb.base
            main = [(verb.base if helped else plain, "1")]
            after = [(verb.spanish[tense][spanish], "1")]
        elif tense == "want":
            helper = "does" if english == IT else "do"
            main = [("want" if helped or english != IT else "wants", "1"), ("to", "2"), (verb.base, "2")]
            after = [(_TENSES["querer"]["present"][spanish], "1"), (verb.infinitive, "2")]
        elif tense in _HELPERS:
            helper, helped = tense, True
            main = [(verb.base, "2")]
            after = [(_TENSES[_HELPERS[tense]]["present"][spanish], "1"), (verb.infinitive, "2")]
        else:
            helper, helped = _AM["past" if tense == "was -ing" else "present"][english], True
            if tense == "going":
                main = [("going", "1"), ("to", "4"), (verb.base, "2")]
                after = [(_TENSES["ir"]["present"][spanish], "1"), ("a", "4"), (verb.infinitive, "2")]
            else:
                time = "imperfect" if tense == "was -ing" else "present"
                main = [(verb.ing, "2")]
                after = [(_TENSES["estar"][time][spanish], "1"), (verb.gerund, "2")]
        before = [("no", "3")] if negative else []
        if not helped:
            front = []
        elif negative and helper in _CONTRACTED and self.chance(0.4):
            front = [(_CONTRACTED[helper], "3")]
        else:
            front = [(helper, "1"), ("not", "3")] if negative else [(helper, "1")]
        if verb.particle:
            main.append((verb.particle, mark))
        if clitic:
            *se, it = clitic[1].split()
            before += [*((word, "") for word in se), (it, "5" if clitic[0] else "")]
            main += [(clitic[0], "5")] if clitic[0] else []
        spoken = subject.chunk.spanish
        who = [subject.chunk] if spoken else [(text, "1") for text in subject.chunk.english]
        whom = [subject.chunk] if spoken else []
        how = [adverb] if adverb else []
        tail = [rest] if rest else []
        if question:
            first = 1 if tense in _MODAL and tail else len(after)  # ¿Puede el niño beber la leche? ¿Qué va a beber el niño?
            return weave((*front, *who, *main, *tail), (*before, *after[:first], *whom, *after[first:], *tail))
        if verb_first:
            return weave((*who, *front, *main, *tail), (*before, *after, *whom, *tail))
        return weave((*who, *front, *how, *main, *tail), (*whom, *how, *before, *after, *tail))

    def be(
        self,
        subject: Subject,
        copula: str,
        rest: Chunk,
        tense: str,
        *,
        negative: bool = False,
        question: bool = False,
        subject_last: bool = True,
    ) -> Chunk:
        """A clause of ser, estar or tener; in a question the Spanish subject goes last or second."""
        verb = [(_STATE[copula][tense][subject.spanish], "1")]
        spoken = subject.chunk.spanish
        who = [subject.chunk] if spoken else [(text, "1") for text in subject.chunk.english]
        whom = [subject.chunk] if spoken else []
        no, nope = ([("not", "2")], [("no", "2")]) if negative else ([], [])
        front, main = ([("will", "1")], [("be", "1")]) if tense == "future" else ([(_AM[tense][subject.english], "1")], [])
        if question:
            order = (rest, *whom) if subject_last else (*whom, rest)
            return weave((*front, *who, *no, *main, rest), (*nope, *verb, *order))
        return weave((*who, *front, *no, *main, rest), (*whom, *nope, *verb, rest))

    def quality(self, subject: Subject, choices: Sequence[Adjective] = (), plain: bool = False) -> tuple[Chunk, str]:
        """An adjective that fits and agrees with the subject, with its degree or a second one, and its copula."""
        choices = choices or fitting[subject.noun.group if subject.noun else "people"]
        if subject.neutral:
            choices = [a for a in choices if a.forms[0] == a.forms[1]] or _NEUTRAL
        first = self.pick(choices)
        while subject.attribute and _kind(first) == _kind(subject.attribute):
            first = self.pick(fitting[subject.noun.group])
        chunk = _ADJECTIVE[first][subject.form]
        if plain:
            return chunk, first.copula
        chance = self.random()
        if first.graded and chance < 0.3:
            degree = _VERY if chance < 0.16 else _TOO if chance < 0.24 else _SO
            return together(degree, chunk), first.copula
        if chance < 0.4:
            second = self.pick(choices)
            if second.copula == first.copula != "tener" and second.group != first.group:
                return _AND(a=chunk, b=_ADJECTIVE[second][subject.form]), first.copula
        return chunk, first.copula

    def action(
        self, subject: Subject, tense: str, *, negative: bool = False, question: bool = False, often: bool = False
    ) -> Chunk:
        """Somebody does something to something, or somewhere."""
        animal = subject.noun is not None and subject.noun.group == "animals"
        chance = self.random()
        plain = negative or question
        adverb = self.pick(_OFTEN) if often and not plain else None
        if chance < 0.68 or (animal and chance < 0.8):
            verb = self.pick(_ANIMAL_VERBS if animal else states if chance < 0.08 and tense in _SIMPLE else actions)
            if verb.base == verb.past and tense == "present" and subject.english != IT:
                verb = _BUY  # "they read" would be past as well as present
            target = self.object(verb, subject, plain)
            rest = self.accusative(target)
            if self.chance(0.1):
                rest = together(rest, self.where())
        else:
            verb = self.pick(_ANIMAL_MOVES if animal else _MOVES)
            if verb.base == "go" and tense in ("progressive", "was -ing", "going"):
                verb = moves[0]  # "is going to" already means the future
            rest = self.whither(verb)
        return self.clause(subject, verb, tense, rest, negative=negative, question=question, adverb=adverb)

    def whither(self, verb: Verb) -> Chunk:
        if verb in journeys:
            return _TO(place=self.place("places places outdoors").chunk)
        if verb.base == "swim":
            return _IN(place=self.place("waters").chunk)
        return self.where()

    def accusative(self, target: Subject) -> Chunk:
        """Spanish puts an 'a' before people to whom something is done."""
        living = target.noun is None or target.noun.group in ("people", "kin")
        return _PERSONAL_A(who=target.chunk) if living else target.chunk

    def timed(self, clause: Chunk, tense: str, chance: float = 0.35, front: bool = True) -> Chunk:
        """Perhaps with a time, at the front or at the end."""
        if not self.chance(chance):
            return clause
        time = self.pick(_TIMES[tense])
        return together(time, clause) if front and self.chance(0.35) else together(clause, time)

    def statement(self, tense: str, subject: Subject | None = None, *, negative: float = 0.12, often: bool = False) -> Chunk:
        """Somebody, or an animal, does something."""
        subject = subject or (self.somebody() if self.chance(0.8) else self.thing(self.pick(nouns_of["animals"])))
        return self.action(subject, tense, negative=self.chance(negative), often=often)

    def anything(self) -> Subject:
        """A thing, animal or place, or a person, that an adjective can describe."""
        chance = self.random()
        if chance < 0.25:
            return self.person()
        noun = self.pick(nouns_of[self.pick(_DESCRIBED)])
        return self.thing(noun, adjective=0.1)

    def description(self, tense: str | None = None) -> Chunk:
        """The ball is blue."""
        subject = self.anything() if self.chance(0.9) else self.pick(_PRONOUNS)
        quality, copula = self.quality(subject)
        return self.be(subject, copula, quality, tense or self.pick(_BEING), negative=self.chance(0.12))

    # ------------------------------------------------------------ patterns: each makes a whole line

    def plain_description(self) -> Chunk:
        """The ball is blue."""
        noun = self.pick(nouns_of[self.pick(_DESCRIBED)])
        subject = self.thing(noun, ("the",), adjective=0.0, plural=0.3)
        quality, copula = self.quality(subject, plain=True)
        return _STOP(a=self.be(subject, copula, quality, self.pick(("present", "present", "past"))))

    def rich_description(self) -> Chunk:
        """Our old house was very big and comfortable yesterday."""
        subject, tense = self.person(), self.pick(_BEING)
        if self.chance(0.75):
            return _STOP(a=self.description(tense))
        quality, copula = self.quality(subject, _FEELINGS)
        return _STOP(a=self.timed(self.be(subject, copula, quality, tense), tense, 0.0 if tense == "present" else 0.6))

    def plain_action(self) -> Chunk:
        """The black cat drank the milk."""
        if self.chance(0.5):
            subject = self.thing(self.pick(nouns_of["animals"]), adjective=0.6, plural=0.2)
            verb = self.pick(_ANIMAL_VERBS)
        else:
            subject, verb = self.somebody(), self.pick(actions)
        target = self.object(verb, subject)
        return _STOP(a=self.clause(subject, verb, "past", self.accusative(target)))

    def rich_action(self) -> Chunk:
        """Next week my brother is not going to sell his car."""
        tense = self.pick(_MIX)
        often = tense == "present" and self.chance(0.5)
        return _STOP(a=self.timed(self.statement(tense, often=often), tense, 0.0 if often else 0.4))

    def two_actions(self) -> Chunk:
        """Mary cooked the fish, but John did not wash the plates."""
        tense = self.pick(("past", "past", "future", "present"))
        second = self.description(tense) if self.chance(0.3) else self.statement(tense)
        first = self.description(tense) if self.chance(0.15) else self.statement(tense)
        return _STOP(a=self.pick(_JOINTS)(a=first, b=second))

    def while_waiting(self) -> Chunk:
        """The man was reading a newspaper when the doctor arrived."""
        first = self.statement("was -ing", negative=0.0)
        if self.chance(0.5):
            arrival = self.clause(self.person(), self.pick(comings), "past", verb_first=True)
            return _STOP(a=_WHEN(a=first, b=arrival))
        return _STOP(a=_WHILE(a=first, b=self.statement("was -ing", negative=0.0)))

    def because_of_it(self) -> Chunk:
        """John bought the apple because it was red."""
        subject, verb = self.somebody(), self.pick(_THING_VERBS)
        target = self.object(verb, subject, only=verb.objects)
        quality, copula = self.quality(target, _REASONS[target.noun.group])
        reason = self.be(_bound(target), copula, quality, "past", negative=self.chance(0.15))
        act = self.clause(subject, verb, "past", target.chunk, negative=self.chance(0.15))
        return _STOP(a=_BECAUSE(a=act, b=reason))

    def when_in_a_mood(self) -> Chunk:
        """John and Paul wrote several songs when they were inspired."""
        if self.chance(0.15):
            subject = self.thing(self.pick(nouns_of["animals"]))
        else:
            subject = self.names() if self.chance(0.3) else self.somebody()
        animal = subject.noun is not None and subject.noun.group == "animals"
        quality, copula = self.quality(subject, _ANIMAL_FEELINGS if animal else _FEELINGS)
        act = self.action(subject, "past", negative=self.chance(0.12))
        return _STOP(a=self.pick((_WHEN, _WHEN, _BECAUSE))(a=act, b=self.be(_bound(subject), copula, quality, "past")))

    def helping(self) -> Chunk:
        """The girl helped the old man because he was tired: whoever the pronoun fits."""
        subject, target = self.person(plural=0.0), self.person(plural=0.5)
        if target.pronoun == "they" or self.chance(0.5):
            who = target
        else:
            who = subject
        verb = self.pick(_KIND_VERBS)
        quality, copula = self.quality(who, fitting["kin"])
        act = self.clause(subject, verb, "past", _PERSONAL_A(who=target.chunk))
        return _STOP(a=_BECAUSE(a=act, b=self.be(_bound(who), copula, quality, "past")))

    def errand(self) -> Chunk:
        """I went to the store and bought fruits and furniture. They tasted amazing."""
        subject = self.pick(_PRONOUNS) if self.chance(0.5) else self.somebody()
        trip = self.clause(subject, self.pick(journeys), "past", _TO(place=self.place("places places outdoors", 0.08).chunk))
        verb = self.pick(_ERRANDS)
        goods = self.goods()
        bought = self.clause(_silent(subject), verb, "past", goods.chunk)
        return _NEXT(a=_AND(a=trip, b=bought), b=self.verdict(goods))

    def purchase(self) -> Chunk:
        """My sister bought bread and two red apples. They were expensive."""
        subject, verb = self.somebody(), self.pick(_ERRANDS)
        goods = self.goods()
        bought = self.clause(subject, verb, "past", goods.chunk)
        return _NEXT(a=self.timed(bought, "past", 0.2), b=self.verdict(goods))

    def goods(self) -> Subject:
        """One thing, or two joined by 'and': together they are feminine only if both are."""
        one = self.ware(self.pick(_FOODS if self.chance(0.55) else _WARES))
        if self.chance(0.25):
            return one
        two = self.ware(self.pick(_WARES))
        while two.noun is one.noun:
            two = self.ware(self.pick(_WARES))
        if self.chance(0.5):
            one, two = two, one
        noun = one.noun if one.noun.group in _EDIBLE else two.noun
        return Subject(_AND(a=one.chunk, b=two.chunk), THEY, THEY, one.feminine and two.feminine, "they", noun)

    def ware(self, noun: Noun) -> Subject:
        if self.chance(0.6):
            return self.thing(noun, ("",), adjective=0.1, plural=1.0)
        return self.thing(noun, _WARE, adjective=0.2, plural=0.5)

    def verdict(self, goods: Subject) -> Chunk:
        """What is said of the goods: the pronoun finds them across the full stop."""
        it = _bound(goods)
        edible = goods.noun.group in _EDIBLE
        chance = self.random()
        if edible and chance < 0.6:
            return self.savour(it, "past")
        if chance < 0.85:
            choices = _PRICED if len(goods.chunk.english) > 1 and "and" in goods.chunk.english else _REASONS[goods.noun.group]
            quality, copula = self.quality(goods, choices)
            return self.be(it, copula, quality, "past", negative=self.chance(0.12))
        quality, _ = self.quality(goods, _PRICED, plain=True)
        verb = (_STATE["parecer"]["past"][goods.spanish], "1")
        return weave(((it.pronoun, "1"), ("seemed", "1"), quality), (verb, quality))

    def savour(self, subject: Subject, tense: str) -> Chunk:
        """It tasted amazing."""
        base, third, past, sense = self.pick(_SENSES)
        text = past if tense == "past" else third if subject.english == IT else base
        verb = [(_STATE[sense][tense][subject.spanish], "1")]
        how = self.pick(_SAVOURS)
        if subject.chunk.spanish:
            return weave((subject.chunk, (text, "1"), how), (subject.chunk, *verb, how))
        return weave(((subject.pronoun, "1"), (text, "1"), how), (*verb, how))

    def tasting(self) -> Chunk:
        """The fresh strawberries tasted amazing."""
        return _STOP(a=self.savour(self.thing(self.pick(_FOODS)), self.pick(("past", "past", "present"))))

    def and_it(self) -> Chunk:
        """Mary found the keys and gave them to John; the boy opened the box and closed it."""
        subject, first = self.somebody(), self.pick(_FIRST_VERBS)
        target = self.object(first, subject, only=first.objects)
        act = self.clause(subject, first, "past", target.chunk)
        clitic = ("them" if target.english == THEY else "it", _LO[target.form])
        if self.chance(0.35) and target.noun.group in _GIVEABLE:
            recipient = _TO(place=self.person().chunk)
            then = self.clause(_silent(subject), _GIVE, "past", recipient, clitic=(clitic[0], "se " + clitic[1]))
        else:
            verb = self.pick([verb for verb in _THEN[target.noun.group] if verb is not first])
            then = self.clause(_silent(subject), verb, "past", clitic=clitic)
        return _STOP(a=self.timed(_AND(a=act, b=then), "past", 0.2))

    def and_them(self) -> Chunk:
        """The boy saw Mary and called her."""
        subject, target = self.person(), self.person()
        first, second = self.pick(_PEOPLE_VERBS), self.pick(_PEOPLE_VERBS)
        while second is first:
            second = self.pick(_PEOPLE_VERBS)
        english = "them" if target.english == THEY else "her" if target.feminine else "him"
        act = self.clause(subject, first, "past", _PERSONAL_A(who=target.chunk))
        then = self.clause(_silent(subject), second, "past", clitic=(english, _LO[target.form]))
        return _STOP(a=_AND(a=act, b=then))

    def giving(self) -> Chunk:
        """The woman gave the boy a red apple."""
        subject, verb = self.somebody(), self.pick(giving)
        gift = self.thing(self.pick(verb.objects), ("a", "the", "his", "her", "this", "some", "several", "two", "three"))
        tense = self.pick(("past", "past", "future", "going", "want"))
        negative = self.chance(0.1)
        if self.chance(0.3):
            english, spanish = self.pick(_ME)
            while english == _MYSELF.get(subject.pronoun):
                english, spanish = self.pick(_ME)
            clause = self.clause(subject, verb, tense, gift.chunk, negative=negative, clitic=(english, spanish))
            return _STOP(a=self.timed(clause, tense, 0.25))
        receiver = self.person()
        frame = _GIVE_TO if self.chance(0.5) else _GIVE_HIM
        rest = frame(receiver=receiver.chunk, gift=gift.chunk)
        clitic = ("", "les" if receiver.form > 1 else "le")
        return _STOP(a=self.timed(self.clause(subject, verb, tense, rest, negative=negative, clitic=clitic), tense, 0.2))

    def liking(self) -> Chunk:
        """Mary likes the red apples: what is liked becomes the Spanish subject."""
        negative = self.chance(0.2)
        if self.chance(0.35):
            if self.chance(0.4):
                verb = self.pick(moves)
                rest = self.whither(verb)
            else:
                verb = self.pick(_LIKED_VERBS)
                rest = self.accusative(self.object(verb, _I, plain=True))
            particle = [(verb.particle, "5")] if verb.particle else []
            liked = weave((("to", "5"), (verb.base, "5"), *particle, rest), ((verb.infinitive, "5"), rest))
            many = False
        else:
            noun = self.pick(nouns_of[self.pick(_LIKED)])
            thing = self.thing(noun)
            many, liked = thing.spanish == THEY, thing.chunk
            if self.chance(0.3) and (noun.group in _EDIBLE or noun.group == "animals"):
                article = _THE[0 if noun.takes_el else noun.feminine + 2 * (noun.english[1] is not None)]
                kind = _NOUN[noun][noun.english[1] is not None]
                many, liked = noun.english[1] is not None, weave((kind,), ((article, ""), kind))
        pleases = ("gustan" if many else "gusta", "1")
        pronoun = self.pick(_PRONOUNS) if self.chance(0.45) else None
        who = pronoun or self.person()
        text = "likes" if who.english == IT and not negative else "like"
        helper = "does" if who.english == IT else "do"
        front = [(helper, "1"), ("not", "3")] if negative else []
        no = [("no", "3")] if negative else []
        if pronoun:
            me = (_PLEASED[pronoun.pronoun], "2")
            return _STOP(a=weave(((pronoun.pronoun, "2"), *front, (text, "1"), liked), (*no, me, pleases, liked)))
        dative = "les" if who.form > 1 else "le"
        return _STOP(a=weave((who.chunk, *front, (text, "1"), liked), (("a", ""), who.chunk, *no, (dative, ""), pleases, liked)))

    def located(self) -> Chunk:
        """The keys are not on the table; there is a cat under the bed."""
        tense = self.pick(("present", "present", "past"))
        small = self.pick(nouns_of[self.pick(("small", "small", "ball", "animals", "clothes", "dishes", "fruit"))])
        spot = self.spot()
        if self.chance(0.4):
            many = self.chance(0.4)
            thing = self.thing(small, _COUNTED if many else ("a",), plural=float(many))
            frame = _THERE[tense, many]
            return _STOP(a=frame(thing=thing.chunk, spot=spot))
        if self.chance(0.3):
            subject, spot = self.somebody(), self.where()
        else:
            subject = self.thing(small)
        if self.chance(0.25):
            return _ASK(a=self.be(subject, "estar", spot, tense, question=True, subject_last=False))
        return _STOP(a=self.be(subject, "estar", spot, tense, negative=self.chance(0.15)))

    def spot(self) -> Chunk:
        chance = self.random()
        if chance < 0.3:
            return _ON(place=self.thing(self.pick(nouns_of["furniture"]), _WHERE, 0.2, 0.0).chunk)
        if chance < 0.45:
            return _IN(place=self.thing(self.pick(nouns_of["containers"]), _WHERE, 0.2, 0.0).chunk)
        if chance < 0.65:
            return _IN(place=self.place().chunk)
        group = self.pick(("furniture", "furniture", "vehicles"))
        return self.pick(_BESIDE)(place=self.thing(self.pick(nouns_of[group]), _WHERE, 0.2, 0.0).chunk)

    def question_of_quality(self) -> Chunk:
        """Is the ball blue?"""
        subject = self.anything() if self.chance(0.85) else self.pick(_PRONOUNS[1:])
        quality, copula = self.quality(subject)
        tense = self.pick(("present", "present", "past"))
        return _ASK(a=self.be(subject, copula, quality, tense, question=True))

    def question_of_action(self) -> Chunk:
        """Did the boy open the window yesterday?"""
        subject, tense = self.somebody(), self.pick(_MIX)
        return _ASK(a=self.timed(self.action(subject, tense, question=True), tense, 0.25, front=False))

    def question_word(self) -> Chunk:
        """Who drank the milk? What did Mary buy? Where did the boy play? Why did you sell the car?"""
        chance = self.random()
        if chance < 0.2:
            verb = self.pick(actions)
            target = self.object(verb, _WHO, plain=True)
            asked = self.clause(_WHO, verb, "past", self.accusative(target))
            return _ASK(a=self.timed(asked, "past", 0.2, front=False))
        subject = self.somebody()
        if chance < 0.4:
            verb = self.pick(_WHATS)
            tense = self.pick(("past", "past", "future", "going", "was -ing"))
            asked = self.clause(subject, verb, tense, self.where() if self.chance(0.3) else None, question=True)
            return _ASK(a=together(_WHAT, self.timed(asked, tense, 0.3, front=False)))
        if chance < 0.55:
            verb = self.pick(_WHATS)
            noun = self.pick(verb.objects)
            many = noun.english[1] is not None
            amount = word("how many" if many else "how much", _HOW_MUCH[noun.feminine + 2 * (many or noun.plural_only)])
            asked = self.clause(subject, verb, "past", question=True)
            return _ASK(a=together(amount, _NOUN[noun][many], self.timed(asked, "past", 0.25, front=False)))
        if chance < 0.65:
            thing = self.thing(self.pick(nouns_of[self.pick(_COLOURED)]), adjective=0.15)
            tense = self.pick(("present", "present", "past"))
            return _ASK(a=_COLOUR(be=self.inverted(thing, "ser", tense)))
        if chance < 0.8:
            thing = self.thing(self.pick(nouns_of["small"])) if self.chance(0.5) else self.person()
            return _ASK(a=together(_WHERE_IS, self.inverted(thing, "estar", self.pick(("present", "past")))))
        asking = self.pick(_QUESTION_WORDS)
        tense = self.pick(("past", "past", "future", "want"))
        verb = self.pick(actions)
        target = self.object(verb, subject, plain=True)
        return _ASK(a=together(asking, self.clause(subject, verb, tense, self.accusative(target), question=True)))

    def inverted(self, subject: Subject, copula: str, tense: str) -> Chunk:
        """The end of a question: is the ball; es la bola."""
        verb = (_AM[tense][subject.english], "1"), (_STATE[copula][tense][subject.spanish], "1")
        return weave((verb[0], subject.chunk), (verb[1], subject.chunk))

    def dialogue(self) -> Chunk:
        """Did you buy the apples? Yes, I bought them yesterday."""
        verb = self.pick(_THING_VERBS)
        target = self.object(verb, _PRONOUNS[1], plain=True, only=verb.objects)
        yes = self.chance(0.6)
        who, replies = self.pick(_EXCHANGES)
        asked = _ASK(a=self.clause(who, verb, "past", target.chunk, question=True))
        clitic = ("them" if target.english == THEY else "it", _LO[target.form])
        reply = self.clause(replies, verb, "past", clitic=clitic, negative=not yes)
        return (_YES if yes else _NO)(question=asked, reply=self.timed(reply, "past", 0.4, front=False))

    def comparison(self) -> Chunk:
        """This car is more expensive than that bicycle; Mary is as tall as her brother."""
        if self.chance(0.4):
            one, two, group = self.person(), self.person(plural=0.2), "people"
            while two.noun is one.noun:
                two = self.thing(self.pick(_LIVING), _KIN, 0.2, 0.2)
        else:
            group = self.pick(("animals", "fruit", "small", "vehicles", "clothes", "furniture", "texts", "places"))
            one, two = (self.thing(self.pick(nouns_of[group]), adjective=0.15) for _ in range(2))
            while two.noun is one.noun:
                two = self.thing(self.pick(nouns_of[group]), adjective=0.15)
        adjective = self.pick(_GRADED[group])
        more = self.compared(adjective, one.form)
        if self.chance(0.25):
            more = _AS(quality=_ADJECTIVE[adjective][one.form], other=two.chunk)
        else:
            more = _THAN(quality=more, other=two.chunk)
        return _STOP(a=self.be(one, "ser", more, self.pick(("present", "present", "past")), negative=self.chance(0.12)))

    def compared(self, adjective: Adjective, form: int) -> Chunk:
        if adjective.comparative:
            return word(adjective.comparative, f"más {adjective.forms[form]}")
        return together(_MORE, _ADJECTIVE[adjective][form])

    def superlative(self) -> Chunk:
        """Emma is the tallest girl in the school."""
        if self.chance(0.6):
            noun = self.pick(nouns_of["people"])
            who = self.name()
            while who.feminine != noun.feminine:
                who = self.name()
        else:
            noun = self.pick(nouns_of[self.pick(("animals", "vehicles", "texts", "places", "clothes"))])
            who = self.thing(noun, ("this", "that", "my", "your", "our"), adjective=0.0, plural=0.0)
        adjective = self.pick(_GRADED[noun.group])
        form = int(noun.feminine)
        kind = _NOUN[noun][0]
        best = adjective.comparative[:-1] + "st" if adjective.comparative else None
        most = (
            word(best, f"más {adjective.forms[form]}") if best else together(_MOST, _ADJECTIVE[adjective][form])
        )
        the = _DETERMINER["the", False][form]
        whole = weave((the, most, kind), (the, kind, most))
        rest = _OF(whole=whole, place=self.thing(self.pick(nouns_of["places"]), _WHERE, 0.1, 0.0).chunk)
        return _STOP(a=self.be(who, "ser", rest, self.pick(("present", "past"))))

    def relative(self) -> Chunk:
        """The boy who broke the window was nervous; the book that Mary read is interesting."""
        tense = self.pick(("present", "past", "past"))
        if self.chance(0.5):
            who = self.thing(self.pick(nouns_of["people"]), ("the",), adjective=0.15)
            does = self.action(_silent(who), "past", negative=self.chance(0.1))
            subject = who._replace(chunk=_WHO_DID(who=who.chunk, does=does))
        else:
            verb = self.pick(_THING_VERBS)
            thing = self.thing(self.pick(verb.objects), ("the",), adjective=0.15)
            does = self.clause(self.somebody(), verb, "past", verb_first=True)
            subject = thing._replace(chunk=_THAT_DID(who=thing.chunk, does=does))
        if subject.noun.group == "people" and self.chance(0.4):
            return _STOP(a=self.statement(self.pick(("past", "future")), subject))
        quality, copula = self.quality(subject)
        return _STOP(a=self.be(subject, copula, quality, tense, negative=self.chance(0.1)))

    def presenting(self) -> Chunk:
        """These are my shoes; this is a beautiful flower: the pronoun agrees with what follows."""
        group = self.pick(("small", "clothes", "vehicles", "kin", "texts", "rooms", "fruit", "instruments"))
        thing = self.thing(self.pick(nouns_of[group]), ("a", "the", *_POSSESSIVES, *_POSSESSIVES))
        name = self.pick(("this", "this", "that"))
        many = thing.english == THEY
        english = _DETERMINERS[name][many]
        this = Subject(word(english, _DETERMINERS[name][2].split()[thing.form]), thing.english, thing.spanish, False, "it")
        return _STOP(a=self.be(this, "ser", thing.chunk, "present", negative=self.chance(0.2)))

    def professing(self) -> Chunk:
        """Mary is a doctor; my brother wants to be an engineer; Anna is ten years old."""
        who = self.person(plural=0.0)
        while who.english != IT:
            who = self.person(plural=0.0)
        if self.chance(0.3):
            number = self.pick(tuple(_NUMBERS))
            return _STOP(a=self.be(who, "tener", _YEARS(number=_NUMBERS[number][0]), self.pick(("present", "past"))))
        english, *spanish = self.pick(_PROFESSIONS)
        trade = word(english, spanish[who.feminine])
        if self.chance(0.35):
            return _STOP(a=_WANTS_TO_BE(who=who.chunk, trade=trade))
        rest = _A_TRADE(trade=trade)
        return _STOP(a=self.be(who, "ser", rest, self.pick(("present", "past", "future")), negative=self.chance(0.12)))

    def ordering(self) -> Chunk:
        """Close the green door, please."""
        verb = self.pick(_ORDERS)
        target = self.thing(self.pick(verb.objects))
        particle = [(verb.particle, "1")] if verb.particle else []
        rest = self.accusative(target)
        act = weave(((verb.base, "1"), *particle, rest), ((verb.spanish["present"][IT], "1"), rest))
        frame = self.pick(_PLEASE)
        return frame(act=act, name=self.name().chunk)

    def exclaiming(self) -> Chunk:
        """What a beautiful flower!"""
        group = self.pick(("animals", "fruit", "small", "vehicles", "clothes", "outdoors", "places", "texts", "nature", "songs"))
        noun = self.pick(nouns_of[group])
        adjective = self.pick(_GRADED[group] or _GRADED["small"])
        quality = _ADJECTIVE[adjective][int(noun.feminine)]
        return _EXCLAIM(a=_WHAT_A(quality=quality, thing=_NOUN[noun][0]))

    def courtesy(self) -> Chunk:
        """Good morning, John. Thank you for the red apples, Anna."""
        greeting, name = self.pick(_GREETINGS), self.name().chunk
        if self.chance(0.3):
            thanks = _THANKS(gift=self.thing(self.pick(_GIFTS), _THANKED).chunk)
            return _STOP(a=_VOCATIVE(a=thanks, name=name))
        first = _VOCATIVE(a=greeting, name=name)
        return _NEXT(a=first, b=self.description() if self.chance(0.5) else self.statement("past"))

    def welcome(self) -> Chunk:
        """"You are welcome," said the old man: the idiom, always inside something longer."""
        chance, name = self.random(), self.name().chunk
        if chance < 0.25:
            return self.said(_QUOTED(a=_WELCOME) if self.chance(0.7) else _QUOTED_TO(a=_WELCOME, name=name))
        if chance < 0.35:
            who = self.person(plural=0.25)
            return _SAID_COLON[who.form > 1](who=who.chunk, a=_WELCOME)
        thanks = _THANKS(gift=self.thing(self.pick(_GIFTS), _THANKED).chunk)
        if chance < 0.6:
            return _NEXT(a=thanks if self.chance(0.6) else _VOCATIVE(a=thanks, name=name), b=_WELCOME)
        reply = _VOCATIVE(a=_WELCOME, name=name if self.chance(0.7) else self.pick(_ADDRESSES))
        if chance < 0.7:
            return _NEXT(a=thanks, b=reply)
        if chance < 0.72:
            return _NEXT(a=_WELCOME, b=_VOCATIVE(a=self.pick(_GREETINGS), name=name))
        follows = self.description("past") if self.chance(0.5) else self.statement(self.pick(("past", "future", "present")))
        return _NEXT(a=reply if chance < 0.82 else _WELCOME, b=follows)

    def quoting(self) -> Chunk:
        """"I am tired," said Mary: the adjective agrees with whoever speaks."""
        who = self.speaker()
        person, pronoun = (WE, "we") if who.form > 1 else (I, "I")
        inner = Subject(Chunk([pronoun], [], []), person, person, who.feminine, pronoun)
        if self.chance(0.5):
            quality, copula = self.quality(who, fitting["people"])
            clause = self.be(inner, copula, quality, "present", negative=self.chance(0.15))
        else:
            tense = self.pick(("past", "future", "want", "can", "must", "going"))
            clause = self.action(inner, tense, negative=self.chance(0.2))
        return self.said(_QUOTED(a=clause), who)

    def speaker(self) -> Subject:
        return self.person(plural=0.25) if self.chance(0.8) else self.pick((_HE, _SHE))

    def said(self, quoted: Chunk, who: Subject | None = None) -> Chunk:
        who = who or self.speaker()
        english, one, many = self.pick(_SAYINGS)
        verb = (english, "1"), (many if who.form > 1 else one, "1")
        if not who.chunk.spanish:
            stands = word(who.pronoun, "ella" if who.feminine else "él")
            return _STOP(a=weave((quoted, stands, verb[0]), (quoted, verb[1], stands)))
        return _STOP(a=weave((quoted, verb[0], who.chunk), (quoted, verb[1], who.chunk)))


PATTERNS = {  # how often each is drawn
    "plain_description": 12, "rich_description": 10, "plain_action": 14, "rich_action": 18, "two_actions": 8,
    "while_waiting": 4, "because_of_it": 8, "when_in_a_mood": 10, "helping": 3, "errand": 12, "purchase": 5, "tasting": 3,
    "and_it": 5, "and_them": 2, "giving": 5, "liking": 4, "located": 7, "question_of_quality": 4, "question_of_action": 5,
    "question_word": 6, "dialogue": 3, "comparison": 4, "superlative": 2, "relative": 5, "presenting": 3, "professing": 3,
    "ordering": 4, "exclaiming": 2, "courtesy": 2, "welcome": 9, "quoting": 4,
}  # fmt: skip
