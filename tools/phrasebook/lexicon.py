"""The words of the phrasebook: English beside Spanish, the rules that inflect them, and the exceptions."""

from __future__ import annotations

from typing import NamedTuple

# ---------------------------------------------------------------- nouns
# "english[/plural] spanish gender": m or f; mp is plural in Spanish only; fa is feminine but takes "el" (el agua fría).
# Instead of a plural, "-" marks what is not counted (no "a milk", no "milks") and "=" what there is one of.

_NOUNS = {
    "people": "boy niño m, girl niña f, man/men hombre m, woman/women mujer f, child/children niño m, doctor médico m, "
    "farmer granjero m, writer escritor m, nurse enfermera f, "
    "king rey m, queen reina f, student alumno m",
    "kin": "mother/= madre f, father/= padre m, sister hermana f, brother hermano m, aunt tía f, uncle tío m, "
    "grandmother/= abuela f, grandfather/= abuelo m, daughter hija f, son hijo m, friend amigo m, "
    "neighbor vecino m, teacher profesor m",
    "animals": "cat gato m, dog perro m, horse caballo m, cow vaca f, bird pájaro m, rabbit conejo m, duck pato m, "
    "mouse/mice ratón m, bear oso m, lion león m, turtle tortuga f, frog rana f",
    "fruit": "apple manzana f, pear pera f, orange naranja f, banana plátano m, strawberry fresa f, "
    "lemon limón m, tomato/tomatoes tomate m, onion cebolla f",
    "food": "fruit fruta f, vegetable verdura f, cake pastel m, cookie galleta f, salad ensalada f, "
    "potato/potatoes patata f, sandwich bocadillo m",
    "staples": "bread/- pan m, cheese/- queso m, meat/- carne f, fish/- pescado m, rice/- arroz m, soup/- sopa f, "
    "chocolate/- chocolate m",
    "drinks": "wine/- vino m, coffee/- café m, tea/- té m, juice/- jugo m",
    "pure": "milk/- leche f, water/- agua fa",
    "instruments": "guitar guitarra f, piano piano m, violin violín m, flute flauta f",
    "texts": "book libro m, letter carta f, poem poema m, story cuento m, novel novela f",
    "songs": "song canción f",
    "furniture": "table mesa f, chair silla f, bed cama f, sofa sofá m",
    "household": "lamp lámpara f, mirror espejo m, picture cuadro m, furniture/- muebles mp",
    "openings": "door puerta f, window ventana f",
    "containers": "box caja f, bag bolsa f",
    "dishes": "cup taza f, glass vaso m, plate plato m",
    "small": "key llave f, pencil lápiz m, pen bolígrafo m, coin moneda f, "
    "ring anillo m, clock reloj m, photo foto f, phone teléfono m, toy juguete m, doll muñeca f, gift regalo m, "
    "knife/knives cuchillo m",
    "ball": "ball/= bola f",
    "vehicles": "car coche m, bicycle bicicleta f, boat barco m, truck camión m",
    "clothes": "shirt camisa f, dress vestido m, shoe zapato m, hat sombrero m, coat abrigo m, skirt falda f, "
    "jacket chaqueta f",
    "places": "store tienda f, school escuela f, church iglesia f, library biblioteca f, hospital hospital m, "
    "museum museo m, restaurant restaurante m, bank banco m, "
    "hotel hotel m, castle castillo m",
    "sites": "station estación f, beach playa f, farm granja f",
    "outdoors": "market mercado m, park parque m, square plaza f, forest bosque m, village pueblo m, city ciudad f",
    "rooms": "kitchen cocina f, garden jardín m, house casa f",
    "waters": "river río m, lake lago m, sea/= mar m",
    "heavens": "sky/= cielo m, moon/= luna f, sun/= sol m",
    "nature": "cloud nube f, star estrella f, mountain montaña f, tree árbol m, flower flor f, leaf/leaves hoja f",
}

MEN = ["John", "Paul", "Peter", "David", "Thomas", "Daniel"]
WOMEN = ["Mary", "Anna", "Laura", "Emma", "Julia", "Sarah"]

