"""The phrasebook: English-Spanish pairs of a small grammar with word alignments, for the demo and for tests.

The pairs lie in a file beside this module, in the order in which the grammar drew them
(tools/phrasebook makes the file). The grammar is a function: one English sentence has one Spanish
translation. `you` is tú; the adjective alone decides between ser and estar; events are in the
preterite and states (to be, have, need, want, taste) in the imperfect; a pronoun takes the gender
of the noun it stands for; `they` for a man and a woman is masculine.

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

import lzma
import random
import re
from collections.abc import Iterator
from functools import cache
from itertools import islice, pairwise
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from pellucid.store.atomic import atomic_file

PHRASEBOOK_FILE = Path(__file__).with_name("phrasebook.xz")
"""Each line has a source, its target and their links, with tabs between them."""

STORED_SEED = 1
"""The seed of the grammar that drew the pairs of the file."""


class Phrase(NamedTuple):
    """A sentence, its translation, and links (i, j): word i of the source is translated by word j of the target."""

    source: str
    target: str
    links: tuple[tuple[int, int], ...]


class _PhraseSplit(NamedTuple):
    """Training, dev and test phrases, which share no English sentence."""

    train: list[Phrase]
    dev: list[Phrase]
    test: list[Phrase]


def _parse_links(pharaoh: str) -> tuple[tuple[int, int], ...]:
    """Parse links in the format of Pharaoh: "0-0 1-2"."""
    links = []
    for link in pharaoh.split():
        source, target = link.split("-")
        links.append((int(source), int(target)))
    return tuple(links)


_WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")


def split_into_words(text: str) -> list[str]:
    """Split a text into words and single punctuation marks; contractions stay whole.

    >>> split_into_words("«No», dijo ella."), split_into_words("I don't know.")
    (['«', 'No', '»', ',', 'dijo', 'ella', '.'], ['I', "don't", 'know', '.'])
    """
    return _WORD.findall(text)


HELD_OUT = (
    Phrase("The ball is blue.", "La bola es azul.", _parse_links("0-0 1-1 2-2 3-3 4-4")),
    Phrase("The sky is blue.", "El cielo es azul.", _parse_links("0-0 1-1 2-2 3-3 4-4")),
    Phrase(
        "The black cat drank the milk.",
        "El gato negro bebió la leche.",
        _parse_links("0-0 1-2 2-1 3-3 4-4 5-5 6-6"),
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

# Words that say how a sentence is built; the others say what it is about.
_FUNCTION = frozenset(
    split_into_words(
        "a all am an and are as at be because but by can did didn't do does doesn't don't for going he her him his how "
        "i in is it many me more most much must my not of on our several she so some than that the their them there "
        "these they this those to too two three four five six seven eight nine ten us very want wants was we were what "
        "when where while who why will won't you your . , ? ! : \""
    )
)


def generate_phrases(seed: int) -> Iterator[Phrase]:
    """Generate phrases without end, in an order fixed by the seed, some more than once, and none that is held out.

    `You are welcome.` is an idiom that nothing else gives away: it is part of longer lines, never a
    line by itself. Once all pairs of the file were drawn, they come again in another order.
    """
    lines, generator = list(_read_lines()), random.Random(seed)
    if seed != STORED_SEED:
        generator.shuffle(lines)

    while True:
        for line in lines:
            source, target, links = line.split("\t")
            yield Phrase(source, target, _parse_links(links))
        generator.shuffle(lines)


@cache
def _read_lines() -> tuple[str, ...]:
    """Read the lines of the file once."""
    return tuple(lzma.decompress(PHRASEBOOK_FILE.read_bytes()).decode().splitlines())


def is_held_back(source: str) -> bool:
    """Whether a sentence has a combination of words that training never shows.

    A combination is two content words with no other content word between them (black cat; cat
    drank). One combination in a hundred is held back.
    """
    content = [word for word in split_into_words(source.lower()) if word not in _FUNCTION]
    combinations = [f"{first} {second}" for first, second in pairwise(content)]
    # A checksum, not hash(), which differs from process to process; and no seed, so that all seeds
    # hold back the same.
    return any(crc32(combination.encode()) % 100 == 0 for combination in combinations)


def split_phrases(train: int, dev: int = 500, test: int = 1000, seed: int = 1) -> _PhraseSplit:
    """Split distinct phrases: each one in dev and test has a combination of words that is nowhere in train."""
    used: set[str] = set()
    split, sizes = _PhraseSplit([], [], []), (train, dev, test)
    for phrase in islice(generate_phrases(seed), len(_read_lines())):
        if tuple(map(len, split)) == sizes:
            break

        # The test set is filled before the dev set.
        index = (2 if len(split.test) < test else 1) if is_held_back(phrase.source) else 0
        if len(split[index]) < sizes[index] and phrase.source not in used:
            used.add(phrase.source)
            split[index].append(phrase)

    for name, phrases, size in zip(split._fields, split, sizes, strict=True):
        if len(phrases) < size:
            raise ValueError(
                f"the phrasebook has {len(phrases):,} phrases for the {name} set, and {size:,} were asked for; "
                f"ask for {len(phrases):,} or fewer"
            )
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
