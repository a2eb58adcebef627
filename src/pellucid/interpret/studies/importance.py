"""Importance of heads: what silencing a head costs, how steep the loss is in it, and the loss with few heads left.

xi_h is a factor on the output of head h: 1 is the model as it is, 0 silences the head. Ablation and
the expected gradient follow Michel et al. 2019 ("Are sixteen heads really better than one?"),
sections 2 and 4.1.
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
from pellucid.decode.torch_models import inference_only
from pellucid.interpret.studies.pattern_measures import StudyBatch, StudyPairs, study_batches
from pellucid.interpret.trace.edits import Edit, attention_names, silence_heads
from pellucid.model import Memory, ModelConfig, Transformer


class Head(NamedTuple):
    """Head of a model, by its attention ("decoder.3.cross") and its number, 0 first."""

    attention: str
    number: int

    def __str__(self) -> str:
        return f"{self.attention}.{self.number}"


@dataclass(frozen=True)
class LossChange:
    """Change of the loss when a head is silenced, in nats a target piece.

    Its standard error is over sentences.
    """

    value: float
    error: float


@dataclass(frozen=True)
class ScoreCurve:
    """Loss in nats a piece, or another score, against the number of heads kept, the most important first."""

    order: str
    kept: list[int]
    values: list[float]


def attention_kinds(config: ModelConfig) -> dict[str, list[str]]:
    """Group the attentions into encoder and decoder self-attention, and cross-attention from target to source."""
    names = attention_names(config)
    patterns = {
        "encoder": "encoder.*.self",
        "decoder": "decoder.*.self",
        "cross": "decoder.*.cross",
    }
    kinds = {}
    for kind, pattern in patterns.items():
        kinds[kind] = [name for name in names if fnmatchcase(name, pattern)]
    return kinds


def list_heads(config: ModelConfig, among: str = "all") -> list[Head]:
    """List every head in the order of the attentions, or the heads of one kind.

    Raises ValueError for an unknown kind.
    """
    choices = {"all": attention_names(config), **attention_kinds(config)}
    if among not in choices:
        raise ValueError(f"{among!r} is no kind of heads; choose one of {', '.join(choices)}")
    return [Head(name, number) for name in choices[among] for number in range(config.heads)]


def pair_losses(
    model: Transformer,
    pairs: StudyPairs,
    variants: Sequence[Iterable[Head]],
    on_progress: Callable[[], object] = lambda: None,
) -> Float[ndarray, "V N"]:
    """Return the summed loss of each pair, in nats, with the heads of each variant silent.

    The target is given (teacher forcing), labels are not smoothed. `on_progress` is called after
    each variant of each batch.
    """
    silent = [frozenset(heads) for heads in variants]
    losses = np.zeros((len(silent), len(pairs)))
    with inference_only(model):
        for batch in study_batches(pairs, model.config, model.output_embedding.weight.device):
            # computed once for all variants that leave the encoder's heads alone
            full_memory = model.encode(batch.source.ids, silence_watcher(()))
            last, memory = frozenset[Head](), full_memory
            for row, heads in zip(losses, silent, strict=True):
                of_encoder = [head for head in heads if head.attention.startswith("encoder.")]
                silent_in_encoder = frozenset(of_encoder)
                # The encoder runs anew only where another set of its own heads is silent.
                if silent_in_encoder != last:
                    last, memory = silent_in_encoder, full_memory
                    if silent_in_encoder:
                        watch = silence_watcher(silent_in_encoder)
                        memory = model.encode(batch.source.ids, watch)
                batch_loss = batch_losses(model, memory, batch, silence_watcher(heads))
                row[batch.numbers] = batch_loss.double().cpu().numpy()
                on_progress()

    return losses


def batch_losses(
    model: Transformer,
    memory: Memory,
    batch: StudyBatch,
    watch: Edit,
) -> Float[Tensor, " B"]:
    """Return the summed loss of each sentence of a batch, from the encoder's output `memory`."""
    logits = model.logits(model.decode(batch.target_in.ids, memory, watch=watch))
    # Padding costs 0 here, so the sum over positions is the sum over pieces.
    piece_losses = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.ids.flatten(), ignore_index=PAD, reduction="none"
    )
    return piece_losses.view_as(batch.target_out.ids).sum(dim=1)


def silence_watcher(heads: Iterable[Head]) -> Edit:
    """Return the watcher with xi = 0 for these heads; with no head, it changes nothing."""
    numbers_of: dict[str, list[int]] = {}
    for head in sorted(heads):
        numbers_of.setdefault(head.attention, []).append(head.number)
    changes = {}
    for name, numbers in numbers_of.items():
        changes[f"{name}.head_output"] = silence_heads(numbers)
    return Edit(changes)


def gate_heads(xi: Mapping[str, Float[Tensor, "B H"]]) -> Edit:
    """Return the watcher that multiplies the output of each head by its factor, sentence by sentence."""
    changes = {}
    for name, factors in xi.items():
        changes[f"{name}.head_output"] = lambda z, f=factors: z * f[:, :, None, None]
    return Edit(changes)


