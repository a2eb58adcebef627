"""Parsed sentences from a CoNLL-U file, and which pieces of a tokenizer spell which of their words."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pellucid.decode.alignment import spell_letters

RENAMED_RELATIONS = {"dobj": "obj"}
"""Universal Dependencies renamed it with version 2."""


@dataclass(frozen=True)
class Relation:
    """Word `dependent` hangs on word `head`, both counted from 0."""

    name: str
    dependent: int
    head: int


@dataclass(frozen=True)
class ParsedSentence:
    """A sentence: its words as they are written, its text, and its relations.

    A contraction ("del" of "de el") is one word here, and relations inside of it are left out.
    """

    words: tuple[str, ...]
    text: str
    relations: tuple[Relation, ...]
    line: int


def read_conllu(lines: Iterable[str]) -> Iterator[ParsedSentence]:
    """The sentences of a CoNLL-U file; ValueError, naming the line, for one that is none.

    >>> rows = ["1 Dogs _ _ _ _ 2 nsubj _ _", "2 bark _ _ _ _ 0 root _ SpaceAfter=No", "3 . _ _ _ _ 2 punct _ _", ""]
    >>> [parsed] = read_conllu(row.replace(" ", "\\t") for row in rows)
    >>> parsed.text, parsed.relations[0]
    ('Dogs bark.', Relation(name='nsubj', dependent=0, head=1))
    """
    rows: list[tuple[int, list[str]]] = []
    for number, line in enumerate(lines, start=1):
        if line.strip() and not line.startswith("#"):
            columns = line.split("\t")
            if len(columns) != 10:
                raise ValueError(f"line {number} has {len(columns)} columns between tabs, CoNLL-U has 10")
            rows.append((number, columns))
        elif not line.strip() and rows:
            yield parse_sentence(rows)
            rows = []
    if rows:
        yield parse_sentence(rows)


def parse_sentence(rows: Sequence[tuple[int, list[str]]]) -> ParsedSentence:
    """One sentence from its rows, each with the number of its line."""
    words: list[str] = []
    text = ""
    word_of: dict[int, int] = {}
    hanging: list[tuple[int, int, str]] = []
    contracted = 0
    for number, columns in rows:
        token, form, head, name, misc = (columns[i] for i in (0, 1, 6, 7, 9))
        first, _, last = token.partition("-")
        if "." in token:
            continue  # a word that was left out of the sentence
        if not first.isdecimal() or (last and not last.isdecimal()):
            raise ValueError(f"line {number}: {token!r:.30} is no number of a word")
        if int(first) > contracted:
            contracted = int(last or first)
            word_of.update(dict.fromkeys(range(int(first), min(contracted, int(first) + 99) + 1), len(words)))
            words.append(form)
            text += form + ("" if "SpaceAfter=No" in misc.split("|") else " ")
        if not last:
            if not head.isdecimal():
                raise ValueError(f"line {number}: the head of {form!r:.30} is {head!r:.30}, expected a number")
            hanging.append((int(first), int(head), name.partition(":")[0]))
    unknown = [head for _, head, _ in hanging if head and head not in word_of]
    if unknown:
        raise ValueError(f"line {rows[0][0]}: the sentence that begins here has no word {unknown[0]}")
    relations = tuple(
        Relation(RENAMED_RELATIONS.get(name, name), word_of[dependent], word_of[head])
        for dependent, head, name in hanging
        if head and word_of[dependent] != word_of[head]
    )
    return ParsedSentence(tuple(words), text.rstrip(), relations, rows[0][0])


def word_of_each_piece(pieces: Sequence[str], words: Sequence[str]) -> list[int] | None:
    """The word that each piece begins in, -1 for one of white space alone; None if they do not spell these words.

    >>> word_of_each_piece(["▁Do", "gs", "▁bark", "."], ["Dogs", "bark", "."])
    [0, 0, 1, 2]
    """
    solid = [(letter, first) for letter, first, _ in spell_letters(pieces) if not letter.isspace()]
    of_letters = [number for number, word in enumerate(words) for letter in word if not letter.isspace()]
    letters = "".join("".join(word.split()) for word in words)
    written = "".join(letter for letter, _ in solid)
    if written not in (letters, letters.lower()) or len(written) != len(of_letters):
        return None
    found = [-1] * len(pieces)
    for (_, piece), word in reversed(list(zip(solid, of_letters, strict=True))):
        found[piece] = word
    return found
