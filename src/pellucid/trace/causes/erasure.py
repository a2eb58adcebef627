"""Erasure: how the log-probabilities of a translation change when source pieces or earlier pieces are hidden.

The model reads nothing of a hidden piece: any other piece in its position would give the same numbers. Its position
stays empty; nothing moves up.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor

from pellucid.data.tokenizer import BOS
from pellucid.decode.search import log_probabilities
from pellucid.decode.translate import inference_only
from pellucid.model import Transformer
from pellucid.trace.record import Edit

NUMBERS_AT_ONCE = 2**25
"""Most numbers of one tensor in memory at a time, which bounds the rows of a batch: 128 MB of them."""


def erase_source(
    model: Transformer, source: Sequence[int], target: Sequence[int], groups: Sequence[Iterable[int]]
) -> Float[ndarray, "G T"]:
    """Return how log p of each target piece changes when the source positions of each group are hidden."""
    changes = []
    for hidden in erasure_batches(groups, len(source), rows_per_batch(model, len(source), len(target))):
        # Nothing may read them: neither the encoder's self-attention nor the decoder's cross-attention.
        hide = partial(forbid_hidden, hidden=hidden[:, None, None, :])
        edit = Edit({"encoder.*.self.allowed": hide, "decoder.*.cross.allowed": hide})
        changes.append(log_prob_changes(model, [source] * len(hidden), target, len(hidden), edit))
    return np.concatenate(changes)


def erase_prefix(
    model: Transformer, source: Sequence[int], target: Sequence[int], groups: Sequence[Iterable[int]]
) -> Float[ndarray, "G T"]:
    """Return how log p of each target piece changes when the target pieces of each group are hidden from later ones.

    Up to the first piece of its group, a row of the result is 0.
    """
    is_self = torch.eye(len(target), dtype=torch.bool)
    # A piece is read one position after the one that wrote it: there its vector is zeroed and its key masked.
    read_at = [[piece + 1 for piece in group] for group in groups]
    changes = []
    for batch in erasure_batches(read_at, len(target) + 1, rows_per_batch(model, len(source), len(target))):
        hidden = batch[:, :-1]  # the last piece is not read by any position
        edit = Edit(
            {
                "decoder.embedding": partial(fill_at, value=0.0, where=hidden[:, :, None]),
                # A position still reads itself, where nothing is left but its place: there may be nothing else to read.
                "decoder.*.self.scores": partial(fill_at, value=-torch.inf, where=hidden[:, None, None, :] & ~is_self),
            }
        )
        # The source is the same for every row, so it is encoded once.
        changes.append(log_prob_changes(model, [source], target, len(hidden), edit))
    return np.concatenate(changes)


def rows_per_batch(model: Transformer, source: int, target: int) -> int:
    """Return how many rows a batch may have: at least two, one of which hides nothing."""
    c, longest = model.config, max(source, target)
    # The largest tensors of a layer: scores of all heads, the inner layer of a gated feed-forward, the states.
    return max(2, NUMBERS_AT_ONCE // (longest * max(c.heads * longest, 2 * c.d_ff, c.d_model)))


def erasure_batches(groups: Sequence[Iterable[int]], length: int, rows: int) -> Iterator[Bool[Tensor, "R K"]]:
    """Yield batches with a row for each group, true at the hidden positions; the first row of each hides nothing."""
    for first in range(0, max(1, len(groups)), rows - 1):
        batch = groups[first : first + rows - 1]
        hidden = torch.zeros(len(batch) + 1, length, dtype=torch.bool)
        for row, group in zip(hidden[1:], batch, strict=True):
            row[list(group)] = True
        yield hidden


def forbid_hidden(allowed: Bool[Tensor, "R 1 1 S"], hidden: Bool[Tensor, "R 1 1 S"]) -> Bool[Tensor, "R 1 1 S"]:
    """Return the mask with the hidden positions forbidden as well."""
    return allowed & ~hidden.to(allowed.device)


def fill_at(tensor: Float[Tensor, "R *_"], value: float, where: Bool[Tensor, "R *_"]) -> Float[Tensor, "R *_"]:
    """Return the tensor with this value at these positions."""
    return tensor.masked_fill(where.to(tensor.device), value)


def log_prob_changes(
    model: Transformer, sources: Sequence[Sequence[int]], target: Sequence[int], rows: int, edit: Edit
) -> Float[ndarray, "G T"]:
    """Return the log-probabilities of each row of an edited batch, minus those of its first row."""
    device = model.output_embedding.weight.device
    inputs = torch.tensor([BOS, *target[:-1]], device=device).expand(rows, -1)
    with inference_only(model):
        memory = model.encode(torch.tensor(sources, device=device), watch=edit)
        if len(sources) < rows:
            memory = memory.select(torch.zeros(rows, dtype=torch.int64, device=device))
        states = model.decode(inputs, memory, watch=edit)
        log_probs = target_log_probs(model, states, torch.tensor(target, device=device))
        return (log_probs[1:] - log_probs[0]).cpu().numpy()


def target_log_probs(
    model: Transformer, states: Float[Tensor, "R T D"], target: Int[Tensor, " T"]
) -> Float[Tensor, "R T"]:
    """Return the log-probability of each target piece in each row."""
    # A few rows at a time: the logits of all rows, with a vocabulary each, would not fit.
    rows = max(1, NUMBERS_AT_ONCE // (len(target) * model.config.target_vocabulary))
    return torch.cat(
        [
            log_probabilities(model.logits(chunk)).gather(2, target.expand(len(chunk), -1)[:, :, None])[:, :, 0]
            for chunk in states.split(rows)
        ]
    )
