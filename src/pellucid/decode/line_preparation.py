"""Prepares lines for the search: splits long ones, extracts tags, and finds terms and protected text."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

from pellucid.data.tokenizer import Tokenizer
from pellucid.decode.config import SearchConfig
from pellucid.decode.prefix import prefix_pieces
from pellucid.decode.request import SearchRequest, continue_always
from pellucid.decode.required_terms import Term
from pellucid.decode.terms import Terms, TermSpan, protected_span, term_spellings
from pellucid.decode.word_edges import joins_word
from pellucid.text.line_splitting import SplitLine, describe_split, split_line
from pellucid.text.markup import TaggedText, extract_tags, find_protected


@dataclass(frozen=True)
class LengthLimits:
    """Longest sources in pieces, EOS included: of those a model was trained on, and of those it takes."""

    longest_trained: int
    longest: int


@dataclass(frozen=True)
class Segment:
    """One sentence or more that are translated together; `term_spans` has the source span of each term."""

    marked: TaggedText
    request: SearchRequest
    term_spans: tuple[TermSpan, ...] = ()


@dataclass(frozen=True)
class PreparedLine:
    """A line of the user, and the segments of it that are translated."""

    line: str
    split_line: SplitLine
    segments: tuple[Segment, ...]
    notes: tuple[str, ...]


def prepare_lines(
    lines: Sequence[str],
    first_line: int,
    tokenizer: Tokenizer,
    lengths: LengthLimits,
    config: SearchConfig,
    terms: Terms | None,
    prefixes: Sequence[str] | None,
    check_wanted: Callable[[], None] = continue_always,
) -> list[PreparedLine]:
    """Return each line with its requests; ValueError, naming the lines, for any that cannot be translated as asked."""

    # Most lines are translated as they stand: they are encoded once, all together, and their pieces looked up below.
    encoded = dict(zip(lines, tokenizer.encode_source(lines), strict=True))

    def count_pieces(text: str) -> int:
        if text in encoded:
            return len(encoded[text])
        # No text has more pieces than bytes, but for the word-start mark of its first word and EOS. The upper bound
        # spares the tokenizer most short texts.
        if (upper_bound := len(text.encode(errors="surrogatepass")) + 2) <= lengths.longest_trained:
            return upper_bound
        [ids] = tokenizer.encode_source([text])
        return len(ids)

    length_check = LengthCheck(count_pieces, lengths, split=config.too_long == "split")
    split_lines, tagged = [], []
    for line in lines:
        line_split, line_texts = extract_line_tags(
            split_line(line, length_check.fits_training, length_check.fits_model), tags=config.markup == "keep"
        )
        split_lines.append(line_split)
        tagged.append(line_texts)
    # Only texts that were split or had tags are new; again one call of the tokenizer for all.
    new_texts = [item.text for line_texts in tagged for item in line_texts if item.text not in encoded]
    encoded.update(zip(new_texts, tokenizer.encode_source(new_texts), strict=True))
    sources = [[encoded[item.text] for item in line_texts] for line_texts in tagged]
    longest = {first_line + i: max(map(len, line_sources), default=0) for i, line_sources in enumerate(sources)}
    refuse_long_lines("source", longest, lengths.longest)

    if terms is not None and config.method == "sample":
        raise ValueError("terms need beam or greedy search; leave them out, or take method = 'beam'")
    required = RequiredTexts(
        tokenizer, terms, keep_protected=config.markup == "keep", sampling=config.method == "sample"
    )
    prepared = []
    for i, (line, line_split, line_texts, line_sources) in enumerate(
        zip(lines, split_lines, tagged, sources, strict=True)
    ):
        check_wanted()
        prefix = prefix_pieces(tokenizer, prefixes[i]) if prefixes is not None and line_texts else ()
        segments, notes = [], [describe_split(line_split)]
        for tagged_text, source in zip(line_texts, line_sources, strict=True):
            terms_by_span, problems = required.find_in(tagged_text.text)
            notes += problems
            # The prefix is that of the line, so only its first segment begins with it.
            request = SearchRequest(
                source,
                first_line + i,
                () if segments else prefix,
                tuple(terms_by_span.values()),
                segment=len(segments),
                check_wanted=check_wanted,
            )
            segments.append(Segment(tagged_text, request, tuple(terms_by_span)))
        prepared.append(PreparedLine(line, line_split, tuple(segments), tuple(note for note in notes if note)))
    return prepared


def extract_line_tags(line: SplitLine, tags: bool) -> tuple[SplitLine, list[TaggedText]]:
    """Strip the tags of each segment; segments that contain only tags become part of the gaps between the others."""
    segments, tagged, gaps = [], [], [line.gaps[0]]
    for segment, gap in zip(line.segments, line.gaps[1:], strict=True):
        tagged_text = extract_tags(segment) if tags else TaggedText(segment)
        # Nothing to split means nothing to translate: white space is left where the tags were.
        if not tagged_text.tags or split_line(tagged_text.text, lambda _: True).segments:
            segments.append(segment)
            tagged.append(tagged_text)
            gaps.append(gap)
        else:
            gaps[-1] += segment + gap
    return SplitLine(tuple(segments), tuple(gaps)), tagged


@dataclass(frozen=True)
class LengthCheck:
    """Whether a text is short enough not to be split; every text is, where lines are not to be split."""

    count_pieces: Callable[[str], int]
    lengths: LengthLimits
    split: bool

    def fits_training(self, text: str) -> bool:
        """Return whether the text is no longer than the longest source of training."""
        return not self.split or self.count_pieces(text) <= self.lengths.longest_trained

    def fits_model(self, text: str) -> bool:
        """Return whether the model has a position for every piece of the text."""
        return not self.split or self.count_pieces(text) <= self.lengths.longest


class RequiredTexts:
    """Finds what the translation of a text must contain: the user's terms, and protected text such as placeholders."""

    def __init__(self, tokenizer: Tokenizer, terms: Terms | None, keep_protected: bool, sampling: bool):
        self.tokenizer, self.terms, self.keep_protected, self.sampling = tokenizer, terms, keep_protected, sampling
        if terms is not None:
            terms.refuse_unwritable(tokenizer)
        self.spell = cache(partial(term_spellings, tokenizer))  # one placeholder may stand in many lines

    def find_in(self, text: str) -> tuple[dict[TermSpan, Term], list[str]]:
        """Return the terms by their source spans, and a note for each protected text that may not be kept."""
        matches = self.terms.matches(text) if self.terms is not None else []
        protected = (
            {protected_span(text, *match.span()): match for match in find_protected(text)}
            if self.keep_protected
            else {}
        )
        # A term around a placeholder says how to translate it; a term inside a placeholder, as in a URL, is no term.
        protected = {
            span: match
            for span, match in protected.items()
            if not any(term_match.span.contains(span) for term_match in matches)
        }
        matches = [
            term_match for term_match in matches if not any(term_match.span.overlaps(span) for span in protected)
        ]
        terms_by_span = {term_match.span: term_match.pieces(self.tokenizer) for term_match in matches}
        problems = []
        for span, match in protected.items():
            if self.sampling:
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


def refuse_long_lines(side: str, pieces: Mapping[int, int], limit: int) -> None:
    """Raise ValueError if a line has more pieces than the model takes; `pieces` has the count of each line number."""
    too_long = [f"line {number} has {count}" for number, count in pieces.items() if count > limit]
    if too_long:
        listing = ", ".join(too_long[:5]) + (
            f", and {len(too_long) - 5} more lines are too long" if len(too_long) > 5 else ""
        )
        raise ValueError(f"{side}: this model takes {limit} pieces a line, {listing}; split them into sentences")
