"""Links the words of a source and of its translation, where that was asked for or tags need it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from pellucid.data.tokenizer import EOS, Tokenizer
from pellucid.decode.line_segments import Search, SearchResult, Segment
from pellucid.decode.request import Links, SearchConfig, map_in_batches

if TYPE_CHECKING:
    from pellucid.decode.torch_engine import TorchEngine

# Token ids of a source and of its translation, and the texts of both.
Sentence = tuple[list[int], list[int], str, str]


@dataclass(frozen=True)
class LinkWords:
    """The stage that adds word links to the hypotheses of segments with tags, or to all of them."""

    find_engine: "Callable[[], TorchEngine]"
    tokenizer: Tokenizer
    config: SearchConfig

    def __call__(self, segments: list[Segment], search: Search) -> list[SearchResult]:
        results = search(segments)
        sentences: list[Sentence] = []
        for segment, result in zip(segments, results, strict=True):
            if not self.needs_links(segment):
                continue
            for hypothesis, text in zip(result.hypotheses, result.texts, strict=True):
                # A hypothesis has no EOS in its tokens; one that was cut off has none at all.
                target = hypothesis.tokens + [EOS] * (hypothesis.stop == "eos")
                sentences.append((result.segment.request.source, target, segment.marked.text, text))

        if not sentences:
            return results

        remaining = iter(self.link_sentences(sentences))
        for i, segment in enumerate(segments):
            if self.needs_links(segment):
                results[i] = replace(results[i], links=[next(remaining) for _ in results[i].hypotheses])
        return results

    def needs_links(self, segment: Segment) -> bool:
        """Whether the words of this segment are linked."""
        return self.config.alignments or bool(segment.marked.tags)

    def link_sentences(self, sentences: Sequence[Sentence]) -> list[Links]:
        """Return the links of each sentence, from one pass of the model over each batch."""
        from pellucid.decode.alignment import align_sentences

        engine = self.find_engine()
        lengths = [max(len(source), len(target)) for source, target, *_ in sentences]
        align_batch = partial(align_sentences, engine.models[0], self.tokenizer)
        return map_in_batches(align_batch, sentences, lengths, self.config.batch or engine.batch_size)
