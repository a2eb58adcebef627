"""Takes lines apart into requests for a search, and puts the translations of their segments together again."""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import fsum, nan
from typing import TYPE_CHECKING, Literal

from pellucid.data.context import encode_contexts
from pellucid.data.source_profile import SourceProfile
from pellucid.data.text.line_splitting import (
    ALL_SENTENCES,
    JOINT,
    SplitLine,
    SplitRules,
    describe_split,
    find_pictures,
    is_translatable,
    join_line,
    split_line,
)
from pellucid.data.text.markup import MARKUP_SIGN, TaggedText, TagMatch, extract_tags, find_tags, restore_tags
from pellucid.data.text.sentences import count_sentences, sentence_ends
from pellucid.data.tokenizer import EOS, UNK, Tokenizer
from pellucid.decode.alarms import ALARMS, count_missing_sentences, find_alarms, sort_alarms
from pellucid.decode.repetition import has_repetition
from pellucid.decode.request import Hypothesis, Links, SearchConfig, SearchRequest, continue_always
from pellucid.decode.source_reader import ReadText, SourceReader
from pellucid.decode.usability import Grade

if TYPE_CHECKING:
    from pellucid.decode.terms.required import Term
    from pellucid.decode.terms.terminology import Terms, TermSpan
    from pellucid.decode.translation_memory import MemoryMatch


@dataclass(frozen=True)
class LengthLimits:
    """Longest sources in pieces, EOS included: of those a model was trained on, and of those it takes."""

    longest_trained: int
    longest: int


@dataclass(frozen=True)
class Segment:
    """One sentence or more that are translated together; the first `context` tokens of its source are read only.

    `marked` is what the user wrote, `read` what the model reads for it, after the text `context_text`. The translation
    has each of `terms`, in one of its spellings; `term_spans` has the span of each in the text that is read.
    """

    marked: TaggedText
    read: ReadText
    request: SearchRequest
    terms: "tuple[Term, ...]" = ()
    term_spans: "tuple[TermSpan, ...]" = ()
    context: int = 0
    context_text: str = ""


@dataclass(frozen=True)
class PreparedLine:
    """A line of the user, and the segments of it that are translated."""

    line: str
    split_line: SplitLine
    segments: tuple[Segment, ...]
    notes: tuple[str, ...]
    match: "MemoryMatch | None" = None  # the entry of a translation memory for it, or for a similar line

    @property
    def is_joined(self) -> bool:
        """Whether one of its segments holds several sentences."""
        return any(count_sentences(segment.marked.text) > 1 for segment in self.segments)


