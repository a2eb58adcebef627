"""Measurements of a model whose heads are removed for good: scores, size, speed, and that its logits agree."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from pellucid.bundle import Bundle
    from pellucid.evaluate.compare import PairedScore
    from pellucid.inspect.importance import Head
    from pellucid.inspect.study_pairs import StudyPairs
    from pellucid.model import Transformer

TIMING_ROUNDS = 5
"""Times that both models do the same work, in turns."""

MOST_TIMED_SENTENCES = 200
"""Sentences of that work, and sentences encoded at once."""
ENCODED_AT_ONCE = 32


@dataclass(frozen=True)
class PruningPoint:
    """Scores of a model's translations and its loss in nats per piece, with so many heads kept."""

    kept: int
    bleu: float
    chrf: float
    loss: float


@dataclass(frozen=True)
class PruningCurve:
    """The points of one order of heads, all of them kept first."""

    order: str
    points: list[PruningPoint]


@dataclass(frozen=True)
class Speed:
    """Sentences a second of both models, as the median of the rounds, and how much faster the second was in each."""

    what: str
    before: float
    after: float
    ratios: list[float]

    @property
    def ratio(self) -> float:
        return median(self.ratios)


class PruningMeasurer:
    """Measures a model on the same pairs with any heads removed; what was measured once is not measured again."""

    def __init__(self, bundle: "Bundle", pairs: "StudyPairs", beam: int, among: int):
        """`among` is how many heads may go; the heads kept are counted among these."""
        self.bundle, self.pairs, self.beam, self.among = bundle, pairs, beam, among
        self.sources, self.references = [text for text, _ in pairs.texts], [text for _, text in pairs.texts]
        self.lowercase = bundle.tokenizer.lowercase
        self.measured_points: dict[object, PruningPoint] = {}
        self.texts_by_model: WeakKeyDictionary[Transformer, list[str]] = WeakKeyDictionary()

    def point_without(self, heads: "Iterable[Head]") -> PruningPoint:
        """The model without these heads."""
        from pellucid.inspect.pruning import remove_heads

        out = frozenset(heads)
        if out not in self.measured_points:
            self.measured_points[out] = self.point_of_model(remove_heads(self.bundle.model, out), self.among - len(out))
        return self.measured_points[out]

    def point_of_model(self, model: "Transformer", kept: int) -> PruningPoint:
        """Any model with the same tokenizer."""
        from pellucid.evaluate.scores import corpus_scores
        from pellucid.inspect.importance import pair_losses

        scores = corpus_scores(self.translations(model), self.references, ["bleu", "chrf"], self.lowercase)
        loss = float(pair_losses(model, self.pairs, [()]).sum()) / self.pairs.pieces
        return PruningPoint(kept, scores["bleu"]["score"], scores["chrf"]["score"], loss)

    def translations(self, model: "Transformer") -> list[str]:
        """Return a model's translations of these pairs, by torch."""
        from pellucid.decode.config import SearchConfig
        from pellucid.decode.translate import Translator

        if model not in self.texts_by_model:
            found = Translator(model, self.bundle.tokenizer).translate(self.sources, SearchConfig(beam=self.beam))
            self.texts_by_model[model] = [each.text for each in found]
        return self.texts_by_model[model]

    def curves(
        self, orders: "Mapping[str, Sequence[Head]]", counts: Sequence[int], done: Callable[[], object]
    ) -> list[PruningCurve]:
        """With only the first heads of each order kept."""
        found = []
        for name, order in orders.items():
            points = []
            for count in counts:
                points.append(self.point_without(order[count:]))
                done()
            found.append(PruningCurve(name, points))
        return found

    def fewest_within(self, order: "Sequence[Head]", counts: Sequence[int], most: float) -> int:
        """Return the number of heads of this order to keep so that no more than `most` BLEU is lost.

        The loss stays within `most` for every larger number that was tried, too.

        Between the last point of the curve that is within and the first that is not, head by head.
        """
        whole, kept = self.point_without([]).bleu, len(order)
        for count in [*counts[1:], -1]:
            if count >= 0 and self.point_without(order[count:]).bleu >= whole - most:
                kept = count
                continue
            for one_less in range(kept - 1, count, -1):
                if self.point_without(order[one_less:]).bleu < whole - most:
                    return one_less + 1
                kept = one_less
            return kept
        return kept

    def scores(self, after: "Transformer", samples: int, seed: int) -> "list[PairedScore]":
        """BLEU and chrF of the whole model (A) and of another (B), with paired bootstrap."""
        from pellucid.evaluate.compare import compare_metric, sentence_counts

        before, written = self.translations(self.bundle.model), self.translations(after)
        found = []
        for metric in ("bleu", "chrf"):
            a, b = (sentence_counts(metric, texts, self.references, self.lowercase) for texts in (before, written))
            found.append(compare_metric(metric, a, b, samples, seed, self.lowercase))
        return found

    def largest_difference(
        self, model: "Transformer", after: "Transformer", heads: "Iterable[Head]"
    ) -> tuple[float, float]:
        """Between logits of a model with these heads silent and of the smaller one; and the largest logit."""
        from pellucid.decode.translate import inference_only
        from pellucid.inspect.importance import silence_watcher
        from pellucid.inspect.study_pairs import study_batches

        silent, largest, logit = silence_watcher(heads), 0.0, 0.0
        with inference_only(model), inference_only(after):
            for batch in study_batches(self.pairs, model.config, model.output_embedding.weight.device):
                there = batch.target_out.not_padding
                whole = model(batch.source.ids, batch.target_in.ids, silent)[there]
                apart = after(batch.source.ids, batch.target_in.ids)[there] - whole
                largest, logit = max(largest, float(apart.abs().max())), max(logit, float(whole.abs().max()))
        return largest, logit

    def speeds(self, after: "Transformer") -> list[Speed]:
        """Translating and encoding, both models in turns, on some of the sentences."""
        models = self.bundle.model, after
        some = self.sources[:MOST_TIMED_SENTENCES]
        translate = [make_translate_task(model, self.bundle, some, self.beam) for model in models]
        encode = [make_encode_task(model, self.bundle, some) for model in models]
        both = (f"translating, beam {self.beam}", translate), (f"encoding, {ENCODED_AT_ONCE} at once", encode)
        return [time_in_turns(what, before, smaller, len(some)) for what, (before, smaller) in both]


