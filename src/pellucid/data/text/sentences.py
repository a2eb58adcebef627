"""Finds the ends of the sentences of a text in any language, from the marks in it and the words around them."""

import re


def _read_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Marks after which a sentence ends if white space and no small letter
# follow, and marks that always end a sentence.
WESTERN_MARKS = ".!?…‼⁇⁈⁉‽"
CERTAIN_MARKS = "。！？｡।॥؟۔։።፧፨။།។៕᠃᠉෴᙮꓿"
GREEK_QUESTION_MARK = ";\u037e"
MARKS = WESTERN_MARKS + CERTAIN_MARKS + GREEK_QUESTION_MARK

# What may follow a mark and still belong to its sentence: quotes, brackets, invisible
# characters, notes as ¹ or [1]. German and other languages close their quotes with “
# or «, which are followed by white space then.
CLOSERS = r"""["'”’»›)\]}」』）】〉》〕*_¹²³⁰⁴-⁹†‡\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]"""
TAIL = rf"(?:{CLOSERS}|[“«‹](?=\s|{CLOSERS})|\[\w{{1,3}}\])*+(?:\s[»›](?=[\s,.;]|\Z)|\s[」』])?"

# What may stand before the first letter of a sentence.
OPENERS = r"""(?:[(\[{「『（【《〈\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff–—-]\s*+)*+"""

# Possessive quantifiers (*+, ++) everywhere: no text, however long, makes a search go back
# and try again. The pattern begins with a set of characters, which is found quickly; only
# then it is made sure that no mark stands before.
SENTENCE_END = re.compile(
    rf"(?P<marks>[{MARKS}](?<![{MARKS}][{MARKS}])[{MARKS}]*+(?:\s[!?！？]++(?=\s|\Z|{CLOSERS}))*+){TAIL}"
    rf"(?=(?P<gap>\s*+)(?P<openers>{OPENERS})(?P<following>\S?))"
)

LETTER_OR_DIGIT = re.compile(r"[^\W_]")
# A letter, with the signs that combine with it.
LETTER = r"[^\s\d!-/:-@\[-`{-~¡-©«-¹»-¿\u2000-\u206f\u3000-\u303f]"
# A word before a full stop, with the initials before it: "Dr", "U.S", "z. B".
LAST_WORD = re.compile(
    rf"(?:\A|(?<=[\s(\[/–—-]))[\"'’“„«]*+(?:[DLdl]['’])?((?:{LETTER}\.\s?)*+{LETTER}++)\Z"
)
INITIALS = re.compile(rf"(?:{LETTER}\.\s?)*+{LETTER}\Z|(?:{LETTER}\.)++{LETTER}{{1,3}}\Z")
LONGEST_BEFORE = 24
FIRST_WORD = re.compile(rf"{LETTER}++(?=[\s'’,])")
GREEK_LETTER = re.compile(r"[\u0370-\u03ff\u1f00-\u1fff]")
UNSPACED_LETTER = re.compile(  # of a script that puts no spaces between sentences
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)

# At the beginning of a sentence, the number or the letter of a list: "1.", "2.1.", "b.", "IV.".
LABEL = re.compile(r"(?:[0-9]{1,3}|[IVX]{1,4}|[^\W\d_])(?:\.(?:[0-9]{1,3}|[^\W\d_]))*+\Z")
# An ordinal number as German writes it, after a word that asks for one:
# "am 3. Mai", but not "I am 12. Tom is 13."
ORDINAL = re.compile(
    r"(?:\A|\s)(?:(?<!I )am|der|die|das|dem|den|des|im|ins|vom|zum|zur|beim|ab|bis|seit|und|jede[mnrs]?|eine[mnrs]?)"
    r"\s(?:[1-9][0-9]?|[IVX]{2,7})\Z|\([1-9][0-9]?\Z",
    re.IGNORECASE,
)
PLAIN_NUMBER = re.compile(r"(?:\A|(?<=[\s(]))(?:[1-9][0-9]?|[IVX]{2,7})\Z")
GERMAN_MONTHS = _read_words(
    "Januar Jänner Februar März April Mai Juni Juli August September Oktober November Dezember Jahrhundert"
)
NUMBER_START = re.compile(r"[0-9]|[IVX]{2,7}(?![^\W_])")

