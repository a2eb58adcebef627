"""What is left of a model when heads are removed for good: its scores, its size, its speed, and that it is the same."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from pellucid.bundle import Bundle
    from pellucid.evaluate.bootstrap import Paired
    from pellucid.inspect.importance import Head
    from pellucid.inspect.study_pairs import Pairs
    from pellucid.model import Transformer

ROUNDS = 5
"""Times that both models do the same work, in turns."""

MOST_TIMED = 200
"""Sentences of that work, and sentences encoded at once."""
AT_ONCE = 32


@dataclass(frozen=True)
class Point:
    """What a model with so many heads reaches: scores of its translations, and its loss in nats a piece."""

    kept: int
    bleu: float
    chrf: float
    loss: float


@dataclass(frozen=True)
class Curve:
    """The points of one order of heads, all of them kept first."""

    order: str
    points: list[Point]


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


class Removing:
    """Measures a model on the same pairs with any heads removed; what was measured once is not measured again."""

    def __init__(self, bundle: "Bundle", pairs: "Pairs", beam: int, among: int):
        """`among` is how many heads may go; the heads kept are counted among these."""
        self.bundle, self.pairs, self.beam, self.among = bundle, pairs, beam, among
        self.sources, self.references = [text for text, _ in pairs.texts], [text for _, text in pairs.texts]
        self.lowercase = bundle.tokenizer.lowercase
        self.known: dict[object, Point] = {}
        self.written: WeakKeyDictionary[Transformer, list[str]] = WeakKeyDictionary()

    def point(self, heads: "Iterable[Head]") -> Point:
        """The model without these heads."""
        from pellucid.inspect.pruning import pruned

        out = frozenset(heads)
        if out not in self.known:
            self.known[out] = self.point_of(pruned(self.bundle.model, out), self.among - len(out))
        return self.known[out]

    def point_of(self, model: "Transformer", kept: int) -> Point:
        """Any model with the same tokenizer."""
        from pellucid.evaluate.scores import corpus_scores
        from pellucid.inspect.importance import losses

        scores = corpus_scores(self.translations(model), self.references, ["bleu", "chrf"], self.lowercase)
        loss = float(losses(model, self.pairs, [()]).sum()) / self.pairs.pieces
        return Point(kept, scores["bleu"]["score"], scores["chrf"]["score"], loss)

    def translations(self, model: "Transformer") -> list[str]:
        """What a model writes for these pairs, by torch."""
        from pellucid.decode.config import SearchConfig
        from pellucid.decode.translate import Translator

        if model not in self.written:
            found = Translator(model, self.bundle.tokenizer).translate(self.sources, SearchConfig(beam=self.beam))
            self.written[model] = [each.text for each in found]
        return self.written[model]

    def curves(
        self, orders: "Mapping[str, Sequence[Head]]", counts: Sequence[int], done: Callable[[], object]
    ) -> list[Curve]:
        """With only the first heads of each order kept."""
        found = []
        for name, order in orders.items():
            points = []
            for count in counts:
                points.append(self.point(order[count:]))
                done()
            found.append(Curve(name, points))
        return found

    def fewest_within(self, order: "Sequence[Head]", counts: Sequence[int], most: float) -> int:
        """How many heads of this order must be kept to lose no more than `most` BLEU, nor at any larger number tried.

        Between the last point of the curve that is within and the first that is not, head by head.
        """
        whole, kept = self.point([]).bleu, len(order)
        for count in [*counts[1:], -1]:
            if count >= 0 and self.point(order[count:]).bleu >= whole - most:
                kept = count
                continue
            for one_less in range(kept - 1, count, -1):
                if self.point(order[one_less:]).bleu < whole - most:
                    return one_less + 1
                kept = one_less
            return kept
        return kept

    def scores(self, after: "Transformer", samples: int, seed: int) -> "list[Paired]":
        """BLEU and chrF of the whole model (A) and of another (B), with paired bootstrap."""
        from pellucid.evaluate.bootstrap import paired
        from pellucid.evaluate.statistics import rows

        before, written = self.translations(self.bundle.model), self.translations(after)
        found = []
        for metric in ("bleu", "chrf"):
            a, b = (rows(metric, texts, self.references, self.lowercase) for texts in (before, written))
            found.append(paired(metric, a, b, samples, seed, self.lowercase))
        return found

    def largest_difference(
        self, model: "Transformer", after: "Transformer", heads: "Iterable[Head]"
    ) -> tuple[float, float]:
        """Between logits of a model with these heads silent and of the smaller one; and the largest logit."""
        from pellucid.decode.translate import reading
        from pellucid.inspect.importance import silence
        from pellucid.inspect.study_pairs import batches

        silent, largest, logit = silence(heads), 0.0, 0.0
        with reading(model), reading(after):
            for batch in batches(self.pairs, model.config, model.output_embedding.weight.device):
                there = batch.asked.there
                whole = model(batch.read.ids, batch.begun.ids, silent)[there]
                apart = after(batch.read.ids, batch.begun.ids)[there] - whole
                largest, logit = max(largest, float(apart.abs().max())), max(logit, float(whole.abs().max()))
        return largest, logit

    def speeds(self, after: "Transformer") -> list[Speed]:
        """Translating and encoding, both models in turns, on some of the sentences."""
        models = self.bundle.model, after
        some = self.sources[:MOST_TIMED]
        translate = [translating(model, self.bundle, some, self.beam) for model in models]
        encode = [encoding(model, self.bundle, some) for model in models]
        both = (f"translating, beam {self.beam}", translate), (f"encoding, {AT_ONCE} at once", encode)
        return [timed(what, before, smaller, len(some)) for what, (before, smaller) in both]


def translating(model: "Transformer", bundle: "Bundle", sentences: list[str], beam: int) -> Callable[[], object]:
    """Everything from text to text."""
    from pellucid.decode.config import SearchConfig
    from pellucid.decode.translate import Translator

    translator, search = Translator(model, bundle.tokenizer), SearchConfig(beam=beam)
    return lambda: translator.translate(sentences, search)


def encoding(model: "Transformer", bundle: "Bundle", sentences: list[str]) -> Callable[[], object]:
    """What the encoder does for these sentences, those of like length together, as in translation."""
    from pellucid.decode.step import padded
    from pellucid.decode.stepper import Stepper
    from pellucid.decode.translate import reading

    rows = sorted(bundle.tokenizer.encode_source(sentences), key=len)
    device, stepper = model.output_embedding.weight.device, Stepper(model)
    groups = [padded(rows[n : n + AT_ONCE], device) for n in range(0, len(rows), AT_ONCE)]

    def run():
        with reading(model):
            for group in groups:
                stepper.begin(group)

    return run


def timed(what: str, before: Callable[[], object], after: Callable[[], object], sentences: int) -> Speed:
    """Each once to warm up, then in turns; who comes first changes."""
    before()
    after()
    took: dict[bool, list[float]] = {False: [], True: []}
    for number in range(ROUNDS):
        for smaller in (False, True) if number % 2 else (True, False):
            start = perf_counter()
            (after if smaller else before)()
            took[smaller].append(perf_counter() - start)
    ratios = [a / b for a, b in zip(took[False], took[True], strict=True)]
    return Speed(what, sentences / median(took[False]), sentences / median(took[True]), ratios)
