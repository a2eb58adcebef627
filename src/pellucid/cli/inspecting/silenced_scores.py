"""Translations of a model some of whose heads are silent, and how much worse they are."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pellucid.bundle import Bundle
    from pellucid.evaluate.bootstrap import PairedScore
    from pellucid.evaluate.statistics import CountRows
    from pellucid.inspect.importance import Head, ScoreCurve


class SilencedTranslator:
    """Translates the same sentences with any heads silent, and scores that against the same references.

    Heads are silent in the weights, so everything of a translation is as ever.
    """

    def __init__(self, bundle: "Bundle", sources: Sequence[str], references: Sequence[str], beam: int):
        self.bundle, self.sources, self.references, self.beam = bundle, sources, references, beam
        self.lowercase = bundle.tokenizer.lowercase

    def translations(self, heads: "Sequence[Head]") -> list[str]:
        """What the model writes without these heads."""
        from pellucid.decode.config import SearchConfig
        from pellucid.decode.translate import Translator
        from pellucid.inspect.importance import silence_in_weights

        translator = Translator(silence_in_weights(self.bundle.model, heads), self.bundle.tokenizer)
        return [each.text for each in translator.translate(self.sources, SearchConfig(beam=self.beam))]

    def changes(
        self, heads: "Sequence[Head]", metric: str, samples: int, seed: int, done: Callable[[], object]
    ) -> "list[PairedScore]":
        """What the silence of each head, alone, makes of a score, with paired bootstrap: A is the whole model."""
        from pellucid.evaluate.bootstrap import compare_metric
        from pellucid.evaluate.statistics import sentence_counts

        def counts(silent: "Sequence[Head]") -> "CountRows":
            return sentence_counts(metric, self.translations(silent), self.references, self.lowercase)

        whole, found = counts([]), []
        for head in heads:
            found.append(compare_metric(metric, whole, counts([head]), samples, seed, self.lowercase))
            done()
        return found

    def curves(
        self, orders: "Mapping[str, Sequence[Head]]", counts: Sequence[int], metric: str, done: Callable[[], object]
    ) -> "list[ScoreCurve]":
        """A score with only the first heads of each order kept."""
        from pellucid.evaluate.scores import corpus_scores
        from pellucid.inspect.importance import ScoreCurve

        scores: dict[frozenset[Head], float] = {}
        for order in orders.values():
            for silent in (frozenset(order[count:]) for count in counts):
                if silent not in scores:  # with all heads or none, every order is the same
                    texts = self.translations(sorted(silent))
                    scored = corpus_scores(texts, self.references, [metric], self.lowercase)
                    scores[silent] = scored[metric]["score"]
                done()
        return [
            ScoreCurve(name, list(counts), [scores[frozenset(order[count:])] for count in counts])
            for name, order in orders.items()
        ]
