"""Terms in parallel text: words that are linked with each other, stretches that translate each other, forms of a word.

Words are linked by IBM model 1, learned on the text itself. A term and its translation are
stretches of words with links between them and none to other words, as in phrase-based translation
(Koehn, Och and Marcu 2003, section 4).
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from math import ceil

import numpy as np

from pellucid.data.links import MOST_WORDS, Floats, Ints, LinkModel, WordIds, WordStems
from pellucid.data.text.line_splitting import UNSPACED

MOST_TERM_WORDS = 4  # words of a term, on either side
# A word with the hyphens and apostrophes inside it, a sign, or a character of an unspaced script.
_LETTERS = rf"(?:(?!{UNSPACED.pattern})\w)+"
_WORD = re.compile(rf"{UNSPACED.pattern}|{_LETTERS}(?:[-'’]{_LETTERS})*|[^\w\s]")
# Share of a link in what its words have with all others; below it a word has no partner.
_LEAST_SHARE = 0.2
_COMMON_WORDS = 60  # most frequent words of a side, at which no term begins or ends: articles, pronouns, particles
_COMMON_SHARE = 0.05  # of the different words, that are these at most
_ALIKE_SHARE = 0.7  # of the letters of the shorter one, with which two forms of a word begin alike
_KEY = 3  # letters with which all forms of a word begin
_ENDING = 2  # letters in which words that are inflected alike end alike
_LEAST_CHANGED = 3  # words whose ending changes in one way, so that they are taken for forms
_LONGEST_ENDING = 3  # letters by which one form of a word is longer than another, at most

Links = list[tuple[int, int]]
Span = tuple[int, int]


def split_term_words(text: str) -> list[str]:
    """Return the words and the signs of a text, as many as are linked.

    >>> split_term_words("The well-known user's guide, 犬!")
    ['The', 'well-known', "user's", 'guide', ',', '犬', '!']
    """
    return _WORD.findall(text)[:MOST_WORDS]


def find_term_words(text: str) -> list[re.Match[str]]:
    """Return all words and signs of a text, as `split_term_words` cuts it, with their places."""
    return list(_WORD.finditer(text))


# Links between words


class TermLinks:
    """Links between words, learned from pairs that are cut into words."""

    def __init__(self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]):
        self.stems = WordStems()
        source_ids = self.stems.encode_words(list(map(_lower_words, sources)))
        target_ids = self.stems.encode_words(list(map(_lower_words, targets)))
        every = np.arange(len(sources))
        self.model = LinkModel(source_ids, target_ids, every, every)

    def link(
        self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]
    ) -> Iterator[Links]:
        """Yield the links of each pair: two words that are each other's likeliest partners, by IBM model 1 both ways.

        A word that the links were not learned from has none.
        """
        source_ids, source_places = self._encode(sources)
        target_ids, target_places = self._encode(targets)
        every, pair = np.arange(len(sources)), 0
        for _, links in self.model.link_chunks(source_ids, target_ids, every, every):
            known = self.model.known
            source = links.source_ids[links.source_position]
            target = links.target_ids[links.target_position]
            is_known = known[source] & known[target]
            counts = np.where(is_known, self.model.table[links.slots], 0).astype(np.float64)
            forward = _share_out(counts / self.model.source_counts[source], links.target_position)
            target_counts = np.maximum(self.model.target_counts[target], 1e-9)
            backward = _share_out(counts / target_counts, links.source_position)
            strength = forward * backward
            best = np.flatnonzero(
                (strength >= _LEAST_SHARE**2)
                & (strength == _largest_of(strength, links.source_position))
                & (strength == _largest_of(strength, links.target_position))
            )
            rows = _split_by_pair(
                links.source_position[best],
                links.target_position[best],
                np.cumsum(links.source_lengths) - links.source_lengths,
                np.cumsum(links.target_lengths) - links.target_lengths,
            )
            for row in rows:
                yield [(source_places[pair][i], target_places[pair][j]) for i, j in row]
                pair += 1

    def _encode(self, sentences: Sequence[Sequence[str]]) -> tuple[WordIds, list[list[int]]]:
        """Return the ids of the words that are known, and of each sentence the places of these words."""
        rows: list[list[str]] = []
        places: list[list[int]] = []
        for sentence in sentences:
            words = _lower_words(sentence)
            known = [place for place, word in enumerate(words) if self.stems.knows_word(word)]
            places.append(known)
            rows.append([words[place] for place in known])
        return self.stems.encode_words(rows), places


def link_pairs(
    sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]
) -> Iterator[Links]:
    """Yield the links of each pair, learned from these pairs themselves."""
    return TermLinks(sources, targets).link(sources, targets)


def _lower_words(sentence: Sequence[str]) -> list[str]:
    return [word.lower() for word in sentence]


def _share_out(values: Floats, position: Ints) -> Floats:
    """Return each value as its share in the values of its position."""
    sums = np.bincount(position, values)
    return values / np.maximum(sums[position], 1e-12)


def _largest_of(values: Floats, position: Ints) -> Floats:
    """Return, for each value, the largest one of its position."""
    largest = np.zeros(int(position.max()) + 1 if len(position) else 0)
    np.maximum.at(largest, position, values)
    return largest[position]


def _split_by_pair(
    source: Ints, target: Ints, source_starts: Ints, target_starts: Ints
) -> Iterator[Links]:
    """Yield the links of each pair, counted from the beginnings of its sentences; each word is in one link at most."""
    pair_of_link = np.searchsorted(target_starts, target, side="right") - 1
    rows: list[Links] = [[] for _ in target_starts]
    used: set[tuple[str, int]] = set()
    for pair, i, j in zip(pair_of_link.tolist(), source.tolist(), target.tolist(), strict=True):
        # A word that stands twice has two equally strong links: the first free places go together.
        if ("source", i) in used or ("target", j) in used:
            continue
        used |= {("source", i), ("target", j)}
        rows[pair].append((i - int(source_starts[pair]), j - int(target_starts[pair])))
    yield from rows


# Terms in a pair


def list_term_spans(
    source: Sequence[str], target: Sequence[str], links: Links, common: tuple[set[str], set[str]]
) -> Iterator[tuple[Span, Span]]:
    """Yield the stretches of a pair that translate each other and may be terms, each as two spans of words.

    All links of a stretch lead into the other, its first and last words are linked and not common
    ones, and none of its words is a punctuation mark.
    """
    to_target = dict(links)
    to_source = {j: i for i, j in links}
    for start in range(len(source)):
        if start not in to_target or not _may_end_term(source[start], common[0]):
            continue
        for end in range(start + 1, min(start + MOST_TERM_WORDS, len(source)) + 1):
            if not _is_word(source[end - 1]):
                break
            if end - 1 not in to_target or not _may_end_term(source[end - 1], common[0]):
                continue
            partners = [to_target[i] for i in range(start, end) if i in to_target]
            first, last = min(partners), max(partners) + 1
            if last - first > MOST_TERM_WORDS or not all(map(_is_word, target[first:last])):
                continue
            returns = [to_source[j] for j in range(first, last) if j in to_source]
            is_consistent = start <= min(returns) and max(returns) < end
            ends = (target[first], target[last - 1])
            if is_consistent and all(_may_end_term(word, common[1]) for word in ends):
                yield (start, end), (first, last)


def find_common_words(sentences: Sequence[Sequence[str]]) -> set[str]:
    """Return the most frequent words of one side, in lower case."""
    counts = Counter(word.lower() for sentence in sentences for word in sentence if _is_word(word))
    number = min(_COMMON_WORDS, ceil(_COMMON_SHARE * len(counts)))
    return {word for word, _ in counts.most_common(number)}


def _is_word(word: str) -> bool:
    return word[0].isalnum()


def _may_end_term(word: str, common: set[str]) -> bool:
    """Whether a term may begin or end with a word: a number, a common word and one letter say nothing by themselves."""
    has_letters = sum(map(str.isalpha, word)) > (0 if UNSPACED.match(word) else 1)
    return has_letters and word.lower() not in common


# Forms of a word


def are_forms_of_one(first: str, second: str) -> bool:
    """Whether two translations look like inflected forms of one: their words, one by one, begin alike.

    >>> are_forms_of_one("negro", "negras"), are_forms_of_one("rote Katze", "roten Katzen")
    (True, True)
    >>> are_forms_of_one("parte", "parque"), are_forms_of_one("gato", "gato negro")
    (False, False)

    """
    words, others = first.lower().split(), second.lower().split()
    if len(words) != len(others):
        return False
    for word, other in zip(words, others, strict=True):
        shorter = min(len(word), len(other))
        needed = max(min(3, shorter), ceil(_ALIKE_SHARE * shorter))
        if word[:needed] != other[:needed]:
            return False
    return True


def is_inflected(word: str, other: str) -> bool:
    """Whether two words, or two terms, look like inflected forms of one, with endings of a few letters.

    >>> is_inflected("rojo", "Rojas"), is_inflected("con", "contento"), is_inflected("table saw", "tables saws")
    (True, False, True)
    """
    for first, second in zip(word.split(), other.split(), strict=False):
        if abs(len(first) - len(second)) > _LONGEST_ENDING:
            return False
    return are_forms_of_one(word, other)


class WordForms:
    """How often each word of one side occurs, in small letters, and which words are forms of one.

    Two words are forms of one if they begin alike, and if the endings of several other words change
    in the same way: rojo and rojas, as negro and negras do, but not nuevo and nueve.
    """

    def __init__(self, sentences: Iterable[Iterable[str]]):
        self.counts: Counter[str] = Counter()
        for sentence in sentences:
            self.counts.update(word.lower() for word in sentence if _is_word(word))
        self.words = [word for word in self.counts if word.isalpha()]
        self.by_beginning: dict[str, list[str]] = defaultdict(list)
        self.by_ending: dict[str, list[str]] = defaultdict(list)
        # The most frequent first; of equal ones, the first in the alphabet.
        for word in sorted(self.words, key=lambda word: (-self.counts[word], word)):
            self.by_beginning[word[:_KEY]].append(word)
            self.by_ending[word[-1]].append(word)
        self._forms: dict[str, list[str]] = {}
        self._changes: dict[tuple[str, str, str], list[tuple[str, str]]] = {}

    def list_forms(self, word: str) -> list[str]:
        """Return the other forms of a word, the most frequent first.

        >>> words = "rojo roja negro negra blanco blanca nuevo nueve".split()
        >>> WordForms([words]).list_forms("Roja"), WordForms([words]).list_forms("nuevo")
        (['rojo'], [])
        """
        key = word.lower()
        if key not in self._forms:
            alike = self.by_beginning.get(key[:_KEY], ())
            forms = self._forms[key] = []
            for form in alike:
                is_form = form != key and is_inflected(form, key)
                if is_form and len(self.list_changed(form, key)) >= _LEAST_CHANGED:
                    forms.append(form)
        return self._forms[key]

    def list_changed(self, form: str, word: str) -> list[tuple[str, str]]:
        """Return pairs of words that differ in their ending as these two forms do, in small letters.

        For a word and itself these are all words that end alike.

        >>> WordForms(["rojo roja negro negra perro mesa".split()]).list_changed("rojo", "roja")
        [('negro', 'negra'), ('rojo', 'roja')]
        """
        stem = 0
        for letter, other in zip(form, word, strict=False):
            if letter != other:
                break
            stem += 1

        ending, changed = form[stem:], word[stem:]
        alike = changed or word[-_ENDING if form == word else -1 :]
        key = ending, changed, alike
        if key not in self._changes:
            pairs: list[tuple[str, str]] = []
            for other in self.by_ending.get(word[-1:], ()):
                first = other.removesuffix(changed) + ending
                is_word = len(first) >= _KEY and first in self.counts
                if other.endswith(alike) and is_word and is_inflected(first, other):
                    pairs.append((first, other))
            self._changes[key] = pairs
        return self._changes[key]

    def list_base_forms(self, word: str) -> list[str]:
        """Return the forms of a word that a glossary may have: the most frequent one, and the shortest ones.

        >>> words = "rojo roja rojas rojas negro negra negras blanco blanca blancas".split()
        >>> WordForms([words]).list_base_forms("roja")
        ['roja', 'rojas', 'rojo']
        """
        forms = [word.lower(), *self.list_forms(word)]
        commonest = max(self.counts[form] for form in forms)
        shortest = min(map(len, forms))
        base = []
        for form in forms:
            if len(form) == shortest or self.counts[form] == commonest:
                base.append(form)
        return sorted(base)
