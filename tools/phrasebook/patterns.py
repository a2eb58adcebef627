"""The sentence patterns of the phrasebook; each pattern draws one whole line."""

from __future__ import annotations

import random

from tools.phrasebook.chunk import Chunk, PatternFrame, join_chunks, weave, word_chunk
from tools.phrasebook.grammar import (
    ADJECTIVE,
    AM,
    AND,
    ANIMAL_VERBS,
    ANY_PRONOUN,
    BEING,
    BESIDE,
    DESCRIBED,
    DETERMINER,
    DETERMINERS,
    EDIBLE,
    ERRANDS,
    FIRST,
    GOALS,
    IN,
    KIN,
    LIVING,
    NOUN,
    NUMBERS,
    ON,
    PERSONAL_A,
    POSSESSIVES,
    PRONOUNS,
    STATE,
    THE,
    THEM,
    THIRD,
    TO,
    US,
    Grammar,
    Subject,
    parse_glosses,
)
from tools.phrasebook.lexicon import (
    PROFESSIONS,
    Adjective,
    Noun,
    actions,
    adjective_forms,
    adjectives_of,
    comings,
    find_nouns,
    find_verbs,
    fitting,
    giving,
    journeys,
    moves,
    nouns_of,
    of_the_living,
)

# ---------------------------------------------------------------- what fits into which pattern

# In all of these an entry is as likely as it is frequent.
_COUNTED = ("some", "several", "many", *NUMBERS)
_REASONS = {group: [a for a in adjectives if a.english not in of_the_living] for group, adjectives in fitting.items()}
_GRADED = {group: [a for a in adjectives if a.graded and a.copula == "ser"] for group, adjectives in fitting.items()}
# Of body and mind and for a while, which is what estar and tener say: reasons and circumstances of what somebody does.
_ANIMAL_FEELINGS = [a for a in fitting["animals"] if a.copula != "ser"]
_FEELINGS = [a for a in fitting["people"] if a.copula != "ser"]
_ORDERS = find_verbs("comer beber comprar vender buscar mirar limpiar lavar pintar escribir leer escuchar abrir "
                 "cerrar traer preparar ayudar visitar llamar tocar mandar")  # fmt: skip
_WHATS = find_verbs("comer beber comprar vender ver encontrar perder escribir leer pintar preparar romper")
_THING_VERBS = find_verbs("comprar comprar vender comer beber perder lavar limpiar pintar leer escribir traer "
                      "preparar recibir mandar romper")  # fmt: skip
_FIRST_VERBS = find_verbs("comprar comprar comprar recibir traer lavar preparar limpiar leer escribir abrir")
_SECOND_VERBS = find_verbs("vender comer beber perder romper lavar limpiar mandar leer pintar cerrar cantar escuchar")
_PEOPLE_VERBS = find_verbs("ver encontrar ayudar visitar llamar buscar escuchar mirar")
_KIND_VERBS = find_verbs("ayudar ayudar visitar llamar buscar escuchar")
_LIKED_VERBS = find_verbs("comer beber leer escribir cantar tocar visitar ayudar pintar comprar escuchar")
_CREATIVE = find_verbs("escribir escribir escribir cantar pintar")
_INSPIRED = [a for a in _FEELINGS if a.english in ("inspired", "happy", "sad") or a.group == "mind"]
_GIVE = giving[0]
_FOODS = find_nouns("fruit food food staples") + 3 * [nouns_of["food"][0]]
_WARES = find_nouns("fruit food staples drinks pure texts small clothes dishes household instruments furniture")
_WARES += 8 * [nouns_of["household"][-1]]  # fruits and furniture
# For "bought it and sold it": what else can be done to a thing of this group.
_THEN = {
    group: [verb for verb in _SECOND_VERBS if any(noun.group == group for noun in verb.objects)] for group in nouns_of
}
_GIVEABLE = frozenset(("small", "clothes", "fruit", "food", "texts", "dishes", "instruments"))
_FOLLOWED = ("instruments", "texts", "furniture", "openings", "containers", "dishes", "small", "vehicles", "clothes")
_FOUND, *_FOLLOWING_VERBS = find_verbs("encontrar comprar vender buscar ver")
_GIFTS = find_nouns("fruit food staples texts small clothes drinks")
_LIKED = ("fruit", "food", "staples", "drinks", "animals", "texts", "songs", "clothes", "vehicles", "places", "small")
_COLOURED = ("small", "small", "ball", "clothes", "vehicles", "furniture", "animals", "fruit", "heavens", "openings")
_PRICED = adjectives_of["price"] + adjectives_of["price"] + adjectives_of["opinion"]
_CHILDREN = ("boy", "girl", "child", "sister", "brother", "daughter", "son")
_YOUNG = [noun for noun in LIVING if noun.english[0] in _CHILDREN]
_PROFESSIONS = [entry.split() for entry in PROFESSIONS.split(", ")]
_WARE = ("a", "the", "some", "several", *NUMBERS)
_THANKED = ("the",) * 4 + ("this", "a", "your", "your")
_MODALS = ("can", "must", "want")
_MIX = ("past",) * 11 + ("present",) * 3 + ("future",) * 2 + ("progressive",) * 2 + ("going", "was -ing", *_MODALS)

# ---------------------------------------------------------------- frames and set expressions

