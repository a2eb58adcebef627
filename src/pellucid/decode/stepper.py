"""The decoder one piece at a time, fast: the formulas of model/, on keys and values that stay where they are."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.decode.product import Product
from pellucid.model import Memory, Transformer
from pellucid.model.attention import Attention
from pellucid.model.layers import DecoderLayer, Residual
from pellucid.model.positions import Positions
from pellucid.model.watch import unseen

_ROOM = 16
"""Steps a store is made for beyond those it holds."""


class Steps:
    """What a `Stepper` keeps between two steps.

    The hypotheses of a sentence share one store of keys and values, which are never moved when hypotheses change
    places: `lineage` says which of them each hypothesis descends from. L layers, C places, N of them taken.
    """

    def __init__(self, read: Float[Tensor, "L two B H S E"], absent: Float[Tensor, "B 1 1 S"] | None):
        self.read = read
        self.absent = absent
        self.length = 0
        self.taken = 0
        self.own = read.new_empty(*read.shape[:4], 0, read.shape[5])
        self.lineage: Float[Tensor, "B W N"] | None = None  # None: each sentence has one hypothesis, and its keys only

    def select(self, rows: Int[Tensor, " N"], sentences: Int[Tensor, " M"]) -> None:
        before, after = self.read.shape[2], len(sentences)
        if self.lineage is None and len(rows) > after:
            self.lineage = self.read.new_zeros(before, 1, self.taken)
        if self.lineage is not None:
            self.lineage = (
                self.lineage.flatten(0, 1).index_select(0, rows).unflatten(0, (after, len(rows) // max(after, 1)))
            )
        if after != before:
            self.read = self.read.index_select(2, sentences)
            self.absent = None if self.absent is None else self.absent.index_select(0, sentences)
            self.own = self.own[..., : self.taken, :].index_select(2, sentences)

    def take(self, width: int) -> slice:
        """Places for one more key and value of each hypothesis, and what each of them may read."""
        if self.lineage is None and width > 1:
            self.lineage = self.read.new_zeros(self.read.shape[2], width, self.taken)
        new = slice(self.taken, self.taken + width)
        if new.stop > self.own.shape[4]:
            larger = self.own.new_empty(*self.own.shape[:4], new.stop + _ROOM * width, self.own.shape[5])
            larger[..., : self.taken, :] = self.own[..., : self.taken, :]
            self.own = larger
        if self.lineage is not None:
            itself = torch.full((width, width), -torch.inf, dtype=self.own.dtype, device=self.own.device)
            itself = itself.fill_diagonal_(0.0).expand(len(self.lineage), -1, -1)
            self.lineage = torch.cat([self.lineage, itself], dim=2)
        self.taken = new.stop
        self.length += 1
        return new


class Stepper:
    """Logits of each row's next piece, as `model.decode` with a cache gives them (tests/laws/test_stepper.py).

    The matrices are packed when it is made; `stale` says whether the model has other ones by now.
    """

    def __init__(self, model: Transformer):
        self.model = model
        self.layers = [Layer(layer) for layer in model.decoder if isinstance(layer, DecoderLayer)]
        self.logits = Product(model.output_embedding.weight, model.output_bias)
        self.made_of = versions(model)

    @staticmethod
    def serves(model: Transformer) -> bool:
        """Whether all of this model is written here: positions that add to the scores are not."""
        return type(model.target_positions).bias is Positions.bias

    @property
    def stale(self) -> bool:
        return self.made_of != versions(self.model)

    def begin(self, memory: Memory) -> Steps:
        """The keys and values of the source, made once; a source without padding needs no mask."""
        read = torch.stack([layer.read(memory.states) for layer in self.layers])
        if memory.present.all():
            return Steps(read, None)
        absent = torch.zeros(memory.present.shape, dtype=read.dtype, device=read.device)
        return Steps(read, absent.masked_fill_(~memory.present, -torch.inf)[:, None, None])

    def __call__(self, ids: Int[Tensor, " R"], steps: Steps) -> Float[Tensor, "R V"]:
        model = self.model
        at = model.at(steps.length, steps.length + 1)
        width = len(ids) // steps.read.shape[2]
        new = steps.take(width)
        side_by_side = at.expand(width)
        x = model.target_embedding(ids)[:, None] * model.config.d_model**0.5
        x = model.target_positions.embed(x, at, unseen)[:, 0]
        for layer, own, read in zip(self.layers, steps.own, steps.read, strict=True):
            x = layer(x, own, new, steps.lineage, read, steps.absent, side_by_side, model.target_positions)
        return self.logits(model.decoder_norm(x))


class Layer:
    """One decoder layer: what it does to the newest position of each row."""

    def __init__(self, layer: DecoderLayer):
        self.layer = layer
        own, cross, ffn = layer.self, layer.cross, layer.ffn
        d_model = own.qkv.in_features
        self.qkv = Product(own.qkv.weight, own.qkv.bias)
        self.self_output = Product(own.output.weight, own.output.bias)
        self.q = Product(cross.qkv.weight[:d_model], cross.qkv.bias[:d_model])
        self.kv = Product(cross.qkv.weight[d_model:], cross.qkv.bias[d_model:])
        self.cross_output = Product(cross.output.weight, cross.output.bias)
        self.inner = Product(ffn.inner.weight, ffn.inner.bias)
        self.outer = Product(ffn.outer.weight, ffn.outer.bias)

    def read(self, states: Float[Tensor, "B S D"]) -> Float[Tensor, "two B H S E"]:
        """The keys and values of the source."""
        kv = self.kv(states.flatten(0, 1)).unflatten(0, states.shape[:2])
        return kv.unflatten(2, (2, self.layer.cross.heads, -1)).permute(2, 0, 3, 1, 4)

    def __call__(
        self,
        x: Float[Tensor, "R D"],
        own: Float[Tensor, "two B H C E"],
        new: slice,
        lineage: Float[Tensor, "B W N"] | None,
        read: Float[Tensor, "two B H S E"],
        absent: Float[Tensor, "B 1 1 S"] | None,
        at: Int[Tensor, " W"],
        positions: Positions,
    ) -> Float[Tensor, "R D"]:
        layer = self.layer
        x = around(layer.self_residual, x, lambda y: self.own(y, own, new, lineage, at, positions))
        x = around(layer.cross_residual, x, lambda y: self.cross(y, read, absent))
        return around(layer.ffn_residual, x, lambda y: self.outer(layer.ffn.activation(self.inner(y))))

    def own(
        self,
        y: Float[Tensor, "R D"],
        own: Float[Tensor, "two B H C E"],
        new: slice,
        lineage: Float[Tensor, "B W N"] | None,
        at: Int[Tensor, " W"],
        positions: Positions,
    ) -> Float[Tensor, "R D"]:
        """Attention to what each hypothesis has written, the newest piece included."""
        q, k, v = heads_of(self.qkv(y), own.shape[1], 3, self.layer.self)
        q, k = positions.rotate(q, k, at)
        own[0, :, :, new], own[1, :, :, new] = k, v
        allowed = None if lineage is None else lineage[:, None]
        z = F.scaled_dot_product_attention(q, own[0, :, :, : new.stop], own[1, :, :, : new.stop], allowed)
        return self.self_output(z.transpose(1, 2).reshape(y.shape))

    def cross(
        self,
        y: Float[Tensor, "R D"],
        read: Float[Tensor, "two B H S E"],
        absent: Float[Tensor, "B 1 1 S"] | None,
    ) -> Float[Tensor, "R D"]:
        """Attention to the source: hypotheses of a sentence stand side by side as further queries."""
        (q,) = heads_of(self.q(y), read.shape[1], 1, self.layer.cross)
        z = F.scaled_dot_product_attention(q, read[0], read[1], absent)
        return self.cross_output(z.transpose(1, 2).reshape(y.shape))


def heads_of(x: Float[Tensor, "R many"], sentences: int, parts: int, layer: Attention) -> Float[Tensor, "P B H W E"]:
    """Rows of a sentence side by side as further queries, each head with its share of the width."""
    return x.view(sentences, x.shape[0] // sentences, parts, layer.heads, -1).permute(2, 0, 3, 1, 4)


def around(residual: Residual, x: Float[Tensor, "R D"], part: Callable[[Tensor], Tensor]) -> Float[Tensor, "R D"]:
    """The residual without its dropout."""
    if residual.norm_first:
        return x + part(residual.norm(x))
    return residual.norm(x + part(x))


def versions(model: Transformer) -> list[tuple[int, int]]:
    """What changes when a weight is written or replaced."""
    return [(each.data_ptr(), each._version) for each in model.parameters()]
