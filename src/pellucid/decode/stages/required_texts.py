"""Finds what the translation of a segment must contain: the user's terms, and protected text such as placeholders."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial

from pellucid.data.text.protected import find_protected
from pellucid.data.tokenizer import Tokenizer
from pellucid.decode.line_segments import Search, SearchResult, Segment
from pellucid.decode.request import SearchConfig
from pellucid.decode.terms.matches import Terminology, TermMatch, TermSpan, protected_span
from pellucid.decode.terms.required import Term, joins_word
from pellucid.decode.terms.spellings import target_spellings, term_spellings


class RequireTexts:
    """The stage that asks for terms and protected text in the translation of each segment that has them.

    Raises ValueError for terms in a search that samples, and for terms that the model cannot write.
    """

    def __init__(self, tokenizer: Tokenizer, terms: Terminology | None, config: SearchConfig):
        self.tokenizer, self.terms, self.config = tokenizer, terms, config
        # One term, or one placeholder, may stand in many lines.
        self.spell = cache(partial(term_spellings, tokenizer))
        self.spell_targets = cache(partial(target_spellings, tokenizer))

    def __call__(self, segments: list[Segment], search: Search) -> list[SearchResult]:
        if self.terms is not None:
            if self.config.method == "sample":
                raise ValueError("terms need beam or greedy search; leave them out, or take method = 'beam'")
            self.terms.refuse_unwritable(self.tokenizer)

        with_terms = []
        for segment in segments:
            terms, problems = self.find_in(segment.read.text)
            with_terms.append(
                replace(
                    segment,
                    terms=tuple(terms.values()),
                    term_spans=tuple(terms),
                    notes=(*problems, *segment.notes),
                )
            )
        return search(with_terms)

    def find_in(self, text: str) -> tuple[dict[TermSpan, Term], list[str]]:
        """Return the terms by their source spans, and a note for each protected text that may not be kept."""
        matches = self.terms.matches(text) if self.terms is not None else []
        protected = self._find_protected(text, matches)
        terms_by_span: dict[TermSpan, Term] = {}
        for match in matches:
            # A term inside a placeholder, as in a URL, is no term.
            if not any(match.span.overlaps(span) for span in protected):
                terms_by_span[match.span] = self.spell_targets(match.targets)

        problems = []
        for span, match in protected.items():
            if self.config.method == "sample":
                problems.append(f"{match[0]!r} may not be kept: sampling does not look for it")
                continue
            # What stands as a word of its own stays one; what touches others may do so again.
            before, after = text[: match.start()][-1:], text[match.end() :][:1]
            begins_word = not before or before.isspace()
            touches_word = any(map(joins_word, before + after))
            try:
                term = self.spell(match[0], touching=touches_word)
            except ValueError:
                problems.append(f"{match[0]!r} is not kept: this model cannot write it")
            else:
                # The first spelling is the one with the word-start mark.
                terms_by_span[span] = term[:1] if begins_word else term
        return terms_by_span, problems

    def _find_protected(self, text: str, matches: Sequence[TermMatch]) -> dict[TermSpan, re.Match[str]]:
        """Return the protected texts by their spans."""
        if self.config.markup != "keep":
            return {}
        protected = {}
        for match in find_protected(text):
            span = protected_span(text, *match.span())
            # A term around a placeholder says how to translate it.
            if not any(term_match.span.contains(span) for term_match in matches):
                protected[span] = match
        return protected