# A word in small letters is known with a capital, too; one with a capital
# only so ("Sen.", for "sen" is Czech). Something always follows these:
# titles, and words that lead to an example or a name.
LEADING_ABBREVIATIONS = _read_words("""
    Adm Brig Capt Cmdr Col Cpl dipl dhr Dir dott dr Dra drs Frl Gen Gov Hon Hr Hrn Ing judr Lt Maj
    Messrs mevr Mgr mlle mlles mme mmes mr mrs Ms msgr Mt mudr mvdr paeddr Pfc phdr Pres Prof Pvt
    Rep Reps Rev rndr Sen Sens Sgt sig sra srta Supt акад доц ім
    avv Doç Exma Exmo Öğr sigg Sn Srs Sras Yrd
    bijv bzw cf d.h e.g esim i.e např np p.ej p.es p.ex popř příp t.ex t.j tj tzn tzv vgl vs z.b
    напр т.е т.зв т.к
""")
# These may be the last word of a sentence.
ABBREVIATIONS = _read_words("""
    Abb Abs al apod approx aprox assn av avda ave Bd bde bldg blvd boul Bros ca cca chap chr cía
    Co corp dept doc dpto eds ee einschl evtl Fa ff Fr geb gegr gest ggf hl hrsg hs inc inkl jh
    jhd jr kap Lic ltd Min mio mj mld mm mrd Nr nrs num núm obl pág págs pl pp pr prof pte resp
    sek sog sr st Sta std Ste sté str sv taf tel tél teléf tis tsd tř Ud Uds ul univ uu Vd Vds
    vols zz zzgl św
    вул гр грн др коп млн млрд обл пл просп проф руб св см ст тис тыс ул
""")
# These are abbreviations before a number.
ABBREVIATIONS_BEFORE_NUMBERS = _read_words("""
    abb abs apt art arts bd cap ch čís čl col ed fig figs lit max min nar no nos nr odst op pag
    par pos rdn ref roč sec sect tab tlf ust vol ziff godz kl
    jan jän janv feb febr févr mar apr avr abr jun jul juil aug ago sep sept oct okt nov dec déc
    dez dic ene гл ок прибл рис стр табл
""")
# Often the first word of a sentence, and hardly ever the first word of a name.
FIRST_WORDS = _read_words("""
    A After All Also Although An And Another As At Because Before Both But By Each Even Every For
    From He Her Here His How However I If In Is It Its Many Most My Not Now On One Only Or Our
    Perhaps She Since So Some Such That The Their Then There These They This Those Though Through
    To Under We What When Where Which While Who Why With Yes You Your Aber Alle Als Auch Auf Aus
    Bei Beim Bis Da Damit Dann Das Dass Denn Der Deshalb Die Dies Diese Dieser Dieses Doch Dort
    Ein Eine Einen Einer Er Es Für Ich Ihr Ihre Im In Ist Ja Jetzt Kein Keine Man Mein Meine Mit
    Nach Nein Nicht Noch Nun Nur Ob Obwohl Oder Sein Seine Seit Sie Sind So Und Unser Vom Vor War
    Warum Was Weil Wenn Wer Wie Wir Wo Zu Zum Zur Zwar
    À Après Au Aucun Aussi Aux Avec C Car Ce Cela Celle Celui Cependant Ces Cet Cette Chaque Comme
    Comment D Dans Depuis Dès Donc Elle Elles En Est Et Grâce Il Ils J Je L La Là Le Les Leur
    Leurs Lors Lorsque Ma Mais Même Mon N Ne Non Nos Notre Nous On Ou Où Oui Par Pas Plus Pour
    Pourquoi Puis Qu Quand Que Quel Quelle Quelques Qui S Sa Sans Se Ses Si Son Sous Sur Tous Tout
    Toutes Très Tu Un Une Vos Votre Vous Y
    Además Al Algunos Así Aunque Cada Como Con Cuando Desde Después Donde E El Él Ella Ellos Era
    Es Esa Ese Eso Esta Está Estas Este Esto Estos Fue Ha Hay Hoy La Las Lo Los Me Mi Mientras
    Muchos Muy Nada Ni No Nuestra Nuestro O Para Pero Podemos Por Porque Pues Qué Quién Según Ser
    Sí Sin Sino Sobre Son Su Sus Tal También Te Tiene Todo Todos Tras Una Uno Unos Usted Ya Yo
    Abych Ale Ani Až Byl Byla Bylo Byly Celkem Co Do Jak Jako Jde Je Jeho Jejich Její Jen Jestli
    Ještě Již Jsem Jsou K Každý Kde Kdy Kdyby Když Kdo Která Které Který Mezi Na Nad Naopak
    Napravo Navíc Není Nikdo O Od Ona Oni Po Pod Podle Pokud Potom Právě Pro Proč Proto Protože
    Při S Ta Tak Také Takže Tato Tedy Ten Tento Teď To Toto Tuto Ty U Už V Ve Však Všechno Z Za Ze
    Že
    Але Без Біля Був Була Були В Ви Від Він Вона Вони Все Всі Де Для До Є З За Зараз І Із Його Її
    Їх Й Коли Ми Мій На Наш Не Ні Ось Отже По Потім При Про Та Так Також Там Те То Тому Тут У Це
    Цей Ця Через Чи Що Щоб Я Як Якщо А Вот Вы Где Если Ещё И Из Их К Как Когда Кто Мы Но О Об Она
    Они Оно От По Почему С Сейчас Он Теперь Тогда Ты Затем Здесь После Потом Поэтому     Уже Что
    Чтобы Это Этот Эта Эти
""")
# They are names after an initial: "U. K. Le Guin".
NAME_PARTICLES = _read_words("La Le Las Los El")
# In a text without capitals these end no sentence, besides the abbreviations above.
ABBREVIATIONS_IN_SMALL_LETTERS = _read_words("etc usw itd atd incl excl resp temp est orig")
_ALL_ABBREVIATIONS = (
    LEADING_ABBREVIATIONS,
    ABBREVIATIONS,
    ABBREVIATIONS_BEFORE_NUMBERS,
    ABBREVIATIONS_IN_SMALL_LETTERS,
)
# A word of these scripts without a vowel is an abbreviation: "str", "hrsg".
ALPHABETIC = re.compile("[a-z\u00df-\u024f\u0430-\u045f]")
VOWEL = re.compile("[aeiouyß-\u00e6\u00e8-\u00f0\u00f2-\u00ff\u0100-\u024fаеиоуыэюяєіїёў]")
ELLIPSIS = re.compile(r"\.{2,}+|…\.*+")
# A sentence never begins with one of these: "Yahoo! Inc."
COMPANY_FORM = re.compile(r"(?:Inc|Ltd|LLC|Corp|GmbH|AG|Plc)(?=[\s.,])")