# english, masculine, feminine: a profession takes no article in Spanish (Mary is a doctor: Mary es médica)
PROFESSIONS = (
    "teacher profesor profesora, doctor médico médica, farmer granjero granjera, writer escritor escritora, "
    "painter pintor pintora, engineer ingeniero ingeniera, lawyer abogado abogada, singer cantante cantante"
)

NUMBERS = "two dos, three tres, four cuatro, five cinco, six seis, seven siete, eight ocho, nine nueve, ten diez"

# ---------------------------------------------------------------- adjectives
# group: (copula, "english[>comparative] spanish"). A "*" in front: no degree (very, too, more) goes with it.
# The adjective alone decides between ser and estar; with tener it is a noun that never agrees (tengo hambre).

ADJECTIVES = {
    "coat": ("ser", "*black negro, *white blanco, *brown marrón, *gray gris"),
    "ripeness": ("ser", "*red rojo, *green verde, *yellow amarillo"),
    "blue": ("ser", "*blue azul"),
    "purple": ("ser", "*purple morado"),
    "size": ("ser", "big>bigger grande, small>smaller pequeño"),
    "price": ("ser", "expensive caro, cheap>cheaper barato"),
    "age": ("ser", "new>newer nuevo, old>older viejo"),
    "beauty": ("ser", "beautiful hermoso"),
    "opinion": ("ser", "*amazing increíble, *horrible horrible, strange>stranger raro"),
    "taste": ("estar", "*delicious delicioso, fresh fresco"),
    "heat": ("estar", "cold frío, hot caliente"),
    "sweetness": ("ser", "sweet>sweeter dulce"),
    "care": ("estar", "clean limpio, dirty sucio"),
    "damp": ("estar", "wet mojado, dry seco"),
    "damage": ("estar", "*broken roto"),
    "filling": ("estar", "*empty vacío, *full lleno"),
    "access": ("estar", "*open abierto, *closed cerrado"),
    "reading": ("ser", "interesting interesante, boring aburrido, difficult difícil, easy>easier fácil"),
    "length": ("ser", "long>longer largo"),
    "fame": ("ser", "famous famoso"),
        "use": ("ser", "useful útil, heavy>heavier pesado"),
    "style": ("ser", "modern moderno"),
    "elegance": ("ser", "elegant elegante"),
    "speed": ("ser", "fast>faster rápido, slow>slower lento"),
    "danger": ("ser", "dangerous peligroso"),
    "body": ("ser", "tall>taller alto, young>younger joven, strong>stronger fuerte"),
    "character": ("ser", "intelligent inteligente, kind>kinder amable, friendly simpático, brave>braver valiente, "
                  "shy tímido, patient paciente"),
    "mood": ("estar", "tired cansado, sad triste, happy>happier feliz, nervous nervioso, calm tranquilo, "
             "*sick enfermo, angry enojado"),
    "mind": ("estar", "worried preocupado, bored aburrido, busy ocupado, *inspired inspirado, excited emocionado"),
    "need": ("tener", "*hungry hambre, *thirsty sed, *afraid miedo"),
}  # fmt: skip

COLOURS = "blue coat ripeness purple"

# which adjectives go with which nouns
_FITTING = {
    "people": "body character mood mind need fame",
    "kin": "body character mood mind need",
    "animals": "coat coat size mood need speed beauty danger",
    "fruit": "ripeness ripeness taste price size sweetness",
    "food": "taste price size",
    "staples": "taste price",
    "drinks": "heat price sweetness",
    "pure": "heat",
    "instruments": f"{COLOURS} price age beauty",
    "texts": "reading length fame price age opinion",
    "songs": "reading length fame beauty opinion",
    "furniture": f"{COLOURS} size price age care use",
    "household": "price age opinion beauty care",
    "openings": f"{COLOURS} access care size",
    "containers": f"{COLOURS} size price filling use",
    "dishes": f"{COLOURS} size care damage filling",
    "small": f"{COLOURS} {COLOURS} size price age damage use",
    "ball": f"{COLOURS} {COLOURS} size price age",
    "vehicles": f"{COLOURS} size price age speed",
    "clothes": f"{COLOURS} {COLOURS} price age elegance care damp length",
    "places": "size age style filling access fame",
    "sites": "size beauty fame",
    "outdoors": "size beauty fame",
    "rooms": "size age care style",
    "waters": f"{COLOURS} beauty danger",
    "heavens": f"{COLOURS} beauty opinion",
    "nature": f"{COLOURS} size beauty",
}

