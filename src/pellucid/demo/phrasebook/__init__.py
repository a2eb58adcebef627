"""The phrasebook: a small grammar that generates English-Spanish pairs with word alignments, for demo and tests.

The grammar is a function: one English sentence has one Spanish translation. `you` is tú; the adjective alone decides
between ser and estar; events are in the preterite and states (to be, have, need, want, taste) in the imperfect; a
pronoun takes the gender of the noun it stands for; `they` for a man and a woman is masculine.

How words are linked:

- A word is linked to the word that translates it, also across a change of order (black cat, gato negro).
- Several words that only mean something together are linked each to each: taller, más alto; next to, al lado de; the
  idiom you are welcome, de nada.
- Spanish leaves subject pronouns out: they are linked to the verb that carries their person (they tasted, sabían).
- A helping verb is linked to the Spanish verb that carries its tense (did ... drink, bebió; will drink, beberá), `not`
  to no, a contraction (didn't) to no alone, `to` before an infinitive to the infinitive.
- A contraction in Spanish is linked to both of its words: of the, del.
- Punctuation is linked to punctuation; ? and ! to both of their Spanish marks.
- A word without a counterpart in the other language is not linked: the personal a, le and se beside a recipient,
  articles that only one language has (Mary is a doctor, Mary es médica), tan in ¡Qué flor tan hermosa!
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from pellucid.demo.phrasebook.chunk import Phrase, finish_phrase, split_into_words
from pellucid.demo.phrasebook.patterns import Patterns
from pellucid.store.atomic import atomic_file


def _parse_links(pharaoh: str) -> tuple[tuple[int, int], ...]:
    """Parse links in the format of Pharaoh: "0-0 1-2"."""
    return tuple((int(i), int(j)) for i, j in (link.split("-") for link in pharaoh.split()))


HELD_OUT = (
    Phrase("The ball is blue.", "La bola es azul.", _parse_links("0-0 1-1 2-2 3-3 4-4")),
    Phrase("The sky is blue.", "El cielo es azul.", _parse_links("0-0 1-1 2-2 3-3 4-4")),
    Phrase(
        "The black cat drank the milk.", "El gato negro bebió la leche.", _parse_links("0-0 1-2 2-1 3-3 4-4 5-5 6-6")
    ),
    Phrase("You are welcome.", "De nada.", _parse_links("0-0 0-1 1-0 1-1 2-0 2-1 3-2")),
    Phrase(
        "John and Paul wrote several songs when they were inspired.",
        "John y Paul escribieron varias canciones cuando estaban inspirados.",
        _parse_links("0-0 1-1 2-2 3-3 4-4 5-5 6-6 7-7 8-7 9-8 10-9"),
    ),
    Phrase(
        "I went to the store and bought fruits and furniture. They tasted amazing.",
        "Fui a la tienda y compré frutas y muebles. Sabían increíble.",
        _parse_links("0-0 1-0 2-1 3-2 4-3 5-4 6-5 7-6 8-7 9-8 10-9 11-10 12-10 13-11 14-12"),
    ),
)

# A held-out line must not be part of a longer one either. Of two sentences the first is enough. The idiom is not in
# this list: nothing but longer lines can teach it.
_SPOILERS = tuple(phrase.source.partition(".")[0].lower() for phrase in HELD_OUT if phrase.target != "De nada.")

# Words that say how a sentence is built; the others say what it is about.
_FUNCTION = frozenset(
    split_into_words(
        "a all am an and are as at be because but by can did didn't do does doesn't don't for going he her him his how "
        "i in is it many me more most much must my not of on our several she so some than that the their them there "
        "these they this those to too two three four five six seven eight nine ten us very want wants was we were what "
        "when where while who why will won't you your . , ? ! : \""
    )
)


class _PhraseSplit(NamedTuple):
    """Training, dev and test phrases, which share no English sentence."""

    train: list[Phrase]
    dev: list[Phrase]
    test: list[Phrase]


def generate_phrases(seed: int) -> Iterator[Phrase]:
    """Generate phrases without end, in an order fixed by the seed, some more than once, and none that is held out.

    `You are welcome.` is an idiom that nothing else gives away: it is part of longer lines, never a line by itself.
    """
    grammar = Patterns(random.Random(seed))
    while True:
        phrase = finish_phrase(grammar.sentence())
        if not any(spoiler in phrase.source.lower() for spoiler in _SPOILERS):
            yield phrase


def generate_documents(seed: int) -> Iterator[tuple[Phrase, Phrase]]:
    """Generate distinct documents of two sentences without end: the second has a pronoun for a noun of the first.

    The Spanish of the second shows the gender of that noun (The ball was red. It is small. Es pequeña.), and its
    English does not, so that only the first sentence can tell. Half of the nouns are feminine.
    """
    grammar, used = Patterns(random.Random(seed)), set[tuple[str, str]]()
    while True:
        first, second = map(finish_phrase, grammar.two_sentences())
        if (first.source, second.source) not in used:
            used.add((first.source, second.source))
            yield first, second


def is_held_back(source: str) -> bool:
    """Whether a sentence has a combination of words that training never shows.

    A combination is two content words with no other content word between them (black cat; cat drank). One combination
    in a hundred is held back.
    """
    # A checksum, not hash(), which differs from process to process; and no seed, so that all seeds hold back the same.
    content = [word for word in split_into_words(source.lower()) if word not in _FUNCTION]
    return any(crc32(f"{first} {second}".encode()) % 100 == 0 for first, second in pairwise(content))


def split_phrases(train: int, dev: int = 500, test: int = 1000, seed: int = 1) -> _PhraseSplit:
    """Split distinct phrases: each one in dev and test has a combination of words that is nowhere in train."""
    used: set[str] = set()
    split, sizes = _PhraseSplit([], [], []), (train, dev, test)
    for phrase in generate_phrases(seed):
        if all(len(phrases) == size for phrases, size in zip(split, sizes, strict=True)):
            break
        # The test set is filled before the dev set.
        index = (2 if len(split.test) < test else 1) if is_held_back(phrase.source) else 0
        if len(split[index]) < sizes[index] and phrase.source not in used:
            used.add(phrase.source)
            split[index].append(phrase)
    return split


def write_split(directory: Path, split: _PhraseSplit) -> dict[str, Path]:
    """Write train.en, train.es, train.align (links as i-j) and so on, one sentence a line; return the paths by name."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = {}
    for name, phrases in split._asdict().items():
        columns = {
            "en": (phrase.source for phrase in phrases),
            "es": (phrase.target for phrase in phrases),
            "align": (" ".join(f"{i}-{j}" for i, j in phrase.links) for phrase in phrases),
        }
        for suffix, lines in columns.items():
            path = paths[f"{name}.{suffix}"] = directory / f"{name}.{suffix}"
            with atomic_file(path) as write:
                for line in lines:
                    write(f"{line}\n".encode())
    return paths