def prepare_lines(
    lines: Sequence[str],
    numbers: Sequence[int],
    reader: SourceReader,
    lengths: LengthLimits,
    config: SearchConfig,
    terms: "Terms | None" = None,
    prefixes: Sequence[str] | None = None,
    contexts: Sequence[str] | None = None,
    context_sentences: int = 0,
    check_wanted: Callable[[], None] = continue_always,
) -> list[PreparedLine]:
    """Return each line with its requests, by its number; ValueError for lines that cannot be translated as asked.

    Text without a letter stays as it is, but where it has a term, or for a model that translates numbers.
    The source of a line (of its first segment) begins with its text of `contexts`, where that leaves it no longer than
    sources of training were; elsewhere a note says that it does not. The other segments of a line have those before
    them as their context, if the model was trained to read `context_sentences` before a sentence.
    """
    tokenizer = reader.tokenizer
    reader = reader if config.reading == "adapt" else reader.as_they_are
    with_markup = [
        config.markup == "keep" and (MARKUP_SIGN.search(line) is not None or bool(find_pictures(line, reader.knows)))
        for line in lines
    ]
    # Text without a letter is given to the model if a term stands in it.
    with_terms = [
        terms is not None and not is_translatable(line, has_markup) and bool(terms.matches(line))
        for line, has_markup in zip(lines, with_markup, strict=True)
    ]
    cut_lines = _cut_lines(lines, with_markup, with_terms, prefixes, reader, lengths, config)
    longest = {
        number: max((len(segment.ids) for segment in cut.segments), default=0)
        for number, cut in zip(numbers, cut_lines, strict=True)
    }
    refuse_long_lines("source", longest, lengths.longest)
    if terms is not None and config.method == "sample":
        raise ValueError("terms need beam or greedy search; leave them out, or take method = 'beam'")
    # Imported only for lines that need it: most have nothing that their translation must contain.
    required = None
    if terms is not None or any(with_markup):
        from pellucid.decode.terms.terminology import RequiredTexts

        required = RequiredTexts(
            tokenizer, terms, keep_protected=config.markup == "keep", sampling=config.method == "sample"
        )
    line_prefixes: list[tuple[int, ...]] = [() for _ in lines]
    if prefixes is not None:
        from pellucid.decode.terms.required import prefix_pieces

        line_prefixes = [
            prefix_pieces(tokenizer, prefix) if cut.segments else ()
            for prefix, cut in zip(prefixes, cut_lines, strict=True)
        ]

    language_pieces = len(tokenizer.beginning)
    context_texts = _list_segment_contexts(cut_lines, contexts, context_sentences, reader)
    all_contexts = iter(encode_contexts(tokenizer, [text for texts in context_texts for text in texts]))
    prepared = []
    for i, (cut, prefix) in enumerate(zip(cut_lines, line_prefixes, strict=True)):
        check_wanted()
        segments, notes = [], list(cut.notes)
        for n, part in enumerate(cut.segments):
            terms_by_span, problems = required.find_in(part.read.text) if required is not None else ({}, [])
            notes += [*problems, part.read.note]
            context, context_text = next(all_contexts), context_texts[i][n]
            if len(context) + len(part.ids) > lengths.longest_trained:
                # Only the sentence before the line was asked for.
                lost = context and n == 0
                notes += ["translated without the sentence before it: both together are too long"] if lost else []
                context, context_text = [], ""
            # The prefix belongs to the line, so only its first segment begins with it.
            request = SearchRequest(
                [*context, *part.ids],
                numbers[i],
                prefix if n == 0 else (),
                segment=n,
                check_wanted=check_wanted,
            )
            segments.append(
                Segment(
                    part.marked,
                    part.read,
                    request,
                    tuple(terms_by_span.values()),
                    tuple(terms_by_span),
                    len(context) + language_pieces,
                    context_text,
                )
            )
        # Only imported vocabularies have characters without a piece; the others spell them in bytes.
        if any(UNK in part.ids for part in cut.segments):
            notes.append(reader.describe_unknown(part.read.text for part in cut.segments))
        kept_notes = tuple(note for note in dict.fromkeys(notes) if note)
        prepared.append(PreparedLine(cut.line, cut.split_line, tuple(segments), kept_notes))
    return prepared


@dataclass(frozen=True)
class _CutSegment:
    """A segment of a line without its tags, the text that the model reads for it, and the token ids of that."""

    marked: TaggedText
    read: ReadText
    ids: list[int]


@dataclass(frozen=True)
class _CutLine:
    """A line in segments."""

    line: str
    split_line: SplitLine
    segments: tuple[_CutSegment, ...]
    notes: tuple[str, ...]


def _cut_lines(
    lines: Sequence[str],
    with_markup: Sequence[bool],
    with_terms: Sequence[bool],
    prefixes: Sequence[str] | None,
    reader: SourceReader,
    lengths: LengthLimits,
    config: SearchConfig,
) -> list[_CutLine]:
    """Return each line in segments, each segment without its tags and as the model reads it.

    Only lines with markup are looked through for tags. A line that has a prefix keeps its capitals, and together what
    the prefix begins to translate.
    """
    has_prefix = [bool(prefix) for prefix in prefixes] if prefixes is not None else [False] * len(lines)
    # Most lines are one sentence and are translated as they stand: they are encoded once, all together.
    encoder = _SourceEncoder(reader)
    encoder.encode_all(zip(lines, has_prefix, strict=True))

    usual_rules = _split_rules(config, reader)
    split_lines, tagged, notes = [], [], []
    for i, line in enumerate(lines):
        rules = usual_rules
        if with_terms[i] or has_prefix[i]:
            rules = _split_rules(config, reader, prefixes[i] if prefixes is not None else "", with_terms[i])

        def fits(text: str, longest: int, keep_case: bool = has_prefix[i]) -> bool:
            return config.too_long != "split" or encoder.count_pieces(text, keep_case, longest) <= longest

        split = split_line(
            line,
            lambda text, fits=fits: fits(text, lengths.longest_trained),
            lambda text, fits=fits: fits(text, lengths.longest),
            rules,
        )
        texts = [TaggedText(segment) for segment in split.segments]
        notes.append(describe_split(line, split, rules) if len(texts) > 1 else None)
        if with_markup[i]:
            pictures = find_pictures(line, reader.knows)
            split, texts = _extract_line_tags(line, split, rules, pictures)
        split_lines.append(split)
        tagged.append(texts)

    # Only texts that were split or had tags are new; again one call of the tokenizer for all.
    new_texts = [(i, texts) for i, texts in enumerate(tagged) if len(texts) != 1 or texts[0].text != lines[i]]
    encoder.encode_all((item.text, has_prefix[i]) for i, texts in new_texts for item in texts)
    return [
        _CutLine(
            line,
            split_lines[i],
            tuple(_CutSegment(item, *encoder.look_up(item.text, has_prefix[i])) for item in tagged[i]),
            () if notes[i] is None else (notes[i],),
        )
        for i, line in enumerate(lines)
    ]


