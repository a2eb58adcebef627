"""Logit lens: the states of each decoder layer through the last norm and the output embedding, as if it were the last.

The method comes from nostalgebraist 2020. The last layer says what the model says; earlier layers
were never trained to be read this way, layers of a post-norm model still less.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from pellucid.decode.search import log_probabilities
from pellucid.decode.torch_models import inference_only
from pellucid.interpret.trace.session import Trace
from pellucid.model import ModelConfig, Transformer


@dataclass(frozen=True)
class _LensPiece:
    piece: str
    id: int
    prob: float


@dataclass(frozen=True)
class _LensCell:
    """Reading of one layer at one step: the likeliest pieces, and the rank of the piece that was written among all.

    `divergence` is how far the model's own distribution diverges from this one, in nats; 0 after
    the last layer.
    """

    top: list[_LensPiece]
    prob: float
    rank: int
    entropy: float
    divergence: float


@dataclass(frozen=True)
class Lens:
    """Readings of a decoder: a row for its input and for each of its layers, a column for each step."""

    places: list[str]
    inputs: list[str]
    written: list[str]
    rows: list[list[_LensCell]]

    @property
    def settled(self) -> list[str | None]:
        """For each step, the first place from which on the written piece is the likeliest.

        None if there is none.
        """
        settled: list[str | None] = []
        for step in range(len(self.written)):
            is_likeliest = [row[step].rank == 1 for row in self.rows]
            # a layer in between that prefers another piece starts the count anew
            first = next((n for n in range(len(is_likeliest)) if all(is_likeliest[n:])), None)
            settled.append(None if first is None else self.places[first])
        return settled


def residual_tensors(config: ModelConfig) -> dict[str, str]:
    """Return the tensor that holds the residual stream at each place: before the first layer, and after each."""
    # after a post-norm layer the stream is the output of the norm, before it the plain sum
    last = "sum" if config.norm_first else "norm"
    after = {f"layer {n}": f"decoder.{n}.ffn_residual.{last}" for n in range(config.decoder_layers)}
    return {"input": "decoder.input", **after}


def logit_lens(trace: Trace, count: int = 3) -> Lens:
    """Read every layer at each step of a trace that captured `residual_tensors`.

    Raises ValueError for a trace without these tensors, and for a count below 1.
    """
    if count < 1:
        raise ValueError(f"count is {count}, it must be 1 or more")
    origin = trace.origin
    model, piece_texts = origin.bundle.model, origin.translator.tokenizer.target_pieces
    tensors = residual_tensors(model.config)
    log_probs = []
    for tensor in tensors.values():
        logits = early_logits(model, trace.values_of(tensor))
        log_probs.append(log_probabilities(logits.double()))

    pieces = piece_texts(range(model.config.target_vocabulary))
    rows = [_lens_row(layer, log_probs[-1], trace.target.ids, pieces, count) for layer in log_probs]
    return Lens(list(tensors), trace.inputs.pieces, piece_texts(trace.target.ids), rows)


def early_logits(model: Transformer, stream: Float[np.ndarray, "T D"]) -> torch.Tensor:
    """Return the logits of states of any layer: the last norm and the output embedding."""
    device = model.output_embedding.weight.device
    with inference_only(model):
        # np.array copies: the arrays of a trace may be read-only, which torch warns about
        return model.logits(model.decoder_norm(torch.from_numpy(np.array(stream)).to(device)[None]))[0].cpu()


def _lens_row(
    layer: torch.Tensor,
    last_layer: torch.Tensor,
    written: Sequence[int],
    pieces: list[str],
    count: int,
) -> list[_LensCell]:
    """Return one row of a lens, from log-probabilities here and after the last layer, one row of them for each step."""
    cells = []
    for row, last_row, id in zip(layer, last_layer, written, strict=True):
        best = row.argsort(descending=True, stable=True)[:count].tolist()
        probs, last_probs = row.exp(), last_row.exp()
        cells.append(
            _LensCell(
                top=[_LensPiece(pieces[i], i, float(probs[i])) for i in best],
                prob=float(probs[id]),
                rank=int((row > row[id]).sum()) + 1,
                # xlogy gives 0 where a probability is 0
                entropy=float(-(torch.special.xlogy(probs, probs)).sum()),
                # rounding may go below zero; 0 * log 0 is NaN and counts as nothing
                divergence=max(0.0, float((last_probs * (last_row - row)).nan_to_num().sum())),
            )
        )

    return cells