class _SmallText:
    """Whether a text is written without capitals, and whether it ends in a mark of a sentence."""

    def __init__(self, text: str):
        self.is_small = text.islower()
        self.ends_in_mark = text.rstrip().rstrip("\"'”’»)")[-1:] in tuple(MARKS)


def sentence_ends(text: str, start: int, end: int) -> list[int]:
    """Return the ends of the sentences of text[start:end]: after full stops and their like, with closing quotes.

    A full stop after an abbreviation, an initial, an ordinal number or the number of a list does
    not end a sentence, nor does a mark before a small letter, unless the whole text is in small
    letters. Each sentence has a letter or a digit; the last end is `end`.

    >>> text = 'Dr. A. Bee paid 3.50 on May 3. "Why?" she asked. He (I know...) left!'
    >>> [text[i:j] for i, j in zip([0, 30, 48], sentence_ends(text, 0, len(text)))]
    ['Dr. A. Bee paid 3.50 on May 3.', ' "Why?" she asked.', ' He (I know...) left!']
    """
    ends: list[int] = []
    letter = -1  # where the sentence has its first letter or digit, once that is asked for
    small: _SmallText | None = None  # how the text is without capitals, once that is asked for
    for match in SENTENCE_END.finditer(text, start, end):
        stop = match.end()
        if stop == end or not match["following"]:
            break
        if letter < 0:
            letter = _find_letter(text, start, end)
        if letter >= stop:
            continue
        is_small = match["following"].islower()
        if is_small and not any(mark in CERTAIN_MARKS for mark in match["marks"]):
            small = small or _SmallText(text[start:end])
            is_end = False
            if small.is_small:
                is_end = _ends_small_sentence(text, match, letter, small.ends_in_mark)
        else:
            is_end = _ends_sentence(text, match, letter, end)

        if is_end:
            ends.append(stop)
            letter = _find_letter(text, stop, end)

    # What follows the last end may be no more than a quote or a picture.
    if ends and letter == end:
        ends.pop()
    return [*ends, end]


