"""Translations of a model with some of its heads silent, and their scores."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pellucid.evaluate.compare import CountRows, PairedScore
    from pellucid.inspect.importance import Head, ScoreCurve
    from pellucid.store.directory import Bundle


class SilencedTranslator:
    """Translator of fixed sentences with any heads silent, which scores its translations against fixed references."""

    def __init__(self, bundle: "Bundle", sources: Sequence[str], references: Sequence[str], beam: int):
        self.bundle, self.sources, self.references, self.beam = bundle, sources, references, beam
        self.lowercase = bundle.tokenizer.lowercase

    def translations(self, heads: "Sequence[Head]") -> list[str]:
        """Return the translations with these heads silent."""
        from pellucid.decode.config import SearchConfig
        from pellucid.decode.translate import Translator
        from pellucid.inspect.importance import silence_in_weights

        # Silent in the weights, so that everything else of a translation is as usual.
        translator = Translator(silence_in_weights(self.bundle.model, heads), self.bundle.tokenizer)
        return [translation.text for translation in translator.translate(self.sources, SearchConfig(beam=self.beam))]

    def changes(
        self, heads: "Sequence[Head]", metric: str, samples: int, seed: int, advance: Callable[[], object]
    ) -> "list[PairedScore]":
        """Return the change of a score with each head silent alone, by paired bootstrap: A is the whole model."""
        from pellucid.evaluate.compare import compare_metric, sentence_counts

        def counts(silent: "Sequence[Head]") -> "CountRows":
            return sentence_counts(metric, self.translations(silent), self.references, self.lowercase)

        whole, changes = counts([]), []
        for head in heads:
            changes.append(compare_metric(metric, whole, counts([head]), samples, seed, self.lowercase))
            advance()
        return changes

    def curves(
        self, orders: "Mapping[str, Sequence[Head]]", counts: Sequence[int], metric: str, advance: Callable[[], object]
    ) -> "list[ScoreCurve]":
        """Return a score with only the first heads of each order kept, for each of these counts."""
        from pellucid.evaluate.scores import corpus_scores
        from pellucid.inspect.importance import ScoreCurve

        scores: dict[frozenset[Head], float] = {}
        for order in orders.values():
            for silent in (frozenset(order[count:]) for count in counts):
                if silent not in scores:  # with all heads or none, every order is the same
                    texts = self.translations(sorted(silent))
                    scored = corpus_scores(texts, self.references, [metric], self.lowercase)
                    scores[silent] = scored[metric]["score"]
                advance()
        return [
            ScoreCurve(name, list(counts), [scores[frozenset(order[count:])] for count in counts])
            for name, order in orders.items()
        ]
