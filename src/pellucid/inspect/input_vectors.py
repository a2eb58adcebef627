"""The vector of a word as a stack reads it: the row of the table, times sqrt(d_model), plus its position."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from pellucid.bundle import Bundle
from pellucid.decode.translate import inference_only
from pellucid.inspect.embeddings import embedding_table
from pellucid.trace.record import Record

SIDES = ("source", "target")


@dataclass(frozen=True)
class InputVector:
    """A piece at a position. `position` is None in a model that adds none (rotary ones turn queries and keys)."""

    piece: str
    id: int
    at: int
    row: Float[np.ndarray, " D"]
    scaled: Float[np.ndarray, " D"]
    position: Float[np.ndarray, " D"] | None
    input: Float[np.ndarray, " D"]


def input_vectors(bundle: Bundle, word: str, side: str = "source", at: int = 0) -> list[InputVector]:
    """Each piece of a word, the first at position `at` (0 is the first of a sentence), the next one further on.

    ValueError for another side, for a text without a piece, and for positions the model has not.
    """
    if side not in SIDES:
        raise ValueError(f"side is {side!r}, it must be source or target")
    table = embedding_table(bundle, side)
    found = table.word(word)
    most = bundle.model.config.max_positions
    if at < 0 or at + len(found.ids) > most:
        raise ValueError(f"{word!r} at position {at} ends beyond this model's positions, 0 to {most - 1:,}")
    model, record = bundle.model, Record(("embedding", "positions", "input"))
    embedding, positions = (getattr(model, f"{side}_{name}") for name in ("embedding", "positions"))
    with inference_only(model):
        device = embedding.weight.device
        places = torch.arange(at, at + len(found.ids), device=device)
        model.embed(torch.tensor([found.ids], device=device), places, embedding, positions, record)
    scaled, read = (record[name][0].cpu().double().numpy() for name in ("embedding", "input"))
    added = record["positions"].cpu().double().numpy() if "positions" in record else None
    return [
        InputVector(piece, id, at + n, table.vectors[id], scaled[n], None if added is None else added[n], read[n])
        for n, (piece, id) in enumerate(zip(found.pieces, found.ids, strict=True))
    ]
