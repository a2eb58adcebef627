"""What a translation rests on: how its log-probabilities change when source pieces or earlier pieces are hidden.

What is hidden is not there for the model: any other piece in its place would give the same numbers. Its position stays
empty; nothing moves up.
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
"""Numbers of one tensor in memory at a time, which bounds the rows of a batch: 128 MB of them."""


def erase_source(
    model: Transformer, source: Sequence[int], target: Sequence[int], groups: Sequence[Iterable[int]]
) -> Float[ndarray, "G T"]:
    """How log p of each target piece changes when the source positions of a group are hidden; all groups in one batch.

    Nothing may read them: their keys are masked in the encoder's self-attention and in the decoder's cross-attention.
    """
    found = []
    for hidden in erasure_batches(groups, len(source), rows_per_batch(model, len(source), len(target))):
        hide = partial(forbid_hidden, hidden=hidden[:, None, None, :])
        edit = Edit({"encoder.*.self.allowed": hide, "decoder.*.cross.allowed": hide})
        found.append(log_prob_changes(model, [source] * len(hidden), target, len(hidden), edit))
    return np.concatenate(found)


def erase_prefix(
    model: Transformer, source: Sequence[int], target: Sequence[int], groups: Sequence[Iterable[int]]
) -> Float[ndarray, "G T"]:
    """The same when target pieces are hidden from the writing of later ones; up to the first of a group, nothing does.

    A piece is read one position after the one that wrote it. There its vector is put to zero, and no later position
    may read that one: its key is masked in the decoder's self-attention.
    """
    own = torch.eye(len(target), dtype=torch.bool)
    read_at = [[piece + 1 for piece in group] for group in groups]
    found = []
    for several in erasure_batches(read_at, len(target) + 1, rows_per_batch(model, len(source), len(target))):
        hidden = several[:, :-1]
        edit = Edit(
            {
                "decoder.embedding": partial(fill_at, value=0.0, where=hidden[:, :, None]),
                # A position still reads itself, where nothing is left but its place: there may be nothing else to read.
                "decoder.*.self.scores": partial(fill_at, value=-torch.inf, where=hidden[:, None, None, :] & ~own),
            }
        )
        found.append(log_prob_changes(model, [source], target, len(hidden), edit))
    return np.concatenate(found)


def rows_per_batch(model: Transformer, source: int, target: int) -> int:
    """How many rows a batch may have: at least two, of which one hides nothing."""
    c, longest = model.config, max(source, target)
    return max(2, NUMBERS_AT_ONCE // (longest * max(c.heads * longest, 2 * c.d_ff, c.d_model)))


def erasure_batches(groups: Sequence[Iterable[int]], length: int, rows: int) -> Iterator[Bool[Tensor, "R K"]]:
    """A row for each group, true at its positions; so many rows at a time, the first of them all false."""
    for first in range(0, max(1, len(groups)), rows - 1):
        some = groups[first : first + rows - 1]
        hidden = torch.zeros(len(some) + 1, length, dtype=torch.bool)
        for row, group in zip(hidden[1:], some, strict=True):
            row[list(group)] = True
        yield hidden


def forbid_hidden(allowed: Bool[Tensor, "R 1 1 S"], hidden: Bool[Tensor, "R 1 1 S"]) -> Bool[Tensor, "R 1 1 S"]:
    """Who may be read, but for the hidden."""
    return allowed & ~hidden.to(allowed.device)


def fill_at(tensor: Float[Tensor, "R *_"], value: float, where: Bool[Tensor, "R *_"]) -> Float[Tensor, "R *_"]:
    """The tensor with this value at these places."""
    return tensor.masked_fill(where.to(tensor.device), value)


def log_prob_changes(
    model: Transformer, sources: Sequence[Sequence[int]], target: Sequence[int], rows: int, edit: Edit
) -> Float[ndarray, "G T"]:
    """What the log-probabilities of each row of an edited batch have more than those of its first."""
    device = model.output_embedding.weight.device
    written = torch.tensor([BOS, *target[:-1]], device=device).expand(rows, -1)
    with inference_only(model):
        memory = model.encode(torch.tensor(sources, device=device), watch=edit)
        states = model.decode(written, memory, watch=edit)
        found = target_log_probs(model, states, torch.tensor(target, device=device))
        return (found[1:] - found[0]).cpu().numpy()


def target_log_probs(
    model: Transformer, states: Float[Tensor, "R T D"], target: Int[Tensor, " T"]
) -> Float[Tensor, "R T"]:
    """Of each target piece in each row; some rows at a time, because each logit of each is more than fits."""
    some = max(1, NUMBERS_AT_ONCE // (len(target) * model.config.target_vocabulary))
    return torch.cat(
        [
            log_probabilities(model.logits(part)).gather(2, target.expand(len(part), -1)[:, :, None])[:, :, 0]
            for part in states.split(some)
        ]
    )
