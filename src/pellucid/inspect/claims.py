"""Claims about Transformers that only another run can test: the mask at decoding, and attention as the identity."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.decode.step import ModelState, pad_sentences
from pellucid.decode.translate import inference_only
from pellucid.model import Transformer
from pellucid.trace.edits import attention_names
from pellucid.trace.record import Edit, Record
from pellucid.trace.trace import Trace

UNMASKED = "decoder.*.self.allowed"
"""What an edit makes true everywhere, so that each position reads later ones too."""


def compare_masking(trace: Trace) -> dict[str, Any]:
    """The logits of the pieces that were read: step by step with kept keys and values, where no mask is needed; all at
    once with the mask; and all at once without it. Each of the first and the last is compared with the one between.

    "kept" and "unmasked" are the largest difference of a logit in each row, "size" the largest logit of the masked run,
    "parted" the rows where another piece is likeliest without the mask. "products" are those of the first head of the
    decoder's self-attention, unscaled and unmasked, None where no such head is left. ValueError without a model.
    """
    model = trace.require_origin().bundle.model
    device = model.output_embedding.weight.device
    seen = Record("decoder.*.self.products")
    with inference_only(model):
        read = pad_sentences([trace.inputs.ids], device)
        memory = model.encode(pad_sentences([trace.source.ids], device))
        masked = model.logits(model.decode(read, memory, watch=seen))[0]
        free = model.logits(model.decode(read, memory, watch=Edit({UNMASKED: torch.ones_like})))[0]
        state = ModelState(memory)
        steps = [model.decode(ids[None], state.memory, cache=state.cache) for ids in read.T]
        kept = model.logits(torch.cat(steps, dim=1))[0]
    return {
        "size": float(masked.abs().max()),
        "kept": largest_difference_by_row(kept, masked),
        "unmasked": largest_difference_by_row(free, masked),
        "parted": int((free.argmax(dim=-1) != masked.argmax(dim=-1)).sum()),
        "products": first_products(model, seen),
    }


def largest_difference_by_row(some: Float[Tensor, "T V"], others: Float[Tensor, "T V"]) -> list[float]:
    """The largest difference in each row."""
    return (some - others).abs().amax(dim=-1).double().tolist()


def first_products(model: Transformer, seen: Record) -> dict[str, Any] | None:
    """The products of the first head of the decoder's self-attention there is, and the width they are divided by."""
    for name in attention_names(model.config):
        if name.startswith("decoder.") and name.endswith(".self") and seen[f"{name}.products"].shape[1]:
            rows = seen[f"{name}.products"][0, 0].double().tolist()
            return {
                "section": name,
                "head": 0,
                "width": model.config.head_width,
                "rows": [[float(f"{x:.7g}") for x in r] for r in rows],
            }
    return None


def cross_attention_diagonals(trace: Trace) -> dict[str, Any]:
    """The weight on the diagonal of every head of every cross-attention: in the mean over the rows that have one.

    Row t of a pattern reads one piece and writes the next. "written" counts the key of the same number as the piece
    that row writes, "read" that of the piece that it reads; either is 1 for the identity.
    """
    names = [name for name in attention_names(trace.config) if name.endswith(".cross")]
    found = []
    for name in names:
        pattern = torch.from_numpy(trace.values_of(f"{name}.pattern").copy()).double()
        found.append(
            {
                "section": name,
                "written": mean_diagonal(pattern, 0).tolist(),
                "read": mean_diagonal(pattern, -1).tolist(),
            }
        )
    return {
        "source": trace.source.text,
        "target": trace.target.text,
        "pieces": [len(trace.source.pieces), len(trace.target.pieces)],
        "attentions": found,
    }


def mean_diagonal(pattern: Float[Tensor, "H T S"], offset: int) -> Float[Tensor, " H"]:
    """The mean weight that row t has on key t + offset, over the rows where there is such a key; 0 where none is."""
    on = pattern.diagonal(offset, dim1=-2, dim2=-1)
    return on.mean(dim=-1) if on.shape[-1] else on.sum(dim=-1)
