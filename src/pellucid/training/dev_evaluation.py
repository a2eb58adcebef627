"""Evaluation during training: when one is due, and the loss, BLEU and chrF of the dev pairs."""

from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from pellucid.data.batching import Batch, collate, epoch_batches
from pellucid.data.context import encode_with_context
from pellucid.data.corpus import SentencePairs
from pellucid.data.source_profile import SourceProfile
from pellucid.data.tokenizer import Tokenizer
from pellucid.decode.request import SearchConfig
from pellucid.decode.translator import Translator, inference_only
from pellucid.evaluate.reference import ReferenceLine
from pellucid.evaluate.score_words import choose_score_words, explain_tokenized_text
from pellucid.evaluate.scores import corpus_scores
from pellucid.model import Transformer
from pellucid.training.checkpoint import RunCounts
from pellucid.training.config import TrainConfig
from pellucid.training.data import encode_with_note
from pellucid.training.update import autocast_products, batch_loss

EVALUATIONS = 12  # evaluations of a run that does not say how often to evaluate
# Largest share of the time so far that evaluations take in a run in minutes, except for its first and its last.
_EVALUATION_SHARE = 0.2
# Seconds of a run in minutes before its first evaluation: an untrained model also translates slowest.
_FIRST_EVALUATION_SECONDS = 30.0
# Differences in BLEU that are chance, times the root of the number of sentences: twice the standard error of the
# difference between two checkpoints of a run, which is 0.4 to 0.9 with 500 sentences (benchmarks/results/trials.md).
_CHANCE = 30.0


def run_progress(counts: RunCounts, c: TrainConfig) -> float:
    """Return the share of the run that is over: of its updates, or of its minutes."""
    if c.steps is not None:
        return min(1.0, counts.step / c.steps)
    assert c.minutes is not None
    return min(1.0, counts.seconds / (60 * c.minutes))


def is_due(every: int | None, counts: RunCounts, before: float, now: float) -> bool:
    """Whether `every` updates have gone by, or, if that is None, another twelfth of the run; always at its end.

    >>> is_due(500, RunCounts(step=1000), 0.1, 0.11)
    True
    >>> is_due(None, RunCounts(step=7), 0.07, 0.08), is_due(None, RunCounts(step=8), 0.08, 0.09)
    (False, True)
    """
    if now >= 1.0:
        return True
    if every is not None:
        return counts.step % every == 0
    # By progress, not by step: a run in minutes does not know its number of steps.
    return int(now * EVALUATIONS) > int(before * EVALUATIONS)


def is_worthwhile(counts: RunCounts, c: TrainConfig) -> bool:
    """Whether a run in minutes has time for an evaluation that is due, or had better spend it on updates.

    >>> c = TrainConfig(minutes=1)
    >>> is_worthwhile(RunCounts(seconds=25), c), is_worthwhile(RunCounts(seconds=35), c)
    (False, True)
    >>> [is_worthwhile(RunCounts(seconds=50, evaluations=1, evaluation_seconds=n), c) for n in (4, 6)]
    [True, False]
    """
    if c.minutes is None or c.evaluate_every is not None:
        return True
    if not counts.evaluations:
        return counts.seconds >= _FIRST_EVALUATION_SECONDS
    average = counts.evaluation_seconds / counts.evaluations
    return counts.evaluation_seconds + average <= _EVALUATION_SHARE * counts.seconds


