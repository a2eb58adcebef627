"""How much a head matters: what its silence costs, how steep the loss is in it, and what is left of many heads.

xi_h is a factor on the output of head h: 1 is the model as it is, 0 silences the head. Ablation and the expected
gradient are those of Michel et al. 2019 ("Are sixteen heads really better than one?"), sections 2 and 4.1.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from pellucid.data.tokenizer import PAD
from pellucid.decode.translate import inference_only
from pellucid.inspect.study_pairs import StudyBatch, StudyPairs, study_batches
from pellucid.model import Memory, ModelConfig, Transformer
from pellucid.trace.edits import attention_names
from pellucid.trace.record import Edit


class Head(NamedTuple):
    """A head by its attention ("decoder.3.cross") and its number, 0 first."""

    attention: str
    number: int

    def __str__(self) -> str:
        return f"{self.attention}.{self.number}"


@dataclass(frozen=True)
class LossChange:
    """What silencing a head changes, B minus A, in nats a target piece; its standard error is over sentences."""

    value: float
    error: float


@dataclass(frozen=True)
class ScoreCurve:
    """The loss, in nats a piece, or another score, against heads kept, the most important first."""

    order: str
    kept: list[int]
    values: list[float]


def attention_kinds(config: ModelConfig) -> dict[str, list[str]]:
    """The attentions by what reads what: the source itself, the target itself, the target the source."""
    names = attention_names(config)
    of = {"encoder": "encoder.*.self", "decoder": "decoder.*.self", "cross": "decoder.*.cross"}
    return {kind: [name for name in names if fnmatchcase(name, pattern)] for kind, pattern in of.items()}


def list_heads(config: ModelConfig, among: str = "all") -> list[Head]:
    """Every head in the order of the attentions, or those of one kind; ValueError for a kind there is not."""
    choices = {"all": attention_names(config), **attention_kinds(config)}
    if among not in choices:
        raise ValueError(f"{among!r} is no kind of heads; choose one of {', '.join(choices)}")
    return [Head(name, number) for name in choices[among] for number in range(config.heads_in(name))]


def pair_losses(
    model: Transformer, pairs: StudyPairs, variants: Sequence[Iterable[Head]], done: Callable[[], object] = lambda: None
) -> Float[ndarray, "V N"]:
    """The summed loss of each pair, in nats, teacher-forced and unsmoothed, with the heads of each variant silent.

    The encoder runs anew only for variants that silence a head of it. `done` is called after each variant of each
    batch.
    """
    silent = [frozenset(each) for each in variants]
    found = np.zeros((len(silent), len(pairs)))
    with inference_only(model):
        for batch in study_batches(pairs, model.config, model.output_embedding.weight.device):
            plain = model.encode(batch.source.ids, silence_watcher(()))
            last, memory = frozenset[Head](), plain
            for row, heads in zip(found, silent, strict=True):
                of_encoder = frozenset(head for head in heads if head.attention.startswith("encoder."))
                if of_encoder != last:
                    last = of_encoder
                    memory = model.encode(batch.source.ids, silence_watcher(of_encoder)) if of_encoder else plain
                row[batch.numbers] = batch_losses(model, memory, batch, silence_watcher(heads)).double().cpu().numpy()
                done()
    return found


def batch_losses(model: Transformer, memory: Memory, batch: StudyBatch, watch: Edit) -> Float[Tensor, " B"]:
    """The summed loss of each sentence of a batch, the encoder's work at hand."""
    logits = model.logits(model.decode(batch.target_in.ids, memory, watch=watch))
    each = F.cross_entropy(logits.flatten(0, 1), batch.target_out.ids.flatten(), ignore_index=PAD, reduction="none")
    return each.view_as(batch.target_out.ids).sum(dim=1)


def silence_watcher(heads: Iterable[Head]) -> Edit:
    """The watcher with xi = 0 for these heads; with none, it changes nothing."""
    of: dict[str, list[int]] = {}
    for head in sorted(heads):
        of.setdefault(head.attention, []).append(head.number)
    return Edit({f"{name}.head_output": silence_numbers(numbers) for name, numbers in of.items()})


def silence_numbers(numbers: Sequence[int]) -> Callable[[Tensor], Tensor]:
    """Zeros for these heads."""
    return lambda z: z.index_fill(1, torch.tensor(numbers, device=z.device), 0.0)


def gate_heads(xi: Mapping[str, Float[Tensor, "B H"]]) -> Edit:
    """The watcher that multiplies the output of each head by its factor, sentence by sentence."""
    return Edit({f"{name}.head_output": scale_heads(factors) for name, factors in xi.items()})


def scale_heads(factors: Float[Tensor, "B H"]) -> Callable[[Tensor], Tensor]:
    """Each head of each sentence times its factor."""
    return lambda z: z * factors[:, :, None, None]


