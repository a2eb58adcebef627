"""Splits lines into segments that are searched for, and lines that lost a sentence once more, each sentence alone."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pellucid.data.text.line_splitting import (
    ALL_SENTENCES,
    SplitLine,
    SplitRules,
    describe_split,
    find_pictures,
    is_translatable,
    split_line,
)
from pellucid.data.text.markup import MARKUP_SIGN, TaggedText
from pellucid.data.text.sentences import count_sentences
from pellucid.data.tokenizer import UNK
from pellucid.decode.line_segments import (
    CutLine,
    LengthLimits,
    Line,
    Search,
    SearchResult,
    Segment,
)
from pellucid.decode.request import SearchConfig, SearchRequest, continue_always, refuse_long_lines
from pellucid.decode.source_reader import SourceEncoder, SourceReader
from pellucid.decode.stages.joining import join_results
from pellucid.decode.translation import Translation

if TYPE_CHECKING:
    from pellucid.decode.terms.matches import Terminology

SENTENCE_BY_SENTENCE = "translated sentence by sentence: together a sentence was left out"


def look_for_markup(line: Line, reader: SourceReader, config: SearchConfig, terms: "Terminology | None" = None) -> Line:
    """Return a line with whether it has markup, and whether it has terms where it is text without a letter."""
    if config.reading == "keep":
        reader = reader.as_they_are
    has_markup = config.markup == "keep" and (
        MARKUP_SIGN.search(line.text) is not None or bool(find_pictures(line.text, reader.knows))
    )
    has_terms = terms is not None and not is_translatable(line.text, has_markup) and bool(terms.matches(line.text))
    return replace(line, has_markup=has_markup, has_terms=has_terms)


@dataclass(frozen=True)
class SplitLines:
    """The stage that makes segments of lines, and translations of what a search finds for the segments.

    Raises ValueError, naming the lines, for lines that are longer than the model takes.
    `check_wanted` is called for each line, and between the steps of a search; what it raises ends
    the translation. Words of `terms` are read as they are.
    """

    reader: SourceReader
    lengths: LengthLimits
    config: SearchConfig
    check_wanted: Callable[[], None] = continue_always
    terms: "Terminology | None" = None

    def __call__(self, lines: list[Line], search: Search) -> list[Translation]:
        cut_lines = self.cut(lines)
        translations = self.join(cut_lines, search(list_segments(cut_lines)))
        if self.config.sentences != "auto":
            return translations

        # A model may leave out a sentence of those that it translates together.
        lossy = []
        for i, translation in enumerate(translations):
            if translation.missing_sentences and cut_lines[i].is_joined:
                lossy.append(i)

        if not lossy:
            return translations

        each_alone = replace(self, config=replace(self.config, sentences="split"))
        retried = each_alone([lines[i] for i in lossy], search)
        for i, again in zip(lossy, retried, strict=True):
            # Where both count alike, the translations have no end marks, and alone no sentence can
            # be left out.
            if again.missing_sentences <= translations[i].missing_sentences:
                translations[i] = replace(again, notes=(*again.notes, SENTENCE_BY_SENTENCE))
        return translations

    def join(self, cut_lines: Sequence[CutLine], results: Sequence[SearchResult]) -> list[Translation]:
        """Return the translation of each line from the results of all segments, in order."""
        translations, start = [], 0
        for cut_line in cut_lines:
            end = start + len(cut_line.segments)
            translations.append(join_results(cut_line, results[start:end], self.reader, self.config))
            start = end
        return translations

    def cut(self, lines: Sequence[Line]) -> list[CutLine]:
        """Return each line in segments, each segment without its tags and as the model reads it.

        A line that has a prefix keeps its capitals, and together what the prefix begins to
        translate.
        """
        reader = self.reader if self.config.reading == "adapt" else self.reader.as_they_are
        # Most lines are one sentence and are translated as they stand: they are encoded once, all
        # together.
        encoder = SourceEncoder(reader, self.terms)
        encoder.encode_all((line.text, bool(line.prefix)) for line in lines)

        cut_texts: list[_CutText] = []
        new_texts: list[tuple[str, bool]] = []
        usual_rules = _split_rules(self.config, reader)
        for line in lines:
            self.check_wanted()
            rules = usual_rules
            if line.has_terms or line.prefix:
                rules = _split_rules(self.config, reader, line.prefix, line.has_terms)
            cut_text = self._cut_text(line, rules, encoder)
            cut_texts.append(cut_text)

            # Only texts that were split or had tags are new; again one call of the tokenizer for
            # all.
            if len(cut_text.texts) != 1 or cut_text.texts[0].text != line.text:
                new_texts += [(marked.text, bool(line.prefix)) for marked in cut_text.texts]

        encoder.encode_all(new_texts)

        cut_lines, longest = [], dict[int, int]()
        for line, cut_text in zip(lines, cut_texts, strict=True):
            cut_line = self._encode_line(line, cut_text, encoder)
            counts = [len(segment.request.source) for segment in cut_line.segments]
            longest[line.number] = max(counts, default=0)
            # A line without anything to translate stays as it is, whoever knows a translation of
            # it.
            if line.known is not None and cut_line.segments:
                cut_line = replace(cut_line, segments=(), is_known=True)
            cut_lines.append(cut_line)

        refuse_long_lines("source", longest, self.lengths.longest)
        return cut_lines

    def _cut_text(self, line: Line, rules: SplitRules, encoder: SourceEncoder) -> "_CutText":
        """Return where a line is cut."""
        splits = self.config.too_long == "split"

        def fits(text: str, longest: int) -> bool:
            return not splits or encoder.count_pieces(text, bool(line.prefix), longest) <= longest

        split = split_line(
            line.text,
            lambda text: fits(text, self.lengths.longest_trained),
            lambda text: fits(text, self.lengths.longest),
            rules,
        )
        note = describe_split(line.text, split, rules) if len(split.segments) > 1 else None
        if not line.has_markup:
            return _CutText(split, [TaggedText(text) for text in split.segments], note)

        from pellucid.decode.stages.tags import extract_line_tags

        split, texts = extract_line_tags(line.text, split, rules, encoder.reader)
        return _CutText(split, texts, note)

    def _encode_line(self, line: Line, cut_text: "_CutText", encoder: SourceEncoder) -> CutLine:
        """Return a line in segments, each with the request to search for it."""
        reader, language_pieces = encoder.reader, len(encoder.reader.tokenizer.beginning)
        segments, texts_with_unknown = [], False
        for part, marked in enumerate(cut_text.texts):
            read, ids = encoder.look_up(marked.text, bool(line.prefix))
            request = SearchRequest(ids, line.number, segment=part, check_wanted=self.check_wanted)
            segments.append(Segment(marked, read, request, context=language_pieces, line=line, notes=read.notes))
            texts_with_unknown = texts_with_unknown or UNK in ids

        unknown = None
        # Only imported vocabularies have characters without a piece; the others spell them in
        # bytes.
        if texts_with_unknown:
            unknown = reader.describe_unknown(segment.read.text for segment in segments)
        return CutLine(line, cut_text.split, tuple(segments), cut_text.note, unknown)


def list_segments(cut_lines: Iterable[CutLine]) -> list[Segment]:
    """Return the segments of all lines, in order."""
    segments: list[Segment] = []
    for cut_line in cut_lines:
        segments.extend(cut_line.segments)
    return segments


@dataclass(frozen=True)
class _CutText:
    """A line in segments with gaps between them, and the text of each segment without its tags."""

    split: SplitLine
    texts: list[TaggedText]
    note: str | None


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
        # It is a beginning of the translation of all that stands in the line, and of several
        # sentences perhaps.
        together = max(rules.together, count_sentences(prefix))
        rules = replace(rules, together=together, continues=ALL_SENTENCES.continues, marks=frozenset())
    return rules
