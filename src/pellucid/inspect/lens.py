"""What each decoder layer would say: its states through the last norm and the output embedding, as if it were the last.

The logit lens (nostalgebraist 2020). The last layer says what the model says; earlier ones were never trained to be
read so, those of a post-norm model still less.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from pellucid.decode.search import log_probabilities
from pellucid.decode.translate import inference_only
from pellucid.model import ModelConfig, Transformer
from pellucid.trace.trace import Trace


@dataclass(frozen=True)
class LensPiece:
    """A piece and its probability."""

    piece: str
    id: int
    prob: float


@dataclass(frozen=True)
class LensCell:
    """What is said after a layer at a step: the likeliest pieces, and how the piece that was written stands among all.

    `divergence` is that of the model's own distribution from this one, in nats; 0 after the last layer.
    """

    top: list[LensPiece]
    prob: float
    rank: int
    entropy: float
    divergence: float


@dataclass(frozen=True)
class Lens:
    """A row for the input of the decoder and for each of its layers, a column for each step."""

    places: list[str]
    inputs: list[str]
    written: list[str]
    rows: list[list[LensCell]]

    @property
    def settled(self) -> list[str | None]:
        """For each step the first place from which on the piece that was written is the likeliest; None if nowhere."""
        found: list[str | None] = []
        for step in range(len(self.written)):
            later = [row[step].rank == 1 for row in self.rows]
            first = next((n for n in range(len(later)) if all(later[n:])), None)
            found.append(None if first is None else self.places[first])
        return found


def residual_tensors(config: ModelConfig) -> dict[str, str]:
    """The tensor that holds the residual stream at each place: before the first layer, and after each one."""
    last = "sum" if config.norm_first else "norm"
    after = {f"layer {n}": f"decoder.{n}.ffn_residual.{last}" for n in range(config.decoder_layers)}
    return {"input": "decoder.input", **after}


def logit_lens(trace: Trace, count: int = 3) -> Lens:
    """What every layer would have written at each step of a trace that captured `residual_tensors`.

    ValueError for a trace without a model or these tensors, and for a count that is not at least 1.
    """
    if count < 1:
        raise ValueError(f"count is {count}, it must be 1 or more")
    origin = trace.require_origin()
    model, name = origin.bundle.model, origin.translator.tokenizer.target_pieces
    places = residual_tensors(model.config)
    every = [early_log_probs(model, trace.values_of(tensor)) for tensor in places.values()]
    pieces = name(range(model.config.target_vocabulary))
    rows = [lens_row(each, every[-1], trace.target.ids, pieces, count) for each in every]
    return Lens(list(places), trace.inputs.pieces, name(trace.target.ids), rows)


def early_logits(model: Transformer, stream: Float[np.ndarray, "T D"]) -> torch.Tensor:
    """The last norm and the output embedding over states of any layer."""
    device = model.output_embedding.weight.device
    with inference_only(model):
        return model.logits(model.decoder_norm(torch.from_numpy(np.array(stream)).to(device)[None]))[0].cpu()


def early_log_probs(model: Transformer, stream: Float[np.ndarray, "T D"]) -> torch.Tensor:
    """Log-probabilities at each step, in float64."""
    return log_probabilities(early_logits(model, stream).double())


def lens_row(
    here: torch.Tensor, last: torch.Tensor, written: Sequence[int], pieces: list[str], count: int
) -> list[LensCell]:
    """One row: log-probabilities here and after the last layer, one row of them for each piece written."""
    found = []
    for row, end, id in zip(here, last, written, strict=True):
        best = row.argsort(descending=True, stable=True)[:count].tolist()
        probs, own = row.exp(), end.exp()
        found.append(
            LensCell(
                top=[LensPiece(pieces[i], i, float(probs[i])) for i in best],
                prob=float(probs[id]),
                rank=int((row > row[id]).sum()) + 1,
                entropy=float(-(torch.special.xlogy(probs, probs)).sum()),
                divergence=max(0.0, float((own * (end - row)).nan_to_num().sum())),
            )
        )
    return found