def loss_change(base: Float[ndarray, " N"], silent: Float[ndarray, " N"], pieces: int) -> LossChange:
    """The change of the loss a piece when the loss of each pair goes from `base` to `silent`."""
    apart = silent - base
    error = float(apart.std(ddof=1)) * len(apart) ** 0.5 / pieces if len(apart) > 1 else float("nan")
    return LossChange(float(apart.sum()) / pieces, error)


def head_gradients(
    model: Transformer, pairs: StudyPairs, done: Callable[[], object] = lambda: None
) -> Float[ndarray, "N M"]:
    """dL/dxi of each pair, at xi = 1, for each head in the order of `list_heads`; L is the loss of the pair a piece.

    One backward pass: each sentence of a batch has factors of its own.
    """
    heads = {name: model.config.heads_in(name) for name in attention_names(model.config)}
    found = np.zeros((len(pairs), sum(heads.values())))
    weight = model.output_embedding.weight
    with frozen_weights(model):
        for batch in study_batches(pairs, model.config, weight.device):
            ones = torch.ones(len(batch.numbers), model.config.heads, dtype=weight.dtype, device=weight.device)
            xi = {name: ones[:, :count].clone().requires_grad_() for name, count in heads.items()}
            watch = gate_heads(xi)
            of_pairs = batch_losses(model, model.encode(batch.source.ids, watch), batch, watch)
            each = torch.autograd.grad((of_pairs / batch.target_out.not_padding.sum(dim=1)).sum(), list(xi.values()))
            found[batch.numbers] = torch.cat(each, dim=1).double().cpu().numpy()
            done()
    return found


@contextmanager
def frozen_weights(model: Transformer) -> Iterator[None]:
    """No dropout, and a gradient of factors alone: the weights want none meanwhile."""
    training = model.training
    wanting = [each for each in model.parameters() if each.requires_grad]
    model.eval()
    for each in wanting:
        each.requires_grad_(False)
    try:
        with torch.enable_grad():
            yield
    finally:
        for each in wanting:
            each.requires_grad_(True)
        model.train(training)


def expected_gradient(of_pairs: Float[ndarray, "N M"]) -> Float[ndarray, " M"]:
    """I_h = E |dL/dxi_h|."""
    return np.abs(of_pairs).mean(axis=0)


def normalise_by_attention(importance: Float[ndarray, " M"], heads: Sequence[int]) -> Float[ndarray, " M"]:
    """Each attention's heads divided by their length (Michel et al. 2019, 4.1, after Molchanov et al. 2017).

    `heads` says how many heads each attention has.
    """
    rows = np.split(importance, np.cumsum(heads)[:-1])
    return np.concatenate([row / (float(np.linalg.norm(row)) or 1.0) for row in rows])


def spearman_correlation(a: Sequence[float] | Float[ndarray, " N"], b: Sequence[float] | Float[ndarray, " N"]) -> float:
    """The correlation of ranks; equal values share the mean of theirs. NaN where all are equal.

    >>> round(spearman_correlation([1, 2, 3, 4], [10, 20, 40, 30]), 3)
    0.8
    """
    ranks = [mean_ranks(np.asarray(each, dtype=np.float64)) for each in (a, b)]
    if any(each.std() == 0 for each in ranks):
        return float("nan")
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def mean_ranks(values: Float[ndarray, " N"]) -> Float[ndarray, " N"]:
    """Ranks from 0, ties at their mean."""
    _, where, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts + 1) / 2)[where]


def kept_counts(heads: int, points: int) -> list[int]:
    """How many heads a curve keeps: all, none, and some in between.

    >>> kept_counts(48, 6)
    [48, 38, 29, 19, 10, 0]
    """
    return list(dict.fromkeys(round(each) for each in np.linspace(heads, 0, max(2, min(points, heads + 1)))))


def head_orders(
    heads: Sequence[Head], by: Mapping[str, Sequence[float]], random: int, seed: int
) -> dict[str, list[Head]]:
    """The heads, the first to be kept longest: by each importance, and in `random` orders drawn by `seed`."""
    found = {
        name: [head for _, head in sorted(zip(values, heads, strict=True), key=lambda row: -row[0])]
        for name, values in by.items()
    }
    generator = np.random.default_rng(seed)
    for number in range(1, random + 1):
        found[f"random {number}"] = [heads[i] for i in generator.permutation(len(heads))]
    return found


def silence_in_weights(model: Transformer, heads: Iterable[Head]) -> Transformer:
    """The same model with these heads silent in its weights: their rows of the output projection are zero.

    All other weights are shared with `model`, so it costs little, and everything that runs a model runs it.
    """
    silent = list(heads)
    shared = {id(each): each for each in (*model.parameters(), *model.buffers())}
    weights = {head.attention: model.get_parameter(f"{head.attention}.output.weight") for head in silent}
    for weight in weights.values():
        del shared[id(weight)]
    found = deepcopy(model, shared)
    width = model.config.head_width
    with torch.no_grad():
        for head in silent:
            rows = slice(head.number * width, (head.number + 1) * width)
            found.get_parameter(f"{head.attention}.output.weight")[:, rows] = 0.0
    return found