# ---------------------------------------------------------------- verbs
# "english past -ing [particle] = spanish[>present stem] : groups of objects".
# In the past, verbs of state take the imperfect (necesitaba), all others the preterite (bebió).

_GOODS = "fruit food staples drinks texts furniture household small ball vehicles clothes dishes instruments"
_ALL = f"{_GOODS} people kin animals places sites outdoors rooms waters heavens nature"

_ACTIONS = f"""
eat ate eating = comer : fruit food staples
drink drank drinking = beber : drinks pure
buy bought buying = comprar : {_GOODS} pure containers
sell sold selling = vender : {_GOODS}
see saw seeing = ver : {_ALL}
find found finding = encontrar>encuentr : small ball clothes animals people containers texts
lose lost losing = perder>pierd : small ball clothes
look looked looking for = buscar : small ball clothes animals people kin texts
look looked looking at = mirar : heavens heavens nature waters household people
clean cleaned cleaning = limpiar : furniture dishes openings rooms
wash washed washing = lavar : dishes ball clothes fruit vehicles
paint painted painting = pintar : furniture ball openings rooms nature heavens
write wrote writing = escribir : texts songs songs songs
read read reading = leer : texts
sing sang singing = cantar : songs
listen listened listening to = escuchar : songs people kin
open opened opening = abrir : openings containers
close closed closing = cerrar>cierr : openings containers
break broke breaking = romper : dishes openings small
bring brought bringing = traer : fruit food staples drinks small ball dishes
prepare prepared preparing = preparar : food staples drinks
help helped helping = ayudar : people kin
visit visited visiting = visitar : people kin places sites
call called calling = llamar : people kin
play played playing = tocar : instruments
receive received receiving = recibir : texts small ball
send sent sending = mandar : texts small ball clothes
"""

STATES = f"""
need needed needing = necesitar : {_GOODS}
have had having = tener : {_GOODS} animals
want wanted wanting = querer>quier : {_GOODS}
"""

_MOVES = """
play played playing = jugar>jueg :
run ran running = correr :
walk walked walking = caminar :
sleep slept sleeping = dormir>duerm :
dance danced dancing = bailar :
work worked working = trabajar :
study studied studying = estudiar :
cry cried crying = llorar :
sing sang singing = cantar :
swim swam swimming = nadar :
"""

_JOURNEYS = """
go went going = ir :
go went going = ir :
return returned returning = regresar :
walk walked walking = caminar :
"""

_COMINGS = """
arrive arrived arriving = llegar :
leave left leaving = salir :
"""

_GIVING = """
give gave giving = dar : small ball clothes fruit food instruments texts
show showed showing = mostrar>muestr : small ball clothes texts vehicles
send sent sending = mandar : small clothes texts
bring brought bringing = traer : small fruit food dishes
"""

