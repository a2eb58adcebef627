"""Evaluation during training: the loss, BLEU and chrF of the dev pairs."""

import json
from dataclasses import dataclass, field
from itertools import chain, islice
from statistics import fmean
from typing import Any

from pellucid.data.batching import Batch, collate, epoch_batches
from pellucid.data.context import encode_with_context
from pellucid.data.corpus import SentencePairs
from pellucid.data.source_profile import SourceProfile
from pellucid.data.tokenizer import Tokenizer
from pellucid.decode.corpus_sources import translate_sources
from pellucid.decode.request import SearchConfig, batch_by_length
from pellucid.decode.torch_engine import TorchEngine
from pellucid.decode.torch_models import inference_only
from pellucid.decode.translator import Translator
from pellucid.evaluate.reference import ReferenceLine
from pellucid.evaluate.score_words import choose_score_words, explain_tokenized_text
from pellucid.evaluate.scores import corpus_scores
from pellucid.model import Transformer
from pellucid.training.checkpoint import RunCounts
from pellucid.training.data import encode_with_note
from pellucid.training.distributed import ALONE, Workers
from pellucid.training.update import autocast_products, batch_loss

# Differences in BLEU that are chance, times the root of the number of sentences: twice the standard
# error of the difference between two checkpoints of a run, which is 0.4 to 0.9 with 500 sentences
# (benchmarks/results/trials.md).
_CHANCE = 30.0


