"""Takes lines apart into requests for a search, and puts the translations of their segments together again."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import fsum, nan
from typing import TYPE_CHECKING, Literal

from pellucid.data.context import encode_contexts
from pellucid.data.tokenizer import EOS, Tokenizer
from pellucid.decode.request import Hypothesis, Links, SearchConfig, SearchRequest, continue_always
from pellucid.text.line_splitting import SplitLine, describe_split, is_translatable, join_line, split_line
from pellucid.text.markup import MARKUP_SIGN, TaggedText, extract_tags, find_tags, restore_tags

if TYPE_CHECKING:
    from pellucid.decode.terms.glossary import Terms, TermSpan
    from pellucid.decode.terms.required import Term
    from pellucid.decode.translation_memory import MemoryMatch


@dataclass(frozen=True)
class LengthLimits:
    """Longest sources in pieces, EOS included: of those a model was trained on, and of those it takes."""

    longest_trained: int
    longest: int


@dataclass(frozen=True)
class Segment:
    """One sentence or more that are translated together; the first `context` tokens of its source are read only.

    The translation has each of `terms`, in one of its spellings; `term_spans` has the source span of each.
    """

    marked: TaggedText
    request: SearchRequest
    terms: "tuple[Term, ...]" = ()
    term_spans: "tuple[TermSpan, ...]" = ()
    context: int = 0


@dataclass(frozen=True)
class PreparedLine:
    """A line of the user, and the segments of it that are translated."""

    line: str
    split_line: SplitLine
    segments: tuple[Segment, ...]
    notes: tuple[str, ...]
    match: "MemoryMatch | None" = None  # the entry of a translation memory for it, or for a similar line


def prepare_lines(
    lines: Sequence[str],
    first_line: int,
    tokenizer: Tokenizer,
    lengths: LengthLimits,
    config: SearchConfig,
    terms: "Terms | None",
    prefixes: Sequence[str] | None,
    contexts: Sequence[str] | None = None,
    check_wanted: Callable[[], None] = continue_always,
    *,
    translates_numbers: bool = False,
) -> list[PreparedLine]:
    """Return each line with its requests; ValueError, naming the lines, for any that cannot be translated as asked.

    Text without a letter stays as it is, but where it has a term, or for a model that `translates_numbers`.
    The source of a line (of its first segment) begins with its text of `contexts`, where that leaves it no longer than
    sources of training were; elsewhere a note says that it does not.
    """
    with_markup = [config.markup == "keep" and MARKUP_SIGN.search(line) is not None for line in lines]
    keep_without_letters = [not translates_numbers] * len(lines)
    if terms is not None:
        for i, (line, has_markup) in enumerate(zip(lines, with_markup, strict=True)):
            if not is_translatable(line, has_markup) and terms.matches(line):
                keep_without_letters[i] = False
    split_lines, tagged, sources = _segment_lines(
        lines, with_markup, keep_without_letters, tokenizer, lengths, split=config.too_long == "split"
    )
    longest = {first_line + i: max(map(len, line_sources), default=0) for i, line_sources in enumerate(sources)}
    refuse_long_lines("source", longest, lengths.longest)
    if terms is not None and config.method == "sample":
        raise ValueError("terms need beam or greedy search; leave them out, or take method = 'beam'")
    # Imported only for lines that need it: most have nothing that their translation must contain.
    required = None
    if terms is not None or any(with_markup):
        from pellucid.decode.terms.glossary import RequiredTexts

        required = RequiredTexts(
            tokenizer, terms, keep_protected=config.markup == "keep", sampling=config.method == "sample"
        )
    line_prefixes: list[tuple[int, ...]] = [() for _ in lines]
    if prefixes is not None:
        from pellucid.decode.terms.required import prefix_pieces

        line_prefixes = [
            prefix_pieces(tokenizer, prefix) if line_texts else ()
            for prefix, line_texts in zip(prefixes, tagged, strict=True)
        ]
    context_ids = encode_contexts(tokenizer, contexts) if contexts is not None else [[]] * len(lines)
    prepared, language_pieces = [], len(tokenizer.beginning)
    for i, (line, line_split, line_texts, line_sources, prefix) in enumerate(
        zip(lines, split_lines, tagged, sources, line_prefixes, strict=True)
    ):
        check_wanted()
        segments, notes = [], [describe_split(line_split)]
        for tagged_text, source in zip(line_texts, line_sources, strict=True):
            terms_by_span, problems = required.find_in(tagged_text.text) if required is not None else ({}, [])
            notes += problems
            context = [] if segments else context_ids[i]
            if len(context) + len(source) > lengths.longest_trained:
                notes += ["translated without the sentence before it: both together are too long"] if context else []
                context = []
            # The prefix is that of the line, so only its first segment begins with it.
            request = SearchRequest(
                [*context, *source],
                first_line + i,
                () if segments else prefix,
                segment=len(segments),
                check_wanted=check_wanted,
            )
            segments.append(
                Segment(
                    tagged_text,
                    request,
                    tuple(terms_by_span.values()),
                    tuple(terms_by_span),
                    len(context) + language_pieces,
                )
            )
        prepared.append(PreparedLine(line, line_split, tuple(segments), tuple(note for note in notes if note)))
    return prepared


def _segment_lines(
    lines: Sequence[str],
    with_markup: Sequence[bool],
    keep_without_letters: Sequence[bool],
    tokenizer: Tokenizer,
    lengths: LengthLimits,
    split: bool,
) -> tuple[list[SplitLine], list[list[TaggedText]], list[list[list[int]]]]:
    """Return each line in segments, each segment without its tags, and the token ids of each.

    Only lines with markup are looked through for tags. Unless lines are to be `split`, a line is one segment.
    """
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

    split_lines, tagged = [], []
    for line, has_markup, keep_bare in zip(lines, with_markup, keep_without_letters, strict=True):
        line_split = split_line(
            line,
            lambda text: not split or count_pieces(text) <= lengths.longest_trained,
            lambda text: not split or count_pieces(text) <= lengths.longest,
            keep_without_letters=keep_bare,
            keep_markup=has_markup,
        )
        line_texts = [TaggedText(segment) for segment in line_split.segments]
        if has_markup:
            line_split, line_texts = _extract_line_tags(line_split, keep_bare)
        split_lines.append(line_split)
        tagged.append(line_texts)
    # Only texts that were split or had tags are new; again one call of the tokenizer for all.
    new_texts = [item.text for line_texts in tagged for item in line_texts if item.text not in encoded]
    encoded.update(zip(new_texts, tokenizer.encode_source(new_texts), strict=True))
    return split_lines, tagged, [[encoded[item.text] for item in line_texts] for line_texts in tagged]


def _extract_line_tags(line: SplitLine, keep_without_letters: bool) -> tuple[SplitLine, list[TaggedText]]:
    """Strip the tags of each segment; segments that contain only tags become part of the gaps between the others."""
    segments, tagged, gaps = [], [], [line.gaps[0]]
    for segment, gap in zip(line.segments, line.gaps[1:], strict=True):
        tagged_text = extract_tags(segment)
        # Nothing to split means nothing to translate: white space is left where the tags were.
        split_text = split_line(tagged_text.text, lambda _: True, keep_without_letters=keep_without_letters)
        if not tagged_text.tags or split_text.segments:
            segments.append(segment)
            tagged.append(tagged_text)
            gaps.append(gap)
        else:
            gaps[-1] += segment + gap
    return SplitLine(tuple(segments), tuple(gaps)), tagged


def refuse_long_lines(side: str, pieces: Mapping[int, int], limit: int) -> None:
    """Raise ValueError if a line has more pieces than the model takes; `pieces` has the count of each line number."""
    too_long = [f"line {number} has {count}" for number, count in pieces.items() if count > limit]
    if too_long:
        listing = ", ".join(too_long[:5]) + (
            f", and {len(too_long) - 5} more lines are too long" if len(too_long) > 5 else ""
        )
        raise ValueError(f"{side}: this model takes {limit} pieces a line, {listing}; split them into sentences")


class NotTranslated(UserWarning):
    """Warning that a line could not be translated as asked and is returned as it was."""


@dataclass(frozen=True)
class Translation:
    """One translation of one line, why it stopped, and the log-probability of each piece.

    `pieces` are all pieces written, EOS included if the text ended; `piece_log_probs` has one natural logarithm for
    each and `log_prob` is their sum. (The CTranslate2 engine gives the sum alone; without scores there are none, and
    `log_prob` and `score` are nan.) The pieces of a line that was translated in segments are concatenated, and its
    scores are sums. Only the best of a line has `alternatives`: the other n - 1, best first. `alignment`, when asked
    for, links words of the line with words of `text`; words are separated by white space and counted from 0. `notes`
    mention anything unusual that was done.

    A line that stopped as "failed" could not be translated as asked: `text` is the line as it was, `notes` say why. One
    that stopped as "memory" was taken from a translation memory, which `remembered` shows; for any other line that is
    the translation of a similar sentence, which was not used. `confidence` is how likely it is that the translation
    needs no change; None where the model was not calibrated, and where there was no search or no score.
    `word_confidences` says for each word of `text` how likely it is that a person would keep it; None also where there
    are no `piece_log_probs`, or the pieces do not spell the text.
    """

    text: str
    score: float
    log_prob: float
    stop: Literal["eos", "length", "empty", "failed", "memory"]
    pieces: list[str]
    piece_log_probs: list[float]
    source_pieces: list[str]
    alternatives: list["Translation"] = field(default_factory=list)
    alignment: Links | None = None
    notes: tuple[str, ...] = ()
    remembered: "MemoryMatch | None" = None
    confidence: float | None = None
    word_confidences: tuple[float, ...] | None = None


@dataclass(frozen=True)
class SearchResult:
    """Result of searching one segment: hypotheses, best first, the text of each, and links where they are needed."""

    hypotheses: list[Hypothesis]
    texts: list[str] = field(default_factory=list)
    links: list[Links] = field(default_factory=list)
    notes: tuple[str, ...] = ()


def assemble_translation(
    prepared: PreparedLine, results: Sequence[SearchResult], tokenizer: Tokenizer, config: SearchConfig
) -> Translation:
    """Return the translation of a line with its alternatives: the n-th consists of the n-th of each segment."""
    no_links: Links | None = [] if config.alignments else None
    if prepared.match is not None and prepared.match.is_exact:
        match = prepared.match
        return Translation(match.target, nan, nan, "memory", [], [], [], alignment=no_links, remembered=match)
    if prepared.match is not None:
        translation = assemble_translation(replace(prepared, match=None), results, tokenizer, config)
        return replace(translation, remembered=prepared.match)
    if not results:
        return Translation(prepared.line, 0.0, 0.0, "empty", [], [], [], alignment=no_links)
    # A line is translated whole or not at all.
    if not all(result.hypotheses for result in results):
        reasons = tuple(dict.fromkeys(note for result in results if not result.hypotheses for note in result.notes))
        return Translation(prepared.line, nan, nan, "failed", [], [], [], notes=reasons, alignment=no_links)
    ranks = max(len(result.hypotheses) for result in results)
    best, *others = (_assemble_rank(prepared, results, rank, tokenizer, config) for rank in range(ranks))
    # dict.fromkeys: each note once, in order.
    notes = tuple(dict.fromkeys((*prepared.notes, *(note for result in results for note in result.notes))))
    return replace(best, alternatives=others, notes=notes) if others or notes else best


def _assemble_rank(
    prepared: PreparedLine, results: Sequence[SearchResult], rank: int, tokenizer: Tokenizer, config: SearchConfig
) -> Translation:
    """Return the translation of a line from the hypotheses of one rank; a segment with fewer gives its last."""
    ranks = [min(rank, len(result.hypotheses) - 1) for result in results]
    hypotheses = [result.hypotheses[n] for result, n in zip(results, ranks, strict=True)]
    links = [result.links[n] if result.links else [] for result, n in zip(results, ranks, strict=True)]
    plain = [result.texts[n] for result, n in zip(results, ranks, strict=True)]
    # Tags are put back by the word alignment of the plain texts, so this comes before the segments are joined.
    tagged = [
        restore_tags(segment.marked, text, pairs) if segment.marked.tags else text
        for segment, text, pairs in zip(prepared.segments, plain, links, strict=True)
    ]
    text = join_line(prepared.split_line, tagged)
    sources = [segment.request.source[segment.context :] for segment in prepared.segments]
    return Translation(
        text,
        sum(hypothesis.score for hypothesis in hypotheses) if config.scores else nan,
        fsum(hypothesis.log_prob for hypothesis in hypotheses) if config.scores else nan,
        "eos" if all(hypothesis.stop == "eos" for hypothesis in hypotheses) else "length",
        [
            piece
            for hypothesis in hypotheses
            for piece in tokenizer.target_pieces(hypothesis.tokens + [EOS] * (hypothesis.stop == "eos"))
        ],
        [number for hypothesis in hypotheses for number in hypothesis.log_probs if config.scores],
        [piece for ids in sources for piece in tokenizer.source_pieces(ids)],
        alignment=_line_alignment(prepared, plain, tagged, text, links) if config.alignments else None,
    )


def _line_alignment(
    prepared: PreparedLine, plain: Sequence[str], tagged: Sequence[str], text: str, links: Sequence[Links]
) -> Links:
    """Return the links of all segments, counted in words of the whole line and of its whole translation."""
    line = prepared.split_line
    source_words = word_indices_in_line(
        [segment.marked.text for segment in prepared.segments], line.segments, prepared.line, line.gaps
    )
    target_words = word_indices_in_line(plain, tagged, text, line.gaps)
    return sorted({(source_words[n][i], target_words[n][j]) for n, pairs in enumerate(links) for i, j in pairs})


def word_indices_in_line(
    plain: Sequence[str], tagged: Sequence[str], line: str, gaps: Sequence[str]
) -> list[list[int]]:
    """Return for each segment the indices of its words in the line, which has the tagged segments between the gaps.

    >>> word_indices_in_line(["a b", "c"], ["<i>a</i> b", "c"], "😀 <i>a</i> b c", ["😀 ", " ", ""])
    [[1, 2], [3]]
    """
    starts = [i for i, character in enumerate(line) if not character.isspace() and (i == 0 or line[i - 1].isspace())]
    indices, end = [], 0
    for plain_text, tagged_text, gap in zip(plain, tagged, gaps, strict=False):
        # Joined segments may have a space between them where there was no gap (`join_line`).
        start = line.find(tagged_text, end + len(gap))
        end = start + len(tagged_text)
        # A tag may stand inside a word, so words are found by their letters. Where the letters outside the tags are
        # not those of the plain text, as where the model itself wrote a tag, every word is given index 0.
        hidden = {i for tag in find_tags(tagged_text) for i in range(tag.start, tag.end)}
        visible = [start + i for i in _letter_positions(tagged_text) if i not in hidden]
        letters = _letter_positions(plain_text)
        positions = visible if len(visible) == len(letters) else []
        first_letters = [n for n, i in enumerate(letters) if i == 0 or plain_text[i - 1].isspace()]
        indices.append([bisect_right(starts, positions[n]) - 1 if positions else 0 for n in first_letters])
    return indices


def _letter_positions(text: str) -> list[int]:
    """Return the indices of the characters that are not white space."""
    return [i for i, character in enumerate(text) if not character.isspace()]
