"""Who may attend to whom, as booleans that say yes."""

from jaxtyping import Bool, Int
from torch import Tensor

from pellucid.sizes import PADDING


def token_mask(ids: Int[Tensor, "B K"]) -> Bool[Tensor, "B K"]:
    """The positions that hold a piece, not padding."""
    return ids != PADDING


def key_mask(keys: Bool[Tensor, "B K"]) -> Bool[Tensor, "B 1 1 K"]:
    """Every query may read every key that is there."""
    return keys[:, None, None, :]


def causal_mask(q_at: Int[Tensor, " Q"], k_at: Int[Tensor, " K"]) -> Bool[Tensor, "1 1 Q K"]:
    """A query may read its own position and those before it (paper, 3.2.3).

    Padding stands at the end of a row, so among the earlier positions of a piece there is none: the triangle alone
    keeps padding out of every row that counts.
    """
    return (k_at[None, :] <= q_at[:, None])[None, None]