def _split_rules(config: SearchConfig, reader: SourceReader, prefix: str = "", has_terms: bool = False) -> SplitRules:
    """Return the rules by which a line is cut into segments."""
    rules = SplitRules(
        marks=reader.unknown_marks,
        keep_without_letters=not (reader.translates_numbers or has_terms),
        keep_markup=config.markup == "keep",
    )
    if config.sentences == "split":
        rules = replace(rules, together=1)
    elif config.sentences == "auto":
        rules = replace(rules, together=reader.sentences_together, continues=reader.continues)
    if prefix:
        # It is a beginning of the translation of all that stands in the line, and of several sentences perhaps.
        together = max(rules.together, count_sentences(prefix))
        rules = replace(rules, together=together, continues=ALL_SENTENCES.continues, marks=frozenset())
    return rules


class _SourceEncoder:
    """Texts as the model reads them and their token ids, each read and encoded once."""

    def __init__(self, reader: SourceReader):
        self.reader = reader
        self._read: dict[tuple[str, bool], ReadText] = {}
        self._ids: dict[str, list[int]] = {}

    def read(self, text: str, keep_case: bool) -> ReadText:
        """Return what the model reads for a text."""
        key = text, keep_case
        if key not in self._read:
            self._read[key] = self.reader.read(text, keep_case)
        return self._read[key]

    def encode_all(self, texts: Iterable[tuple[str, bool]]) -> None:
        """Encode texts, each with whether its case is kept, in one call of the tokenizer."""
        read = dict.fromkeys(self.read(*text).text for text in texts)
        new = [text for text in read if text not in self._ids]
        self._ids.update(zip(new, self.reader.tokenizer.encode_source(new), strict=True))

    def look_up(self, text: str, keep_case: bool) -> tuple[ReadText, list[int]]:
        """Return what is read for a text that was encoded, and its token ids."""
        read = self.read(text, keep_case)
        return read, self._ids[read.text]

    def count_pieces(self, text: str, keep_case: bool, limit: int) -> int:
        """Count the pieces of a text; where they are at most `limit` for sure, an upper bound may be returned."""
        read = self.read(text, keep_case).text
        if read in self._ids:
            return len(self._ids[read])
        # No text has more pieces than bytes, but for the word-start mark of its first word, the pieces of a language to
        # write, and EOS. The upper bound spares the tokenizer most short texts.
        upper_bound = len(read.encode(errors="surrogatepass")) + 4
        if upper_bound <= limit:
            return upper_bound
        [ids] = self.reader.tokenizer.encode_source([read])
        return len(ids)


def _list_segment_contexts(
    lines: Sequence[_CutLine], contexts: Sequence[str] | None, count: int, reader: SourceReader
) -> list[list[str]]:
    """Return the context of each segment of each line, an empty text where it has none."""
    if not count and contexts is None:
        return [["" for _ in cut.segments] for cut in lines]
    all_texts: list[list[str]] = []
    for i, cut in enumerate(lines):
        before = [] if contexts is None or not contexts[i] else _last_sentences(contexts[i], count, reader)
        texts: list[str] = []
        for part in cut.segments:
            texts.append(" ".join(before[-count:] if count else before))
            before = [*before, part.read.text] if count else []
        all_texts.append(texts)
    return all_texts


def _last_sentences(context: str, count: int, reader: SourceReader) -> list[str]:
    """Return the end of a context as the model has learned it: as many sentences as it reads before another."""
    if reader.sentences_together > 1 or not count:
        return [context]
    ends = [0, *sentence_ends(context, 0, len(context))]
    return [context[start:end].strip() for start, end in pairwise(ends)][-count:]


