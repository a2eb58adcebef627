"""A user's terminology: target terms that a translation must contain for the source terms in its sentence."""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import pairwise
from pathlib import Path
from weakref import WeakSet

from pellucid.data.corpus import read_rows
from pellucid.data.formats import find_pair_format
from pellucid.data.formats.units import Sides
from pellucid.data.lines import read_lines
from pellucid.data.tokenizer import Tokenizer
from pellucid.decode.terms.matches import TermMatch, TermSpan, normalize_text
from pellucid.decode.terms.required import edge_positions
from pellucid.decode.terms.spellings import explain_unwritable, unwritable_texts
from pellucid.store.atomic import join_problems


@dataclass(frozen=True)
class Terms:
    """Source terms and the target terms that must translate them.

    A source term matches where no letter or digit continues it on either side: "dog" in "a dog's",
    not in "dogs". A match of the exact case is preferred ("dog" also matches "Dog"); a term of two
    or more capitals matches only in capitals ("US" is not "us"). White space may differ, and so may
    the ways to write an accent in Unicode. Where matches overlap, the longest is taken, of equally
    long ones the first; each match requires a target of its own. A source term with several targets
    is satisfied by any of them: that is the way to allow inflected forms.
    """

    exact: dict[str, tuple[str, ...]] = field(default_factory=dict)  # targets of each source term
    # Source terms that differ in case only, by what they have in common.
    any_case: dict[str, tuple[str, ...]] = field(default_factory=dict)
    # Where each of the targets stands, by source term.
    places: dict[str, tuple[str, ...]] = field(default_factory=dict, compare=False, repr=False)
    base: "Terms | None" = None  # terms that these were added to: they stay as they are, however many there are
    # Tokenizers that are known to write all targets.
    checked_for: "WeakSet[Tokenizer]" = field(default_factory=WeakSet, compare=False, repr=False)

    @classmethod
    def from_pairs(cls, pairs: Mapping[str, str] | Iterable[tuple[str, str]]) -> "Terms":
        """Make terms from a mapping of source terms to target terms, or from pairs of them.

        Raises ValueError, naming each, for anything that is not a pair of two texts and for an
        empty side.
        """
        # A text is iterable too: its characters would be taken for pairs.
        if isinstance(pairs, str):
            raise ValueError(f"terms are {pairs!r:.60}, expected a mapping such as {{'ball': 'pelota'}}, or pairs")
        named_rows = []
        for number, pair in enumerate(pairs.items() if isinstance(pairs, Mapping) else pairs, start=1):
            named_rows.append((f"pair {number}", _term_columns(pair, number)))
        return cls.from_rows(named_rows)

    @classmethod
    def read(cls, path: str | Path, source: str | None = None, target: str | None = None) -> "Terms":
        """Read terms from a file of lines, or from a file of pairs such as .tbx, .csv or .tmx.

        A file of lines is UTF-8, and each has a source, one tab, a target, and perhaps another tab
        and a comment, as in OmegaT's glossaries. Blank lines and lines that begin with # and have
        no tab are skipped. Of a file of pairs, `source` and `target` are the languages; it must
        have both, or say which of its two is which.

        Raises ValueError, naming file and line, for every other line, for what `read_lines` and the
        readers of pairs refuse, and for a file without terms.
        """
        pair_format = find_pair_format(path)
        if pair_format is None or "tsv" in pair_format.endings:
            rows = list(_split_term_lines(path))
        else:
            rows = list(_read_term_pairs(path, source, target))
        if not rows:
            raise ValueError(f"{path} has no terms; expected lines of a source term, one tab and its target term")
        return cls.from_rows(rows)

    @classmethod
    def from_rows(cls, rows: Iterable[tuple[str, list[str]]]) -> "Terms":
        """Make terms from rows of two columns, each with the name that an error gives the row."""
        exact: dict[str, tuple[str, ...]] = {}
        places: dict[str, tuple[str, ...]] = {}
        problems = []
        for row_name, row in rows:
            columns = [" ".join(column.split()) for column in row]
            if len(columns) != 2 or not all(columns):
                hint = "; one is empty" if len(columns) == 2 else ", and perhaps a comment" if len(columns) > 3 else ""
                problems.append(
                    f"{row_name} has {len(columns)} columns, expected 2: a source term, one tab, its target{hint}"
                )
                continue
            source = normalize_text(columns[0])
            if columns[1] not in exact.get(source, ()):
                exact[source] = (*exact.get(source, ()), columns[1])
                places[source] = (*places.get(source, ()), row_name)

        if problems:
            raise ValueError(join_problems(problems, limit=5))

        any_case: dict[str, tuple[str, ...]] = {}
        for source in exact:
            # "US" in any case would match every "us".
            if not _is_acronym(source):
                key = source.casefold()
                any_case[key] = (*any_case.get(key, ()), source)
        return cls(exact, any_case, places)

    def with_others(self, others: "Terms") -> "Terms":
        """Return the union of these terms and others.

        A source term in both gets the targets of `others`. It takes as long as the others are many,
        and nothing of these terms is made again.
        """
        assert others.base is None, "only terms of one source can be added to others"
        return replace(others, base=self)

    @cached_property
    def trie(self) -> "_TermTrie":
        """Source terms, without the terms of `base`, as a trie that finds them in a text.

        Made for the first text.
        """
        return _TermTrie(_split_at_edges(source, edge_positions(source)) for source in self.exact)

    def prepare(self, tokenizer: Tokenizer) -> None:
        """Do at once what the first text would wait for.

        Raises ValueError for targets that the model has no pieces for.
        """
        self.refuse_unwritable(tokenizer)
        _ = self.trie

    def matches(self, text: str) -> list[TermMatch]:
        """Return the terms of one source sentence, in order.

        Their spans count in the `normalize_text` of it.
        """
        text = normalize_text(text)
        edges = edge_positions(text)
        tries, terms = [self.trie], self
        while terms.base is not None:
            terms = terms.base
            tries.append(terms.trie)

        # A term begins and ends at an edge. A trie knows no case: "us" is no "US", and only
        # `targets` says so.
        spans = _choose_terms(
            tries,
            _split_at_edges(text, edges),
            edges,
            lambda start, end: bool(self.targets(text[start:end])),
        )
        return [TermMatch(text[start:end], self.targets(text[start:end]), TermSpan(start, end)) for start, end in spans]

    def targets(self, source: str) -> tuple[str, ...]:
        """Return the targets of a text in the form of `normalize_text`; () when it is no term."""
        exact = self.exact_targets(source)
        if exact:
            return exact

        targets: list[str] = []
        for term in self.terms_in_any_case(source.casefold()):
            targets.extend(self.exact_targets(term))
        return tuple(dict.fromkeys(targets))

    def find_place(self, source: str, target: str) -> str:
        """Return where the pair of a match stands: file and line, or which pair it is."""
        for term in (source, *self.terms_in_any_case(source.casefold())):
            if target in self.exact.get(term, ()):
                return Path(self.places[term][self.exact[term].index(target)]).name
        return self.base.find_place(source, target) if self.base is not None else ""

    def exact_targets(self, source: str) -> tuple[str, ...]:
        """Return the targets of a source term that is written exactly so; () when there is none."""
        return self.exact.get(source) or (self.base.exact_targets(source) if self.base is not None else ())

    def terms_in_any_case(self, key: str) -> tuple[str, ...]:
        """Return the source terms with this `casefold`; the terms of `base` come first."""
        own = self.any_case.get(key, ())
        return own if self.base is None else tuple(dict.fromkeys((*self.base.terms_in_any_case(key), *own)))

    def refuse_unwritable(self, tokenizer: Tokenizer) -> None:
        """Raise ValueError, naming them, for targets that the model has no pieces for.

        Checked once for a tokenizer.
        """
        if self.base is not None:
            self.base.refuse_unwritable(tokenizer)
        if tokenizer in self.checked_for:
            return
        targets = [*dict.fromkeys(target for targets in self.exact.values() for target in targets)]
        problems = [explain_unwritable(target) for target in unwritable_texts(tokenizer, targets)]
        if problems:
            raise ValueError(join_problems(problems, limit=5))
        self.checked_for.add(tokenizer)


