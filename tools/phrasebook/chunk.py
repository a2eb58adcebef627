"""Aligned chunks of two languages, combined in both word orders at once, so that word alignments need no search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pellucid.demo.phrasebook import Phrase


class Chunk(NamedTuple):
    """Part of a sentence in both languages, with the links inside it."""

    english: list[str]
    spanish: list[str]
    links: list[tuple[int, int]]


Mark = tuple[str, str]  # a word and its mark; words with equal marks are linked, except for the empty mark
Element = Chunk | Mark

_OPENING, _ENDING = frozenset("«“¿¡"), frozenset(".?!:«“¿¡")
_TIGHT_BEFORE, _TIGHT_AFTER = frozenset(".,:?!”»"), frozenset("¿¡“«")


def weave(english: Sequence[Element], spanish: Sequence[Element]) -> Chunk:
    """Combine elements in the order of each language: chunks, which are on both sides, and words, linked by marks."""
    source: list[str] = []
    target: list[str] = []
    links: list[tuple[int, int]] = []
    starts: dict[int, int] = {}
    marked: dict[str, list[int]] = {"": []}
    for element in english:
        if isinstance(element, Chunk):
            # By identity: two chunks may be equal, such as the same article twice.
            starts[id(element)] = len(source)
            source += element.english
        else:
            if element[1]:
                marked.setdefault(element[1], []).append(len(source))
            source.append(element[0])
    for element in spanish:
        if isinstance(element, Chunk):
            source_start, target_start = starts[id(element)], len(target)
            links += [(i + source_start, j + target_start) for i, j in element.links]
            target += element.spanish
        else:
            links += [(i, len(target)) for i in marked[element[1]]]
            target.append(element[0])
    return Chunk(source, target, links)


class PatternFrame:
    """A pattern in both languages with slots for chunks; words that carry the same digit are linked.

    >>> PatternFrame("a1 cup2 of3 {drink} | una1 taza2 de3 {drink}")(drink=Chunk(["hot", "tea"], ["té", "caliente"], [(0, 1), (1, 0)]))
    Chunk(english=['a', 'cup', 'of', 'hot', 'tea'], spanish=['una', 'taza', 'de', 'té', 'caliente'], links=[(0, 0), (1, 1), (2, 2), (3, 4), (4, 3)])
    """  # noqa: E501

    def __init__(self, pattern: str):
        self.english, self.spanish = ([_slot_or_mark(token) for token in side.split()] for side in pattern.split("|"))

    def __call__(self, *chunks: Chunk, **slots: Chunk) -> Chunk:
        """Fill the slots by their names, or in their order in English."""
        slots |= zip([item for item in self.english if isinstance(item, str)], chunks, strict=False)
        return weave(
            *(
                [slots[item] if isinstance(item, str) else item for item in side]
                for side in (self.english, self.spanish)
            )
        )


def _slot_or_mark(token: str) -> str | Mark:
    """Read one token of a pattern: the name of a slot, or a word with its mark."""
    if token[0] == "{":
        return token[1:-1]
    return (token[:-1], token[-1]) if token[-1].isdigit() else (token, "")


def join_chunks(*chunks: Chunk) -> Chunk:
    """Join chunks in the same order in both languages."""
    return weave(chunks, chunks)


def word_chunk(english: str, spanish: str) -> Chunk:
    """Make a chunk of words that are all linked to each other."""
    source, target = english.split(), spanish.split()
    return Chunk(source, target, [(i, j) for i in range(len(source)) for j in range(len(target))])


def finish_phrase(chunk: Chunk) -> Phrase:
    """Make a phrase of a chunk, with the spelling that depends on neighbours: a/an, al, del, y/e, capitals, spaces."""
    english, spanish, links = chunk
    for i in range(len(english) - 1):
        if english[i] == "a" and english[i + 1][0] in "aeiou":
            english[i] = "an"
    merged: list[str] = []
    positions: list[int] = []  # the position of each Spanish word after contractions
    for token in spanish:
        if token == "el" and merged and merged[-1] in ("a", "de"):
            merged[-1] = "al" if merged[-1] == "a" else "del"
        else:
            if merged and merged[-1] == "y" and token[0] in "iI":
                merged[-1] = "e"
            merged.append(token)
        positions.append(len(merged) - 1)
    # A set: both words of a contraction may have been linked to one English word.
    linked = tuple(sorted({(i, positions[j]) for i, j in links}))
    return Phrase(_spell(english).replace("“", '"').replace("”", '"'), _spell(merged), linked)


def _spell(tokens: list[str]) -> str:
    """Join tokens to a text, with capitals at the beginning of sentences, and spaces only where they belong."""
    begins = tight = True
    text = ""
    for token in tokens:
        if begins and token not in _OPENING:
            token, begins = token[0].upper() + token[1:], False
        text += token if tight or token in _TIGHT_BEFORE else " " + token
        tight = token in _TIGHT_AFTER
        begins = begins or token in _ENDING
    return text
