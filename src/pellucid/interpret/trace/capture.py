"""Captures every named tensor in one pass over source and target, after an estimate of the memory that takes."""

from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from math import prod

import numpy as np
import torch
from torch import Tensor

from pellucid.cpu import give_way
from pellucid.decode.search import log_probabilities
from pellucid.decode.torch_engine import pad_sentences
from pellucid.decode.torch_models import inference_only
from pellucid.interpret.trace.edits import Chain, Edit, Record
from pellucid.interpret.trace.facts import Candidate, DecodingStep
from pellucid.interpret.trace.trace import axis_sizes, tensor_dims, tensor_shape
from pellucid.model import ModelConfig, Transformer
from pellucid.model.glossary import TensorRow, glossary
from pellucid.model.known_parts import unknown_parts

LARGEST_TRACE = 2**30  # bytes that the tensors of one trace may hold
# Pieces on either side up to which all tensors are
# kept, and up to which a sentence is traced at all.
WHOLE_TRACE_PIECES, LONGEST_TRACE = 64, 256
# Tensors kept of sentences between the two lengths, unless more is asked for.
_CAPTURED_OF_LONG = ("*.pattern", "*.allowed")
_TOP_CANDIDATES = 20  # candidates shown at each step


def rows_to_capture(
    config: ModelConfig, source: int, target: int, itemsize: int, keep: Iterable[str] | None
) -> list[TensorRow]:
    """Return the rows to capture for a sentence of this length, those whose name fits a pattern of `keep`.

    Raises ValueError for a pattern that fits none, and, with the numbers, beyond the limits.
    """
    if max(source, target) > LONGEST_TRACE:
        raise ValueError(
            f"source and translation have {source} and {target} pieces; a trace takes {LONGEST_TRACE} a side, "
            "so trace one sentence at a time"
        )

    default = ("*",) if max(source, target) <= WHOLE_TRACE_PIECES else _CAPTURED_OF_LONG
    rows, patterns = glossary(config), list(default if keep is None else keep)
    names = [row.name for row in rows]

    kept: set[str] = set()
    unused = []
    for pattern in patterns:
        fitting = [name for name in names if fnmatchcase(name, pattern)]
        kept.update(fitting)
        if not fitting:
            unused.append(repr(pattern))

    if unused:
        advice = "try 'decoder.*.cross.pattern'"
        raise ValueError(f"{', '.join(unused)} fits no tensor of this model; {advice}")

    rows = [row for row in rows if row.name in kept]
    estimate = tensor_bytes(config, rows, source, target, itemsize)
    if estimate > LARGEST_TRACE:
        raise ValueError(
            f"a trace of {source} and {target} pieces would hold {estimate / 2**20:,.1f} MiB, the most is "
            f"{LARGEST_TRACE / 2**20:,.1f}; keep fewer tensors, for instance keep='*.pattern'"
        )
    return rows


def tensor_bytes(
    config: ModelConfig,
    rows: Iterable[TensorRow],
    source: int,
    target: int,
    itemsize: int,
) -> int:
    """Return the bytes that these tensors take: one for a boolean, `itemsize` for a number."""
    size = axis_sizes(config, source, target)
    total = 0
    for row in rows:
        bytes_of_number = 1 if row.name.endswith(".allowed") else itemsize
        total += prod(tensor_shape(row, size)) * bytes_of_number
    return total


def capture_tensors(
    model: Transformer,
    source: Sequence[int],
    inputs: Sequence[int],
    rows: Sequence[TensorRow],
    edit: Edit | None,
) -> tuple[dict[str, np.ndarray], Tensor]:
    """Return the tensors of these rows, without the batch axis, and the logits of every target position.

    Raises ValueError for an edit that fits no tensor, and for a model that does not compute one of
    the rows.
    """
    record = Record([row.name for row in rows])
    device = model.output_embedding.weight.device
    with inference_only(model):
        # With a watcher that sees, attention computes softmax(scores)
        # v as the formula has it, not in a fused kernel.
        watch = record if edit is None else Chain(edit, record)
        logits = model(
            pad_sentences([list(source)], device),
            pad_sentences([list(inputs)], device),
            watch,
        )[0]

    # Only now is it known which names the model computes.
    if edit is not None:
        edit.require_used()
    if missing := [row.name for row in rows if row.name not in record]:
        raise ValueError(
            f"this model computes no {missing[0]}, which a trace of such a model shows; parts of it that were "
            f"replaced: {'; '.join(unknown_parts(model)) or 'none that are known'}"
        )

    tensors = {}
    for row in rows:
        value = record[row.name].cpu().numpy()
        # Position vectors are shared by all sentences, so they alone come without a batch axis.
        if len(tensor_dims(row)) < value.ndim:
            value = value[0]
        tensors[row.name] = np.ascontiguousarray(value)

    return tensors, logits.cpu()


def decoding_steps(
    logits: Tensor, inputs: list[str], target: Sequence[int], piece: Callable[[int], str]
) -> list[DecodingStep]:
    """Return for each position the pieces it could have written, from its logits.

    `piece` turns an id into text.
    """
    # `others` and the entropy add up a whole vocabulary.
    log_probs = log_probabilities(logits.double())
    steps = []
    for t, (row, log_row) in enumerate(zip(logits, log_probs, strict=True)):
        give_way()
        # A stable sort puts the lower id first among equal logits, which the checks rely on.
        order = row.argsort(descending=True, stable=True)
        best = order[:_TOP_CANDIDATES].tolist()
        # The chosen piece need not be among the best: it
        # may have been given, or preferred by the beam.
        candidates = {}
        for i in {*best, target[t]}:
            log_p = float(log_row[i])
            candidates[i] = Candidate(i, piece(i), float(row[i]), log_p, float(np.exp(log_p)))
        probs = log_row.exp()
        steps.append(
            DecodingStep(
                step=t,
                input=inputs[t],
                chosen=candidates[target[t]],
                rank=int((order == target[t]).nonzero()[0, 0]) + 1,
                top=[candidates[i] for i in best],
                others=float(probs[order[_TOP_CANDIDATES:]].sum()),
                others_count=max(0, len(row) - _TOP_CANDIDATES),
                # xlogy is 0 where p is 0; p * log p would be NaN there.
                entropy=float(-torch.special.xlogy(probs, probs).sum()),
            )
        )

    return steps