def _split_term_lines(path: str | Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the columns of each line of a glossary, with the name that an error gives the line."""
    for number, line in enumerate(read_lines(path), start=1):
        columns = line.split("\t")
        if len(columns) > 1 or (line.strip() and not line.startswith("#")):
            # OmegaT writes both tabs even where there is no comment.
            yield f"{path}:{number}", columns[:2] if len(columns) == 3 else columns


def _read_term_pairs(path: str | Path, source: str | None, target: str | None) -> Iterator[tuple[str, list[str]]]:
    """Yield both terms of each pair of a file, with the name that an error gives the pair."""
    # A term base that is read in the wrong direction would look for words that no source has.
    for number, left, right in read_rows(path, None, Sides(source, target, strict=True)):
        if left and right:
            yield f"{path}:{number}", [left, right]


def _term_columns(pair: object, number: int) -> list[str]:
    """Return the two texts of a pair; ValueError for anything else."""
    if isinstance(pair, Sequence) and not isinstance(pair, str) and all(isinstance(text, str) for text in pair):
        return list(pair)
    raise ValueError(f"pair {number} of the terms is {pair!r:.60}, expected two texts: a source term and its target")


def _split_at_edges(text: str, edges: Sequence[int]) -> list[str]:
    """Return the parts of a text between its edges, in the form in which case does not matter."""
    return [text[start:end].casefold() for start, end in pairwise(edges)]


def _is_acronym(text: str) -> bool:
    """Return whether the letters of a text are capitals, and at least two.

    >>> _is_acronym("US"), _is_acronym("U.S."), _is_acronym("I"), _is_acronym("Us")
    (True, True, False, False)
    """
    return text.isupper() and sum(map(str.isalpha, text)) > 1


class _TermTrie:
    """Terms as a trie over their words, each term read from its last word to its first.

    A node stands for the words on the way to it. Going through a text from its end, the trie knows
    at each word all terms that begin there: one node has the longest, and `shorter` leads from a
    node to the next shorter one.
    """

    def __init__(self, terms: Iterable[Sequence[str]]):
        self.children: list[dict[str, int]] = [{}]
        self.sizes = [0]
        """Number of words of the term that a node stands for; 0 where it stands for none."""
        for words in terms:
            node = 0
            for word in reversed(words):
                child = self.children[node].setdefault(word, len(self.children))
                if child == len(self.children):
                    self.children.append({})
                    self.sizes.append(0)
                node = child
            self.sizes[node] = len(words)

        # The node of the longest other way that has the same last words, which here are the first
        # of the text.
        self.fallbacks = [0] * len(self.children)
        self.shorter = [0] * len(self.children)
        # Breadth first, since the fallback of a node is nearer to the root than the node itself.
        pending = deque(self.children[0].values())
        while pending:
            node = pending.popleft()
            fallback = self.fallbacks[node]
            self.shorter[node] = fallback if self.sizes[fallback] else self.shorter[fallback]
            for word, child in self.children[node].items():
                self.fallbacks[child] = self.follow(fallback, word)
                pending.append(child)

    def follow(self, node: int, word: str) -> int:
        """Return the node after one more word, which stands for the longest way that ends with it."""
        while node and word not in self.children[node]:
            node = self.fallbacks[node]
        return self.children[node].get(word, 0)

    def longest_terms(self, words: Sequence[str]) -> list[int]:
        """Return for each word of a text the node of the longest term that begins with it, or 0.

        >>> trie = _TermTrie([("new", "york"), ("york",), ("new", "york", "times")])
        >>> nodes = trie.longest_terms(["new", "york", "times", "in", "new", "york"])
        >>> [trie.sizes[node] for node in nodes]
        [3, 1, 0, 0, 2, 1]
        """
        nodes, node = [0] * len(words), 0
        for i in reversed(range(len(words))):
            node = self.follow(node, words[i])
            nodes[i] = node if self.sizes[node] else self.shorter[node]
        return nodes


def _choose_terms(
    tries: Sequence[_TermTrie],
    words: Sequence[str],
    edges: Sequence[int],
    is_term: Callable[[int, int], bool],
) -> list[tuple[int, int]]:
    """Return the spans of the terms in a text, in order and without overlap: the longest first, then the first.

    `edges` has the characters where the words begin, and the end of the last; `is_term` may refuse
    a span of them.
    """
    starts: list[int] = []
    ends: list[int] = []
    nodes = [trie.longest_terms(words) for trie in tries]

    def fit_term(i: int, room: int) -> int:
        # The words of the longest term at a word that has no more words than there is room for; 0
        # if none has.
        size = 0
        for trie, trie_nodes in zip(tries, nodes, strict=True):
            node = trie_nodes[i]
            while node and not (trie.sizes[node] <= room and is_term(edges[i], edges[i + trie.sizes[node]])):
                node = trie.shorter[node]
            # Kept, since there is never more room at a word than there was before.
            trie_nodes[i] = node
            size = max(size, trie.sizes[node])
        return size

    queue: list[tuple[int, int, int]] = []
    for i in range(len(words)):
        size = fit_term(i, len(words) - i) if any(row[i] for row in nodes) else 0
        if size:
            queue.append((edges[i] - edges[i + size], i, size))
    heapify(queue)

    while queue:
        _, i, size = heappop(queue)
        place = bisect_right(starts, i)
        if place and ends[place - 1] > i:
            continue
        room = starts[place] - i if place < len(starts) else len(words) - i
        shorter = fit_term(i, room)
        if shorter == size:
            starts.insert(place, i)
            ends.insert(place, i + size)
        elif shorter:
            heappush(queue, (edges[i] - edges[i + shorter], i, shorter))
    return [(edges[start], edges[end]) for start, end in zip(starts, ends, strict=True)]
