"""The innermost search of a translation: batches of like length, the engine, and the texts of what it finds."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from pellucid.data.tokenizer import Tokenizer
from pellucid.decode.line_segments import NOT_FOUND, SearchResult, Segment
from pellucid.decode.request import Engine, Hypothesis, SearchConfig, SearchRequest, batch_by_length
from pellucid.decode.torch_models import TorchModels


@dataclass(frozen=True)
class SearchSegments:
    """The search that all stages stand around: it gives each segment hypotheses, best first, and their texts.

    `models` are asked, where a segment gets no hypothesis, whether their weights are damaged.
    """

    engine: Engine
    tokenizer: Tokenizer
    models: TorchModels
    config: SearchConfig

    def __call__(self, segments: list[Segment]) -> list[SearchResult]:
        """Return the result of each segment, in order; ValueError for weights that are infinite or NaN."""
        groups = _group_equal_requests([segment.request for segment in segments], self.config)
        requests = [segments[group[0]].request for group in groups]
        sizes = {n: len(request.source) for n, request in enumerate(requests)}
        sentences = self.config.batch or self.engine.batch_size
        batches = list(batch_by_length(sizes, sentences, self.config.batch_tokens))
        batches_of_requests = []
        for batch in batches:
            batches_of_requests.append([requests[n] for n in batch])

        found: dict[int, list[Hypothesis]] = {}
        outputs_of_batches = self.engine.search_all(batches_of_requests, self.config)
        for batch, outputs in zip(batches, outputs_of_batches, strict=True):
            requests[batch[0]].check_wanted()
            for n, hypotheses in zip(batch, outputs, strict=True):
                found.update(dict.fromkeys(groups[n], hypotheses))
        return self.write_texts(segments, [found[i] for i in range(len(segments))])

    def whole_beam(self) -> "SearchSegments":
        """Return the same search, which gives all hypotheses of a beam."""
        if self.config.method != "beam":
            return self
        return replace(self, config=replace(self.config, n_best=self.config.beam))

    def write_texts(self, segments: Sequence[Segment], found: Sequence[list[Hypothesis]]) -> list[SearchResult]:
        """Return results with the text of every hypothesis, in the case and spelling of the user's text."""
        tokens: list[list[int]] = []
        for hypotheses in found:
            tokens.extend(hypothesis.tokens for hypothesis in hypotheses)

        texts = iter(self.tokenizer.decode_targets(tokens))  # one call decodes all of them

        results = []
        for segment, hypotheses in zip(segments, found, strict=True):
            restored = [segment.read.restore(next(texts)) for _ in hypotheses]
            # A search under a rule that forbids repeats is the second one, and may find nothing.
            notes = () if hypotheses or segment.request.no_repeat else (self.explain_failure(segment),)
            results.append(SearchResult(segment, hypotheses, restored, notes=notes))
        return results

    def explain_failure(self, segment: Segment) -> str:
        """Return why no search found a translation of a segment; ValueError for weights that are infinite or NaN."""
        # Rules can forbid everything, so an empty result with terms or a prefix says nothing about
        # the weights.
        if segment.terms or segment.request.prefix:
            return NOT_FOUND
        self.models.refuse_damaged()
        return "the model gives no translation of it a probability"


def _group_equal_requests(requests: Sequence[SearchRequest], config: SearchConfig) -> list[list[int]]:
    """Return the indices of requests in groups that are searched for once."""
    # A translation does not depend on what else is in its batch. But sampling draws by line number,
    # so there equal sentences have different translations.
    if config.method == "sample":
        return [[i] for i in range(len(requests))]
    equal: dict[Hashable, list[int]] = {}
    for i, request in enumerate(requests):
        equal.setdefault(request.search_key, []).append(i)
    return list(equal.values())
