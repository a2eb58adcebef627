"""Finds terms that a translation has in another form than the one that was asked for, as its grammar may want."""

import re
from collections.abc import Sequence
from dataclasses import replace

from pellucid.data.term_spans import find_term_words, is_inflected, split_term_words
from pellucid.data.text.noise import strip_accents
from pellucid.data.tokenizer import Tokenizer
from pellucid.decode.line_segments import Segment
from pellucid.decode.terms.required import WordEdges, missing_terms, without_edges
from pellucid.decode.terms.spellings import target_spellings

# German and its relatives write all nouns with a capital.
CAPITAL_NOUNS = frozenset(("de", "lb", "gsw", "nds", "bar"))


def accept_forms(
    segment: Segment,
    tokens: Sequence[int],
    tokenizer: Tokenizer,
    word_edges: WordEdges,
    target_language: str | None = None,
) -> Segment:
    """Return a segment with more spellings of the terms that a translation has in another form.

    Each form in the translation stands for one term. A term with a capital is a name, unless the
    language writes all nouns so, and has no other form.
    """
    missing = missing_terms(tokens, segment.terms, word_edges)
    if not missing:
        return segment

    terms, used = list(segment.terms), set[int]()
    words = find_term_words(tokenizer.decode_target(tokens))
    for n in missing:
        if segment.term_spans[n].protected:
            continue

        targets = tokenizer.decode_targets([without_edges(spelling) for spelling in terms[n]])
        for target in dict.fromkeys(targets):
            is_name = target != target.lower() and target_language not in CAPITAL_NOUNS
            form = None if is_name else _find_form(target, words, used)
            if form is not None:
                terms[n] = (*terms[n], *target_spellings(tokenizer, [form]))
                break
    return replace(segment, terms=tuple(terms))


def _find_form(target: str, words: Sequence[re.Match[str]], used: set[int]) -> str | None:
    """Return another form of a term that stands in the words of a text; its words are then `used`."""
    size = len(split_term_words(target))
    # An accent may come and go with an ending: joven, jóvenes.
    without_accents = strip_accents(target)
    for first in range(len(words) - size + 1):
        places = range(first, first + size)
        if not used.isdisjoint(places):
            continue
        form = words[0].string[words[first].start() : words[places.stop - 1].end()]
        if form.lower() != target.lower() and is_inflected(strip_accents(form), without_accents):
            used.update(places)
            return form
    return None
