"""Position encodings, the only place where order enters the model: a class for each kind."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pellucid.model.watch import Watch


class Positions(nn.Module):
    """The base of all position encodings: three methods that do nothing; subclasses override some.

    By itself it is no encoding: the model sees a bag of tokens.
    """

    def embed(self, x: Float[Tensor, "B Q D"], position_ids: Int[Tensor, " Q"], watch: Watch) -> Float[Tensor, "B Q D"]:
        """Return the embeddings `x` with their positions added."""
        return x

    def rotate(
        self,
        q: Float[Tensor, "B H Q E"],
        k: Float[Tensor, "B H Q E"],
        position_ids: Int[Tensor, " Q"],
    ) -> tuple[Float[Tensor, "B H Q E"], Float[Tensor, "B H Q E"]]:
        """Return queries and keys of self-attention, rotated by their positions, which they share."""
        return q, k

    def bias(self, q_positions: Int[Tensor, " Q"], k_positions: Int[Tensor, " K"]) -> Float[Tensor, "1 H Q K"] | None:
        """Return numbers to add to the scores of self-attention, or None."""
        return None


class Sinusoidal(Positions):
    """Fixed vectors: sine and cosine of position / 10000^(2i / d_model) in 2i and 2i + 1 (paper, 3.5)."""

    table: Tensor

    def __init__(self, d_model: int, max_positions: int, heads: int):
        super().__init__()
        # A buffer moves with the model to its device and type; it is computed, so it is not saved
        # with the weights.
        self.register_buffer("table", sinusoids(max_positions, d_model), persistent=False)

    def embed(self, x, position_ids, watch):
        return x + watch("positions", self.table[position_ids])


class Learned(Positions):
    """One trained vector for each position (paper, 3.5, the alternative)."""

    def __init__(self, d_model: int, max_positions: int, heads: int):
        super().__init__()
        self.table = nn.Parameter(torch.empty(max_positions, d_model))
        # The length of a vector starts near 1, well below the embeddings' sqrt(d_model) that it is
        # added to.
        nn.init.normal_(self.table, std=d_model**-0.5)

    def embed(self, x, position_ids, watch):
        return x + watch("positions", self.table[position_ids])


class Rotary(Positions):
    """Rotate pairs of numbers of queries and keys by angles proportional to the position (Su 2021).

    The product of a query at position m and a key at position n then depends on m - n alone.
    """

    sine: Tensor
    cosine: Tensor

    def __init__(self, d_model: int, max_positions: int, heads: int):
        super().__init__()
        # The sinusoidal table of one head's width has the sine and cosine of each angle in turn.
        table = sinusoids(max_positions, d_model // heads)
        self.register_buffer("sine", table[:, 0::2].contiguous(), persistent=False)
        self.register_buffer("cosine", table[:, 1::2].contiguous(), persistent=False)

    def rotate(self, q, k, position_ids):
        sine, cosine = self.sine[position_ids], self.cosine[position_ids]
        return rotate_pairs(q, sine, cosine), rotate_pairs(k, sine, cosine)


class Unordered(Positions):
    """No position encoding, constructed with the same arguments as the other kinds."""

    def __init__(self, d_model: int, max_positions: int, heads: int):
        super().__init__()


# A new encoding is one more class and one more line here; its name also goes into `Positions` in
# model/config.py.
POSITIONS: dict[str, type[Positions]] = {
    "sinusoidal": Sinusoidal,
    "learned": Learned,
    "rotary": Rotary,
    "none": Unordered,
}


def adds_bias(positions: str) -> bool:
    """Whether the position encoding of this name adds numbers to the scores of self-attention."""
    return POSITIONS[positions].bias is not Positions.bias


def sinusoids(positions: int, d_model: int) -> Float[Tensor, "P D"]:
    """Return the table of sines and cosines of section 3.5 of the paper, one row for each position.

    >>> sinusoids(4, 512)[3, :3].tolist()  # sin 3, cos 3, sin(3 / 10000^(2/512))
    [0.14112000167369843, -0.9899924993515015, 0.24508541822433472]
    """
    # float64 until the end: the angles are rounded once, not at each operation.
    wavelengths = 10000.0 ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    angles = torch.arange(positions, dtype=torch.float64)[:, None] / wavelengths
    # (P D/2 2) flattened puts each cosine beside its sine; concatenating would put all cosines
    # behind all sines.
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).float()


def rotate_pairs(
    x: Float[Tensor, "B H Q E"], sine: Float[Tensor, "Q half"], cosine: Float[Tensor, "Q half"]
) -> Float[Tensor, "B H Q E"]:
    """Rotate the pairs (x_2i, x_2i+1) by the angles whose sines and cosines are given."""
    # Neighbours are a pair, as in the paper; other libraries pair x_i with x_(i + E/2).
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cosine - odd * sine, even * sine + odd * cosine], dim=-1).flatten(-2)