# An adverb in Spanish and so without agreement: sabían increíble.
_SAVOURS = parse_glosses("amazing1 = increíble1, horrible1 = horrible1, strange1 = raro1, good1 = bien1, bad1 = mal1, "
                    "delicious1 = delicioso1, amazing1 = increíble1")  # fmt: skip
_TASTE, _SMELL = ("taste", "tastes", "tasted", "saber"), ("smell", "smells", "smelled", "oler")
_BECAUSE = PatternFrame("{a} because1 {b} | {a} porque1 {b}")
_WHEN = PatternFrame("{a} when1 {b} | {a} cuando1 {b}")
_JOINTS = [AND, AND, PatternFrame("{a} ,1 but2 {b} | {a} ,1 pero2 {b}")]
_STOP = PatternFrame("{a} .1 | {a} .1")
_ASK = PatternFrame("{a} ?1 | ¿1 {a} ?1")
_EXCLAIM = PatternFrame("{a} !1 | ¡1 {a} !1")
_NEXT = PatternFrame("{a} .1 {b} .2 | {a} .1 {b} .2")
_WANTS_TO_BE = PatternFrame("{who} wants1 to2 be2 a {trade} | {who} quiere1 ser2 {trade}")
_WHILE = PatternFrame("{a} while1 {b} | {a} mientras1 {b}")
# Equal digits are linked; {slots} are filled with chunks, in either order.
_THAN = PatternFrame("{quality} than1 {other} | {quality} que1 {other}")
_AS = PatternFrame("as1 {quality} as2 {other} | tan1 {quality} como2 {other}")
_MORE, _MOST = word_chunk("more", "más"), word_chunk("most", "más")
_OF = PatternFrame("{whole} in1 {place} | {whole} de1 {place}")
_WHO_DID = PatternFrame("{who} who1 {does} | {who} que1 {does}")
_THAT_DID = PatternFrame("{who} that1 {does} | {who} que1 {does}")
_YEARS = PatternFrame("{number} years1 old1 | {number} años1")
_A_TRADE = PatternFrame("a {trade} | {trade}")
_WHAT_A = PatternFrame("what1 a {quality} {thing} | qué1 {thing} tan {quality}")
_GIVE_TO = PatternFrame("{gift} to1 {receiver} | {gift} a1 {receiver}")
_GIVE_HIM = PatternFrame("{receiver} {gift} | {gift} a {receiver}")
_PLEASE = [PatternFrame(pattern) for pattern in (
    "{act} .1 | {act} .1", "{act} ,1 please2 .3 | {act} ,1 por2 favor2 .3",
    "please1 ,2 {act} .3 | por1 favor1 ,2 {act} .3",
    "{name} ,1 {act} .2 | {name} ,1 {act} .2", "{act} ,1 {name} .2 | {act} ,1 {name} .2",
)]  # fmt: skip
_YES = PatternFrame("{question} yes1 ,2 {reply} .3 | {question} sí1 ,2 {reply} .3")
_NO = PatternFrame("{question} no1 ,2 {reply} .3 | {question} no1 ,2 {reply} .3")
# "hay" and "había" for one thing and for several.
_THERE = {
    ("present", False): PatternFrame("there1 is1 {thing} {spot} | hay1 {thing} {spot}"),
    ("present", True): PatternFrame("there1 are1 {thing} {spot} | hay1 {thing} {spot}"),
    ("past", False): PatternFrame("there1 was1 {thing} {spot} | había1 {thing} {spot}"),
    ("past", True): PatternFrame("there1 were1 {thing} {spot} | había1 {thing} {spot}"),
}
_WHAT, _HOW_MUCH = word_chunk("what", "qué"), adjective_forms("cuánto")
_QUESTION_WORDS = [word_chunk(*pair) for pair in (("when", "cuándo"), ("why", "por qué"), ("where", "dónde"))]
_WHERE_IS, _COLOUR = word_chunk("where", "dónde"), PatternFrame("what1 color2 {be} | de1 qué1 color2 {be}")
_THANKS = PatternFrame("thank1 you1 for2 {gift} | gracias1 por2 {gift}")
_VOCATIVE = PatternFrame("{a} ,1 {name} | {a} ,1 {name}")
# The comma is inside the quotation marks in English, and after them in Spanish.
_QUOTED = PatternFrame("“1 {a} ,2 ”3 | «1 {a} »3 ,2")
_QUOTED_TO = PatternFrame("“1 {a} ,4 {name} ,2 ”3 | «1 {a} ,4 {name} »3 ,2")
_SAID_COLON = {
    many: PatternFrame(f"{{who}} smiled1 and2 said3 :4 “5 {{a}} .6 ”7 | {{who}} {smile}1 y2 {say}3 :4 «5 {{a}} »7 .6")
    for many, smile, say in ((False, "sonrió", "dijo"), (True, "sonrieron", "dijeron"))
}
_WELCOME = word_chunk("you are welcome", "de nada")
_GREETINGS = parse_glosses(
    "good1 morning2 = buenos1 días2, good1 night2 = buenas1 noches2, good1 afternoon2 = buenas1 tardes2, "
    "hello1 = hola1, goodbye1 = adiós1, see1 you1 tomorrow2 = hasta1 mañana2, see1 you1 soon2 = hasta1 pronto2, "
    "thank1 you1 = gracias1, thank1 you1 very2 much2 = muchas2 gracias1, happy1 birthday2 = feliz1 cumpleaños2"
)
_ADDRESSES = parse_glosses("sir1 = señor1, madam1 = señora1, my1 friend2 = amigo2 mío1")
_SAYINGS = (("said", "dijo", "dijeron"), ("said", "dijo", "dijeron"), ("answered", "respondió", "respondieron"),
            ("whispered", "susurró", "susurraron"))  # fmt: skip