def count_sentences(text: str) -> int:
    """Count the sentences of a text; white space alone is none.

    >>> count_sentences("The ball is blue. Mr. Bee has it."), count_sentences("Yes"), count_sentences(" ")
    (2, 1, 0)
    """
    return len(sentence_ends(text, 0, len(text))) if text and not text.isspace() else 0


def _find_letter(text: str, start: int, end: int) -> int:
    """Return the place of the first letter or digit of text[start:end], or `end`."""
    found = LETTER_OR_DIGIT.search(text, start, end)
    return found.start() if found else end


def _ends_sentence(text: str, match: re.Match[str], letter: int, end: int) -> bool:
    """Whether a sentence whose first letter is at `letter` ends at a match, after which more text follows."""
    marks, gap, openers, following = match.group("marks", "gap", "openers", "following")
    begin, first = match.start(), match.end() + len(gap) + len(openers)
    if text[begin - 1] in "([{（":
        return False

    # A sentence does not begin with a mark that stands alone: ". . ."
    if following in WESTERN_MARKS and text[first + 1 : first + 2].isspace():
        return False

    if not gap:
        return _ends_without_space(text, match, begin, first, end)
    if marks in GREEK_QUESTION_MARK:
        return bool(GREEK_LETTER.match(text, begin - 1) and GREEK_LETTER.match(following))
    if COMPANY_FORM.match(text, first, end):
        return False
    if ELLIPSIS.fullmatch(marks):
        return not _hesitates(text, letter, begin, first, end)
    return marks != "." or not _continues_after_stop(text, letter, begin, first, end)


def _hesitates(text: str, letter: int, begin: int, first: int, end: int) -> bool:
    """Whether dots after the first word of a sentence are a pause in it: "Well... I see.", "She... She left."

    "I" has a capital wherever it stands, so that it says nothing of a new sentence.
    """
    before = text[letter : min(begin, letter + LONGEST_BEFORE)].rstrip()
    if begin - letter > LONGEST_BEFORE or not before or any(map(str.isspace, before)):
        return False
    following = FIRST_WORD.match(text, first, end)
    return following is not None and following[0] in ("I", before)


