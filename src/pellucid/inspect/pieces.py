"""A text cut into pieces and ids by a tokenizer, and the vectors of a word's pieces as the first layer reads them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from pellucid.data.tokenizer import Tokenizer
from pellucid.decode.translate import inference_only
from pellucid.inspect.words import embedding_table
from pellucid.store.directory import Bundle
from pellucid.trace.facts import TraceSide, make_side
from pellucid.trace.record import Record

MANY_PIECES = 3
"""Most pieces that a word may have without being listed as one cut into many."""

SIDES = ("source", "target")


@dataclass(frozen=True)
class CutText(TraceSide):
    """Text in pieces, with the facts of a trace, and `back`, the text that these pieces give again."""

    back: str

    @property
    def many_piece_words(self) -> list[tuple[str, int]]:
        """Words that were cut into more than `MANY_PIECES` pieces, and into how many."""
        texts = self.text.split()
        counts = [self.words.count(number) for number in range(len(texts))]
        return [(word, count) for word, count in zip(texts, counts, strict=True) if count > MANY_PIECES]


def cut_into_pieces(tokenizer: Tokenizer, text: str, side: str = "source") -> CutText:
    """Cut a text as one side of a model's tokenizer does; ValueError for another side than `SIDES`."""
    if side not in SIDES:
        raise ValueError(f"side is {side!r}, it must be source or target")
    encode, piece_texts, decode, processor = (
        getattr(tokenizer, name) for name in (f"encode_{side}", f"{side}_pieces", f"decode_{side}", side)
    )
    [ids] = encode([text])
    # The text which SentencePiece cuts has ▁ where it has spaces.
    cased = text.lower() if tokenizer.lowercase else text
    normalised = getattr(processor, "model", processor).normalize(cased).replace("▁", " ").strip()
    return CutText(**vars(make_side(piece_texts(ids), ids, text, normalised)), back=decode(ids))


def count_words_and_pieces(cuts: Sequence[CutText]) -> tuple[int, int, int]:
    """Count words, pieces that are no special tokens, and unknown pieces of several texts."""
    words = sum(len(cut.text.split()) for cut in cuts)
    pieces = sum(word is not None for cut in cuts for word in cut.words)
    return words, pieces, sum(sum(cut.unknown) for cut in cuts)


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
    added = [*record["positions"].cpu().double().numpy()] if "positions" in record else [None] * len(inputs)
    places = range(at, at + len(inputs))
    rows = zip(spelled.pieces, spelled.ids, places, scaled, added, inputs, strict=True)
    return [InputVector(piece, id, n, table.vectors[id], *vectors) for piece, id, n, *vectors in rows]