@dataclass(frozen=True)
class DevSet:
    """Dev pairs, as batches for the loss and as text for the translations."""

    batches: list[Batch]
    sources: list[str]
    references: list[str]
    # Sentences on dev pairs that are left out, and why, and on how they are scored.
    notes: tuple[str, ...]
    tokenizer: Tokenizer
    # How BLEU cuts the text into words; None: as the script of the references asks.
    tokenize: str | None = None
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
        """Take all pairs for the loss, and for translation so many `sentences` of them.

        These are spread evenly over the file. Pairs with more than `limit` pieces on a side are
        left out. `tokenize` and `language` are as for `choose_score_words`; raises ValueError for a
        tokenizer that is unknown or not installed.
        """
        encoded, notes = encode_with_note(pairs, tokenizer, limit)
        # Fixed seed and epoch: every evaluation has the same batches.
        lengths = encoded.sources.lengths, encoded.targets.lengths
        order = epoch_batches(*lengths, batch_tokens, seed=0, epoch=0)

        sources, references, count = [], [], min(sentences, len(pairs))
        for number in range(count):
            index = number * len(pairs) // count
            [ids] = encode_with_context(tokenizer, [pairs.sources[index]])
            if len(ids) <= limit:
                sources.append(pairs.sources[index])
                references.append(pairs.targets[index])

        words_note = choose_score_words(references, tokenize, language).note
        tokenized_note = explain_tokenized_text(references, "dev references")
        return cls(
            [collate(encoded, batch) for batch in order],
            sources,
            references,
            (*notes, *filter(None, (words_note, tokenized_note))),
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
    # Dev lines with their translations, which are not written into logs.
    translations: tuple[ReferenceLine, ...] = ()
    # Of a multilingual model: the scores of each direction, whose means these are.
    directions: "dict[str, Evaluation]" = field(default_factory=dict)

    @classmethod
    def mean_of(cls, directions: "dict[str, Evaluation]") -> "Evaluation":
        """Return the mean of several directions; each direction counts the same."""
        evaluations = list(directions.values())
        # The directions' BLEU may count other words, such as Chinese characters.
        signatures = {}
        for name in evaluations[0].signatures:
            different = dict.fromkeys(one.signatures[name] for one in evaluations)
            signatures[name] = " and ".join(different)

        return cls(
            dev_loss=fmean(one.dev_loss for one in evaluations),
            bleu=fmean(one.bleu for one in evaluations),
            chrf=fmean(one.chrf for one in evaluations),
            signatures=signatures,
            translations=tuple(chain.from_iterable(one.translations for one in evaluations)),
            directions=directions,
        )

    def is_better(self, counts: RunCounts) -> bool:
        """Whether the model is better than `best/`.

        The best has the lowest dev loss of those whose BLEU is as high as the highest, but for
        chance: the loss of all dev pairs says more precisely which of two checkpoints is better
        than the BLEU of some of them.
        """
        highest = max(self.bleu, counts.highest_score, counts.best_score)
        lowest = max(0.0, highest - _CHANCE / max(1, len(self.translations)) ** 0.5)
        if self.bleu < lowest:
            return False
        return counts.best_score < lowest or self.dev_loss < counts.best_loss

    def __str__(self) -> str:
        scores = f"dev loss {self.dev_loss:.3f}, BLEU {self.bleu:.2f}, chrF {self.chrf:.2f}"
        if not self.directions:
            return scores
        each = [f"{name} {one.bleu:.2f}" for name, one in self.directions.items()]
        return f"{scores} (means; BLEU {', '.join(each)})"

    def row(self) -> dict[str, Any]:
        """Return the scores as they are written into logs and model directories."""
        row = {
            "dev_loss": self.dev_loss,
            "bleu": self.bleu,
            "chrf": self.chrf,
            "signatures": self.signatures,
        }
        if self.directions:
            row["directions"] = {name: one.row() for name, one in self.directions.items()}
        return row


def evaluate_model(
    model: Transformer, dev: DevSet, beam: int, precision: str, workers: Workers = ALONE
) -> Evaluation:
    """Measure a model: the loss of the dev pairs, and BLEU and chrF of beam search.

    The loss is in nats per token, without label smoothing. All `workers` must call this at once
    with the same weights: each measures its share, and all get the scores.
    """
    tokenizer = dev.tokenizer
    device = model.output_embedding.weight.device
    losses = [0.0] * len(dev.batches)
    own_batches = range(workers.rank, len(dev.batches), workers.world_size)
    with inference_only(model), autocast_products(precision, device):
        for number in own_batches:
            batch = dev.batches[number].to(device)
            losses[number] = batch_loss(model, batch, smoothing=0.0).item()

    own_lines = share_lines(dev, workers)
    translator = Translator(model, tokenizer, profile=dev.profile, target_language=dev.language)
    sources = [dev.sources[number] for number in own_lines]
    found = translate_sources(translator, sources, SearchConfig(beam=beam))

    share: dict[str, list[Any]] = {"losses": [], "lines": []}
    for number in own_batches:
        share["losses"].append((number, losses[number]))
    for number, translation in zip(own_lines, found, strict=True):
        share["lines"].append((number, translation.text, translation.score))

    translations: dict[int, tuple[str, float]] = {}
    for text in workers.gather_texts(json.dumps(share)):
        shared = json.loads(text)
        for number, loss in shared["losses"]:
            losses[number] = loss
        for number, translation, score in shared["lines"]:
            translations[number] = translation, score

    lines: list[ReferenceLine] = []
    for number, source in enumerate(dev.sources):
        lines.append(ReferenceLine(source, *translations[number], tokenizer.language))
    scores = corpus_scores(
        [line.text for line in lines],
        dev.references,
        metrics=("bleu", "chrf"),
        # A lowercase model cannot know the case of the references.
        lowercase=tokenizer.lowercase,
        tokenize=dev.tokenize,
        language=dev.language,
    )
    bleu, chrf = scores["bleu"], scores["chrf"]
    # Batch by batch, in one order: the sum does not depend on the number of workers.
    target_tokens = sum(batch.target_tokens for batch in dev.batches)
    return Evaluation(
        dev_loss=sum(losses) / target_tokens,
        bleu=bleu["score"],
        chrf=chrf["score"],
        signatures={"bleu": bleu["signature"], "chrf": chrf["signature"]},
        translations=tuple(lines),
    )


def share_lines(dev: DevSet, workers: Workers) -> list[int]:
    """Return the numbers of the dev lines that this worker translates.

    Shares are whole batches of lines of like length, as one worker would translate them, so that
    scores are rounded as there. A line that is searched for again may have a score that is rounded
    otherwise.
    """
    if workers.world_size == 1:
        return list(range(len(dev.sources)))
    ids = encode_with_context(dev.tokenizer, dev.sources)
    lengths = dict(enumerate(map(len, ids)))
    batches = batch_by_length(lengths, TorchEngine.batch_size, SearchConfig.batch_tokens)
    own = islice(batches, workers.rank, None, workers.world_size)
    return list(chain.from_iterable(own))