def _extract_line_tags(
    line: str, split: SplitLine, rules: SplitRules, pictures: Sequence[TagMatch]
) -> tuple[SplitLine, list[TaggedText]]:
    """Strip the tags of each segment; segments that contain only tags become part of the gaps between the others.

    The `pictures` of the line, which the model does not know, are tags, too.
    """
    # Found in the whole line, because a pair of marks may stand around several sentences.
    line_tags = sorted([*find_tags(line), *pictures]) if pictures else find_tags(line)
    segments, tagged, gaps = [], [], [split.gaps[0]]
    start = 0
    for n, segment in enumerate(split.segments):
        start += len(split.gaps[n])
        end = start + len(segment)
        inside = [tag for tag in line_tags if start <= tag.start and tag.end <= end]
        tagged_text = extract_tags(segment, [tag.shift_by(-start) for tag in inside])
        # Nothing to split means nothing to translate: white space is left where the tags were.
        if not tagged_text.tags or split_line(tagged_text.text, rules=rules).segments:
            segments.append(segment)
            tagged.append(tagged_text)
            gaps.append(split.gaps[n + 1])
        else:
            gaps[-1] += segment + split.gaps[n + 1]
        start = end
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
    are no `piece_log_probs`, or the pieces do not spell the text. `missing_sentences` says how many sentences fewer
    than its line the translation has, where the ends of sentences tell. `alarms` are the names of what went wrong, as
    far as the two texts tell (`find_alarms`). `grade` says whether a person can use it: "usable", "look" or "redo";
    None where there was nothing to translate, and without an alarm where the model was not calibrated.
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
    missing_sentences: int = 0
    alarms: tuple[str, ...] = ()
    grade: Grade | None = None


@dataclass(frozen=True)
class SearchResult:
    """Result of searching one segment: hypotheses, best first, the text of each, and links where they are needed."""

    hypotheses: list[Hypothesis]
    texts: list[str] = field(default_factory=list)
    links: list[Links] = field(default_factory=list)
    notes: tuple[str, ...] = ()


def assemble_translation(
    prepared: PreparedLine,
    results: Sequence[SearchResult],
    tokenizer: Tokenizer,
    config: SearchConfig,
    profile: SourceProfile | None = None,
) -> Translation:
    """Return the translation of a line with its alternatives: the n-th consists of the n-th of each segment.

    The `profile` of the training text helps to tell what went wrong.
    """
    no_links: Links | None = [] if config.alignments else None
    if prepared.match is not None and prepared.match.is_exact:
        match = prepared.match
        return Translation(match.target, nan, nan, "memory", [], [], [], alignment=no_links, remembered=match)
    if prepared.match is not None:
        translation = assemble_translation(replace(prepared, match=None), results, tokenizer, config, profile)
        return replace(translation, remembered=prepared.match)
    if not results:
        return Translation(prepared.line, 0.0, 0.0, "empty", [], [], [], alignment=no_links)
    # A line is translated whole or not at all.
    if not all(result.hypotheses for result in results):
        reasons = tuple(dict.fromkeys(note for result in results if not result.hypotheses for note in result.notes))
        # It stays as it is, so most of its words are not translated.
        alarms = _find_line_alarms(prepared, [segment.marked.text for segment in prepared.segments], profile)
        return Translation(
            prepared.line, nan, nan, "failed", [], [], [], notes=reasons, alignment=no_links, alarms=alarms
        )
    ranks = max(len(result.hypotheses) for result in results)
    best, *others = (_assemble_rank(prepared, results, rank, tokenizer, config, profile) for rank in range(ranks))
    notes = [*prepared.notes, *(note for result in results for note in result.notes)]
    notes += [ALARMS[name] for name in best.alarms if name != "sentences"]
    if best.missing_sentences:
        sentences = "sentence" if best.missing_sentences == 1 else "sentences"
        notes.append(f"the translation has {best.missing_sentences} {sentences} fewer than the line")
    notes = tuple(dict.fromkeys(notes))  # each note once, in order
    return replace(best, alternatives=others, notes=notes) if others or notes else best


def _assemble_rank(
    prepared: PreparedLine,
    results: Sequence[SearchResult],
    rank: int,
    tokenizer: Tokenizer,
    config: SearchConfig,
    profile: SourceProfile | None,
) -> Translation:
    """Return the translation of a line from the hypotheses of one rank; a segment with fewer gives its last."""
    ranks = [min(rank, len(result.hypotheses) - 1) for result in results]
    hypotheses = [result.hypotheses[n] for result, n in zip(results, ranks, strict=True)]
    links = [result.links[n] if result.links else [] for result, n in zip(results, ranks, strict=True)]
    # `texts` are in the case and spelling of the user's line (`Translator.add_texts`).
    plain = [result.texts[n] for result, n in zip(results, ranks, strict=True)]
    # Tags are put back by the word alignment of the plain texts, so this comes before the segments are joined.
    tagged = [
        restore_tags(segment.marked, text, pairs) if segment.marked.tags else text
        for segment, text, pairs in zip(prepared.segments, plain, links, strict=True)
    ]
    text = join_line(prepared.split_line, tagged)
    sources = [segment.request.source[segment.context :] for segment in prepared.segments]
    missing_sentences = _count_missing_sentences(prepared, plain)
    alarms = _find_line_alarms(prepared, plain, profile, missing_sentences)
    loops = (
        has_repetition(hypothesis.tokens) and not has_repetition(source)
        for source, hypothesis in zip(sources, hypotheses, strict=True)
    )
    if "repeats" not in alarms and any(loops):  # as the search saw it, in pieces
        alarms = sort_alarms([*alarms, "repeats"])
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
        missing_sentences=missing_sentences,
        alarms=alarms,
    )