@dataclass(frozen=True)
class DevSet:
    """Dev pairs, as batches for the loss and as text for the translations."""

    batches: list[Batch]
    sources: list[str]
    references: list[str]
    notes: tuple[str, ...]  # sentences on dev pairs that are left out, and why, and on how they are scored
    tokenizer: Tokenizer
    tokenize: str | None = None  # how BLEU cuts the text into words; None: as the script of the references asks
    language: str | None = None  # code of the language of the references, where the run says it
    profile: SourceProfile | None = None  # of the training text

    @classmethod
    def from_pairs(
        cls,
        pairs: SentencePairs,
        tokenizer: Tokenizer,
        sentences: int,
        batch_tokens: int,
        limit: int,
        tokenize: str | None = None,
        language: str | None = None,
        profile: SourceProfile | None = None,
    ) -> "DevSet":
        """Take all pairs for the loss, and for translation so many `sentences` of them, spread evenly over the file.

        Pairs with more than `limit` pieces on a side are left out. `tokenize` and `language` are as for
        `choose_score_words`; raises ValueError for a tokenizer that is unknown or not installed.
        """
        encoded, notes = encode_with_note(pairs, tokenizer, limit)
        # Fixed seed and epoch: every evaluation has the same batches.
        order = epoch_batches(encoded.sources.lengths, encoded.targets.lengths, batch_tokens, seed=0, epoch=0)
        count = min(sentences, len(pairs))
        sampled = [i * len(pairs) // count for i in range(count)]
        fitting = [i for i in sampled if len(encode_with_context(tokenizer, [pairs.sources[i]])[0]) <= limit]
        references = [pairs.targets[i] for i in fitting]
        words_note = choose_score_words(references, tokenize, language).note
        tokenized_note = explain_tokenized_text(references, "dev references")
        return cls(
            [collate(encoded, batch) for batch in order],
            [pairs.sources[i] for i in fitting],
            references,
            (*notes, *(note for note in (words_note, tokenized_note) if note)),
            tokenizer,
            tokenize,
            language,
            profile,
        )


@dataclass(frozen=True)
class Evaluation:
    """Dev scores at one moment; `signatures` say how BLEU and chrF were computed."""

    dev_loss: float
    bleu: float
    chrf: float
    signatures: dict[str, str]
    translations: tuple[ReferenceLine, ...] = ()  # dev lines with their translations, which are not written into logs
    # Of a multilingual model: the scores of each direction, whose means these are.
    directions: "dict[str, Evaluation]" = field(default_factory=dict)

    @classmethod
    def mean_of(cls, directions: "dict[str, Evaluation]") -> "Evaluation":
        """Return the mean of several directions; each direction counts the same."""
        evaluations = list(directions.values())
        means = {name: fmean(getattr(one, name) for one in evaluations) for name in ("dev_loss", "bleu", "chrf")}
        translations = tuple(line for one in evaluations for line in one.translations)
        # The directions' BLEU may count other words, such as Chinese characters.
        signatures = {}
        for name in evaluations[0].signatures:
            different = dict.fromkeys(one.signatures[name] for one in evaluations)
            signatures[name] = " and ".join(different)
        return cls(**means, signatures=signatures, translations=translations, directions=directions)

    def is_better(self, counts: RunCounts) -> bool:
        """Whether the model is better than `best/`.

        The best has the lowest dev loss of those whose BLEU is as high as the highest, but for chance: the loss of all
        dev pairs says more precisely which of two checkpoints is better than the BLEU of some of them.
        """
        highest = max(self.bleu, counts.highest_score, counts.best_score)
        lowest = max(0.0, highest - _CHANCE / max(1, len(self.translations)) ** 0.5)
        return self.bleu >= lowest and (counts.best_score < lowest or self.dev_loss < counts.best_loss)

    def __str__(self) -> str:
        each = ", ".join(f"{name} {one.bleu:.2f}" for name, one in self.directions.items())
        return f"dev loss {self.dev_loss:.3f}, BLEU {self.bleu:.2f}, chrF {self.chrf:.2f}" + (
            f" (means; BLEU {each})" if each else ""
        )

    def row(self) -> dict[str, Any]:
        """Return the scores as they are written into logs and model directories."""
        row = {"dev_loss": self.dev_loss, "bleu": self.bleu, "chrf": self.chrf, "signatures": self.signatures}
        if self.directions:
            row["directions"] = {name: one.row() for name, one in self.directions.items()}
        return row


def evaluate_model(model: Transformer, dev: DevSet, beam: int, precision: str) -> Evaluation:
    """Measure a model: loss in nats per token, without label smoothing, and BLEU and chrF of beam search."""
    tokenizer = dev.tokenizer
    device = model.output_embedding.weight.device
    with inference_only(model), autocast_products(precision, device):
        total = sum(batch_loss(model, batch.to(device), smoothing=0.0).item() for batch in dev.batches)
    translator = Translator(model, tokenizer, profile=dev.profile, target_language=dev.language)
    translations = translator.translate_sources(dev.sources, SearchConfig(beam=beam))
    references = zip(dev.sources, translations, strict=True)
    texts, lowercase = [translation.text for translation in translations], tokenizer.lowercase
    # A lowercase model cannot know the case of the references.
    words = {"tokenize": dev.tokenize, "language": dev.language}
    scores = corpus_scores(texts, dev.references, metrics=("bleu", "chrf"), lowercase=lowercase, **words)
    return Evaluation(
        dev_loss=total / sum(batch.target_tokens for batch in dev.batches),
        bleu=scores["bleu"]["score"],
        chrf=scores["chrf"]["score"],
        signatures={name: scores[name]["signature"] for name in ("bleu", "chrf")},
        translations=tuple(
            ReferenceLine(line, found.text, found.score, tokenizer.language) for line, found in references
        ),
    )
