"""Terms while training: some sources of each batch carry marked terms, with a translation beside each.

The terms are words of the pair itself that translate each other, as links between words say that
were learned from the text. What stands beside a term is the form that the target has; or its
commonest form in the text, so that the model learns to inflect; or a word that the text has
nowhere, which then stands in the target, too, so that the model learns to obey. Which pairs, and
how, follows from the seed of the epoch and the number of the pair alone, so that a resumed run
shows the same, and so does any number of workers.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from pellucid.data.batching import EncodedPairs, pack_sentences
from pellucid.data.context import count_context
from pellucid.data.pair_noise import draw_uniform, lengthen, sample_evenly
from pellucid.data.term_marks import MarkedTerm, SpelledSource, mark_terms
from pellucid.data.term_spans import (
    Span,
    TermLinks,
    WordForms,
    find_common_words,
    find_term_words,
    list_term_spans,
    split_term_words,
)
from pellucid.data.tokenizer import EOS, UNK, Tokenizer, strip_eos

_LEARNED_PAIRS = 20_000  # pairs from which the links and the forms of words are learned, spread evenly: 2 seconds
_SAMPLED_PAIRS = 200  # pairs by which the length of marked ones is estimated
_LONGEST_TERM = 3  # words of a term in training, on either side
_NUMBERS_OF_TERMS = (1, 1, 2, 2, 3)  # terms of a source, each as likely as its share in this list
_SINGLE_WORDS = 0.7  # share of the sources whose terms are single words, if it has some
_ANY_WORDS = 0.3  # share in which the commonest words are terms, too: names may be among them
_REPLACED = 0.7  # share of the terms that have another translation than the text
_BASE_FORM = 0.5  # share of the others that are given in a form that a glossary may have
_FOREIGN = 0.38  # share of the other words that the text has nowhere
_INFLECTED = 0.42  # share of those that stand in the right form
_OTHER_FORM = 0.8  # share of the inflected ones that are told in another form, if there is one
_CAPITAL = 0.6  # share of the words that the text has nowhere with a capital
_WORD_CAPITAL = 0.2  # share of the others with one
_DRAWS = 10  # words drawn at most, so that one is never seen in the wrong form
_LONGEST_SYLLABLE = 3  # letters of a piece in a word that is made of pieces
_LETTERS = re.compile(r"(\w+)")
_TERM_SEED = 0x7E2D5  # so that noise draws other pairs


@dataclass(frozen=True)
class _Side:
    """Words of one side: the common ones, at which no term begins or ends, the forms of each, and parts of new ones."""

    common: set[str]
    forms: WordForms
    syllables: list[str]

    @classmethod
    def learn(cls, sentences: Sequence[Sequence[str]], pieces: Iterable[str]) -> "_Side":
        """Learn the words of sentences; words that they have nowhere are made of short pieces, too."""
        alphabetic = filter(str.isalpha, pieces)
        syllables = [piece for piece in alphabetic if len(piece) <= _LONGEST_SYLLABLE]
        # Names have letters that no word of the text has.
        latin = [consonant + vowel for consonant in "bcdfghjklmnpqrstvwxyz" for vowel in "aeiou"]
        return cls(find_common_words(sentences), WordForms(sentences), [*syllables, *latin])

    def make_word(self, random: Random) -> str:
        """Return a word that the text has nowhere: a beginning and an end of two words, or some pieces."""
        words = self.forms.words
        if random.random() < 0.5:
            first, second = random.choice(words), random.choice(words)
            beginning = first[: random.randint(1, max(1, len(first) - 1))]
            word = beginning + second[random.randrange(len(second)) :]
        else:
            word = "".join(random.choices(self.syllables, k=random.randint(2, 4)))
        return word.capitalize() if random.random() < _CAPITAL else word

    def draw_inflected(self, word: str, random: Random) -> tuple[str, str]:
        """Return another word in the form that a word has, and as a glossary may have it."""
        bases = self.forms.list_base_forms(word)
        if random.random() < _OTHER_FORM:
            bases = [base for base in bases if base != word.lower()] or bases
        base = random.choice(bases)
        told, there = random.choice(self.forms.list_changed(base, word.lower()) or [(word, word)])
        return there, told

    def draw_other(self, word: str, random: Random) -> str:
        """Return a word that stands in the place of another one as it is told, also where another form belongs.

        It is no first form of a word with several, if the other word has several: it is inflected.
        """
        other = random.choice(self.forms.words)
        for _ in range(_DRAWS):
            if not self.forms.list_forms(word) or other not in self.forms.list_base_forms(other):
                break
            if not self.forms.list_forms(other):
                break
            other = random.choice(self.forms.words)
        return other.capitalize() if random.random() < _WORD_CAPITAL else other


@dataclass(frozen=True)
class _SpelledPair:
    """The text of a pair, side by side: what its tokens spell, without a context and EOS, and the words of that."""

    head: list[int]  # what stands before the source: a language to write, or a context
    own: tuple[list[int], list[int]]
    source_ends: bool  # whether EOS stands behind the source
    spelled: tuple[SpelledSource, SpelledSource]
    words: tuple[list[re.Match[str]], list[re.Match[str]]]


@dataclass(frozen=True)
class _PlannedTerm:
    """A term that is marked: its tokens, and the translation beside it."""

    tokens: range
    told: str


@dataclass(frozen=True)
class _Plan:
    """The terms that are marked in a pair, and the text of the other side if it becomes another."""

    terms: list[_PlannedTerm]
    rewritten: str = ""


class PairTerms:
    """Marks terms in encoded pairs: reads their ids as text, and puts the translations of terms into the sources."""

    def __init__(self, encoded: EncodedPairs, tokenizer: Tokenizer, share: float, max_pieces: int):
        """Learn the words of these pairs, or of some of them if they are many.

        A pair that marks would give more than `max_pieces` is shown as it is.
        """
        assert tokenizer.term_marks is not None
        self.tokenizer, self.marks = tokenizer, tokenizer.term_marks
        self.share, self.max_pieces = share, max_pieces
        sample = sample_evenly(len(encoded), _LEARNED_PAIRS)
        sources, targets = [], []
        for i in sample.tolist():
            source, target = encoded.sources[i].tolist(), encoded.targets[i].tolist()
            source = source[count_context(source) :]
            sources.append(split_term_words(tokenizer.decode_source(source)))
            targets.append(split_term_words(tokenizer.decode_target(target)))

        self.links = TermLinks(sources, targets)
        self.sides = (
            _Side.learn(sources, tokenizer.source_names),
            _Side.learn(targets, tokenizer.target_names),
        )
        self.ratio = self._measure_ratio(encoded)

    def plant(
        self,
        encoded: EncodedPairs,
        rows: NDArray[np.integer],
        numbers: NDArray[np.integer],
        seed: int,
        backwards: bool = False,
    ) -> EncodedPairs:
        """Return these rows of the pairs, in their order, some of them with marked terms.

        A row is drawn by its number in the whole text, and does not depend on what else is chosen.
        With `backwards`, the targets are what will be translated, and have the terms.
        """
        return self._plant_where(self._draw(numbers, seed), encoded, rows, numbers, seed, backwards)

    def _plant_where(
        self,
        chosen: NDArray[np.bool_],
        encoded: EncodedPairs,
        rows: NDArray[np.integer],
        numbers: NDArray[np.integer],
        seed: int,
        backwards: bool,
    ) -> EncodedPairs:
        """Return these rows of the pairs, the chosen ones with marked terms where they have any."""
        sides = (
            [encoded.sources[i].tolist() for i in rows],
            [encoded.targets[i].tolist() for i in rows],
        )
        pairs: dict[int, _SpelledPair] = {}
        for row in np.flatnonzero(chosen).tolist():
            if UNK not in sides[0][row] and UNK not in sides[1][row]:
                pairs[row] = self._spell_pair(sides[0][row], sides[1][row])

        plans = self._plan_terms(pairs, numbers, seed, backwards)
        read, written = (1, 0) if backwards else (0, 1)
        # All texts in two calls, since SentencePiece takes most of the time for a call.
        told_texts, rewritten_texts = [], []
        for plan in plans.values():
            told_texts.extend(term.told for term in plan.terms)
            if plan.rewritten:
                rewritten_texts.append(plan.rewritten)
        told = iter(self._encode(told_texts, read))
        rewritten = iter(self._encode(rewritten_texts, written))

        for row, plan in plans.items():
            pair = pairs[row]
            own = [*pair.own]
            terms = [MarkedTerm(term.tokens, next(told)) for term in plan.terms]
            own[read] = mark_terms(own[read], terms, self.marks)
            if plan.rewritten:
                own[written] = next(rewritten)
            source, target = [*pair.head, *own[0], *[EOS] * pair.source_ends], [*own[1], EOS]
            if max(len(source), len(target)) <= self.max_pieces:
                sides[0][row], sides[1][row] = source, target

        packed = []
        for side, before in zip(sides, (encoded.sources, encoded.targets), strict=True):
            packed.append(pack_sentences(side, before.ids.dtype.type))
        return EncodedPairs(packed[0], packed[1])

    def expect_lengths(
        self, source_lengths: NDArray[np.int32], numbers: NDArray[np.integer], seed: int
    ) -> NDArray[np.int32]:
        """Return about how many tokens the sources of these pairs have with marks, to make batches of them."""
        marked = self._draw(numbers, seed)
        return lengthen(source_lengths, marked, self.ratio, self.max_pieces)

    def _measure_ratio(self, encoded: EncodedPairs) -> float:
        """Return how many times longer marks make a source, from some pairs."""
        sample = sample_evenly(len(encoded), _SAMPLED_PAIRS)
        everywhere = np.ones(len(sample), np.bool_)
        marked = self._plant_where(everywhere, encoded, sample, sample, seed=0, backwards=False)
        return int(marked.sources.lengths.sum()) / int(encoded.sources.lengths_of(sample).sum())

    def _draw(self, numbers: NDArray[np.integer], seed: int) -> NDArray[np.bool_]:
        """Draw whether the pairs with these numbers have marked terms."""
        return draw_uniform(numbers, seed ^ _TERM_SEED) < self.share

    def _spell_pair(self, source: list[int], target: list[int]) -> _SpelledPair:
        """Return the text of a pair."""
        cut = count_context(source)
        own = strip_eos(source[cut:]), strip_eos(target)
        spelled = (
            SpelledSource(self.tokenizer.source_pieces(own[0])),
            SpelledSource(self.tokenizer.target_pieces(own[1])),
        )
        words = find_term_words(spelled[0].text), find_term_words(spelled[1].text)
        return _SpelledPair(source[:cut], own, source[-1:] == [EOS], spelled, words)

    def _plan_terms(
        self,
        pairs: dict[int, _SpelledPair],
        numbers: NDArray[np.integer],
        seed: int,
        backwards: bool,
    ) -> dict[int, _Plan]:
        """Return what is marked in each pair, by its row."""
        words: tuple[list[list[str]], list[list[str]]] = [], []
        for pair in pairs.values():
            for side in (0, 1):
                words[side].append([match[0] for match in pair.words[side]])

        plans: dict[int, _Plan] = {}
        for number, (row, links) in enumerate(zip(pairs, self.links.link(*words), strict=True)):
            # A generator for each pair, so that a pair does not depend on what else is drawn.
            random = Random((seed << 64) + int(numbers[row]) + _TERM_SEED)
            texts, read, written = (words[0][number], words[1][number]), 0, 1
            if backwards:
                links, read, written = [(j, i) for i, j in links], 1, 0
            common = self.sides[read].common, self.sides[written].common
            if random.random() < _ANY_WORDS:
                common = set[str](), set[str]()
            spans: list[tuple[Span, Span]] = []
            for span, other in list_term_spans(texts[read], texts[written], links, common):
                if max(span[1] - span[0], other[1] - other[0]) <= _LONGEST_TERM:
                    spans.append((span, other))
            random.shuffle(spans)
            if random.random() < _SINGLE_WORDS:
                # Stable, so that the order of the others stays by chance.
                spans.sort(key=lambda both: both[0][1] - both[0][0] + both[1][1] - both[1][0] > 2)
            plans[row] = self._plan_one(
                pairs[row], spans[: random.choice(_NUMBERS_OF_TERMS)], random, read, written
            )
        return plans

    def _plan_one(
        self,
        pair: _SpelledPair,
        spans: Sequence[tuple[Span, Span]],
        random: Random,
        read: int,
        written: int,
    ) -> _Plan:
        """Return what is marked in a pair, given the words of both sides that translate each other."""
        terms: list[_PlannedTerm] = []
        taken: tuple[set[int], set[int]] = set(), set()
        replacements: list[tuple[int, int, str]] = []
        text, side = pair.spelled[written].text, self.sides[written]

        def to_base_form(word: re.Match[str]) -> str:
            return random.choice(side.forms.list_base_forms(word[0]))

        for span, other in spans:
            first, last = pair.words[read][span[0]], pair.words[read][span[1] - 1]
            tokens = pair.spelled[read].find_tokens(first.start(), last.end())
            if not taken[0].isdisjoint(tokens) or not taken[1].isdisjoint(range(*other)):
                continue

            taken[0].update(tokens)
            taken[1].update(range(*other))
            first, last = pair.words[written][other[0]], pair.words[written][other[1] - 1]
            start, end = first.start(), last.end()
            told = text[start:end]

            if random.random() < _REPLACED and side.forms.words:
                replacement, told = self._replace_words(told, random, side)
                # At the beginning of a sentence it has a capital, as what it replaces.
                if text[start].isupper() and replacement[0].islower():
                    replacement = replacement[0].upper() + replacement[1:]
                replacements.append((start, end, replacement))
            elif random.random() < _BASE_FORM:
                told = _LETTERS.sub(to_base_form, told)
            terms.append(_PlannedTerm(tokens, told))

        if not replacements:
            return _Plan(terms)
        for start, end, told in sorted(replacements, reverse=True):
            text = text[:start] + told + text[end:]
        return _Plan(terms, text)

    def _replace_words(self, text: str, random: Random, side: _Side) -> tuple[str, str]:
        """Return other words in the place of each word of a translation, and the same as a glossary may have them.

        Some the text has nowhere, some have the form that belongs there and are told in another
        one, and some stand there as they are told.
        """
        there, told = [], []
        for part in _LETTERS.split(text):
            drawn = random.random()
            if not _LETTERS.fullmatch(part):
                word = form = part
            elif drawn < _FOREIGN:
                word = form = side.make_word(random)
            elif drawn < _FOREIGN + _INFLECTED:
                form, word = side.draw_inflected(part, random)
            else:
                word = form = side.draw_other(part, random)
            there.append(form)
            told.append(word)
        return "".join(there), "".join(told)

    def _encode(self, texts: Sequence[str], side: int) -> list[list[int]]:
        """Return the token ids of texts of one side, without what stands around a sentence."""
        encode = self.tokenizer.encode_target if side else self.tokenizer.encode_source_text
        return [strip_eos(ids) for ids in encode(texts)]