def loss_change(
    base: Float[ndarray, " N"],
    silent: Float[ndarray, " N"],
    pieces: int,
) -> LossChange:
    """Return the change of the loss a piece when the loss of each pair goes from `base` to `silent`."""
    changes = silent - base
    # a paired comparison: what makes a pair hard with and without the head is not in the error
    error = float(changes.std(ddof=1)) * len(changes) ** 0.5 / pieces if len(changes) > 1 else float("nan")
    return LossChange(float(changes.sum()) / pieces, error)


def head_gradients(
    model: Transformer, pairs: StudyPairs, on_progress: Callable[[], object] = lambda: None
) -> Float[ndarray, "N M"]:
    """Return dL/dxi of each pair, at xi = 1, for each head in the order of `list_heads`.

    L is the loss of the pair a piece.
    """
    names, heads = attention_names(model.config), model.config.heads
    gradients = np.zeros((len(pairs), heads * len(names)))
    weight = model.output_embedding.weight
    with _frozen_weights(model):
        for batch in study_batches(pairs, model.config, weight.device):
            # factors of its own for each sentence: one backward pass gives all their gradients
            ones = torch.ones(len(batch.numbers), heads, dtype=weight.dtype, device=weight.device)
            xi = {name: ones.clone().requires_grad_() for name in names}
            watch = gate_heads(xi)
            losses = batch_losses(model, model.encode(batch.source.ids, watch), batch, watch)
            mean_loss = (losses / batch.target_out.not_padding.sum(dim=1)).sum()
            batch_gradients = torch.autograd.grad(mean_loss, list(xi.values()))
            gradients[batch.numbers] = torch.cat(batch_gradients, dim=1).double().cpu().numpy()
            on_progress()
    return gradients


@contextmanager
def _frozen_weights(model: Transformer) -> Iterator[None]:
    """Turn off dropout, and gradients of the weights, so that only factors have a gradient."""
    # a model that is being trained must come back as it was
    training = model.training
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    model.eval()
    for parameter in trainable:
        parameter.requires_grad_(False)
    try:
        with torch.enable_grad():
            yield
    finally:
        for parameter in trainable:
            parameter.requires_grad_(True)
        model.train(training)


def normalise_by_attention(importance: Float[ndarray, " M"], heads: int) -> Float[ndarray, " M"]:
    """Divide the `heads` of each attention by their length (Michel et al. 2019, 4.1, after Molchanov et al. 2017)."""
    rows = importance.reshape(-1, heads)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths > 0.0, lengths, 1.0)).ravel()


def spearman_correlation(
    a: Sequence[float] | Float[ndarray, " N"],
    b: Sequence[float] | Float[ndarray, " N"],
) -> float:
    """Return the correlation of ranks.

    Equal values share their mean rank. NaN where all values are equal.

    >>> round(spearman_correlation([1, 2, 3, 4], [10, 20, 40, 30]), 3)
    0.8
    """
    ranks = [mean_ranks(np.asarray(values, dtype=np.float64)) for values in (a, b)]
    if any(values.std() == 0 for values in ranks):
        return float("nan")
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def mean_ranks(values: Float[ndarray, " N"]) -> Float[ndarray, " N"]:
    """Return ranks from 0, with ties at their mean."""
    _, group_of, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts + 1) / 2)[group_of]


def kept_counts(heads: int, points: int) -> list[int]:
    """Return how many heads a curve keeps: all, none, and some in between.

    >>> kept_counts(48, 6)
    [48, 38, 29, 19, 10, 0]
    """
    points = max(2, min(points, heads + 1))
    # Rounding may give a number twice.
    return list(dict.fromkeys(map(round, np.linspace(heads, 0, points).tolist())))


def head_orders(heads: Sequence[Head], by: Mapping[str, Sequence[float]]) -> dict[str, list[Head]]:
    """Order the heads, the first to be kept longest: by each importance, and in a random order to compare with."""
    orders: dict[str, list[Head]] = {}
    for name, values in by.items():
        largest_first = sorted(range(len(heads)), key=lambda n: -values[n])
        orders[name] = [heads[n] for n in largest_first]
    shuffled = np.random.default_rng(1).permutation(len(heads))
    orders["random 1"] = [heads[n] for n in shuffled]
    return orders


def silence_in_weights(model: Transformer, heads: Iterable[Head]) -> Transformer:
    """Return a copy of the model in which these heads are silent: their columns of the output projection are zero.

    All other weights are shared with `model`, so the copy costs little, and everything that runs a
    model runs it.
    """
    silent = list(heads)
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    for attention in {head.attention for head in silent}:
        # What is not in the memo is copied: only the projections that are changed.
        weight = model.get_parameter(f"{attention}.output.weight")
        del shared[id(weight)]

    # deepcopy takes what its memo holds as copied already, so these tensors are shared
    silenced = deepcopy(model, shared)
    width = model.config.head_width
    with torch.no_grad():
        for head in silent:
            columns = slice(head.number * width, (head.number + 1) * width)
            silenced.get_parameter(f"{head.attention}.output.weight")[:, columns] = 0.0
    return silenced