# The person of a question and of its answer: "Did you ...?" "Yes, I ..."
_EXCHANGES = [
    (PRONOUNS[question], PRONOUNS[answer])
    for question, answer in (("you", "I"), ("you", "I"), ("he", "he"), ("she", "she"), ("they", "they"), ("I", "you"))
]
_WHO = Subject(word_chunk("who", "quién"), THIRD, THIRD, False, "he")
_LO = ("lo", "la", "los", "las")
_ME = (("me", "me"), ("you", "te"), ("us", "nos"), ("him", "le"), ("her", "le"), ("them", "les"))
# Recipients that would be the subject itself: not "I gave me a book".
_OURSELVES = {"I": ("me", "us"), "you": ("you",), "we": ("me", "us"), "they": ("them",)}
_PLEASED = {"I": "me", "you": "te", "he": "le", "she": "le", "we": "nos", "they": "les"}


def _pronoun_for(antecedent: Subject) -> Subject:
    """Return the pronoun that stands for the antecedent and agrees with it."""
    return antecedent._replace(chunk=Chunk([antecedent.pronoun], [], []))


def _without_words(subject: Subject) -> Subject:
    """Return a subject without words, for a verb that follows another: ... and bought; ... y compró."""
    return subject._replace(chunk=Chunk([], [], []))


