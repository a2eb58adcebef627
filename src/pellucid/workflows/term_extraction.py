"""Proposes a glossary: terms of a parallel text that are translated consistently, and terms that are not."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, log2

from pellucid.data.term_spans import (
    are_forms_of_one,
    find_common_words,
    link_pairs,
    list_term_spans,
    split_term_words,
)
from pellucid.data.text.line_splitting import UNSPACED

# Of the translations of a term, that another form of its translation has at least.
_FORM_SHARE = 0.1
# Signs behind which a capital may belong to the sentence.
_BEFORE_SENTENCES = frozenset(".!?:¿¡…。！？—–\"'„“”«»「『(")
# Pairs of a block, in which a term that belongs to a subject stands several times.
_BLOCK_PAIRS = 50
_PLACES = 5  # places that are named for one translation


@dataclass
class TermTranslation:
    """A translation of a term: its forms, how often it occurs, and the first pairs that have it."""

    forms: list[str]
    count: int
    places: list[int]


@dataclass
class ProposedTerm:
    """A term of the source, how often it is translated as a stretch of words, and its translations, the most frequent
    first."""

    source: str
    count: int
    translations: list[TermTranslation]

    @property
    def consistency(self) -> float:
        """Share of its most frequent translation."""
        return self.translations[0].count / self.count


@dataclass
class Glossary:
    """Terms that a text translates consistently, and terms that it translates in several ways; the best come first."""

    consistent: list[ProposedTerm]
    inconsistent: list[ProposedTerm]
    pairs: int


@dataclass
class _Seen:
    """One source term as it was seen: its spellings, and its translations with their places."""

    spellings: Counter[str] = field(default_factory=Counter)
    forms: Counter[str] = field(default_factory=Counter)
    places: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    blocks: int = 0  # stretches of the text that have the term
    last_block: int = -1

    def add(self, source: str, target: str, place: int, block: int) -> None:
        if block != self.last_block:
            self.blocks += 1
            self.last_block = block
        self.spellings[source] += 1
        self.forms[target] += 1
        places = self.places[target]
        if len(places) < _PLACES and place not in places:
            places.append(place)


def propose_glossary(
    rows: Iterable[tuple[int, str, str]],
    least_count: int = 3,
    least_consistency: float = 0.7,
    most: int = 500,
) -> Glossary:
    """Propose a glossary of a parallel text, given as rows of place, source and target.

    A term occurs at least `least_count` times. It is consistent if one translation, in all its
    forms, has a share of at least `least_consistency`; it is inconsistent if two translations and
    more occur `least_count` times. `most` bounds the number of terms of each kind. Raises
    ValueError for a text of fewer than 20 pairs, from which no links can be learned.
    """
    places: list[int] = []
    sources: list[list[str]] = []
    targets: list[list[str]] = []
    seen_pairs = set[int]()
    for place, source, target in rows:
        # A pair that is repeated, as in a memory, would be evidence for itself.
        if not source or not target or hash((source, target)) in seen_pairs:
            continue
        seen_pairs.add(hash((source, target)))
        places.append(place)
        sources.append(split_term_words(source))
        targets.append(split_term_words(target))

    if len(places) < 20:
        raise ValueError(
            f"{len(places)} different pairs are too few to find terms: which words belong together is learned from "
            "them; give some hundred"
        )

    common = find_common_words(sources), find_common_words(targets)
    seen = defaultdict[str, _Seen](_Seen)
    all_links = link_pairs(sources, targets)
    linked = zip(places, sources, targets, all_links, strict=True)
    for number, (place, source, target, links) in enumerate(linked):
        spans = list_term_spans(source, target, links, common)
        for (start, end), (target_start, target_end) in spans:
            term, translation = _join(source[start:end]), _join(target[target_start:target_end])
            seen[term.lower()].add(
                _write_inside(source, start, term),
                _write_inside(target, target_start, translation),
                place,
                number // _BLOCK_PAIRS,
            )

    return _choose_terms(seen, least_count, least_consistency, most, len(places))


def _join(words: Sequence[str]) -> str:
    """Return words as a text; between two characters of a script without spaces stands none.

    >>> _join(["user", "guide"]), _join(["犬", "小", "屋"])
    ('user guide', '犬小屋')
    """
    text = words[0]
    for before, word in pairwise(words):
        together = UNSPACED.match(before) and UNSPACED.match(word)
        text += word if together else f" {word}"
    return text


def _write_inside(sentence: Sequence[str], start: int, term: str) -> str:
    """Return a term as it is written inside a sentence: a capital at the beginning may belong to the sentence."""
    begins = start == 0 or sentence[start - 1] in _BEFORE_SENTENCES
    has_one_capital = term[:1].isupper() and not term[1:2].isupper()
    return term[:1].lower() + term[1:] if begins and has_one_capital else term


# Choice


def _choose_terms(
    seen: dict[str, _Seen], least_count: int, least_consistency: float, most: int, pairs: int
) -> Glossary:
    """Return the terms that occur often enough, in the order of their C-values."""
    counts = {term: found.spellings.total() for term, found in seen.items()}
    frequent = {term: count for term, count in counts.items() if count >= least_count}
    values = _measure_c_values(frequent)
    all_blocks = ceil(pairs / _BLOCK_PAIRS)
    for term in values:
        # Squared: in a long text the commonest words would come first otherwise.
        values[term] *= _measure_burstiness(frequent[term], seen[term].blocks, all_blocks) ** 2
    order = sorted(values.items(), key=lambda item: (-item[1], item[0]))
    glossary = Glossary([], [], pairs)
    for term, value in order:
        if value <= 0:
            continue
        proposed = _describe_term(seen[term], frequent[term])
        often = [one for one in proposed.translations if one.count >= least_count]
        if proposed.consistency >= least_consistency and often:
            glossary.consistent.append(proposed)
        elif len(often) > 1:
            proposed.translations = often
            glossary.inconsistent.append(proposed)

    return Glossary(glossary.consistent[:most], glossary.inconsistent[:most], pairs)


def _measure_c_values(counts: dict[str, int]) -> dict[str, float]:
    """Return the C-value of each term (Frantzi, Ananiadou and Mima 2000, section 2.2.3).

    A long term counts more than a short one, and what nearly always stands inside of longer terms
    counts little. As terms of one word are terms here, too, one is added to the number of words.

    >>> values = _measure_c_values({"power supply": 5, "supply": 6, "power supply unit": 5})
    >>> {term: round(value, 2) for term, value in values.items()}
    {'power supply': 0.0, 'supply': 1.0, 'power supply unit': 10.0}
    """
    longer = defaultdict[str, list[int]](list)
    for term, count in counts.items():
        words = term.split()
        for start in range(len(words)):
            for end in range(start + 1, len(words) + 1):
                part = " ".join(words[start:end])
                if part != term and part in counts:
                    longer[part].append(count)

    values: dict[str, float] = {}
    for term, count in counts.items():
        around = longer.get(term, [])
        alone = count - (sum(around) / len(around) if around else 0.0)
        values[term] = log2(1 + len(term.split())) * alone
    return values


def _measure_burstiness(count: int, blocks: int, all_blocks: int) -> float:
    """Return in how many times fewer blocks a term stands than a word would that is spread at random.

    Common words stand everywhere, the terms of a subject where it is treated (Church and Gale
    1995).

    >>> _measure_burstiness(1, 1, 100), round(_measure_burstiness(50, 10, 100), 2)
    (1.0, 3.95)

    """
    expected = all_blocks * (1 - (1 - 1 / all_blocks) ** count)
    return max(1.0, round(expected / blocks, 9))


def _describe_term(found: _Seen, count: int) -> ProposedTerm:
    """Return what was seen of a term as an entry of the glossary."""
    groups: list[list[str]] = []
    for form, _ in sorted(found.forms.items(), key=lambda item: (-item[1], item[0])):
        group = next((group for group in groups if are_forms_of_one(group[0], form)), None)
        if group is None:
            groups.append([form])
        else:
            group.append(form)

    translations: list[TermTranslation] = []
    for group in groups:
        total = sum(found.forms[form] for form in group)
        names = [form for form in group if found.forms[form] >= _FORM_SHARE * total]
        places = sorted({place for form in group for place in found.places[form]})
        translations.append(TermTranslation(names, total, places[:_PLACES]))

    translations.sort(key=lambda translation: (-translation.count, translation.forms))
    spelling = min(found.spellings, key=lambda text: (-found.spellings[text], text))
    return ProposedTerm(spelling, count, translations)
