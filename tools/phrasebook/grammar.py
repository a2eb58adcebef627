"""The grammar of the phrasebook: draws noun phrases and clauses at random, in both languages at once."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from tools.phrasebook.chunk import Chunk, Element, PatternFrame, join_chunks, weave, word_chunk
from tools.phrasebook.lexicon import (
    COLOURS,
    MEN,
    NUMBERS,
    WOMEN,
    Adjective,
    Noun,
    Verb,
    actions,
    adjective_forms,
    conjugate,
    find_verbs,
    fitting,
    journeys,
    moves,
    nouns_of,
    states,
)

FIRST, SECOND, THIRD, US, THEM = range(5)  # yo, tú, él, nosotros, ellos
T = TypeVar("T")


class Subject(NamedTuple):
    """A noun phrase or pronoun: its words, its person in each language, and what later words must agree with."""

    chunk: Chunk  # a pronoun has no Spanish words: the verb tells the person
    english: int
    spanish: int
    feminine: bool
    pronoun: str
    noun: Noun | None = None
    attribute: Adjective | None = None

    @property
    def group(self) -> str:
        """The group of the noun; a subject without a noun is a person with a name."""
        return self.noun.group if self.noun else "people"

    @property
    def form(self) -> int:
        """The index of the form among niño, niña, niños, niñas."""
        return self.feminine + 2 * (self.spanish >= US)

    @property
    def sides(self) -> tuple[list[Element], list[Element]]:
        if self.chunk.spanish:
            return [self.chunk], [self.chunk]
        # The English word of a pronoun is linked to the Spanish verb, which shows the person.
        return [(text, "1") for text in self.chunk.english], []

    @property
    def neutral(self) -> bool:
        """Whether it is a pronoun that hides its gender, which only adjectives of one form for both may follow."""
        return not self.chunk.spanish and self.pronoun in ("I", "you", "we", "they")


# ---------------------------------------------------------------- words in every form they are used in

DETERMINERS = {  # English singular and plural; niño, niña, niños, niñas
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
THE = ["el", "la", "los", "las"]
_ALL = [PatternFrame(f"all1 the2 | {todo}1 {the}2")() for todo, the in zip(adjective_forms("todo"), THE, strict=True)]
NUMBERS = {english: [word_chunk(english, spanish)] * 4 for english, spanish in map(str.split, NUMBERS.split(", "))}
DETERMINER = {
    (name, plural): [word_chunk(english[plural], spanish.replace("-", "")) for spanish in forms.split()]
    for name, (*english, forms) in DETERMINERS.items()
    for plural in (False, True)
} | {(name, True): forms for name, forms in ({"all": _ALL} | NUMBERS).items()}
POSSESSIVES = ("my", "your", "his", "her", "our", "their")
# In such tuples an entry is as likely as it is frequent.
_POINTING = ("the",) * 14 + ("this", "this", "that", "that", *POSSESSIVES)
KIN = ("the", *POSSESSIVES, *POSSESSIVES)
_COUNTING = ("some", "several", "several", "many", "all", *NUMBERS)
ADJECTIVE = {
    adjective: [word_chunk(adjective.english, form) for form in adjective.forms]
    for group in fitting.values()
    for adjective in group
}
_ATTRIBUTES = {group: [a for a in adjectives if a.copula != "tener"] for group, adjectives in fitting.items()}
_NEUTRAL = [a for a in fitting["people"] if a.forms[0] == a.forms[1]]
NOUN = {
    noun: [word_chunk(noun.english[n] or "", noun.spanish[n]) for n in (0, 1)]
    for group in nouns_of.values()
    for noun in group
}
_EVERYBODY = (*MEN, *WOMEN)
_NAMES = {name: (word_chunk(name, name), name in WOMEN) for name in (*MEN, *WOMEN)}
LIVING = nouns_of["people"] + nouns_of["kin"]


# ---------------------------------------------------------------- who does what, and what may be said of it

ANIMAL_VERBS = find_verbs("comer beber beber ver encontrar buscar mirar")
_ANIMAL_MOVES = [verb for verb in moves if verb.base in ("run", "sleep", "play", "swim")]
_MOVES = moves + journeys
ERRANDS = find_verbs("comprar comprar comprar comprar comprar encontrar vender")
_BUY = ERRANDS[0]
EDIBLE = frozenset(("fruit", "food", "staples", "drinks", "pure"))
_BARE = EDIBLE | {"texts", "household", "small", "clothes", "dishes"}  # apples, milk: with no determiner at all
DESCRIBED = (
    "animals", "animals", "fruit", "food", "staples", "drinks", "pure", "instruments", "texts", "songs", "furniture",
    "household", "openings", "containers", "dishes", "small", "small", "small", "ball", "vehicles", "clothes",
    "clothes", "places", "sites", "outdoors", "rooms", "waters", "heavens", "heavens", "heavens", "nature", "nature",
)  # fmt: skip
_OWNERLESS = frozenset(DETERMINERS) - {*POSSESSIVES} | {*NUMBERS}
_UNOWNED = dict.fromkeys(("pure", "ball", "waters", "nature", "sites", "outdoors"), _OWNERLESS) | {
    "heavens": frozenset(("the",))
}
_SINGULAR = frozenset(("the", "a", "this", "that", "", *POSSESSIVES))
_PEOPLE = ("the",) * 10 + ("a", "a", "this", "that")
GOALS = ("places", "places", "sites", "outdoors")
WHERE = ("the",) * 12 + ("this", "that")
BEING = ("present",) * 5 + ("past",) * 4 + ("future",)
_SUDDEN = frozenset(("see", "find", "lose"))
_SIMPLE = frozenset(("past", "present", "future"))
_MODAL = frozenset(("can", "must", "want"))
_HELPERS = {"can": "poder", "must": "deber"}
_CONTRACTED = {"do": "don't", "does": "doesn't", "did": "didn't", "will": "won't"}

# ---------------------------------------------------------------- tenses, times and places

AM = {"present": ("am", "are", "is", "are", "are"), "past": ("was", "were", "was", "were", "were")}
_AUXILIARIES = ("ser", "estar", "tener", "ir", "poder", "deber", "saber", "oler", "parecer")
_TENSES = {infinitive: conjugate(infinitive)[0] for infinitive in _AUXILIARIES}
_TENSES["querer"] = conjugate("querer", "quier")[0]
STATE = {  # states are told in the imperfect
    infinitive: tenses | {"past": tenses["imperfect"]} for infinitive, tenses in _TENSES.items() if infinitive != "ir"
}


def parse_glosses(table: str) -> list[Chunk]:
    """Parse set expressions in the notation of `PatternFrame`, with "=" for the bar."""
    return [PatternFrame(entry.replace("=", "|"))() for entry in table.split(", ")]


_DAYS = ", on1 Monday2 = el1 lunes2, on1 Thursday2 = el1 jueves2, on1 Friday2 = el1 viernes2, today1 = hoy1"
_PAST = parse_glosses(
    "yesterday1 = ayer1, last1 night1 = anoche1, last1 week2 = la semana2 pasada1, this1 morning2 = esta1 mañana2, "
    "last1 year2 = el año2 pasado1, two2 days3 ago1 = hace1 dos2 días3, three2 weeks3 ago1 = hace1 tres2 semanas3"
    + _DAYS
)
_FUTURE = parse_glosses(
    "tomorrow1 = mañana1, next1 week2 = la próxima1 semana2, tonight1 = esta1 noche1, soon1 = pronto1" + _DAYS
)
_NOW = parse_glosses("now1 = ahora1, at1 this2 moment3 = en1 este2 momento3")
_HABIT = parse_glosses(
    "every1 day2 = todos1 los días2, every1 week2 = todas1 las semanas2, every1 morning2 = todas1 las mañanas2, "
    "in1 the2 afternoon3 = por1 la2 tarde3, at1 night2 = por1 la noche2"
)
_TIMES = {
    "past": _PAST, "present": _HABIT, "future": _FUTURE, "going": _FUTURE, "progressive": _NOW, "was -ing": _PAST,
    "can": _FUTURE, "must": _FUTURE, "want": _FUTURE,
}  # fmt: skip
_OFTEN = parse_glosses("always1 = siempre1, never1 = nunca1, often1 = a1 menudo1, sometimes1 = a1 veces1")
_VERY, _TOO, _SO = (word_chunk(*pair) for pair in (("very", "muy"), ("too", "demasiado"), ("so", "tan")))
_AT, IN = PatternFrame("at1 {place} | en1 {place}"), PatternFrame("in1 {place} | en1 {place}")
ON, TO = PatternFrame("on1 {place} | sobre1 {place}"), PatternFrame("to1 {place} | a1 {place}")
BESIDE = [PatternFrame(pattern) for pattern in (
    "under1 {place} | debajo1 de1 {place}", "behind1 {place} | detrás1 de1 {place}",
    "near1 {place} | cerca1 de1 {place}", "next1 to1 {place} | al1 lado1 de1 {place}",
    "in1 front1 of1 {place} | delante1 de1 {place}",
)]  # fmt: skip
PERSONAL_A = PatternFrame("{who} | a {who}")
AND = PatternFrame("{a} and1 {b} | {a} y1 {b}")
_AND_I = PatternFrame("{a} and1 I2 | {a} y1 yo2")
PRONOUNS = {
    text: Subject(Chunk([text], [], []), person, person, text == "she", text)
    for text, person in (("I", FIRST), ("you", SECOND), ("he", THIRD), ("she", THIRD), ("we", US), ("they", THEM))
}
ANY_PRONOUN = tuple(PRONOUNS.values())


def _adjective_kind(adjective: Adjective) -> str:
    return "colour" if adjective.group in COLOURS else adjective.group


class Grammar:
    """A grammar that draws from a random generator: a method draws everything that its arguments leave open."""

    def __init__(self, generator: random.Random):
        self.random = generator.random

    def pick(self, options: Sequence[T]) -> T:
        return options[int(self.random() * len(options))]

    def chance(self, probability: float) -> bool:
        return self.random() < probability

    # ------------------------------------------------------------ noun phrases

    def noun_phrase(
        self, noun: Noun, determiners: Sequence[str] = _POINTING, adjective: float = 0.3, plural: float = 0.35
    ) -> Subject:
        """Draw a noun with a determiner and sometimes an adjective, all three in agreement."""
        many = noun.english[1] is not None and self.chance(plural)
        form = noun.feminine + 2 * (many or noun.plural_only)
        determiner = self.pick(determiners)
        # A determiner that the noun cannot have becomes one that it can: "my sky" is "the sky", "a milk" is "the milk".
        if noun.group in _UNOWNED and determiner not in _UNOWNED[noun.group]:
            determiner = "the"
        elif many:
            determiner = "the" if determiner == "a" else determiner
        elif determiner not in _SINGULAR or (determiner == "a" and not noun.counted):
            determiner = "the"
        elif not determiner and noun.counted:
            determiner = "a"
        words = [NOUN[noun][many]]
        if determiner:
            article = DETERMINER[determiner, many][0 if noun.takes_el and determiner == "the" else form]
            words.insert(0, article)
        attribute = self.pick(_ATTRIBUTES[noun.group]) if self.chance(adjective) else None
        if attribute:
            # black cat, gato negro: before the noun in English, after it in Spanish.
            adjective_word = ADJECTIVE[attribute][form]
            chunk = weave((*words[:-1], adjective_word, words[-1]), (*words, adjective_word))
        else:
            chunk = join_chunks(*words)
        person = THEM if many else THIRD
        living = noun.group in ("people", "kin")
        pronoun = "they" if many else ("she" if noun.feminine else "he") if living else "it"
        return Subject(chunk, person, THEM if form > 1 else THIRD, noun.feminine, pronoun, noun, attribute)

    def noun(self, *groups: str) -> Noun:
        """Draw a noun of a group, or of one of several, each as likely as it is often named."""
        return self.pick(nouns_of[groups[0] if len(groups) == 1 else self.pick(groups)])

    def name(self) -> Subject:
        chunk, feminine = _NAMES[self.pick(_EVERYBODY)]
        return Subject(chunk, THIRD, THIRD, feminine, "she" if feminine else "he")

    def names(self) -> Subject:
        """Draw two first names joined by "and"."""
        first, second = self.name(), self.name()
        while second.chunk is first.chunk:
            second = self.name()
        pair = AND(first.chunk, second.chunk)
        return Subject(pair, THEM, THEM, first.feminine and second.feminine, "they")

    def person(self, plural: float = 0.3) -> Subject:
        """Draw a person: a name, two names, a profession or a relative."""
        chance = self.random()
        if chance < 0.3:
            return self.name()
        if chance < 0.3 + 0.5 * plural:
            return self.names()
        noun = self.pick(LIVING)
        return self.noun_phrase(noun, KIN if noun.group == "kin" else _PEOPLE, adjective=0.25, plural=plural)

    def actor(self) -> Subject:
        """Draw a person or a pronoun as the subject of an action."""
        chance = self.random()
        if chance < 0.7:
            return self.person()
        if chance < 0.74:
            return Subject(_AND_I(_NAMES[self.pick(MEN)][0]), US, US, False, "we")
        return self.pick(ANY_PRONOUN)

    def object(self, verb: Verb, subject: Subject, plain: bool = False, only: Sequence[Noun] = ()) -> Subject:
        """Draw the object of a verb; `plain` leaves out 'some', 'several', 'many', for questions and negations."""
        animal = subject.group == "animals"
        nouns = only or (nouns_of["pure"] if animal and verb.infinitive == "beber" else verb.objects)
        noun = self.pick(nouns)
        if noun.group == "kin":
            return self.noun_phrase(noun, KIN)
        chance = self.random()
        if noun.group in ("people", "animals", "songs"):
            chance = chance * 0.8 + 0.2
        if chance < 0.15:
            bare = noun.group in _BARE
            return self.noun_phrase(noun, ("",), adjective=0.15, plural=1.0) if bare else self.noun_phrase(noun)
        if chance < 0.4 and not plain:
            return self.noun_phrase(noun, _COUNTING, plural=1.0)
        if chance < 0.65:
            return self.noun_phrase(noun, ("a",), plural=0.0)
        return self.noun_phrase(noun)

    def place(self, *groups: str, adjective: float = 0.12) -> Subject:
        """Draw a place to be at or to go to, or a noun of the given groups."""
        groups = groups or ("places", "places", "sites", "outdoors", "rooms")
        return self.noun_phrase(self.noun(*groups), WHERE, adjective, plural=0.0)

    def location(self) -> Chunk:
        """Draw the place where a person or an animal does something, with a preposition."""
        place = self.place()
        if self.chance(0.2):
            return self.pick(BESIDE)(place.chunk)
        uses_at = place.group == "sites" or (place.group == "places" and self.chance(0.3))
        return (_AT if uses_at else IN)(place.chunk)

    # ------------------------------------------------------------ clauses

    def clause(
        self,
        subject: Subject,
        verb: Verb,
        tense: str,
        complement: Chunk | None = None,
        *,
        negative: bool = False,
        question: bool = False,
        clitic: tuple[str, str] | None = None,
        adverb: Chunk | None = None,
        verb_first: bool = False,
    ) -> Chunk:
        """Build a clause of subject, verb and complement, in any tense, negated or as a question."""
        # Marks of linked words: 1 the conjugated verb, 2 the verb that follows it, 3 not, 4 to, 5 it.
        english, spanish = subject.english, subject.spanish
        mark = "1" if tense in ("past", "present", "future") else "2"
        uses_helper = negative or question
        # English forms in `main`, Spanish in `after`; the helper goes before the subject in a question.
        if mark == "1":
            helper = "did" if tense == "past" else "will" if tense == "future" else "does" if english == THIRD else "do"
            uses_helper = uses_helper or tense == "future"
            plain = verb.past if tense == "past" else verb.third if english == THIRD else verb.base
            main = [(verb.base if uses_helper else plain, "1")]
            after = [(verb.spanish[tense][spanish], "1")]
        elif tense == "want":
            helper = "does" if english == THIRD else "do"
            main = [("want" if uses_helper or english != THIRD else "wants", "1"), ("to", "2"), (verb.base, "2")]
            after = [(_TENSES["querer"]["present"][spanish], "1"), (verb.infinitive, "2")]
        elif tense in _HELPERS:
            helper, uses_helper = tense, True
            main = [(verb.base, "2")]
            after = [(_TENSES[_HELPERS[tense]]["present"][spanish], "1"), (verb.infinitive, "2")]
        else:
            helper, uses_helper = AM["past" if tense == "was -ing" else "present"][english], True
            if tense == "going":
                main = [("going", "1"), ("to", "4"), (verb.base, "2")]
                after = [(_TENSES["ir"]["present"][spanish], "1"), ("a", "4"), (verb.infinitive, "2")]
            else:
                time = "imperfect" if tense == "was -ing" else "present"
                main = [(verb.ing, "2")]
                after = [(_TENSES["estar"][time][spanish], "1"), (verb.gerund, "2")]
        before = [("no", "3")] if negative else []
        if not uses_helper:
            front = []
        elif negative and helper in _CONTRACTED and self.chance(0.4):
            front = [(_CONTRACTED[helper], "3")]
        else:
            front = [(helper, "1"), ("not", "3")] if negative else [(helper, "1")]
        if verb.particle:
            main.append((verb.particle, mark))
        # le and se before another pronoun have no English counterpart, so they get no mark.
        if clitic:
            *datives, pronoun = clitic[1].split()
            before += [*((word, "") for word in datives), (pronoun, "5" if clitic[0] else "")]
            main += [(clitic[0], "5")] if clitic[0] else []
        english_subject, spanish_subject = subject.sides
        adverbs = [adverb] if adverb else []
        tail = [complement] if complement else []
        if question:
            # ¿Puede el niño beber la leche? but ¿Qué va a beber el niño?
            first = 1 if tense in _MODAL and tail else len(after)
            return weave(
                (*front, *english_subject, *main, *tail),
                (*before, *after[:first], *spanish_subject, *after[first:], *tail),
            )
        if verb_first:
            return weave((*english_subject, *front, *main, *tail), (*before, *after, *spanish_subject, *tail))
        return weave(
            (*english_subject, *front, *adverbs, *main, *tail), (*spanish_subject, *adverbs, *before, *after, *tail)
        )

    def copula_clause(
        self,
        subject: Subject,
        copula: str,
        complement: Chunk,
        tense: str,
        *,
        negative: bool = False,
        question: bool = False,
        subject_last: bool = True,
    ) -> Chunk:
        """Build a clause of ser, estar or tener; in a question the Spanish subject is last or second."""
        verb = [(STATE[copula][tense][subject.spanish], "1")]
        english_subject, spanish_subject = subject.sides
        english_not, spanish_no = ([("not", "2")], [("no", "2")]) if negative else ([], [])
        if tense == "future":
            front, main = [("will", "1")], [("be", "1")]
        else:
            front, main = [(AM[tense][subject.english], "1")], []
        if question:
            order = (complement, *spanish_subject) if subject_last else (*spanish_subject, complement)
            return weave((*front, *english_subject, *english_not, *main, complement), (*spanish_no, *verb, *order))
        return weave(
            (*english_subject, *front, *english_not, *main, complement),
            (*spanish_subject, *spanish_no, *verb, complement),
        )

    def quality(
        self, subject: Subject, choices: Sequence[Adjective] = (), plain: bool = False, joined: bool = True
    ) -> tuple[Chunk, str]:
        """Draw an adjective that fits the subject, perhaps with a degree or a second one; return it and its copula."""
        choices = choices or fitting[subject.group]
        if subject.neutral:
            choices = [a for a in choices if a.forms[0] == a.forms[1]] or _NEUTRAL
        if subject.attribute:  # not: the cold milk is hot
            choices = [a for a in choices if _adjective_kind(a) != _adjective_kind(subject.attribute)] or choices
        first = self.pick(choices)
        chunk = ADJECTIVE[first][subject.form]
        if plain:
            return chunk, first.copula
        chance = self.random()
        if first.graded and chance < 0.3:
            degree = _VERY if chance < 0.16 else _TOO if chance < 0.24 else _SO
            return join_chunks(degree, chunk), first.copula
        if chance < 0.4 and joined:
            second = self.pick(choices)
            if second.copula == first.copula != "tener" and second.group != first.group:
                return AND(chunk, ADJECTIVE[second][subject.form]), first.copula
        return chunk, first.copula

    def action(
        self, subject: Subject, tense: str, *, negative: bool = False, question: bool = False, often: bool = False
    ) -> Chunk:
        """Draw a clause in which somebody does something to something, or somewhere."""
        animal = subject.group == "animals"
        chance = self.random()
        plain = negative or question
        adverb = self.pick(_OFTEN) if often and not plain else None
        if chance < 0.68 or (animal and chance < 0.8):
            verb = self.pick(ANIMAL_VERBS if animal else states if chance < 0.08 and tense in _SIMPLE else actions)
            if verb.present_is_past and tense == "present" and subject.english != THIRD:
                verb = _BUY  # "they read" would be past as well as present
            if verb.base in _SUDDEN and tense in ("progressive", "was -ing"):
                verb = _BUY
            target = self.object(verb, subject, plain)
            complement = self.accusative(target)
            if self.chance(0.1):
                complement = join_chunks(complement, self.location())
        else:
            verb = self.pick(_ANIMAL_MOVES if animal else _MOVES)
            if verb.base == "go" and tense in ("progressive", "was -ing", "going"):
                verb = moves[0]  # "is going to" already means the future
            complement = self.destination(verb)
        return self.clause(subject, verb, tense, complement, negative=negative, question=question, adverb=adverb)

    def destination(self, verb: Verb) -> Chunk:
        """Draw the place that goes with a verb of moving: where to, or where."""
        if verb in journeys:
            return TO(self.place(*GOALS).chunk)
        if verb.base == "swim":
            # Twice, so that a random number is drawn to choose the group: without it the rest of the text would change.
            return IN(self.place("waters", "waters").chunk)
        return self.location()

    def accusative(self, target: Subject) -> Chunk:
        return PERSONAL_A(target.chunk) if target.group in ("people", "kin") else target.chunk

    def add_time(self, clause: Chunk, tense: str, chance: float = 0.35, front: bool = True) -> Chunk:
        """Add a time to a clause with this chance, at the front or at the end."""
        if not self.chance(chance):
            return clause
        time = self.pick(_TIMES[tense])
        return join_chunks(time, clause) if front and self.chance(0.35) else join_chunks(clause, time)

    def statement(
        self, tense: str, subject: Subject | None = None, *, negative: float = 0.12, often: bool = False
    ) -> Chunk:
        """Draw a clause in which a person or an animal does something."""
        subject = subject or (self.actor() if self.chance(0.5) else self.agent())
        return self.action(subject, tense, negative=self.chance(negative), often=often)

    def agent(self) -> Subject:
        return self.person() if self.chance(0.65) else self.noun_phrase(self.noun("animals"))

    def described_phrase(self) -> Subject:
        """Draw a thing, an animal, a place or a person that an adjective can describe."""
        chance = self.random()
        if chance < 0.25:
            return self.person()
        return self.noun_phrase(self.noun(*DESCRIBED), adjective=0.1)

    def description(self, tense: str | None = None, subject: Subject | None = None) -> Chunk:
        """Draw a clause like: The ball is blue."""
        subject = subject or (self.described_phrase() if self.chance(0.9) else self.pick(ANY_PRONOUN))
        return self.quality_clause(subject, tense or self.pick(BEING))

    def quality_clause(
        self,
        subject: Subject,
        tense: str,
        choices: Sequence[Adjective] = (),
        negative: float = 0.12,
        pronoun: Subject | None = None,
    ) -> Chunk:
        """Draw a clause in which the subject, or the pronoun that stands for it, has or has not a quality."""
        negated = self.chance(negative)
        quality, copula = self.quality(subject, choices, joined=not negated)
        return self.copula_clause(pronoun or subject, copula, quality, tense, negative=negated)