_IRREGULAR = {
    "traer": {"present": "traigo traes trae traemos traen", "past": "traje trajiste trajo trajimos trajeron",
              "gerund": "trayendo"},
    "ver": {"present": "veo ves ve vemos ven", "past": "vi viste vio vimos vieron"},
    "leer": {"past": "leí leíste leyó leímos leyeron", "gerund": "leyendo"},
    "tener": {"present": "tengo tienes tiene tenemos tienen",
              "future": "tendré tendrás tendrá tendremos tendrán"},
    "querer": {"future": "querré querrás querrá querremos querrán"},
    "dormir": {"past": "dormí dormiste durmió dormimos durmieron", "gerund": "durmiendo"},
    "buscar": {"past": "busqué buscaste buscó buscamos buscaron"},
    "tocar": {"past": "toqué tocaste tocó tocamos tocaron"},
    "jugar": {"past": "jugué jugaste jugó jugamos jugaron"},
    "llegar": {"past": "llegué llegaste llegó llegamos llegaron"},
    "ir": {"present": "voy vas va vamos van", "past": "fui fuiste fue fuimos fueron", "gerund": "yendo"},
    "dar": {"present": "doy das da damos dan", "past": "di diste dio dimos dieron"},
    "ser": {"present": "soy eres es somos son", "imperfect": "era eras era éramos eran"},
    "estar": {"present": "estoy estás está estamos están"},
    "poder": {"present": "puedo puedes puede podemos pueden"},
    "saber": {"present": "sé sabes sabe sabemos saben"},
    "oler": {"present": "huelo hueles huele olemos huelen"},
    "parecer": {"present": "parezco pareces parece parecemos parecen"},
}  # fmt: skip

_ENDINGS = {
    "present": {"a": "o as a amos an", "e": "o es e emos en", "i": "o es e imos en"},
    "past": {"a": "é aste ó amos aron", "e": "í iste ió imos ieron", "i": "í iste ió imos ieron"},
    "imperfect": {"a": "aba abas aba ábamos aban", "e": "ía ías ía íamos ían", "i": "ía ías ía íamos ían"},
    "gerund": {"a": "ando", "e": "iendo", "i": "iendo"},
}


class Noun(NamedTuple):
    """A noun in both languages, as (singular, plural); a plural of None is never used."""

    group: str
    english: tuple[str, str | None]
    spanish: tuple[str, str]
    feminine: bool
    takes_el: bool  # feminine with a stressed a-: el agua
    plural_only: bool  # singular in English, plural in Spanish: furniture, muebles
    counted: bool


class Adjective(NamedTuple):
    """An adjective, with its Spanish forms in the order niño, niña, niños, niñas."""

    group: str
    english: str
    forms: tuple[str, str, str, str]
    copula: str
    graded: bool
    comparative: str | None


class Verb(NamedTuple):
    """A verb, with its Spanish tenses as tuples over yo, tú, él, nosotros, ellos."""

    base: str
    third: str
    past: str
    ing: str
    particle: str | None
    infinitive: str
    spanish: dict[str, tuple[str, ...]]
    gerund: str
    objects: tuple[Noun, ...]

    @property
    def present_is_past(self) -> bool:
        """Whether the English present is spelled like the past: 'they read' would have two translations."""
        return self.base == self.past


def _english_plural(noun: str) -> str:
    """Return the regular English plural, which is also the third person of a verb.

    >>> [_english_plural(n) for n in ("cat", "box", "cherry", "boy")]
    ['cats', 'boxes', 'cherries', 'boys']
    """
    if noun.endswith(("s", "x", "ch", "sh")):
        return noun + "es"
    return noun[:-1] + "ies" if noun.endswith("y") and noun[-2] not in "aeou" else noun + "s"


def _spanish_plural(word: str) -> str:
    """Return the regular Spanish plural of a noun or adjective.

    >>> [_spanish_plural(n) for n in ("bola", "flor", "lápiz", "canción", "café")]
    ['bolas', 'flores', 'lápices', 'canciones', 'cafés']
    """
    if word[-1] in "aeoáéó":
        return word + "s"
    if word[-1] == "z":
        return word[:-1] + "ces"
    if word[-1] in "ns":  # the accent of the last syllable falls away: ca-mión, ca-mio-nes
        word = word[:-2] + word[-2].translate(str.maketrans("áéíóú", "aeiou")) + word[-1]
    return {"joven": "jóven"}.get(word, word) + "es"


