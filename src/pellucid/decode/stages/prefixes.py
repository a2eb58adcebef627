"""Makes translations begin with the prefixes that were given for their lines."""

from dataclasses import dataclass, replace

from pellucid.data.tokenizer import Tokenizer
from pellucid.decode.line_segments import Search, SearchResult, Segment
from pellucid.decode.request import SearchBounds, SearchConfig
from pellucid.decode.terms.required import prefix_pieces, refuse_long_prefixes


@dataclass(frozen=True)
class BeginWithPrefixes:
    """The stage that asks for prefixes: a line's prefix belongs to the line, so only its first segment begins with it.

    Raises ValueError for a prefix that the model cannot write, and, naming the lines, for prefixes
    without room.
    """

    tokenizer: Tokenizer
    bounds: SearchBounds
    config: SearchConfig

    def __call__(self, segments: list[Segment], search: Search) -> list[SearchResult]:
        with_prefixes, lengths = [], []
        for segment in segments:
            request = segment.request
            if segment.line is not None and request.segment == 0:
                request = replace(request, prefix=prefix_pieces(self.tokenizer, segment.line.prefix))
            with_prefixes.append(replace(segment, request=request))
            lengths.append((request.number, request.prefix, self.bounds.max_pieces(request, self.config)))
        refuse_long_prefixes(lengths)
        return search(with_prefixes)