def _ends_small_sentence(text: str, match: re.Match[str], letter: int, ends_in_mark: bool) -> bool:
    """Whether a sentence ends before a small letter in a text without capitals: "it rains. we stay. he goes."

    Nothing but the mark tells it there, so one that may be part of
    an abbreviation or of a number ends none.
    """
    marks, begin = match["marks"], match.start()

    # Neither dots nor a mark in quotes or brackets: "why?" she asked.
    if not match["gap"] or match.end() > begin + len(marks) or ELLIPSIS.fullmatch(marks):
        return False
    if text[begin - 1] in "([{（":
        return False
    if marks in GREEK_QUESTION_MARK:
        return bool(GREEK_LETTER.match(text, begin - 1) and GREEK_LETTER.match(match["following"]))
    before = text[max(letter, begin - LONGEST_BEFORE) : begin]
    is_word = begin - letter == len(before) and not any(map(str.isspace, before))

    # "approx. value", or the like, may be a whole text.
    if is_word and not ends_in_mark:
        return False
    if marks != ".":
        return True

    # "in 2019." is no ordinal number, as "am 3. mai" is.
    if re.search("[0-9]{3}$", before):
        return True
    found = LAST_WORD.search(before)
    if not found or INITIALS.match(found[1]):
        return False
    word = found[1].rpartition(".")[2].strip()
    if any(word in words for words in _ALL_ABBREVIATIONS):
        return False
    return not ALPHABETIC.search(word) or VOWEL.search(word) is not None


def _ends_without_space(text: str, match: re.Match[str], begin: int, first: int, end: int) -> bool:
    """Whether a sentence ends though no white space follows its mark."""
    marks, following = match["marks"], match["following"]
    if any(mark in CERTAIN_MARKS for mark in marks):
        # In Japanese a particle may follow a quote: 「はい。」と言った.
        is_quoted = match.end() > begin + len(marks)
        return following not in "、，,;:" and not (is_quoted and following in "とっのをにが")

    is_unspaced = UNSPACED_LETTER.match(text, begin - 1) and LETTER_OR_DIGIT.match(following)
    if marks[-1] in "!?" and is_unspaced:
        return True

    # "blue.The cat", but neither "OS.The" nor "blue.The.cat".
    word = FIRST_WORD.match(text, first, end)
    is_word = word is not None and len(word[0]) > 1 and word[0] in FIRST_WORDS
    return is_word and begin >= 2 and text[begin - 1].islower() and text[begin - 2].islower()


def _continues_after_stop(text: str, letter: int, begin: int, first: int, end: int) -> bool:
    """Whether a full stop at `begin` belongs to the word or the number before it."""
    before = text[max(letter, begin - LONGEST_BEFORE) : begin]
    if LABEL.match(before) and begin - letter == len(before):
        return True

    first_word = FIRST_WORD.match(text, first, end)
    following = first_word[0] if first_word else ""
    is_likely_start = following in FIRST_WORDS or text[first] in "¿¡"
    if PLAIN_NUMBER.search(before):
        is_ordinal = ORDINAL.search(before) is not None
        return following in GERMAN_MONTHS or (not is_likely_start and is_ordinal)

    found = LAST_WORD.search(before)
    if not found:
        return False
    word = found[1].rpartition(".")[2].strip()
    whole = "".join(found[1].split())
    if _is_listed(whole, LEADING_ABBREVIATIONS) or _is_listed(word, LEADING_ABBREVIATIONS):
        return True
    if len(word) == 1 and word.isupper() and following in NAME_PARTICLES:
        return True
    if NUMBER_START.match(text, first) and _is_listed(word, ABBREVIATIONS_BEFORE_NUMBERS):
        return True
    is_short_form = INITIALS.match(found[1]) is not None or _is_listed(word, ABBREVIATIONS)
    return not is_likely_start and is_short_form


def _is_listed(word: str, abbreviations: frozenset[str]) -> bool:
    """Whether a word is among abbreviations; one that is listed with a capital is known with a capital only."""
    lower = word.lower()
    return lower in abbreviations or (word != lower and word.capitalize() in abbreviations)
