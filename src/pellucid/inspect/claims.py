"""Tests of two claims about Transformers that take another run: the mask at decoding, and attention as the identity."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.decode.step import ModelState, pad_sentences
from pellucid.decode.translate import inference_only
from pellucid.model import Transformer
from pellucid.trace.edits import attention_names
from pellucid.trace.record import Edit, Record
from pellucid.trace.session import Trace

UNMASKED = "decoder.*.self.allowed"
"""Tensor that an edit makes true everywhere, so that each position reads later ones too."""


def compare_masking(trace: Trace) -> dict[str, Any]:
    """Compare the logits of the pieces that were read: with cached steps, with the mask, and without the mask.

    Step by step with cached keys and values no mask is needed; all at once it is. The cached and the unmasked logits
    are each compared with the masked ones. "kept" and "unmasked" are the largest difference of a logit in each row,
    "size" the largest logit of the masked run, "parted" the rows where another piece is likeliest without the mask.
    "products" are those of the first head of the decoder's self-attention, unscaled and unmasked.

    Raises ValueError without a model.
    """
    model = trace.require_origin().bundle.model
    device = model.output_embedding.weight.device
    record = Record("decoder.0.self.products")
    with inference_only(model):
        decoder_ids = pad_sentences([trace.inputs.ids], device)
        memory = model.encode(pad_sentences([trace.source.ids], device))
        masked = model.logits(model.decode(decoder_ids, memory, watch=record))[0]
        unmasked = model.logits(model.decode(decoder_ids, memory, watch=Edit({UNMASKED: torch.ones_like})))[0]
        state = ModelState(memory)
        # one position a step: the cache knows how many came before
        steps = [model.decode(ids[None], state.memory, cache=state.cache) for ids in decoder_ids.T]
        cached = model.logits(torch.cat(steps, dim=1))[0]
    return {
        "size": float(masked.abs().max()),
        "kept": largest_difference_by_row(cached, masked),
        "unmasked": largest_difference_by_row(unmasked, masked),
        "parted": int((unmasked.argmax(dim=-1) != masked.argmax(dim=-1)).sum()),
        "products": first_products(model, record),
    }


def largest_difference_by_row(logits: Float[Tensor, "T V"], other_logits: Float[Tensor, "T V"]) -> list[float]:
    """Return the largest difference in each row."""
    return (logits - other_logits).abs().amax(dim=-1).double().tolist()


def first_products(model: Transformer, record: Record) -> dict[str, Any]:
    """Return the products of the decoder's first self-attention head, and the width they are divided by."""
    rows = record["decoder.0.self.products"][0, 0].double().tolist()
    return {
        "section": "decoder.0.self",
        "head": 0,
        "width": model.config.head_width,
        # a float32 holds no more than about seven digits
        "rows": [[float(f"{product:.7g}") for product in row] for row in rows],
    }


def cross_attention_diagonals(trace: Trace) -> dict[str, Any]:
    """Return the diagonal weight of every head of every cross-attention, in the mean over the rows that have one.

    "written" counts the key of the same number as the piece that a row writes, "read" that of the piece that the row
    reads; either is 1 for the identity.
    """
    names = [name for name in attention_names(trace.config) if name.endswith(".cross")]
    attentions = []
    for name in names:
        pattern = torch.from_numpy(trace.values_of(f"{name}.pattern").copy()).double()
        attentions.append(
            {
                "section": name,
                # row t of a pattern reads target piece t - 1 and writes piece t
                "written": mean_diagonal(pattern, 0).tolist(),
                "read": mean_diagonal(pattern, -1).tolist(),
            }
        )
    return {
        "source": trace.source.text,
        "target": trace.target.text,
        "pieces": [len(trace.source.pieces), len(trace.target.pieces)],
        "attentions": attentions,
    }


def mean_diagonal(pattern: Float[Tensor, "H T S"], offset: int) -> Float[Tensor, " H"]:
    """Return the mean weight that row t has on key t + offset, over the rows with such a key; 0 where there is none."""
    diagonal = pattern.diagonal(offset, dim1=-2, dim2=-1)
    return diagonal.mean(dim=-1) if diagonal.shape[-1] else diagonal.sum(dim=-1)
