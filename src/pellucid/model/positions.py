"""Where order enters the model: one class for each way, overriding up to three methods that do nothing."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pellucid.model.watch import Watch


class Positions(nn.Module):
    """No positions: the model sees a bag of pieces."""

    def embed(self, x: Float[Tensor, "B Q D"], at: Int[Tensor, " Q"], watch: Watch) -> Float[Tensor, "B Q D"]:
        """The embeddings with their positions added."""
        return x

    def rotate(
        self,
        q: Float[Tensor, "B H Q E"],
        k: Float[Tensor, "B H Q E"],
        at: Int[Tensor, " Q"],
    ) -> tuple[Float[Tensor, "B H Q E"], Float[Tensor, "B H Q E"]]:
        """How the queries and keys of self-attention, which stand at the same positions, are turned."""
        return q, k

    def bias(self, q_at: Int[Tensor, " Q"], k_at: Int[Tensor, " K"]) -> Float[Tensor, "1 H Q K"] | None:
        """What is added to the scores of self-attention."""
        return None


class Sinusoidal(Positions):
    """Sine on dimensions 2i, cosine on 2i + 1, of position / 10000^(2i / d_model) (paper, 3.5)."""

    table: Tensor

    def __init__(self, d_model: int, max_positions: int, heads: int):
        super().__init__()
        self.register_buffer("table", sinusoids(max_positions, d_model), persistent=False)

    def embed(self, x, at, watch):
        return x + watch("positions", self.table[at])


class Learned(Positions):
    """One trained vector for each position."""

    def __init__(self, d_model: int, max_positions: int, heads: int):
        super().__init__()
        self.table = nn.Parameter(torch.empty(max_positions, d_model))
        nn.init.normal_(self.table, std=d_model**-0.5)

    def embed(self, x, at, watch):
        return x + watch("positions", self.table[at])


class Rotary(Positions):
    """Turns each pair of numbers of a query and a key by an angle that grows with its position (Su et al. 2021, 3.2.2).

    The product of a query at m and a key at n then depends on m - n alone.
    """

    sine: Tensor
    cosine: Tensor

    def __init__(self, d_model: int, max_positions: int, heads: int):
        super().__init__()
        table = sinusoids(max_positions, d_model // heads)
        self.register_buffer("sine", table[:, 0::2].contiguous(), persistent=False)
        self.register_buffer("cosine", table[:, 1::2].contiguous(), persistent=False)

    def rotate(self, q, k, at):
        sine, cosine = self.sine[at], self.cosine[at]
        return rotate_pairs(q, sine, cosine), rotate_pairs(k, sine, cosine)


class Unordered(Positions):
    """No positions, made with the same arguments as the others."""

    def __init__(self, d_model: int, max_positions: int, heads: int):
        super().__init__()


POSITIONS: dict[str, type[Positions]] = {
    "sinusoidal": Sinusoidal,
    "learned": Learned,
    "rotary": Rotary,
    "none": Unordered,
}


def sinusoids(positions: int, d_model: int) -> Float[Tensor, "P D"]:
    """The table of section 3.5, computed in float64 and rounded once.

    >>> sinusoids(4, 512)[3, :3].tolist()  # sin 3, cos 3, sin(3 / 10000^(2/512))
    [0.14112000167369843, -0.9899924993515015, 0.24508541822433472]
    """
    wavelengths = 10000.0 ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    angles = torch.arange(positions, dtype=torch.float64)[:, None] / wavelengths
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).float()


def rotate_pairs(
    x: Float[Tensor, "B H Q E"], sine: Float[Tensor, "Q half"], cosine: Float[Tensor, "Q half"]
) -> Float[Tensor, "B H Q E"]:
    """Rotate the pairs (x_2i, x_2i+1) by the angles whose sines and cosines are given."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cosine - odd * sine, even * sine + odd * cosine], dim=-1).flatten(-2)