class Patterns(Grammar):
    """A grammar of whole lines, whose patterns are as frequent as in `PATTERNS`."""

    def __init__(self, generator: random.Random):
        super().__init__(generator)
        # A list with repetitions: one draw is enough for any weights.
        self.patterns = [getattr(self, name) for name, weight in PATTERNS.items() for _ in range(weight)]

    def sentence(self) -> Chunk:
        """Draw one line, with its punctuation."""
        return self.pick(self.patterns)()

    def plain_description(self) -> Chunk:
        """Draw a line like: The ball is blue."""
        subject = self.noun_phrase(self.noun(*DESCRIBED), ("the",), adjective=0.0, plural=0.3)
        quality, copula = self.quality(subject, plain=True)
        return _STOP(self.copula_clause(subject, copula, quality, self.pick(("present", "present", "past"))))

    def rich_description(self) -> Chunk:
        """Draw a line like: Our old house was very big and comfortable yesterday."""
        subject, tense = self.person(), self.pick(BEING)
        if self.chance(0.75):
            return _STOP(self.description(tense))
        mood = self.quality_clause(subject, tense, _FEELINGS)
        return _STOP(self.add_time(mood, tense, 0.0 if tense == "present" else 0.6))

    def plain_action(self) -> Chunk:
        """Draw a line like: The black cat drank the milk."""
        if self.chance(0.5):
            subject = self.noun_phrase(self.noun("animals"), adjective=0.6, plural=0.2)
            verb = self.pick(ANIMAL_VERBS)
        else:
            subject, verb = self.actor(), self.pick(actions)
        target = self.object(verb, subject)
        return _STOP(self.clause(subject, verb, "past", self.accusative(target)))

    def rich_action(self) -> Chunk:
        """Draw a line like: Next week my brother is not going to sell his car."""
        tense = self.pick(_MIX)
        often = tense == "present" and self.chance(0.5)
        return _STOP(self.add_time(self.statement(tense, often=often), tense, 0.0 if often else 0.4))

    def two_actions(self) -> Chunk:
        """Draw a line like: Mary cooked the fish, but John did not wash the plates."""
        tense = self.pick(("past", "past", "future", "present"))
        described = self.chance(0.3)
        second = self.description(tense, self.described_phrase()) if described else self.statement(tense, self.agent())
        first = self.description(tense) if self.chance(0.15) else self.statement(tense)
        return _STOP(self.pick(_JOINTS)(first, second))

    def while_waiting(self) -> Chunk:
        """Draw a line like: The man was reading a newspaper when the doctor arrived."""
        first = self.statement("was -ing", negative=0.0)
        if self.chance(0.5):
            arrival = self.clause(self.person(), self.pick(comings), "past", verb_first=True)
            return _STOP(_WHEN(first, arrival))
        return _STOP(_WHILE(first, self.statement("was -ing", self.agent(), negative=0.0)))

    def because_of_it(self) -> Chunk:
        """Draw a line like: John bought the apple because it was red."""
        subject, verb = self.actor(), self.pick(_THING_VERBS)
        target = self.object(verb, subject, only=verb.objects)
        reason = self.quality_clause(target, "past", _REASONS[target.group], pronoun=_pronoun_for(target))
        act = self.clause(subject, verb, "past", target.chunk, negative=self.chance(0.06))
        return _STOP(_BECAUSE(act, reason))

    def when_in_a_mood(self) -> Chunk:
        """Draw a line like: John and Paul wrote several songs when they were inspired."""
        if self.chance(0.15):
            subject = self.noun_phrase(self.noun("animals"))
        else:
            subject = self.names() if self.chance(0.3) else self.actor()
        animal = subject.group == "animals"
        if not animal and not subject.neutral and self.chance(0.25):
            verb = self.pick(_CREATIVE)
            act = self.clause(subject, verb, "past", self.object(verb, subject).chunk)
            mood = self.quality_clause(subject, "past", _INSPIRED, 0.1, _pronoun_for(subject))
        else:
            act = self.action(subject, "past", negative=self.chance(0.1))
            feelings = _ANIMAL_FEELINGS if animal else _FEELINGS
            mood = self.quality_clause(subject, "past", feelings, 0.0, _pronoun_for(subject))
        return _STOP(self.pick((_WHEN, _WHEN, _BECAUSE))(act, mood))

    def helping(self) -> Chunk:
        """Draw a line like: The girl helped the old man because he was tired: whoever the pronoun fits."""
        subject, target = self.person(plural=0.0), self.person(plural=0.5)
        # "they" can only be the target; another pronoun may be either, in both languages alike.
        described = target if target.pronoun == "they" or self.chance(0.5) else subject
        verb = self.pick(_KIND_VERBS)
        act = self.clause(subject, verb, "past", PERSONAL_A(target.chunk))
        reason = self.quality_clause(described, "past", fitting["kin"], 0.0, _pronoun_for(described))
        return _STOP(_BECAUSE(act, reason))

    def errand(self) -> Chunk:
        """Draw a line like: I went to the store and bought fruits and furniture. They tasted amazing."""
        subject = self.pick(ANY_PRONOUN) if self.chance(0.5) else self.actor()
        trip = self.clause(subject, self.pick(journeys), "past", TO(self.place(*GOALS, adjective=0.08).chunk))
        verb = self.pick(ERRANDS)
        goods = self.goods()
        bought = self.clause(_without_words(subject), verb, "past", goods.chunk)
        return _NEXT(AND(trip, bought), self.verdict(goods))

    def purchase(self) -> Chunk:
        """Draw a line like: My sister bought bread and two red apples. They were expensive."""
        subject, verb = self.actor(), self.pick(ERRANDS)
        goods = self.goods()
        bought = self.clause(subject, verb, "past", goods.chunk)
        return _NEXT(self.add_time(bought, "past", 0.2), self.verdict(goods))

    def goods(self) -> Subject:
        """Draw one thing to buy, or two joined by 'and', which together are feminine only if both are."""
        bare = self.chance(0.6)
        first = self.ware(self.pick(_FOODS if self.chance(0.55) else _WARES), bare)
        if self.chance(0.25):
            return first
        second = self.ware(self.pick(_WARES), bare)
        # Not "apples and apples".
        while second.noun is first.noun:
            second = self.ware(self.pick(_WARES), bare)
        if self.chance(0.5):
            first, second = second, first
        noun = first.noun if first.group in EDIBLE else second.noun
        return Subject(AND(first.chunk, second.chunk), THEM, THEM, first.feminine and second.feminine, "they", noun)

    def ware(self, noun: Noun, bare: bool) -> Subject:
        """Draw a thing to buy, without a determiner if `bare`."""
        if bare:
            return self.noun_phrase(noun, ("",), adjective=0.1, plural=1.0)
        return self.noun_phrase(noun, _WARE, adjective=0.2, plural=0.5)

    def verdict(self, goods: Subject) -> Chunk:
        """Draw a sentence about the goods of the sentence before it, to which its pronoun refers."""
        pronoun = _pronoun_for(goods)
        edible = goods.group in EDIBLE
        chance = self.random()
        if edible and chance < 0.6:
            return self.savour(pronoun, "past")
        if chance < 0.85:
            is_plural_pair = goods.pronoun == "they" and "and" in goods.chunk.english
            choices = _PRICED if is_plural_pair else _REASONS[goods.group]
            return self.quality_clause(goods, "past", choices, pronoun=pronoun)
        quality, _ = self.quality(goods, _PRICED, plain=True)
        verb = (STATE["parecer"]["past"][goods.spanish], "1")
        return weave(((pronoun.pronoun, "1"), ("seemed", "1"), quality), (verb, quality))

    def savour(self, subject: Subject, tense: str) -> Chunk:
        """Draw a clause like: It tasted amazing."""
        base, third, past, sense = _TASTE if self.chance(0.7) else _SMELL
        text = past if tense == "past" else third if subject.english == THIRD else base
        verb = [(STATE[sense][tense][subject.spanish], "1")]
        how = self.pick(_SAVOURS)
        english, spanish = subject.sides
        return weave((*english, (text, "1"), how), (*spanish, *verb, how))

    def tasting(self) -> Chunk:
        """Draw a line like: The fresh strawberries tasted amazing."""
        return _STOP(self.savour(self.noun_phrase(self.pick(_FOODS)), self.pick(("past", "past", "present"))))

    def and_it(self) -> Chunk:
        """Draw a line like: Mary found the keys and gave them to John; the boy opened the box and closed it."""
        subject, first = self.actor(), self.pick(_FIRST_VERBS)
        target = self.object(first, subject, only=first.objects)
        act = self.clause(subject, first, "past", target.chunk)
        clitic = ("them" if target.english == THEM else "it", _LO[target.form])
        # se lo, se la: le before another pronoun becomes se, which has no English word.
        if self.chance(0.35) and target.group in _GIVEABLE:
            recipient = TO(self.person().chunk)
            then = self.clause(_without_words(subject), _GIVE, "past", recipient, clitic=(clitic[0], "se " + clitic[1]))
        else:
            verb = self.pick([verb for verb in _THEN[target.group] if verb is not first])
            then = self.clause(_without_words(subject), verb, "past", clitic=clitic)
        return _STOP(self.add_time(AND(act, then), "past", 0.2))

    def two_sentences(self) -> tuple[Chunk, Chunk]:
        """Draw two lines like: Mary found the key. Paul sold it. Or: The door was red. It is small."""
        # As many masculine as feminine nouns, so that half of the pronouns are right by chance.
        feminine = self.chance(0.5)
        nouns = [n for group in _FOLLOWED for n in nouns_of[group] if n.feminine == feminine and not n.plural_only]
        thing = self.noun_phrase(self.pick(nouns), ("the", "the", "this", "that", "a", "my", "her"), adjective=0.15)
        pronoun = "they" if thing.english == THEM else "it"
        gendered = [a for a in fitting[thing.group] if a.forms[0] != a.forms[1]]
        found = self.chance(0.5)
        first = self.clause(self.name(), _FOUND, "past", thing.chunk) if found else self.quality_clause(thing, "past")
        if self.chance(0.5):
            stand_in = thing._replace(chunk=Chunk([pronoun], [], []))
            quality, copula = self.quality(thing, gendered, plain=True)
            second = self.copula_clause(stand_in, copula, quality, "present", negative=self.chance(0.3))
        else:
            clitic = "them" if pronoun == "they" else "it", _LO[thing.form]
            verb = self.pick(_FOLLOWING_VERBS)
            second = self.clause(self.name(), verb, "past", clitic=clitic, negative=self.chance(0.3))
        return _STOP(first), _STOP(second)

    def and_them(self) -> Chunk:
        """Draw a line like: The boy saw Mary and called her."""
        subject, target = self.person(), self.person()
        first, second = self.pick(_PEOPLE_VERBS), self.pick(_PEOPLE_VERBS)
        while second is first:
            second = self.pick(_PEOPLE_VERBS)
        english = "them" if target.english == THEM else "her" if target.feminine else "him"
        act = self.clause(subject, first, "past", PERSONAL_A(target.chunk))
        then = self.clause(_without_words(subject), second, "past", clitic=(english, _LO[target.form]))
        return _STOP(AND(act, then))

    def giving(self) -> Chunk:
        """Draw a line like: The woman gave the boy a red apple."""
        subject, verb = self.actor(), self.pick(giving)
        determiners = ("a", "the", "his", "her", "this", "some", "several", "two", "three")
        gift = self.noun_phrase(self.pick(verb.objects), determiners)
        tense = self.pick(("past", "past", "future", "going", "want"))
        negative = self.chance(0.1)
        if self.chance(0.3):
            english, spanish = self.pick(_ME)
            while english in _OURSELVES.get(subject.pronoun, ()):
                english, spanish = self.pick(_ME)
            clause = self.clause(subject, verb, tense, gift.chunk, negative=negative, clitic=(english, spanish))
            return _STOP(self.add_time(clause, tense, 0.25))
        receiver = self.person()
        frame = _GIVE_TO if self.chance(0.5) else _GIVE_HIM
        complement = frame(receiver=receiver.chunk, gift=gift.chunk)
        # Spanish names the receiver twice: le dio ... al niño. The pronoun is not linked.
        clitic = ("", "les" if receiver.form > 1 else "le")
        clause = self.clause(subject, verb, tense, complement, negative=negative, clitic=clitic)
        return _STOP(self.add_time(clause, tense, 0.2))

    def liking(self) -> Chunk:
        """Draw a line like: Mary likes the red apples: what is liked becomes the Spanish subject."""
        negative = self.chance(0.2)
        if self.chance(0.35):
            if self.chance(0.4):
                verb = self.pick(moves)
                complement = self.destination(verb)
            else:
                verb = self.pick(_LIKED_VERBS)
                complement = self.accusative(self.object(verb, PRONOUNS["I"], plain=True))
            particle = [(verb.particle, "5")] if verb.particle else []
            liked = weave((("to", "5"), (verb.base, "5"), *particle, complement), ((verb.infinitive, "5"), complement))
            many = False
        else:
            noun = self.noun(*_LIKED)
            thing = self.noun_phrase(noun)
            many, liked = thing.spanish == THEM, thing.chunk
            if self.chance(0.3) and (noun.group in EDIBLE or noun.group == "animals"):
                article = THE[0 if noun.takes_el else noun.feminine + 2 * (noun.english[1] is not None)]
                kind = NOUN[noun][noun.english[1] is not None]
                many, liked = noun.english[1] is not None, weave((kind,), ((article, ""), kind))
        # Gustar agrees with the thing that is liked; an infinitive counts as one thing.
        pleases = ("gustan" if many else "gusta", "1")
        pronoun = self.pick(ANY_PRONOUN) if self.chance(0.45) else None
        subject = pronoun or self.person()
        text = "likes" if subject.english == THIRD and not negative else "like"
        helper = "does" if subject.english == THIRD else "do"
        front = [(helper, "1"), ("not", "3")] if negative else []
        no = [("no", "3")] if negative else []
        if pronoun:
            me = (_PLEASED[pronoun.pronoun], "2")
            return _STOP(weave(((pronoun.pronoun, "2"), *front, (text, "1"), liked), (*no, me, pleases, liked)))
        dative = "les" if subject.form > 1 else "le"
        spanish = (("a", ""), subject.chunk, *no, (dative, ""), pleases, liked)
        return _STOP(weave((subject.chunk, *front, (text, "1"), liked), spanish))

    def locating(self) -> Chunk:
        """Draw a line like: The keys are not on the table; there is a cat under the bed."""
        tense = self.pick(("present", "present", "past"))
        small = self.noun("small", "small", "ball", "animals", "clothes", "dishes", "fruit")
        spot = self.spot()
        if self.chance(0.4):
            many = self.chance(0.4)
            thing = self.noun_phrase(small, _COUNTED if many else ("a",), plural=float(many))
            frame = _THERE[tense, many]
            return _STOP(frame(thing=thing.chunk, spot=spot))
        if self.chance(0.3):
            subject, spot = self.actor(), self.location()
        else:
            subject = self.noun_phrase(small)
        if self.chance(0.25):
            return _ASK(self.copula_clause(subject, "estar", spot, tense, question=True, subject_last=False))
        return _STOP(self.copula_clause(subject, "estar", spot, tense, negative=self.chance(0.15)))

    def spot(self) -> Chunk:
        """Draw the place where a small thing is, with a preposition."""
        chance = self.random()
        if chance < 0.3:
            return ON(self.place("furniture", adjective=0.2).chunk)
        if chance < 0.45:
            return IN(self.place("containers", adjective=0.2).chunk)
        if chance < 0.65:
            return self.location()
        group = self.pick(("furniture", "furniture", "vehicles"))
        return self.pick(BESIDE)(self.place(group, adjective=0.2).chunk)

    def question_of_quality(self) -> Chunk:
        """Draw a line like: Is the ball blue?"""
        subject = self.described_phrase() if self.chance(0.85) else self.pick(ANY_PRONOUN[1:])
        quality, copula = self.quality(subject)
        tense = self.pick(("present", "present", "past"))
        return _ASK(self.copula_clause(subject, copula, quality, tense, question=True))

    def question_of_action(self) -> Chunk:
        """Draw a line like: Did the boy open the window yesterday?"""
        subject, tense = self.actor(), self.pick(_MIX)
        return _ASK(self.add_time(self.action(subject, tense, question=True), tense, 0.25, front=False))

    def question_word(self) -> Chunk:
        """Draw a line like: Who drank the milk? What did Mary buy? Where did the boy play? Why did you sell the car?"""
        chance = self.random()
        if chance < 0.2:
            verb = self.pick(actions)
            target = self.object(verb, _WHO, plain=True)
            question = self.clause(_WHO, verb, "past", self.accusative(target))
            return _ASK(self.add_time(question, "past", 0.2, front=False))
        subject = self.actor()
        if chance < 0.4:
            verb = self.pick(_WHATS)
            tense = self.pick(("past", "past", "future", "going", "was -ing"))
            question = self.clause(subject, verb, tense, self.location() if self.chance(0.3) else None, question=True)
            return _ASK(join_chunks(_WHAT, self.add_time(question, tense, 0.3, front=False)))
        if chance < 0.55:
            verb = self.pick(_WHATS)
            noun = self.pick(verb.objects)
            many = noun.english[1] is not None
            form = noun.feminine + 2 * (many or noun.plural_only)
            amount = word_chunk("how many" if many else "how much", _HOW_MUCH[form])
            question = self.clause(subject, verb, "past", question=True)
            return _ASK(join_chunks(amount, NOUN[noun][many], self.add_time(question, "past", 0.25, front=False)))
        if chance < 0.65:
            thing = self.noun_phrase(self.noun(*_COLOURED), adjective=0.15)
            tense = self.pick(("present", "present", "past"))
            return _ASK(_COLOUR(self.invert_copula(thing, "ser", tense)))
        if chance < 0.8:
            thing = self.noun_phrase(self.noun("small")) if self.chance(0.5) else self.person()
            return _ASK(join_chunks(_WHERE_IS, self.invert_copula(thing, "estar", self.pick(("present", "past")))))
        asking = self.pick(_QUESTION_WORDS)
        tense = self.pick(("past", "past", "future", "want"))
        verb = self.pick(actions)
        target = self.object(verb, subject, plain=True)
        return _ASK(join_chunks(asking, self.clause(subject, verb, tense, self.accusative(target), question=True)))

    def invert_copula(self, subject: Subject, copula: str, tense: str) -> Chunk:
        """Build the end of a question: is the ball; es la bola."""
        verb = (AM[tense][subject.english], "1"), (STATE[copula][tense][subject.spanish], "1")
        return weave((verb[0], subject.chunk), (verb[1], subject.chunk))

    def dialogue(self) -> Chunk:
        """Draw a line like: Did you buy the apples? Yes, I bought them yesterday."""
        verb = self.pick(_THING_VERBS)
        target = self.object(verb, PRONOUNS["you"], plain=True, only=verb.objects)
        yes = self.chance(0.6)
        asked_subject, replying_subject = self.pick(_EXCHANGES)
        question = _ASK(self.clause(asked_subject, verb, "past", target.chunk, question=True))
        clitic = ("them" if target.english == THEM else "it", _LO[target.form])
        reply = self.clause(replying_subject, verb, "past", clitic=clitic, negative=not yes)
        return (_YES if yes else _NO)(question=question, reply=self.add_time(reply, "past", 0.4, front=False))

    def comparison(self) -> Chunk:
        """Draw a line like: This car is more expensive than that bicycle; Mary is as tall as her brother."""
        if self.chance(0.4):
            first, second, group = self.person(), self.person(plural=0.2), "people"
            while second.noun is first.noun:
                second = self.noun_phrase(self.pick(LIVING), KIN, 0.2, 0.2)
        else:
            group = self.pick(("animals", "fruit", "small", "vehicles", "clothes", "furniture", "texts", "places"))
            first, second = (self.noun_phrase(self.noun(group), adjective=0.15) for _ in range(2))
            while second.noun is first.noun:
                second = self.noun_phrase(self.noun(group), adjective=0.15)
        adjective = self.pick(_GRADED[group])
        more = self.comparative(adjective, first.form)
        if self.chance(0.25):
            more = _AS(quality=ADJECTIVE[adjective][first.form], other=second.chunk)
        else:
            more = _THAN(quality=more, other=second.chunk)
        tense = self.pick(("present", "present", "past"))
        return _STOP(self.copula_clause(first, "ser", more, tense, negative=self.chance(0.12)))

    def comparative(self, adjective: Adjective, form: int) -> Chunk:
        """Build the comparative of an adjective: taller, or more expensive."""
        if adjective.comparative:
            return word_chunk(adjective.comparative, f"más {adjective.forms[form]}")
        return join_chunks(_MORE, ADJECTIVE[adjective][form])

    def superlative(self) -> Chunk:
        """Draw a line like: Emma is the tallest girl in the school."""
        if self.chance(0.6):
            noun = self.noun("people")
            subject = self.name()
            while subject.feminine != noun.feminine:
                subject = self.name()
        else:
            noun = self.noun("animals", "vehicles", "texts", "places", "clothes")
            subject = self.noun_phrase(noun, ("this", "that", "my", "your", "our"), adjective=0.0, plural=0.0)
        adjective = self.pick(_GRADED[noun.group])
        form = int(noun.feminine)
        kind = NOUN[noun][0]
        if adjective.comparative:  # from "taller" to "tallest"
            superlative = word_chunk(adjective.comparative[:-1] + "st", f"más {adjective.forms[form]}")
        else:
            superlative = join_chunks(_MOST, ADJECTIVE[adjective][form])
        # the tallest girl, la niña más alta: the noun comes between article and adjective.
        the = DETERMINER["the", False][form]
        whole = weave((the, superlative, kind), (the, kind, superlative))
        complement = _OF(whole=whole, place=self.place("places", adjective=0.1).chunk)
        return _STOP(self.copula_clause(subject, "ser", complement, self.pick(("present", "past"))))

    def relative(self) -> Chunk:
        """Draw a line like: The boy who broke the window was nervous; the book that Mary read is interesting."""
        tense = self.pick(("present", "past", "past"))
        if self.chance(0.5):
            person = self.noun_phrase(self.noun("people"), ("the",), adjective=0.15)
            does = self.action(_without_words(person), "past", negative=self.chance(0.1))
            subject = person._replace(chunk=_WHO_DID(person.chunk, does))
        else:
            verb = self.pick(_THING_VERBS)
            thing = self.noun_phrase(self.pick(verb.objects), ("the",), adjective=0.15)
            does = self.clause(self.actor(), verb, "past", verb_first=True)
            subject = thing._replace(chunk=_THAT_DID(thing.chunk, does))
        if subject.group == "people" and self.chance(0.4):
            return _STOP(self.statement(self.pick(("past", "future")), subject))
        return _STOP(self.quality_clause(subject, tense))

    def presenting(self) -> Chunk:
        """Draw a line like: These are my shoes; this is a beautiful flower: the pronoun agrees with what follows."""
        group = self.pick(("small", "clothes", "vehicles", "kin", "texts", "rooms", "fruit", "instruments"))
        thing = self.noun_phrase(self.noun(group), ("a", "the", *POSSESSIVES, *POSSESSIVES))
        name = self.pick(("this", "this", "that"))
        words = word_chunk(DETERMINERS[name][thing.english == THEM], DETERMINERS[name][2].split()[thing.form])
        demonstrative = Subject(words, thing.english, thing.spanish, False, "it")
        return _STOP(self.copula_clause(demonstrative, "ser", thing.chunk, "present", negative=self.chance(0.2)))

    def professing(self) -> Chunk:
        """Draw a line like: Mary is a doctor; my brother wants to be an engineer; Anna is ten years old."""
        if self.chance(0.3):
            young = self.name() if self.chance(0.5) else self.noun_phrase(self.pick(_YOUNG), KIN, 0.15, 0.0)
            years = _YEARS(number=NUMBERS[self.pick(tuple(NUMBERS))][0])
            return _STOP(self.copula_clause(young, "tener", years, self.pick(("present", "past"))))
        person = self.name() if self.chance(0.4) else self.noun_phrase(self.noun("kin"), KIN, 0.15, 0.0)
        english, *spanish = self.pick(_PROFESSIONS)
        trade = word_chunk(english, spanish[person.feminine])
        if self.chance(0.35):
            return _STOP(_WANTS_TO_BE(person.chunk, trade=trade))
        tense = self.pick(("present", "past", "future"))
        return _STOP(self.copula_clause(person, "ser", _A_TRADE(trade), tense, negative=self.chance(0.12)))

    def ordering(self) -> Chunk:
        """Draw a line like: Close the green door, please."""
        verb = self.pick(_ORDERS)
        target = self.noun_phrase(self.pick(verb.objects))
        particle = [(verb.particle, "1")] if verb.particle else []
        complement = self.accusative(target)
        # The familiar imperative is the third person of the present: cierra.
        act = weave(((verb.base, "1"), *particle, complement), ((verb.spanish["present"][THIRD], "1"), complement))
        frame = self.pick(_PLEASE)
        return frame(act=act, name=self.name().chunk)

    def exclaiming(self) -> Chunk:
        """Draw a line like: What a beautiful flower!"""
        groups = "animals", "fruit", "small", "vehicles", "clothes", "outdoors", "places", "texts", "nature", "songs"
        group = self.pick(groups)
        noun = self.noun(group)
        adjective = self.pick(_GRADED[group] or _GRADED["small"])
        quality = ADJECTIVE[adjective][int(noun.feminine)]
        return _EXCLAIM(_WHAT_A(quality=quality, thing=NOUN[noun][0]))

    def courtesy(self) -> Chunk:
        """Draw a line like: Good morning, John. Thank you for the red apples, Anna."""
        greeting, name = self.pick(_GREETINGS), self.name().chunk
        if self.chance(0.3):
            thanks = _THANKS(self.noun_phrase(self.pick(_GIFTS), _THANKED).chunk)
            return _STOP(_VOCATIVE(thanks, name))
        first = _VOCATIVE(greeting, name)
        return _NEXT(first, self.description() if self.chance(0.5) else self.statement("past"))

    def welcome(self) -> Chunk:
        """Draw a line like: "You are welcome," said the old man: the idiom, always inside something longer."""
        chance, name = self.random(), self.name().chunk
        if chance < 0.25:
            return self.add_speaker(_QUOTED(_WELCOME) if self.chance(0.7) else _QUOTED_TO(_WELCOME, name))
        if chance < 0.35:
            speaker = self.person(plural=0.25)
            return _SAID_COLON[speaker.form > 1](speaker.chunk, _WELCOME)
        thanks = _THANKS(self.noun_phrase(self.pick(_GIFTS), _THANKED).chunk)
        if chance < 0.6:
            return _NEXT(thanks if self.chance(0.6) else _VOCATIVE(thanks, name), _WELCOME)
        reply = _VOCATIVE(_WELCOME, name=name if self.chance(0.7) else self.pick(_ADDRESSES))
        if chance < 0.7:
            return _NEXT(thanks, reply)
        if chance < 0.72:
            return _NEXT(_WELCOME, _VOCATIVE(self.pick(_GREETINGS), name))
        first = reply if chance < 0.82 else _WELCOME
        if self.chance(0.5):
            return _NEXT(first, self.description("past"))
        return _NEXT(first, self.statement(self.pick(("past", "future", "present"))))

    def quoting(self) -> Chunk:
        """Draw a line like: "I am tired," said Mary: the adjective agrees with whoever speaks."""
        speaker = self.speaker()
        person, pronoun = (US, "we") if speaker.form > 1 else (FIRST, "I")
        # "I" has the gender of the speaker, which the adjective shows in Spanish.
        inner = Subject(Chunk([pronoun], [], []), person, person, speaker.feminine, pronoun)
        if self.chance(0.5):
            clause = self.quality_clause(speaker, "present", pronoun=inner)
        else:
            tense = self.pick(("past", "future", "want", "can", "must", "going"))
            clause = self.action(inner, tense, negative=self.chance(0.2))
        return self.add_speaker(_QUOTED(clause), speaker)

    def speaker(self) -> Subject:
        return self.person(plural=0.25) if self.chance(0.8) else self.pick((PRONOUNS["he"], PRONOUNS["she"]))

    def add_speaker(self, quoted: Chunk, speaker: Subject | None = None) -> Chunk:
        """Add "said Mary", or the like, to a quotation."""
        speaker = speaker or self.speaker()
        english, singular, plural = self.pick(_SAYINGS)
        verb = (english, "1"), (plural if speaker.form > 1 else singular, "1")
        if not speaker.chunk.spanish:
            pronoun = word_chunk(speaker.pronoun, "ella" if speaker.feminine else "él")
            return _STOP(weave((quoted, pronoun, verb[0]), (quoted, verb[1], pronoun)))
        return _STOP(weave((quoted, verb[0], speaker.chunk), (quoted, verb[1], speaker.chunk)))


PATTERNS = {  # how often each is drawn
    "plain_description": 12, "rich_description": 10, "plain_action": 14, "rich_action": 18, "two_actions": 8,
    "while_waiting": 4, "because_of_it": 8, "when_in_a_mood": 12, "helping": 3, "errand": 12, "purchase": 5,
    "tasting": 3, "and_it": 5, "and_them": 2, "giving": 5, "liking": 4, "locating": 7, "question_of_quality": 4,
    "question_of_action": 5, "question_word": 6, "dialogue": 3, "comparison": 4, "superlative": 2, "relative": 5,
    "presenting": 3, "professing": 3, "ordering": 4, "exclaiming": 2, "courtesy": 2, "welcome": 9, "quoting": 4,
}  # fmt: skip
