"""A user's terminology: which terms a translation must have, by the terms in its source."""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pellucid.data.corpus import read_lines
from pellucid.data.tokenizer import UNK, Tokenizer
from pellucid.decode.required_terms import Spelling, Term
from pellucid.decode.word_edges import EDGE, edge_positions


@dataclass(frozen=True)
class TermSpan:
    """Between which characters of the `normalize_text` something stands; `protected` if it is to stay as it is."""

    start: int
    end: int
    protected: bool = False

    def contains(self, other: "TermSpan") -> bool:
        """Whether all of the other is in this one."""
        return self.start <= other.start and other.end <= self.end

    def overlaps(self, other: "TermSpan") -> bool:
        """Whether they share a character."""
        return self.start < other.end and other.start < self.end


@dataclass(frozen=True)
class TermMatch:
    """A term as it stands in a source, where, and the targets one of which is asked for."""

    source: str
    targets: tuple[str, ...]
    span: TermSpan

    def pieces(self, tokenizer: Tokenizer) -> Term:
        """The targets, in all their spellings."""
        return tuple(
            spelling for target in self.targets for spelling in term_spellings(tokenizer, target, capital=True)
        )


@dataclass(frozen=True)
class Terms:
    """Source terms and the target terms that shall translate them.

    A source term matches where no letter or digit continues it on either side: "dog" in "a dog's", not in "dogs".
    Exactly as written goes before any case ("dog" also matches "Dog"); one of capitals only, two or more, matches no
    other way ("US" is not "us"). White space may differ, and so may the ways to write an accent in Unicode. Where
    matches overlap, the longest is taken, of equally long ones the first; each that is taken asks for a target of its
    own. A source term with several targets is satisfied by any of them: that is the way to allow inflected forms.
    """

    exact: dict[str, tuple[str, ...]] = field(default_factory=dict)
    any_case: dict[str, tuple[str, ...]] = field(default_factory=dict)
    parts: int = 0
    """Into how many parts their edges cut the longest source term."""

    @classmethod
    def of(cls, pairs: Mapping[str, str] | Iterable[tuple[str, str]]) -> "Terms":
        """Terms from a mapping of source terms to target terms, or from pairs of them.

        Raises ValueError, naming each, for what is no pair of two texts and for an empty side.
        """
        if isinstance(pairs, str):
            raise ValueError(f"terms are {pairs!r:.60}, expected a mapping such as {{'ball': 'pelota'}}, or pairs")
        rows = list(pairs.items()) if isinstance(pairs, Mapping) else pairs
        return cls.from_rows(
            (f"pair {number}", term_columns(pair, number)) for number, pair in enumerate(rows, start=1)
        )

    @classmethod
    def read(cls, path: str | Path) -> "Terms":
        """From a UTF-8 file of lines "source, one tab, target", and another tab and a comment, as OmegaT has it.

        A blank line, and one that begins with # and has no tab, is passed over. Raises ValueError, naming file and
        line, for every other line, for what `read_lines` refuses, and for a file without terms.
        """
        lines = enumerate(read_lines(path), start=1)
        # OmegaT writes both tabs even where there is no comment.
        cut = ((n, line, line.split("\t")) for n, line in lines)
        rows = [
            (f"{path}:{n}", row[:2] if len(row) == 3 else row)
            for n, line, row in cut
            if "\t" in line or not is_blank_or_comment(line)
        ]
        if not rows:
            raise ValueError(f"{path} has no terms; expected lines of a source term, one tab and its target term")
        return cls.from_rows(rows)

    @classmethod
    def from_rows(cls, rows: Iterable[tuple[str, list[str]]]) -> "Terms":
        """From rows of two columns, each with the place to name if it is none."""
        exact: dict[str, tuple[str, ...]] = {}
        problems = []
        for place, row in rows:
            columns = [" ".join(column.split()) for column in row]
            if len(columns) != 2 or not all(columns):
                hint = "; one is empty" if len(columns) == 2 else ", and perhaps a comment" if len(columns) > 3 else ""
                problems.append(
                    f"{place} has {len(columns)} columns, expected 2: a source term, one tab, its target{hint}"
                )
                continue
            source = normalize_text(columns[0])
            exact[source] = tuple(dict.fromkeys((*exact.get(source, ()), columns[1])))
        if problems:
            more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
            raise ValueError("; ".join(problems[:5]) + more)
        any_case: dict[str, tuple[str, ...]] = {}
        for source, targets in exact.items():
            if not is_acronym(source):
                key = source.casefold()
                any_case[key] = tuple(dict.fromkeys((*any_case.get(key, ()), *targets)))
        return cls(exact, any_case, max((len(edge_positions(source)) - 1 for source in exact), default=0))

    def with_others(self, others: "Terms") -> "Terms":
        """These terms and others; where both have a source term, the target is that of the others."""
        exact = {**self.exact, **others.exact}
        return Terms.of((source, target) for source, targets in exact.items() for target in targets)

    def matches(self, text: str) -> list[TermMatch]:
        """The terms of one source sentence, in their order; their places are those in its `normalize_text`."""
        text = normalize_text(text)
        places = edge_positions(text)
        found = [
            (start, end)
            for i, start in enumerate(places)
            for end in places[i + 1 : i + 1 + self.parts]
            if self.targets(text[start:end])
        ]
        taken: list[tuple[int, int]] = []
        for start, end in sorted(found, key=lambda place: (place[0] - place[1], place[0])):
            if all(end <= other_start or other_end <= start for other_start, other_end in taken):
                taken.append((start, end))
        return [
            TermMatch(text[start:end], self.targets(text[start:end]), TermSpan(start, end))
            for start, end in sorted(taken)
        ]

    def targets(self, source: str) -> tuple[str, ...]:
        """What may translate just this text, in the form of `normalize_text`; () when it is no term."""
        return self.exact.get(source) or self.any_case.get(source.casefold(), ())

    def refuse_unwritable(self, tokenizer: Tokenizer) -> None:
        """ValueError, naming them, if there are targets the model has no pieces for."""
        problems = []
        for target in dict.fromkeys(target for targets in self.exact.values() for target in targets):
            try:
                term_spellings(tokenizer, target, capital=True)
            except ValueError as error:
                problems.append(str(error))
        if problems:
            raise ValueError("; ".join(problems[:5]) + (f"; and {len(problems) - 5} more" if len(problems) > 5 else ""))


