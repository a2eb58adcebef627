"""Aligned pieces of two languages, woven in both orders at once: the word alignment falls out of construction."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple


class Phrase(NamedTuple):
    """A sentence, its translation, and links (i, j): word i of the source means word j of the target."""

    source: str
    target: str
    links: tuple[tuple[int, int], ...]


class Chunk(NamedTuple):
    """Part of a sentence in both languages, with the links inside it."""

    english: list[str]
    spanish: list[str]
    links: list[tuple[int, int]]


Mark = tuple[str, str]  # a word and its mark: equal marks on the two sides are linked, the empty mark never
Part = Chunk | Mark

_WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")
_OPENING, _ENDING = frozenset("«“¿¡"), frozenset(".?!:«“¿¡")
_TIGHT_BEFORE, _TIGHT_AFTER = frozenset(".,:?!”»"), frozenset("¿¡“«")


def split_into_words(text: str) -> list[str]:
    """Words, and each punctuation mark by itself; contractions stay whole.

    >>> split_into_words("«No», dijo ella."), split_into_words("I don't know.")
    (['«', 'No', '»', ',', 'dijo', 'ella', '.'], ['I', "don't", 'know', '.'])
    """
    return _WORD.findall(text)


def weave(english: Sequence[Part], spanish: Sequence[Part]) -> Chunk:
    """The same parts in the order of each language; a chunk stands on both sides, words are tied by their marks."""
    source: list[str] = []
    target: list[str] = []
    links: list[tuple[int, int]] = []
    starts: dict[int, int] = {}
    marked: dict[str, list[int]] = {"": []}
    for part in english:
        if isinstance(part, Chunk):
            starts[id(part)] = len(source)
            source += part.english
        else:
            if part[1]:
                marked.setdefault(part[1], []).append(len(source))
            source.append(part[0])
    for part in spanish:
        if isinstance(part, Chunk):
            down, right = starts[id(part)], len(target)
            links += [(i + down, j + right) for i, j in part.links]
            target += part.spanish
        else:
            links += [(i, len(target)) for i in marked[part[1]]]
            target.append(part[0])
    return Chunk(source, target, links)


class PatternFrame:
    """A pattern in both languages with slots for chunks; words that carry the same digit are linked.

    >>> PatternFrame("a1 cup2 of3 {drink} | una1 taza2 de3 {drink}")(drink=Chunk(["hot", "tea"], ["té", "caliente"], [(0, 1), (1, 0)]))
    Chunk(english=['a', 'cup', 'of', 'hot', 'tea'], spanish=['una', 'taza', 'de', 'té', 'caliente'], links=[(0, 0), (1, 1), (2, 2), (3, 4), (4, 3)])
    """  # noqa: E501

    def __init__(self, pattern: str):
        self.english, self.spanish = ([_slot_or_mark(part) for part in side.split()] for side in pattern.split("|"))

    def __call__(self, **slots: Chunk) -> Chunk:
        return weave(
            [slots[part] if isinstance(part, str) else part for part in self.english],
            [slots[part] if isinstance(part, str) else part for part in self.spanish],
        )


def _slot_or_mark(part: str) -> str | Mark:
    if part[0] == "{":
        return part[1:-1]
    return (part[:-1], part[-1]) if part[-1].isdigit() else (part, "")


def join_chunks(*chunks: Chunk) -> Chunk:
    """Chunks one after the other, in the same order in both languages."""
    return weave(chunks, chunks)


def word_chunk(english: str, spanish: str) -> Chunk:
    """One or more words that mean one or more words: each is linked to each."""
    left, right = english.split(), spanish.split()
    return Chunk(left, right, [(i, j) for i in range(len(left)) for j in range(len(right))])


def finish_phrase(chunk: Chunk) -> Phrase:
    """Spelling that depends on neighbours: a/an, al, del, y/e, capitals, and no space before a comma."""
    english, spanish, links = chunk
    for i in range(len(english) - 1):
        if english[i] == "a" and english[i + 1][0] in "aeiou":
            english[i] = "an"
    merged: list[str] = []
    place: list[int] = []  # where each Spanish word went
    for token in spanish:
        if token == "el" and merged and merged[-1] in ("a", "de"):
            merged[-1] = "al" if merged[-1] == "a" else "del"
        else:
            if merged and merged[-1] == "y" and token[0] in "iI":
                merged[-1] = "e"
            merged.append(token)
        place.append(len(merged) - 1)
    linked = tuple(sorted({(i, place[j]) for i, j in links}))
    return Phrase(_spell(english).replace("“", '"').replace("”", '"'), _spell(merged), linked)


def _spell(tokens: list[str]) -> str:
    begins = tight = True
    text = ""
    for token in tokens:
        if begins and token not in _OPENING:
            token, begins = token[0].upper() + token[1:], False
        text += token if tight or token in _TIGHT_BEFORE else " " + token
        tight = token in _TIGHT_AFTER
        begins = begins or token in _ENDING
    return text