def _find_line_alarms(
    prepared: PreparedLine, plain: Sequence[str], profile: SourceProfile | None, missing_sentences: int = 0
) -> tuple[str, ...]:
    """Return what went wrong in a line, given the translation of each segment without tags."""
    alarms = ["sentences"] if missing_sentences else []
    for segment, text in zip(prepared.segments, plain, strict=True):
        alarms += find_alarms(segment.marked.text, text, profile, missing_sentences=0)
    return sort_alarms(alarms) if alarms else ()


def _count_missing_sentences(prepared: PreparedLine, plain: Sequence[str]) -> int:
    """Count how many sentences fewer than its line a translation has, as the ends of sentences tell."""
    # Sentences between which nothing but a space stands are counted together: where the translation of one has no end
    # mark, it runs into the next.
    runs: list[tuple[str, str]] = []
    for n, (segment, segment_text) in enumerate(zip(prepared.segments, plain, strict=True)):
        gap = prepared.split_line.gaps[n]
        if n and JOINT.fullmatch(gap):
            source, translation = runs.pop()
            runs.append((f"{source}{gap}{segment.marked.text}", f"{translation}{gap or ' '}{segment_text}"))
        else:
            runs.append((segment.marked.text, segment_text))
    return sum(count_missing_sentences(source, translation) for source, translation in runs)


def _line_alignment(
    prepared: PreparedLine, plain: Sequence[str], tagged: Sequence[str], text: str, links: Sequence[Links]
) -> Links:
    """Return the links of all segments, counted in words of the whole line and of its whole translation."""
    line = prepared.split_line
    texts = [segment.marked.text for segment in prepared.segments]
    tags = [{tag.text for tag in segment.marked.tags} for segment in prepared.segments]
    source_words = word_indices_in_line(texts, line.segments, prepared.line, line.gaps, tags)
    target_words = word_indices_in_line(plain, tagged, text, line.gaps, tags)
    return sorted({(source_words[n][i], target_words[n][j]) for n, pairs in enumerate(links) for i, j in pairs})


def word_indices_in_line(
    plain: Sequence[str], tagged: Sequence[str], line: str, gaps: Sequence[str], tags: Sequence[Collection[str]] = ()
) -> list[list[int]]:
    """Return for each segment the indices of its words in the line, which has the tagged segments between the gaps.

    `tags` has the texts of the tags of each segment, by which it is known which pictures are tags.

    >>> word_indices_in_line(["a b", "c"], ["<i>a</i> b", "c"], "😀 <i>a</i> b c", ["😀 ", " ", ""])
    [[1, 2], [3]]
    """
    starts = [i for i, character in enumerate(line) if not character.isspace() and (i == 0 or line[i - 1].isspace())]
    indices, end = [], 0
    for n, (plain_text, tagged_text, gap) in enumerate(zip(plain, tagged, gaps, strict=False)):
        # Joined segments may have a space between them where there was no gap (`join_line`).
        start = line.find(tagged_text, end + len(gap))
        end = start + len(tagged_text)
        # A tag may stand inside a word, so words are found by their letters. Where the letters outside the tags are
        # not the letters of the plain text, as where the model itself wrote a tag, every word is given index 0.
        all_tags = find_tags(tagged_text)
        if tags:
            all_tags += [tag for tag in find_pictures(tagged_text, lambda character: False) if tag.name in tags[n]]
        hidden = {i for tag in all_tags for i in range(tag.start, tag.end)}
        visible = [start + i for i in _letter_positions(tagged_text) if i not in hidden]
        letters = _letter_positions(plain_text)
        positions = visible if len(visible) == len(letters) else []
        first_letters = [k for k, i in enumerate(letters) if i == 0 or plain_text[i - 1].isspace()]
        indices.append([bisect_right(starts, positions[k]) - 1 if positions else 0 for k in first_letters])
    return indices


def _letter_positions(text: str) -> list[int]:
    """Return the indices of the characters that are not white space."""
    return [i for i, character in enumerate(text) if not character.isspace()]