def term_columns(pair: object, number: int) -> list[str]:
    """The two texts of a pair; ValueError for anything else."""
    if isinstance(pair, Sequence) and not isinstance(pair, str) and all(isinstance(text, str) for text in pair):
        return list(pair)
    raise ValueError(f"pair {number} of the terms is {pair!r:.60}, expected two texts: a source term and its target")


def is_blank_or_comment(line: str) -> bool:
    """Whether a line without a tab is blank or a comment."""
    return not line.strip() or line.startswith("#")


def normalize_text(text: str) -> str:
    """The form in which terms are compared: single spaces, accents composed."""
    return unicodedata.normalize("NFC", " ".join(text.split()))


def protected_span(text: str, start: int, end: int) -> TermSpan:
    """The place of a part of a text that has no white space at its ends.

    >>> protected_span("  cafe\\u0301  {x}", 9, 12)
    Place(start=5, end=8, kept=True)
    """
    first = len(normalize_text(text[:start] + "|")) - 1
    return TermSpan(first, first + len(normalize_text(text[start:end])), protected=True)


def is_acronym(text: str) -> bool:
    """Whether the letters of a text are capitals, and at least two.

    >>> is_acronym("US"), is_acronym("U.S."), is_acronym("I"), is_acronym("Us")
    (True, True, False, False)
    """
    return text.isupper() and sum(map(str.isalpha, text)) > 1


def term_spellings(tokenizer: Tokenizer, text: str, *, touching: bool = False, capital: bool = False) -> Term:
    """The pieces that write a text: after a space or at the start of the line, and those after other characters.

    Whatever stands around them, the target text contains `text`, character for character (in lower case with a
    tokenizer that has only that). Unless `touching`, they count only where no letter or digit stands right before or
    after. With `capital`, a text that begins with a word of small letters may also begin with a capital, as at the
    start of a sentence. Raises ValueError for a text that no pieces write: one with a line feed, with runs of spaces or
    with spaces at its ends, or of characters the model has not.
    """
    found = encode_spellings(tokenizer, text)
    wanted = text.lower() if tokenizer.lowercase else text
    if not found or tokenizer.decode_target(found[0]) != wanted:
        raise ValueError(f"the term {text!r:.60} cannot be written by this model")
    if capital and text.split(" ")[0].isalpha():
        others = encode_spellings(tokenizer, text[0].upper() + text[1:])
        if others and len(others[0]) >= len(found[0]):  # the search insists on the shortest: never on the capital
            found += others
    edge = () if touching else (EDGE,)
    return tuple(dict.fromkeys((*edge, *ids, *edge) for ids in found))


def encode_spellings(tokenizer: Tokenizer, text: str) -> list[Spelling]:
    """The pieces of a text with the word-start mark first, and those without it, as they are after other characters."""
    whole, *behind = tokenizer.encode_target([text, f"({text}", f"a{text}"])
    if UNK in whole or len(whole) == 1:
        return []
    found = [tuple(whole[:-1])]
    for mark, ids in zip("(a", behind, strict=True):
        cut = next((i for i in range(1, len(ids)) if tokenizer.decode_target(ids[:i]) == mark), len(ids))
        found += [tuple(ids[cut:-1])] if cut < len(ids) - 1 else []
    return list(dict.fromkeys(found))