def adjective_forms(masculine: str) -> tuple[str, str, str, str]:
    """Return the masculine and feminine of an adjective, and their plurals.

    >>> adjective_forms("rojo"), adjective_forms("azul")
    (('rojo', 'roja', 'rojos', 'rojas'), ('azul', 'azul', 'azules', 'azules'))
    """
    feminine = masculine[:-1] + "a" if masculine.endswith("o") else masculine
    return masculine, feminine, _spanish_plural(masculine), _spanish_plural(feminine)


def conjugate(infinitive: str, stem: str | None = None) -> tuple[dict[str, tuple[str, ...]], str]:
    """Return the tenses over (yo, tú, él, nosotros, ellos) and the gerund; `stem` is the stressed stem of the present.

    >>> conjugate("cerrar", "cierr")[0]["present"]
    ('cierro', 'cierras', 'cierra', 'cerramos', 'cierran')
    """
    root, vowel = infinitive[:-2], infinitive[-2]
    tenses = {tense: tuple(root + end for end in ends[vowel].split()) for tense, ends in _ENDINGS.items()}
    # The stress of nosotros is on the ending, so its stem stays: cerramos.
    if stem:
        tenses["present"] = tuple(
            form if i == 3 else stem + form[len(root) :] for i, form in enumerate(tenses["present"])
        )
    tenses["future"] = tuple(infinitive + end for end in ["é", "ás", "á", "emos", "án"])
    tenses |= {tense: tuple(forms.split()) for tense, forms in _IRREGULAR.get(infinitive, {}).items()}
    return tenses, tenses.pop("gerund")[0]


def find_nouns(groups: str) -> list[Noun]:
    """Return the nouns of several groups, a group as often as it is named."""
    return [noun for group in groups.split() for noun in nouns_of[group]]


def find_verbs(infinitives: str) -> list[Verb]:
    """Return actions by their Spanish infinitives, each as often as it is named."""
    return [verb for infinitive in infinitives.split() for verb in actions if verb.infinitive == infinitive]


def _parse_noun(group: str, english: str, spanish: str, gender: str) -> Noun:
    singular, _, suffix = english.partition("/")
    plural = None if suffix in ("-", "=") else suffix or _english_plural(singular)
    forms = (spanish, spanish) if gender == "mp" else (spanish, _spanish_plural(spanish))
    return Noun(group, (singular, plural), forms, gender[0] == "f", gender == "fa", gender == "mp", suffix != "-")


def _parse_adjective(group: str, copula: str, english: str, spanish: str) -> Adjective:
    word, _, comparative = english.lstrip("*").partition(">")
    forms = (spanish, spanish, spanish, spanish) if copula == "tener" else adjective_forms(spanish)
    return Adjective(group, word, forms, copula, not english.startswith("*"), comparative or None)


def _parse_verb(line: str, state: bool = False) -> Verb:
    forms, objects = line.split(" :")
    english, spanish = forms.split(" = ")
    base, past, ing, *particle = english.split()
    infinitive, _, stem = spanish.partition(">")
    tenses, gerund = conjugate(infinitive, stem or None)
    if state:
        tenses["past"] = tenses["imperfect"]
    third = {"have": "has", "go": "goes"}.get(base) or _english_plural(base)
    nouns = tuple(noun for group in objects.split() for noun in nouns_of[group])
    return Verb(base, third, past, ing, next(iter(particle), None), infinitive, tenses, gerund, nouns)


nouns_of = {
    group: tuple(_parse_noun(group, *entry.split()) for entry in table.split(", ")) for group, table in _NOUNS.items()
}
adjectives_of = {
    group: tuple(_parse_adjective(group, copula, *entry.split()) for entry in table.split(", "))
    for group, (copula, table) in ADJECTIVES.items()
}
fitting = {group: tuple(a for name in names.split() for a in adjectives_of[name]) for group, names in _FITTING.items()}
of_the_living = {a.english for group in ("people", "kin") for a in fitting[group]}
actions, moves, journeys, comings, giving = (
    tuple(map(_parse_verb, table.strip().splitlines())) for table in (_ACTIONS, _MOVES, _JOURNEYS, _COMINGS, _GIVING)
)
states = tuple(_parse_verb(line, state=True) for line in STATES.strip().splitlines())
