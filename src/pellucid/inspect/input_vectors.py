"""Input vectors of a word as a stack reads them: the row of the table, times sqrt(d_model), plus its position."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from pellucid.decode.translate import inference_only
from pellucid.inspect.embeddings import embedding_table
from pellucid.store.directory import Bundle
from pellucid.trace.record import Record

SIDES = ("source", "target")


@dataclass(frozen=True)
class InputVector:
    """Vectors of a piece at a position; `position` is None where none is added (rotary ones turn queries and keys)."""

    piece: str
    id: int
    at: int
    row: Float[np.ndarray, " D"]
    scaled: Float[np.ndarray, " D"]
    position: Float[np.ndarray, " D"] | None
    input: Float[np.ndarray, " D"]


def input_vectors(bundle: Bundle, word: str, side: str = "source", at: int = 0) -> list[InputVector]:
    """Return the vectors of each piece of a word, the first at position `at` (0 is the first of a sentence).

    Raises ValueError for another side, for a text without a piece, and for positions the model does not have.
    """
    if side not in SIDES:
        raise ValueError(f"side is {side!r}, it must be source or target")
    table = embedding_table(bundle, side)
    spelled = table.word(word)
    limit = bundle.model.config.max_positions
    if at < 0 or at + len(spelled.ids) > limit:
        raise ValueError(f"{word!r} at position {at} ends beyond this model's positions, 0 to {limit - 1:,}")
    # recorded from the model's own embedding, not computed beside it
    model, record = bundle.model, Record(("embedding", "positions", "input"))
    embedding, positions = (getattr(model, f"{side}_{name}") for name in ("embedding", "positions"))
    with inference_only(model):
        device = embedding.weight.device
        positions_of_pieces = torch.arange(at, at + len(spelled.ids), device=device)
        model.embed(torch.tensor([spelled.ids], device=device), positions_of_pieces, embedding, positions, record)
    scaled, inputs = (record[name][0].cpu().double().numpy() for name in ("embedding", "input"))
    # a rotary model or one without positions records no such tensor
    position_vectors = record["positions"].cpu().double().numpy() if "positions" in record else None
    return [
        InputVector(
            piece,
            id,
            at + n,
            table.vectors[id],
            scaled[n],
            None if position_vectors is None else position_vectors[n],
            inputs[n],
        )
        for n, (piece, id) in enumerate(zip(spelled.pieces, spelled.ids, strict=True))
    ]
