"""Attention masks: booleans that are True where a query may read a key."""

from jaxtyping import Bool, Int
from torch import Tensor

from pellucid.model.config import PADDING


def token_mask(tokens: Int[Tensor, "B K"]) -> Bool[Tensor, "B K"]:
    """Return True at every position that holds a token and is not padding."""
    return tokens != PADDING


def key_mask(keys: Bool[Tensor, "B K"]) -> Bool[Tensor, "B 1 1 K"]:
    """Return a mask that lets every query of every head read every key that is not padding."""
    return keys[:, None, None, :]


def causal_mask(q_positions: Int[Tensor, " Q"], k_positions: Int[Tensor, " K"]) -> Bool[Tensor, "1 1 Q K"]:
    """Return a mask that lets a query read its own position and those before it (paper, 3.2.3)."""
    # It needs no padding mask: padding stands at the end of a row, so no token has padding among
    # the positions before it. Queries at padding read real tokens, but their outputs are never
    # used.
    return (k_positions[None, :] <= q_positions[:, None])[None, None]
