"""A line as requests: cut into parts where it must be, tags taken out, what has to be kept named."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

from pellucid.data.tokenizer import Tokenizer
from pellucid.decode.config import SearchConfig
from pellucid.decode.prefix import prefix_pieces
from pellucid.decode.request import SearchRequest
from pellucid.decode.required_terms import Term
from pellucid.decode.terms import Terms, TermSpan, protected_span, term_spellings
from pellucid.decode.word_edges import joins_word
from pellucid.text.line_splitting import SplitLine, describe_split, split_line
from pellucid.text.markup import TaggedText, extract_tags, find_protected


@dataclass(frozen=True)
class LengthLimits:
    """Pieces of a source, the end mark counted: the most a model has been trained on, and the most it takes."""

    trained: int
    most: int


@dataclass(frozen=True)
class Segment:
    """One sentence or more that are translated together.

    `term_spans` says for each term of the request where its source stands.
    """

    marked: TaggedText
    request: SearchRequest
    term_spans: tuple[TermSpan, ...] = ()


@dataclass(frozen=True)
class PreparedLine:
    """A line of the user, and the parts of it that are translated."""

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
) -> list[PreparedLine]:
    """Each line with its requests. ValueError, naming the lines, for those that cannot be translated as asked."""

    # Most lines are translated as they stand. These are encoded once, all together, and counted by looking.
    encoded = dict(zip(lines, tokenizer.encode_source(lines), strict=True))

    def pieces(text: str) -> int:
        if text in encoded:
            return len(encoded[text])
        # No text has more pieces than bytes, but for the mark of its first word and the end mark.
        if (most := len(text.encode(errors="surrogatepass")) + 2) <= lengths.trained:
            return most
        [ids] = tokenizer.encode_source([text])
        return len(ids)

    within = LengthCheck(pieces, lengths, split=config.too_long == "split")
    found, marked = [], []
    for line in lines:
        whole, some = extract_line_tags(
            split_line(line, within.fits_training, within.fits_model), tags=config.markup == "keep"
        )
        found.append(whole)
        marked.append(some)
    others = [each.text for some in marked for each in some if each.text not in encoded]
    encoded.update(zip(others, tokenizer.encode_source(others), strict=True))
    ids = [[encoded[each.text] for each in some] for some in marked]
    longest = {first_line + i: max(map(len, some), default=0) for i, some in enumerate(ids)}
    refuse_long_lines("source", longest, lengths.most)

    if terms is not None and config.method == "sample":
        raise ValueError("terms are found by beam or greedy search; leave them out, or take method = 'beam'")
    asked = RequiredTexts(tokenizer, terms, keep=config.markup == "keep", drawn=config.method == "sample")
    prepared = []
    for i, (line, whole, some, sources_of) in enumerate(zip(lines, found, marked, ids, strict=True)):
        begins = prefix_pieces(tokenizer, prefixes[i]) if prefixes is not None and some else ()
        parts, notes = [], [describe_split(whole)]
        for part, source in zip(some, sources_of, strict=True):
            wanted, problems = asked.find_in(part.text)
            notes += problems
            asks = SearchRequest(
                source, first_line + i, () if parts else begins, tuple(wanted.values()), segment=len(parts)
            )
            parts.append(Segment(part, asks, tuple(wanted)))
        prepared.append(PreparedLine(line, whole, tuple(parts), tuple(each for each in notes if each)))
    return prepared


def extract_line_tags(line: SplitLine, tags: bool) -> tuple[SplitLine, list[TaggedText]]:
    """The line and what is to be translated of its parts; one that is nothing but tags is none."""
    parts, marked, between = [], [], [line.gaps[0]]
    for part, gap in zip(line.segments, line.gaps[1:], strict=True):
        taken = extract_tags(part) if tags else TaggedText(part)
        if not taken.tags or split_line(taken.text, lambda _: True).segments:
            parts.append(part)
            marked.append(taken)
            between.append(gap)
        else:
            between[-1] += part + gap
    return SplitLine(tuple(parts), tuple(between)), marked


@dataclass(frozen=True)
class LengthCheck:
    """What need not be cut: nothing ever, where lines are not to be split."""

    pieces: Callable[[str], int]
    lengths: LengthLimits
    split: bool

    def fits_training(self, text: str) -> bool:
        return not self.split or self.pieces(text) <= self.lengths.trained

    def fits_model(self, text: str) -> bool:
        return not self.split or self.pieces(text) <= self.lengths.most


class RequiredTexts:
    """What must stand in the translation of a text: terms of the user, and placeholders as they are."""

    def __init__(self, tokenizer: Tokenizer, terms: Terms | None, keep: bool, drawn: bool):
        self.tokenizer, self.terms, self.keep, self.drawn = tokenizer, terms, keep, drawn
        if terms is not None:
            terms.refuse_unwritable(tokenizer)
        self.spell = cache(partial(term_spellings, tokenizer))

    def find_in(self, text: str) -> tuple[dict[TermSpan, Term], list[str]]:
        """The terms by their places, and what to say of placeholders that no pieces write."""
        matches = self.terms.matches(text) if self.terms is not None else []
        kept = {protected_span(text, *each.span()): each for each in find_protected(text)} if self.keep else {}
        # A term around a placeholder says how to translate it; one inside is none.
        kept = {place: each for place, each in kept.items() if not any(match.span.contains(place) for match in matches)}
        matches = [match for match in matches if not any(match.span.overlaps(place) for place in kept)]
        wanted = {match.span: match.pieces(self.tokenizer) for match in matches}
        problems = []
        for place, each in kept.items():
            if self.drawn:
                problems.append(f"{each[0]!r} may not be kept: sampling does not look for it")
                continue
            # What stands as a word of its own stays one; what touches others may do so again.
            before, after = text[: each.start()][-1:], text[each.end() :][:1]
            begins = not before or before.isspace()
            touched = any(map(joins_word, before + after))
            try:
                term = self.spell(each[0], touching=touched)
            except ValueError:
                problems.append(f"{each[0]!r} is not kept: this model cannot write it")
            else:
                wanted[place] = term[:1] if begins else term
        return wanted, problems


def refuse_long_lines(side: str, pieces: Mapping[int, int], limit: int) -> None:
    """ValueError if a line, by its number, has more pieces than the model takes."""
    long = [f"line {number} has {count}" for number, count in pieces.items() if count > limit]
    if long:
        shown = ", ".join(long[:5]) + (f", and {len(long) - 5} more lines are too long" if len(long) > 5 else "")
        raise ValueError(f"{side}: this model takes {limit} pieces a line, {shown}; split them into sentences")
