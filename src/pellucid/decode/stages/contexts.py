"""Gives segments their context: the sentences before them, for a model that was trained to read some."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from pellucid.data.context import encode_contexts
from pellucid.data.text.sentences import sentence_ends
from pellucid.decode.line_segments import Search, SearchResult, Segment
from pellucid.decode.source_reader import SourceReader

NO_CONTEXT = "translated without the sentence before it: both together are too long"


@dataclass(frozen=True)
class ReadContexts:
    """The stage that puts the context of each segment before its source, where both together are short enough.

    The first segment of a line has the context that was given for the line. The others have the
    segments before them, if the model reads a `count` of sentences before another. `longest` is the
    longest source of training, in pieces.
    """

    reader: SourceReader
    count: int
    longest: int

    def __call__(self, segments: list[Segment], search: Search) -> list[SearchResult]:
        texts = self.list_texts(segments)
        with_contexts = []
        for segment, text, ids in zip(segments, texts, encode_contexts(self.reader.tokenizer, texts), strict=True):
            request = segment.request
            if len(ids) + len(request.source) <= self.longest:
                longer = replace(request, source=[*ids, *request.source])
                with_contexts.append(
                    replace(
                        segment,
                        request=longer,
                        context=len(ids) + segment.context,
                        context_text=text,
                    )
                )
            elif ids and request.segment == 0:  # only the sentence before the line was asked for
                with_contexts.append(replace(segment, notes=(*segment.notes, NO_CONTEXT)))
            else:
                with_contexts.append(segment)
        return search(with_contexts)

    def list_texts(self, segments: Sequence[Segment]) -> list[str]:
        """Return the context of each segment, an empty text where it has none."""
        texts: list[str] = []
        before: list[str] = []
        for segment in segments:
            if segment.request.segment == 0:  # another line begins
                context = "" if segment.line is None else segment.line.context
                before = self.last_sentences(context) if context else []
            texts.append(" ".join(before[-self.count :] if self.count else before))
            before = [*before, segment.read.text] if self.count else []
        return texts

    def last_sentences(self, context: str) -> list[str]:
        """Return the end of a context as the model has learned it: as many sentences as it reads before another."""
        if self.reader.sentences_together > 1 or not self.count:
            return [context]
        ends = [0, *sentence_ends(context, 0, len(context))]
        return [context[start:end].strip() for start, end in pairwise(ends)][-self.count :]