def make_translate_task(
    model: "Transformer", bundle: "Bundle", sentences: list[str], beam: int
) -> Callable[[], object]:
    """Everything from text to text."""
    from pellucid.decode.config import SearchConfig
    from pellucid.decode.translate import Translator

    translator, search = Translator(model, bundle.tokenizer), SearchConfig(beam=beam)
    return lambda: translator.translate(sentences, search)


def make_encode_task(model: "Transformer", bundle: "Bundle", sentences: list[str]) -> Callable[[], object]:
    """Return a task that encodes these sentences, those of like length together, as in translation."""
    from pellucid.decode.packed_model import ModelPacker
    from pellucid.decode.step import pad_sentences
    from pellucid.decode.translate import inference_only

    rows = sorted(bundle.tokenizer.encode_source(sentences), key=len)
    device, copied = model.output_embedding.weight.device, ModelPacker(model).copy_model()
    groups = [pad_sentences(rows[n : n + ENCODED_AT_ONCE], device) for n in range(0, len(rows), ENCODED_AT_ONCE)]

    def run():
        with inference_only(model):
            for group in groups:
                copied.encode(group)

    return run


def time_in_turns(what: str, before: Callable[[], object], after: Callable[[], object], sentences: int) -> Speed:
    """Each once to warm up, then in turns; who comes first changes."""
    before()
    after()
    took: dict[bool, list[float]] = {False: [], True: []}
    for number in range(TIMING_ROUNDS):
        for smaller in (False, True) if number % 2 else (True, False):
            start = perf_counter()
            (after if smaller else before)()
            took[smaller].append(perf_counter() - start)
    ratios = [a / b for a, b in zip(took[False], took[True], strict=True)]
    return Speed(what, sentences / median(took[False]), sentences / median(took[True]), ratios)
