"""Reads parsed sentences from a CoNLL-U file, and finds which pieces of a tokenizer spell which of their words."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pellucid.decode.alignment import spell_letters

RENAMED_RELATIONS = {"dobj": "obj"}
"""Names of relations before version 2 of Universal Dependencies, and the names since."""


@dataclass(frozen=True)
class Relation:
    """Dependency of word `dependent` on word `head`, both counted from 0."""

    name: str
    dependent: int
    head: int


@dataclass(frozen=True)
class ParsedSentence:
    """Parsed sentence: its words as they are written, its text, and its relations.

    A contraction ("del" of "de el") is one word here, and relations inside of it are left out.
    """

    words: tuple[str, ...]
    text: str
    relations: tuple[Relation, ...]
    line: int


def read_conllu(lines: Iterable[str]) -> Iterator[ParsedSentence]:
    """Yield the sentences of a CoNLL-U file; ValueError, naming the line, for a line in another form.

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
    """Build one sentence from its rows, each with the number of its line."""
    words: list[str] = []
    text = ""
    word_of_token: dict[int, int] = {}
    dependencies: list[tuple[int, int, str]] = []
    last_token = 0
    for number, columns in rows:
        token, form, head, name, misc = (columns[i] for i in (0, 1, 6, 7, 9))
        first, _, last = token.partition("-")
        if "." in token:
            continue  # an empty node: a word that was left out of the sentence
        if not first.isdecimal() or (last and not last.isdecimal()):
            raise ValueError(f"line {number}: {token!r:.30} is no number of a word")
        # a contraction's row "3-4" comes before the rows of its parts, which are the same word
        if int(first) > last_token:
            last_token = int(last or first)
            # a damaged range such as 1-999999999 must not fill the memory
            word_of_token.update(dict.fromkeys(range(int(first), min(last_token, int(first) + 99) + 1), len(words)))
            words.append(form)
            text += form + ("" if "SpaceAfter=No" in misc.split("|") else " ")
        # the row of a contraction itself has no head
        if not last:
            if not head.isdecimal():
                raise ValueError(f"line {number}: the head of {form!r:.30} is {head!r:.30}, expected a number")
            dependencies.append((int(first), int(head), name.partition(":")[0]))
    unknown = [head for _, head, _ in dependencies if head and head not in word_of_token]
    if unknown:
        raise ValueError(f"line {rows[0][0]}: the sentence that begins here has no word {unknown[0]}")
    relations = tuple(
        Relation(RENAMED_RELATIONS.get(name, name), word_of_token[dependent], word_of_token[head])
        for dependent, head, name in dependencies
        if head and word_of_token[dependent] != word_of_token[head]
    )
    return ParsedSentence(tuple(words), text.rstrip(), relations, rows[0][0])


def word_of_each_piece(pieces: Sequence[str], words: Sequence[str]) -> list[int] | None:
    """Return the word that each piece begins in, -1 for white space alone; None if the pieces spell other words.

    >>> word_of_each_piece(["▁Do", "gs", "▁bark", "."], ["Dogs", "bark", "."])
    [0, 0, 1, 2]
    """
    letters_of_pieces = [(letter, first) for letter, first, _ in spell_letters(pieces) if not letter.isspace()]
    word_of_letter = [number for number, word in enumerate(words) for letter in word if not letter.isspace()]
    letters = "".join("".join(word.split()) for word in words)
    spelled = "".join(letter for letter, _ in letters_of_pieces)
    # a tokenizer may have lowercased the text
    if spelled not in (letters, letters.lower()) or len(spelled) != len(word_of_letter):
        return None
    word_of_piece = [-1] * len(pieces)
    # backwards, so that the first letter of a piece decides
    for (_, piece), word in reversed(list(zip(letters_of_pieces, word_of_letter, strict=True))):
        word_of_piece[piece] = word
    return word_of_piece
