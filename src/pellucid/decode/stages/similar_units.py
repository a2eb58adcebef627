"""Gives a model similar units of a memory to read, if it was trained to use them (`data.memory`)."""

from collections import Counter
from dataclasses import dataclass, replace

from pellucid.data.context import read_after_similar
from pellucid.data.tokenizer import UNK, Tokenizer, strip_eos
from pellucid.decode.line_segments import Search, SearchResult, Segment


@dataclass(frozen=True)
class ReadSimilarUnits:
    """The stage that puts the translation of a similar line before a line of one segment.

    A source that would be longer than the `longest` that the model takes, in pieces, stays as it
    is.
    """

    tokenizer: Tokenizer
    mark: int
    longest: int

    def __call__(self, segments: list[Segment], search: Search) -> list[SearchResult]:
        # A line of several segments has no one sentence that the unit is like.
        counts = Counter(segment.line.number for segment in segments if segment.line is not None)
        read = []
        for segment in segments:
            line = segment.line
            if line is not None and line.similar and counts[line.number] == 1:
                segment = self.read_similar(segment, " ".join(line.similar.split()))
            read.append(segment)
        return search(read)

    def read_similar(self, segment: Segment, similar: str) -> Segment:
        """Return a segment that is read after a similar translation, where both have room."""
        told = strip_eos(self.tokenizer.encode_target([similar])[0])
        source = read_after_similar(segment.request.source, told, self.mark)
        if UNK in told or len(source) > self.longest:
            return segment
        before = f"{similar} {self.tokenizer.source_names[self.mark]}"
        return replace(
            segment,
            request=replace(segment.request, source=source),
            context=segment.context + len(source) - len(segment.request.source),
            context_text=f"{before} {segment.context_text}".strip(),
        )
